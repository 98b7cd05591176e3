package options

import (
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Client has the options of one client: those of its user, and the planner for the client's current options.
type Client struct {
	user *userOptions
	// planner is the planner for the options in the field planned, where nil means no options. planner is nil before
	// the first query.
	planner *rewrite.Planner
	planned *rewrite.ClientOptions
}

// State has the facts about a session on which the options of its client depend, besides the Client.
type State struct {
	// Settings has all settings of the client. Client.Set stores options there.
	Settings *settings.Client
	// Block has the options of a block that is committed in parts. It is nil where the session never commits in parts.
	Block *BlockOptions
	// Current are the client's current options, or nil for none.
	Current *rewrite.ClientOptions
	// Policy says how the session commits transactions with DDL. PolicyFixed means that the open block has run a
	// statement, so that Policy cannot change.
	Policy      rewrite.DDLInTransactions
	PolicyFixed bool
}

// Choice is a configuration key that a client or its user has set.
type Choice struct {
	Key string
	// Loss is the NOTICE for a value that weakens a guarantee, or nil for any other value.
	Loss *wire.Error
}

// codeNotice is the SQLSTATE that PostgreSQL gives a notice that has no specific code.
const codeNotice = "00000"

// NewClient returns the options of a client with the login name user.
func (r *Rules) NewClient(user string) Client {
	if u := r.users[user]; u != nil {
		return Client{user: u}
	}
	return Client{user: r.others}
}

// Planner returns the planner for a client's next query. now are the client's current options, or nil. Usually a call
// of Planner costs two comparisons.
func (c *Client) Planner(now *rewrite.ClientOptions) *rewrite.Planner {
	if now != c.planned || c.planner == nil {
		c.planned, c.planner = now, c.plannerFor(now)
	}
	return c.planner
}

// LastPlanner returns the planner that Planner has returned last.
func (c *Client) LastPlanner() *rewrite.Planner { return c.planner }

// plannerFor returns the planner for a client's options, which override the options of its user.
func (c *Client) plannerFor(now *rewrite.ClientOptions) *rewrite.Planner {
	return c.user.rules.planner.ForOptions(c.withUser(now))
}

// withUser returns the options now, with the user's options for keys that now does not set. now may be nil.
func (c *Client) withUser(now *rewrite.ClientOptions) rewrite.ClientOptions {
	if now == nil {
		return c.user.values
	}
	return now.WithDefaults(c.user.values)
}

// Check returns the value that a change gives a setting of Sluice, in normal form. "" means the default. Check changes
// nothing. Calls before the statement's turn and in the turn return the same value. The error is for the client.
func (c *Client) Check(change *rewrite.SettingChange, at *State) (value string, err *wire.Error) {
	rules := c.user.rules
	key, _ := settings.ProxySettingKey(change.Name)
	text := change.Text
	switch {
	case resetsToStartup(change):
		if text = at.Settings.Startup.StartupLocal[change.Name]; text == "" {
			err = rules.checkAllowed(change.Name)
		} else {
			text, err = rules.NormalValue(change.Name, text)
		}
	case text == "" && change.SQL != "''": // a list
		if err = rules.checkAllowed(change.Name); err == nil {
			err = settings.ErrOneArgument(change.Name)
		}
	default:
		text, err = rules.NormalValue(change.Name, text)
	}
	if err != nil {
		return "", err
	}
	after := rewrite.ClientOptions{}
	if at.Current != nil {
		after = *at.Current
	}
	after = after.WithOption(key, text)
	if at.PolicyFixed && c.plannerFor(&after).InTransactions() != at.Policy {
		return "", errTooLate(change.Name)
	}
	return text, nil
}

// Set carries out SET, SET LOCAL, RESET or SET TO DEFAULT of a setting of Sluice. The setting decides how Sluice
// plans the next query. set is what the client has chosen, or nil after a RESET. After an error, which is for the
// client, nothing has changed.
func (c *Client) Set(change *rewrite.SettingChange, at *State) (set *Choice, err error) {
	value, bad := c.Check(change, at)
	if bad != nil {
		return nil, bad
	}
	key, _ := settings.ProxySettingKey(change.Name)
	txOnly := change.Action == rewrite.SetLocal
	if resetsToStartup(change) {
		err = at.Settings.ResetLocalToStartup(change.Name, txOnly)
	} else {
		err = at.Settings.StoreLocal(change.Name, value, txOnly)
		set = newChoice(key, value)
	}
	if err == nil {
		at.Block.set(key, value)
	}
	return set, err
}

// resetsToStartup reports whether a change of a setting restores the setting's value from the startup packet.
func resetsToStartup(c *rewrite.SettingChange) bool { return c.Action == rewrite.Reset || c.Default }

func newChoice(key, value string) *Choice {
	set := &Choice{Key: key}
	if gives := rewrite.OptionLoss(key, value); gives != "" {
		set.Loss = &wire.Error{Code: codeNotice, Message: key + " is " + value + " for this client: " + gives}
	}
	return set
}

// StartupChoices returns the options that a client has from its startup packet or its user. The startup packet's
// options are now, or nil. A user's own options need no notice.
func (c *Client) StartupChoices(now *rewrite.ClientOptions) (set []*Choice) {
	if now == nil && c.user == c.user.rules.others {
		return nil
	}
	for i, key := range rewrite.ClientOptionKeys() {
		if now != nil && now[i] != "" {
			set = append(set, newChoice(key, now[i]))
		} else if c.user.values[i] != "" {
			set = append(set, &Choice{Key: key})
		}
	}
	return set
}

// Shown returns the value that SHOW answers for a setting of Sluice. The value may be the client's, its user's or the
// configuration's. now are the client's current options, or nil. replays says whether Sluice replays the client's
// transactions. The error is for the client.
func (c *Client) Shown(name string, now *rewrite.ClientOptions, replays bool) (string, *wire.Error) {
	key, _ := settings.ProxySettingKey(name)
	switch {
	case name == RetrySetting && replays:
		return "on", nil
	case name == RetrySetting:
		return "off", nil
	case !rewrite.IsClientOption(key):
		return "", errUnknown(name)
	}
	return c.user.rules.planner.OptionValue(key, c.withUser(now)), nil
}
