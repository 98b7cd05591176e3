package bytea

import (
	"fmt"
	"slices"
	"strings"
)

// comparable draws a type that can be compared, bytea most often.
func (g *generator) comparable() Type { return one(g.draw, Bytea, Bytea, Bytea, Bytea, Int, Text) }

func (g *generator) operator() string {
	return one(g.draw, "=", "=", "=", "<>", "<", "<=", ">", ">=", "!=")
}

// condition returns an expression of type boolean.
func (g *generator) condition(s *scope, depth int) string {
	if depth >= deepest {
		return g.comparison(s, depth)
	}
	switch g.below(10) {
	default:
		return g.comparison(s, depth)
	case 4:
		return g.condition(s, depth+1) + " AND " + g.condition(s, depth+1)
	case 5:
		return "(" + g.condition(s, depth+1) + " OR " + g.condition(s, depth+1) + ")"
	case 6:
		return "NOT (" + g.condition(s, depth+1) + ")"
	case 7:
		return g.rows(s, depth)
	case 8:
		return g.quantified(s, depth)
	case 9:
		return g.oddCondition(s, depth)
	}
}

// comparison returns the comparison of a column, in most cases, with a value.
func (g *generator) comparison(s *scope, depth int) string {
	t := g.comparable()
	left := g.ref(s, t)
	if left == "" || g.chance(20) {
		left = g.expr(s, t, depth)
	}
	e := func() string { return g.expr(s, t, depth) }
	switch g.below(12) {
	default:
		if g.chance(20) {
			return e() + " " + g.operator() + " " + left
		}
		return left + " " + g.operator() + " " + e()
	case 6:
		return left + one(g.draw, " IS NULL", " IS NOT NULL", " ISNULL", " NOTNULL")
	case 7:
		return left + one(g.draw, " IN (", " NOT IN (") + g.list(s, t, depth) + ")"
	case 8:
		return left + one(g.draw, " BETWEEN ", " NOT BETWEEN ", " BETWEEN SYMMETRIC ", " NOT BETWEEN SYMMETRIC ") + e() + " AND " + e()
	case 9:
		return left + one(g.draw, " IS DISTINCT FROM ", " IS NOT DISTINCT FROM ") + e()
	case 10:
		return left + one(g.draw, " = ", " = ", " <> ", " < ", " >= ") + "(" + g.query(s, depth+1, []Type{t}, form{total: true, limit: "1"}).text + ")"
	case 11:
		return left + one(g.draw, " OPERATOR(pg_catalog.=) ", " OPERATOR(pg_catalog.<) ") + e()
	}
}

func (g *generator) list(s *scope, t Type, depth int) string {
	var all []string
	if t == Bytea && g.again == "" && g.chance(2) {
		all = append(all, g.entangled())
	}
	for range 1 + g.below(3) {
		all = append(all, g.expr(s, t, depth))
	}
	return strings.Join(all, ", ")
}

// rows returns a comparison of two rows.
func (g *generator) rows(s *scope, depth int) string {
	var types []Type
	var left []string
	for range 2 + g.below(2) {
		t := g.comparable()
		e := g.ref(s, t)
		if e == "" || g.chance(15) {
			e = g.expr(s, t, depth)
		}
		types, left = append(types, t), append(left, e)
	}
	row := func() string {
		var all []string
		for _, t := range types {
			if t == Bytea && g.again == "" && g.chance(2) {
				all = append(all, g.entangled())
				continue
			}
			all = append(all, g.expr(s, t, depth))
		}
		return one(g.draw, "(", "ROW(") + strings.Join(all, ", ") + ")"
	}
	l := one(g.draw, "(", "ROW(") + strings.Join(left, ", ") + ")"
	switch g.below(7) {
	default:
		return l + " " + g.operator() + " " + row()
	case 3:
		return l + one(g.draw, " IN (", " NOT IN (") + row() + ", " + row() + ")"
	case 4:
		return l + one(g.draw, " IN (", " NOT IN (", " = ANY (", " <> ALL (") + g.query(s, depth+1, types, form{}).text + ")"
	case 5:
		return l + one(g.draw, " = (", " > (", " <= (") + g.query(s, depth+1, types, form{total: true, limit: "1"}).text + ")"
	case 6:
		return l + one(g.draw, " IS DISTINCT FROM ", " IS NOT DISTINCT FROM ", " IS NULL OR "+l+" = ") + row()
	}
}

// quantified returns a comparison with ANY or ALL of several values.
func (g *generator) quantified(s *scope, depth int) string {
	t := one(g.draw, Bytea, Bytea, Int)
	left := g.ref(s, t)
	if left == "" {
		left = g.expr(s, t, depth)
	}
	how := " " + g.operator() + one(g.draw, " ANY ", " ALL ", " SOME ")
	switch g.below(7) {
	default:
		return left + one(g.draw, " IN (", " NOT IN (") + g.query(s, depth+1, []Type{t}, form{}).text + ")"
	case 2:
		return left + how + "(ARRAY[" + g.list(s, t, depth) + "])"
	case 3:
		return left + how + "(ARRAY(" + g.query(s, depth+1, []Type{t}, form{}).text + "))"
	case 4:
		return left + how + "(" + g.query(s, depth+1, []Type{t}, form{}).text + ")"
	case 5:
		if left = g.ref(s, Bytea); left == "" {
			left = g.leaf(s, Bytea)
		}
		return left + how + "(" + g.array() + ")"
	case 6:
		return left + how + "(ARRAY[" + g.list(s, t, depth) + "]::" + t.String() + "[])"
	}
}

// oddCondition returns a condition of a rare form.
func (g *generator) oddCondition(s *scope, depth int) string {
	switch g.below(6) {
	case 1:
		return "(" + g.condition(s, depth+1) + ")" + one(g.draw, " IS TRUE", " IS NOT TRUE", " IS UNKNOWN")
	case 2:
		return g.leaf(s, Bool)
	case 3:
		if s != nil && len(s.items) > 0 && s.items[0].alias != "" {
			like := s.items[0]
			if last := s.items[len(s.items)-1]; last.alias != "" && slices.EqualFunc(like.columns, last.columns, func(a, b name) bool { return a.typ == b.typ }) {
				like = last // rows of other types fail or not as the plan compares them
			}
			return s.items[0].alias + one(g.draw, " IS NOT NULL", " IS NULL", " = "+like.alias, ".* IS NOT NULL")
		}
	case 4:
		return g.expr(s, Bytea, depth) + " LIKE " + quoted(one(g.draw, "%", "_%", `\x6125`)) + one(g.draw, "", "::bytea")
	case 5:
		return fmt.Sprintf("%s = ANY ('{\"\\\\x61\",NULL,\"\\\\x\"}'::bytea[])", g.leaf(s, Bytea))
	}
	return one(g.draw, "EXISTS (", "NOT EXISTS (") + g.query(s, depth+1, nil, form{}).text + ")"
}
