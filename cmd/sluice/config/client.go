package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// Client is the part of the configuration that limits how long a client may be idle. Client also lists the keys that
// users and clients may override (rewrite.ClientOptions).
type Client struct {
	Users []string // the values of single users, each as user:key=value
}

const (
	maySetKey = "client.may_set"
	usersKey  = "client.users"
)

var clientKeys = []Key{
	{Name: "client.idle_timeout", Default: time.Duration(0), field: func(c *Config) any { return &c.Proxy.ClientIdleTimeout },
		help: "Close a client that is idle outside a transaction for so long. 0: never."},
	{Name: "client.idle_transaction_timeout", Default: time.Duration(0), field: func(c *Config) any { return &c.Proxy.IdleTransactionTimeout },
		help: "End a session that is idle inside a transaction for so long (25P03). 0: never."},

	{Name: "client.commit_grace", Default: 10 * time.Second, field: func(c *Config) any { return &c.Proxy.CommitGrace },
		help: "How long a statement that may commit goes on for a client that has said goodbye, before its backend is given up without stopping it. 0: until it ends."},
	{Name: "client.tcp_keepalive", Default: 30 * time.Second, field: func(c *Config) any { return &c.Proxy.ClientPathLimit },
		help: "How soon a client whose host is gone loses its connection, and with it its transaction. A client that only reads nothing does not count. 0: when the kernel gives up."},
	{Name: maySetKey, Default: []string{}, field: func(c *Config) any { return &c.Proxy.MaySet },
		help: "Keys that clients may override for themselves, by startup options (options=-c sluice.<key>=<value>) and by SET sluice.<key>. A NOTICE names the guarantee that the value weakens. Allowed are " + strings.Join(rewrite.ClientOptionKeys(), ", ") + ". Kind dsql only."},
	{Name: usersKey, Default: []string{}, field: func(c *Config) any { return &c.Client.Users },
		help: "Values of the same keys for single users, each as user:key=value, independent of client.may_set: migrator:ddl.carry_out=all. The user is the client's login name. Kind dsql only."},
}

// deriveClient stores the configured values, other than auto, of the keys that clients may override. It also parses
// the values for single users. The method validate reports invalid values.
func (c *Config) deriveClient() {
	written := rewrite.ClientOptions{}
	for key, value := range map[string]string{rewrite.CarryOutKey: c.DDL.CarryOut, alter.AddColumnDefaultKey: c.DDL.AddColumnDefault,
		rewrite.InTransactionsKey: c.DDL.InTransactions, alter.SetNotNullKey: c.DDL.SetNotNull, alter.RetypeKey: c.DDL.AlterColumnType, alter.EnumKey: c.DDL.CreateEnum,
		rewrite.CreateIndexWaitKey: strconv.FormatBool(c.Rewrite.Rules.AwaitIndex)} {
		if value != "auto" {
			written = written.WithOption(key, value)
		}
	}
	c.Rewrite.Choices = written
	c.Proxy.Users = map[string]rewrite.ClientOptions{}
	for _, entry := range c.Client.Users {
		if user, key, value, err := parseUserChoice(entry); err == nil {
			c.Proxy.Users[user] = c.Proxy.Users[user].WithOption(key, value)
		}
	}
}

// parseUserChoice parses an entry of client.users, a key's value for one user. A user's name may contain any character.
func parseUserChoice(entry string) (user, key, value string, err error) {
	i := strings.LastIndexByte(entry, ':')
	key, value, ok := strings.Cut(entry[i+1:], "=")
	switch {
	case i < 1 || !ok:
		return "", "", "", fmt.Errorf("%q: want user:key=value, such as migrator:%s=all", entry, rewrite.CarryOutKey)
	case !rewrite.IsClientOption(key):
		return "", "", "", fmt.Errorf("%q: %s cannot be set by user: want %s", entry, key, formatChoices(rewrite.ClientOptionKeys()))
	}
	if value, ok = rewrite.ParseClientOption(key, value); !ok {
		return "", "", "", fmt.Errorf("%q: want %s to be %s", entry, key, formatChoices(rewrite.ClientOptionValues(key)))
	}
	return entry[:i], key, value, nil
}

// checkClient checks client.may_set and client.users.
func (v *validator) checkClient() {
	c := v.config
	fits := func(name, key string) {
		v.require(c.rewritesForDSQL(), name, "PostgreSQL takes such DDL, and nothing is read where rewrite.enabled is false; leave it empty")
		v.require(key != alter.SetNotNullKey || c.DDL.AddConstraint == "steps", name, alter.SetNotNullKey+" is of use with "+alter.AddConstraintKey+" at steps only; take it out")
	}
	for _, key := range c.Proxy.MaySet {
		if !rewrite.IsClientOption(key) {
			v.errs = append(v.errs, fmt.Errorf("%s: %q: clients cannot choose it: want %s", maySetKey, key, formatChoices(rewrite.ClientOptionKeys())))
			continue
		}
		fits(maySetKey, key)
	}
	seen := map[string]bool{}
	for _, entry := range c.Client.Users {
		user, key, _, err := parseUserChoice(entry)
		if err != nil {
			v.errs = append(v.errs, fmt.Errorf("%s: %w", usersKey, err))
			continue
		}
		v.require(!seen[user+":"+key], usersKey, "the key is said twice of a user; take one out: "+entry)
		seen[user+":"+key] = true
		fits(usersKey, key)
	}
}
