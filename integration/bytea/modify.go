package bytea

import (
	"fmt"
	"slices"
	"strings"
)

// statement is a statement that the oracle runs in both databases.
type statement struct {
	text    string
	params  []param
	order   []int  // see query
	table   *Table // that it writes to; nil for none
	results int16  // the format of its rows
	simple  bool   // sent as a Query
}

// newStatement generates a random statement.
func (w *TestSchema) newStatement(d *choiceSequence) statement {
	g := &sqlGenerator{choiceSequence: d, world: w, casts: 80}
	var q query
	var table *Table
	switch g.intBelow(20) {
	default:
		q = g.newQuery(nil, 0, nil, queryForm{})
	case 10, 11, 12, 13:
		q, table = g.insertStatement()
	case 14, 15, 16:
		q, table = g.updateStatement()
	case 17, 18:
		q, table = g.deleteStatement()
	case 19:
		q, table = g.modifyingWithQuery()
	}
	for i, p := range g.params {
		// The text lacks a parameter if the generator dropped the expression that contained it. The client must then
		// declare the parameter's type.
		if !p.array && !strings.Contains(q.text, fmt.Sprintf("$%d", i+1)) {
			g.params[i].oid = oids[p.typ]
		}
	}
	s := statement{text: q.text, params: g.params, order: q.order, table: table, results: int16(g.intBelow(2))}
	s.simple = len(s.params) == 0 && g.chance(40)
	return s
}

// writableTable returns a table that is not a view, and in rare cases a view.
func (g *sqlGenerator) writableTable() *Table {
	for range 8 {
		if t := g.world.Tables[g.intBelow(len(g.world.Tables))]; t.Of == nil || g.chance(2) {
			return t
		}
	}
	return g.world.Tables[0]
}

// targetTable returns the table that a statement writes to, with the scope of its columns.
func (g *sqlGenerator) targetTable(t *Table) (string, *queryScope) {
	text, it := g.tableItem(t, false)
	if strings.HasPrefix(text, "public.") || text == it.alias {
		return text, &queryScope{items: []*fromItem{it}, star: it.columns}
	}
	text = strings.Replace(text, " "+it.alias, " AS "+it.alias, 1)
	return strings.Replace(text, " AS AS ", " AS ", 1), &queryScope{items: []*fromItem{it}, star: it.columns}
}

// returningClause appends a RETURNING clause to the text of q, or nothing.
func (g *sqlGenerator) returningClause(s *queryScope, q *query) {
	if g.chance(45) {
		q.text += " RETURNING " + g.targetList(s, maxDepth-1, nil, q)
	}
}

// listedColumns returns the columns that a statement lists for a table, all in most cases.
func (g *sqlGenerator) listedColumns(t *Table) []string {
	names := t.columnNames()
	if g.chance(30) {
		names = shuffledNames(g.choiceSequence, names, len(names))
	}
	if len(names) > 1 && g.chance(15) {
		names = names[:len(names)-1]
	}
	return names
}

func (g *sqlGenerator) insertStatement() (query, *Table) {
	t := g.writableTable()
	into, s := g.targetTable(t)
	names := g.listedColumns(t)
	q := query{text: "INSERT INTO " + into}
	if !slices.Equal(names, t.columnNames()) || g.chance(70) {
		q.text += " (" + joinIdents(names) + ")"
	}
	conflict := g.chance(40)
	switch {
	case !strings.HasSuffix(q.text, ")") && g.chance(5):
		q.text += " DEFAULT VALUES"
	case g.chance(25):
		var want []Type
		for _, n := range names {
			want = append(want, t.columnByName(n).Type)
		}
		f := queryForm{}
		if conflict {
			f = queryForm{total: true, limit: fmt.Sprint(1 + g.intBelow(6))}
		}
		g.casts = pickOne(g.choiceSequence, 80, 30)
		q.text += " " + g.newQuery(nil, 1, want, f).text
		g.casts = 80
	default:
		q.text += " VALUES " + g.valueRows(t, names)
	}
	if conflict {
		q.text += g.conflictClause(t, s)
	}
	g.returningClause(s, &q)
	return q, t
}

// valueRows returns rows of values for columns of a table.
func (g *sqlGenerator) valueRows(t *Table, names []string) string {
	var rows []string
	for range pickOne(g.choiceSequence, 1, 1, 1, 2, 3) {
		var all []string
		for _, n := range names {
			all = append(all, g.columnValue(nil, t.columnByName(n)))
		}
		rows = append(rows, "("+strings.Join(all, ", ")+")")
	}
	return strings.Join(rows, ", ")
}

// columnValue returns the value to which a statement sets a column.
func (g *sqlGenerator) columnValue(s *queryScope, c *Column) string {
	if c.Type == Bytea && g.sharedParam == "" && g.chance(4) {
		return g.newSharedParam()
	}
	switch k := g.intBelow(20); {
	case k == 18 && (!c.NotNull || c.Default != "" || g.chance(5)):
		return "DEFAULT"
	case k == 19 && !c.NotNull:
		return "NULL"
	case k < 12:
		return g.leafExpression(s, c.Type)
	}
	return g.expression(s, c.Type, 1)
}

