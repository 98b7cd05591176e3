package proxy

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/mapping"
	"github.com/sluice-proxy/sluice/proxy/notice"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/finding"
)

// This file handles masked answers: answers of the server with rows that the client does not get (maskedReply).
// Sluice sent another text than the client's, such as a CREATE INDEX that returns its job's id.

// countFindings counts what the rewrite rules have found in a text, and logs each finding once per text. The session
// calls it at each Parse and Query, also for texts that Sluice itself answers.
func (s *session) countFindings(plan *rewrite.Plan) {
	for _, f := range plan.Findings {
		s.srv.metrics.CountUnsupported(f.Operation, string(f.Feature))
	}
	if plan.ActiveSplit() != nil {
		s.srv.metrics.CountUnsupported(plan.Operation, string(finding.JoinForUpdate))
	}
	if !plan.ShouldLogFindings() {
		return
	}
	for i := range plan.Findings {
		f := &plan.Findings[i]
		s.srv.log.Info("statement that DSQL takes otherwise", "feature", string(f.Feature), "outcome", f.Outcome.String(),
			"severity", f.Severity.String(), "operation", f.Operation, "action", f.Action, "remedy", f.Remedy)
	}
}

// planRefusal returns the error with which Sluice refuses a text unsent, or nil. If one of several statements is
// refused, the server usually gets the text, and clientErrorFor replaces the server's error.
func planRefusal(plan *rewrite.Plan) error {
	if st := plan.SingleStatement(); st != nil && st.Refusal != nil {
		return sqlerror.StatementRefused(st)
	}
	if plan.BehindDDL {
		return mapping.ErrBehindDDL
	}
	for i := range plan.Statements {
		if st := &plan.Statements[i]; st.Refusal != nil && st.Refusal.Unsent {
			return sqlerror.StatementRefused(st) // the statement cannot be left out of the text
		}
	}
	return nil
}

// hasMaskedAnswer reports whether part of the server's answer to a text is hidden from the client. plan may be nil.
func hasMaskedAnswer(plan *rewrite.Plan) bool {
	return plan != nil && plan.Text != "" && plan.AnyStatement(hasMaskedRows)
}

// hasMaskedRows reports whether the rows of a statement's answer are for Sluice, not the client. Such rows answer a
// query that replaces the statement, or have the id of an index job.
func hasMaskedRows(st *rewrite.Statement) bool { return st.Tag != "" || st.Job != rewrite.NoJob }

// pushStatementReply adds a pending reply for a statement. plan is nil if the reply needs no inspection. If the
// answer is masked (partly hidden from the client), Sluice inspects all further frames of the turn.
func (t *turn) pushStatementReply(kind byte, plan *rewrite.Plan) *pendingReply {
	o := t.owed.push(kind)
	o.plan = plan
	o.addSetConfigReply(plan)
	o.setRetagReply(plan)
	if hasMaskedAnswer(plan) {
		o.reply = chainHandlers(maskedReply{}, o.reply)
		t.output.hidesAnswers, t.output.inspectsFrames = true, true
	}
	return o
}

// maskedReply hides rows of an answer from the client, such as the id of an index job.
type maskedReply struct{ defaultHandler }

// handleFrame hides an answer's frames if its rows are for Sluice, and replaces the last one for the client.
func (maskedReply) handleFrame(s *session, o *pendingReply, f answer.Frame) (frameVerdict, error) {
	if o.plan == nil { // of a settled turn in a replay
		return undecided, nil
	}
	st := s.t.answeredStatement(o, o.plan)
	if st == nil || !hasMaskedRows(st) {
		return undecided, nil
	}
	switch f.Type {
	case wire.RowDescription:
		if o.kind != wire.Describe {
			return swallow, nil
		}
		s.cacheDescription(o, wire.FrameNoData, true)
		quiet := o.swallow
		if s.t.owed.pop(); quiet {
			return swallow, nil
		}
		return swallow, s.sendOrWithhold(wire.FrameNoData)
	case wire.DataRow:
		if st.Job != rewrite.NoJob && !f.IsCut() {
			s.t.output.job = firstColumn(f.Bytes)
		}
		return swallow, nil
	case wire.CommandComplete, wire.PortalSuspended:
		return swallow, s.endMaskedStatement(o, st, f)
	}
	return undecided, nil
}

// endMaskedStatement handles the end of a statement whose rows are for Sluice. The client gets the tag of its own
// statement, or waits for the index job (indexwait.go).
func (s *session) endMaskedStatement(o *pendingReply, st *rewrite.Statement, f answer.Frame) error {
	t, tag := s.t, f.Bytes
	var notices []byte
	if st.Tag != "" && f.TagVerb() != "SELECT" {
		return s.unexpectedFrameError(f.Type)
	}
	if st.Tag != "" {
		tag, notices = wire.AppendCommandComplete(nil, st.Tag), slices.Concat(notice.Frames(&s.settings, st)...)
	} else if f.Type == wire.PortalSuspended { // after the one row, which the client did not get
		tag = wire.AppendCommandComplete(nil, "CREATE INDEX")
	}
	s.recordCompletion(o, wire.CommandComplete, tag)
	alone := len(o.plan.Statements) == 1
	if o.kind == wire.Query {
		t.server.statement++
	} else {
		t.owed.pop()
	}
	if st.Job == rewrite.AwaitedJob {
		tag = s.tx.job.RecordBegun(t.output.job, st.IfNoIndex, tag, alone && !t.server.outcome.InBlock())
	}
	t.output.job = ""
	return s.sendOrWithhold(append(notices, tag...))
}

// firstColumn returns the first value of a DataRow, or "" for NULL or no column.
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

// sleepUnlessStopped sleeps for d. The error is a cancel or timeout, errCut when Sluice closes, or errClientGone.
func (s *session) sleepUnlessStopped(d time.Duration) error {
	select {
	case <-time.After(d):
	case <-s.srv.ctx.Done():
		return errCut
	}
	if err := s.waits.CheckInterruption(); err != nil {
		return err
	}
	if s.readClientState() != clientHere {
		return errClientGone
	}
	return nil
}

// textColumns returns the column values of a row in text format.
func textColumns(row []byte) []string { return silent.RowValues(row) }
