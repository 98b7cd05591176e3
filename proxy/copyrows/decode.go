package copyrows

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
)

// These are the OIDs of the types whose binary form can be decoded: the types that DSQL's columns have.
const (
	boolType        = 16
	byteaType       = 17
	int8Type        = 20
	int2Type        = 21
	int4Type        = 23
	textType        = 25
	oidType         = 26
	jsonType        = 114
	float4Type      = 700
	float8Type      = 701
	bpcharType      = 1042
	varcharType     = 1043
	dateType        = 1082
	timeType        = 1083
	timestampType   = 1114
	timestamptzType = 1184
	intervalType    = 1186
	timetzType      = 1266
	numericType     = 1700
	uuidType        = 2950
	jsonbType       = 3802
)

// decoder decodes the binary values of one type. Its function append appends a value as text, after the caller has
// checked the value's length.
type decoder struct {
	size   int // in bytes; -1 means any
	append func(dst, v []byte) ([]byte, *Error)
}

var decoders = map[uint32]decoder{
	boolType:  {1, appendBool},
	byteaType: {-1, appendBytea},
	int2Type: {2, infallible(func(dst, v []byte) []byte {
		return strconv.AppendInt(dst, int64(int16(binary.BigEndian.Uint16(v))), 10)
	})},
	int4Type:    {4, infallible(func(dst, v []byte) []byte { return strconv.AppendInt(dst, int64(int32At(v)), 10) })},
	int8Type:    {8, infallible(func(dst, v []byte) []byte { return strconv.AppendInt(dst, int64At(v), 10) })},
	oidType:     {4, infallible(func(dst, v []byte) []byte { return strconv.AppendUint(dst, uint64(binary.BigEndian.Uint32(v)), 10) })},
	textType:    {-1, appendCharacters},
	jsonType:    {-1, appendCharacters},
	bpcharType:  {-1, appendCharacters},
	varcharType: {-1, appendCharacters},
	float4Type: {4, infallible(func(dst, v []byte) []byte {
		return appendFloat(dst, float64(math.Float32frombits(binary.BigEndian.Uint32(v))), 32)
	})},
	float8Type: {8, infallible(func(dst, v []byte) []byte {
		return appendFloat(dst, math.Float64frombits(binary.BigEndian.Uint64(v)), 64)
	})},
	dateType:        {4, appendDate},
	timeType:        {8, appendTime},
	timetzType:      {12, appendTimeTZ},
	timestampType:   {8, func(dst, v []byte) ([]byte, *Error) { return appendTimestamp(dst, v, "") }},
	timestamptzType: {8, func(dst, v []byte) ([]byte, *Error) { return appendTimestamp(dst, v, "+00") }},
	intervalType:    {16, appendInterval},
	numericType:     {-1, appendNumeric},
	uuidType:        {16, infallible(appendUUID)},
	jsonbType:       {-1, appendJSONB},
}

// SupportsBinary reports whether the binary form of a type can be decoded.
func SupportsBinary(oid uint32) bool { _, ok := decoders[oid]; return ok }

// appendDecoded appends a binary value as text, in the input syntax of the type with an OID.
func appendDecoded(dst []byte, oid uint32, v []byte) ([]byte, *Error) {
	d, ok := decoders[oid]
	switch {
	case !ok:
		return nil, &Error{Code: "0A000", Message: "binary values of the type with OID " + strconv.FormatUint(uint64(oid), 10) + " are not read"}
	case d.size > len(v):
		return nil, errTooShort()
	case d.size >= 0 && d.size < len(v):
		return nil, errBadBinary("incorrect binary data format")
	}
	return d.append(dst, v)
}

// infallible returns the append function of a decoder that accepts every value of the right length.
func infallible(f func(dst, v []byte) []byte) func(dst, v []byte) ([]byte, *Error) {
	return func(dst, v []byte) ([]byte, *Error) { return f(dst, v), nil }
}

func errTooShort() *Error { return &Error{Code: "08P01", Message: "insufficient data left in message"} }

func errBadBinary(message string) *Error { return &Error{Code: "22P03", Message: message} }

func int32At(v []byte) int32 { return int32(binary.BigEndian.Uint32(v)) }

func int64At(v []byte) int64 { return int64(binary.BigEndian.Uint64(v)) }

func appendBool(dst, v []byte) ([]byte, *Error) {
	if v[0] == 0 {
		return append(dst, 'f'), nil
	}
	return append(dst, 't'), nil
}

func appendBytea(dst, v []byte) ([]byte, *Error) {
	return hex.AppendEncode(append(dst, `\x`...), v), nil
}

func appendCharacters(dst, v []byte) ([]byte, *Error) {
	if i := invalidTextOffset(v); i >= 0 {
		return nil, &Error{Code: "22021", Message: invalidUTF8Message(v[i:])}
	}
	return append(dst, v...), nil
}

// appendFloat appends the shortest text that identifies the float.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, bits)
}

func appendUUID(dst, v []byte) []byte {
	for i, b := range v {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, []byte{b})
	}
	return dst
}

func appendJSONB(dst, v []byte) ([]byte, *Error) {
	switch {
	case len(v) == 0:
		return nil, &Error{Code: "08P01", Message: "no data left in message"}
	case v[0] != 1:
		return nil, &Error{Code: "XX000", Message: "unsupported jsonb version number " + strconv.Itoa(int(v[0]))}
	}
	return appendCharacters(dst, v[1:])
}
