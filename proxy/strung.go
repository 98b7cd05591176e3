package proxy

import (
	"cmp"
	"slices"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A string of several statements may hold some that Sluice answers. The server is
// sent the string with a statement in the place of each that does nothing, so that
// errors, blocks and the order of answers are the server's; what it answers there
// is replaced.

// strung says what becomes of each statement of such a string. It is made for one sending
// of the string, as the session stands then, and stays with the entry that is owed and with
// the log: a replay sends the same string.
type strung struct {
	plan   *rewrite.Plan // the client's
	places []place
}

// place is what becomes of one statement; the zero value goes to the server.
type place struct {
	here  bool                // answered here
	err   *wire.Error         // answered here, with an error
	sql   string              // what the server gets instead
	tag   []byte              // what the client gets for that
	set   rewrite.Change      // what that sets
	begin bool                // a BEGIN that is sent as another
	tx    rewrite.Transaction // what that says
	only  bool                // that other says READ ONLY
	warn  bool                // of a level that is taken for less, in front of the server's answer
	told  *told               // what the client gets for the statement itself; nil for the server's
}

// ours reports whether nothing of the statement itself reaches the server.
func (p *place) ours() bool { return p.here || p.err != nil }

// substitute is what the server gets in the place: a query that fails where the answer is
// an error, so that the server skips what follows; one that does nothing where the
// statement is answered; or another statement.
func (p *place) substitute() rewrite.Substitute {
	switch {
	case p.err != nil:
		return rewrite.Fault
	case p.here:
		return rewrite.Place
	}
	return rewrite.Substitute{SQL: p.sql, Tx: p.tx}
}

// locksOutside reports whether a text is a LOCK TABLE outside of a block, which PostgreSQL refuses.
func (s *session) locksOutside(plan *rewrite.Plan) bool {
	st := plan.Single()
	return st != nil && st.Does == rewrite.ChecksTables && !s.inBlock() && !s.t.outcome.InBlock() && s.status() != 'E'
}

// stringLocally answers a string none of whose statements is for the server. done is false
// for any other, and in a failed block. An error is that of the statement at which the
// string stops, and is for the client; those before it are answered.
func (s *session) stringLocally(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if s.status() == 'E' {
		return false, nil
	}
	d := s.divide(plan, sql)
	if d == nil || slices.ContainsFunc(d.places, func(p place) bool { return !p.ours() }) {
		return false, nil
	}
	for i := range d.places {
		if err := d.places[i].err; err != nil {
			return true, cmp.Or(s.describeFailed(&plan.Statements[i]), error(err))
		}
		if err := s.runLocal(&plan.Statements[i], true, true); err != nil {
			return true, err
		}
	}
	return true, s.ready()
}

// substituted is the plan of a string in which Sluice answers something, as the server gets
// it. Any other plan it returns as it is. Behind frames of the extended protocol that no
// Sync has ended, a single statement is such a string too: its answer needs a place in the
// server's order. How the session stands is noted for a replay (restoreString).
func (s *session) substituted(plan *rewrite.Plan, sql []byte) *rewrite.Plan {
	st := plan.Single()
	if alone := st != nil && (len(st.Told) == 1 || st.Weakened); !alone && s.t.denied == nil && !s.t.only && !plan.Substitutable() &&
		(st == nil || !s.t.touched || st.End == 0 || discardsAll(st) && !s.answersDiscard(st) || !plan.Answerable()) {
		return plan
	}
	d := s.divide(plan, sql)
	if d == nil {
		return plan
	}
	by := make([]rewrite.Substitute, len(d.places))
	for i := range d.places {
		by[i] = d.places[i].substitute()
	}
	made := s.srv.planner.Substitute(plan, string(sql), by)
	if made == nil {
		return plan
	}
	s.t.strung = d
	s.t.atString = s.localState()
	return made
}

var (
	frameSet             = wire.AppendCommand(nil, "SET")
	errDiscardInBlock    = &wire.Error{Code: "25001", Message: "DISCARD ALL cannot run inside a transaction block"}
	errLockOutside       = &wire.Error{Code: "25P01", Message: "LOCK TABLE can only be used in transaction blocks"}
	errDiscardInPipeline = &wire.Error{Code: "25001", Message: "DISCARD ALL cannot be executed within a pipeline"}
)
