package bytea

import (
	"fmt"
	"slices"
	"strings"
)

// queryForm has the requirements on the form of a query that the generator makes.
type queryForm struct {
	total bool   // what LIMIT leaves does not depend on the plan
	limit string // "" for any or none
}

// query is the text of a query with its output columns.
type query struct {
	text    string
	columns []namedColumn
	order   []int // the columns that ORDER BY sorts by, in its order, as far as they are known
}

// newQuery generates a query. want has the types of the query's columns, and nil means any types.
func (g *sqlGenerator) newQuery(up *queryScope, depth int, want []Type, f queryForm) query {
	s := newInnerScope(up)
	with := ""
	if depth < maxDepth && g.chance(8) {
		with = g.withClause(s, depth)
	}
	var q query
	switch k := g.intBelow(20); {
	case k == 17 && depth < maxDepth || k == 18 && depth < maxDepth:
		q = g.setOperation(s, depth, want, f)
	case k == 19:
		q = g.valuesQuery(s, depth, want)
	default:
		q = g.selectQuery(s, depth, want, f)
	}
	q.text = with + q.text
	return q
}

// withClause returns a WITH clause and adds the names of its queries to the scope s.
func (g *sqlGenerator) withClause(s *queryScope, depth int) string {
	var all []string
	for range 1 + g.intBelow(2) {
		inner := &queryScope{up: s.up, ctes: slices.Clone(s.ctes)}
		q := g.newQuery(inner, depth+1, nil, queryForm{})
		it := &fromItem{alias: QuoteIdent(pickOne(g.choiceSequence, "w", "w2", "t", "u", "Order", "x")), columns: q.columns}
		text := it.alias
		if len(it.columns) > 0 && g.chance(40) {
			text += " (" + g.renameColumns(it, len(it.columns)) + ")"
		}
		all = append(all, text+" AS "+pickOne(g.choiceSequence, "", "", "MATERIALIZED ", "NOT MATERIALIZED ")+"("+q.text+")")
		s.ctes = append(s.ctes, it)
	}
	return "WITH " + strings.Join(all, ", ") + " "
}

// randomTypes draws the column types of a query without required types.
func (g *sqlGenerator) randomTypes() []Type {
	var all []Type
	for range 1 + g.intBelow(4) {
		all = append(all, pickOne(g.choiceSequence, Bytea, Bytea, Bytea, Int, Text, Bool, Bigint))
	}
	return all
}

func (g *sqlGenerator) setOperation(s *queryScope, depth int, want []Type, f queryForm) query {
	if want == nil {
		want = g.randomTypes()
	}
	left := g.setOperand(s, depth, want)
	right := g.setOperand(s, depth, want)
	q := query{columns: left.columns}
	q.text = left.text + pickOne(g.choiceSequence, " UNION ", " UNION ALL ", " INTERSECT ", " EXCEPT ", " EXCEPT ALL ", " INTERSECT ALL ") + right.text
	q.text += g.orderClause(&q, nil, f, true)
	return q
}

// setOperand returns one of the two queries of a UNION, INTERSECT or EXCEPT.
func (g *sqlGenerator) setOperand(s *queryScope, depth int, want []Type) query {
	q := g.selectQuery(newInnerScope(s), depth+1, want, queryForm{total: true})
	if strings.Contains(q.text, " ORDER BY ") || strings.Contains(q.text, " LIMIT ") || g.chance(20) {
		q.text = "(" + q.text + ")"
	}
	return q
}

func (g *sqlGenerator) valuesQuery(s *queryScope, depth int, want []Type) query {
	if want == nil {
		want = g.randomTypes()
	}
	q := query{}
	for i, t := range want {
		q.columns = append(q.columns, namedColumn{fmt.Sprintf("column%d", i+1), t})
	}
	var rows []string
	for range 1 + g.intBelow(2) {
		var all []string
		for _, t := range want {
			all = append(all, g.expression(s.up, t, max(depth, maxDepth-1)))
		}
		rows = append(rows, "("+strings.Join(all, ", ")+")")
	}
	q.text = "VALUES " + strings.Join(rows, ", ")
	return q
}

func (g *sqlGenerator) selectQuery(s *queryScope, depth int, want []Type, f queryForm) query {
	from := ""
	if !g.chance(3) {
		from = " FROM " + g.fromClause(s, depth)
	}
	where := ""
	if g.chance(50) {
		where = " WHERE " + g.condition(s, depth)
	}
	if from != "" && g.chance(12) {
		return g.groupedQuery(s, depth, want, f, from+where)
	}
	q := query{}
	distinct, plain := "", true
	if k := g.intBelow(12); k == 10 {
		distinct, plain = "DISTINCT ", false
	} else if k == 11 {
		return g.distinctOnQuery(s, depth, want, from+where)
	}
	targets := g.targetList(s, depth, want, &q)
	q.text = "SELECT " + distinct + targets + from + where
	if plain {
		q.text += g.orderClause(&q, s, f, false)
	} else {
		q.text += g.orderClause(&q, nil, f, false)
	}
	return q
}

