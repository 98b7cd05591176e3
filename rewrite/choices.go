package rewrite

import (
	"slices"
	"strings"
)

// OwnPrefix is the prefix of Sluice's own settings, by which clients set their Choices.
const OwnPrefix = "sluice."

// Choices are values of configuration keys that a user or a client may override. "" means no override. Choices
// are comparable.
type Choices [choiceCount]string

// Indexes of the keys in Choices.
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

// CarryOutKey is the configuration key whose value is the default of the other keys. CreateIndexWaitKey is the
// key of Rules.AwaitIndex.
const (
	CarryOutKey        = "ddl.carry_out"
	CreateIndexWaitKey = "rewrite.create_index_wait"
)

// Values that several configuration keys or rules share.
const (
	carryOutAll   = "all"
	refusePolicy  = "refuse"
	checkPolicy   = "check"
	answersAtOnce = "false"
)

// choice is a configuration key that may be overridden.
type choice struct {
	key    string
	values []string
	// gives maps a value to what a client gives up by choosing it; a value without loss is missing.
	gives map[string]string
}

const giveParts = "a transaction with DDL is committed in parts, and a ROLLBACK takes back the last part only"

var choosable = [choiceCount]choice{
	carryOutChoice: {CarryOutKey, []string{"exact", carryOutAll},
		map[string]string{carryOutAll: "DDL that DSQL has nothing exactly like is carried out in another way, each time with a WARNING"}},
	addColumnDefaultChoice: {AddColumnDefaultKey, []string{refusePolicy, backfillPolicy},
		map[string]string{backfillPolicy: "columns with a DEFAULT are added in several transactions, and without NOT NULL"}},
	inTransactionsChoice: {InTransactionsKey, InTransactionsChoices(),
		map[string]string{CommitDDL.String(): giveParts, CommitDrops.String(): giveParts + "; a DROP too is committed early"}},
	setNotNullChoice: {SetNotNullKey, []string{refusePolicy, checkPolicy},
		map[string]string{checkPolicy: "a CHECK stands for NOT NULL, and its errors have the code 23514"}},
	alterTypeChoice: {RetypeKey, []string{refusePolicy, retypePolicy},
		map[string]string{retypePolicy: "a column whose type changes is made anew in several transactions, and becomes the table's last"}},
	enumChoice: {EnumKey, []string{refusePolicy, domainPolicy},
		map[string]string{domainPolicy: "a domain over text stands for an enumeration: its values compare and sort as texts"}},
	awaitIndexChoice: {CreateIndexWaitKey, []string{"true", answersAtOnce},
		map[string]string{answersAtOnce: "CREATE INDEX is answered before the index can be used"}},
}

// ChoiceKeys returns the keys that may be overridden.
func ChoiceKeys() []string {
	var keys []string
	for i := range choosable {
		keys = append(keys, choosable[i].key)
	}
	return keys
}

// choiceOf returns the index and the description of a key. c is nil for a key that cannot be overridden.
func choiceOf(key string) (i int, c *choice) {
	i = slices.IndexFunc(choosable[:], func(c choice) bool { return c.key == key })
	if i < 0 {
		return i, nil
	}
	return i, &choosable[i]
}

// IsChoice reports whether a key may be overridden.
func IsChoice(key string) bool {
	_, c := choiceOf(key)
	return c != nil
}

// ChoiceValues returns the values that a key may have, or nil for a key that cannot be overridden.
func ChoiceValues(key string) []string {
	if _, c := choiceOf(key); c != nil {
		return c.values
	}
	return nil
}

