package sequence

import (
	"bytes"

	"github.com/sluice-proxy/sluice/rewrite"
)

// History has the statements that a session has run on a backend in its transaction, and that may have drawn numbers of
// sequences. They show whether currval and lastval return the session's own numbers where other clients have drawn
// before (rewrite.Planner.OwnNumbers). A History is bounded: the oldest statements are removed, and prove nothing.
type History struct {
	text []byte // of simple Queries, one behind the other
	at   int    // where the text of the current Query begins; -1 if it was not recorded
	runs []run
	// moved means that names may mean something else than when the transaction began.
	moved bool
}

// run is a statement that has run to its end: a statement of a recorded Query, or a prepared statement.
type run struct {
	prepared string
	from, to int
	n, rows  int
}

// These bound a History, in statements and in bytes.
const (
	mostRuns    = 32
	mostRunText = 8 << 10
)

// Begin records that a transaction begins.
func (h *History) Begin() {
	h.Forget()
	h.moved = false
}

// Forget removes all statements from the History, so that none of them proves anything from now on.
func (h *History) Forget() {
	clear(h.runs) // of the texts that they hold
	h.text, h.at, h.runs = h.text[:0], -1, h.runs[:0]
}

// Moved records that names may mean something else from now on. Statements that ran before then prove nothing.
func (h *History) Moved() {
	h.Forget()
	h.moved = true
}

// Query records the text of a simple Query before it is sent. A text beyond the bound is not recorded.
func (h *History) Query(sql []byte) {
	if len(h.text)+len(sql) > mostRunText {
		h.Forget()
	}
	if h.at = -1; len(sql) <= mostRunText {
		h.at = len(h.text)
		h.text = append(h.text, sql...)
	}
}

// Unrecorded records that the text of the current Query is not in the History.
func (h *History) Unrecorded() { h.at = -1 }

// RanQuery records the end of statement n of the current Query, with its tag. st is nil for an unknown statement.
func (h *History) RanQuery(st *rewrite.Statement, n int, tag []byte) {
	if !h.mayDraw(st) || h.at < 0 || h.at >= len(h.text) {
		return
	}
	h.add(run{from: h.at, to: len(h.text), n: n, rows: rowsOf(tag)})
}

// RanPrepared records the end of a prepared statement with a text, or "" for an unknown one. The tag is nil if its
// portal has more rows.
func (h *History) RanPrepared(st *rewrite.Statement, text string, tag []byte) {
	if h.mayDraw(st) && text != "" && len(text) <= mostRunText {
		h.add(run{prepared: text, rows: rowsOf(tag)})
	}
}

// mayDraw reports whether a statement that has run may have drawn numbers of a sequence. It also records the
// statement's other effects on the History.
func (h *History) mayDraw(st *rewrite.Statement) bool {
	switch {
	case st == nil, st.Kind >= rewrite.DDL, st.Calls, len(st.Changes) > 0:
		h.Moved()
	case st.Kind == rewrite.Control:
		h.Ended(st.Tx.Verb)
	default:
		return st.Kind == rewrite.Write
	}
	return false
}

// rowsOf returns 0 if the tag counts no rows, otherwise 1.
func rowsOf(tag []byte) int {
	if bytes.HasSuffix(tag, []byte(" 0")) {
		return 0
	}
	return 1
}

// Ended records a command that ends a transaction, or a part of it. Names then mean again what they meant before. No
// rollback takes numbers back.
func (h *History) Ended(verb rewrite.Verb) {
	switch verb {
	case rewrite.Begin, rewrite.Savepoint, rewrite.ReleaseSavepoint, rewrite.SetTransaction:
	case rewrite.RollbackTo:
		if h.moved {
			h.Forget()
		}
	default:
		h.Begin()
	}
}

// add appends a run, and removes the oldest one if there are too many.
func (h *History) add(r run) {
	if len(h.runs) == mostRuns {
		h.runs = h.runs[:copy(h.runs, h.runs[1:])]
	}
	h.runs = append(h.runs, r)
}

// Runs returns the recorded statements for the planner, the oldest first.
func (h *History) Runs() []rewrite.Run {
	runs := make([]rewrite.Run, 0, len(h.runs))
	for _, r := range h.runs {
		text := r.prepared
		if text == "" {
			text = string(h.text[r.from:r.to])
		}
		runs = append(runs, rewrite.Run{Text: text, N: r.n, Rows: r.rows})
	}
	return runs
}
