package wire

import "fmt"

// Error is an error that Sluice itself tells a client: FATAL where the connection ends
// with it, else ERROR.
type Error struct {
	Fatal   bool
	Code    string // SQLSTATE
	Message string
	Detail  string
	Hint    string
	Context string // where in the client's data, or in what it called
	// Schema, Table, Column and Constraint are what an error about rows is of; "" for others.
	Schema, Table, Column, Constraint string
	// Origin is what drivers read of where PostgreSQL's own error is from: the
	// routine tells them that preparing the statement again helps.
	Origin Origin
}

// Origin is a place in the source of PostgreSQL 15.
type Origin struct{ File, Line, Routine string }

// Error is the message with its SQLSTATE.
func (e *Error) Error() string { return e.Message + " (SQLSTATE " + e.Code + ")" }

// Append encodes the error as an ErrorResponse.
func (e *Error) Append(dst []byte) []byte {
	severity := "ERROR"
	if e.Fatal {
		severity = "FATAL"
	}
	return e.encode(dst, ErrorResponse, severity)
}

// AppendNotice encodes it as a NoticeResponse of that severity.
func (e *Error) AppendNotice(dst []byte, severity string) []byte {
	return e.encode(dst, NoticeResponse, severity)
}

func (e *Error) encode(dst []byte, typ byte, severity string) []byte {
	fields := [...]struct {
		code  byte
		value string
	}{
		{'S', severity}, {'V', severity}, {'C', e.Code}, {'M', e.Message}, {'D', e.Detail}, {'H', e.Hint}, {'W', e.Context},
		{'s', e.Schema}, {'t', e.Table}, {'c', e.Column}, {'n', e.Constraint},
		{'F', e.Origin.File}, {'L', e.Origin.Line}, {'R', e.Origin.Routine},
	}
	n := 1
	for _, f := range fields {
		if f.value != "" {
			n += len(f.value) + 2
		}
	}
	dst = AppendHeader(dst, typ, n)
	for _, f := range fields {
		if f.value != "" {
			dst = append(dst, f.code)
			dst = append(dst, f.value...)
			dst = append(dst, 0)
		}
	}
	return append(dst, 0)
}

// ProtocolViolation is the FATAL 08P01 for a frame that no server would take.
func ProtocolViolation(format string, args ...any) *Error {
	return &Error{Fatal: true, Code: "08P01", Message: fmt.Sprintf(format, args...)}
}
