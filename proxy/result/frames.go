// Package result builds the frames of statements that Sluice answers itself: tags, descriptions and rows. The frames
// equal PostgreSQL's byte for byte, so that clients cannot distinguish Sluice from PostgreSQL.
//
// The package does no I/O: the caller owns the frames that functions return.
package result

import (
	"encoding/binary"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// These are the OIDs of the types boolean, text and void.
const boolean, text, void = 16, 25, 2278

// columnSize is the length in bytes of a column in a RowDescription after its name. The length includes a zero byte,
// table OID, column number, type OID, size, modifier and format.
const columnSize = 1 + 4 + 2 + 4 + 2 + 4 + 2

// DescribeColumns returns the RowDescription of columns of one type. typ is the type's OID, and size its size in
// bytes, or -1 if that varies. The columns belong to no table, have no type modifier, and have the text format.
func DescribeColumns(typ uint32, size int16, names ...string) []byte {
	n := 2
	for _, name := range names {
		n += len(name) + columnSize
	}
	b := wire.AppendHeader(nil, wire.RowDescription, n)
	b = binary.BigEndian.AppendUint16(b, uint16(len(names)))
	for _, name := range names {
		b = append(b, name...)
		b = append(b, 0, 0, 0, 0, 0, 0, 0)
		b = binary.BigEndian.AppendUint32(b, typ)
		b = binary.BigEndian.AppendUint16(b, uint16(size))
		b = append(b, 0xff, 0xff, 0xff, 0xff, 0, 0)
	}
	return b
}

// TextRow returns a DataRow of values in text format, none of which is NULL.
func TextRow(values ...string) []byte {
	n := 2
	for _, value := range values {
		n += 4 + len(value)
	}
	b := wire.AppendHeader(nil, wire.DataRow, n)
	b = binary.BigEndian.AppendUint16(b, uint16(len(values)))
	for _, value := range values {
		b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
		b = append(b, value...)
	}
	return b
}

// NullRow returns a DataRow with a single NULL.
func NullRow() []byte {
	b := wire.AppendHeader(nil, wire.DataRow, 2+4)
	return append(b, 0, 1, 0xff, 0xff, 0xff, 0xff)
}
