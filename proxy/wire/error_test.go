package wire

import (
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// An error is encoded as a library reads it, with the fields that it has and no other.
func TestErrorEncoding(t *testing.T) {
	e := &Error{Code: "0A000", Message: "no", Detail: "why", Hint: "how", Origin: SourceLocation{File: "f.c", Line: "7", Routine: "R"}}
	want := pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "0A000", Message: "no", Detail: "why", Hint: "how",
		File: "f.c", Line: 7, Routine: "R"}
	var got pgproto3.ErrorResponse
	frame := e.Append([]byte("before"))[len("before"):]
	if err := got.Decode(frame[HeaderLen:]); err != nil || frame[0] != ErrorResponse || !equal(got, want) {
		t.Errorf("%v: %+v, want %+v", err, got, want)
	}
	e = ProtocolViolation("type %d", 3)
	want = pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "08P01", Message: "type 3"}
	if err := got.Decode(e.Append(nil)[HeaderLen:]); err != nil || !equal(got, want) {
		t.Errorf("%v: %+v, want %+v", err, got, want)
	}
	var notice pgproto3.NoticeResponse
	want.Severity, want.SeverityUnlocalized = "WARNING", "WARNING"
	if err := notice.Decode(e.AppendNotice(nil, "WARNING")[HeaderLen:]); err != nil || !equal(pgproto3.ErrorResponse(notice), want) {
		t.Errorf("%v: %+v, want %+v", err, notice, want)
	}
}

func equal(a, b pgproto3.ErrorResponse) bool {
	a.UnknownFields, b.UnknownFields = nil, nil
	return a.Severity == b.Severity && a.SeverityUnlocalized == b.SeverityUnlocalized && a.Code == b.Code && a.Message == b.Message &&
		a.Detail == b.Detail && a.Hint == b.Hint && a.File == b.File && a.Line == b.Line && a.Routine == b.Routine
}
