package bytea

import (
	"fmt"
	"slices"
	"strings"
)

// form holds requirements on a generated query.
type form struct {
	total bool   // what LIMIT leaves does not depend on the plan
	limit string // "" for any or none
}

// query is the text of a query with its output columns.
type query struct {
	text    string
	columns []name
	order   []int // the columns that ORDER BY sorts by, in its order, as far as they are known
}

// query generates a query. want are the types of its columns, nil for any.
func (g *generator) query(up *scope, depth int, want []Type, f form) query {
	s := under(up)
	with := ""
	if depth < deepest && g.chance(8) {
		with = g.with(s, depth)
	}
	var q query
	switch k := g.below(20); {
	case k == 17 && depth < deepest || k == 18 && depth < deepest:
		q = g.setOperation(s, depth, want, f)
	case k == 19:
		q = g.valuesQuery(s, depth, want)
	default:
		q = g.selectQuery(s, depth, want, f)
	}
	q.text = with + q.text
	return q
}

// with returns a WITH clause and adds its names to the scope.
func (g *generator) with(s *scope, depth int) string {
	var all []string
	for range 1 + g.below(2) {
		inner := &scope{up: s.up, ctes: slices.Clone(s.ctes)}
		q := g.query(inner, depth+1, nil, form{})
		it := &item{alias: Ident(one(g.draw, "w", "w2", "t", "u", "Order", "x")), columns: q.columns}
		text := it.alias
		if len(it.columns) > 0 && g.chance(40) {
			text += " (" + g.rename(it, len(it.columns)) + ")"
		}
		all = append(all, text+" AS "+one(g.draw, "", "", "MATERIALIZED ", "NOT MATERIALIZED ")+"("+q.text+")")
		s.ctes = append(s.ctes, it)
	}
	return "WITH " + strings.Join(all, ", ") + " "
}

// types draws the column types of a query without required types.
func (g *generator) types() []Type {
	var all []Type
	for range 1 + g.below(4) {
		all = append(all, one(g.draw, Bytea, Bytea, Bytea, Int, Text, Bool, Bigint))
	}
	return all
}

func (g *generator) setOperation(s *scope, depth int, want []Type, f form) query {
	if want == nil {
		want = g.types()
	}
	left := g.operand(s, depth, want)
	right := g.operand(s, depth, want)
	q := query{columns: left.columns}
	q.text = left.text + one(g.draw, " UNION ", " UNION ALL ", " INTERSECT ", " EXCEPT ", " EXCEPT ALL ", " INTERSECT ALL ") + right.text
	q.text += g.order(&q, nil, f, true)
	return q
}

// operand returns one side of a set operation.
func (g *generator) operand(s *scope, depth int, want []Type) query {
	q := g.selectQuery(under(s), depth+1, want, form{total: true})
	if strings.Contains(q.text, " ORDER BY ") || strings.Contains(q.text, " LIMIT ") || g.chance(20) {
		q.text = "(" + q.text + ")"
	}
	return q
}

func (g *generator) valuesQuery(s *scope, depth int, want []Type) query {
	if want == nil {
		want = g.types()
	}
	q := query{}
	for i, t := range want {
		q.columns = append(q.columns, name{fmt.Sprintf("column%d", i+1), t})
	}
	var rows []string
	for range 1 + g.below(2) {
		var all []string
		for _, t := range want {
			all = append(all, g.expr(s.up, t, max(depth, deepest-1)))
		}
		rows = append(rows, "("+strings.Join(all, ", ")+")")
	}
	q.text = "VALUES " + strings.Join(rows, ", ")
	return q
}

func (g *generator) selectQuery(s *scope, depth int, want []Type, f form) query {
	from := ""
	if !g.chance(3) {
		from = " FROM " + g.from(s, depth)
	}
	where := ""
	if g.chance(50) {
		where = " WHERE " + g.condition(s, depth)
	}
	if from != "" && g.chance(12) {
		return g.grouped(s, depth, want, f, from+where)
	}
	q := query{}
	distinct, plain := "", true
	if k := g.below(12); k == 10 {
		distinct, plain = "DISTINCT ", false
	} else if k == 11 {
		return g.distinctOn(s, depth, want, from+where)
	}
	targets := g.targets(s, depth, want, &q)
	q.text = "SELECT " + distinct + targets + from + where
	if plain {
		q.text += g.order(&q, s, f, false)
	} else {
		q.text += g.order(&q, nil, f, false)
	}
	return q
}

