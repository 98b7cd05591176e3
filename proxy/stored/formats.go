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

// binaryEncoder is a function that converts a value from text to the binary format. binaryEncoder returns false if it
// cannot.
type binaryEncoder func(text []byte) ([]byte, bool)

// binaryEncoders maps the OIDs of types to the functions that convert their values to the binary format.
var binaryEncoders = map[uint32]binaryEncoder{
	16: encodeBool, 17: encodeBytea, 2950: encodeUUID,
	20: intEncoder(64), 21: intEncoder(16), 23: intEncoder(32), 26: encodeOID,
	18: encodeChar,
	// These are the types name, text, json, unknown, character(n) and character varying.
	19: encodeText, 25: encodeText, 114: encodeText, 705: encodeText, 1042: encodeText, 1043: encodeText,
	3802: encodeJSONB, 2278: encodeText, // void
	float4: floatEncoder(32), float8: floatEncoder(64), 1700: encodeNumeric,
	1082: encodeDate, 1083: encodeTime, 1266: encodeTimeTZ, 1114: timestampEncoder(false), 1184: timestampEncoder(true), 1186: encodeInterval,
}

// float4 and float8 are the OIDs of the types whose text may be inexact.
const float4, float8 = 700, 701

func encodeText(text []byte) ([]byte, bool) { return text, true }

// encodeChar converts a value of the type "char". Its text escapes values above ASCII, which encodeChar refuses.
func encodeChar(text []byte) ([]byte, bool) { return text, len(text) == 1 && text[0] < 0x80 }

func encodeBool(text []byte) ([]byte, bool) {
	if len(text) != 1 || text[0] != 't' && text[0] != 'f' {
		return nil, false
	}
	if text[0] == 't' {
		return []byte{1}, true
	}
	return []byte{0}, true
}

func intEncoder(bits int) binaryEncoder {
	return func(text []byte) ([]byte, bool) {
		n, err := strconv.ParseInt(string(text), 10, bits)
		return binary.BigEndian.AppendUint64(nil, uint64(n))[8-bits/8:], err == nil
	}
}

func encodeOID(text []byte) ([]byte, bool) {
	n, err := strconv.ParseUint(string(text), 10, 32)
	return binary.BigEndian.AppendUint32(nil, uint32(n)), err == nil
}

// encodeBytea converts a bytea from hexadecimal text. encodeBytea refuses other forms (bytea_output).
func encodeBytea(text []byte) ([]byte, bool) {
	digits, ok := bytes.CutPrefix(text, []byte(`\x`))
	if !ok {
		return nil, false
	}
	b := make([]byte, hex.DecodedLen(len(digits)))
	_, err := hex.Decode(b, digits)
	return b, err == nil
}

func encodeUUID(text []byte) ([]byte, bool) {
	b, err := hex.DecodeString(string(bytes.ReplaceAll(text, []byte("-"), nil)))
	return b, err == nil && len(b) == 16
}

func encodeJSONB(text []byte) ([]byte, bool) { return append([]byte{1}, text...), true }

// column is one column that a RowDescription describes: the offset of its format code in the frame, and its type's OID.
type column struct {
	format int
	oid    uint32
}

// Columns are the columns that a RowDescription describes.
type Columns []column

// ParseColumns parses a RowDescription. ParseColumns returns nil if the frame is malformed.
func ParseColumns(frame []byte) Columns {
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

// forColumn returns the format of the i-th column.
func (f Formats) forColumn(i int) uint16 {
	switch {
	case len(f) == 0:
		return 0
	case len(f) > 2:
		return binary.BigEndian.Uint16(f[2*i:])
	}
	return binary.BigEndian.Uint16(f)
}

// CanConvert reports whether rows that arrived in some formats (came) can be returned in other formats. A value in
// the binary format cannot be converted.
func (c Columns) CanConvert(came, formats Formats) bool {
	for i := range c {
		if from, to := came.forColumn(i), formats.forColumn(i); from != to && (from != 0 || binaryEncoders[c[i].oid] == nil) {
			return false
		}
	}
	return true
}

// losesDigits reports whether a float that arrived as text is requested in the binary format.
func (c Columns) losesDigits(came, formats Formats) bool {
	for i := range c {
		if (c[i].oid == float4 || c[i].oid == float8) && came.forColumn(i) == 0 && formats.forColumn(i) != 0 {
			return true
		}
	}
	return false
}

// RowDescription returns a copy of the RowDescription desc with the given formats.
func (c Columns) RowDescription(desc []byte, formats Formats) []byte {
	desc = bytes.Clone(desc)
	for i := range c {
		binary.BigEndian.PutUint16(desc[c[i].format:], formats.forColumn(i))
	}
	return desc
}

// FormatRows returns the rows that a FETCH has passed, in order, converted from the formats in came to those in
// formats. ok is false if a value has no binary form, because its text is not in its type's default form.
func (r *Rows) FormatRows(f RowRange, columns Columns, came, formats Formats) (all []byte, ok bool) {
	same := bytes.Equal(came, formats)
	if same && !f.backward {
		return r.frameRange(f.from, f.to), true
	}
	for i := range f.Len() {
		at := f.from + i
		if f.backward {
			at = f.to - 1 - i
		}
		row := r.frameRange(at, at+1)
		if same {
			all = append(all, row...)
		} else if all, ok = columns.appendConverted(all, row, came, formats); !ok {
			return nil, false
		}
	}
	return all, true
}

// appendConverted appends a row, converted from the formats in came to those in formats. ok is false if a value
// cannot be converted.
func (c Columns) appendConverted(dst, row []byte, came, formats Formats) (out []byte, ok bool) {
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
		if from, to := came.forColumn(i), formats.forColumn(i); from != to {
			form := binaryEncoders[c[i].oid]
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