// targetList returns the output list of a SELECT or RETURNING.
func (g *sqlGenerator) targetList(s *queryScope, depth int, want []Type, q *query) string {
	if want == nil && len(s.items) > 0 && g.chance(25) {
		return g.starTargets(s, depth, q)
	}
	if want == nil {
		want = g.randomTypes()
	}
	var all []string
	for _, t := range want {
		all = append(all, g.targetColumn(s, t, depth, q))
	}
	return strings.Join(all, ", ")
}

// targetColumn returns one output column of a query.
func (g *sqlGenerator) targetColumn(s *queryScope, t Type, depth int, q *query) string {
	text, as := g.columnRef(s, t), namedColumn{typ: t}
	if text == "" || g.chance(45) {
		text = g.expression(s, t, depth)
		if g.chance(10) && depth == 0 {
			text = g.windowCall(s, t)
		}
	} else {
		as.name = columnOfRef(text)
	}
	if strings.ContainsAny(text[:1], "$'E") && !strings.ContainsAny(text, " (:") && g.chance(g.casts) {
		text += "::" + t.String() // or it is text
	}
	if g.chance(35) {
		as.name = pickOne(g.choiceSequence, append([]string{"o", "o2", "out"}, columnNames...)...)
		text += pickOne(g.choiceSequence, " AS ", " AS ", " ") + `"` + strings.ReplaceAll(as.name, `"`, `""`) + `"`
	}
	q.columns = append(q.columns, as)
	return text
}

// columnOfRef returns the name of a column in a reference, "" for any other expression.
func columnOfRef(ref string) string {
	for _, c := range columnNames {
		if w := QuoteIdent(c); ref == w || strings.HasSuffix(ref, "."+w) {
			return c
		}
	}
	return ""
}

// starTargets returns an output list with a star, and other forms that do not list columns one by one.
func (g *sqlGenerator) starTargets(s *queryScope, depth int, q *query) string {
	it := s.items[g.intBelow(len(s.items))]
	switch g.intBelow(8) {
	default:
		q.columns = append(q.columns, s.star...)
		return "*"
	case 4, 5:
		if it.alias == "" {
			break
		}
		extra := g.targetColumn(s, Bytea, depth, q)
		q.columns = append(q.columns, it.columns...)
		return extra + ", " + it.alias + ".*"
	case 6:
		q.columns = append(q.columns, s.star...)
		return "*, " + g.targetColumn(s, Bytea, depth, q)
	case 7:
		if it.alias == "" || depth > 0 {
			break
		}
		q.columns = append(q.columns, namedColumn{}, namedColumn{"", Bigint})
		return it.alias + ", " + pickOne(g.choiceSequence, "num_nulls("+it.alias+")", "num_nulls("+it.alias+".*)", "1")
	}
	q.columns = append(q.columns, s.star...)
	return "*"
}

// windowCall returns a call with OVER whose value does not depend on the order of equal rows.
func (g *sqlGenerator) windowCall(s *queryScope, t Type) string {
	by := g.leafExpression(s, Bytea)
	over := " OVER (" + pickOne(g.choiceSequence, "", "PARTITION BY "+g.leafExpression(s, Bytea)+" ", "PARTITION BY "+g.leafExpression(s, Int)+" ") + "ORDER BY " + by + pickOne(g.choiceSequence, "", " DESC", " NULLS FIRST") + ")"
	switch t {
	case Bytea:
		return "first_value(" + by + ")" + over
	case Int, Bigint:
		return pickOne(g.choiceSequence, "rank()", "dense_rank()", "count(*)", "count("+by+")") + over
	}
	return g.expression(s, t, maxDepth)
}

// distinctOnQuery returns a query with DISTINCT ON. Its ORDER BY has all columns, so that the row which remains is
// determined.
func (g *sqlGenerator) distinctOnQuery(s *queryScope, depth int, want []Type, rest string) query {
	q := query{}
	targets := g.targetList(s, depth, want, &q)
	on := g.columnRef(s, Bytea)
	if on == "" {
		on = "length(" + g.leafExpression(s, Bytea) + ")"
	}
	if len(q.columns) > 0 && q.columns[0].name != "" && g.chance(40) {
		on = QuoteIdent(q.columns[0].name)
	}
	q.text = "SELECT DISTINCT ON (" + on + ") " + targets + rest + " ORDER BY " + on + pickOne(g.choiceSequence, "", " DESC", " NULLS FIRST")
	for i := range q.columns {
		q.text += fmt.Sprintf(", %d", i+1)
	}
	return q
}

