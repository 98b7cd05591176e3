package wire

import "fmt"

// Error is an error that Sluice itself sends to a client. Error is a FATAL if the connection ends with it, otherwise an
// ERROR.
type Error struct {
	Fatal   bool
	Code    string // SQLSTATE
	Message string
	Detail  string
	Hint    string
	Context string // position in the client's data, or in a called function
	// Schema, Table, Column and Constraint say what an error about rows concerns. The four are "" for other errors.
	Schema, Table, Column, Constraint string
	// Origin is the place in PostgreSQL's source that reports this error. Some drivers recognise by the routine that they
	// should prepare the statement again.
	Origin SourceLocation
}

// SourceLocation is a place in the source code of PostgreSQL 15.
type SourceLocation struct{ File, Line, Routine string }

// Error returns the error's message with its SQLSTATE.
func (e *Error) Error() string { return e.Message + " (SQLSTATE " + e.Code + ")" }

// Append appends the error to dst as an ErrorResponse.
func (e *Error) Append(dst []byte) []byte {
	severity := "ERROR"
	if e.Fatal {
		severity = "FATAL"
	}
	return e.encode(dst, ErrorResponse, severity)
}

// AppendNotice appends the error to dst as a NoticeResponse of a severity.
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

// ProtocolViolation returns the FATAL 08P01 for a frame that violates the protocol.
func ProtocolViolation(format string, args ...any) *Error {
	return &Error{Fatal: true, Code: "08P01", Message: fmt.Sprintf(format, args...)}
}
