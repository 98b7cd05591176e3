package retry

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		state, message string
		class          ResultClass
		cause          ReplayCause
	}{
		{"40001", "change conflicts with another transaction (OC000)", Conflict, DataConflict},
		{"40001", "change conflicts with another transaction, please retry: (OC000)", Conflict, DataConflict},
		{"40001", "schema has been updated by another transaction (OC001)", Conflict, SchemaConflict},
		{"40001", "(OC001)", Conflict, SchemaConflict},
		{"40001", "could not serialize access due to concurrent update", Conflict, UnknownConflict},
		{"40001", "(OC007)", Conflict, UnknownConflict},
		{"40001", "(OC00", Conflict, UnknownConflict},
		{"40001", "(OC0001)", Conflict, UnknownConflict},
		{"40001", "(OC000", Conflict, UnknownConflict},
		{"40001", "", Conflict, UnknownConflict},
		{"0A000", "unsupported transaction statement: SAVEPOINT", Unsupported, UnknownConflict},
		{"0A000", "(OC000)", Unsupported, UnknownConflict},
		{"40P01", "deadlock detected (OC000)", Permanent, UnknownConflict},
		{"40003", "40001", Permanent, UnknownConflict},
		{"23505", "duplicate key value violates unique constraint", Permanent, UnknownConflict},
		{"57014", "canceling statement due to statement timeout", Permanent, UnknownConflict},
		{"XX000", "change conflicts with another transaction (OC000)", Permanent, UnknownConflict},
		{"OC000", "(OC000)", Permanent, UnknownConflict},
		{"", "", Permanent, UnknownConflict},
	} {
		class, cause := Classify([]byte(test.state), []byte(test.message))
		if class != test.class || cause != test.cause {
			t.Errorf("%s %q: %v, %v, want %v, %v", test.state, test.message, class, cause, test.class, test.cause)
		}
	}
}

// Feature: dsql-locking-compatibility, Property 5: Error handling: the SQLSTATE
// alone decides; 40001 and nothing else is tried again.
func TestOnlySQLSTATEDecides(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state := rapid.OneOf(rapid.SampledFrom([]string{"40001", "0A000", "40P01", "23505"}), rapid.StringMatching(`[0-9A-Z]{0,6}`)).Draw(t, "state")
		message := rapid.String().Draw(t, "message") + rapid.SampledFrom([]string{"", "(OC000)", "(OC001)", "40001"}).Draw(t, "code")
		class, cause := Classify([]byte(state), []byte(message))
		if class.Retryable() != (state == "40001") || (class == Unsupported) != (state == "0A000") {
			t.Fatalf("%s %q: %v", state, message, class)
		}
		if class != Conflict && cause != UnknownConflict {
			t.Fatalf("%s %q: cause %v", state, message, cause)
		}
	})
}

// Feature: dsql-locking-compatibility, Property 2: Conditional update atomicity:
// a fenced write that matched no row is a result of its own class, and never
// tried again.
func TestMissedWrite(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		verb := rapid.SampledFrom([]string{"UPDATE ", "DELETE ", "INSERT 0 ", "SELECT ", "MERGE "}).Draw(t, "verb")
		rows := rapid.SampledFrom([]string{"0", "1", "10", "00"}).Draw(t, "rows")
		if got, want := MatchedNoRows([]byte(verb+rows)), rows == "0" && (verb == "UPDATE " || verb == "DELETE "); got != want {
			t.Fatalf("%s%s: %v", verb, rows, got)
		}
	})
	if ConditionFailed.Retryable() {
		t.Fatal("a failed condition would be retried")
	}
}

func TestVerbOf(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]string{"SELECT 3": "select", "INSERT 0 1": "insert", "UPDATE 0": "update",
		"DELETE 2": "delete", "MERGE 1": "merge", "COPY 7": "copy", "FETCH 1": "fetch", "CREATE TABLE": "other", "": "other", "UPDATEX": "other"} {
		if got := VerbOf([]byte(tag)).String(); got != want {
			t.Errorf("%q: %s, want %s", tag, got, want)
		}
	}
}

// Feature: dsql-locking-compatibility, Property 7: Observability: every outcome
// has a label of a closed set.
func TestLabels(t *testing.T) {
	t.Parallel()
	var labels []string
	for c := range classCount {
		labels = append(labels, c.String())
	}
	for c := range causeCount {
		labels = append(labels, "cause "+c.String())
	}
	for v := range verbCount {
		labels = append(labels, "verb "+v.String())
	}
	if len(RefusalReasons()) != int(reasonCount)-1 {
		t.Errorf("%d reasons, want %d", len(RefusalReasons()), reasonCount-1)
	}
	labels = append(labels, RefusalReasons()...)
	for i, label := range labels {
		if strings.HasSuffix(label, " ") || label == "" || slices.Contains(labels[:i], label) {
			t.Errorf("label %q is empty or not alone", label)
		}
	}
}

func TestDetail(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why  RefusalReason
		d    ReplayDifference
		want string
	}{
		{Exhausted, ReplayDifference{}, "Replay refused: every attempt met a conflict again, or time ran out."},
		{Differs, ReplayDifference{First: 3, Last: 3, Verb: Select, Kind: Values},
			"Replay refused: the result of statement 3 (select) differs in its values."},
		{Differs, ReplayDifference{}, "Replay refused: a statement would answer, or store, otherwise than before, and was not sent again."},
		{Differs, ReplayDifference{First: 2, Last: 2, Kind: Outcome}, "Replay refused: the result of statement 2 differs in its outcome."},
		{Differs, ReplayDifference{First: 2, Last: 5, Verb: Update, Kind: Size},
			"Replay refused: the result of one of the statements 2 to 5 differs in its size."},
	} {
		if got := test.why.Detail(test.d); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
	for why := OptedOut; why < reasonCount; why++ {
		if detail := why.Detail(ReplayDifference{First: 1, Last: 1}); !strings.HasSuffix(detail, ".") || strings.Contains(detail, ": .") {
			t.Errorf("%v: %q", why, detail)
		}
	}
}

func TestOptsOut(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]bool{
		"/* sluice: no-retry */ SELECT 1":             true,
		"SELECT 1 /*sluice:no-retry*/":                true,
		"/* a */ /*\n sluice:\tno-retry\n*/ UPDATE t": true,
		"/*/* sluice: no-retry */*/":                  true,
		"SELECT '/* sluice: no-retry */'":             true,
		"/* sluice: no-retry":                         false,
		"/* sluice: no-retries */":                    false,
		"/* Sluice: no-retry */":                      false,
		"-- sluice: no-retry":                         false,
		"sluice: no-retry */":                         false,
		"/* x sluice: no-retry */":                    false,
		"/*":                                          false,
		"":                                            false,
	} {
		if got := HasNoRetryComment([]byte(sql)); got != want {
			t.Errorf("%q: %v, want %v", sql, got, want)
		}
	}
}
