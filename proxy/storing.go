package proxy

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/stored"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/rewrite"
)

// How the rows of a cursor WITH HOLD come into memory: its portal is described and executed to its end by Sluice, and
// what the server answers goes to the cursor (storedReply) instead of the client. The frames are in the log. When the
// transaction is run again the cursor begins anew, and as nobody has seen its rows they may be others.
//
// Outside of a block a DECLARE does this itself (declareStored). In a block, and in a group of which it may be one
// statement of several, it opens a portal as for any cursor, and what was not fetched is stored in front of the COMMIT
// (storeRest) or of the end of the group (storeInGroup). As in PostgreSQL, where that fails the transaction is rolled
// back, and the client gets the error of the query for its COMMIT (commitFailed). A cursor that scrolls cannot wait: a
// portal does not go back.
//
// Until its transaction has committed a stored cursor is pending. A rollback takes it away (storedEnded); so does the
// Sync of a group that fails. One that was fetched from while it was pending keeps its transaction from being run
// again, since other rows might come: its client has some of these.
//
// Too many rows end the query at once where nothing else hangs on it. In front of a COMMIT they are read to the end for
// nobody: the backend is wanted for the rollback, behind which the client is outside of a block, as PostgreSQL has it.

// What is asked of a cursor before its rows are in memory goes to the portal (cursor.go), and fails as
// for any other cursor; a return to a savepoint takes the portal away, and with it the cursor.

// declareStored stores a cursor and tells its client. As in PostgreSQL, where that fails the client
// of a simple Query gets the error alone, and that of a group gets it behind the tag.
func (s *session) declareStored(c *rewrite.Cursor, simple bool) error {
	if simple {
		if err := s.storeNow(c); err != nil || s.t.skip || s.t.settled {
			return err
		}
		return s.tell(frameDeclared)
	}
	if err := s.tell(frameDeclared); err != nil {
		return err
	}
	return s.storeNow(c)
}

// storeNow runs a cursor that was just declared, outside of a block, to its end. Its portal is
// closed behind it: what the group asks of the cursor is answered from memory already. An error is
// for the client; with nil the cursor is stored, or the rest is to be skipped.
func (s *session) storeNow(c *rewrite.Cursor) error {
	x := stored.NewCursor(account.RowsOf{Client: &s.account}, c.NoScroll)
	s.store(c.Name, x)
	if err := s.makeAnswer(); err != nil || s.t.skip || s.t.settled {
		x.Drop()
		return err
	}
	if x.Over() {
		x.Drop()
		return errStoredFull(s.srv.cfg)
	}
	x.Exact = s.writesFloats()
	s.keepStored(c.Name, x)
	return s.closeCursor(c.Name)
}

// keepStored gives a cursor its name, under which it is found from now on (useStored), in the place of the portal.
func (s *session) keepStored(name string, x *stored.Cursor) {
	if s.stored == nil {
		s.stored = map[string]*stored.Cursor{}
	}
	s.stored[name], s.tx.watched = x, true
}

// store has the server describe and run an open cursor to its end, for x. It needs the backend,
// and what it sends is still owed. To the log these are a Describe and an Execute whose answers are
// for nobody: neither is compared when the transaction is run again.
func (s *session) store(name string, x *stored.Cursor) {
	p := s.portals[name]
	run := &cursorRun{into: x}
	frame := wire.AppendNamed(nil, wire.Describe, 'P', name)
	s.logFrame(wire.Describe, logEntry{plan: p.plan, silent: true, cursor: run}, frame[wire.HeaderLen:])
	o := s.pushRun(wire.Describe, p.plan)
	o.swallow = true
	s.runs(o, run)
	s.add(frame)

	frame = wire.AppendHeader(nil, wire.Execute, len(name)+5)
	frame = append(append(frame, name...), 0)
	frame = binary.BigEndian.AppendUint32(frame, 0)
	p.run = run
	s.logPlan(p.plan)
	o = s.pushRun(wire.Execute, p.plan)
	o.text = p.text
	s.runs(o, run)
	s.noteExecute(&p, nil, frame)
	s.add(frame)
}

// storeRow takes a frame that is for a stored cursor. Of one that no buffer holds the rest follows by relayRest.
func (s *session) storeRow(x *stored.Cursor, f answer.Frame) {
	x.Take(f.Type, f.Bytes, f.Total)
	if s.t.restInto = nil; f.Cut() {
		s.t.restInto = x
	}
	// Nobody wants the rest. A backend that cannot be given up (giveUp) is read to the end: it keeps what its session
	// has there, or its statement may have committed. In front of a COMMIT the ROLLBACK needs it.
	if x.Over() && !s.t.committing && s.t.phase == live && s.t.stop == nil && !s.pinned && !s.t.outcome.MayCommit() {
		s.t.stop = errStoredFull(s.srv.cfg)
	}
	if f.Type == wire.RowDescription {
		s.t.owed.pop()
	}
}

// holdsCursor reports whether the transaction, which may be that of a group outside of a block, has
// a cursor WITH HOLD whose rows are not in memory. Portals of a transaction that has ended are gone.
func (s *session) holdsCursor() bool {
	for _, p := range s.portals {
		if p.cursor != nil && p.cursor.hold {
			return true
		}
	}
	return false
}

