package wire

import (
	"bytes"
	"encoding/binary"
)

// MaxParams is the greatest number of parameters of a Bind.
const MaxParams = 65535

// BindParams is the part of a Bind after its two names: parameters and result formats.
type BindParams struct {
	n       int
	formats []uint16 // of each parameter
	values  []byte   // lengths and bytes, in wire format
	results []byte   // in wire format
	of      []uint16 // formats of the results
}

// ParseBindParams parses the part of a Bind after its two names, and copies it. ok is false if the part is malformed.
func ParseBindParams(rest []byte) (p BindParams, ok bool) {
	codes, rest, ok := ParseFormatCodes(rest)
	if !ok || len(rest) < 2 {
		return p, false
	}
	p.n = int(binary.BigEndian.Uint16(rest))
	rest = rest[2:]
	p.formats = make([]uint16, p.n)
	for i := range p.formats {
		switch len(codes) {
		case 0:
		case 1:
			p.formats[i] = codes[0]
		case p.n:
			p.formats[i] = codes[i]
		default:
			return p, false
		}
	}
	all := rest
	for range p.n {
		if len(rest) < 4 {
			return p, false
		}
		size := max(0, int(int32(binary.BigEndian.Uint32(rest))))
		if rest = rest[4:]; size > len(rest) {
			return p, false
		}
		rest = rest[size:]
	}
	p.values = bytes.Clone(all[:len(all)-len(rest)])
	p.results = bytes.Clone(rest)
	p.of, rest, ok = ParseFormatCodes(rest)
	return p, ok && len(rest) == 0
}

// ParseFormatCodes parses a list of format codes, and returns the rest of b. A Bind has two such lists.
func ParseFormatCodes(b []byte) (codes []uint16, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; len(b) < 2*n {
		return nil, nil, false
	}
	for i := range n {
		codes = append(codes, binary.BigEndian.Uint16(b[2*i:]))
	}
	return codes, b[2*n:], true
}

// Len returns the number of the Bind's parameters.
func (p *BindParams) Len() int { return p.n }

// ResultFormat returns the format of a result column, by the Bind's result formats.
func (p *BindParams) ResultFormat(column int) uint16 {
	switch {
	case len(p.of) == 1:
		return p.of[0]
	case column < len(p.of):
		return p.of[column]
	}
	return 0
}

// AddResultValue appends a parameter: the value of a result column, nil for NULL, in the column's format.
// AddResultValue returns the parameter's number. There are at most MaxParams parameters.
func (p *BindParams) AddResultValue(column int, value []byte) int {
	return p.AddValue(p.ResultFormat(column), value)
}

// AddValue appends a parameter like AddResultValue, for a value in a given format.
func (p *BindParams) AddValue(format uint16, value []byte) int {
	p.n++
	p.formats = append(p.formats, format)
	if value == nil {
		p.values = binary.BigEndian.AppendUint32(p.values, ^uint32(0))
		return p.n
	}
	p.values = append(binary.BigEndian.AppendUint32(p.values, uint32(len(value))), value...)
	return p.n
}

// Bytes returns the parameters and result formats in wire format, as they follow the names in a Bind.
func (p *BindParams) Bytes() []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(p.formats)))
	for _, f := range p.formats {
		b = binary.BigEndian.AppendUint16(b, f)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(p.n))
	return append(append(b, p.values...), p.results...)
}
