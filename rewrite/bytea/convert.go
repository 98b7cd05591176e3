package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// Conversion has the SQL by which the server converts between bytea and hexadecimal digits. NULL remains NULL. An
// operand that is not bytea is an error, as it is for a bytea column.
type Conversion struct {
	// toHex has the SQL to write before and after a bytea operand, which becomes digits. toBytea has the SQL to write
	// before and after digits, which become bytea.
	toHex, toBytea struct{ open, close string }
	// hexTree returns the parse tree of the conversion to digits, and byteaTree that of the conversion to bytea. The
	// operand is NULL.
	hexTree, byteaTree func() parse.TreeNode
	// check is an SQL condition: the column %c contains only pairs of lower-case hexadecimal digits.
	check string
	// dependsOnSetting means that the conversion to digits depends on a session setting. A generated column must then
	// not contain the conversion.
	dependsOnSetting bool
}

// Functions converts by encode() and decode(). Casts converts by casts, for servers that have no encode() and decode().
// Both store the same digits.
//
// If bytea_output is hex, a cast of bytea to text gives \x and the digits. The SQL computes the position of the digits
// from bytea_output, so that any other value of it is an error. byteacat accepts only bytea, while a cast accepts other
// types, too.
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

// HexOperand returns the operand of an expression that converts bytea to hexadecimal digits. ok is false for any other
// expression.
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

// candidateOperand returns the node of m at the place where the SQL of the conversion c has its operand. The node is
// absent if m has no node there.
func (c *Conversion) candidateOperand(m parse.TreeNode) parse.TreeNode {
	first := firstArgument(m)
	if c.dependsOnSetting && first.Shape != nil { // m should have the form substring(byteacat(x, '')::text, ...)
		cast := first.NodeContent()
		if !cast.Is("TypeCast") {
			return parse.TreeNode{}
		}
		first = firstArgument(cast.Child("arg"))
	}
	return first
}

// firstArgument returns the first argument of a function call. The result is absent for anything else.
func firstArgument(m parse.TreeNode) parse.TreeNode {
	if !m.Is("FuncCall") {
		return parse.TreeNode{}
	}
	for _, n := range m.WrappedNodes("args") {
		return n
	}
	return parse.TreeNode{}
}
