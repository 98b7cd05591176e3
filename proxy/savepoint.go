package proxy

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Savepoints, for a server that has none: a savepoint is a position in the log of
// the transaction, and to return to it is a real ROLLBACK, BEGIN, and a replay of
// the log up to it, which must answer what it answered.

// With retry.savepoints strict what a ROLLBACK TO discards is compared as well, on a second
// backend: discarded.go.

// savepoints is what a session keeps of those of its transaction, beside the log.
type savepoints struct {
	marks []mark // one for each savepoint of the log
	binds uint64 // portals bound in the transaction
	// cursors: it declared a cursor. moved is 1 + the turn in which a portal or
	// cursor from before the last savepoint was run last; 0 for none.
	cursors bool
	moved   int
	parts   []*retry.Log[logEntry] // that were discarded: discarded.go
	// timed is the time that the client was told before a return; nil: it was told none, or the
	// transaction at the server still has that time.
	timed *toldTime
	asked askedTime
}

// mark is how a session stood at a savepoint.
type mark struct {
	staged    settings.Staged
	parts     *parts
	stood     *settings.Snapshot
	txParsing settings.Parsing
	binds     uint64
	cursors   bool
	reports   *settings.Reports // what the client had been sent of parameters
}

// emulates reports whether a text has savepoint commands that are not for the server.
func (s *session) emulates(plan *rewrite.Plan) bool {
	return s.srv.emulatesSavepoints() && !s.dedicated && plan.Kind >= rewrite.Control &&
		slices.ContainsFunc(plan.Statements, isSavepoint)
}

// emulatesSavepoints reports whether savepoints are Sluice's: the server's own are not used
// then.
func (srv *Server) emulatesSavepoints() bool {
	return srv.replays != nil && srv.replays.cfg.Savepoints != retry.NoSavepoints
}

// isSavepoint reports whether a statement is one of the three commands.
func isSavepoint(st rewrite.Statement) bool { return savepointNames[st.Tx.Verb] != "" }

// savepointNames are what PostgreSQL calls the commands in errors.
var savepointNames = map[rewrite.Verb]string{rewrite.Savepoint: "SAVEPOINT",
	rewrite.ReleaseSavepoint: "RELEASE SAVEPOINT", rewrite.RollbackTo: "ROLLBACK TO SAVEPOINT"}

// savepointQuery is a simple Query of savepoint commands, and of nothing else: a savepoint
// lies between two turns, which a string cannot be cut into. With nil the turn is over, or
// its rest is skipped.
func (s *session) savepointQuery(plan *rewrite.Plan) error {
	t := s.t
	for i := range plan.Statements {
		if !isSavepoint(plan.Statements[i]) {
			return errSavepointMixed
		}
	}
	for i := range plan.Statements {
		if err := s.savepoint(&plan.Statements[i]); err != nil || t.skip || t.settled {
			return err
		}
	}
	return s.endQuery()
}

// endQuery ends the turn of a simple Query that the server got as frames of the extended
// protocol, if it got anything. With nil the turn is over.
func (s *session) endQuery() error {
	t := s.t
	if !t.touched {
		return s.ready()
	}
	t.owed.push(wire.Sync)
	t.outcome.Sync()
	s.logFrame(wire.Sync, logEntry{commits: t.outcome.MayCommit()}, nil)
	s.add(wire.FrameSync)
	return s.finish()
}

// savepoint does one command, of a Query or of a portal. Afterwards the turn may have been
// settled, or the rest of it may have to be skipped. An error is for the client.
func (s *session) savepoint(st *rewrite.Statement) error {
	if err := s.cutTurn(); err != nil || s.t.skip || s.t.settled {
		return err
	}
	verb, name, l := st.Tx.Verb, st.Tx.Name, s.tx.log
	switch {
	case !s.inBlock():
		return &wire.Error{Code: "25P01", Message: savepointNames[verb] + " can only be used in transaction blocks"}
	case s.status() == 'E' && verb != rewrite.RollbackTo:
		return errAborted
	}
	s.srv.metrics.LocalAnswer(metrics.LocalSavepoint)
	if l.Find(name) < 0 {
		if done, err := s.releasedBefore(verb, name); done {
			return err
		}
	}
	switch verb {
	case rewrite.Savepoint:
		return s.setSavepoint(name)
	case rewrite.ReleaseSavepoint:
		i := l.Find(name)
		if i < 0 {
			return errNoSavepoint(name)
		}
		l.Release(i)
		s.tx.marks = s.tx.marks[:i]
		return s.tell(wire.AppendCommand(nil, "RELEASE"))
	}
	return s.rollbackTo(name)
}

// cutTurn ends the turn of the log in the middle of the client's: a savepoint lies between
// two turns. The server answers what it owes, and the client is sent it, so that a replay
// can compare up to here. Where the turn has sent nothing there is nothing to cut.
func (s *session) cutTurn() error {
	t := s.t
	if !t.touched {
		return nil
	}
	ended := t.ended
	t.ended = false // if what went before fails, this is skipped
	if err := s.makeAnswer(); err != nil || t.skip {
		return err
	}
	t.ended = ended
	if err := s.flushToClient(); err != nil || s.tx.log.Cut() {
		return err
	}
	s.differs()
	return s.resolve()
}

