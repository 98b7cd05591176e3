package wire

import (
	"bytes"
	"encoding/binary"
)

// MaxParams is how many parameters a Bind can have.
const MaxParams = 65535

// Params is what follows the names in a Bind, taken to pieces.
type Params struct {
	n       int
	formats []uint16 // of each parameter
	values  []byte   // lengths and bytes, as they stand
	results []byte   // as it stands
	of      []uint16 // formats of the results
}

// ParseParams reads what follows the names in a Bind. It keeps nothing of rest. ok is false where
// that is not well-formed.
func ParseParams(rest []byte) (p Params, ok bool) {
	codes, rest, ok := TakeCodes(rest)
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
	p.of, rest, ok = TakeCodes(rest)
	return p, ok && len(rest) == 0
}

// TakeCodes reads a list of format codes, as a Bind has two, and returns what follows it.
func TakeCodes(b []byte) (codes []uint16, rest []byte, ok bool) {
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

// Len is how many parameters there are.
func (p *Params) Len() int { return p.n }

// Format is the format of a column of the results.
func (p *Params) Format(column int) uint16 {
	switch {
	case len(p.of) == 1:
		return p.of[0]
	case column < len(p.of):
		return p.of[column]
	}
	return 0
}

// Add appends a value of a column of the results, nil for NULL, in that column's format, and
// returns the parameter's number. There are at most MaxParams.
func (p *Params) Add(column int, value []byte) int { return p.AddIn(p.Format(column), value) }

// AddIn is Add for a value in a format.
func (p *Params) AddIn(format uint16, value []byte) int {
	p.n++
	p.formats = append(p.formats, format)
	if value == nil {
		p.values = binary.BigEndian.AppendUint32(p.values, ^uint32(0))
		return p.n
	}
	p.values = append(binary.BigEndian.AppendUint32(p.values, uint32(len(value))), value...)
	return p.n
}

// Bytes is what follows the names.
func (p *Params) Bytes() []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(p.formats)))
	for _, f := range p.formats {
		b = binary.BigEndian.AppendUint16(b, f)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(p.n))
	return append(append(b, p.values...), p.results...)
}
