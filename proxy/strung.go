package proxy

import (
	"cmp"
	"slices"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A multi-statement query may contain statements that Sluice answers, such as "SET statement_timeout = 5; SELECT 1".
// The server gets the text with a harmless statement in place of each of them. So errors, blocks and the order of
// answers are the server's, and Sluice replaces the answers of its own statements.

// strung says what happens to each statement of a multi-statement query. It is built once per query, from the
// session's current state. The pending reply and the log refer to it, because a replay sends the same text.
type strung struct {
	plan   *rewrite.Plan // of the client's text
	places []place
}

// place says what happens to one statement. The zero value sends it to the server.
type place struct {
	here  bool                // Sluice answers it
	err   *wire.Error         // Sluice answers it, with this error
	sql   string              // SQL that the server gets instead
	tag   []byte              // tag for the client instead of the tag of sql
	set   rewrite.Change      // setting that sql sets
	begin bool                // a BEGIN that is sent with other modes
	tx    rewrite.Transaction // these modes
	only  bool                // tx says READ ONLY
	warn  bool                // warn of a weaker isolation level before the server's answer
	told  *told               // answer for the client instead of the server's; nil for the server's
}

// ours reports whether the server gets nothing of the statement.
func (p *place) ours() bool { return p.here || p.err != nil }

// substitute returns what the server gets instead of the statement. For an error it is a query that fails, so that
// the server skips the rest. For a statement that Sluice answers it is a query without effect. Otherwise it is
// another statement.
func (p *place) substitute() rewrite.Substitute {
	switch {
	case p.err != nil:
		return rewrite.Fault
	case p.here:
		return rewrite.Place
	}
	return rewrite.Substitute{SQL: p.sql, Tx: p.tx}
}

// locksOutside reports whether a text is a LOCK TABLE outside a block, which PostgreSQL refuses.
func (s *session) locksOutside(plan *rewrite.Plan) bool {
	st := plan.Single()
	return st != nil && st.Does == rewrite.ChecksTables && !s.inBlock() && !s.t.outcome.InBlock() && s.status() != 'E'
}

// stringLocally answers a multi-statement query if Sluice answers all its statements. Otherwise, and in a failed
// block, done is false. An error is that of the statement at which the query stops, for the client; the statements
// before it are answered.
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

// substituted returns the plan of a multi-statement query as the server gets it, if Sluice answers some of its
// statements. Any other plan is returned unchanged. After frames without a Sync it does so for a single statement
// too, because the answer must come in the server's order. The session's state is recorded for a replay
// (restoreString).
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
