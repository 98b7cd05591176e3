package rewrite

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// OwnPrefix is the prefix of Sluice's own settings. By SET of one of them, a client overrides a configuration key.
const OwnPrefix = "sluice."

// ClientOptions are the values of the configuration keys that a user or a client may override. The value "" does not
// override the key. ClientOptions are comparable.
type ClientOptions [choiceCount]string

// These are the indexes of configuration keys in ClientOptions, and their number.
const (
	carryOutChoice = iota
	addColumnDefaultChoice
	inTransactionsChoice
	setNotNullChoice
	alterTypeChoice
	enumChoice
	awaitIndexChoice
	choiceCount
)

// CarryOutKey is the configuration key whose value is the default of other keys in ClientOptions. CreateIndexWaitKey is
// the key that sets Rules.AwaitIndex.
const (
	CarryOutKey        = "ddl.carry_out"
	CreateIndexWaitKey = "rewrite.create_index_wait"
)

// These are values of configuration keys that several keys or rules share.
const (
	carryOutAll   = "all"
	refusePolicy  = "refuse"
	checkPolicy   = "check"
	answersAtOnce = "false"
)

// clientOption is a configuration key that a user or a client may override.
type clientOption struct {
	key    string
	values []string
	// losses maps a value of the key to what a client gives up by choosing it. A value without a loss is missing.
	losses map[string]string
}

const giveParts = "a transaction with DDL is committed in parts, and a ROLLBACK takes back the last part only"

var optionTable = [choiceCount]clientOption{
	carryOutChoice: {CarryOutKey, []string{"exact", carryOutAll},
		map[string]string{carryOutAll: "DDL that DSQL has nothing exactly like is carried out in another way, each time with a WARNING"}},
	addColumnDefaultChoice: {alter.AddColumnDefaultKey, []string{refusePolicy, alter.BackfillPolicy},
		map[string]string{alter.BackfillPolicy: "columns with a DEFAULT are added in several transactions, and without NOT NULL"}},
	inTransactionsChoice: {InTransactionsKey, InTransactionsChoices(),
		map[string]string{CommitDDL.String(): giveParts, CommitDrops.String(): giveParts + "; a DROP too is committed early"}},
	setNotNullChoice: {alter.SetNotNullKey, []string{refusePolicy, checkPolicy},
		map[string]string{checkPolicy: "a CHECK stands for NOT NULL, and its errors have the code 23514"}},
	alterTypeChoice: {alter.RetypeKey, []string{refusePolicy, alter.RetypePolicy},
		map[string]string{alter.RetypePolicy: "a column whose type changes is made anew in several transactions, and becomes the table's last"}},
	enumChoice: {alter.EnumKey, []string{refusePolicy, alter.DomainPolicy},
		map[string]string{alter.DomainPolicy: "a domain over text stands for an enumeration: its values compare and sort as texts"}},
	awaitIndexChoice: {CreateIndexWaitKey, []string{"true", answersAtOnce},
		map[string]string{answersAtOnce: "CREATE INDEX is answered before the index can be used"}},
}

// ClientOptionKeys returns the configuration keys that a user or a client may override.
func ClientOptionKeys() []string {
	var keys []string
	for i := range optionTable {
		keys = append(keys, optionTable[i].key)
	}
	return keys
}

// findClientOption returns the index and description of a configuration key, or a nil c if clients cannot override it.
func findClientOption(key string) (i int, c *clientOption) {
	i = slices.IndexFunc(optionTable[:], func(c clientOption) bool { return c.key == key })
	if i < 0 {
		return i, nil
	}
	return i, &optionTable[i]
}

// IsClientOption reports whether a user or a client may override a configuration key.
func IsClientOption(key string) bool {
	_, c := findClientOption(key)
	return c != nil
}

// ClientOptionValues returns the possible values of a configuration key, or nil if clients cannot override the key.
func ClientOptionValues(key string) []string {
	if _, c := findClientOption(key); c != nil {
		return c.values
	}
	return nil
}

// ParseClientOption returns a value of a configuration key in the spelling of the configuration. It accepts any letter
// case, and for booleans also on, off, yes, no, 1 and 0. ok is false for a value that the key cannot have.
func ParseClientOption(key, value string) (normal string, ok bool) {
	value = strings.ToLower(strings.TrimSpace(value))
	values := ClientOptionValues(key)
	if slices.Contains(values, "true") {
		switch value {
		case "on", "yes", "1":
			value = "true"
		case "off", "no", "0":
			value = "false"
		}
	}
	return value, slices.Contains(values, value)
}

// OptionLoss returns what a client gives up if it chooses a value of a configuration key, or "" for nothing.
func OptionLoss(key, value string) string {
	if _, c := findClientOption(key); c != nil {
		return c.losses[value]
	}
	return ""
}

// WithOption returns c with one key set to value, a result of ParseClientOption. The value "" removes the override.
func (c ClientOptions) WithOption(key, value string) ClientOptions {
	if i, found := findClientOption(key); found != nil {
		c[i] = value
	}
	return c
}