// ReadChoice returns a value in the spelling of the configuration. It accepts any case, and for booleans also
// on, off, yes, no, 1 and 0. ok is false for a value that the key cannot have.
func ReadChoice(key, value string) (normal string, ok bool) {
	value = strings.ToLower(strings.TrimSpace(value))
	values := ChoiceValues(key)
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

// GivenUp returns what a client loses by choosing a value, or "" for nothing.
func GivenUp(key, value string) string {
	if _, c := choiceOf(key); c != nil {
		return c.gives[value]
	}
	return ""
}

// With returns c with one key set to a value of ReadChoice; "" removes the override.
func (c Choices) With(key, value string) Choices {
	if i, found := choiceOf(key); found != nil {
		c[i] = value
	}
	return c
}

// Over returns c, with the values of below for keys that c does not override.
func (c Choices) Over(below Choices) Choices {
	for i := range c {
		if c[i] == "" {
			c[i] = below[i]
		}
	}
	return c
}

// in returns rules changed by the choices. Keys that neither the choices nor their ddl.carry_out set keep the
// values of r.
func (c Choices) in(r Rules) Rules {
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
	if value, said := or(addColumnDefaultChoice, backfillPolicy); said {
		r.Backfill = value == backfillPolicy
	}
	if value, said := or(inTransactionsChoice, CommitDrops.String()); said {
		r.InTransactions = ParseInTransactions(value)
	}
	if value, said := or(setNotNullChoice, checkPolicy); said {
		r.NotNullCheck = r.Constraints && value == checkPolicy
	}
	if value, said := or(alterTypeChoice, retypePolicy); said {
		r.Retype = value == retypePolicy
	}
	if value, said := or(enumChoice, domainPolicy); said {
		r.Enums = value == domainPolicy
	}
	if c[awaitIndexChoice] != "" {
		r.AwaitIndex = c[awaitIndexChoice] != answersAtOnce
	}
	return r
}

// variation holds the fields of Rules that Choices can change.
type variation struct {
	backfill, notNullCheck, retype, enums, awaitIndex bool
	inTransactions                                    InTransactions
}

func (r *Rules) variation() variation {
	return variation{r.Backfill, r.NotNullCheck, r.Retype, r.Enums, r.AwaitIndex, r.InTransactions}
}

// Under returns the planner of a session with these choices over those of the configuration. The values of all keys
// bound the number of planners. All planners share the cache, the counts and the limits.
func (p *Planner) Under(c Choices) *Planner {
	if c == (Choices{}) {
		return p.base()
	}
	return p.underChoices(c)
}

// underChoices is the part of Under for non-empty choices. Most sessions have none.
func (p *Planner) underChoices(c Choices) *Planner {
	base := p.base()
	rules := c.Over(base.config.Choices).in(base.config.Rules)
	v := rules.variation()
	if v == base.config.Rules.variation() {
		return base
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	made := p.variants[v]
	if made == nil {
		made = &Planner{shared: p.shared, config: base.config, of: base, number: uint64(len(p.variants) + 1)}
		made.config.Rules = rules
		if p.variants == nil {
			p.variants = map[variation]*Planner{}
		}
		p.variants[v] = made
	}
	return made
}

// base returns the planner without choices of a session.
func (p *Planner) base() *Planner {
	if p.of != nil {
		return p.of
	}
	return p
}

// Number identifies a planner among those of Under; 0 is the planner without choices.
func (p *Planner) Number() uint64 { return p.number }

// InTransactions returns how the planner handles DDL in transactions.
func (p *Planner) InTransactions() InTransactions { return p.config.Rules.InTransactions }

// Shown returns the value of a key under the choices c over those of the configuration.
func (p *Planner) Shown(key string, c Choices) string {
	base := p.base()
	all := c.Over(base.config.Choices)
	rules := all.in(base.config.Rules)
	pick := func(yes bool, is, isNot string) string {
		if yes {
			return is
		}
		return isNot
	}
	switch key {
	case CarryOutKey:
		return pick(all[carryOutChoice] == carryOutAll, carryOutAll, "exact")
	case AddColumnDefaultKey:
		return pick(rules.Backfill, backfillPolicy, refusePolicy)
	case InTransactionsKey:
		return rules.InTransactions.String()
	case SetNotNullKey:
		return pick(rules.NotNullCheck, checkPolicy, refusePolicy)
	case RetypeKey:
		return pick(rules.Retype, retypePolicy, refusePolicy)
	case EnumKey:
		return pick(rules.Enums, domainPolicy, refusePolicy)
	case CreateIndexWaitKey:
		return pick(rules.AwaitIndex, "true", answersAtOnce)
	}
	return ""
}

// choosable reports whether choices may change the plan. Choices affect only DDL.
func (p *Plan) choosable() bool { return p.Kind == DDL }

// Choosable returns the Number of by if the plan depends on choices, otherwise 0.
func (p *Plan) Choosable(by *Planner) uint64 {
	if p.choosable() {
		return by.number
	}
	return 0
}
