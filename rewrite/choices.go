package rewrite

import (
	"slices"
	"strings"
)

// OwnPrefix begins the names of settings that are the relay's own: a client's Choices.
const OwnPrefix = "sluice."

// Choices are values of those configuration keys that a user or a client may have otherwise than
// the configuration says; "" is not said. They can be compared.
type Choices [choiceCount]string

// The keys, by their places.
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

// CarryOutKey and CreateIndexWaitKey are the configuration keys of what says what the others are
// where nothing is said, and of Rules.AwaitIndex.
const (
	CarryOutKey        = "ddl.carry_out"
	CreateIndexWaitKey = "rewrite.create_index_wait"
)

// Values of keys that more than one place knows.
const (
	carryOutAll   = "all"
	refusePolicy  = "refuse"
	checkPolicy   = "check"
	answersAtOnce = "false"
)

// choice is one such key.
type choice struct {
	key    string
	values []string
	// gives says what a client gives up that chooses a value; "" for nothing.
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

// ChoiceKeys are the keys that may be chosen.
func ChoiceKeys() []string {
	var keys []string
	for i := range choosable {
		keys = append(keys, choosable[i].key)
	}
	return keys
}

// choiceOf finds a key; nil for one that cannot be chosen.
func choiceOf(key string) (i int, c *choice) {
	i = slices.IndexFunc(choosable[:], func(c choice) bool { return c.key == key })
	if i < 0 {
		return i, nil
	}
	return i, &choosable[i]
}

// IsChoice reports whether a key may be chosen.
func IsChoice(key string) bool {
	_, c := choiceOf(key)
	return c != nil
}

// ChoiceValues are the values of a key that may be chosen.
func ChoiceValues(key string) []string {
	if _, c := choiceOf(key); c != nil {
		return c.values
	}
	return nil
}

// ReadChoice is a value as the configuration spells it, of one in any case, and of what
// PostgreSQL takes for a boolean; ok is false for none of the key's values.
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

// GivenUp says what a client gives up that chooses a value; "" for nothing.
func GivenUp(key, value string) string {
	if _, c := choiceOf(key); c != nil {
		return c.gives[value]
	}
	return ""
}

// With are the choices with a value of ReadChoice for one key; "": it is not said.
func (c Choices) With(key, value string) Choices {
	if i, found := choiceOf(key); found != nil {
		c[i] = value
	}
	return c
}

// Over are the choices, and where nothing is said those below.
func (c Choices) Over(below Choices) Choices {
	for i := range c {
		if c[i] == "" {
			c[i] = below[i]
		}
	}
	return c
}

// in are the rules by which a text is planned under the choices. What neither they nor their
// ddl.carry_out say stays as the rules have it.
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

// variation is what the choices change of rules.
type variation struct {
	backfill, notNullCheck, retype, enums, awaitIndex bool
	inTransactions                                    InTransactions
}

func (r *Rules) variation() variation {
	return variation{r.Backfill, r.NotNullCheck, r.Retype, r.Enums, r.AwaitIndex, r.InTransactions}
}

// Under is the planner of a session with those choices over the configuration's. There are no more
// of them than the values of all keys allow. They share what is remembered, counted and bounded.
func (p *Planner) Under(c Choices) *Planner {
	if c == (Choices{}) {
		return p.base()
	}
	return p.otherwise(c)
}

// otherwise is Under for choices that there are: of most sessions there are none.
func (p *Planner) otherwise(c Choices) *Planner {
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

// base is the planner by the configuration alone.
func (p *Planner) base() *Planner {
	if p.of != nil {
		return p.of
	}
	return p
}

// Number tells the planners of Under apart; 0 is that of the configuration.
func (p *Planner) Number() uint64 { return p.number }

// InTransactions says what the planner takes DDL in transactions for.
func (p *Planner) InTransactions() InTransactions { return p.config.Rules.InTransactions }

// Shown is the value of a key under those choices over the configuration's.
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

// choosable reports whether choices may change the plan: they change what becomes of DDL.
func (p *Plan) choosable() bool { return p.Kind == DDL }

// Choosable is the number of the planner that the plan depends on, of one that such a planner has
// made; 0 for a plan that is the same under any.
func (p *Plan) Choosable(by *Planner) uint64 {
	if p.choosable() {
		return by.number
	}
	return 0
}
