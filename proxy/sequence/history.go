package sequence

import (
	"bytes"

	"github.com/sluice-proxy/sluice/rewrite"
)

// RunHistory has the statements that a session has run on a backend in its transaction, and that may have drawn
// numbers of sequences. They show whether currval and lastval return the session's own numbers on a backend where
// other clients have drawn some (rewrite.Planner.OwnSequenceQuery). A RunHistory is bounded: it drops the oldest
// statements.
type RunHistory struct {
	text []byte // of simple Queries, one behind the other
	at   int    // where the text of the current Query begins; -1 if it was not recorded
	runs []statementRun
	// moved means that names in SQL may mean other relations than when the transaction began.
	moved bool
}

// statementRun is a statement that has run to its end: a statement of a recorded Query, or a prepared statement.
type statementRun struct {
	prepared string
	from, to int
	n, rows  int
}

// These constants bound a RunHistory, in statements and in bytes.
const (
	mostRuns    = 32
	mostRunText = 8 << 10
)

// StartTransaction records that a transaction begins.
func (h *RunHistory) StartTransaction() {
	h.Clear()
	h.moved = false
}

// Clear removes all statements from the RunHistory, so that none of them proves anything from now on.
func (h *RunHistory) Clear() {
	clear(h.runs) // of the texts that they hold
	h.text, h.at, h.runs = h.text[:0], -1, h.runs[:0]
}

// InvalidateNames records that names may mean other relations from now on. Statements recorded so far prove nothing.
func (h *RunHistory) InvalidateNames() {
	h.Clear()
	h.moved = true
}

// RecordQuery records the text of a simple Query that the caller will send, unless it is longer than mostRunText.
func (h *RunHistory) RecordQuery(sql []byte) {
	if len(h.text)+len(sql) > mostRunText {
		h.Clear()
	}
	if h.at = -1; len(sql) <= mostRunText {
		h.at = len(h.text)
		h.text = append(h.text, sql...)
	}
}

// SkipQuery records that the text of the current Query is not in the RunHistory.
func (h *RunHistory) SkipQuery() { h.at = -1 }

// RecordQueryRun records the end of statement n of the current Query, with its tag. st is nil for an unknown statement.
func (h *RunHistory) RecordQueryRun(st *rewrite.Statement, n int, tag []byte) {
	if !h.mayAdvance(st) || h.at < 0 || h.at >= len(h.text) {
		return
	}
	h.addRun(statementRun{from: h.at, to: len(h.text), n: n, rows: countsRows(tag)})
}

// RecordPreparedRun records the end of a prepared statement with the given text, or "" if that is unknown. tag is nil
// if the statement's portal has more rows.
func (h *RunHistory) RecordPreparedRun(st *rewrite.Statement, text string, tag []byte) {
	if h.mayAdvance(st) && text != "" && len(text) <= mostRunText {
		h.addRun(statementRun{prepared: text, rows: countsRows(tag)})
	}
}

// mayAdvance reports whether a statement that has run may have drawn numbers of a sequence. mayAdvance also changes
// the RunHistory if names mean other relations after the statement.
func (h *RunHistory) mayAdvance(st *rewrite.Statement) bool {
	switch {
	case st == nil, st.Kind >= rewrite.DDL, st.Calls, len(st.Changes) > 0:
		h.InvalidateNames()
	case st.Kind == rewrite.Control:
		h.RecordTxControl(st.Tx.Verb)
	default:
		return st.Kind == rewrite.Write
	}
	return false
}

// countsRows returns 0 if the tag counts no rows, otherwise 1.
func countsRows(tag []byte) int {
	if bytes.HasSuffix(tag, []byte(" 0")) {
		return 0
	}
	return 1
}

// RecordTxControl records a transaction command. After one that ends the transaction or returns to a savepoint, names
// may have their earlier meaning again. No rollback takes drawn numbers back.
func (h *RunHistory) RecordTxControl(verb rewrite.TxVerb) {
	switch verb {
	case rewrite.Begin, rewrite.Savepoint, rewrite.ReleaseSavepoint, rewrite.SetTransaction:
	case rewrite.RollbackTo:
		if h.moved {
			h.Clear()
		}
	default:
		h.StartTransaction()
	}
}

// addRun appends a statement to the history, and removes the oldest statement if there are too many.
func (h *RunHistory) addRun(r statementRun) {
	if len(h.runs) == mostRuns {
		h.runs = h.runs[:copy(h.runs, h.runs[1:])]
	}
	h.runs = append(h.runs, r)
}

// PlannerRuns returns the recorded statements for the planner, the oldest first.
func (h *RunHistory) PlannerRuns() []rewrite.ExecutedStatement {
	runs := make([]rewrite.ExecutedStatement, 0, len(h.runs))
	for _, r := range h.runs {
		text := r.prepared
		if text == "" {
			text = string(h.text[r.from:r.to])
		}
		runs = append(runs, rewrite.ExecutedStatement{Text: text, N: r.n, Rows: r.rows})
	}
	return runs
}
