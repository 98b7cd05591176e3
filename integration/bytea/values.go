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

// fixed are values that a conversion might treat in a special way.
var fixed = [][]byte{
	{}, {0}, {'a'}, bytes.Repeat([]byte{0}, 16), bytes.Repeat([]byte{0xff}, 16), []byte("0123456789abcdef"), {0xc3, 0x28},
	[]byte(`it's "x" \ \x61`), []byte("deadbeef"), {0xff}, []byte("a,b)(")}

// bytesOf draws a value, in most cases one of the world's few values, so that values occur several times.
func (w *World) bytesOf(d *draw) []byte {
	if len(w.values) > 0 && !d.chance(15) {
		return one(d, w.values...)
	}
	if d.chance(50) {
		return one(d, fixed...)
	}
	b := make([]byte, one(d, 1, 2, 2, 16, 16, 16, 255))
	first := d.below(256)
	for i := range b {
		b[i] = byte(first + i*7)
	}
	return b
}

// quoted returns a string constant.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// escaped returns a value in the escape format of bytea.
func escaped(b []byte) string {
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

// literal returns a value as one of the constants that a client may write.
func literal(d *draw, b []byte) string {
	x := hex.EncodeToString(b)
	switch d.below(16) {
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
		return quoted(escaped(b)) + "::bytea"
	case 14:
		return `$q$\x` + x + `$q$::pg_catalog.bytea`
	case 15:
		return quoted(escaped(b))
	}
}

// constant returns a constant of a type.
func (w *World) constant(d *draw, t Type) string {
	switch t {
	case Bytea:
		return literal(d, w.bytesOf(d))
	case Text:
		return quoted(one(d, texts...))
	case Bool:
		return one(d, "true", "false")
	}
	return fmt.Sprint(d.below(4))
}

var texts = []string{"a", "b", "", "é", `\x61`, "61", "it's", "A b"}

// input returns the value of a parameter of a type, in text or binary format.
func (w *World) input(d *draw, t Type) (value []byte, binary bool) {
	if d.chance(8) {
		return nil, false
	}
	switch t {
	case Bytea:
		b := w.bytesOf(d)
		switch d.below(18) {
		case 0, 1, 4, 5, 6, 7:
			return append([]byte(`\x`), hex.EncodeToString(b)...), false
		case 2, 8, 9:
			return []byte(escaped(b)), false
		case 3:
			return []byte(`\x` + one(d, "0", "zz", "AB cd")), false
		}
		return append([]byte{}, b...), true
	case Text:
		return []byte(one(d, texts...)), false
	case Bool:
		return []byte(one(d, "t", "f")), false
	}
	return []byte(fmt.Sprint(d.below(4))), false
}

// inputArray returns the value of a parameter of type bytea[].
func (w *World) inputArray(d *draw) []byte {
	if d.chance(10) {
		return nil
	}
	var items []string
	for range d.below(4) {
		item := "NULL"
		if !d.chance(15) {
			item = `"\\x` + hex.EncodeToString(w.bytesOf(d)) + `"`
		}
		items = append(items, item)
	}
	return []byte("{" + strings.Join(items, ",") + "}")
}
