package bytea

import (
	"fmt"
	"slices"
	"strings"
)

// comparableType draws a type at random whose values can be compared, in most cases bytea.
func (g *sqlGenerator) comparableType() Type {
	return pickOne(g.choiceSequence, Bytea, Bytea, Bytea, Bytea, Int, Text)
}

func (g *sqlGenerator) comparisonOperator() string {
	return pickOne(g.choiceSequence, "=", "=", "=", "<>", "<", "<=", ">", ">=", "!=")
}

// condition returns an expression of type boolean.
func (g *sqlGenerator) condition(s *queryScope, depth int) string {
	if depth >= maxDepth {
		return g.columnComparison(s, depth)
	}
	switch g.intBelow(10) {
	default:
		return g.columnComparison(s, depth)
	case 4:
		return g.condition(s, depth+1) + " AND " + g.condition(s, depth+1)
	case 5:
		return "(" + g.condition(s, depth+1) + " OR " + g.condition(s, depth+1) + ")"
	case 6:
		return "NOT (" + g.condition(s, depth+1) + ")"
	case 7:
		return g.rowComparison(s, depth)
	case 8:
		return g.quantifiedComparison(s, depth)
	case 9:
		return g.rareCondition(s, depth)
	}
}

// columnComparison returns a condition that compares an expression with others, or tests it for NULL. That expression
// is a column in most cases.
func (g *sqlGenerator) columnComparison(s *queryScope, depth int) string {
	t := g.comparableType()
	left := g.columnRef(s, t)
	if left == "" || g.chance(20) {
		left = g.expression(s, t, depth)
	}
	e := func() string { return g.expression(s, t, depth) }
	switch g.intBelow(12) {
	default:
		if g.chance(20) {
			return e() + " " + g.comparisonOperator() + " " + left
		}
		return left + " " + g.comparisonOperator() + " " + e()
	case 6:
		return left + pickOne(g.choiceSequence, " IS NULL", " IS NOT NULL", " ISNULL", " NOTNULL")
	case 7:
		return left + pickOne(g.choiceSequence, " IN (", " NOT IN (") + g.expressionList(s, t, depth) + ")"
	case 8:
		return left + pickOne(g.choiceSequence, " BETWEEN ", " NOT BETWEEN ", " BETWEEN SYMMETRIC ", " NOT BETWEEN SYMMETRIC ") + e() + " AND " + e()
	case 9:
		return left + pickOne(g.choiceSequence, " IS DISTINCT FROM ", " IS NOT DISTINCT FROM ") + e()
	case 10:
		return left + pickOne(g.choiceSequence, " = ", " = ", " <> ", " < ", " >= ") + "(" + g.newQuery(s, depth+1, []Type{t}, queryForm{total: true, limit: "1"}).text + ")"
	case 11:
		return left + pickOne(g.choiceSequence, " OPERATOR(pg_catalog.=) ", " OPERATOR(pg_catalog.<) ") + e()
	}
}

func (g *sqlGenerator) expressionList(s *queryScope, t Type, depth int) string {
	var all []string
	if t == Bytea && g.sharedParam == "" && g.chance(2) {
		all = append(all, g.newSharedParam())
	}
	for range 1 + g.intBelow(3) {
		all = append(all, g.expression(s, t, depth))
	}
	return strings.Join(all, ", ")
}

