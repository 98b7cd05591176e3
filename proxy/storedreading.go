package proxy

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/cursor"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/stored"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file reads the rows of a cursor WITH HOLD into memory. Sluice describes and executes the cursor's portal to its
// end, and passes the answer to the stored cursor instead of the client. The frames are in the log. A replay reads the
// cursor again. Its rows may then differ, because no client has seen the first rows.
//
// Outside a block DECLARE stores the rows itself (declareStoredCursor). In a block, or in a Sync group of several
// statements, DECLARE opens a portal. Sluice stores the rows that were not fetched before the COMMIT
// (storeBeforeCommit) or before the end of the group (storeBeforeGroupEnd). As in PostgreSQL, if that fails, the
// transaction is rolled back and the client gets the query's error for its COMMIT (rollBackFailedCommit). Sluice stores
// a SCROLL cursor at DECLARE, because a portal does not move back.
//
// A stored cursor is pending until its transaction has committed, with all parts that Sluice commits early. A rollback
// removes a pending cursor (endStoredCursors), and so does the Sync of a failed group. After a FETCH from it Sluice
// does not replay the part that declared it. A replay might give other rows than the client has.
//
// If a query has too many rows and nothing else depends on it, Sluice ends it at once. Before a COMMIT Sluice reads the
// rows to the end and drops them, since it needs the backend for the ROLLBACK. Then the client is outside a block.

// While the rows of a cursor WITH HOLD are not in memory, a FETCH uses the cursor's portal (cursor.go). ROLLBACK TO
// closes that portal, and so removes the cursor.

// declareStoredCursor stores a cursor WITH HOLD and answers its DECLARE. As in PostgreSQL, after a failure the client
// of a simple Query gets only the error. In a Sync group the client gets the DECLARE's tag, and then the error.
func (s *session) declareStoredCursor(c *rewrite.CursorStatement, simple bool) error {
	if simple {
		if err := s.storeDeclaredCursor(c); err != nil || s.t.server.skip || s.t.settled {
			return err
		}
		return s.queueReply(frameDeclared)
	}
	if err := s.queueReply(frameDeclared); err != nil {
		return err
	}
	return s.storeDeclaredCursor(c)
}

// storeDeclaredCursor executes a cursor that was just declared outside a block to its end, and closes its portal. Later
// FETCHes read from memory. An error goes to the client. Otherwise the cursor is stored, or the turn skips frames.
func (s *session) storeDeclaredCursor(c *rewrite.CursorStatement) error {
	x := stored.NewCursor(account.RowsAccount{Client: &s.memory.account}, c.NoScroll)
	s.requestCursorRows(c.Name, x)
	if err := s.flushAndRelay(); err != nil || s.t.server.skip || s.t.settled {
		x.Drop()
		return err
	}
	if x.ExceedsQuota() {
		x.Drop()
		return errStoredFull(&s.srv.cfg)
	}
	x.ExactFloats = s.writesExactFloats()
	s.registerStoredCursor(c.Name, x)
	return s.closeCursor(c.Name)
}

// registerStoredCursor puts a cursor WITH HOLD, whose rows are in memory, under its name in place of its portal.
func (s *session) registerStoredCursor(name string, x *stored.Cursor) {
	s.stored.Put(name, x)
	s.tx.watched = true
}

// requestCursorRows makes the server describe an open cursor and execute it to its end. The stored cursor x gets the
// rows. The session must have a backend. On return the replies are pending. The log records a Describe and an Execute,
// whose answers a replay does not compare.
func (s *session) requestCursorRows(name string, x *stored.Cursor) {
	p := s.portals.named[name]
	run := &cursor.Fetch{Into: x}
	frame := wire.AppendDescribeOrClose(nil, wire.Describe, 'P', name)
	s.t.rec.logFrame(wire.Describe, logEntry{plan: p.plan, silent: true, cursor: run}, frame[wire.HeaderLen:])
	o := s.t.pushStatementReply(wire.Describe, p.plan)
	o.swallow = true
	s.t.markFetchReply(o, run)
	s.t.addToBatch(frame)

	frame = cursor.ExecuteFrame(name, 0)
	p.run = run
	s.logPlan(p.plan)
	o = s.t.pushStatementReply(wire.Execute, p.plan)
	o.text = p.text
	s.t.markFetchReply(o, run)
	s.recordPortalRun(&p, nil, frame)
	s.t.addToBatch(frame)
}

// storeRow adds a frame of the server's answer to a stored cursor. If the frame is longer than a buffer, relayFrameRest
// adds the rest.
func (s *session) storeRow(x *stored.Cursor, f answer.Frame) {
	x.AddFrame(f.Type, f.Bytes, f.Total)
	if s.t.partial.restInto = nil; f.IsCut() {
		s.t.partial.restInto = x
	}
	// Above the limit, Sluice ends the turn and drops the backend. It does not if the session has state there, or if the
	// statement may have committed. Before a COMMIT it does not either, since the ROLLBACK needs the backend.
	if x.ExceedsQuota() && !s.t.server.committing && s.t.rec.phase == phaseLive && s.t.output.stop == nil && !s.pin.IsPinned() && !s.t.server.outcome.MayCommit() {
		s.t.output.stop = errStoredFull(&s.srv.cfg)
	}
	if f.Type == wire.RowDescription {
		s.t.owed.pop()
	}
}

