package ddltx

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Of many savepoints in committed parts a Tx knows the last, and later statements do not change a Mark.
func TestBounds(t *testing.T) {
	t.Parallel()
	x := New(rewrite.CommitDDL)
	for n := range 3 * maxSavepoints {
		x.keepSavepoints([]string{fmt.Sprint("a", n), fmt.Sprint("b", n)})
	}
	if n := len(x.savepoints); n != maxSavepoints || x.savepoints[n-1] != fmt.Sprint("b", 3*maxSavepoints-1) {
		t.Errorf("%d names, the last is %s", n, x.savepoints[n-1])
	}
	x.addStatement(rewrite.TxDemand{DDL: true}, "one", false)
	mark := x.Mark()
	x.addStatement(rewrite.TxDemand{Rows: true}, "two", false)
	x.Restore(mark)
	x.addStatement(rewrite.TxDemand{}, "nothing", false)
	x.addStatement(rewrite.TxDemand{Sets: true}, "three", false)
	x.addStatement(rewrite.TxDemand{DDL: true}, "", false) // for a statement that is listed already
	if got := x.openStatements.String(); got != "one; three" || x.openDemand != (rewrite.TxDemand{DDL: true, Sets: true}) || mark.openStatements.String() != "one" {
		t.Errorf("%s, %+v, %s", got, x.openDemand, mark.openStatements.String())
	}
}

// A statement that looks like a read is listed as long as it may have written.
func TestReads(t *testing.T) {
	t.Parallel()
	for pure, want := range map[bool]string{true: "CREATE TABLE a (id int)", false: "SELECT f(); CREATE TABLE a (id int)"} {
		x := New(rewrite.CommitDDL)
		x.addStatement(rewrite.TxDemand{}, "SELECT f()", true)
		x.addStatement(rewrite.TxDemand{}, "SELECT 1", false)
		x.addStatement(rewrite.TxDemand{DDL: true}, "CREATE TABLE a (id int)", false)
		if l := x.changing(pure); l.String() != want {
			t.Errorf("pure %v: %s", pure, l.String())
		}
	}
}

// A savepoint that the next part has set again is none of a committed part. RELEASE releases later savepoints too.
func TestSavepoints(t *testing.T) {
	t.Parallel()
	x := New(rewrite.CommitDDL)
	x.keepSavepoints([]string{"a", "b", "a", "c"})
	x.savepointRestored("c")
	x.savepointRestored("unknown")
	if ended, _ := x.Savepoint(rewrite.ReleaseSavepoint, "c"); ended {
		t.Error("c is a savepoint of the open part")
	}
	if ended, _ := x.Savepoint(rewrite.Savepoint, "b"); ended {
		t.Error("SAVEPOINT names a new savepoint")
	}
	if ended, refusal := x.Savepoint(rewrite.RollbackTo, "b"); !ended || refusal == "" {
		t.Error("ROLLBACK TO is not refused")
	}
	if ended, refusal := x.Savepoint(rewrite.ReleaseSavepoint, "b"); !ended || refusal != "" || fmt.Sprint(x.savepoints) != "[a]" {
		t.Errorf("RELEASE: %v, %q, %v", ended, refusal, x.savepoints)
	}
}

// The client's options at an early commit are the options of the block, and a Mark has a copy.
func TestOptions(t *testing.T) {
	t.Parallel()
	x, first := New(rewrite.CommitDDL), &rewrite.ClientOptions{}
	if x.Options().Values() != nil {
		t.Error("no part is committed")
	}
	x.options.Keep(first)
	if x.Options().Values() != first || !x.HasCommittedPart() {
		t.Error("not the options of the commit")
	}
	mark := x.Mark()
	x.Options().RecordResetAll(nil)
	if x.Options().Values() == first {
		t.Error("not reset")
	}
	if x.Restore(mark); x.Options().Values() != first {
		t.Error("not restored")
	}
}

