package proxy

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Statements about advisory locks as the protocol has them: the types and values of their
// parameters, and their answers, which have one column of type void or boolean.

// lockMoment is for how long a statement waits for a promise that goes in front of it.
func lockMoment() time.Time { return time.Now().Add(lockEnd) }

// paramTypes are the OIDs of a statement's parameters, where the client gave them or not: those
// of the function, of a cast, or of any whole number that PostgreSQL would convert. An error is
// PostgreSQL's for a type that it would not.
func paramTypes(a *rewrite.Advisory, oids string) ([]uint32, error) {
	types := make([]uint32, a.Params())
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
			want = a.ArgType()
		}
		switch *t {
		case 0:
			*t = want
		case rewrite.Int2OID, rewrite.Int4OID:
		case rewrite.Int8OID:
			if want != rewrite.Int8OID {
				return nil, errLockArgument
			}
		default:
			return nil, errLockArgument
		}
	}
	return types, nil
}

// errLockArgument is told of parameters that are no whole numbers, or too large ones.
var errLockArgument = &wire.Error{Code: "42883", Message: "the arguments of an advisory lock are one bigint or two integers",
	Hint: "No function matches the given argument types. You might need to add explicit type casts."}

// lockParams is the ParameterDescription of a statement.
func lockParams(a *rewrite.Advisory, oids string) ([]byte, error) {
	types, err := paramTypes(a, oids)
	if err != nil {
		return nil, err
	}
	b := wire.AppendHeader(nil, wire.ParameterDescription, 2+4*len(types))
	b = binary.BigEndian.AppendUint16(b, uint16(len(types)))
	for _, t := range types {
		b = binary.BigEndian.AppendUint32(b, t)
	}
	return b, nil
}

// bindLock reads the parameters of a Bind, from what follows its names, into the key of a portal,
// and the format of its column.
func (p *portal) bindLock(a *rewrite.Advisory, oids string, statement, rest []byte) error {
	types, err := paramTypes(a, oids)
	if err != nil {
		return err
	}
	values, formats, ok := bindValues(rest)
	if !ok {
		return wire.ProtocolViolation("invalid message format")
	}
	if len(values) != len(types) {
		return errParameterCount(len(values), len(types), statement)
	}
	numbers := make([]*int64, len(values))
	for i, v := range values {
		if numbers[i], err = v.number(types[i]); err != nil {
			return err
		}
	}
	p.binary = len(formats) == 1 && formats[0] == 1
	if len(formats) > 1 || len(formats) == 1 && formats[0] > 1 {
		return wire.ProtocolViolation("bind message has a wrong number of result formats")
	}
	p.key, err = lockKey(a, numbers)
	return err
}

// bound is one value of a Bind.
type boundValue struct {
	binary, null bool
	bytes        []byte
}

// bindValues reads the values and the formats of the results of a Bind.
func bindValues(rest []byte) (values []boundValue, formats []uint16, ok bool) {
	codes, rest, ok := shorts(rest)
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
		v := boundValue{null: size < 0}
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
	formats, rest, ok = shorts(rest)
	return values, formats, ok && len(rest) == 0
}

// shorts reads a count and as many numbers of two bytes.
func shorts(b []byte) (list []uint16, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; len(b) < 2*n {
		return nil, nil, false
	}
	for i := range n {
		list = append(list, binary.BigEndian.Uint16(b[2*i:]))
	}
	return list, b[2*n:], true
}

// number is a value of a type by its OID; nil for NULL. The errors are PostgreSQL's.
func (v *boundValue) number(oid uint32) (*int64, error) {
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

// lockKey is the key that a statement names; nil where a part of it is NULL.
func lockKey(a *rewrite.Advisory, params []*int64) (key []int64, err error) {
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

// lockRow describes the column of the answer: OID and size of void, or of boolean.
func lockRow(a *rewrite.Advisory, binaryForm bool) []byte {
	const void, boolean = 2278, 16
	row := columnDescription(a.Column, void, 4)
	if a.Verb == rewrite.TryAdvisory || a.Verb == rewrite.UnlockAdvisory {
		row = columnDescription(a.Column, boolean, 1)
	}
	if binaryForm {
		row[len(row)-1] = 1
	}
	return row
}

// performLock does a statement about advisory locks, with the key of the portal at hand where
// there is one, and returns its answer without the tag.
func (s *session) performLock(a *rewrite.Advisory, p *portal) (frames [][]byte, err error) {
	key, binaryForm := []int64(nil), false
	if p != nil {
		key, binaryForm = p.key, p.binary
	} else if key, err = lockKey(a, nil); err != nil {
		return nil, err
	}
	ok, frames, err := s.runAdvisory(a, key)
	if err != nil {
		return nil, err
	}
	switch {
	case key == nil && a.Verb != rewrite.UnlockAllAdvisory:
		return append(frames, rowOfNull()), nil
	case a.Verb == rewrite.LockAdvisory, a.Verb == rewrite.UnlockAllAdvisory:
		return append(frames, dataRow("")), nil
	case binaryForm && ok:
		return append(frames, dataRow("\x01")), nil
	case binaryForm:
		return append(frames, dataRow("\x00")), nil
	case ok:
		return append(frames, dataRow("t")), nil
	}
	return append(frames, dataRow("f")), nil
}

// rowOfNull is a DataRow with one NULL.
func rowOfNull() []byte {
	b := wire.AppendHeader(nil, wire.DataRow, 2+4)
	return append(b, 0, 1, 0xff, 0xff, 0xff, 0xff)
}
