package remains

import (
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/rewrite"
)

// The answer names the first of what is left, and an answer that no server gives is none.
func TestReason(t *testing.T) {
	for answer, want := range map[string]rewrite.PinReason{"": rewrite.NoPin, "t": rewrite.PinTemp, "apc": rewrite.PinAdvisory, "tapcls": rewrite.PinTemp,
		"l": rewrite.PinListen, "cl": rewrite.PinHoldCursor, "p": rewrite.PinPrepare, "s": rewrite.PinProcedural} {
		if got, ok := PinReason(answer); got != want || !ok {
			t.Errorf("%q: %v, %v, want %v", answer, got, ok, want)
		}
	}
	for _, answer := range []string{"x", "ta?", "at", "tt", " "} {
		if _, ok := PinReason(answer); ok {
			t.Errorf("%q is taken for an answer", answer)
		}
	}
}

// A text that calls what is not known, changes the schema, or was not read has the backend asked;
// others do not.
func TestTrace(t *testing.T) {
	planner, err := rewrite.New(rewrite.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"SELECT f()": true, "SELECT pg_foo()": true, "SELECT a.f FROM a": false, "SELECT 1": false, "INSERT INTO t VALUES (now())": false,
		"INSERT INTO t VALUES (f())": true, "CREATE TABLE t (a int)": true, "SELECT 1 AS a INTO t": true, "SELECT s.f(1)": true,
		"SELECT nextval('s'), pg_notify('a', 'b')": false, "UPDATE t SET a = 1": false, "BEGIN": false, "SET search_path TO a": false,
		"SELECT 1; SELECT f()": true, "SELECT pg_create_physical_replication_slot('a', false, true)": true, "SELECT pg_sleep(1)": false,
		"EXPLAIN ANALYZE SELECT f()": true, "EXPLAIN SELECT f()": false, "COPY (SELECT f()) TO STDOUT": true, "DO 'BEGIN END'": true, "CALL p()": true,
	} {
		var trace StateTrace
		if trace.RecordPlan(planner.Plan([]byte(text))); trace.NeedsQuery() != want {
			t.Errorf("%q: due %v", text, !want)
		}
	}
	var trace StateTrace
	if trace.RequireQuery(); !trace.NeedsQuery() || trace.HasCalled() {
		t.Error("marked and not due")
	}
	if trace.Clear(); trace.NeedsQuery() {
		t.Error("cleared and due")
	}
}

// One asks where nothing is known of the epoch, or the answer is old; until it comes the others go by
// the last one of their epoch, and without one everything may leave something.
func TestHidden(t *testing.T) {
	const age, rest = time.Minute, time.Second
	var h hiddenCallsAnswer
	now := time.Unix(1e9, 0)
	if !h.MayLeaveState(0) || !h.isStale(0, now, age, rest) || !h.claimQuestion(0, now, age, rest) || h.claimQuestion(0, now, age, rest) || !h.MayLeaveState(0) {
		t.Error("nothing is known, and one asks")
	}
	if !h.claimQuestion(0, now.Add(rest), age, rest) {
		t.Error("without an answer nobody asks again")
	}
	now = now.Add(rest)
	if h.RecordAnswer(0, false); h.MayLeaveState(0) || h.isStale(0, now.Add(age-1), age, rest) || !h.isStale(0, now.Add(age), age, rest) {
		t.Error("the answer holds for a minute")
	}
	if !h.MayLeaveState(1) || h.isStale(1, now.Add(rest-1), age, rest) || !h.isStale(1, now.Add(rest), age, rest) {
		t.Error("the schema has changed")
	}
	if h.RecordAnswer(1, true); !h.MayLeaveState(1) || !h.MayLeaveState(0) {
		t.Error("something may be left")
	}
}
