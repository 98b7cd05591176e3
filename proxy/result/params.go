package result

import (
	"encoding/binary"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
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

// errValueType resembles PostgreSQL's error, which also names the types. Sluice would need the catalog to name them.
var errValueType = &wire.Error{Code: "42883", Message: "function set_config(unknown, ..., boolean) does not exist for the types of the parameters",
	Hint: "Leave the types of the parameters out, or give text, one for each parameter."}
