package proxy

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// The rows of a cursor WITH HOLD are kept as text, since its DECLARE does not say in which format
// they will be wanted. A FETCH that wants the binary format gets it of types whose text says all
// that their binary form does, whatever the session's settings are; of others it is refused.

// binaryOf is a value in the binary format, from its text.
type binaryOf func(text []byte) ([]byte, bool)

// binaries are the types that have one, by OID.
var binaries = map[uint32]binaryOf{
	16: binaryBool, 17: binaryBytea, 2950: binaryUUID,
	20: binaryInt(64), 21: binaryInt(16), 23: binaryInt(32), 26: binaryOID,
	18: binaryChar,
	// name, text, json, unknown, character(n), character varying
	19: binaryText, 25: binaryText, 114: binaryText, 705: binaryText, 1042: binaryText, 1043: binaryText,
	3802: binaryJSONB, 2278: binaryText, // void
}

func binaryText(text []byte) ([]byte, bool) { return text, true }

// binaryChar is of the type "char", whose text has escapes for what is not ASCII.
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

// binaryBytea takes the form of hexadecimal digits only (bytea_output).
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

// column is one of a RowDescription: where its format stands in the frame, and its type.
type column struct {
	format int
	oid    uint32
}

// columnsIn takes a RowDescription apart; nil where it is not well-formed.
func columnsIn(frame []byte) []column {
	if len(frame) < wire.HeaderLen+2 {
		return nil
	}
	n := int(binary.BigEndian.Uint16(frame[wire.HeaderLen:]))
	columns := make([]column, 0, n)
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

// formatOf is the format that the formats of a Bind give to a column: one for all, or one each.
func formatOf(formats []byte, i int) uint16 {
	switch {
	case len(formats) == 0:
		return 0
	case len(formats) > 2:
		return binary.BigEndian.Uint16(formats[2*i:])
	}
	return binary.BigEndian.Uint16(formats)
}

// inFormats is a RowDescription of rows that come in these formats.
func inFormats(desc []byte, columns []column, formats []byte) []byte {
	if formats == nil {
		return desc
	}
	desc = bytes.Clone(desc)
	for i, c := range columns {
		binary.BigEndian.PutUint16(desc[c.format:], formatOf(formats, i))
	}
	return desc
}

// rowIn appends a row in these formats; ok is false where a value cannot be had in its own.
func rowIn(dst, row []byte, columns []column, formats []byte) (out []byte, ok bool) {
	start := len(dst)
	dst = append(dst, row[:wire.HeaderLen+2]...)
	row = row[wire.HeaderLen+2:]
	for i, c := range columns {
		size := int(int32(binary.BigEndian.Uint32(row)))
		if size < 0 {
			dst = append(dst, row[:4]...)
			row = row[4:]
			continue
		}
		value := row[4 : 4+size]
		row = row[4+size:]
		if formatOf(formats, i) != 0 {
			convert := binaries[c.oid]
			if convert == nil {
				return nil, false
			}
			if value, ok = convert(value); !ok {
				return nil, false
			}
		}
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
		dst = append(dst, value...)
	}
	binary.BigEndian.PutUint32(dst[start+1:], uint32(len(dst)-start-1))
	return dst, true
}
