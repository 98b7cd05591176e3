package copyrows

import (
	"bytes"
	"encoding/binary"
)

// These are the signs of a numeric in the binary format.
const (
	positive    = 0x0000
	negative    = 0x4000
	notANumber  = 0xC000
	infinite    = 0xD000
	negInfinite = 0xF000
	mostScale   = 0x3FFF
)

// appendNumeric appends a binary numeric, v, as text. Its digits have base 10,000, and the first one counts 10,000 to
// the power of the field weight. The field scale is the number of decimal digits after the point.
func appendNumeric(dst, v []byte) ([]byte, *Error) {
	if len(v) < 8 {
		return nil, errTooShort()
	}
	n, weight := int(binary.BigEndian.Uint16(v)), int(int16(binary.BigEndian.Uint16(v[2:])))
	sign, scale := int(binary.BigEndian.Uint16(v[4:])), int(binary.BigEndian.Uint16(v[6:]))
	switch sign {
	case positive, negative, notANumber, infinite, negInfinite:
	default:
		return nil, errBadBinary(`invalid sign in external "numeric" value`)
	}
	if scale > mostScale {
		return nil, errBadBinary(`invalid scale in external "numeric" value`)
	}
	digits := v[8:]
	for i := range n {
		if len(digits) < 2*i+2 {
			return nil, errTooShort()
		}
		if binary.BigEndian.Uint16(digits[2*i:]) >= 10000 {
			return nil, errBadBinary(`invalid digit in external "numeric" value`)
		}
	}
	if len(digits) > 2*n {
		return nil, errBadBinary("incorrect binary data format")
	}
	switch sign {
	case notANumber:
		return append(dst, "NaN"...), nil
	case infinite:
		return append(dst, "Infinity"...), nil
	case negInfinite:
		return append(dst, "-Infinity"...), nil
	case negative:
		dst = append(dst, '-')
	}
	return appendDigits(dst, digits[:2*n], weight, scale), nil
}

// appendDigits appends a numeric as text, without its sign.
func appendDigits(dst, digits []byte, weight, scale int) []byte {
	at := func(i int) int64 { // the digit of 10,000 to the power of i
		if k := weight - i; k >= 0 && 2*k < len(digits) {
			return int64(binary.BigEndian.Uint16(digits[2*k:]))
		}
		return 0
	}
	for len(digits) > 0 && digits[0] == 0 && digits[1] == 0 {
		digits, weight = digits[2:], weight-1
	}
	if len(digits) == 0 {
		weight = 0
	}
	from := len(dst)
	for i := weight; i >= 0; i-- {
		dst = appendPadded(dst, at(i), 4)
	}
	whole := bytes.TrimLeft(dst[from:], "0")
	dst = dst[:from+copy(dst[from:], whole)]
	if len(dst) == from {
		dst = append(dst, '0')
	}
	if scale == 0 {
		return dst
	}
	dst = append(dst, '.')
	from = len(dst)
	for i := -1; len(dst)-from < scale; i-- {
		dst = appendPadded(dst, at(i), 4)
	}
	return dst[:from+scale]
}