// rowComparison returns a comparison of two rows.
func (g *sqlGenerator) rowComparison(s *queryScope, depth int) string {
	var types []Type
	var left []string
	for range 2 + g.intBelow(2) {
		t := g.comparableType()
		e := g.columnRef(s, t)
		if e == "" || g.chance(15) {
			e = g.expression(s, t, depth)
		}
		types, left = append(types, t), append(left, e)
	}
	row := func() string {
		var all []string
		for _, t := range types {
			if t == Bytea && g.sharedParam == "" && g.chance(2) {
				all = append(all, g.newSharedParam())
				continue
			}
			all = append(all, g.expression(s, t, depth))
		}
		return pickOne(g.choiceSequence, "(", "ROW(") + strings.Join(all, ", ") + ")"
	}
	l := pickOne(g.choiceSequence, "(", "ROW(") + strings.Join(left, ", ") + ")"
	switch g.intBelow(7) {
	default:
		return l + " " + g.comparisonOperator() + " " + row()
	case 3:
		return l + pickOne(g.choiceSequence, " IN (", " NOT IN (") + row() + ", " + row() + ")"
	case 4:
		return l + pickOne(g.choiceSequence, " IN (", " NOT IN (", " = ANY (", " <> ALL (") + g.newQuery(s, depth+1, types, queryForm{}).text + ")"
	case 5:
		return l + pickOne(g.choiceSequence, " = (", " > (", " <= (") + g.newQuery(s, depth+1, types, queryForm{total: true, limit: "1"}).text + ")"
	case 6:
		return l + pickOne(g.choiceSequence, " IS DISTINCT FROM ", " IS NOT DISTINCT FROM ", " IS NULL OR "+l+" = ") + row()
	}
}

// quantifiedComparison returns a comparison with ANY or ALL of several values.
func (g *sqlGenerator) quantifiedComparison(s *queryScope, depth int) string {
	t := pickOne(g.choiceSequence, Bytea, Bytea, Int)
	left := g.columnRef(s, t)
	if left == "" {
		left = g.expression(s, t, depth)
	}
	how := " " + g.comparisonOperator() + pickOne(g.choiceSequence, " ANY ", " ALL ", " SOME ")
	switch g.intBelow(7) {
	default:
		return left + pickOne(g.choiceSequence, " IN (", " NOT IN (") + g.newQuery(s, depth+1, []Type{t}, queryForm{}).text + ")"
	case 2:
		return left + how + "(ARRAY[" + g.expressionList(s, t, depth) + "])"
	case 3:
		return left + how + "(ARRAY(" + g.newQuery(s, depth+1, []Type{t}, queryForm{}).text + "))"
	case 4:
		return left + how + "(" + g.newQuery(s, depth+1, []Type{t}, queryForm{}).text + ")"
	case 5:
		if left = g.columnRef(s, Bytea); left == "" {
			left = g.leafExpression(s, Bytea)
		}
		return left + how + "(" + g.arrayParameter() + ")"
	case 6:
		return left + how + "(ARRAY[" + g.expressionList(s, t, depth) + "]::" + t.String() + "[])"
	}
}

// rareCondition returns a random condition of a form that condition uses rarely, such as EXISTS or LIKE.
func (g *sqlGenerator) rareCondition(s *queryScope, depth int) string {
	switch g.intBelow(6) {
	case 1:
		return "(" + g.condition(s, depth+1) + ")" + pickOne(g.choiceSequence, " IS TRUE", " IS NOT TRUE", " IS UNKNOWN")
	case 2:
		return g.leafExpression(s, Bool)
	case 3:
		if s != nil && len(s.items) > 0 && s.items[0].alias != "" {
			like := s.items[0]
			if last := s.items[len(s.items)-1]; last.alias != "" && slices.EqualFunc(like.columns, last.columns, func(a, b namedColumn) bool { return a.typ == b.typ }) {
				like = last // rows of other types fail or not as the plan compares them
			}
			return s.items[0].alias + pickOne(g.choiceSequence, " IS NOT NULL", " IS NULL", " = "+like.alias, ".* IS NOT NULL")
		}
	case 4:
		return g.expression(s, Bytea, depth) + " LIKE " + quoteLiteral(pickOne(g.choiceSequence, "%", "_%", `\x6125`)) + pickOne(g.choiceSequence, "", "::bytea")
	case 5:
		return fmt.Sprintf("%s = ANY ('{\"\\\\x61\",NULL,\"\\\\x\"}'::bytea[])", g.leafExpression(s, Bytea))
	}
	return pickOne(g.choiceSequence, "EXISTS (", "NOT EXISTS (") + g.newQuery(s, depth+1, nil, queryForm{}).text + ")"
}
