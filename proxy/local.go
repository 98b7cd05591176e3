package proxy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Statements that Sluice answers, alone in a Query (answerLocally) or by a portal
// (executeLocal): settings that no server keeps, DEALLOCATE, what a rule of package rewrite
// answers. query.go asks for the former, extended.go for the latter. Strings of several are
// in strung.go, BEGIN and the ends of blocks in control.go, the frames of answers in
// localanswer.go.

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
	// Behind frames of a group the answer has a place in the server's order: see
	// substituted.
	if t.touched {
		return false, nil
	}
	switch plan.Kind {
	case rewrite.Empty:
		s.srv.metrics.LocalAnswer(metrics.LocalEmpty)
		if err := s.tell(wire.FrameEmptyQuery); err != nil {
			return true, err
		}
		return true, s.ready()
	case rewrite.Control:
		return s.controlLocally(plan, sql)
	case rewrite.Setting, rewrite.Read, rewrite.DDL:
		st := plan.Single()
		switch {
		case st == nil && plan.Substitutable():
			return s.stringLocally(plan, sql)
		case st == nil || plan.Kind == rewrite.Read && st.Show == "" && (st.Tag == "" || st.Does == rewrite.ChecksTables) || plan.Kind == rewrite.DDL && !s.carriesOut(st):
			return false, nil
		case !s.localStatement(st):
			return s.resetLocally(plan)
		}
		if err := s.runLocal(st, true, false); err != nil {
			return true, err
		}
		return true, s.ready()
	}
	return false, nil
}

// maybeLocal reports whether a statement of that plan is answered locally at least
// sometimes, so that its Parse is: a server accepts any such text, but a SHOW of a parameter that it
// does not know. Whether it is this time is decided at its Bind or Describe (localNow).
func (s *session) maybeLocal(plan *rewrite.Plan) bool {
	st := plan.Single()
	return st != nil && (s.holdsBegin(st) || s.foldsModes(st) || plan.Kind == rewrite.Setting || s.shows(st) || st.Tag != "" && st.Does != rewrite.ChecksTables ||
		st.Database != nil || st.Alters() || st.Cursor != nil || st.CopyIn != nil)
}

// shows reports whether a statement is a SHOW of a parameter whose value Sluice knows.
func (s *session) shows(st *rewrite.Statement) bool {
	return st.Show != "" && (s.settings.Shows(st.Show) || s.tellsMode(st.Show))
}

// carriesOut reports whether a statement of DDL is one that Sluice carries out by statements
// of its own, as things stand.
func (s *session) carriesOut(st *rewrite.Statement) bool {
	return st.Database != nil || st.Alters() && s.altersAlone()
}

// localNow reports whether the single statement of a plan is answered locally as things
// stand. The answer may be another one a frame later.
func (s *session) localNow(plan *rewrite.Plan) bool {
	return s.maybeLocal(plan) && s.localStatement(plan.Single())
}

// localStatement decides for one statement. In a failed block nothing is answered here: the
// server has to refuse it.
func (s *session) localStatement(st *rewrite.Statement) bool {
	if s.status() == 'E' {
		return false
	}
	switch {
	case st.Tag != "", st.Database != nil, st.Cursor != nil:
		return st.Does != rewrite.ChecksTables
	case st.Values() > 0: // by a Query they come to nobody
		return !s.t.ended
	case st.CopyIn != nil:
		return s.carriesCopy(st)
	case st.Alters():
		return s.altersAlone() || s.altersOutside(st)
	case s.foldsModes(st):
		return s.foldsNow(st)
	case s.holdsBegin(st):
		return s.state == idle && !s.t.touched
	case st.Show != "":
		return s.shows(st)
	case st.Does == rewrite.DeallocatesAll, st.Deallocate != "":
		return s.deallocatesHere(st)
	case s.answersSetting(st), s.answersDiscard(st), s.setsSeveral(st):
		return true
	// A reset outside a transaction only changes what the next backend will be given.
	case st.Kind != rewrite.Setting || len(st.Changes) == 0 || s.pinned || s.state != idle || s.t.touched:
		return false
	}
	return s.resetsCarried(st)
}

// deallocatesHere reports whether a DEALLOCATE is about statements of Sluice's. Those that a pinned
// session has prepared in SQL are on its backend. Those that it has prepared by the protocol
// are Sluice's, and names of Sluice's own are nobody's.
func (s *session) deallocatesHere(st *rewrite.Statement) bool {
	if st.Does == rewrite.DeallocatesAll {
		return !s.pinned
	}
	return !s.pinned || s.stmts[st.Deallocate] != nil || s.b != nil && s.b.prepared.holds(st.Deallocate)
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

// setsBegin reports whether settings say how a transaction begins. The server begins one at
// the first frame of a group, and a reset in the group does not change it: so the server
// has to see such a reset.
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

// setsRole reports whether a statement sets another role, for its transaction or longer. Where one is
// owed, or stands in front in a string, nobody knows yet whether it succeeds: a reset behind it is the
// server's to judge.
func setsRole(st rewrite.Statement) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.Change) bool { return c.Action <= rewrite.SetLocal && ofRole(&c) })
}