// targets returns the output list of a SELECT or RETURNING.
func (g *generator) targets(s *scope, depth int, want []Type, q *query) string {
	if want == nil && len(s.items) > 0 && g.chance(25) {
		return g.stars(s, depth, q)
	}
	if want == nil {
		want = g.types()
	}
	var all []string
	for _, t := range want {
		all = append(all, g.target(s, t, depth, q))
	}
	return strings.Join(all, ", ")
}

// target returns one output column of a query.
func (g *generator) target(s *scope, t Type, depth int, q *query) string {
	text, as := g.ref(s, t), name{typ: t}
	if text == "" || g.chance(45) {
		text = g.expr(s, t, depth)
		if g.chance(10) && depth == 0 {
			text = g.window(s, t)
		}
	} else {
		as.name = lastName(text)
	}
	if strings.ContainsAny(text[:1], "$'E") && !strings.ContainsAny(text, " (:") && g.chance(g.casts) {
		text += "::" + t.String() // or it is text
	}
	if g.chance(35) {
		as.name = one(g.draw, append([]string{"o", "o2", "out"}, columnNames...)...)
		text += one(g.draw, " AS ", " AS ", " ") + `"` + strings.ReplaceAll(as.name, `"`, `""`) + `"`
	}
	q.columns = append(q.columns, as)
	return text
}

// lastName returns the name of a column in a reference, "" for any other expression.
func lastName(ref string) string {
	for _, c := range columnNames {
		if w := Ident(c); ref == w || strings.HasSuffix(ref, "."+w) {
			return c
		}
	}
	return ""
}

// stars returns an output list with a star, and other forms that do not list columns one by one.
func (g *generator) stars(s *scope, depth int, q *query) string {
	it := s.items[g.below(len(s.items))]
	switch g.below(8) {
	default:
		q.columns = append(q.columns, s.star...)
		return "*"
	case 4, 5:
		if it.alias == "" {
			break
		}
		extra := g.target(s, Bytea, depth, q)
		q.columns = append(q.columns, it.columns...)
		return extra + ", " + it.alias + ".*"
	case 6:
		q.columns = append(q.columns, s.star...)
		return "*, " + g.target(s, Bytea, depth, q)
	case 7:
		if it.alias == "" || depth > 0 {
			break
		}
		q.columns = append(q.columns, name{}, name{"", Bigint})
		return it.alias + ", " + one(g.draw, "num_nulls("+it.alias+")", "num_nulls("+it.alias+".*)", "1")
	}
	q.columns = append(q.columns, s.star...)
	return "*"
}

// window returns a call with OVER whose value does not depend on the order of equal rows.
func (g *generator) window(s *scope, t Type) string {
	by := g.leaf(s, Bytea)
	over := " OVER (" + one(g.draw, "", "PARTITION BY "+g.leaf(s, Bytea)+" ", "PARTITION BY "+g.leaf(s, Int)+" ") + "ORDER BY " + by + one(g.draw, "", " DESC", " NULLS FIRST") + ")"
	switch t {
	case Bytea:
		return "first_value(" + by + ")" + over
	case Int, Bigint:
		return one(g.draw, "rank()", "dense_rank()", "count(*)", "count("+by+")") + over
	}
	return g.expr(s, t, deepest)
}

// distinctOn returns a query with DISTINCT ON. Its ORDER BY has all columns, so that the row which remains is
// determined.
func (g *generator) distinctOn(s *scope, depth int, want []Type, rest string) query {
	q := query{}
	targets := g.targets(s, depth, want, &q)
	on := g.ref(s, Bytea)
	if on == "" {
		on = "length(" + g.leaf(s, Bytea) + ")"
	}
	if len(q.columns) > 0 && q.columns[0].name != "" && g.chance(40) {
		on = Ident(q.columns[0].name)
	}
	q.text = "SELECT DISTINCT ON (" + on + ") " + targets + rest + " ORDER BY " + on + one(g.draw, "", " DESC", " NULLS FIRST")
	for i := range q.columns {
		q.text += fmt.Sprintf(", %d", i+1)
	}
	return q
}

