package bytea

import (
	"fmt"
	"slices"
	"strings"
)

// fromClause adds items to a scope, and returns the text after FROM.
func (g *sqlGenerator) fromClause(s *queryScope, depth int) string {
	var parts []string
	for range pickOne(g.choiceSequence, 1, 1, 1, 1, 2) {
		part := g.joinedItem(s, depth)
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// joinedItem returns an item of FROM, or a join of several items.
func (g *sqlGenerator) joinedItem(s *queryScope, depth int) string {
	text, it := g.fromItem(s, depth)
	g.addItem(s, it)
	for g.chance(25) {
		more, other := g.fromItem(s, depth)
		text = g.joinItem(s, it, text, more, other, depth)
		it = other
	}
	return text
}

// addItem adds an item of FROM to the scope s.
func (g *sqlGenerator) addItem(s *queryScope, it *fromItem) {
	s.items = append(s.items, it)
	s.star = append(s.star, it.columns...)
}

// commonColumns returns the names of columns that two items of FROM both have, with the same type.
func commonColumns(a, b *fromItem) []string {
	var all []string
	for _, c := range a.columns {
		if c.name != "" && slices.Contains(b.columns, c) {
			all = append(all, c.name)
		}
	}
	return all
}

// joinItem returns the text of a join between the item it of FROM and the items that scope s already has.
func (g *sqlGenerator) joinItem(s *queryScope, last *fromItem, text, more string, it *fromItem, depth int) string {
	kind := pickOne(g.choiceSequence, " JOIN ", " LEFT JOIN ", " RIGHT OUTER JOIN ", " FULL JOIN ", " INNER JOIN ")
	shared := commonColumns(last, it)
	switch k := g.intBelow(12); {
	case k == 10:
		g.addItem(s, it)
		return text + " CROSS JOIN " + more
	case k >= 7 && len(shared) > 0 && len(s.items) == 1:
		var using []string
		if k == 9 {
			text += " NATURAL" + kind + more
			using = shared
		} else {
			using = shared[:1+g.intBelow(len(shared))]
			text += kind + more + " USING (" + joinIdents(using) + ")"
		}
		s.items = append(s.items, it)
		s.star = append(s.star[:0], mergedColumns(last, it, using)...)
		return text
	}
	on := &queryScope{items: []*fromItem{last, it}, up: s.up, ctes: s.ctes, near: slices.DeleteFunc(slices.Clone(s.items), func(i *fromItem) bool { return i == last })}
	g.addItem(s, it)
	if strings.Contains(kind, "FULL") {
		return text + kind + more + " ON " + g.columnEquality(on)
	}
	if g.chance(70) {
		return text + kind + more + " ON " + g.columnEquality(on) + pickOne(g.choiceSequence, "", "", " AND "+g.columnComparison(on, maxDepth))
	}
	return text + kind + more + " ON " + g.condition(on, depth+1)
}

// mergedColumns returns the columns of * for a join with USING.
func mergedColumns(a, b *fromItem, using []string) []namedColumn {
	var all []namedColumn
	for _, u := range using {
		i := slices.IndexFunc(a.columns, func(c namedColumn) bool { return c.name == u })
		all = append(all, a.columns[i])
	}
	for _, c := range slices.Concat(a.columns, b.columns) {
		if !slices.Contains(using, c.name) {
			all = append(all, c)
		}
	}
	return all
}

// columnEquality returns a condition that compares a column of the scope's first item with a column of the scope's
// other items.
func (g *sqlGenerator) columnEquality(s *queryScope) string {
	for range 4 {
		t := g.comparableType()
		a := g.columnRef(&queryScope{items: s.items[:1], near: slices.Concat(s.items[1:], s.near)}, t)
		b := g.columnRef(&queryScope{items: s.items[1:], near: slices.Concat(s.items[:1], s.near)}, t)
		if a != "" && b != "" {
			return a + " = " + b
		}
	}
	return "true"
}

// fromItem returns one item of FROM: a table, a subquery, a function or VALUES.
func (g *sqlGenerator) fromItem(s *queryScope, depth int) (string, *fromItem) {
	if depth < maxDepth {
		switch g.intBelow(14) {
		case 9, 10:
			return g.derivedTable(s, depth)
		case 11:
			return g.functionItem()
		case 12:
			return g.valuesItem()
		case 13:
			if len(s.ctes) > 0 {
				c := s.ctes[g.intBelow(len(s.ctes))]
				return c.alias, c
			}
		}
	}
	t := g.world.Tables[g.intBelow(len(g.world.Tables))]
	return g.tableItem(t, true)
}

// tableItem returns a table in FROM, with or without an alias.
func (g *sqlGenerator) tableItem(t *Table, lists bool) (string, *fromItem) {
	it := &fromItem{alias: QuoteIdent(t.Name), table: t}
	for _, c := range t.Columns {
		it.columns = append(it.columns, namedColumn{c.Name, c.Type})
	}
	text := it.alias
	switch g.intBelow(16) {
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
			it.alias = g.newAlias()
			return text + " AS " + it.alias + " (" + g.renameColumns(it, 1+g.intBelow(len(it.columns))) + ")", it
		}
	}
	it.alias = g.newAlias()
	return text + pickOne(g.choiceSequence, " AS ", " ") + it.alias, it
}

// renameColumns gives new names to the first n columns of an item, and returns the list of these names.
func (g *sqlGenerator) renameColumns(it *fromItem, n int) string {
	it.columns = slices.Clone(it.columns)
	var names []string
	for i := range n {
		it.columns[i].name = fmt.Sprintf("c%d", i)
		if g.chance(30) {
			it.columns[i].name = pickOne(g.choiceSequence, columnNames...)
		}
		names = append(names, it.columns[i].name)
	}
	return joinIdents(names)
}

// derivedTable returns a subquery in FROM.
func (g *sqlGenerator) derivedTable(s *queryScope, depth int) (string, *fromItem) {
	inner, lateral := &queryScope{up: s.up, ctes: s.ctes}, ""
	if len(s.items) > 0 && g.chance(40) {
		inner, lateral = s, "LATERAL "
	}
	q := g.newQuery(inner, depth+1, nil, queryForm{limit: pickOne(g.choiceSequence, "", "", "3"), total: true})
	it := &fromItem{alias: g.newAlias(), columns: q.columns}
	text := lateral + "(" + q.text + ") AS " + it.alias
	if len(it.columns) > 0 && g.chance(40) {
		text += " (" + g.renameColumns(it, len(it.columns)) + ")"
	}
	return text, it
}

// functionItem returns a function call in FROM.
func (g *sqlGenerator) functionItem() (string, *fromItem) {
	it := &fromItem{alias: g.newAlias()}
	if g.chance(50) {
		it.columns = []namedColumn{{"x", Int}}
		return fmt.Sprintf("generate_series(1, %d) AS %s (x)", 1+g.intBelow(3), it.alias), it
	}
	it.columns = []namedColumn{{pickOne(g.choiceSequence, "x", "k", "id"), Bytea}}
	ordinality := ""
	names := QuoteIdent(it.columns[0].name)
	if g.chance(30) {
		ordinality, names = " WITH ORDINALITY", names+", n"
		it.columns = append(it.columns, namedColumn{"n", Bigint})
	}
	of := "ARRAY[" + g.world.drawConstant(g.choiceSequence, Bytea) + "]::bytea[]"
	if g.chance(30) {
		of = g.arrayParameter()
	}
	return "unnest(" + of + ")" + ordinality + " AS " + it.alias + " (" + names + ")", it
}

// valuesItem returns constant rows in FROM.
func (g *sqlGenerator) valuesItem() (string, *fromItem) {
	it := &fromItem{alias: g.newAlias(), columns: []namedColumn{{"k", Bytea}, {"n", Int}}}
	var rows []string
	for range 1 + g.intBelow(3) {
		rows = append(rows, "("+g.world.drawConstant(g.choiceSequence, Bytea)+pickOne(g.choiceSequence, "::bytea", "::bytea", "")+", "+g.world.drawConstant(g.choiceSequence, Int)+")")
	}
	return "(VALUES " + strings.Join(rows, ", ") + ") AS " + it.alias + " (k, n)", it
}
