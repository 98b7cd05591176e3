package bytea

import (
	"fmt"
	"slices"
	"strings"
)

// from adds items to a scope, and returns the text after FROM.
func (g *generator) from(s *scope, depth int) string {
	var parts []string
	for range one(g.draw, 1, 1, 1, 1, 2) {
		part := g.joined(s, depth)
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// joined returns an item of FROM, or a join of several items.
func (g *generator) joined(s *scope, depth int) string {
	text, it := g.primary(s, depth)
	g.see(s, it)
	for g.chance(25) {
		more, other := g.primary(s, depth)
		text = g.join(s, it, text, more, other, depth)
		it = other
	}
	return text
}

// see adds an item to a scope.
func (g *generator) see(s *scope, it *item) {
	s.items = append(s.items, it)
	s.star = append(s.star, it.columns...)
}

// common returns the names of columns that two items of FROM both have, with the same type.
func common(a, b *item) []string {
	var all []string
	for _, c := range a.columns {
		if c.name != "" && slices.Contains(b.columns, c) {
			all = append(all, c.name)
		}
	}
	return all
}

// join returns the text of a join between an item and the items of a scope.
func (g *generator) join(s *scope, last *item, text, more string, it *item, depth int) string {
	kind := one(g.draw, " JOIN ", " LEFT JOIN ", " RIGHT OUTER JOIN ", " FULL JOIN ", " INNER JOIN ")
	shared := common(last, it)
	switch k := g.below(12); {
	case k == 10:
		g.see(s, it)
		return text + " CROSS JOIN " + more
	case k >= 7 && len(shared) > 0 && len(s.items) == 1:
		var using []string
		if k == 9 {
			text += " NATURAL" + kind + more
			using = shared
		} else {
			using = shared[:1+g.below(len(shared))]
			text += kind + more + " USING (" + idents(using) + ")"
		}
		s.items = append(s.items, it)
		s.star = append(s.star[:0], merged(last, it, using)...)
		return text
	}
	on := &scope{items: []*item{last, it}, up: s.up, ctes: s.ctes, near: slices.DeleteFunc(slices.Clone(s.items), func(i *item) bool { return i == last })}
	g.see(s, it)
	if strings.Contains(kind, "FULL") {
		return text + kind + more + " ON " + g.equality(on)
	}
	if g.chance(70) {
		return text + kind + more + " ON " + g.equality(on) + one(g.draw, "", "", " AND "+g.comparison(on, deepest))
	}
	return text + kind + more + " ON " + g.condition(on, depth+1)
}

// merged returns the columns of * for a join with USING.
func merged(a, b *item, using []string) []name {
	var all []name
	for _, u := range using {
		i := slices.IndexFunc(a.columns, func(c name) bool { return c.name == u })
		all = append(all, a.columns[i])
	}
	for _, c := range slices.Concat(a.columns, b.columns) {
		if !slices.Contains(using, c.name) {
			all = append(all, c)
		}
	}
	return all
}

// equality returns a condition that compares a column of the first item with a column of the others.
func (g *generator) equality(s *scope) string {
	for range 4 {
		t := g.comparable()
		a := g.ref(&scope{items: s.items[:1], near: slices.Concat(s.items[1:], s.near)}, t)
		b := g.ref(&scope{items: s.items[1:], near: slices.Concat(s.items[:1], s.near)}, t)
		if a != "" && b != "" {
			return a + " = " + b
		}
	}
	return "true"
}

// primary returns one item of FROM: a table, a subquery, a function or VALUES.
func (g *generator) primary(s *scope, depth int) (string, *item) {
	if depth < deepest {
		switch g.below(14) {
		case 9, 10:
			return g.derived(s, depth)
		case 11:
			return g.function()
		case 12:
			return g.values()
		case 13:
			if len(s.ctes) > 0 {
				c := s.ctes[g.below(len(s.ctes))]
				return c.alias, c
			}
		}
	}
	t := g.world.Tables[g.below(len(g.world.Tables))]
	return g.tableItem(t, true)
}

// tableItem returns a table in FROM, with or without an alias.
func (g *generator) tableItem(t *Table, lists bool) (string, *item) {
	it := &item{alias: Ident(t.Name), table: t}
	for _, c := range t.Columns {
		it.columns = append(it.columns, name{c.Name, c.Type})
	}
	text := it.alias
	switch g.below(16) {
	case 0, 1, 2:
		return text, it
	case 3:
		return "public." + text, it
	case 4:
		if lists && t.Of == nil {
			text = "ONLY " + text
		}
	case 5, 6:
		if lists {
			it.alias = g.alias()
			return text + " AS " + it.alias + " (" + g.rename(it, 1+g.below(len(it.columns))) + ")", it
		}
	}
	it.alias = g.alias()
	return text + one(g.draw, " AS ", " ") + it.alias, it
}

// rename gives new names to the first n columns of an item, and returns the list of these names.
func (g *generator) rename(it *item, n int) string {
	it.columns = slices.Clone(it.columns)
	var names []string
	for i := range n {
		it.columns[i].name = fmt.Sprintf("c%d", i)
		if g.chance(30) {
			it.columns[i].name = one(g.draw, columnNames...)
		}
		names = append(names, it.columns[i].name)
	}
	return idents(names)
}

// derived returns a subquery in FROM.
func (g *generator) derived(s *scope, depth int) (string, *item) {
	inner, lateral := &scope{up: s.up, ctes: s.ctes}, ""
	if len(s.items) > 0 && g.chance(40) {
		inner, lateral = s, "LATERAL "
	}
	q := g.query(inner, depth+1, nil, form{limit: one(g.draw, "", "", "3"), total: true})
	it := &item{alias: g.alias(), columns: q.columns}
	text := lateral + "(" + q.text + ") AS " + it.alias
	if len(it.columns) > 0 && g.chance(40) {
		text += " (" + g.rename(it, len(it.columns)) + ")"
	}
	return text, it
}

// function returns a function call in FROM.
func (g *generator) function() (string, *item) {
	it := &item{alias: g.alias()}
	if g.chance(50) {
		it.columns = []name{{"x", Int}}
		return fmt.Sprintf("generate_series(1, %d) AS %s (x)", 1+g.below(3), it.alias), it
	}
	it.columns = []name{{one(g.draw, "x", "k", "id"), Bytea}}
	ordinality := ""
	names := Ident(it.columns[0].name)
	if g.chance(30) {
		ordinality, names = " WITH ORDINALITY", names+", n"
		it.columns = append(it.columns, name{"n", Bigint})
	}
	of := "ARRAY[" + g.world.constant(g.draw, Bytea) + "]::bytea[]"
	if g.chance(30) {
		of = g.array()
	}
	return "unnest(" + of + ")" + ordinality + " AS " + it.alias + " (" + names + ")", it
}

// values returns constant rows in FROM.
func (g *generator) values() (string, *item) {
	it := &item{alias: g.alias(), columns: []name{{"k", Bytea}, {"n", Int}}}
	var rows []string
	for range 1 + g.below(3) {
		rows = append(rows, "("+g.world.constant(g.draw, Bytea)+one(g.draw, "::bytea", "::bytea", "")+", "+g.world.constant(g.draw, Int)+")")
	}
	return "(VALUES " + strings.Join(rows, ", ") + ") AS " + it.alias + " (k, n)", it
}
