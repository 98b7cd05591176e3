package result

import (
	"encoding/binary"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// DescribeConfigParams returns the ParameterDescription of a SELECT of set_config calls. oids are the parameter types
// that the client named, in the form of a Parse message. If the client named a type that set_config does not accept,
// DescribeConfigParams returns an error.
func DescribeConfigParams(st *rewrite.Statement, oids string) ([]byte, error) {
	const unknown, varchar = 705, 1043
	n := st.SetConfigParams()
	b := binary.BigEndian.AppendUint16(wire.AppendHeader(nil, wire.ParameterDescription, 2+4*n), uint16(n))
	for i := range n {
		typ := uint32(0)
		if at := 2 + 4*i; at+4 <= len(oids) {
			typ = binary.BigEndian.Uint32([]byte(oids[at:]))
		}
		switch typ {
		case 0, unknown:
			typ = text
		case text, varchar:
		default:
			return nil, errValueType
		}
		b = binary.BigEndian.AppendUint32(b, typ)
	}
	if len(oids) > 2+4*n {
		return nil, errValueType
	}
	return b, nil
}

// errValueType resembles PostgreSQL's error, which also names the parameters' types. Sluice would need the catalog.
var errValueType = &wire.Error{Code: "42883", Message: "function set_config(unknown, ..., boolean) does not exist for the types of the parameters",
	Hint: "Leave the types of the parameters out, or give text, one for each parameter."}

// DescribeParams returns a ParameterDescription of parameters with the given type OIDs.
func DescribeParams(types []uint32) []byte {
	b := wire.AppendHeader(nil, wire.ParameterDescription, 2+4*len(types))
	b = binary.BigEndian.AppendUint16(b, uint16(len(types)))
	for _, t := range types {
		b = binary.BigEndian.AppendUint32(b, t)
	}
	return b
}

// DeclaredParamCount returns how many parameter types a client's Parse declared. oids are the types in the form of the
// Parse message. A text that Sluice answers itself has a parameter for each declared type.
func DeclaredParamCount(oids string) int { return max(0, len(oids)-2) / 4 }

// DescribeDeclaredParams returns a ParameterDescription of the types that a client's Parse declared. oids are the types
// in the form of the Parse message.
func DescribeDeclaredParams(oids string) []byte {
	n := DeclaredParamCount(oids)
	if n == 0 {
		return wire.FrameNoParams
	}
	b := binary.BigEndian.AppendUint16(wire.AppendHeader(nil, wire.ParameterDescription, 2+4*n), uint16(n))
	return append(b, oids[2:]...)
}

// DescribeRowless returns the ParameterDescription of a statement that certainly returns no rows, if the client has
// declared each parameter's type in oids, the form of a Parse message. For any other statement it returns nil.
func DescribeRowless(sql, oids string) []byte {
	n, ok := parse.ReturnsNoRows([]byte(sql))
	types := oids[min(2, len(oids)):]
	if !ok || n > len(types)/4 {
		return nil
	}
	for at := 0; at < len(types); at += 4 {
		if types[at:at+4] == "\x00\x00\x00\x00" {
			return nil
		}
	}
	return DescribeDeclaredParams(oids)
}
