package options

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// RetrySetting is the setting that turns replay off ("off") or on ("on"). A client can set it at the startup only.
const RetrySetting = rewrite.OwnPrefix + "retry"

// Rules are the configured rules for clients' options. The clients of a process share its Rules, which never change.
type Rules struct {
	planner *rewrite.Planner
	maySet  []string
	users   map[string]*userOptions
	others  *userOptions // of users without configured options
}

// userOptions are the options that the configuration gives to a user.
type userOptions struct {
	rules  *Rules
	values rewrite.ClientOptions
}

// NewRules returns the Rules of a process. planner plans for clients without options, maySet lists the keys that
// clients may set, and users has the options of single users.
func NewRules(planner *rewrite.Planner, maySet []string, users map[string]rewrite.ClientOptions) *Rules {
	r := &Rules{planner: planner, maySet: maySet, users: make(map[string]*userOptions, len(users))}
	for name, values := range users {
		r.users[name] = &userOptions{r, values}
	}
	r.others = &userOptions{rules: r}
	return r
}

// NormalValue returns a client's value for a setting of Sluice, in normal form. The error is for the client. As in
// PostgreSQL, the name is checked first, then the permission, then the value.
func (r *Rules) NormalValue(name, value string) (string, *wire.Error) {
	if err := r.checkAllowed(name); err != nil {
		return "", err
	}
	key, _ := settings.ProxySettingKey(name)
	normal, ok := rewrite.ParseClientOption(key, value)
	if !ok {
		return "", &wire.Error{Code: "22023", Message: fmt.Sprintf("invalid value for parameter \"%s\": \"%s\"", name, value),
			Hint: "Available values: " + strings.Join(rewrite.ClientOptionValues(key), ", ") + "."}
	}
	return normal, nil
}

// checkAllowed returns an error if clients may not SET the given setting of Sluice, and nil otherwise.
func (r *Rules) checkAllowed(name string) *wire.Error {
	key, _ := settings.ProxySettingKey(name)
	switch {
	case name == RetrySetting:
		return &wire.Error{Code: "55P02", Message: "parameter \"" + name + "\" cannot be set after connection start",
			Hint: "Give it at the startup, options=-c " + name + "=off, or write /* sluice: no-retry */ in a statement of the transaction."}
	case !rewrite.IsClientOption(key):
		return errUnknown(name)
	case !slices.Contains(r.maySet, key):
		return &wire.Error{Code: "42501", Message: "permission denied to set parameter \"" + name + "\"",
			Detail: "Its key is not among those that clients may choose.", Hint: "Add " + key + " to client.may_set in Sluice's configuration, or set it there, for all or by user (client.users)."}
	}
	return nil
}

// ParseRetry returns whether a startup's value of RetrySetting turns replay off. The error refuses the startup.
func ParseRetry(value string) (off bool, err *wire.Error) {
	off = settings.EqualValues(value, "off")
	if !off && !settings.EqualValues(value, "on") {
		return false, &wire.Error{Fatal: true, Code: "22023", Message: "invalid value for parameter \"" + RetrySetting + "\": \"" + value + "\"",
			Hint: "Available values: on, off."}
	}
	return off, nil
}

// errUnknown returns the error for a setting sluice.* that does not exist.
func errUnknown(name string) *wire.Error {
	return &wire.Error{Code: "42704", Message: "unrecognized configuration parameter \"" + name + "\"",
		Hint: "Clients may choose, where client.may_set lists the key: sluice." + strings.Join(rewrite.ClientOptionKeys(), ", sluice.") + "."}
}

// errTooLate returns the error that refuses to change how a block is committed after the block has run a statement.
func errTooLate(name string) *wire.Error {
	return &wire.Error{Code: "25001", Message: "\"" + name + "\" must be set before any other statement of the transaction",
		Detail: "It would change how the transaction is committed that is under way.", Hint: "Set it behind BEGIN, or outside of a transaction."}
}
