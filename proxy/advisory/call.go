package advisory

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file decodes the parameters of statements about advisory locks: their types, and the values of a Bind.

// ResolveParamTypes returns the OIDs of the types of a statement's parameters. A parameter without a type from the
// client has the type of the function's argument or of a cast. ResolveParamTypes accepts any integer type that
// PostgreSQL would convert, and returns PostgreSQL's error for other types.
func ResolveParamTypes(a *rewrite.AdvisoryCall, oids string) ([]uint32, error) {
	types := make([]uint32, a.MaxParam())
	for i := range types {
		if at := 2 + 4*i; at+4 <= len(oids) {
			types[i] = binary.BigEndian.Uint32([]byte(oids[at:]))
		}
	}
	for _, arg := range a.Args {
		if arg.Param == 0 {
			continue
		}
		t := &types[arg.Param-1]
		want := arg.Type
		if want == 0 {
			want = a.ArgTypeOID()
		}
		switch *t {
		case 0:
			*t = want
		case rewrite.Int2OID, rewrite.Int4OID:
		case rewrite.Int8OID:
			if want != rewrite.Int8OID {
				return nil, errArgument
			}
		default:
			return nil, errArgument
		}
	}
	return types, nil
}

// errArgument is the error for parameters of an advisory lock that are no integers, or are too large.
var errArgument = &wire.Error{Code: "42883", Message: "the arguments of an advisory lock are one bigint or two integers",
	Hint: "No function matches the given argument types. You might need to add explicit type casts."}

// BindValue is the value of one parameter of a Bind.
type BindValue struct {
	binary, null bool
	bytes        []byte
}

// ParseBindValues returns the values and the result formats of a Bind. rest is the part of the Bind after its names. ok
// is false if the part is malformed.
func ParseBindValues(rest []byte) (values []BindValue, formats []uint16, ok bool) {
	codes, rest, ok := wire.ParseFormatCodes(rest)
	if !ok || len(rest) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(rest))
	rest = rest[2:]
	if len(codes) > 1 && len(codes) != n {
		return nil, nil, false
	}
	for i := range n {
		if len(rest) < 4 {
			return nil, nil, false
		}
		size := int(int32(binary.BigEndian.Uint32(rest)))
		rest = rest[4:]
		v := BindValue{null: size < 0}
		if size = max(size, 0); size > len(rest) {
			return nil, nil, false
		}
		v.bytes, rest = rest[:size], rest[size:]
		switch {
		case len(codes) == 1:
			v.binary = codes[0] == 1
		case len(codes) > 1:
			v.binary = codes[i] == 1
		}
		values = append(values, v)
	}
	formats, rest, ok = wire.ParseFormatCodes(rest)
	return values, formats, ok && len(rest) == 0
}

// parseInteger returns the parameter's value, read as the integer type that oid names, or nil for NULL. The errors
// are PostgreSQL's.
func (v *BindValue) parseInteger(oid uint32) (*int64, error) {
	name, size, least, most := "bigint", 8, int64(math.MinInt64), int64(math.MaxInt64)
	switch oid {
	case rewrite.Int4OID:
		name, size, least, most = "integer", 4, math.MinInt32, math.MaxInt32
	case rewrite.Int2OID:
		name, size, least, most = "smallint", 2, math.MinInt16, math.MaxInt16
	}
	var n int64
	switch {
	case v.null:
		return nil, nil
	case v.binary && len(v.bytes) != size:
		return nil, &wire.Error{Code: "22P03", Message: "incorrect binary data format in bind parameter"}
	case v.binary:
		for _, c := range v.bytes {
			n = n<<8 | int64(c)
		}
		shift := 64 - 8*size
		n = n << shift >> shift
	default:
		var err error
		text := strings.Trim(string(v.bytes), " \t\n\r\f\v")
		n, err = strconv.ParseInt(text, 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange), err == nil && (n < least || n > most):
			return nil, &wire.Error{Code: "22003", Message: "value \"" + text + "\" is out of range for type " + name}
		case err != nil:
			return nil, &wire.Error{Code: "22P02", Message: "invalid input syntax for type " + name + ": \"" + string(v.bytes) + "\""}
		}
	}
	return &n, nil
}

// LockKey returns the key of the advisory lock in a statement with these parameter values, or nil if a part is NULL.
func LockKey(a *rewrite.AdvisoryCall, params []*int64) (key []int64, err error) {
	for _, arg := range a.Args {
		switch {
		case arg.Param > len(params):
			return nil, &wire.Error{Code: "42P02", Message: "there is no parameter $" + strconv.Itoa(arg.Param)}
		case arg.Param > 0 && params[arg.Param-1] == nil, arg.Null:
			return nil, nil
		case arg.Param > 0:
			n := *params[arg.Param-1]
			if arg.Type == rewrite.Int4OID && int64(int32(n)) != n {
				return nil, &wire.Error{Code: "22003", Message: "integer out of range"}
			}
			key = append(key, n)
		default:
			key = append(key, arg.Value)
		}
	}
	return key, nil
}

// IsBinaryResult reports whether the only result column has the binary format. The errors are PostgreSQL's.
func IsBinaryResult(formats []uint16) (bool, error) {
	switch {
	case len(formats) == 0:
		return false, nil
	case len(formats) > 1:
		return false, &wire.Error{Code: "08P01", Message: "bind message has " + strconv.Itoa(len(formats)) + " result formats but query has 1 columns"}
	case formats[0] > 1:
		return false, &wire.Error{Code: "22023", Message: "unsupported format code: " + strconv.Itoa(int(formats[0]))}
	}
	return formats[0] == 1, nil
}

// BoundLockKey returns the key of the advisory lock that a statement names by its parameters, or nil if a part of the
// key is NULL.
func BoundLockKey(a *rewrite.AdvisoryCall, types []uint32, values []BindValue) ([]int64, error) {
	numbers := make([]*int64, len(values))
	for i := range values {
		var err error
		if numbers[i], err = values[i].parseInteger(types[i]); err != nil {
			return nil, err
		}
	}
	return LockKey(a, numbers)
}
