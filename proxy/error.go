package proxy

import "fmt"

// sqlError is an error that Sluice itself tells a client.
type sqlError struct {
	fatal   bool
	code    string // SQLSTATE
	message string
	detail  string
	hint    string
	// source is what drivers read of where PostgreSQL's own error is from: the
	// routine tells them that preparing the statement again helps.
	source source15
}

// source15 is a place in the source of PostgreSQL 15.
type source15 struct{ file, line, routine string }

func (e *sqlError) Error() string { return e.message + " (SQLSTATE " + e.code + ")" }

// append encodes the error as an ErrorResponse.
func (e *sqlError) append(dst []byte) []byte {
	severity := "ERROR"
	if e.fatal {
		severity = "FATAL"
	}
	return e.encode(dst, msgError, severity)
}

// appendWarning encodes it as a NoticeResponse of severity WARNING.
func (e *sqlError) appendWarning(dst []byte) []byte { return e.encode(dst, msgNotice, "WARNING") }

func (e *sqlError) encode(dst []byte, typ byte, severity string) []byte {
	fields := [...]struct {
		code  byte
		value string
	}{
		{'S', severity}, {'V', severity}, {'C', e.code}, {'M', e.message}, {'D', e.detail}, {'H', e.hint},
		{'F', e.source.file}, {'L', e.source.line}, {'R', e.source.routine},
	}
	n := 1
	for _, f := range fields {
		if f.value != "" {
			n += len(f.value) + 2
		}
	}
	dst = appendHeader(dst, typ, n)
	for _, f := range fields {
		if f.value != "" {
			dst = append(dst, f.code)
			dst = append(dst, f.value...)
			dst = append(dst, 0)
		}
	}
	return append(dst, 0)
}

// errProtocolViolation is a frame that no server would take.
func errProtocolViolation(format string, args ...any) *sqlError {
	return &sqlError{fatal: true, code: "08P01", message: fmt.Sprintf(format, args...)}
}
