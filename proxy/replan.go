package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// A transaction that is run again means what its names stand for now, where columns are
// mapped: the schema may be what has changed (OC001), and a text that was planned by an older
// one may be answered, falsely. rerun asks for it in front of each attempt (replan).
//
// So it is with a single statement too, whose relation or column the server does not know:
// where another process has made a table anew, it is planned once more and sent again, once,
// as long as its client has been told nothing.

// replan reads the schema where the backend may know a newer one, and has the frames of the
// log mean what they mean by it. done: the attempt is over, or was given up. An error is a
// lost backend.
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
	t.stand = atReady // as long as nothing was sent
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
		if t.ahead != nil { // the name was no mistake of the client's, or its backend is lost
			t.original, t.ahead = errSchemaChanged.Append(nil), nil
		}
		t.stand = inTurn
		return false, nil
	}
	return true, nil
}

// meetPurity asks whether reads only read where nobody knows, as behind a change of the schema, and values that the
// client was told may depend on it (surveyLog). The error stops the turn (stops), or is a *lostError.
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

// mayPlanAnew reports whether the statement of an entry, whose relation or column the server
// does not know, may be planned by a newer schema and sent again: nothing of its transaction
// has been told, nor has it been tried before. Where the schema has just been read
// for such a name, it is taken for the client's mistake.
func (s *session) mayPlanAnew(o *owed) bool {
	plan, _ := o.sent()
	return s.srv.keeper.on && plan != nil && !s.tx.renamed && s.t.phase == live && s.t.original == nil &&
		s.runsAnywhere() && s.tx.log.Untold() && len(s.tx.marks) == 0 && s.srv.keeper.mayLook()
}

// replanned is a log whose texts are planned by a snapshot. Its methods are called for each
// frame of the log in their order: an Execute comes behind the Parse or Bind whose plan it
// has, and finds what has come in the place of that one. Nothing is sent.
type replanned struct {
	s   *session
	now *snapshot
	// plans are those that have changed, with what has come in their place.
	plans map[*rewrite.Plan]*rewrite.Plan
	// lost: a text cannot be sent by its new plan: it is refused now, is a statement of
	// another kind, or was answered in part by Sluice.
	lost bool
}

// frame plans what one frame is about: a Parse or Bind has a template, a Query what it asked.
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

// plan is the plan of a text by the snapshot; was is the one that it had, by those names. nil:
// nothing has changed.
//
// A search path that was in force when the text was sent is kept: only what its names are found
// in is newer.
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

// template plans the text of a statement. What its client was told that it returns stays what
// it returns (rebind), unless the client is told anew (Describe).
func (r *replanned) template(n *logEntry) {
	t := n.tmpl
	plan, names := r.plan([]byte(t.sql), n.names, t.plan)
	if plan == nil {
		return
	}
	r.lost = r.lost || t.own
	n.kept.again() // it was of other columns
	n.tmpl = r.s.srv.template(&r.s.t.scratch, []byte(t.sql), []byte(t.oids), t.parsing, names.ID(), t.by, plan)
	n.names = names
	if cs := n.stmt; cs != nil && cs.tmpl == t {
		cs.tmpl, cs.names = n.tmpl, names.ID()
	}
}

// query plans the text of a Query.
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