// orderClause returns ORDER BY and LIMIT. s is nil where a query can only sort by output columns.
func (g *sqlGenerator) orderClause(q *query, s *queryScope, f queryForm, union bool) string {
	limit := f.limit
	if limit == "" && g.chance(15) {
		limit = fmt.Sprint(g.intBelow(6))
	}
	if limit == "" && !g.chance(40) {
		return ""
	}
	var by []string
	known := true
	for range g.intBelow(3) {
		item, at := g.sortItem(q, s, union)
		if item == "" {
			continue
		}
		how := pickOne(g.choiceSequence, "", "", " DESC", " ASC", " NULLS FIRST", " DESC NULLS LAST")
		by = append(by, item+how)
		if known = known && at >= 0; known {
			q.order = append(q.order, at)
		}
	}
	if limit != "" || g.chance(30) || len(by) == 0 {
		for i := range q.columns {
			by = append(by, fmt.Sprint(i+1))
			if known {
				q.order = append(q.order, i)
			}
		}
	}
	text := " ORDER BY " + strings.Join(by, ", ")
	if limit != "" {
		text += " LIMIT " + limit + pickOne(g.choiceSequence, "", "", " OFFSET 1")
	}
	return text
}

// sortItem returns an item of ORDER BY, and the index of its output column, or -1 if it is no output column.
func (g *sqlGenerator) sortItem(q *query, s *queryScope, union bool) (string, int) {
	if n := len(q.columns); n > 0 {
		i := g.intBelow(n)
		if out := q.columns[i].name; out != "" && g.chance(50) {
			return QuoteIdent(out), -1 // another column can have the name
		}
		if s == nil || g.chance(30) {
			return fmt.Sprint(i + 1), i
		}
	}
	if s == nil || union {
		return "", -1
	}
	if ref := g.columnRef(s, Bytea); ref != "" && g.chance(60) {
		return ref, -1
	}
	return pickOne(g.choiceSequence, "length("+g.expression(s, Bytea, maxDepth)+")", "("+g.expression(s, Bytea, maxDepth)+" || '\\x'::bytea)"), -1
}

// groupedQuery returns a query with GROUP BY, or an aggregate without GROUP BY.
func (g *sqlGenerator) groupedQuery(s *queryScope, depth int, want []Type, f queryForm, rest string) query {
	if want == nil {
		want = g.randomTypes()
	}
	q := query{}
	var by, targets []string
	for range g.intBelow(3) {
		if ref := g.columnRef(s, pickOne(g.choiceSequence, Bytea, Bytea, Int, Text)); ref != "" {
			by = append(by, ref)
		}
	}
	sets := len(by) > 0 && g.chance(20)
	for _, t := range want {
		q.columns = append(q.columns, namedColumn{typ: t})
		targets = append(targets, g.aggregatedColumn(s, t, by, sets))
	}
	q.text = "SELECT " + strings.Join(targets, ", ") + rest
	if len(by) > 0 {
		group := strings.Join(by, ", ")
		if sets {
			group = pickOne(g.choiceSequence, "ROLLUP (", "CUBE (") + group + ")"
		}
		q.text += " GROUP BY " + group
	}
	if g.chance(30) {
		q.text += " HAVING count(*) > " + fmt.Sprint(g.intBelow(3))
		if len(by) > 0 && g.chance(50) {
			q.text += " AND " + by[0] + " IS NOT NULL"
		}
	}
	q.text += g.orderClause(&q, nil, f, false)
	return q
}

// aggregatedColumn returns an output column of a query with groups.
func (g *sqlGenerator) aggregatedColumn(s *queryScope, t Type, by []string, sets bool) string {
	if len(by) > 0 && g.chance(40) {
		return by[g.intBelow(len(by))]
	}
	if g.casts < 50 && g.chance(20) {
		return g.world.drawConstant(g.choiceSequence, t)
	}
	b := g.leafExpression(s, Bytea)
	switch t {
	case Bytea:
		return pickOne(g.choiceSequence, "string_agg("+b+", '\\x2c'::bytea ORDER BY "+b+")", "string_agg("+b+", '' ORDER BY "+b+")", "(array_agg("+b+" ORDER BY "+b+"))[1]", g.byteaAggregate(b))
	case Text:
		return pickOne(g.choiceSequence, "string_agg(encode("+b+", 'hex'), ',' ORDER BY "+b+")", "array_agg("+b+" ORDER BY "+b+" DESC)::text", "array_agg(DISTINCT "+b+")::text")
	case Bool:
		return "bool_or(" + b + " IS NULL)"
	}
	if sets && g.chance(50) {
		return "GROUPING(" + by[0] + ")"
	}
	return pickOne(g.choiceSequence, "count(*)", "count("+b+")", "count(DISTINCT "+b+")", "sum(length("+b+"))", "count(*) FILTER (WHERE "+b+" IS NOT NULL)")
}

// byteaAggregate returns, in rare cases, max of a bytea, an aggregate that bytea does not have.
func (g *sqlGenerator) byteaAggregate(e string) string {
	if g.chance(10) {
		return "max(" + e + ")"
	}
	return "min(length(" + e + "))::text::bytea"
}
