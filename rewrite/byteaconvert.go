package rewrite

import "slices"

// conversion is how the server makes hexadecimal digits of bytea, and bytea of digits. It
// keeps NULL, and takes an operand that is no bytea for an error, as a bytea column does.
type conversion struct {
	// open and close stand around an operand: toHex around bytea, toBytea around digits.
	toHex, toBytea struct{ open, close string }
	// hexed and unhexed are what the parser makes of them around NULL.
	hexed, unhexed func() message
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
	c.hexed, c.unhexed = sample("SELECT "+c.hex("NULL")), sample("SELECT "+c.bytea("NULL"))
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

// convert puts what a sample has around NULL around what a Node holds.
func (in intents) convert(n, sample message) {
	made := converted(sample)
	operand := hole(made)
	in.set(operand, "a_const")
	if changes := in.of(n); changes == nil {
		in.become(operand, n)
	} else {
		in[&operand.wire[0]] = append(in[&operand.wire[0]], changes...)
		delete(in, &n.wire[0])
	}
	in.replace(n, made)
}

// converted is a copy of the expression of a sample, a Node.
func converted(sample message) message {
	return message{shapes()["Node"], slices.Clone(sample.child("stmts").child("stmt").child("target_list").values("val")[0].bytes)}
}

// hole is the Node in a tree that holds NULL.
func hole(n message) message {
	if n.is("Node") && n.inner().is("A_Const") && n.inner().flag("isnull") {
		return n
	}
	for number, v := range n.each() {
		if int(number) >= len(n.shape.fields) || n.shape.fields[number].shape == nil {
			continue
		}
		if found := hole(message{n.shape.fields[number].shape, v.bytes}); found.shape != nil {
			return found
		}
	}
	return message{}
}

// become has a Node hold what another holds.
func (in intents) become(n, other message) {
	for number, v := range other.each() {
		in.set(n, other.shape.fields[number].name, v)
	}
}

// replace has a Node hold what another holds instead of its own.
func (in intents) replace(n, other message) {
	for number := range n.each() {
		in.set(n, n.shape.fields[number].name)
	}
	in.become(n, other)
}

// hexOperand is what an expression makes digits of, a Node, if it is of a conversion's form.
func hexOperand(m message) (operand message, ok bool) {
	for _, c := range conversions {
		made := converted(c.hexed())
		operand := c.operand(m)
		if operand.shape == nil || len(operand.wire) == 0 {
			continue
		}
		meant := intents{}
		meant.replace(hole(made), operand)
		if meant.equal(made.inner(), m) {
			return operand, true
		}
	}
	return message{}, false
}

// operand is the Node that an expression has where digits are made of it; absent where it has
// none there.
func (c *conversion) operand(m message) message {
	first := firstArgument(m)
	if c.unsteady && first.shape != nil { // substring(byteacat(x, '')::text, ..)
		cast := first.kind()
		if !cast.is("TypeCast") {
			return message{}
		}
		first = firstArgument(cast.child("arg"))
	}
	return first
}

// firstArgument is the Node of a call's first argument; absent where there is none.
func firstArgument(m message) message {
	if !m.is("FuncCall") {
		return message{}
	}
	for _, n := range m.wrapped("args") {
		return n
	}
	return message{}
}