// storeRest is told of a text before it is sent. Where the block has a cursor WITH HOLD, its COMMIT
// must stand alone, and what is left of the rows is stored in front of it. In a failed block COMMIT
// rolls back, and so the cursors go. done: that has failed, the transaction is over, and the client
// was told; or the rest is to be skipped. An error is for the client.
func (s *session) storeRest(plan *rewrite.Plan) (done bool, err error) {
	if len(s.portals) == 0 || s.status() == 'E' || !s.holdsCursor() {
		return false, nil
	}
	commits := plan.Any(func(st *rewrite.Statement) bool { return st.Tx.Verb == rewrite.Commit })
	switch {
	case !commits:
		return false, nil
	case plan.Single() == nil:
		return false, errHoldInString
	}
	t := s.t
	if !t.owed.empty() { // what went before in the group may fail
		if err := s.makeAnswer(); err != nil || t.skip || t.settled {
			return true, err
		}
	}
	full, err := s.storeAll()
	switch {
	case err != nil:
		return true, err
	case full:
		return true, s.commitFailed(true)
	case t.skip:
		return true, s.commitFailed(false)
	}
	return false, nil
}

// storeInGroup stores the cursors of a group that ends outside of a block, in front of its Sync, or
// of the Query or FunctionCall that ends it. Where that fails the server's error was told, or the
// one that is returned is to be; the Sync undoes the group then.
func (s *session) storeInGroup() error {
	if len(s.portals) == 0 || s.inBlock() || !s.holdsCursor() {
		return nil
	}
	full, err := s.storeAll()
	if err == nil && full {
		err = errStoredFull(s.srv.cfg)
	}
	return err
}

// storeAll stores the cursors WITH HOLD of the transaction, in the order in which they were
// declared. Where that fails none is: a query has failed (then t.skip is set, and its error was
// told), or there are too many rows (full). The error is makeAnswer's. The turn is not taken for
// ended meanwhile: an error leaves the frame at hand, which the caller drops.
func (s *session) storeAll() (full bool, err error) {
	if err := s.ensureBackend(); err != nil {
		return false, err
	}
	held := map[string]*stored.Cursor{}
	names := slices.SortedFunc(maps.Keys(s.portals), func(a, b string) int { return cmp.Compare(s.portals[a].seq, s.portals[b].seq) })
	for _, name := range names {
		if c := s.portals[name].cursor; c != nil && c.hold {
			held[name] = stored.NewCursor(account.RowsOf{Client: &s.account}, c.ran || c.noScroll)
			held[name].Rest, held[name].Came = c.ran, c.formats
			s.store(name, held[name])
		}
	}
	t := s.t
	ended := t.ended
	t.ended, t.committing = false, true
	err = s.makeAnswer()
	t.ended, t.committing = ended, false
	for _, x := range held {
		full = full || x.Over()
	}
	for name, x := range held {
		if err != nil || t.skip || full {
			x.Drop()
		} else {
			x.Exact = s.writesFloats()
			s.keepStored(name, x)
		}
	}
	return full && err == nil && !t.skip, err
}

// writesFloats reports whether the server writes floats with all of their digits, by what the
// session has set: it asks for fewer than PostgreSQL has by default (extra_float_digits below 1)
// nowhere, and nothing has run that nobody has read. It is asked when all that was sent is answered.
func (s *session) writesFloats() bool {
	const name = "extra_float_digits"
	if s.b != nil && s.b.unsure || s.settings.Staged.MayHave(name) {
		return false
	}
	for _, of := range []*settings.Values{s.settings.InForce, s.settings.Startup} { // a RESET may be staged
		value, set := of.SQL[name]
		if n, err := strconv.Atoi(strings.Trim(value, "'")); set && (err != nil || n < 1) {
			return false
		}
	}
	return true
}

// commitFailed ends the transaction of a COMMIT in front of which a cursor could not be stored: it is rolled back, by
// the Sync that the server skips to and a ROLLBACK, whose answers nobody is told. Behind a COMMIT that fails no client
// rolls back, and it stands outside of a block. It was told why, unless full says that it is still to be told. With nil
// the turn is over, or the rest of it is to be skipped.
func (s *session) commitFailed(full bool) error {
	t := s.t
	e := lost
	if s.b != nil {
		s.stopWaiting()
		s.b.group = false // the Sync ends it
		if refusal, err := s.b.exchange(wire.FrameSync); err != nil || refusal != nil {
			s.dropBackend(reservoir.Unclean)
		}
	}
	if s.b != nil {
		s.rollBack(s.b.exchange)
	}
	switch {
	case s.state == failed: // the backend was given up
		e = endAnswered
	case s.b != nil && s.keeps():
		e = settledHeld
	case s.b != nil:
		s.giveBack()
	}
	s.nothingRuns()
	s.forgetTurn()
	s.settings.EndKept(true)
	if s.unserved = nil; s.state != idle {
		if err := s.move(e); err != nil {
			return err
		}
	}
	t.errorTold = true
	if full {
		s.say(errStoredFull(s.srv.cfg))
	}
	if !t.ended {
		t.skip = true
		return s.flushToClient()
	}
	t.skip = false
	return s.ready()
}