// conflictClause returns an ON CONFLICT clause.
func (g *sqlGenerator) conflictClause(t *Table, s *queryScope) string {
	excluded := &fromItem{alias: "excluded", columns: s.items[0].columns}
	text := " ON CONFLICT"
	nothing := g.chance(35)
	if len(t.Keys) > 0 && (!nothing && !g.chance(3) || g.chance(60)) {
		key := t.Keys[g.intBelow(len(t.Keys))]
		if g.chance(25) {
			text += " ON CONSTRAINT " + QuoteIdent(key.Name)
		} else {
			text += " (" + joinIdents(key.Columns) + ")"
		}
	}
	if nothing {
		return text + " DO NOTHING"
	}
	both := &queryScope{items: append(slices.Clone(s.items), excluded)}
	text += " DO UPDATE SET " + g.setAssignments(t, both)
	if g.chance(30) {
		text += " WHERE " + g.condition(both, maxDepth-1)
	}
	return text
}

// setAssignments returns the assignments after SET.
func (g *sqlGenerator) setAssignments(t *Table, s *queryScope) string {
	names := shuffledNames(g.choiceSequence, t.columnNames(), 1+g.intBelow(3))
	if len(names) > 1 && g.chance(35) {
		var values []string
		var want []Type
		for _, n := range names {
			values = append(values, g.columnValue(s, t.columnByName(n)))
			want = append(want, t.columnByName(n).Type)
		}
		source := pickOne(g.choiceSequence, "(", "ROW(") + strings.Join(values, ", ") + ")"
		if g.chance(25) {
			source = "(" + g.newQuery(s, 2, want, queryForm{total: true, limit: "1"}).text + ")"
		}
		return "(" + joinIdents(names) + ") = " + source
	}
	var all []string
	for _, n := range names {
		value := g.columnValue(s, t.columnByName(n))
		if len(s.items) > 1 && s.items[1].alias == "excluded" && g.chance(50) {
			value = pickOne(g.choiceSequence, "excluded.", "EXCLUDED.") + QuoteIdent(n)
		}
		all = append(all, QuoteIdent(n)+" = "+value)
	}
	return strings.Join(all, ", ")
}

// matchedTable draws another table for a statement. It returns the text that names that table, and a condition. With
// the condition, each row of the statement's own table matches at most one row of the other table.
func (g *sqlGenerator) matchedTable(s *queryScope) (string, string) {
	other := g.world.Tables[g.intBelow(len(g.world.Tables))]
	if len(other.Keys) == 0 {
		return "", ""
	}
	text, it := g.tableItem(other, false)
	if it.alias == s.items[0].alias {
		return "", ""
	}
	var all []string
	for _, n := range other.Keys[0].Columns {
		all = append(all, it.alias+"."+QuoteIdent(n)+" = "+g.leafExpression(&queryScope{items: s.items[:1], near: []*fromItem{it}}, other.columnByName(n).Type))
	}
	s.items = append(s.items, it)
	s.star = append(slices.Clone(s.star), it.columns...)
	return text, strings.Join(all, " AND ")
}

func (g *sqlGenerator) updateStatement() (query, *Table) {
	t := g.writableTable()
	head, s := g.targetTable(t)
	from, on := "", ""
	if g.chance(25) {
		if from, on = g.matchedTable(s); from != "" {
			from = " FROM " + from
		}
	}
	q := query{text: "UPDATE " + head + " SET " + g.setAssignments(t, s) + from}
	q.text += g.whereClause(s, on)
	g.returningClause(s, &q)
	return q, t
}

func (g *sqlGenerator) deleteStatement() (query, *Table) {
	t := g.writableTable()
	head, s := g.targetTable(t)
	using, on := "", ""
	if g.chance(25) {
		if using, on = g.matchedTable(s); using != "" {
			using = " USING " + using
		}
	}
	q := query{text: "DELETE FROM " + head + using}
	q.text += g.whereClause(s, on)
	g.returningClause(s, &q)
	return q, t
}

// whereClause returns the WHERE clause of a statement that changes rows. It selects few rows, so that some remain
// unchanged.
func (g *sqlGenerator) whereClause(s *queryScope, on string) string {
	conditions := []string{}
	if on != "" {
		conditions = append(conditions, on)
	}
	if !g.chance(5) {
		conditions = append(conditions, g.columnComparison(s, maxDepth-1))
	}
	if g.chance(30) {
		conditions = append(conditions, g.condition(s, maxDepth-1))
	}
	if len(conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(conditions, " AND ")
}

// modifyingWithQuery returns a query over the result of a modifying statement in WITH.
func (g *sqlGenerator) modifyingWithQuery() (query, *Table) {
	inner, t := pickOne(g.choiceSequence, g.insertStatement, g.updateStatement, g.deleteStatement)()
	q := query{text: "WITH w AS (" + inner.text + ") SELECT count(*) FROM " + QuoteIdent(t.Name)}
	if strings.Contains(inner.text, " RETURNING ") {
		s := &queryScope{items: []*fromItem{{alias: "w", columns: inner.columns}}, star: inner.columns}
		if len(inner.columns) == 0 {
			s = &queryScope{}
		}
		q = query{}
		targets := g.targetList(s, maxDepth-1, nil, &q)
		q.text = "WITH w AS (" + inner.text + ") SELECT " + targets + " FROM w"
	}
	return q, t
}
