package statement

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// columnSize is the length in bytes of a column in a RowDescription, without its name. columnType and columnFormat are
// the offsets of its type and format. The fields are table (4), attribute (2), type (4), size (2), modifier (4), format
// (2).
const columnSize, columnType, columnFormat = 18, 6, 16

// Description is the server's answer to a Describe. Sessions share it. Only the field Seen changes.
type Description struct {
	Epoch uint64
	// Seen is when the server last returned this description, or bound a statement with it, in nanoseconds since the
	// process began. See Config.DescribeMemory.
	Seen   atomic.Int64
	Frames []byte // ParameterDescription (not for a portal), then RowDescription or NoData
}

// SplitFrames returns a description's ParameterDescription (nil for a portal) and its RowDescription or NoData.
func (d *Description) SplitFrames() (params, row []byte) {
	if d.Frames[0] != wire.ParameterDescription {
		return nil, d.Frames
	}
	n := 1 + int(binary.BigEndian.Uint32(d.Frames[1:]))
	return d.Frames[:n], d.Frames[n:]
}

// ParamCount returns the number of a described statement's parameters, or 0 for a portal's description.
func (d *Description) ParamCount() int {
	if params, _ := d.SplitFrames(); params != nil {
		return int(binary.BigEndian.Uint16(params[wire.HeaderLen:]))
	}
	return 0
}

// MemoryBytes returns the description's approximate memory in bytes, or 0 for nil.
func (d *Description) MemoryBytes() int {
	if d == nil {
		return 0
	}
	return descriptionCost + len(d.Frames)
}

// IsCompatible reports whether two descriptions mean the same to a client: the parameter types, and each column's name
// and type. A column's table may differ, since PostgreSQL also allows a table to be recreated. A portal's description
// has no parameter types to compare.
func (d *Description) IsCompatible(other *Description) bool {
	params, a := d.SplitFrames()
	otherParams, b := other.SplitFrames()
	if otherParams != nil && !bytes.Equal(params, otherParams) || len(a) != len(b) {
		return false
	}
	head := wire.HeaderLen
	if a[0] == wire.RowDescription {
		head += 2
	}
	if !bytes.Equal(a[:head], b[:head]) {
		return false
	}
	for a, b = a[head:], b[head:]; len(a) > 0; a, b = a[columnSize:], b[columnSize:] {
		name := bytes.IndexByte(a, 0) + 1
		if len(a) < name+columnSize || !bytes.Equal(a[:name], b[:name]) {
			return false
		}
		a, b = a[name:], b[name:]
		if !bytes.Equal(a[columnType:columnFormat], b[columnType:columnFormat]) {
			return false
		}
	}
	return true
}

// DescribePortal returns the Description of a portal with this frame, the last one if equal. x counts its memory.
func (t *Template) DescribePortal(frame []byte, x *Budget) *Description {
	if d := t.PortalDescription.Load(); d != nil && bytes.Equal(d.Frames, frame) {
		return d
	}
	d := &Description{Frames: bytes.Clone(frame)}
	x.CountDescription(d)
	t.PortalDescription.Store(d)
	return d
}
