package stored

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// This file has the formats of a cursor's rows. Rows are stored as they arrived: mostly as text, because DECLARE does
// not give a format, or in the format of an earlier FETCH. For a FETCH in the binary format, values are converted if
// their type's text is complete under the settings that applied (binarynumbers.go, binarytimes.go). The FETCH fails for
// other types.

// binaryOf is a function that converts a value from text to the binary format. It returns false if it cannot.
type binaryOf func(text []byte) ([]byte, bool)

// binaries maps the OIDs of types to the functions that convert their values to the binary format.
var binaries = map[uint32]binaryOf{
	16: binaryBool, 17: binaryBytea, 2950: binaryUUID,
	20: binaryInt(64), 21: binaryInt(16), 23: binaryInt(32), 26: binaryOID,
	18: binaryChar,
	// These are the types name, text, json, unknown, character(n) and character varying.
	19: binaryText, 25: binaryText, 114: binaryText, 705: binaryText, 1042: binaryText, 1043: binaryText,
	3802: binaryJSONB, 2278: binaryText, // void
	float4: binaryFloat(32), float8: binaryFloat(64), 1700: binaryNumeric,
	1082: binaryDate, 1083: binaryTime, 1266: binaryTimeTZ, 1114: binaryTimestamp(false), 1184: binaryTimestamp(true), 1186: binaryInterval,
}

// float4 and float8 are the OIDs of the types whose text may be inexact.
const float4, float8 = 700, 701

func binaryText(text []byte) ([]byte, bool) { return text, true }

// binaryChar converts a value of the type "char". Its text escapes values above ASCII, which binaryChar refuses.
func binaryChar(text []byte) ([]byte, bool) { return text, len(text) == 1 && text[0] < 0x80 }

func binaryBool(text []byte) ([]byte, bool) {
	if len(text) != 1 || text[0] != 't' && text[0] != 'f' {
		return nil, false
	}
	if text[0] == 't' {
		return []byte{1}, true
	}
	return []byte{0}, true
}

func binaryInt(bits int) binaryOf {
	return func(text []byte) ([]byte, bool) {
		n, err := strconv.ParseInt(string(text), 10, bits)
		return binary.BigEndian.AppendUint64(nil, uint64(n))[8-bits/8:], err == nil
	}
}

func binaryOID(text []byte) ([]byte, bool) {
	n, err := strconv.ParseUint(string(text), 10, 32)
	return binary.BigEndian.AppendUint32(nil, uint32(n)), err == nil
}

// binaryBytea converts a bytea from hexadecimal text. It refuses other forms (bytea_output).
func binaryBytea(text []byte) ([]byte, bool) {
	digits, ok := bytes.CutPrefix(text, []byte(`\x`))
	if !ok {
		return nil, false
	}
	b := make([]byte, hex.DecodedLen(len(digits)))
	_, err := hex.Decode(b, digits)
	return b, err == nil
}

func binaryUUID(text []byte) ([]byte, bool) {
	b, err := hex.DecodeString(string(bytes.ReplaceAll(text, []byte("-"), nil)))
	return b, err == nil && len(b) == 16
}

func binaryJSONB(text []byte) ([]byte, bool) { return append([]byte{1}, text...), true }

// column is a column of a RowDescription: the offset of its format code in the frame, and its type's OID.
type column struct {
	format int
	oid    uint32
}

// Columns are the columns that a RowDescription describes.
type Columns []column

// ColumnsOf parses a RowDescription. It returns nil if the frame is malformed.
func ColumnsOf(frame []byte) Columns {
	if len(frame) < wire.HeaderLen+2 {
		return nil
	}
	n := int(binary.BigEndian.Uint16(frame[wire.HeaderLen:]))
	columns := make(Columns, 0, n)
	for at := wire.HeaderLen + 2; n > 0; n-- {
		end := bytes.IndexByte(frame[at:], 0)
		if end < 0 || len(frame) < at+end+1+18 {
			return nil
		}
		at += end + 1
		columns = append(columns, column{format: at + 16, oid: binary.BigEndian.Uint32(frame[at+6:])})
		at += 18
	}
	return columns
}

// Formats are the result formats of a Bind, two bytes each: one format for all columns, or one for each. nil means text
// for all columns.
type Formats []byte

// of returns the format of the i-th column.
func (f Formats) of(i int) uint16 {
	switch {
	case len(f) == 0:
		return 0
	case len(f) > 2:
		return binary.BigEndian.Uint16(f[2*i:])
	}
	return binary.BigEndian.Uint16(f)
}

// Gives reports whether rows that arrived in the formats came can be returned in other formats. A value in the binary
// format cannot be converted.
func (c Columns) Gives(came, formats Formats) bool {
	for i := range c {
		if from, to := came.of(i), formats.of(i); from != to && (from != 0 || binaries[c[i].oid] == nil) {
			return false
		}
	}
	return true
}

// rounded reports whether a float that arrived as text is requested in the binary format.
func (c Columns) rounded(came, formats Formats) bool {
	for i := range c {
		if (c[i].oid == float4 || c[i].oid == float8) && came.of(i) == 0 && formats.of(i) != 0 {
			return true
		}
	}
	return false
}

// Describe returns a copy of the RowDescription desc with the given formats.
func (c Columns) Describe(desc []byte, formats Formats) []byte {
	desc = bytes.Clone(desc)
	for i := range c {
		binary.BigEndian.PutUint16(desc[c[i].format:], formats.of(i))
	}
	return desc
}

// In returns the rows that a FETCH has passed, in order, converted from the formats came to other formats. ok is false
// if a value has no binary form, because its text is not in its type's default form.
func (r *Rows) In(f Passed, columns Columns, came, formats Formats) (all []byte, ok bool) {
	same := bytes.Equal(came, formats)
	if same && !f.backward {
		return r.span(f.from, f.to), true
	}
	for i := range f.Len() {
		at := f.from + i
		if f.backward {
			at = f.to - 1 - i
		}
		row := r.span(at, at+1)
		if same {
			all = append(all, row...)
		} else if all, ok = columns.convert(all, row, came, formats); !ok {
			return nil, false
		}
	}
	return all, true
}

// convert appends a row, converted from the formats came to other formats. ok is false if a value cannot be converted.
func (c Columns) convert(dst, row []byte, came, formats Formats) (out []byte, ok bool) {
	start := len(dst)
	dst = append(dst, row[:wire.HeaderLen+2]...)
	row = row[wire.HeaderLen+2:]
	for i := range c {
		size := int(int32(binary.BigEndian.Uint32(row)))
		if size < 0 {
			dst = append(dst, row[:4]...)
			row = row[4:]
			continue
		}
		value := row[4 : 4+size]
		row = row[4+size:]
		if from, to := came.of(i), formats.of(i); from != to {
			form := binaries[c[i].oid]
			if from != 0 || form == nil {
				return nil, false
			}
			if value, ok = form(value); !ok {
				return nil, false
			}
		}
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
		dst = append(dst, value...)
	}
	binary.BigEndian.PutUint32(dst[start+1:], uint32(len(dst)-start-1))
	return dst, true
}