// setSavepoint is SAVEPOINT. It fails where a return would not be possible, and leaves the
// transaction as it is then.
func (s *session) setSavepoint(name string) error {
	if s.tx.log == nil && s.b == nil {
		s.openLog() // nothing was sent yet
	}
	if s.tx.held {
		s.tx.log.Refuse(retry.Pinned)
	}
	if l := s.tx.log; !l.Savepoint(name) {
		return &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("savepoint \"%s\" is not possible in this transaction", name),
			Detail: l.Refused().Detail(retry.Difference{}), Hint: "Sluice returns to a savepoint by running the transaction again: see retry.savepoints."}
	}
	s.tx.marks = append(s.tx.marks, mark{staged: s.settings.Staged.Snapshot(), parts: s.parts.mark(), stood: s.settings.Snapshot(), txParsing: s.txParsing,
		binds: s.tx.binds, cursors: s.tx.cursors, reports: s.settings.Reported})
	return s.tell(wire.AppendCommand(nil, "SAVEPOINT"))
}

// rollbackTo is ROLLBACK TO SAVEPOINT. All that the client has set and opened since the
// savepoint is taken back here; its changes at the server are undone by running the
// transaction again up to the savepoint, unless no server has seen any of it. An error is
// for the client, and the transaction is as it was then, or has failed.
func (s *session) rollbackTo(name string) error {
	l := s.tx.log
	i := l.Find(name)
	switch {
	case i < 0: // or its backend was lost, and the log with it
		return errNoSavepoint(name)
	case !l.Recoverable():
		return errNoReturn(name, l.Refused().Detail(retry.Difference{}))
	case s.pinned:
		return errNoReturn(name, retry.Pinned.Detail(retry.Difference{}))
	case s.tx.moved > 0 && l.Discards(i, s.tx.moved-1):
		return errNoReturn(name, "A cursor or portal that was open at the savepoint was run since.")
	case s.srv.replays.cfg.Savepoints == retry.Strict && !s.keepPart(i):
		return errNoReturn(name, retry.LogFull.Detail(retry.Difference{}))
	}
	m := &s.tx.marks[i]
	// Which settings the server has been told since is in Staged. Those that Sluice keeps never reach the server.
	onlyRead := l.Kept(i) == l.Turns() && len(s.settings.Staged.Changes) == len(m.staged.Changes) && s.readSince(l.Since(i))
	l.RollbackTo(i)
	s.tx.marks = s.tx.marks[:i+1]
	s.settings.Staged, s.txParsing = m.staged.Snapshot(), m.txParsing
	s.parts.returnTo(m.parts)
	if s.portal.seq > m.binds {
		s.portal = portal{}
	}
	for name, p := range s.portals {
		if p.seq > m.binds {
			s.drop(name)
		}
	}
	s.schemaReturned()
	if done, err := s.returnThere(name, onlyRead); done || err != nil {
		return err
	}
	s.settings.Restore(m.stood)
	return s.tell(wire.AppendCommand(nil, "ROLLBACK"))
}

// returnThere has the backend, if there is one, return to the savepoint. onlyRead: the server's transaction
// is what a return would make of it, on an older snapshot. done: the turn has its answer.
func (s *session) returnThere(name string, onlyRead bool) (done bool, err error) {
	if s.b != nil {
		s.b.sequences.History.Ended(rewrite.RollbackTo)
		if onlyRead {
			return false, nil
		}
		err = s.runBack(name)
		return s.t.skip || s.t.settled, err
	}
	if s.state == failed {
		if err := s.move(rolledBackTo); err != nil {
			return false, err
		}
	}
	s.deferredBegin = s.tx.begin
	return false, nil
}

// readSince reports whether the server has done nothing but read since a turn of the log: of what a return undoes
// it has nothing, but for portals, which a replay would open again. Settings that were changed since are the
// caller's to look at. A text that nobody has read counts as more than a read, and so does a cursor: the log was
// told that its DECLARE writes.
func (s *session) readSince(turn int) bool {
	l := s.tx.log
	if !l.Replayable() || s.status() != 'T' {
		return false
	}
	for ; turn < l.Turns(); turn++ {
		frames := l.Frames(turn)
		for i := range frames {
			if !onlyReads(&frames[i]) {
				return false
			}
		}
	}
	return true
}

// onlyReads reports whether a logged frame runs nothing but a read.
func onlyReads(f *retry.Frame[logEntry]) bool {
	plan := f.Note.plan
	switch f.Type {
	case wire.Query:
	case wire.Bind:
		plan = f.Note.tmpl.plan
	case wire.Parse, wire.Describe, wire.Execute, wire.Close, wire.Flush, wire.Sync:
		return true
	default:
		return false
	}
	return plan != nil && plan.Kind == rewrite.Read
}