// WithDefaults returns c, with values from below for the keys that c does not override.
func (c ClientOptions) WithDefaults(below ClientOptions) ClientOptions {
	for i := range c {
		if c[i] == "" {
			c[i] = below[i]
		}
	}
	return c
}

// applyTo returns the rules r, changed by the client options c. c sets a rule by the rule's own key or by
// ddl.carry_out. If c sets neither key, the rule stays as it is in r.
func (c ClientOptions) applyTo(r Rules) Rules {
	or := func(i int, carried string) (value string, said bool) {
		switch all := c[carryOutChoice]; {
		case c[i] != "":
			return c[i], true
		case all == carryOutAll:
			return carried, true
		default:
			return refusePolicy, all != ""
		}
	}
	if value, said := or(addColumnDefaultChoice, alter.BackfillPolicy); said {
		r.Backfill = value == alter.BackfillPolicy
	}
	if value, said := or(inTransactionsChoice, CommitDrops.String()); said {
		r.InTransactions = ParseInTransactions(value)
	}
	if value, said := or(setNotNullChoice, checkPolicy); said {
		r.NotNullCheck = r.Constraints && value == checkPolicy
	}
	if value, said := or(alterTypeChoice, alter.RetypePolicy); said {
		r.Retype = value == alter.RetypePolicy
	}
	if value, said := or(enumChoice, alter.DomainPolicy); said {
		r.Enums = value == alter.DomainPolicy
	}
	if c[awaitIndexChoice] != "" {
		r.AwaitIndex = c[awaitIndexChoice] != answersAtOnce
	}
	return r
}

// ruleVariant holds those fields of Rules that a client's options can change.
type ruleVariant struct {
	backfill, notNullCheck, retype, enums, awaitIndex bool
	inTransactions                                    DDLInTransactions
}

func (r *Rules) variant() ruleVariant {
	return ruleVariant{r.Backfill, r.NotNullCheck, r.Retype, r.Enums, r.AwaitIndex, r.InTransactions}
}

// ForOptions returns the planner for a session with the client options c, which override the configuration. The number
// of planners is bounded, because each key has few values. All planners share the cache, the counts and the limits.
func (p *Planner) ForOptions(c ClientOptions) *Planner {
	if c == (ClientOptions{}) {
		return p.basePlanner()
	}
	return p.forNonEmptyOptions(c)
}

// forNonEmptyOptions does the work of ForOptions for a session that has client options. Most sessions have none.
func (p *Planner) forNonEmptyOptions(c ClientOptions) *Planner {
	base := p.basePlanner()
	rules := c.WithDefaults(base.config.Choices).applyTo(base.config.Rules)
	v := rules.variant()
	if v == base.config.Rules.variant() {
		return base
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	made := p.variants[v]
	if made == nil {
		made = &Planner{plannerState: p.plannerState, config: base.config, of: base, number: uint64(len(p.variants) + 1)}
		made.config.Rules = rules
		if p.variants == nil {
			p.variants = map[ruleVariant]*Planner{}
		}
		p.variants[v] = made
	}
	return made
}

// basePlanner returns the planner for sessions without client options. p was made from it, or is this planner.
func (p *Planner) basePlanner() *Planner {
	if p.of != nil {
		return p.of
	}
	return p
}

// VariantNumber returns the number of a planner that ForOptions made. 0 means a planner without client options.
func (p *Planner) VariantNumber() uint64 { return p.number }

// InTransactions says how the planner's rules handle DDL in a transaction with other statements.
func (p *Planner) InTransactions() DDLInTransactions { return p.config.Rules.InTransactions }

// OptionValue returns the value that a configuration key has for a session with the client options c.
func (p *Planner) OptionValue(key string, c ClientOptions) string {
	base := p.basePlanner()
	all := c.WithDefaults(base.config.Choices)
	rules := all.applyTo(base.config.Rules)
	pick := func(yes bool, is, isNot string) string {
		if yes {
			return is
		}
		return isNot
	}
	switch key {
	case CarryOutKey:
		return pick(all[carryOutChoice] == carryOutAll, carryOutAll, "exact")
	case alter.AddColumnDefaultKey:
		return pick(rules.Backfill, alter.BackfillPolicy, refusePolicy)
	case InTransactionsKey:
		return rules.InTransactions.String()
	case alter.SetNotNullKey:
		return pick(rules.NotNullCheck, checkPolicy, refusePolicy)
	case alter.RetypeKey:
		return pick(rules.Retype, alter.RetypePolicy, refusePolicy)
	case alter.EnumKey:
		return pick(rules.Enums, alter.DomainPolicy, refusePolicy)
	case CreateIndexWaitKey:
		return pick(rules.AwaitIndex, "true", answersAtOnce)
	}
	return ""
}

// dependsOnOptions reports whether a client's options may change the plan. They affect only DDL.
func (p *Plan) dependsOnOptions() bool { return p.Kind == DDL }

// VariantNumberIn returns the VariantNumber of the planner by, or 0 if the plan does not depend on client options.
func (p *Plan) VariantNumberIn(by *Planner) uint64 {
	if p.dependsOnOptions() {
		return by.number
	}
	return 0
}
