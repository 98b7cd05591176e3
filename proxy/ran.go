package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Whose numbers currval and lastval would tell, in a block on a backend that others have
// used: the statements that the block has run are remembered (noteRun), and when the
// question comes, the server is asked whether they have surely drawn what is asked for
// (proves). A client that never asks pays for nothing but the memory.

// ran are the statements that a session has run on a backend since it was lent, and that
// may have drawn numbers of sequences: where others have drawn before, they show whether
// currval and lastval answer with the session's own. It is bounded: of what falls out
// nothing is proved.
type ran struct {
	text []byte // of simple Queries, one behind the other
	at   int    // where that of the Query at hand begins; -1 for one that is not kept
	runs []run
	// moved: names may mean something else than when the transaction began.
	moved bool
}

// run is a statement that ran to its end, of a text that is kept or of a prepared one.
type run struct {
	prepared string
	from, to int
	n, rows  int
}

// Bounds of ran: of what was run before, nothing is known.
const (
	mostRuns    = 32
	mostRunText = 8 << 10
)

// forget begins anew: nothing that ran before proves anything.
func (r *ran) forget() {
	clear(r.runs) // of the texts that they hold
	r.text, r.at, r.runs = r.text[:0], -1, r.runs[:0]
}

// keep is told of the text of a simple Query before it is sent in a block. A text beyond
// the bound is not kept.
func (r *ran) keep(sql []byte) {
	if len(r.text)+len(sql) > mostRunText {
		r.forget()
	}
	if r.at = -1; len(sql) <= mostRunText {
		r.at = len(r.text)
		r.text = append(r.text, sql...)
	}
}

// add notes a run; the oldest gives way.
func (r *ran) add(n run) {
	if len(r.runs) == mostRuns {
		r.runs = r.runs[:copy(r.runs, r.runs[1:])]
	}
	r.runs = append(r.runs, n)
}

// all are the runs as the planner takes them, the oldest first.
func (r *ran) all() []rewrite.Run {
	runs := make([]rewrite.Run, 0, len(r.runs))
	for _, n := range r.runs {
		text := n.prepared
		if text == "" {
			text = string(r.text[n.from:n.to])
		}
		runs = append(runs, rewrite.Run{Text: text, N: n.n, Rows: n.rows})
	}
	return runs
}

// noteRun is told of a statement that the server has run, with its tag; nil for a portal
// that has more rows. st is nil where nobody knows which it was. A statement that may have
// changed the meaning of names makes all that ran before prove nothing.
func (s *session) noteRun(o *owed, st *rewrite.Statement, tag []byte) {
	r := &s.b.ran
	switch {
	case st == nil, st.Kind >= rewrite.DDL, st.Calls, len(st.Changes) > 0:
		r.forget()
		r.moved = true
		return
	case st.Kind == rewrite.Control:
		s.returned(st.Tx.Verb)
		return
	case st.Kind != rewrite.Write:
		return
	}
	n := run{prepared: o.text, rows: 1}
	if tag != nil && bytes.HasSuffix(tag, []byte(" 0")) {
		n.rows = 0
	}
	if o.kind == wire.Query {
		if r.at < 0 || r.at >= len(r.text) {
			return
		}
		n.from, n.to, n.n = r.at, len(r.text), s.t.statement
	}
	if o.kind == wire.Query || o.text != "" && len(o.text) <= mostRunText {
		r.add(n)
	}
}

// returned is told of a command that ends a transaction, or a part of it: names mean again
// what they meant before. Sequences are not turned back: what was drawn is drawn.
func (s *session) returned(verb rewrite.Verb) {
	switch r := &s.b.ran; verb {
	case rewrite.Begin, rewrite.Savepoint, rewrite.ReleaseSavepoint, rewrite.SetTransaction:
	case rewrite.RollbackTo:
		if r.moved {
			r.forget()
		}
	default:
		r.forget()
		r.moved = false
	}
}

// mayProve reports whether the server may be asked whose numbers it has: in a block at a
// backend that is lent, and not while a writer has it.
func (s *session) mayProve() bool {
	return s.b != nil && s.state != failed && !s.drawn() && s.inBlock() && s.t.uplink == nil
}

// ownName is that of the statement and the portal by which the server is asked, and of the
// portal of restoreInGroup. They are closed behind each use.
const ownName = "sluice_own"

// proves asks the server whether what the session has run in its block has drawn all that
// the text at hand asks for. The question is one round trip, at a place where nothing is
// owed; where it cannot be asked the answer is false. An error is for the client where the
// question has met a conflict or a cancel, which end the block; else the backend is lost.
func (s *session) proves() (bool, error) {
	if s.t.asks == "" || !s.mayProve() || !s.t.owed.empty() {
		return false, nil
	}
	sql := s.srv.planner.OwnNumbers(s.t.asks, s.b.ran.all())
	if sql == "" {
		return false, nil
	}
	if err := s.flushUp(); err != nil {
		return false, err
	}
	ask := wire.AppendNamed(nil, wire.Close, 'S', ownName) // one that failed may have left it
	ask = wire.AppendParse(ask, ownName, sql, wire.NoOIDs)
	ask = append(appendBindHead(ask, []byte(ownName), ownName, 6), 0, 0, 0, 0, 0, 0)
	ask = append(append(wire.AppendHeader(ask, wire.Execute, len(ownName)+1+4), ownName...), 0, 0, 0, 0, 0)
	ask = wire.AppendNamed(ask, wire.Close, 'P', ownName)
	ask = wire.AppendNamed(ask, wire.Close, 'S', ownName)
	own := false
	refusal, err := s.b.exchangeRows(append(ask, wire.FrameSync...), func(row []byte) {
		columns := columnsOf(row)
		own = len(columns) == 1 && columns[0] == "t"
	})
	s.alarmRead()
	switch {
	case err != nil:
		if s.tx.log != nil {
			s.tx.log.Refuse(retry.Pinned) // the log knows nothing of the statement at hand
		}
		return false, &lostError{err: err}
	case refusal == nil:
		return own, nil
	}
	switch code := string(retry.Field(refusal, 'C')); code[:min(2, len(code))] {
	case "40", "57":
		return false, &wire.Error{Code: code, Message: string(retry.Field(refusal, 'M')), Detail: string(retry.Field(refusal, 'D'))}
	}
	return false, nil
}
