package bytea

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
)

// Type is the type of a column or an expression.
type Type int

const (
	Bytea Type = iota
	Int
	Text
	Bool
	Bigint
	typeCount
)

func (t Type) String() string { return [...]string{"bytea", "int", "text", "boolean", "bigint"}[t] }

// specialValues are bytea values that a conversion to text might get wrong, for example an empty one.
var specialValues = [][]byte{
	{}, {0}, {'a'}, bytes.Repeat([]byte{0}, 16), bytes.Repeat([]byte{0xff}, 16), []byte("0123456789abcdef"), {0xc3, 0x28},
	[]byte(`it's "x" \ \x61`), []byte("deadbeef"), {0xff}, []byte("a,b)(")}

// drawBytes draws a bytea value. In most cases it is one of the random schema's few values, so that values occur
// several times.
func (w *TestSchema) drawBytes(d *choiceSequence) []byte {
	if len(w.values) > 0 && !d.chance(15) {
		return pickOne(d, w.values...)
	}
	if d.chance(50) {
		return pickOne(d, specialValues...)
	}
	b := make([]byte, pickOne(d, 1, 2, 2, 16, 16, 16, 255))
	first := d.intBelow(256)
	for i := range b {
		b[i] = byte(first + i*7)
	}
	return b
}

// quoteLiteral returns a string constant.
func quoteLiteral(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// escapeBytea returns a value in the escape format of bytea.
func escapeBytea(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		switch {
		case c == '\\':
			s.WriteString(`\\`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&s, `\%03o`, c)
		default:
			s.WriteByte(c)
		}
	}
	return s.String()
}

// byteaLiteral returns the bytea value b as one of the constants that a client may write.
func byteaLiteral(d *choiceSequence, b []byte) string {
	x := hex.EncodeToString(b)
	switch d.intBelow(16) {
	default:
		return `'\x` + x + `'::bytea`
	case 6, 7, 8:
		return `'\x` + x + `'`
	case 9:
		return `E'\\x` + x + `'`
	case 10:
		return `bytea '\x` + x + `'`
	case 11:
		return `CAST('\x` + strings.ToUpper(x) + `' AS bytea)`
	case 12:
		return `decode('` + x + `', 'hex')`
	case 13:
		return quoteLiteral(escapeBytea(b)) + "::bytea"
	case 14:
		return `$q$\x` + x + `$q$::pg_catalog.bytea`
	case 15:
		return quoteLiteral(escapeBytea(b))
	}
}

// drawConstant returns a constant of a type.
func (w *TestSchema) drawConstant(d *choiceSequence, t Type) string {
	switch t {
	case Bytea:
		return byteaLiteral(d, w.drawBytes(d))
	case Text:
		return quoteLiteral(pickOne(d, texts...))
	case Bool:
		return pickOne(d, "true", "false")
	}
	return fmt.Sprint(d.intBelow(4))
}

var texts = []string{"a", "b", "", "é", `\x61`, "61", "it's", "A b"}

// drawInput returns the value of a parameter of a type, in text or binary format.
func (w *TestSchema) drawInput(d *choiceSequence, t Type) (value []byte, binary bool) {
	if d.chance(8) {
		return nil, false
	}
	switch t {
	case Bytea:
		b := w.drawBytes(d)
		switch d.intBelow(18) {
		case 0, 1, 4, 5, 6, 7:
			return append([]byte(`\x`), hex.EncodeToString(b)...), false
		case 2, 8, 9:
			return []byte(escapeBytea(b)), false
		case 3:
			return []byte(`\x` + pickOne(d, "0", "zz", "AB cd")), false
		}
		return append([]byte{}, b...), true
	case Text:
		return []byte(pickOne(d, texts...)), false
	case Bool:
		return []byte(pickOne(d, "t", "f")), false
	}
	return []byte(fmt.Sprint(d.intBelow(4))), false
}

// drawArrayInput returns the value of a parameter of type bytea[].
func (w *TestSchema) drawArrayInput(d *choiceSequence) []byte {
	if d.chance(10) {
		return nil
	}
	var items []string
	for range d.intBelow(4) {
		item := "NULL"
		if !d.chance(15) {
			item = `"\\x` + hex.EncodeToString(w.drawBytes(d)) + `"`
		}
		items = append(items, item)
	}
	return []byte("{" + strings.Join(items, ",") + "}")
}
