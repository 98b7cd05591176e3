package answer_test

import (
	"testing"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// A frame means something only for the requests that it answers, and a statement ends once in each.
func TestMeanings(t *testing.T) {
	t.Parallel()
	requests := []byte{wire.Parse, wire.Bind, wire.Close, wire.Describe, wire.Execute, wire.Query, wire.FunctionCall, wire.Sync}
	for _, test := range []struct {
		frame byte
		of    string // the requests that it answers
	}{
		{wire.ParseComplete, "P"}, {wire.BindComplete, "B"}, {wire.CloseComplete, "C"}, {wire.NoData, "D"}, {wire.CommandComplete, "EQ"},
		{wire.PortalSuspended, "E"}, {wire.RowDescription, "DQ"}, {wire.ReadyForQuery, "QFS"}, {wire.ErrorResponse, ""},
	} {
		of := ""
		for _, request := range requests {
			if answer.MeaningOf(request, test.frame) != answer.Unexpected {
				of += string(request)
			}
		}
		if of != test.of {
			t.Errorf("%c answers %q, want %q", test.frame, of, test.of)
		}
	}
	tag := wire.AppendCommandComplete(nil, "INSERT 0 3")
	f := answer.Frame{Type: wire.CommandComplete, Means: answer.MeaningOf(wire.Query, wire.CommandComplete), Bytes: tag, Total: len(tag)}
	if !f.EndsStatement() || f.IsCut() || f.IsRow() || f.CommandTag() != "INSERT 0 3" || f.TagVerb() != "INSERT" {
		t.Errorf("%+v: %q, %q", f, f.CommandTag(), f.TagVerb())
	}
	if f = (answer.Frame{Type: wire.RowDescription, Bytes: tag[:5], Total: 9}); f.EndsStatement() || !f.IsCut() || f.TagVerb() != "" {
		t.Errorf("%+v", f)
	}
}
