package rewrite

import "github.com/sluice-proxy/sluice/rewrite/parse"

// conversion is how the server makes hexadecimal digits of bytea, and bytea of digits. It
// keeps NULL, and takes an operand that is no bytea for an error, as a bytea column does.
type conversion struct {
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

// conversions are those of the mappings. They read and write the same columns.
//
// By casts bytea becomes digits as its text does, behind \x. The text has that form where
// bytea_output is hex, and the place at which the digits begin is made of that setting: any
// other value is no number, and an error. byteacat takes nothing but bytea, where a cast would
// take any type.
var conversions = map[ByteaMapping]*conversion{
	ByteaHex: converting("pg_catalog.encode(", ", 'hex')", "pg_catalog.decode(", ", 'hex')",
		"pg_catalog.encode(pg_catalog.decode(%c, 'hex'), 'hex') = %c", false),
	ByteaHexCast: converting("pg_catalog.substring(pg_catalog.byteacat(",
		", '')::pg_catalog.text, pg_catalog.replace(pg_catalog.current_setting('bytea_output'), 'hex', '3')::pg_catalog.int4)",
		`('\x' OPERATOR(pg_catalog.||) `, ")::pg_catalog.bytea",
		"pg_catalog.translate(%c, '0123456789abcdef', '') = '' AND pg_catalog.length(%c) % 2 = 0", true),
}

func converting(hexOpen, hexClose, byteaOpen, byteaClose, check string, unsteady bool) *conversion {
	c := &conversion{check: check, unsteady: unsteady}
	c.toHex.open, c.toHex.close = hexOpen, hexClose
	c.toBytea.open, c.toBytea.close = byteaOpen, byteaClose
	c.hexed, c.unhexed = parse.Sample("SELECT "+c.hex("NULL")), parse.Sample("SELECT "+c.bytea("NULL"))
	return c
}

// hex is the text of the digits of an operand, bytea that of the bytea of one.
func (c *conversion) hex(operand string) string   { return c.toHex.open + operand + c.toHex.close }
func (c *conversion) bytea(operand string) string { return c.toBytea.open + operand + c.toBytea.close }

// Hex is the text of the digits of an operand that is bytea, as the server makes them.
func (how ByteaMapping) Hex(operand string) string { return conversions[how].hex(operand) }

// Bytea is the text of the bytea that an operand's digits stand for.
func (how ByteaMapping) Bytea(operand string) string { return conversions[how].bytea(operand) }

// Check is the CHECK of a mapped column of a new table, by its physical name.
func (how ByteaMapping) Check(physical string) string { return conversions[how].checkOf(physical) }

// conversion is the one of the mapping that holds.
func (r *rewriter) conversion() *conversion { return conversions[r.rules.Bytea] }

// hexOperand is what an expression makes digits of, a Node, if it is of a conversion's form.
func hexOperand(m parse.Message) (operand parse.Message, ok bool) {
	for _, c := range conversions {
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
func (c *conversion) operand(m parse.Message) parse.Message {
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
