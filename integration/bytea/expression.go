package bytea

import (
	"fmt"
	"strings"
)

// maxDepth is the maximum nesting of expressions and queries.
const maxDepth = 3

// expression returns an expression of type t. In one of 300 cases it has another type, to provoke errors.
func (g *sqlGenerator) expression(s *queryScope, t Type, depth int) string {
	if g.intBelow(300) == 299 {
		t = Type(g.intBelow(int(typeCount)))
	}
	if depth < maxDepth && g.chance(45) {
		switch t {
		case Bytea:
			return g.byteaExpr(s, depth+1)
		case Text:
			return g.textExpr(s, depth+1)
		case Bool:
			return g.condition(s, depth+1)
		}
		return g.intExpr(s, depth+1)
	}
	return g.leafExpression(s, t)
}

// leafExpression returns a column, a parameter or a constant.
func (g *sqlGenerator) leafExpression(s *queryScope, t Type) string {
	if g.sharedParam != "" && g.chance(15) {
		return g.sharedParamExpr(t)
	}
	if g.chance(20) {
		return g.typedParameter(t)
	}
	if !g.chance(25) {
		if ref := g.columnRef(s, t); ref != "" {
			return ref
		}
	}
	if g.chance(4) {
		return "NULL"
	}
	return g.world.drawConstant(g.choiceSequence, t)
}

// genericExpression returns an expression of type t, in a form that works for every type, for example coalesce or
// CASE.
func (g *sqlGenerator) genericExpression(s *queryScope, t Type, depth int) string {
	e := func() string { return g.expression(s, t, depth) }
	switch g.intBelow(11) {
	default:
		return e()
	case 1:
		return "coalesce(" + e() + ", " + e() + ")"
	case 2:
		return "CASE WHEN " + g.condition(s, depth) + " THEN " + e() + " ELSE " + e() + " END"
	case 3:
		return "CASE " + e() + " WHEN " + e() + " THEN " + e() + " WHEN " + e() + " THEN " + e() + " END"
	case 4:
		return "nullif(" + e() + ", " + e() + ")"
	case 5:
		return pickOne(g.choiceSequence, "greatest(", "least(") + e() + ", " + e() + ")"
	case 6:
		return g.scalarSubquery(s, t, depth)
	case 7:
		return "(ARRAY[" + e() + ", " + e() + "])[" + fmt.Sprint(1+g.intBelow(3)) + "]"
	case 8:
		return "(" + e() + ")"
	case 9:
		if g.chance(30) {
			return g.rowField(s, t)
		}
		return e()
	case 10:
		return e() + "::" + t.String()
	}
}

// rowField returns an expression that selects a column of a whole row.
func (g *sqlGenerator) rowField(s *queryScope, t Type) string {
	for ; s != nil; s = s.up {
		for _, it := range s.items {
			for _, c := range it.columns {
				if c.typ == t && c.name != "" && it.alias != "" && !strings.Contains(it.alias, ".") && g.chance(40) {
					return "(" + it.alias + ")." + QuoteIdent(c.name)
				}
			}
		}
	}
	return g.world.drawConstant(g.choiceSequence, t)
}

// scalarSubquery returns a subquery that yields one value.
func (g *sqlGenerator) scalarSubquery(s *queryScope, t Type, depth int) string {
	q := g.newQuery(s, depth+1, []Type{t}, queryForm{total: true, limit: "1"})
	return "(" + q.text + ")"
}

func (g *sqlGenerator) byteaExpr(s *queryScope, depth int) string {
	b := func() string { return g.expression(s, Bytea, depth) }
	switch g.intBelow(14) {
	default:
		return g.genericExpression(s, Bytea, depth)
	case 6:
		return b() + " || " + b()
	case 7:
		return fmt.Sprintf("substr(%s, %d, %d)", b(), 1+g.intBelow(3), g.intBelow(20))
	case 8:
		return fmt.Sprintf("substring(%s from %d for %d)", b(), g.intBelow(3), g.intBelow(20))
	case 9:
		return "decode(encode(" + b() + ", 'hex'), 'hex')"
	case 10:
		return "sha256(" + b() + ")"
	case 11:
		if g.chance(50) {
			return "btrim(" + b() + ", '\\x61'::bytea)"
		}
		return "trim(both '\\x00'::bytea from " + b() + ")"
	case 12:
		return "convert_to(" + g.expression(s, Text, depth) + ", 'UTF8')"
	case 13:
		return "(" + b() + " || " + b() + ")::bytea"
	}
}

func (g *sqlGenerator) textExpr(s *queryScope, depth int) string {
	b := func() string { return g.expression(s, Bytea, depth) }
	switch g.intBelow(12) {
	default:
		return g.genericExpression(s, Text, depth)
	case 4:
		return "encode(" + b() + ", " + pickOne(g.choiceSequence, "'hex'", "'base64'", "'escape'") + ")"
	case 5:
		return "md5(" + b() + ")"
	case 6:
		return "(" + b() + ")::text"
	case 7:
		return g.expression(s, Text, depth) + " || " + g.expression(s, Text, depth)
	case 8:
		return "upper(" + g.expression(s, Text, depth) + ")"
	case 9:
		return "(" + g.expression(s, Int, depth) + ")::text"
	case 10:
		return "concat(" + b() + ", " + g.expression(s, Text, depth) + ")"
	case 11:
		if g.chance(30) {
			return g.wholeRowText(s)
		}
		return "initcap(" + g.expression(s, Text, depth) + ")"
	}
}

// wholeRowText returns an expression that converts a whole row to text.
func (g *sqlGenerator) wholeRowText(s *queryScope) string {
	if s != nil && len(s.items) > 0 {
		if it := s.items[g.intBelow(len(s.items))]; it.alias != "" && !strings.Contains(it.alias, ".") {
			return pickOne(g.choiceSequence, "row_to_json("+it.alias+")::text", it.alias+"::text", "to_jsonb("+it.alias+")::text", "ROW("+it.alias+".*)::text")
		}
	}
	return g.world.drawConstant(g.choiceSequence, Text)
}

func (g *sqlGenerator) intExpr(s *queryScope, depth int) string {
	b := func() string { return g.expression(s, Bytea, depth) }
	switch g.intBelow(9) {
	default:
		return g.genericExpression(s, Int, depth)
	case 3:
		return pickOne(g.choiceSequence, "length(", "octet_length(", "bit_length(") + b() + ")"
	case 4:
		return "position(" + b() + " IN " + b() + ")"
	case 5:
		return g.expression(s, Int, depth) + " + " + g.expression(s, Int, depth)
	case 6:
		return "get_byte(" + b() + " || '\\x00', 0)"
	case 7:
		return "(SELECT count(*) FROM (" + g.newQuery(s, depth+1, nil, queryForm{}).text + ") AS " + g.newAlias() + ")"
	case 8:
		return "length(" + g.expression(s, Text, depth) + ")"
	}
}