// ofRole reports whether a change is about who the session is. With the authorization PostgreSQL
// sets the role back as well, so that a reset of either is a reset of what SET LOCAL ROLE has set.
func ofRole(c *rewrite.Change) bool { return c.Name == "role" || c.Name == "session_authorization" }

// runLocal answers one statement: describe says whether its rows need describing, several
// that others stand in its string. An error is for the client. The answer stands behind all
// that is owed.
func (s *session) runLocal(st *rewrite.Statement, describe, several bool) error {
	if st.Tag == closeAll && len(s.portals) > 0 {
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
	switch {
	case st.Database != nil, st.Alters(), st.Advisory != nil:
		s.srv.metrics.LocalAnswer(metrics.LocalStatement)
		if frames, err = s.carryOut(st); err != nil {
			return nil, err
		}
		s.srv.metrics.OperationSucceeded(st.Operation)
	case st.Tag != "":
		s.srv.metrics.LocalAnswer(metrics.LocalStatement)
		if frames, err = s.performTag(st, several); err != nil {
			return nil, err
		}
	case st.Show != "":
		s.srv.metrics.LocalAnswer(metrics.LocalShow)
		value, bad := s.shown(st.Show)
		if bad != nil {
			return nil, bad
		}
		frames = [][]byte{dataRow(value)}
	case st.Does == rewrite.DeallocatesAll:
		s.forgetStatements()
	case st.Deallocate != "":
		if err := s.deallocate(st.Deallocate); err != nil {
			return nil, err
		}
	default:
		if frames, err = s.performChanges(st, several); err != nil {
			return nil, err
		}
	}
	if row := rowOf(st); row != nil && describe {
		frames = append([][]byte{row}, frames...)
	}
	return append(frames, wire.AppendCommand(nil, localTag(st))), nil
}

// performTag does a statement that a rule has answered, and returns what goes in front of its tag.
func (s *session) performTag(st *rewrite.Statement, several bool) (frames [][]byte, err error) {
	if err := s.resetHere(st.Tag); err != nil {
		return nil, err
	}
	frames = s.noticesOf(st)
	outside := st.OfBlock && !several && !s.inBlock() // where it has no effect
	switch {
	case st.Does == rewrite.AnswersVoid:
		frames = [][]byte{dataRow("")}
	case outside:
		frames = append(frames, warnModesOutside.AppendNotice(nil, "WARNING"))
	case st.Weakened:
		frames = append(frames, s.warnsWeakened())
	}
	return frames, nil
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
		return [][]byte{dataRow(st.Told[0].Value)}, nil
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
		frames = append(frames, dataRow(values...))
	}
	return frames, nil
}

// resetHere is told of a statement of that tag that is answered: what of the session it frees here.
// None of this is undone by a rollback, as in PostgreSQL. An error is a bug.
func (s *session) resetHere(tag string) error {
	switch tag {
	case closeAll:
		s.dropAllStored()
	case "DISCARD SEQUENCES":
		s.discardedSequences(false)
		if s.void && s.state == inTransaction && s.b.status == 'I' {
			s.leaveKept()
			return s.move(settledIdle)
		}
	}
	return nil
}

// carryOut carries out a statement of DDL, or about an advisory lock, and returns what goes in
// front of its tag.
func (s *session) carryOut(st *rewrite.Statement) (frames [][]byte, err error) {
	switch {
	case st.Advisory != nil:
		return s.performLock(st.Advisory, s.t.call)
	case st.Database != nil:
		return s.changeDatabase(st)
	}
	return s.alterTable(st)
}

// deallocate forgets one of the client's statements. An error is for the client.
func (s *session) deallocate(name string) error {
	if s.stmts[name] == nil {
		return errNoStatement([]byte(name))
	}
	// When the string is run again the name has to be there once more.
	if was := s.t.atString; was != nil {
		was.gone = append(was.gone, undo{name: name, prev: s.stmts[name]})
	}
	s.setStatement(name, nil)
	return nil
}

// change makes one change of a setting, or DISCARD ALL; frame is what goes in front of the
// tag, a warning for one. DISCARD ALL leaves nothing of the session, and so gives up a
// backend that it keeps.
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
		s.unlockAll()
		s.discardedSequences(false)
		s.forgetStatements()
		s.closePortals()
		s.dropAllStored()
		switch {
		case s.b == nil:
		case s.t.touched: // it leaves its backend at the turn's end
			s.void = s.void || s.keeps()
		default:
			s.leaveKept()
			err = s.move(settledIdle)
		}
	}
	s.settings.ResetAll()
	return nil, err
}

// closeAll is the tag of CLOSE ALL, which closes the portals of the protocol too. Sluice closes
// cursors of its own for it (closeCursors), and refuses it while there are others.
const closeAll = "CLOSE CURSOR ALL"

var errPortalsOpen = &wire.Error{Code: retry.StateUnsupported, Message: "CLOSE ALL cannot close the portals that are open in this transaction",
	Hint: "Close them one by one, or end the transaction."}
