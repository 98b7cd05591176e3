package proxy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Statements that Sluice answers, alone in a Query (answerLocally) or by a portal (executeLocal), by the table
// in handlers.go: settings that no server keeps, DEALLOCATE, what a rule of package rewrite answers. strung.go
// has multi-statement queries, control.go BEGIN and the ends of blocks, package result the frames.

// answerLocally answers a simple Query that no server need see. done is false when one
// must; else the turn is over, unless the error is for the client.
func (s *session) answerLocally(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	t := s.t
	if s.emulates(plan) {
		return true, s.savepointQuery(plan)
	}
	if s.failedHere(plan) {
		return true, s.answerFailed(plan)
	}
	if st := plan.Single(); s.runsCursor(st) {
		return true, s.cursorQuery(plan, st)
	}
	// Behind frames of a group the answer has a place in the server's order: see substituted.
	if t.touched {
		return false, nil
	}
	st := plan.Single()
	switch {
	case plan.Kind == rewrite.Empty:
		s.srv.metrics.LocalAnswer(metrics.LocalEmpty)
		if err := s.tell(wire.FrameEmptyQuery); err != nil {
			return true, err
		}
		return true, s.ready()
	case st != nil:
		if query := s.srv.handlers[st.Does].query; query != nil {
			return query(s, plan, sql)
		}
	case (plan.Kind <= rewrite.Setting || plan.Kind == rewrite.DDL) && plan.Substitutable():
		return s.stringLocally(plan, sql)
	}
	return false, nil
}

// maybeLocal reports whether Sluice answers the Parse of a plan's statement.
func (s *session) maybeLocal(plan *rewrite.Plan) bool {
	st := plan.Single()
	if st == nil {
		return false
	}
	parses := s.srv.handlers[st.Does].parses
	return parses != nil && parses(s, st)
}

// shows reports whether a statement is a SHOW of a parameter whose value Sluice knows.
func (s *session) shows(st *rewrite.Statement) bool {
	return s.settings.Shows(st.Show) || s.tellsMode(st.Show)
}

// localNow reports whether the single statement of a plan is answered locally as things
// stand. The answer may be another one a frame later.
func (s *session) localNow(plan *rewrite.Plan) bool {
	return s.maybeLocal(plan) && s.localStatement(plan.Single())
}

// localStatement decides for one statement. In a failed block nothing is answered here: the server has to refuse it.
func (s *session) localStatement(st *rewrite.Statement) bool {
	here := s.srv.handlers[st.Does].here
	return here != nil && s.status() != 'E' && here(s, st)
}

// changesHere reports whether changes of settings are made here as things stand. A reset outside a
// transaction only changes what the next backend will be given.
func changesHere(s *session, st *rewrite.Statement) bool {
	switch {
	case s.answersSetting(st), s.answersDiscard(st), s.setsSeveral(st):
		return true
	case len(st.Changes) == 0 || s.pinned || s.state != idle || s.t.touched:
		return false
	}
	return s.resetsCarried(st)
}

// deallocatesHere reports whether a DEALLOCATE is about statements of Sluice's. Those that a pinned
// session has prepared in SQL are on its backend. Those that it has prepared by the protocol
// are Sluice's, and names of Sluice's own are nobody's.
func deallocatesHere(s *session, st *rewrite.Statement) bool {
	return !s.pinned || st.Does == rewrite.Deallocates && (s.stmts[st.Deallocate] != nil || s.b != nil && s.b.prepared.holds(st.Deallocate))
}

