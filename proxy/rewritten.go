package proxy

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Texts that the server gets in another form than the client's, and answers in which
// something is not for the client: statements that Sluice answers in the place of a query,
// and CREATE INDEX, whose background job a client does not see. Their entries have
// maskedReply.

// text is what a server is sent in the place of the client's text at its Parse.
func (t *template) text() string {
	if t.split != nil {
		return t.split.Read
	}
	if t.plan.Text != "" {
		return t.plan.Text
	}
	return t.sql
}

// note counts, and logs once for each text, what DSQL would not do of it. It is called at
// each Parse and Query, answered here or not.
func (s *session) note(plan *rewrite.Plan) {
	for i := range plan.Findings {
		f := &plan.Findings[i]
		s.srv.metrics.Unsupported(f.Operation, string(f.Feature))
	}
	if plan.InSplit() != nil {
		s.srv.metrics.Unsupported(plan.Operation, string(rewrite.JoinForUpdate))
	}
	if !plan.Note() {
		return
	}
	for i := range plan.Findings {
		f := &plan.Findings[i]
		s.srv.log.Info("statement that DSQL takes otherwise", "feature", string(f.Feature), "outcome", f.Outcome.String(),
			"severity", f.Severity.String(), "operation", f.Operation, "action", f.Action, "remedy", f.Remedy)
	}
}

// refusal is the error with which Sluice answers the only statement of a text, or nil. In a
// text of several the server gets the statement, and its error is replaced: see
// mappedError.
func refusal(plan *rewrite.Plan) error {
	if st := plan.Single(); st != nil && st.Refusal != nil {
		return refusalOf(st)
	}
	for i := range plan.Statements {
		if st := &plan.Statements[i]; st.Refusal != nil && st.Refusal.Unsent {
			return refusalOf(st) // it could not be left out
		}
	}
	return nil
}

// refusalOf is the error of a statement that has a refusal.
func refusalOf(st *rewrite.Statement) *wire.Error {
	r := st.Refusal
	return &wire.Error{Code: r.Code, Message: r.Message, Detail: r.Detail, Hint: r.Hint}
}

// masks reports whether some of what a server answers to a text is not for the client. plan
// may be nil.
func masks(plan *rewrite.Plan) bool {
	if plan == nil || plan.Text == "" {
		return false
	}
	for i := range plan.Statements {
		if masked(&plan.Statements[i]) {
			return true
		}
	}
	return false
}

// masked reports whether rows of the answer to a statement are ours: of the query that
// stands in its place, or of the job that it began.
func masked(st *rewrite.Statement) bool { return st.Tag != "" || st.Job != rewrite.NoJob }

// masksAlone reports whether the only masked part of a transaction is one CREATE INDEX in
// autocommit: as long as nothing of it was told, a replay has nothing to compare. Else the
// log would miss what was masked.
func (s *session) masksAlone(plan *rewrite.Plan) bool {
	return plan.Single() != nil && !s.inBlock()
}

// pushRun owes the answer to a statement, which is what the entry's plan says; nil for one
// that is not looked at. Where something of the answer is ours, all frames of the turn are
// looked at from now on.
func (s *session) pushRun(kind byte, plan *rewrite.Plan) *owed {
	o := s.t.owed.push(kind)
	o.plan = plan
	o.tells(plan)
	o.retags(plan)
	if masks(plan) {
		o.reply = chained(maskedReply{}, o.reply)
		s.t.masks, s.t.looks = true, true
	}
	return o
}

// maskedReply is the answer to a text of which some rows are for nobody (masked).
type maskedReply struct{ asSent }

// frame keeps from the client what is not its own in the answer to such a statement.
func (maskedReply) frame(s *session, o *owed, f answer.Frame) (verdict, error) {
	if o.plan == nil { // of a turn that is run again
		return undecided, nil
	}
	st := s.statementOf(o, o.plan)
	if st == nil || !masked(st) {
		return undecided, nil
	}
	switch f.Type {
	case wire.RowDescription:
		if o.kind != wire.Describe {
			return swallow, nil
		}
		s.noteDescription(o, wire.FrameNoData, true)
		quiet := o.swallow
		if s.t.owed.pop(); quiet {
			return swallow, nil
		}
		return swallow, s.passSpan(wire.FrameNoData)
	case wire.DataRow:
		if st.Job != rewrite.NoJob && !f.Cut() {
			s.t.job = firstColumn(f.Bytes)
		}
		return swallow, nil
	case wire.CommandComplete, wire.PortalSuspended:
		return swallow, s.maskedEnd(o, st, f)
	}
	return undecided, nil
}

// maskedEnd is the end of a statement whose rows are for nobody: the client is sent the tag
// of its own statement, or waits for a job (indexwait.go).
func (s *session) maskedEnd(o *owed, st *rewrite.Statement, f answer.Frame) error {
	t, tag := s.t, f.Bytes
	var notices []byte
	if st.Tag != "" && f.Verb() != "SELECT" {
		return s.desync(f.Type)
	}
	if st.Tag != "" {
		tag, notices = wire.AppendCommand(nil, st.Tag), slices.Concat(s.noticesOf(st)...)
	} else if f.Type == wire.PortalSuspended { // behind the one row, which was ours
		tag = wire.AppendCommand(nil, "CREATE INDEX")
	}
	s.completed(o, wire.CommandComplete, tag)
	alone := len(o.plan.Statements) == 1
	if o.kind == wire.Query {
		t.statement++
	} else {
		t.owed.pop()
	}
	if st.Job == rewrite.AwaitedJob {
		tag = s.tx.job.Begun(t.job, st.IfNoIndex, tag, alone && !t.outcome.InBlock())
	}
	t.job = ""
	return s.passSpan(append(notices, tag...))
}

// firstColumn is the first value of a DataRow; "" for NULL and for none.
func firstColumn(frame []byte) string {
	row := frame[wire.HeaderLen:]
	if len(row) < 6 || binary.BigEndian.Uint16(row) == 0 {
		return ""
	}
	n := int32(binary.BigEndian.Uint32(row[2:]))
	if n < 0 || int(n) > len(row)-6 {
		return ""
	}
	return string(row[6 : 6+n])
}

// pause sleeps, unless somebody no longer waits: then the error is stopped's or the session's
// end.
func (s *session) pause(d time.Duration) error {
	select {
	case <-time.After(d):
	case <-s.srv.ctx.Done():
		return errCut
	}
	if err := s.stopped(); err != nil {
		return err
	}
	if s.presence() != here {
		return errClientGone
	}
	return nil
}

// columnsOf is silent.Values.
func columnsOf(row []byte) []string { return silent.Values(row) }
