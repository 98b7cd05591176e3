package stored

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
)

// This file converts floats and numerics from text to the binary format. The text of a numeric is
// complete, with its scale. The text of a float is exact only if the server has written the
// shortest exact form, which it does unless extra_float_digits is below 1. The text does not show
// that, so the cursor's owner must know it (Cursor.ExactFloats).

// floatEncoder returns the function that converts a float of bits bits (32 or 64) to the binary format.
func floatEncoder(bits int) binaryEncoder {
	return func(text []byte) ([]byte, bool) {
		n, ok := parseFloatText(string(text), bits)
		if !ok {
			return nil, false
		}
		if bits == 32 {
			return binary.BigEndian.AppendUint32(nil, math.Float32bits(float32(n))), true
		}
		return binary.BigEndian.AppendUint64(nil, math.Float64bits(n)), true
	}
}

// parseFloatText parses a float in the form that PostgreSQL's float4out and float8out write. Go's parser accepts more:
// other words, hexadecimal digits, underscores.
func parseFloatText(text string, bits int) (float64, bool) {
	switch text {
	case "NaN": // PostgreSQL's NaN, which differs from Go's
		return math.Float64frombits(0x7FF8 << 48), true
	case "Infinity":
		return math.Inf(1), true
	case "-Infinity":
		return math.Inf(-1), true
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c >= '0' && c <= '9', c == '-', i > 0 && (c == '.' || c == 'e' || c == '+'):
		default:
			return 0, false
		}
	}
	n, err := strconv.ParseFloat(text, bits)
	return n, err == nil
}

// These are the signs of a numeric in the binary format (numeric_send), and the codes of NaN and the infinities. An
// infinity has bits of its own where other values have a scale.
const (
	negativeNumeric = 0x4000
	nanNumeric      = 0xC000
	infNumeric      = 0xD000
	minusInfNumeric = 0xF000
	infScale        = 0x20
	mostScale       = 0x3FFF
)

// specialNumerics maps the texts of numerics that are not numbers to their binary form.
var specialNumerics = map[string][]byte{
	"NaN": numericHeader(0, 0, nanNumeric, 0), "Infinity": numericHeader(0, 0, infNumeric, infScale), "-Infinity": numericHeader(0, 0, minusInfNumeric, infScale),
}

// numericHeader returns the header of a binary numeric, before the digits, which have base 10,000. The arguments are
// the number of digits, the weight of the first digit, the sign, and the number of decimal digits after the point.
func numericHeader(digits, weight int, sign uint16, scale int) []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 0, 8+2*digits), uint16(digits))
	b = binary.BigEndian.AppendUint16(b, uint16(int16(weight)))
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, sign), uint16(scale))
}

// encodeNumeric converts a numeric from text, which never has an exponent, to the binary format.
func encodeNumeric(text []byte) ([]byte, bool) {
	if special := specialNumerics[string(text)]; special != nil {
		return bytes.Clone(special), true
	}
	digits, negative := bytes.CutPrefix(text, []byte("-"))
	whole, fraction, pointed := bytes.Cut(digits, []byte("."))
	if !isDecimal(whole) || pointed && !isDecimal(fraction) || len(fraction) > mostScale {
		return nil, false
	}
	// The digits are divided into groups of four, from the decimal point in both directions, without zero groups at
	// either end.
	padded := append(bytes.Repeat([]byte("0"), -len(whole)&3), whole...)
	weight := len(padded)/4 - 1
	padded = append(append(padded, fraction...), bytes.Repeat([]byte("0"), -len(fraction)&3)...)
	for len(padded) > 0 && string(padded[:4]) == "0000" {
		padded = padded[4:]
		weight--
	}
	for len(padded) > 0 && string(padded[len(padded)-4:]) == "0000" {
		padded = padded[:len(padded)-4]
	}
	n, sign := len(padded)/4, uint16(0)
	switch {
	case n == 0:
		weight = 0
	case negative:
		sign = negativeNumeric
	}
	if n > math.MaxInt16 || weight > math.MaxInt16 {
		return nil, false
	}
	b := numericHeader(n, weight, sign, len(fraction))
	for i := range n {
		group := padded[4*i:]
		b = binary.BigEndian.AppendUint16(b, uint16(group[0]-'0')*1000+uint16(group[1]-'0')*100+uint16(group[2]-'0')*10+uint16(group[3]-'0'))
	}
	return b, true
}

// isDecimal reports whether b is one or more decimal digits.
func isDecimal(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}
