package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// A replay plans its texts again if columns are mapped. The schema change may be the cause of the conflict (OC001),
// and a text planned by the old schema could get a wrong answer. rerun calls replan before each attempt.
//
// The same holds for a single statement whose table or column the server does not know, as after another process has
// replaced the table. The statement is planned and sent again once, if its client has no answer yet.

// replan loads the schema if the backend may know a newer one, and plans the frames of the log again. done means that
// the attempt is over or was given up. An error is a lost backend.
func (s *session) replan() (done bool, err error) {
	if !s.srv.keeper.on {
		return false, nil
	}
	t := s.t
	unknown := s.tx.unknown
	s.tx.unknown = false
	if err = s.meetSchema(unknown); err == nil {
		err = s.meetPurity()
	}
	s.alarmRead()
	t.stand = atReady // until something is sent
	switch {
	case stops(err):
		s.heeded(err)
		t.fail(reasonOf(err))
		return true, nil
	case err != nil && soundAfter(err):
		t.fail(retry.NoBackend)
		return true, nil
	case err != nil:
		return true, err
	}
	r := replanned{s: s, now: s.srv.keeper.now.Load()}
	l := s.tx.log
	for turn := range l.Turns() + 1 {
		frames := l.Frames(turn)
		for i := range frames {
			r.frame(&frames[i])
		}
	}
	switch {
	case r.lost:
		t.fail(retry.Renamed)
	case unknown && r.plans == nil:
		t.fail(retry.Unchanged)
	default:
		if t.ahead != nil { // the client made no mistake, or the backend is lost
			t.original, t.ahead = errSchemaChanged.Append(nil), nil
		}
		t.stand = inTurn
		return false, nil
	}
	return true, nil
}

// meetPurity queries whether reads only read, if that is unknown after a schema change and values that the client was
// sent depend on it (surveyLog). The error stops the turn (stops), or is a *lostError.
func (s *session) meetPurity() error {
	if s.srv.purityKnown() || !s.srv.purityDue(time.Now()) || !s.told() {
		return nil
	}
	_, err := s.askReads(false)
	if err == nil || stops(err) {
		return err
	}
	return &lostError{err: err}
}

// mayPlanAnew reports whether the statement of o, whose table or column the server does not know, may be planned
// again and resent. The client must have no answer of the transaction, and this must be the first try. If the schema
// was just loaded for such a name, the name is taken for the client's mistake.
func (s *session) mayPlanAnew(o *owed) bool {
	plan, _ := o.sent()
	return s.srv.keeper.on && plan != nil && !s.tx.renamed && s.t.phase == live && s.t.original == nil &&
		s.runsAnywhere() && s.tx.log.Untold() && len(s.tx.marks) == 0 && s.srv.keeper.mayLook()
}

// replanned plans the texts of a log by a snapshot of the schema. frame must be called for each frame in order,
// because an Execute needs the new plan of its Parse or Bind. It sends nothing.
type replanned struct {
	s   *session
	now *snapshot
	// plans maps each plan that has changed to its new plan.
	plans map[*rewrite.Plan]*rewrite.Plan
	// lost means that a text cannot be sent by its new plan: it is refused now, has another kind, or Sluice has
	// answered part of it.
	lost bool
}

// frame plans one frame: the template of a Parse or Bind, the text of a Query.
func (r *replanned) frame(f *retry.Frame[logEntry]) {
	n := &f.Note
	switch {
	case n.tmpl != nil:
		r.template(n)
	case n.asked != nil:
		r.query(f)
	case n.plan != nil: // an Execute, or a Describe of a portal
		if now := r.plans[n.plan]; now != nil {
			r.lost = r.lost || n.bound != nil
			n.plan = now
		}
	}
}

// plan returns the plan of a text by the snapshot, or nil if nothing has changed. was is the plan by names.
//
// The search path stays that of the time when the text was sent. Only the schemas' contents are newer.
func (r *replanned) plan(sql []byte, names *schema.Names, was *rewrite.Plan) (*rewrite.Plan, *schema.Names) {
	if names == nil || names.Schema() == r.now.Schema || was.Pin == rewrite.PinUnparsed || needsNoNames(was) {
		return nil, nil
	}
	names = names.Renewed(r.now.Schema)
	plan := r.s.chosen.planner.PlanIn(sql, names)
	if plan.Text == was.Text && refusal(plan) == nil {
		return nil, nil
	}
	r.lost = r.lost || refusal(plan) != nil || plan.Kind != was.Kind || plan.InSplit() != nil || was.InSplit() != nil
	if r.plans == nil {
		r.plans = map[*rewrite.Plan]*rewrite.Plan{}
	}
	r.plans[was], r.plans[was.AsWrite()] = plan, plan.AsWrite()
	return plan, names
}

// template plans the text of a prepared statement. Its result columns must stay those that the client was sent
// (rebind), unless the client gets a new description (Describe).
func (r *replanned) template(n *logEntry) {
	t := n.tmpl
	plan, names := r.plan([]byte(t.sql), n.names, t.plan)
	if plan == nil {
		return
	}
	r.lost = r.lost || t.own
	n.kept.again() // it was for other columns
	n.tmpl = r.s.srv.template(&r.s.t.scratch, []byte(t.sql), []byte(t.oids), t.parsing, names.ID(), t.by, plan)
	n.names = names
	if cs := n.stmt; cs != nil && cs.tmpl == t {
		cs.tmpl, cs.names = n.tmpl, names.ID()
	}
}

// query plans the text of a simple Query.
func (r *replanned) query(f *retry.Frame[logEntry]) {
	n := &f.Note
	sql := []byte(n.asked.Source())
	if n.asked.Text == "" {
		if sql = []byte(n.text); n.text == "" {
			payload := r.s.payload(f)
			sql = payload[:len(payload)-1]
		}
	}
	plan, names := r.plan(sql, n.names, n.asked)
	if plan == nil {
		return
	}
	r.lost = r.lost || n.answered != nil || n.plan != n.asked && n.plan != n.asked.AsWrite()
	if n.plan == n.asked {
		n.plan = plan
	} else {
		n.plan = plan.AsWrite()
	}
	n.kept.again()
	if n.asked, n.names, n.text = plan, names, plan.Text; n.text == "" {
		n.text = string(sql)
	}
}
