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

// statement generates a random statement.
func (w *World) statement(d *draw) statement {
	g := &generator{draw: d, world: w, casts: 80}
	var q query
	var table *Table
	switch g.below(20) {
	default:
		q = g.query(nil, 0, nil, form{})
	case 10, 11, 12, 13:
		q, table = g.insert()
	case 14, 15, 16:
		q, table = g.update()
	case 17, 18:
		q, table = g.delete()
	case 19:
		q, table = g.modifyingWith()
	}
	for i, p := range g.params {
		// A parameter may be missing in the text, because its expression was dropped. The client must declare the type of
		// that parameter.
		if !p.array && !strings.Contains(q.text, fmt.Sprintf("$%d", i+1)) {
			g.params[i].oid = oids[p.typ]
		}
	}
	s := statement{text: q.text, params: g.params, order: q.order, table: table, results: int16(g.below(2))}
	s.simple = len(s.params) == 0 && g.chance(40)
	return s
}

// writable returns a table that is not a view, and in rare cases a view.
func (g *generator) writable() *Table {
	for range 8 {
		if t := g.world.Tables[g.below(len(g.world.Tables))]; t.Of == nil || g.chance(2) {
			return t
		}
	}
	return g.world.Tables[0]
}

// written returns the table that a statement writes to, with the scope of its columns.
func (g *generator) written(t *Table) (string, *scope) {
	text, it := g.tableItem(t, false)
	if strings.HasPrefix(text, "public.") || text == it.alias {
		return text, &scope{items: []*item{it}, star: it.columns}
	}
	text = strings.Replace(text, " "+it.alias, " AS "+it.alias, 1)
	return strings.Replace(text, " AS AS ", " AS ", 1), &scope{items: []*item{it}, star: it.columns}
}

// returning adds a RETURNING clause to a query, or none.
func (g *generator) returning(s *scope, q *query) {
	if g.chance(45) {
		q.text += " RETURNING " + g.targets(s, deepest-1, nil, q)
	}
}

// listed returns the columns that a statement lists for a table, all in most cases.
func (g *generator) listed(t *Table) []string {
	names := t.names()
	if g.chance(30) {
		names = shuffled(g.draw, names, len(names))
	}
	if len(names) > 1 && g.chance(15) {
		names = names[:len(names)-1]
	}
	return names
}

func (g *generator) insert() (query, *Table) {
	t := g.writable()
	into, s := g.written(t)
	names := g.listed(t)
	q := query{text: "INSERT INTO " + into}
	if !slices.Equal(names, t.names()) || g.chance(70) {
		q.text += " (" + idents(names) + ")"
	}
	conflict := g.chance(40)
	switch {
	case !strings.HasSuffix(q.text, ")") && g.chance(5):
		q.text += " DEFAULT VALUES"
	case g.chance(25):
		var want []Type
		for _, n := range names {
			want = append(want, t.column(n).Type)
		}
		f := form{}
		if conflict {
			f = form{total: true, limit: fmt.Sprint(1 + g.below(6))}
		}
		g.casts = one(g.draw, 80, 30)
		q.text += " " + g.query(nil, 1, want, f).text
		g.casts = 80
	default:
		q.text += " VALUES " + g.rowsFor(t, names)
	}
	if conflict {
		q.text += g.conflict(t, s)
	}
	g.returning(s, &q)
	return q, t
}

// rowsFor returns rows of values for columns of a table.
func (g *generator) rowsFor(t *Table, names []string) string {
	var rows []string
	for range one(g.draw, 1, 1, 1, 2, 3) {
		var all []string
		for _, n := range names {
			all = append(all, g.valueFor(nil, t.column(n)))
		}
		rows = append(rows, "("+strings.Join(all, ", ")+")")
	}
	return strings.Join(rows, ", ")
}

// valueFor returns the value to which a statement sets a column.
func (g *generator) valueFor(s *scope, c *Column) string {
	if c.Type == Bytea && g.again == "" && g.chance(4) {
		return g.entangled()
	}
	switch k := g.below(20); {
	case k == 18 && (!c.NotNull || c.Default != "" || g.chance(5)):
		return "DEFAULT"
	case k == 19 && !c.NotNull:
		return "NULL"
	case k < 12:
		return g.leaf(s, c.Type)
	}
	return g.expr(s, c.Type, 1)
}

