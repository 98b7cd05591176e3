package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/mapping"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file plans the texts of a replay again if columns are mapped (bytea keys stored as text). A schema change may
// have caused the conflict (OC001), and a text planned by the old schema could get a wrong answer. rerunTransaction
// calls replanLog before each attempt.
//
// If the server does not know a statement's table or column, another process may have replaced the table. Sluice then
// plans the statement again and sends it once more, if the client has no answer yet.

// replanLog reads the schema if the backend may know a newer one, and plans the frames of the replay log again. done
// means that the attempt is over or was given up. An error is a lost backend.
func (s *session) replanLog() (done bool, err error) {
	if !s.srv.pool.keeper.Maps() {
		return false, nil
	}
	t := s.t
	unknown := s.tx.unknown
	s.tx.unknown = false
	if err = s.refreshSchema(unknown); err == nil {
		err = s.refreshPurity()
	}
	s.waits.Arm()
	t.attempt.serverAt = atReady // until something is sent
	switch {
	case interrupt.EndsTurn(err):
		s.waits.Consume(err)
		t.abandonAttempt(noReplayReason(err))
		return true, nil
	case err != nil && isBackendUsableAfter(err):
		t.abandonAttempt(retry.NoBackend)
		return true, nil
	case err != nil:
		return true, err
	}
	r := logReplanner{templates: s.srv.pool.templates, scratch: &t.scratch, payload: s.t.rec.loggedPayload,
		Replanner: mapping.NewReplanner(s.srv.pool.keeper.Snapshot(), s.options.LastPlanner(), func(p *rewrite.Plan) bool { return planRefusal(p) != nil })}
	l := s.tx.log
	for turn := range l.TurnCount() + 1 {
		frames := l.TurnFrames(turn)
		for i := range frames {
			r.replanFrame(&frames[i])
		}
	}
	switch {
	case r.IsLost():
		t.abandonAttempt(retry.Renamed)
	case unknown && !r.HasChanged():
		t.abandonAttempt(retry.Unchanged)
	default:
		if t.attempt.answersBefore != nil { // the client made no mistake, or the backend is lost
			t.attempt.originalError, t.attempt.answersBefore = sqlerror.SchemaChanged.Append(nil), nil
		}
		t.attempt.serverAt = midTurn
		return false, nil
	}
	return true, nil
}

// refreshPurity asks the database whether texts that look like reads may write. It asks only if it does not know that
// after a schema change, and the replay may repeat values. The error stops the turn, or is a *lostError.
func (s *session) refreshPurity() error {
	if s.srv.pool.purity.IsKnown(s.srv.pool.templates.ReadEpoch()) || !s.srv.pool.purity.IsDue(s.srv.pool.templates.ReadEpoch(), time.Now()) || !s.t.rec.hasRepeatableValues() {
		return nil
	}
	_, err := s.askReadPurity(false)
	if err == nil || interrupt.EndsTurn(err) {
		return err
	}
	return &lostError{err: err}
}

// canReplanAndResend reports whether Sluice may plan and send the statement of o again, whose table or column the
// server does not know. The client must have no answer of the transaction, and this must be the first try. Shortly
// after Sluice read the schema for an unknown name, the result is false.
func (s *session) canReplanAndResend(o *pendingReply) bool {
	plan, _ := o.sentPlan()
	return s.srv.pool.keeper.Maps() && plan != nil && !s.tx.renamed && s.t.rec.phase == phaseLive && s.t.attempt.originalError == nil &&
		s.tx.pin.ReplaysAnywhere(s.tx.log.Replayable()) && s.tx.log.HasDeliveredNothing() && len(s.tx.marks) == 0 && s.srv.pool.keeper.MayLoadForNames()
}

// logReplanner plans the texts of a replay log by a snapshot of the schema. replanFrame must be called for each
// frame in order, because an Execute needs the new plan of its Parse or Bind. If Sluice itself answered a part of a
// text whose plan changes, the replay fails. replanFrame sends nothing.
type logReplanner struct {
	*mapping.Replanner
	templates *statement.Cache
	scratch   *[]byte
	// payload returns the payload of a logged frame, which is valid until the next call.
	payload func(*retry.LoggedFrame[logEntry]) []byte
}

// replanFrame plans a logged frame by the new schema: the template of a Parse or Bind, or the text of a Query.
func (r *logReplanner) replanFrame(f *retry.LoggedFrame[logEntry]) {
	n := &f.Note
	switch {
	case n.tmpl != nil:
		r.replanTemplate(n)
	case n.asked != nil:
		r.replanQuery(f)
	case n.plan != nil: // an Execute, or a Describe of a portal
		if now := r.NewPlan(n.plan); now != nil {
			r.GiveUpIf(n.bound != nil)
			n.plan = now
		}
	}
}

// replanTemplate plans the text of a logged prepared statement by the new schema. The result columns must be those
// that the client knows, unless it gets a new description.
func (r *logReplanner) replanTemplate(n *logEntry) {
	t := n.tmpl
	plan, names := r.Replan([]byte(t.SQL), n.names, t.Plan)
	if plan == nil {
		return
	}
	r.GiveUpIf(t.Unshared)
	n.kept.Reset() // it was for other columns
	n.tmpl = r.templates.Template(r.scratch, []byte(t.SQL), []byte(t.OIDs), t.Parsing, names.ID(), t.PlannerNumber, plan)
	n.names = names
	if cs := n.stmt; cs != nil && cs.Template == t {
		cs.Template, cs.Names = n.tmpl, names.ID()
	}
}

// replanQuery plans the text of a logged simple Query by the new schema.
func (r *logReplanner) replanQuery(f *retry.LoggedFrame[logEntry]) {
	n := &f.Note
	sql := []byte(n.asked.ClientText())
	if n.asked.Text == "" {
		if sql = []byte(n.text); n.text == "" {
			payload := r.payload(f)
			sql = payload[:len(payload)-1]
		}
	}
	plan, names := r.Replan(sql, n.names, n.asked)
	if plan == nil {
		return
	}
	r.GiveUpIf(n.answered != nil || n.plan != n.asked && n.plan != n.asked.AsWrite())
	if n.plan == n.asked {
		n.plan = plan
	} else {
		n.plan = plan.AsWrite()
	}
	n.kept.Reset()
	if n.asked, n.names, n.text = plan, names, plan.Text; n.text == "" {
		n.text = string(sql)
	}
}
