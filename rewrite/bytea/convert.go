package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// Conversion is how the server makes hexadecimal digits of bytea, and bytea of digits. It
// keeps NULL, and takes an operand that is no bytea for an error, as a bytea column does.
type Conversion struct {
	// open and close stand around an operand: toHex around bytea, toBytea around digits.
	toHex, toBytea struct{ open, close string }
	// hexed and unhexed are what the parser makes of them around NULL.
	hexed, unhexed func() parse.Message
	// check is the condition that a column holds digits as they are written here: in lower
	// case, two for each byte. %c stands for the column.
	check string
	// unsteady: the digits depend on a setting, so that no column is generated of them.
	unsteady bool
}

// Functions converts by encode() and decode(). Casts converts by casts: bytea becomes digits as its text does, behind \x.
// The text has that form where bytea_output is hex, and the place at which the digits begin is made of that setting: any
// other value is no number, and an error. byteacat takes nothing but bytea, where a cast would take any type. Both
// read and write the same columns.
var (
	Functions = converting("pg_catalog.encode(", ", 'hex')", "pg_catalog.decode(", ", 'hex')",
		"pg_catalog.encode(pg_catalog.decode(%c, 'hex'), 'hex') = %c", false)
	Casts = converting("pg_catalog.substring(pg_catalog.byteacat(",
		", '')::pg_catalog.text, pg_catalog.replace(pg_catalog.current_setting('bytea_output'), 'hex', '3')::pg_catalog.int4)",
		`('\x' OPERATOR(pg_catalog.||) `, ")::pg_catalog.bytea",
		"pg_catalog.translate(%c, '0123456789abcdef', '') = '' AND pg_catalog.length(%c) % 2 = 0", true)
)

func converting(hexOpen, hexClose, byteaOpen, byteaClose, check string, unsteady bool) *Conversion {
	c := &Conversion{check: check, unsteady: unsteady}
	c.toHex.open, c.toHex.close = hexOpen, hexClose
	c.toBytea.open, c.toBytea.close = byteaOpen, byteaClose
	c.hexed, c.unhexed = parse.Sample("SELECT "+c.Hex("NULL")), parse.Sample("SELECT "+c.Bytea("NULL"))
	return c
}

// Hex is the text of the digits of an operand, Bytea that of the bytea of one.
func (c *Conversion) Hex(operand string) string   { return c.toHex.open + operand + c.toHex.close }
func (c *Conversion) Bytea(operand string) string { return c.toBytea.open + operand + c.toBytea.close }

// HexOperand is what an expression makes digits of, a Node, if it is of a conversion's form.
func HexOperand(m parse.Message) (operand parse.Message, ok bool) {
	for _, c := range [...]*Conversion{Functions, Casts} {
		made := parse.Converted(c.hexed())
		operand := c.operand(m)
		if operand.Shape == nil || len(operand.Wire) == 0 {
			continue
		}
		meant := parse.Intents{}
		meant.Replace(parse.Hole(made), operand)
		if meant.Equal(made.Inner(), m) {
			return operand, true
		}
	}
	return parse.Message{}, false
}

// operand is the Node that an expression has where digits are made of it; absent where it has
// none there.
func (c *Conversion) operand(m parse.Message) parse.Message {
	first := firstArgument(m)
	if c.unsteady && first.Shape != nil { // substring(byteacat(x, '')::text, ..)
		cast := first.Kind()
		if !cast.Is("TypeCast") {
			return parse.Message{}
		}
		first = firstArgument(cast.Child("arg"))
	}
	return first
}

// firstArgument is the Node of a call's first argument; absent where there is none.
func firstArgument(m parse.Message) parse.Message {
	if !m.Is("FuncCall") {
		return parse.Message{}
	}
	for _, n := range m.Wrapped("args") {
		return n
	}
	return parse.Message{}
}