// conflict returns an ON CONFLICT clause.
func (g *generator) conflict(t *Table, s *scope) string {
	excluded := &item{alias: "excluded", columns: s.items[0].columns}
	text := " ON CONFLICT"
	nothing := g.chance(35)
	if len(t.Keys) > 0 && (!nothing && !g.chance(3) || g.chance(60)) {
		key := t.Keys[g.below(len(t.Keys))]
		if g.chance(25) {
			text += " ON CONSTRAINT " + Ident(key.Name)
		} else {
			text += " (" + idents(key.Columns) + ")"
		}
	}
	if nothing {
		return text + " DO NOTHING"
	}
	both := &scope{items: append(slices.Clone(s.items), excluded)}
	text += " DO UPDATE SET " + g.assignments(t, both)
	if g.chance(30) {
		text += " WHERE " + g.condition(both, deepest-1)
	}
	return text
}

// assignments returns the assignments after SET.
func (g *generator) assignments(t *Table, s *scope) string {
	names := shuffled(g.draw, t.names(), 1+g.below(3))
	if len(names) > 1 && g.chance(35) {
		var values []string
		var want []Type
		for _, n := range names {
			values = append(values, g.valueFor(s, t.column(n)))
			want = append(want, t.column(n).Type)
		}
		source := one(g.draw, "(", "ROW(") + strings.Join(values, ", ") + ")"
		if g.chance(25) {
			source = "(" + g.query(s, 2, want, form{total: true, limit: "1"}).text + ")"
		}
		return "(" + idents(names) + ") = " + source
	}
	var all []string
	for _, n := range names {
		value := g.valueFor(s, t.column(n))
		if len(s.items) > 1 && s.items[1].alias == "excluded" && g.chance(50) {
			value = one(g.draw, "excluded.", "EXCLUDED.") + Ident(n)
		}
		all = append(all, Ident(n)+" = "+value)
	}
	return strings.Join(all, ", ")
}

// matched returns another table and a condition. By the condition at most one of that table's rows belongs to each row
// of the first table.
func (g *generator) matched(s *scope) (string, string) {
	other := g.world.Tables[g.below(len(g.world.Tables))]
	if len(other.Keys) == 0 {
		return "", ""
	}
	text, it := g.tableItem(other, false)
	if it.alias == s.items[0].alias {
		return "", ""
	}
	var all []string
	for _, n := range other.Keys[0].Columns {
		all = append(all, it.alias+"."+Ident(n)+" = "+g.leaf(&scope{items: s.items[:1], near: []*item{it}}, other.column(n).Type))
	}
	s.items = append(s.items, it)
	s.star = append(slices.Clone(s.star), it.columns...)
	return text, strings.Join(all, " AND ")
}

func (g *generator) update() (query, *Table) {
	t := g.writable()
	head, s := g.written(t)
	from, on := "", ""
	if g.chance(25) {
		if from, on = g.matched(s); from != "" {
			from = " FROM " + from
		}
	}
	q := query{text: "UPDATE " + head + " SET " + g.assignments(t, s) + from}
	q.text += g.whereOf(s, on)
	g.returning(s, &q)
	return q, t
}

func (g *generator) delete() (query, *Table) {
	t := g.writable()
	head, s := g.written(t)
	using, on := "", ""
	if g.chance(25) {
		if using, on = g.matched(s); using != "" {
			using = " USING " + using
		}
	}
	q := query{text: "DELETE FROM " + head + using}
	q.text += g.whereOf(s, on)
	g.returning(s, &q)
	return q, t
}

// whereOf returns the WHERE clause of a statement that changes rows. It selects few rows, so that some remain
// unchanged.
func (g *generator) whereOf(s *scope, on string) string {
	conditions := []string{}
	if on != "" {
		conditions = append(conditions, on)
	}
	if !g.chance(5) {
		conditions = append(conditions, g.comparison(s, deepest-1))
	}
	if g.chance(30) {
		conditions = append(conditions, g.condition(s, deepest-1))
	}
	if len(conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(conditions, " AND ")
}

// modifyingWith returns a query over the result of a modifying statement in WITH.
func (g *generator) modifyingWith() (query, *Table) {
	inner, t := one(g.draw, g.insert, g.update, g.delete)()
	q := query{text: "WITH w AS (" + inner.text + ") SELECT count(*) FROM " + Ident(t.Name)}
	if strings.Contains(inner.text, " RETURNING ") {
		s := &scope{items: []*item{{alias: "w", columns: inner.columns}}, star: inner.columns}
		if len(inner.columns) == 0 {
			s = &scope{}
		}
		q = query{}
		targets := g.targets(s, deepest-1, nil, &q)
		q.text = "WITH w AS (" + inner.text + ") SELECT " + targets + " FROM w"
	}
	return q, t
}
