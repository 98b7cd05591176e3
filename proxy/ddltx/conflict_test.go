package ddltx

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// TestReplaceConflict finds that a conflict behind a committed part has another SQLSTATE and no hint to retry, and that
// any other error stays.
func TestReplaceConflict(t *testing.T) {
	var none, some listing.Statements
	some.Add("CREATE TABLE t (id int)")
	conflict := &wire.Error{Code: retry.StateConflict, Message: "change conflicts"}
	other := &wire.Error{Code: "42P01", Message: "no table"}
	if e := ReplaceConflict(conflict, &none); e != conflict {
		t.Errorf("without a committed part: %+v", e)
	}
	if e := ReplaceConflict(other, &some); e != other {
		t.Errorf("another error: %+v", e)
	}
	e := ReplaceConflict(conflict, &some)
	if e.Code != codePartialCommit || !strings.Contains(e.Message, conflict.Message) || !strings.Contains(e.Detail, "CREATE TABLE t") {
		t.Errorf("a conflict behind a committed part: %+v", e)
	}
	if RetryHint(&none) != retry.Hint || RetryHint(&some) != "" {
		t.Errorf("hints %q and %q", RetryHint(&none), RetryHint(&some))
	}
}

// TestErrUnknownCursor finds that DETAIL names the committed part that ended the cursor, and that a transaction without
// one has PostgreSQL's words.
func TestErrUnknownCursor(t *testing.T) {
	var off *Tx
	x := New(rewrite.CommitDDL)
	for _, x := range []*Tx{off, x} {
		if e := x.ErrUnknownCursor("c"); e.Code != "34000" || e.Message != `cursor "c" does not exist` || e.Detail != "" {
			t.Errorf("got %+v", e)
		}
	}
	x.committed.Add("CREATE TABLE t (id int)")
	if e := x.ErrUnknownCursor("c"); e.Code != "34000" || e.Detail == "" || e.Hint == "" {
		t.Errorf("behind a committed part: %+v", e)
	}
}