// order returns ORDER BY and LIMIT. s is nil where a query can only sort by output columns.
func (g *generator) order(q *query, s *scope, f form, union bool) string {
	limit := f.limit
	if limit == "" && g.chance(15) {
		limit = fmt.Sprint(g.below(6))
	}
	if limit == "" && !g.chance(40) {
		return ""
	}
	var by []string
	known := true
	for range g.below(3) {
		item, at := g.sortItem(q, s, union)
		if item == "" {
			continue
		}
		how := one(g.draw, "", "", " DESC", " ASC", " NULLS FIRST", " DESC NULLS LAST")
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
		text += " LIMIT " + limit + one(g.draw, "", "", " OFFSET 1")
	}
	return text
}

// sortItem returns an item of ORDER BY, with the index of its output column; -1 for none.
func (g *generator) sortItem(q *query, s *scope, union bool) (string, int) {
	if n := len(q.columns); n > 0 {
		i := g.below(n)
		if out := q.columns[i].name; out != "" && g.chance(50) {
			return Ident(out), -1 // another column can have the name
		}
		if s == nil || g.chance(30) {
			return fmt.Sprint(i + 1), i
		}
	}
	if s == nil || union {
		return "", -1
	}
	if ref := g.ref(s, Bytea); ref != "" && g.chance(60) {
		return ref, -1
	}
	return one(g.draw, "length("+g.expr(s, Bytea, deepest)+")", "("+g.expr(s, Bytea, deepest)+" || '\\x'::bytea)"), -1
}

// grouped returns a query with GROUP BY, or an aggregate without GROUP BY.
func (g *generator) grouped(s *scope, depth int, want []Type, f form, rest string) query {
	if want == nil {
		want = g.types()
	}
	q := query{}
	var by, targets []string
	for range g.below(3) {
		if ref := g.ref(s, one(g.draw, Bytea, Bytea, Int, Text)); ref != "" {
			by = append(by, ref)
		}
	}
	sets := len(by) > 0 && g.chance(20)
	for _, t := range want {
		q.columns = append(q.columns, name{typ: t})
		targets = append(targets, g.aggregated(s, t, by, sets))
	}
	q.text = "SELECT " + strings.Join(targets, ", ") + rest
	if len(by) > 0 {
		group := strings.Join(by, ", ")
		if sets {
			group = one(g.draw, "ROLLUP (", "CUBE (") + group + ")"
		}
		q.text += " GROUP BY " + group
	}
	if g.chance(30) {
		q.text += " HAVING count(*) > " + fmt.Sprint(g.below(3))
		if len(by) > 0 && g.chance(50) {
			q.text += " AND " + by[0] + " IS NOT NULL"
		}
	}
	q.text += g.order(&q, nil, f, false)
	return q
}

// aggregated returns an output column of a query with groups.
func (g *generator) aggregated(s *scope, t Type, by []string, sets bool) string {
	if len(by) > 0 && g.chance(40) {
		return by[g.below(len(by))]
	}
	if g.casts < 50 && g.chance(20) {
		return g.world.constant(g.draw, t)
	}
	b := g.leaf(s, Bytea)
	switch t {
	case Bytea:
		return one(g.draw, "string_agg("+b+", '\\x2c'::bytea ORDER BY "+b+")", "string_agg("+b+", '' ORDER BY "+b+")", "(array_agg("+b+" ORDER BY "+b+"))[1]", g.noMax(b))
	case Text:
		return one(g.draw, "string_agg(encode("+b+", 'hex'), ',' ORDER BY "+b+")", "array_agg("+b+" ORDER BY "+b+" DESC)::text", "array_agg(DISTINCT "+b+")::text")
	case Bool:
		return "bool_or(" + b + " IS NULL)"
	}
	if sets && g.chance(50) {
		return "GROUPING(" + by[0] + ")"
	}
	return one(g.draw, "count(*)", "count("+b+")", "count(DISTINCT "+b+")", "sum(length("+b+"))", "count(*) FILTER (WHERE "+b+" IS NOT NULL)")
}

// noMax returns, in rare cases, max of a bytea, an aggregate that bytea does not have.
func (g *generator) noMax(e string) string {
	if g.chance(10) {
		return "max(" + e + ")"
	}
	return "min(length(" + e + "))::text::bytea"
}
