package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/rewrite"
)

// What users and clients may have otherwise than the configuration says (rewrite.Choices).

const (
	maySetKey = "client.may_set"
	usersKey  = "client.users"
)

// takeChoices notes what the keys say of which that is so, as they are written; auto is not said.
// It gives users what they have otherwise; validate tells of what is wrong there.
func (c *Config) takeChoices() {
	says := rewrite.Choices{}
	for key, value := range map[string]string{rewrite.CarryOutKey: c.DDLCarryOut, rewrite.AddColumnDefaultKey: c.AddColumnDefault,
		rewrite.InTransactionsKey: c.DDLInTransactions, rewrite.SetNotNullKey: c.SetNotNull, rewrite.RetypeKey: c.AlterColumnType, rewrite.EnumKey: c.CreateEnum,
		rewrite.CreateIndexWaitKey: strconv.FormatBool(c.Rewrite.Rules.AwaitIndex)} {
		if value != "auto" {
			says = says.With(key, value)
		}
	}
	c.Rewrite.Choices = says
	c.Proxy.Users = map[string]rewrite.Choices{}
	for _, entry := range c.Users {
		if user, key, value, err := userChoice(entry); err == nil {
			c.Proxy.Users[user] = c.Proxy.Users[user].With(key, value)
		}
	}
}

// userChoice reads an entry of client.users. A user's name may have any character.
func userChoice(entry string) (user, key, value string, err error) {
	i := strings.LastIndexByte(entry, ':')
	key, value, ok := strings.Cut(entry[i+1:], "=")
	switch {
	case i < 1 || !ok:
		return "", "", "", fmt.Errorf("%q: want user:key=value, such as migrator:%s=all", entry, rewrite.CarryOutKey)
	case !rewrite.IsChoice(key):
		return "", "", "", fmt.Errorf("%q: %s cannot be set by user: want %s", entry, key, oneOf(rewrite.ChoiceKeys()))
	}
	if value, ok = rewrite.ReadChoice(key, value); !ok {
		return "", "", "", fmt.Errorf("%q: want %s to be %s", entry, key, oneOf(rewrite.ChoiceValues(key)))
	}
	return entry[:i], key, value, nil
}

// choices looks after the two keys.
func (v *validation) choices() {
	c := v.config
	fits := func(name, key string) {
		v.want(c.rewrites() && c.Proxy.Kind == proxy.DSQL, name, "PostgreSQL takes such DDL, and nothing is read where rewrite.enabled is false; leave it empty")
		v.want(key != rewrite.SetNotNullKey || c.AddConstraint == "steps", name, rewrite.SetNotNullKey+" is of use with "+rewrite.AddConstraintKey+" at steps only; take it out")
	}
	for _, key := range c.Proxy.MaySet {
		if !rewrite.IsChoice(key) {
			v.errs = append(v.errs, fmt.Errorf("%s: %q: clients cannot choose it: want %s", maySetKey, key, oneOf(rewrite.ChoiceKeys())))
			continue
		}
		fits(maySetKey, key)
	}
	said := map[string]bool{}
	for _, entry := range c.Users {
		user, key, _, err := userChoice(entry)
		if err != nil {
			v.errs = append(v.errs, fmt.Errorf("%s: %w", usersKey, err))
			continue
		}
		v.want(!said[user+":"+key], usersKey, "the key is said twice of a user; take one out: "+entry)
		said[user+":"+key] = true
		fits(usersKey, key)
	}
}
