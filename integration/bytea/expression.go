package bytea

import (
	"fmt"
	"strings"
)

// deepest is the maximum nesting of expressions and queries.
const deepest = 3

// expr returns an expression of type t. In one of 300 cases it has another type, to provoke errors.
func (g *generator) expr(s *scope, t Type, depth int) string {
	if g.below(300) == 299 {
		t = Type(g.below(int(typeCount)))
	}
	if depth < deepest && g.chance(45) {
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
	return g.leaf(s, t)
}

// leaf returns a column, a parameter or a constant.
func (g *generator) leaf(s *scope, t Type) string {
	if g.again != "" && g.chance(15) {
		return g.mention(t)
	}
	if g.chance(20) {
		return g.parameter(t)
	}
	if !g.chance(25) {
		if ref := g.ref(s, t); ref != "" {
			return ref
		}
	}
	if g.chance(4) {
		return "NULL"
	}
	return g.world.constant(g.draw, t)
}

// anyForm returns an expression of a type, in a form that all types have.
func (g *generator) anyForm(s *scope, t Type, depth int) string {
	e := func() string { return g.expr(s, t, depth) }
	switch g.below(11) {
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
		return one(g.draw, "greatest(", "least(") + e() + ", " + e() + ")"
	case 6:
		return g.scalar(s, t, depth)
	case 7:
		return "(ARRAY[" + e() + ", " + e() + "])[" + fmt.Sprint(1+g.below(3)) + "]"
	case 8:
		return "(" + e() + ")"
	case 9:
		if g.chance(30) {
			return g.field(s, t)
		}
		return e()
	case 10:
		return e() + "::" + t.String()
	}
}

// field returns an expression that selects a column of a whole row.
func (g *generator) field(s *scope, t Type) string {
	for ; s != nil; s = s.up {
		for _, it := range s.items {
			for _, c := range it.columns {
				if c.typ == t && c.name != "" && it.alias != "" && !strings.Contains(it.alias, ".") && g.chance(40) {
					return "(" + it.alias + ")." + Ident(c.name)
				}
			}
		}
	}
	return g.world.constant(g.draw, t)
}

// scalar returns a subquery that yields one value.
func (g *generator) scalar(s *scope, t Type, depth int) string {
	q := g.query(s, depth+1, []Type{t}, form{total: true, limit: "1"})
	return "(" + q.text + ")"
}

func (g *generator) byteaExpr(s *scope, depth int) string {
	b := func() string { return g.expr(s, Bytea, depth) }
	switch g.below(14) {
	default:
		return g.anyForm(s, Bytea, depth)
	case 6:
		return b() + " || " + b()
	case 7:
		return fmt.Sprintf("substr(%s, %d, %d)", b(), 1+g.below(3), g.below(20))
	case 8:
		return fmt.Sprintf("substring(%s from %d for %d)", b(), g.below(3), g.below(20))
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
		return "convert_to(" + g.expr(s, Text, depth) + ", 'UTF8')"
	case 13:
		return "(" + b() + " || " + b() + ")::bytea"
	}
}

func (g *generator) textExpr(s *scope, depth int) string {
	b := func() string { return g.expr(s, Bytea, depth) }
	switch g.below(12) {
	default:
		return g.anyForm(s, Text, depth)
	case 4:
		return "encode(" + b() + ", " + one(g.draw, "'hex'", "'base64'", "'escape'") + ")"
	case 5:
		return "md5(" + b() + ")"
	case 6:
		return "(" + b() + ")::text"
	case 7:
		return g.expr(s, Text, depth) + " || " + g.expr(s, Text, depth)
	case 8:
		return "upper(" + g.expr(s, Text, depth) + ")"
	case 9:
		return "(" + g.expr(s, Int, depth) + ")::text"
	case 10:
		return "concat(" + b() + ", " + g.expr(s, Text, depth) + ")"
	case 11:
		if g.chance(30) {
			return g.wholeRow(s)
		}
		return "initcap(" + g.expr(s, Text, depth) + ")"
	}
}

// wholeRow returns an expression that makes a text of a whole row.
func (g *generator) wholeRow(s *scope) string {
	if s != nil && len(s.items) > 0 {
		if it := s.items[g.below(len(s.items))]; it.alias != "" && !strings.Contains(it.alias, ".") {
			return one(g.draw, "row_to_json("+it.alias+")::text", it.alias+"::text", "to_jsonb("+it.alias+")::text", "ROW("+it.alias+".*)::text")
		}
	}
	return g.world.constant(g.draw, Text)
}

func (g *generator) intExpr(s *scope, depth int) string {
	b := func() string { return g.expr(s, Bytea, depth) }
	switch g.below(9) {
	default:
		return g.anyForm(s, Int, depth)
	case 3:
		return one(g.draw, "length(", "octet_length(", "bit_length(") + b() + ")"
	case 4:
		return "position(" + b() + " IN " + b() + ")"
	case 5:
		return g.expr(s, Int, depth) + " + " + g.expr(s, Int, depth)
	case 6:
		return "get_byte(" + b() + " || '\\x00', 0)"
	case 7:
		return "(SELECT count(*) FROM (" + g.query(s, depth+1, nil, form{}).text + ") AS " + g.alias() + ")"
	case 8:
		return "length(" + g.expr(s, Text, depth) + ")"
	}
}
