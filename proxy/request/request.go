// Package request reads frames of extended requests: a client's Parse, Bind, Describe and Close. The functions are
// pure, and read no byte behind their frame. For a malformed frame they return PostgreSQL's error.
package request

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// SplitBindNames splits a Bind's payload into the portal's name, the statement's name and the rest. The rest may be
// incomplete. ok is false if a name has no terminating zero.
func SplitBindNames(payload []byte) (portalName, statement, rest []byte, ok bool) {
	portalName, rest, ok = wire.CutCString(payload)
	if !ok {
		return nil, nil, nil, false
	}
	statement, rest, ok = wire.CutCString(rest)
	return portalName, statement, rest, ok
}

// BindParamCount returns the number of parameters in rest, a Bind without its names, or PostgreSQL's error.
func BindParamCount(rest []byte) (n int, err error) {
	m := wire.NewBodyReader(rest)
	return readParamCount(&m)
}

// readParamCount reads past a Bind's format codes, and returns the number of the Bind's parameters.
func readParamCount(m *wire.BodyReader) (n int, err error) {
	codes := m.Uint16()
	m.Bytes(2 * codes)
	if n = m.Uint16(); m.Err == nil && codes > 1 && codes != n {
		return n, &wire.Error{Code: "08P01", Message: fmt.Sprintf("bind message has %d parameter formats but %d parameters", codes, n)}
	}
	return n, m.AsError()
}

// ValidateBind returns PostgreSQL's error for a malformed Bind of a statement with n parameters, or nil. rest is the
// complete part of the Bind after its names.
func ValidateBind(rest []byte, n int, statement []byte) error {
	m := wire.NewBodyReader(rest)
	given, err := readParamCount(&m)
	if err == nil && given != n {
		err = ErrParamCount(given, n, statement)
	}
	if err != nil {
		return err
	}
	codes := wire.NewBodyReader(rest)
	formats := codes.Uint16()
	format := 0
	for i := range n {
		if i < formats {
			format = codes.Uint16()
		}
		if size := m.Int32(); size != -1 {
			m.Bytes(size)
		}
		if m.Err == nil && format > 1 {
			return &wire.Error{Code: "22023", Message: fmt.Sprintf("unsupported format code: %d", int16(format))}
		}
	}
	m.Bytes(2 * m.Uint16())
	return m.CheckEnd()
}

// ErrParamCount returns PostgreSQL's error for a Bind with n parameters to a statement that has want parameters.
func ErrParamCount(n, want int, statement []byte) *wire.Error {
	return &wire.Error{Code: "08P01",
		Message: fmt.Sprintf("bind message supplies %d parameters, but prepared statement \"%s\" requires %d", n, statement, want)}
}

// SplitParse returns the statement's name, its text, and the parameter types (their count included) of a Parse frame.
// The error says that the frame is malformed.
func SplitParse(frame []byte) (name, sql, oids []byte, err error) {
	m := wire.NewBodyReader(frame[wire.HeaderLen:])
	name, sql = m.String(), m.String()
	oids = m.Rest()
	m.Bytes(4 * m.Uint16())
	return name, sql, oids, m.CheckEnd()
}

// ParseTarget parses a Describe or Close frame. The kind of its target is 'S' for a statement or 'P' for a portal.
// message is "DESCRIBE" or "CLOSE", for the error.
func ParseTarget(frame []byte, message string) (kind byte, name []byte, err error) {
	m := wire.NewBodyReader(frame[wire.HeaderLen:])
	kind, name = m.Byte(), m.String()
	if err := m.CheckEnd(); err != nil {
		return 0, nil, err
	}
	if kind != 'S' && kind != 'P' {
		return 0, nil, &wire.Error{Code: "08P01", Message: fmt.Sprintf("invalid %s message subtype %d", message, kind)}
	}
	return kind, name, nil
}

// UsesOnly reports whether the client's unread bytes rest have all frames up to a Sync, without a Parse. The callback
// named is must return true for the name of each statement that these frames use.
func UsesOnly(rest []byte, is func(name []byte) bool) bool {
	for {
		typ, total, err := wire.ParseHeader(rest)
		if err != nil || total == 0 || total > len(rest) {
			return false
		}
		frame := rest[:total]
		rest = rest[total:]
		switch typ {
		case wire.Sync:
			return true
		case wire.Execute, wire.Flush:
		case wire.Bind:
			if _, of, _, ok := SplitBindNames(frame[wire.HeaderLen:]); !ok || !is(of) {
				return false
			}
		case wire.Describe:
			if what, of, err := ParseTarget(frame, "DESCRIBE"); err != nil || what == 'S' && !is(of) {
				return false
			}
		case wire.Close:
			if what, _, err := ParseTarget(frame, "CLOSE"); err != nil || what != 'P' {
				return false
			}
		default:
			return false
		}
	}
}

// TextParams returns the n parameter values of a Bind for set_config, and the Bind's result formats with their count.
// rest is the Bind without its names. TextParams refuses NULL: it resets the setting, and Sluice does not know the
// default that the server would return.
func TextParams(rest []byte, n int, statement []byte) (values []string, formats []byte, err error) {
	if err := ValidateBind(rest, n, statement); err != nil {
		return nil, nil, err
	}
	m := wire.NewBodyReader(rest)
	m.Bytes(2*m.Uint16() + 2)
	for range n {
		size := m.Int32()
		if size < 0 {
			return nil, nil, errNullValue
		}
		value := string(m.Bytes(size))
		if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
			return nil, nil, errNotText
		}
		values = append(values, value)
	}
	return values, append([]byte(nil), m.Rest()...), nil
}

// AppendBindWithoutParams appends to dst a Bind without parameters, of the statement name to the unnamed portal.
func AppendBindWithoutParams(dst []byte, name string) []byte {
	dst = wire.AppendHeader(dst, wire.Bind, 1+len(name)+1+6)
	dst = append(dst, 0)
	dst = append(dst, name...)
	return append(dst, 0, 0, 0, 0, 0, 0, 0)
}

var (
	errNullValue = &wire.Error{Code: retry.StateUnsupported, Message: "set_config() of NULL is not carried out here", Hint: "Send RESET of the setting."}
	errNotText   = &wire.Error{Code: "22021", Message: "invalid byte sequence for encoding \"UTF8\""}
)