// Later parts have the time of the first part that read the clock, or that the client has seen.
func TestTime(t *testing.T) {
	t.Parallel()
	x := New(rewrite.CommitDDL)
	early := txtime.Value{Format: 1, Bytes: []byte("early")}
	if known := x.prepareTime(nil, early); known || x.timed != nil {
		t.Error("a time without a reader")
	}
	x.SetAskedTime(txtime.Value{Format: 1, Bytes: []byte("late")}) // of a replay
	if x.fixTime(); string(x.timed.Instant.Bytes) != "late" || !x.timed.Committed {
		t.Errorf("%+v", x.timed)
	}
	if known := x.prepareTime(nil, early); !known || string(x.timed.Instant.Bytes) != "late" {
		t.Error("another time")
	}
	seen := &txtime.Time{}
	if known := x.prepareTime(seen, early); !known || x.timed != seen {
		t.Error("not the time that the client has seen")
	}
	if x.EndBlock(); x.timed != nil {
		t.Error("a time of the block before")
	}
	x.JoinBlock(listing.Statements{}, nil)
	if x.JoinBlock(listing.Statements{}, seen); x.timed != seen {
		t.Error("not the time of the query in front of the block")
	}
}

func TestTimeOfRow(t *testing.T) {
	t.Parallel()
	v, ok := timeOfRow([]byte("\x00\x01\x00\x00\x00\x0212"))
	if !ok || !v.IsInstant || v.Format != 1 || binary.BigEndian.Uint64(v.Bytes) != 12 {
		t.Errorf("%+v, %v", v, ok)
	}
	for _, row := range []string{"", "\x00\x01\xff\xff\xff\xff", "\x00\x01\x00\x00\x00\x01x"} {
		if _, ok := timeOfRow([]byte(row)); ok {
			t.Errorf("%q has a time", row)
		}
	}
}

// A session whose transactions are not committed in parts has no Tx.
func TestNoTx(t *testing.T) {
	t.Parallel()
	x := New(rewrite.RefuseDDL)
	x.EndBlock()
	x.Restore(x.Mark())
	step, err := x.Before(nil, nil, true)
	ended, _ := x.Savepoint(rewrite.RollbackTo, "s")
	if x != nil || x.Policy() != rewrite.RefuseDDL || x.CommitCount() != 0 || x.HasCommittedPart() || !x.Committed().IsEmpty() ||
		x.Options().Values() != nil || x.MustRunOutside(nil, nil) || step != (Step{}) || err != nil || ended {
		t.Error("a session without parts has state about parts")
	}
}

// The error of a block that cannot begin again says what became of its parts. A conflict is none where a part is
// committed.
func TestNotBegun(t *testing.T) {
	t.Parallel()
	var none, some listing.Statements
	some.Add("CREATE TABLE a (id int)")
	conflict, lost := &wire.Error{Code: "40001", Message: "conflict", Hint: "Retry."}, &wire.Error{Code: "08007", Message: "unknown", Hint: "Look."}
	full := &wire.Error{Code: "53300", Message: "too many", Hint: "Wait."}
	for _, test := range []struct {
		why, uncommitted   *wire.Error
		l                  listing.Statements
		code, detail, hint string
	}{
		{full, nil, some, "53300", "Committed: CREATE TABLE a (id int).", "Wait."},
		{full, nil, none, "53300", "", "Wait."},
		{conflict, nil, none, "40001", "", "Retry."},
		{conflict, nil, some, "25000", "Committed: CREATE TABLE a (id int).", goOnHint},
		{full, conflict, none, "40001", "The part before is not committed: conflict.", ""},
		{full, conflict, some, "25000", "The part before is not committed: conflict. Committed: CREATE TABLE a (id int).", goOnHint},
		{conflict, lost, some, "08007", "Whether the part before is committed is not known: " + lost.Message + ". Committed: CREATE TABLE a (id int).", lost.Hint},
	} {
		x := New(rewrite.CommitDDL)
		x.committed.AppendAll(test.l)
		e := x.errNotBegun(test.why, test.uncommitted)
		if !e.Fatal || e.Code != test.code || e.Detail != test.detail || e.Hint != test.hint || e.Message != "the transaction could not be begun again: "+test.why.Message {
			t.Errorf("got %+v, want %+v", e, test)
		}
	}
}