// runBack ends the transaction at the backend, and runs what is left of its log again. The
// replay is like any other, but that it does not pause, takes no place at the gate, and
// refuses itself with an error that names the savepoint.
func (s *session) runBack(name string) error {
	t := s.t
	fresh := !t.touched
	if err := s.ensureBackend(); err != nil {
		return err
	}
	t.progress = s.settings.Progress()
	t.fail(retry.Replayable)
	if t.stand = inTurn; fresh {
		t.stand = atReady
	}
	t.pause, t.back = 0, true
	t.original, t.after, t.returns = s.partlyRefused(errReturnDiffers(name)).Append(nil), 'E', name
	if err := s.resolve(); err != nil || t.abandoned() {
		return err
	}
	t.original, t.after, t.returns = nil, 0, "" // a conflict from now on is told as it is
	if t.keepingWhole.clock && t.keepingWhole.tells {
		s.tx.timed = t.keepingWhole.time
	}
	return nil
}

// drewAgain reports whether the difference that the replay met may be of values that the
// server generates: such a replay differs however often it is made. The texts of the turn
// that differs decide.
func (s *session) drewAgain(diff retry.Difference) bool {
	if diff.What == retry.Outcome {
		return false
	}
	frames := s.tx.log.Frames(s.tx.log.At())
	for i := range frames {
		switch f := &frames[i]; f.Type {
		case wire.Query:
			if rewrite.Generates(s.payload(f)) {
				return true
			}
		case wire.Bind:
			if rewrite.Generates([]byte(f.Note.tmpl.sql)) {
				return true
			}
		}
	}
	return false
}

// againCut sends a turn that was cut once more, whose end no ReadyForQuery tells: the
// server is made to answer by a Flush, and the log compares there.
func (s *session) againCut() error {
	t := s.t
	if err := s.resend(false); err != nil || t.attemptOver() {
		return err
	}
	if err := s.settleOwed(); err != nil || t.attemptOver() {
		return err
	}
	if !s.tx.log.Cut() {
		s.differs()
	}
	t.outcome.CaughtUp()
	return nil
}

// noteTag is told of a statement's tag, where savepoints are emulated. Where a cursor
// stands is not part of what a ROLLBACK TO takes back: one from before the savepoint that
// was moved since makes a return impossible.
func (s *session) noteTag(tag []byte) {
	t := s.t
	if !t.logs || !s.srv.emulatesSavepoints() {
		return
	}
	word, _, _ := bytes.Cut(tag, []byte(" "))
	switch string(word) {
	case "COMMIT", "ROLLBACK":
		if s.tx.log != nil {
			s.tx.log.Release(0)
		}
		s.tx.closeParts()
		s.tx.savepoints = savepoints{binds: s.tx.binds}
	case "DECLARE":
		s.tx.cursors = true
		s.tx.log.Wrote() // a return closes it
	case "FETCH", "MOVE", "CLOSE":
		if n := len(s.tx.marks); n > 0 && s.tx.marks[n-1].cursors {
			s.tx.moved = s.tx.log.Turns() + 1
		}
	}
}

// notePortal is told that a portal is run. One from before the last savepoint has moved
// since then, as a cursor does.
func (s *session) notePortal(p portal) {
	if n := len(s.tx.marks); n > 0 && p.seq <= s.tx.marks[n-1].binds && s.t.logs {
		s.tx.moved = s.tx.log.Turns() + 1
	}
}

// errSavepointMixed refuses a string in which savepoint commands stand beside others.
var errSavepointMixed = &wire.Error{Code: retry.StateUnsupported,
	Message: "savepoint commands must not share a string with other statements",
	Detail:  "Nothing of the string was run.", Hint: "Send them one by one."}

// errNoSavepoint is PostgreSQL's error of a name that no savepoint has.
func errNoSavepoint(name string) *wire.Error {
	return &wire.Error{Code: "3B001", Message: fmt.Sprintf("savepoint \"%s\" does not exist", name)}
}

// errNoReturn is a savepoint that was set before the transaction became unreplayable.
func errNoReturn(name, detail string) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("cannot return to savepoint \"%s\"", name),
		Detail: detail, Hint: "Roll the whole transaction back."}
}

// errReturnDiffers is told when the replay up to a savepoint is refused.
func errReturnDiffers(name string) *wire.Error {
	return &wire.Error{Code: retry.StateConflict, Message: fmt.Sprintf("could not return to savepoint \"%s\" due to concurrent update", name)}
}

// errGenerated is told when it is refused for values that no replay can draw again.
func errGenerated(name string, diff retry.Difference) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("cannot return to savepoint \"%s\"", name),
		Detail: "The client has the result of " + diff.Statement() + ", which may hold what the server generates anew each time: a number of a sequence, a time, a random value.",
		Hint:   "Roll the whole transaction back. Make such values in the application, or do not have them returned."}
}