// hasUnstoredHoldCursor reports whether the transaction (or the group outside a block) has a cursor WITH HOLD whose
// rows are not in memory yet. A transaction's end closes its portals.
func (o *openPortals) hasUnstoredHoldCursor() bool {
	for _, p := range o.named {
		if p.cursor != nil && p.cursor.Hold {
			return true
		}
	}
	return false
}

// storeBeforeCommit stores the remaining rows of cursors WITH HOLD before a COMMIT. That COMMIT must be the only
// statement of its text. In a failed block it stores nothing, since COMMIT rolls back. done means that the caller must
// not send the COMMIT: storing failed, or the turn skips frames. The client gets errors.
func storeBeforeCommit(s *session, plan *rewrite.Plan) (done bool, err error) {
	if len(s.portals.named) == 0 || s.txStatus() == 'E' || !s.portals.hasUnstoredHoldCursor() {
		return false, nil
	}
	commits := plan.AnyStatement(func(st *rewrite.Statement) bool { return st.Tx.Verb == rewrite.Commit })
	switch {
	case !commits:
		return false, nil
	case plan.SingleStatement() == nil:
		return false, cursor.ErrHoldInScript
	}
	t := s.t
	if !t.owed.empty() { // an earlier frame of the group may fail
		if err := s.flushAndRelay(); err != nil || t.server.skip || t.settled {
			return true, err
		}
	}
	full, err := s.storeHoldCursors()
	switch {
	case err != nil:
		return true, err
	case full:
		return true, s.rollBackFailedCommit(true)
	case t.server.skip:
		return true, s.rollBackFailedCommit(false)
	}
	return false, nil
}

// storeBeforeGroupEnd stores the cursors WITH HOLD of a group outside a block, before the Sync, Query or FunctionCall
// that ends the group. If that fails, the client gets an error, and the Sync rolls back.
func storeBeforeGroupEnd(s *session) error {
	if len(s.portals.named) == 0 || s.inBlock() || !s.portals.hasUnstoredHoldCursor() {
		return nil
	}
	full, err := s.storeHoldCursors()
	if err == nil && full {
		err = errStoredFull(&s.srv.cfg)
	}
	return err
}

// storeHoldCursors stores the cursors WITH HOLD of the transaction in the order of their DECLAREs, or none of them. If
// a query fails, t.server.skip is set and the client has the error. full means too many rows. A returned error is one
// of flushAndRelay. Meanwhile request.ended is false, because after an error the caller still has to drop the current
// frame.
func (s *session) storeHoldCursors() (full bool, err error) {
	if err := s.ensureBackend(); err != nil {
		return false, err
	}
	held := map[string]*stored.Cursor{}
	names := slices.SortedFunc(maps.Keys(s.portals.named), func(a, b string) int { return cmp.Compare(s.portals.named[a].seq, s.portals.named[b].seq) })
	for _, name := range names {
		if c := s.portals.named[name].cursor; c != nil && c.Hold {
			held[name] = stored.NewCursor(account.RowsAccount{Client: &s.memory.account}, c.WasFetched || c.NoScroll)
			held[name].MissesRows, held[name].ArrivedFormats = c.WasFetched, c.Formats
			s.requestCursorRows(name, held[name])
		}
	}
	t := s.t
	ended := t.request.ended
	t.request.ended, t.server.committing = false, true
	err = s.flushAndRelay()
	t.request.ended, t.server.committing = ended, false
	for _, x := range held {
		full = full || x.ExceedsQuota()
	}
	for name, x := range held {
		if err != nil || t.server.skip || full {
			x.Drop()
		} else {
			x.ExactFloats = s.writesExactFloats()
			s.registerStoredCursor(name, x)
		}
	}
	return full && err == nil && !t.server.skip, err
}

// writesExactFloats reports whether the server writes floats with all digits. That is so if the session has not set
// extra_float_digits below 1, and no unparsed text has run. No reply may be pending.
func (s *session) writesExactFloats() bool {
	const name = "extra_float_digits"
	if s.b != nil && s.b.settings.MayHaveUnseen() || s.settings.Staged.MayHaveChanged(name) {
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

// rollBackFailedCommit rolls back a transaction whose COMMIT could not store a cursor. It sends the Sync to which the
// server skips, and a ROLLBACK, and hides both answers. It leaves the session outside a block, since no client sends a
// ROLLBACK after a failed COMMIT. full means that the client still needs the error. If the result is nil, the turn is
// over, or skips its other frames.
func (s *session) rollBackFailedCommit(full bool) error {
	t := s.t
	e := lost
	if s.b != nil {
		s.waits.End()
		s.b.groupOpen = false // the Sync ends the group
		if refusal, err := s.b.exchange(wire.FrameSync); err != nil || refusal != nil {
			s.dropBackend(reservoir.Unclean)
		}
	}
	if s.b != nil {
		s.rollBackOrDrop(s.b.exchange)
	}
	switch {
	case s.state == failed: // the backend was dropped
		e = endAnswered
	case s.b != nil && s.keepsBackend():
		e = settledHeld
	case s.b != nil:
		s.releaseOrDropBackend()
	}
	s.waits.Abandon()
	s.dropFailedTurn()
	s.settings.EndLocalChanges(true)
	if s.failedBegin = nil; s.state != idle {
		if err := s.applyEvent(e); err != nil {
			return err
		}
	}
	t.server.errorTold = true
	if full {
		s.sendErrorNow(errStoredFull(&s.srv.cfg))
	}
	if !t.request.ended {
		t.server.skip = true
		return s.flushToClient()
	}
	t.server.skip = false
	return s.endTurnLocally()
}
