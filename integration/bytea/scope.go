package bytea

import (
	"fmt"
	"slices"
)

// name is a column that an expression can reference.
type name struct {
	name string // "" for one whose name nobody knows
	typ  Type
}

// item is a table, subquery or function in FROM.
type item struct {
	alias   string // as it is written before a dot; "" for a join's
	columns []name
	table   *Table // nil for what is none
}

// scope is the set of columns that a query can reference.
type scope struct {
	items []*item
	star  []name // what * gives
	up    *scope
	ctes  []*item
	near  []*item // what a name without table can mean beside items; see join
}

// under returns a new scope within the scope up.
func under(up *scope) *scope {
	s := &scope{up: up}
	if up != nil {
		s.ctes = slices.Clone(up.ctes)
	}
	return s
}

// generator generates the text of one statement.
type generator struct {
	*draw
	world   *World
	params  []param
	aliases int
	// again is an untyped parameter that the statement uses in many places; "" for none.
	again string
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

// alias returns an alias for an item, in most cases one that no other item has.
func (g *generator) alias() string {
	g.aliases++
	switch {
	case g.chance(6):
		return Ident(one(g.draw, tableNames...))
	case g.chance(4):
		return Ident(one(g.draw, columnNames...))
	}
	return fmt.Sprintf("a%d", g.aliases)
}

// ref returns a reference to a column of a type, "" if there is none.
func (g *generator) ref(s *scope, t Type) string {
	for ; s != nil; s = s.up {
		type found struct {
			item *item
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
		f := all[g.below(len(all))]
		return g.write(s, f.item, f.name)
	}
	return ""
}

// write returns a column's name, qualified where the name is ambiguous and sometimes in other cases.
func (g *generator) write(s *scope, it *item, column string) string {
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
		return Ident(column)
	case it.table != nil && it.alias == Ident(it.table.Name) && g.chance(10):
		return "public." + it.alias + "." + Ident(column)
	}
	return it.alias + "." + Ident(column)
}

// parameter returns a parameter of a type: a new one, or one that the statement already has.
func (g *generator) parameter(t Type) string {
	for i, p := range g.params {
		if p.typ == t && !p.array && g.chance(30) {
			return fmt.Sprintf("$%d", i+1)
		}
	}
	p := param{typ: t}
	p.value, p.binary = g.world.input(g.draw, t)
	p.oid = one(g.draw, 0, 0, 0, 0, 0, oids[t])
	if g.chance(1) {
		p.oid = oids[Text]
	}
	return g.add(p, t.String())
}

// entangled returns a new untyped parameter, to be used instead of a bytea expression. Later expressions of the
// statement use the parameter again.
func (g *generator) entangled() string {
	p := param{typ: Bytea}
	p.value, p.binary = g.world.input(g.draw, Bytea)
	g.params = append(g.params, p)
	g.again = fmt.Sprintf("$%d", len(g.params))
	return g.again
}

// mention returns an expression of a type that contains the parameter again, which the statement uses in many places.
func (g *generator) mention(t Type) string {
	p := g.again
	switch t {
	case Bytea:
		return one(g.draw, p, p, p+" || '\\x00'", p+"::bytea", "substr("+p+", 1, 2)")
	case Text:
		return one(g.draw, p, p+"::text", "encode("+p+", 'hex')", "md5("+p+")")
	case Bool:
		return one(g.draw, p+" = '\\x61'", p+" IS NULL", p+"::bytea > ''")
	}
	return one(g.draw, "length("+p+")", "octet_length("+p+"::bytea)", "length("+p+"::text)", p)
}

// array returns a parameter of type bytea[].
func (g *generator) array() string {
	return g.add(param{array: true, value: g.world.inputArray(g.draw), oid: one[uint32](g.draw, 0, 0, 1001)}, "bytea[]")
}

func (g *generator) add(p param, typ string) string {
	g.params = append(g.params, p)
	text := fmt.Sprintf("$%d", len(g.params))
	switch g.below(8) {
	case 6:
		return text + "::" + typ
	case 7:
		return "CAST(" + text + " AS " + typ + ")"
	}
	return text
}

var oids = map[Type]uint32{Bytea: 17, Int: 23, Text: 25, Bool: 16, Bigint: 20}
