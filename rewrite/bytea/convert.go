package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// Conversion converts between bytea and hexadecimal digits on the server, by SQL. NULL stays NULL. An operand that
// is not bytea is an error, as for a bytea column.
type Conversion struct {
	// toHex is the SQL before and after a bytea operand that converts the operand to hexadecimal digits. toBytea is the
	// SQL before and after digits that converts the digits to bytea.
	toHex, toBytea struct{ open, close string }
	// hexTree and byteaTree return the parse trees of the conversions to digits and to bytea, with NULL as the operand.
	hexTree, byteaTree func() parse.TreeNode
	// check is the SQL condition that a column contains pairs of lower-case hexadecimal digits. %c means the column.
	check string
	// dependsOnSetting means that the conversion depends on a setting, so that a generated column must not contain its
	// digits.
	dependsOnSetting bool
}

// Functions converts by encode() and decode(). Casts converts by casts, for servers without these functions. Functions
// and Casts store the same digits.
//
// The cast of bytea to text gives \x and digits if bytea_output is hex. The expression computes the position of
// the digits from bytea_output, so that any other value is an error. byteacat, unlike a cast, accepts no other
// type than bytea.
var (
	Functions = newConversion("pg_catalog.encode(", ", 'hex')", "pg_catalog.decode(", ", 'hex')",
		"pg_catalog.encode(pg_catalog.decode(%c, 'hex'), 'hex') = %c", false)
	Casts = newConversion("pg_catalog.substring(pg_catalog.byteacat(",
		", '')::pg_catalog.text, pg_catalog.replace(pg_catalog.current_setting('bytea_output'), 'hex', '3')::pg_catalog.int4)",
		`('\x' OPERATOR(pg_catalog.||) `, ")::pg_catalog.bytea",
		"pg_catalog.translate(%c, '0123456789abcdef', '') = '' AND pg_catalog.length(%c) % 2 = 0", true)
)

func newConversion(hexOpen, hexClose, byteaOpen, byteaClose, check string, dependsOnSetting bool) *Conversion {
	c := &Conversion{check: check, dependsOnSetting: dependsOnSetting}
	c.toHex.open, c.toHex.close = hexOpen, hexClose
	c.toBytea.open, c.toBytea.close = byteaOpen, byteaClose
	c.hexTree, c.byteaTree = parse.LazyTree("SELECT "+c.HexSQL("NULL")), parse.LazyTree("SELECT "+c.ByteaSQL("NULL"))
	return c
}

// HexSQL returns SQL that converts a bytea operand to hexadecimal digits. ByteaSQL returns SQL that converts digits to
// bytea.
func (c *Conversion) HexSQL(operand string) string { return c.toHex.open + operand + c.toHex.close }
func (c *Conversion) ByteaSQL(operand string) string {
	return c.toBytea.open + operand + c.toBytea.close
}

// HexOperand returns the operand of an expression that converts bytea to hexadecimal digits. ok is false for other
// expressions.
func HexOperand(m parse.TreeNode) (operand parse.TreeNode, ok bool) {
	for _, c := range [...]*Conversion{Functions, Casts} {
		made := parse.SampleExpression(c.hexTree())
		operand := c.candidateOperand(m)
		if operand.Shape == nil || len(operand.Wire) == 0 {
			continue
		}
		meant := parse.TreeChanges{}
		meant.ReplaceContent(parse.NullPlaceholder(made), operand)
		if meant.Equal(made.UnwrapNode(), m) {
			return operand, true
		}
	}
	return parse.TreeNode{}, false
}

// candidateOperand returns the node at the place where the conversion c has its operand. The node is absent if the
// expression m lacks that place.
func (c *Conversion) candidateOperand(m parse.TreeNode) parse.TreeNode {
	first := firstArgument(m)
	if c.dependsOnSetting && first.Shape != nil { // matches substring(byteacat(x, '')::text, ...)
		cast := first.NodeContent()
		if !cast.Is("TypeCast") {
			return parse.TreeNode{}
		}
		first = firstArgument(cast.Child("arg"))
	}
	return first
}

// firstArgument returns the first argument of a function call. The result is absent without arguments.
func firstArgument(m parse.TreeNode) parse.TreeNode {
	if !m.Is("FuncCall") {
		return parse.TreeNode{}
	}
	for _, n := range m.WrappedNodes("args") {
		return n
	}
	return parse.TreeNode{}
}