// resetsCarried reports whether a statement does nothing but reset settings that go with
// the client: with no transaction open, it is enough to remember that.
func (s *session) resetsCarried(st *rewrite.Statement) bool {
	for i := range st.Changes {
		c := &st.Changes[i]
		switch c.Action {
		case rewrite.DiscardAll: // it ends the transaction that it runs in
		case rewrite.ResetAll:
			if s.setsBegin() {
				return false
			}
		case rewrite.Reset:
			if s.srv.treat.Of(c.Name) != settings.Carried || s.setsBegin() {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// setsBegin reports whether settings say how a transaction begins. The server begins one at the first frame of a group,
// and a reset in the group does not change it: so the server has to see such a reset.
func (s *session) setsBegin() bool {
	for _, set := range [...]*settings.Values{s.settings.InForce, s.settings.Startup} {
		for name := range set.SQL {
			if strings.HasPrefix(name, "default_transaction_") {
				return true
			}
		}
	}
	return false
}

// discardFails is PostgreSQL's error of a DISCARD ALL in a block, or behind another statement of its pipeline;
// nil for any other statement, or none. A server says so itself where it knows the statement and has seen the other.
func (s *session) discardFails(st *rewrite.Statement) *wire.Error {
	switch {
	case st == nil || !discardsAll(st) || s.status() == 'E':
		return nil
	case s.inBlock():
		return errDiscardInBlock
	case s.t.executed, s.t.ranLocal:
		return errDiscardInPipeline
	}
	return nil
}

// answersDiscard reports whether a statement is a DISCARD ALL of a server that knows no
// such. With a dedicated backend nothing is answered here at all.
func (s *session) answersDiscard(st *rewrite.Statement) bool {
	return s.srv.cfg.Kind == DSQL && !s.dedicated && discardsAll(st)
}

// answersSetting reports whether a statement's changes of settings are all Sluice's to
// make. A session of DSQL always has its own authorization, unless it has set a role: so a
// reset of the role or of the authorization changes nothing there.
func (s *session) answersSetting(st *rewrite.Statement) bool {
	if !resetsRole(st) {
		return st.Values() == 0 && s.srv.treat.Local(st)
	}
	return s.srv.cfg.Kind == DSQL && s.settings.InForce.SQL["role"] == "" && !s.settings.Staged.MayHave("role") &&
		!slices.ContainsFunc(s.t.owed.items[s.t.owed.head:], func(o owed) bool { return o.plan != nil && slices.ContainsFunc(o.plan.Statements, setsRole) })
}

// resetsRole reports whether a statement does nothing but return to the session's own role.
func resetsRole(st *rewrite.Statement) bool {
	return len(st.Changes) == 1 && st.Changes[0].Action == rewrite.Reset && ofRole(&st.Changes[0])
}

// setsRole reports whether a statement sets another role, for its transaction or longer. Where one is owed, or stands
// in front in a string, nobody knows yet whether it succeeds: a reset behind it is the server's to judge.
func setsRole(st rewrite.Statement) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.Change) bool { return c.Action <= rewrite.SetLocal && ofRole(&c) })
}

// ofRole reports whether a change is about who the session is. With the authorization PostgreSQL
// sets the role back as well, so that a reset of either is a reset of what SET LOCAL ROLE has set.
func ofRole(c *rewrite.Change) bool { return c.Name == "role" || c.Name == "session_authorization" }

// runLocal answers one statement: describe says whether its rows need describing, several that others stand in its
// string. An error is for the client. The answer stands behind all that is owed.
func (s *session) runLocal(st *rewrite.Statement, describe, several bool) error {
	if st.Does == rewrite.ClosesAll && len(s.portals) > 0 {
		return errPortalsOpen
	}
	frames, err := s.perform(st, describe, several)
	if err != nil && describe {
		return cmp.Or(s.describeFailed(st), err)
	}
	if err != nil {
		return err
	}
	return s.tell(frames...)
}

// perform does one statement and returns its answer: a RowDescription where describe asks
// for one, rows, notices, the tag. Its effects are of the client's transaction: those on
// settings end with a rollback (settings.Client.EndKept). An error is for the client.
func (s *session) perform(st *rewrite.Statement, describe, several bool) (frames [][]byte, err error) {
	if !several { // a string's are judged as a whole
		if err := s.deniesAnswer(st); err != nil {
			return nil, err
		}
	}
	h := &s.srv.handlers[st.Does]
	if frames, err = h.run(s, st, several); err != nil {
		return nil, err
	}
	if h.columns != nil && describe {
		frames = append([][]byte{h.columns(st)}, frames...)
	}
	return append(frames, wire.AppendCommand(nil, h.tag(st))), nil
}

// runTag answers a statement of which a rule has said the tag, with its notices and warnings.
func runTag(s *session, st *rewrite.Statement, several bool) (frames [][]byte, err error) {
	s.srv.metrics.LocalAnswer(metrics.LocalStatement)
	frames = s.noticesOf(st)
	switch {
	case st.OfBlock && !several && !s.inBlock():
		frames = append(frames, warnModesOutside.AppendNotice(nil, "WARNING"))
	case st.Weakened:
		frames = append(frames, s.warnsWeakened())
	}
	return frames, nil
}

// runVoid answers a query of a function that returns void.
func runVoid(s *session, _ *rewrite.Statement, _ bool) (frames [][]byte, err error) {
	s.srv.metrics.LocalAnswer(metrics.LocalStatement)
	return [][]byte{result.Row("")}, nil
}

// runCloseAll and runDiscardSequences free what the session holds here. A rollback undoes none of it, as in
// PostgreSQL. An error is a bug.
func runCloseAll(s *session, st *rewrite.Statement, several bool) (frames [][]byte, err error) {
	s.dropAllStored()
	return runTag(s, st, several)
}

func runDiscardSequences(s *session, st *rewrite.Statement, several bool) (frames [][]byte, err error) {
	s.discardHere()
	if s.sequences.IsVoid() && s.state == inTransaction && s.b.status == 'I' {
		s.releasePinned()
		if err := s.move(settledIdle); err != nil {
			return nil, err
		}
	}
	return runTag(s, st, several)
}

// runShow answers with the value of a setting.
func runShow(s *session, st *rewrite.Statement, _ bool) (frames [][]byte, err error) {
	s.srv.metrics.LocalAnswer(metrics.LocalShow)
	value, bad := s.shown(st.Show)
	if bad != nil {
		return nil, bad
	}
	return [][]byte{result.Row(value)}, nil
}

// performChanges makes a statement's changes of settings, and returns warnings, or the row that
// set_config answers with: the values as they are behind each change.
func (s *session) performChanges(st *rewrite.Statement, several bool) (frames [][]byte, err error) {
	if err := s.discardFails(st); err != nil {
		return nil, err
	}
	s.srv.metrics.LocalAnswer(metrics.LocalSetting)
	var values []string
	if resetsRole(st) { // it has its own
		if len(st.Told) == 0 {
			return nil, nil
		}
		return [][]byte{result.Row(st.Told[0].Value)}, nil
	}
	if len(st.Told) > 1 && !s.answersSetting(st) {
		return s.performSeveral(st)
	}
	for i := range st.Changes {
		frame, err := s.change(&st.Changes[i], several || st.Told != nil)
		switch {
		case err != nil:
			return nil, err
		case st.Told != nil:
			value, bad := s.shown(st.Changes[i].Name)
			if bad != nil {
				return nil, bad
			}
			values = append(values, value)
		}
		// set_config warns of nothing, but of what a choice gives up the client is told however it chooses.
		if frame != nil && (st.Told == nil || settings.IsOwn(st.Changes[i].Name)) {
			frames = append(frames, frame)
		}
	}
	if st.Told != nil {
		frames = append(frames, result.Row(values...))
	}
	return frames, nil
}

// runDeallocate forgets one of the client's statements. An error is for the client.
func runDeallocate(s *session, st *rewrite.Statement, _ bool) (frames [][]byte, err error) {
	name := st.Deallocate
	if s.stmts[name] == nil {
		return nil, errNoStatement([]byte(name))
	}
	// When the multi-statement query is run again the name has to be there once more.
	if was := s.t.atString; was != nil {
		was.gone = append(was.gone, undo{name: name, prev: s.stmts[name]})
	}
	s.setStatement(name, nil)
	return nil, nil
}

// change makes one change of a setting, or DISCARD ALL; frame is what goes in front of the tag, a warning for one.
// DISCARD ALL leaves nothing of the session, and so gives up a backend that it keeps.
func (s *session) change(c *rewrite.Change, several bool) (frame []byte, err error) {
	if settings.IsOwn(c.Name) {
		return s.choose(c, several)
	}
	switch c.Action {
	case rewrite.Set, rewrite.SetLocal:
		return s.keep(c, several)
	case rewrite.Reset:
		return nil, s.settings.Reset(c.Name)
	case rewrite.DiscardAll:
		s.srv.observers.discarded(s)
		switch {
		case s.b == nil:
		case s.t.touched: // it leaves its backend at the turn's end
			if s.keeps() {
				s.sequences.Void()
			}
		default:
			s.releasePinned()
			err = s.move(settledIdle)
		}
	}
	s.settings.ResetAll()
	return nil, err
}

// errPortalsOpen refuses CLOSE ALL, which closes the portals of the protocol too.
var errPortalsOpen = &wire.Error{Code: retry.StateUnsupported, Message: "CLOSE ALL cannot close the portals that are open in this transaction",
	Hint: "Close them one by one, or end the transaction."}

// noticesOf are what the client is told in front of the tag of a statement that is answered.
func (s *session) noticesOf(st *rewrite.Statement) (frames [][]byte) {
	if len(st.Notices) == 0 || !s.hearsNotices() {
		return nil
	}
	for _, n := range st.Notices {
		e := wire.Error{Code: codeNotice, Message: n.Message, Detail: n.Detail}
		frames = append(frames, e.AppendNotice(nil, "NOTICE"))
	}
	return frames
}

// hearsNotices reports whether the client wants messages of the level NOTICE. Where the server
// keeps the setting, nobody here knows, and it is taken for the default.
func (s *session) hearsNotices() bool {
	level := s.leastMessages()
	return level != "warning" && level != "error"
}

// hearsWarnings is hearsNotices for messages of the level WARNING.
func (s *session) hearsWarnings() bool { return s.leastMessages() != "error" }

// leastMessages is the client's client_min_messages; "" where nobody here knows.
func (s *session) leastMessages() string {
	const level = "client_min_messages"
	if !s.settings.Shows(level) {
		return ""
	}
	return strings.ToLower(s.settings.Shown(level))
}

// codeNotice is the SQLSTATE of a notice that has none of its own, as PostgreSQL gives it.
const codeNotice = "00000"
