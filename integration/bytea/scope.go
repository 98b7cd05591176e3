package bytea

import (
	"fmt"
	"slices"
)

// namedColumn is a column that an expression can reference.
type namedColumn struct {
	name string // "" for one whose name nobody knows
	typ  Type
}

// fromItem is a table, subquery or function in FROM.
type fromItem struct {
	alias   string // as it is written before a dot; "" for a join's
	columns []namedColumn
	table   *Table // nil for what is none
}

// queryScope is the set of columns that a query can reference.
type queryScope struct {
	items []*fromItem
	star  []namedColumn // what * gives
	up    *queryScope
	ctes  []*fromItem
	near  []*fromItem // what a name without table can mean beside items; see join
}

// newInnerScope returns a new scope within the scope up.
func newInnerScope(up *queryScope) *queryScope {
	s := &queryScope{up: up}
	if up != nil {
		s.ctes = slices.Clone(up.ctes)
	}
	return s
}

// sqlGenerator generates the text of one random statement.
type sqlGenerator struct {
	*choiceSequence
	world   *TestSchema
	params  []param
	aliases int
	// sharedParam is an untyped parameter that the statement uses in many places, or "".
	sharedParam string
	// casts is the percentage of constants in an output list that have a cast.
	casts int
}

// param is a parameter of a statement.
type param struct {
	typ    Type
	array  bool
	oid    uint32 // as the client says it, 0 for nothing
	value  []byte // nil for NULL
	binary bool
}

// newAlias returns an alias for an item of FROM, in most cases one that no other item has.
func (g *sqlGenerator) newAlias() string {
	g.aliases++
	switch {
	case g.chance(6):
		return QuoteIdent(pickOne(g.choiceSequence, tableNames...))
	case g.chance(4):
		return QuoteIdent(pickOne(g.choiceSequence, columnNames...))
	}
	return fmt.Sprintf("a%d", g.aliases)
}

// columnRef returns a reference to a column of a type, "" if there is none.
func (g *sqlGenerator) columnRef(s *queryScope, t Type) string {
	for ; s != nil; s = s.up {
		type found struct {
			item *fromItem
			name string
		}
		var all []found
		for _, it := range s.items {
			for _, c := range it.columns {
				if c.typ == t && c.name != "" {
					all = append(all, found{it, c.name})
				}
			}
		}
		if len(all) == 0 || s.up != nil && g.chance(15) {
			continue
		}
		f := all[g.intBelow(len(all))]
		return g.qualifyColumn(s, f.item, f.name)
	}
	return ""
}

// qualifyColumn returns a column's name, qualified where the name is ambiguous and sometimes in other cases.
func (g *sqlGenerator) qualifyColumn(s *queryScope, it *fromItem, column string) string {
	times := 0
	for _, other := range slices.Concat(s.items, s.near) {
		for _, c := range other.columns {
			if c.name == column {
				times++
			}
		}
	}
	bare := it.alias == "" || times == 1 && g.chance(50) || g.chance(1)
	switch {
	case bare:
		return QuoteIdent(column)
	case it.table != nil && it.alias == QuoteIdent(it.table.Name) && g.chance(10):
		return "public." + it.alias + "." + QuoteIdent(column)
	}
	return it.alias + "." + QuoteIdent(column)
}

// typedParameter returns a parameter of a type: a new one, or one that the statement already has.
func (g *sqlGenerator) typedParameter(t Type) string {
	for i, p := range g.params {
		if p.typ == t && !p.array && g.chance(30) {
			return fmt.Sprintf("$%d", i+1)
		}
	}
	p := param{typ: t}
	p.value, p.binary = g.world.drawInput(g.choiceSequence, t)
	p.oid = pickOne(g.choiceSequence, 0, 0, 0, 0, 0, oids[t])
	if g.chance(1) {
		p.oid = oids[Text]
	}
	return g.addParam(p, t.String())
}

// newSharedParam returns a new untyped parameter, which the generator uses instead of a bytea expression. Later
// expressions of the statement use the same parameter.
func (g *sqlGenerator) newSharedParam() string {
	p := param{typ: Bytea}
	p.value, p.binary = g.world.drawInput(g.choiceSequence, Bytea)
	g.params = append(g.params, p)
	g.sharedParam = fmt.Sprintf("$%d", len(g.params))
	return g.sharedParam
}

// sharedParamExpr returns an expression of type t that contains the sharedParam, the parameter that the statement
// uses in many places.
func (g *sqlGenerator) sharedParamExpr(t Type) string {
	p := g.sharedParam
	switch t {
	case Bytea:
		return pickOne(g.choiceSequence, p, p, p+" || '\\x00'", p+"::bytea", "substr("+p+", 1, 2)")
	case Text:
		return pickOne(g.choiceSequence, p, p+"::text", "encode("+p+", 'hex')", "md5("+p+")")
	case Bool:
		return pickOne(g.choiceSequence, p+" = '\\x61'", p+" IS NULL", p+"::bytea > ''")
	}
	return pickOne(g.choiceSequence, "length("+p+")", "octet_length("+p+"::bytea)", "length("+p+"::text)", p)
}

// arrayParameter returns a parameter of type bytea[].
func (g *sqlGenerator) arrayParameter() string {
	return g.addParam(param{array: true, value: g.world.drawArrayInput(g.choiceSequence), oid: pickOne[uint32](g.choiceSequence, 0, 0, 1001)}, "bytea[]")
}

func (g *sqlGenerator) addParam(p param, typ string) string {
	g.params = append(g.params, p)
	text := fmt.Sprintf("$%d", len(g.params))
	switch g.intBelow(8) {
	case 6:
		return text + "::" + typ
	case 7:
		return "CAST(" + text + " AS " + typ + ")"
	}
	return text
}

var oids = map[Type]uint32{Bytea: 17, Int: 23, Text: 25, Bool: 16, Bigint: 20}
