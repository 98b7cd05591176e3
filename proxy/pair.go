package proxy

import (
	"cmp"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/outcome"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
)

// This file pairs sessions with backends. ensureBackend borrows a backend when a frame first needs one. settle returns
// the backend at a ReadyForQuery if nothing ties the session to it. The callers of settle are relayed (downlink.go) and
// settleJob (rewritten.go).

// ensureBackend gives the session a backend in the state that the client expects. It applies settings and sends a BEGIN
// that Sluice has answered. On success the session is busy, its turn's outcome starts from the backend's status, and
// the log of its transaction is open.
//
// A *wire.Error is for the client. If no backend was lent, the session is now idle, or failed in a block. If one was
// lent, refuse must make the turn fail at the server as well. Any other error is a lost backend, or ends the session.
func (s *session) ensureBackend() error {
	if s.state == busy {
		return nil
	}
	inBlock, asked := s.state == begun, false
	s.unserved = nil
	if err := s.move(wanted); err != nil {
		return err
	}
	s.startWaiting()
	if s.b == nil {
		var err error
		if asked, err = s.acquire(inBlock); err != nil {
			return err
		}
	}
	s.t.statement = 0
	// In a block the server already has the settings.
	if s.b.status == 'I' && !s.dedicated {
		s.b.sequences.History.Begin()
		if err := s.applySettings(inBlock); err != nil {
			return err
		}
		s.tx.stood = s.settings.InForce
	}
	if s.b.status == 'T' && len(s.settings.Staged.Changes) > 0 {
		if err := s.restoreStartup(); err != nil {
			return err
		}
	}
	s.t.reported = s.b.reported
	// The log starts after the settings. A replay applies them to its backend without the log (borrowAgain).
	s.startLogging()
	s.t.outcome.Start(s.standing(s.b.status))
	if inBlock {
		s.sendBegin()
	}
	if asked {
		s.heeded(errCanceled)
		return errCanceled
	}
	return s.armTimeout()
}

// acquire borrows a backend, and waits as long as the reservoir allows. asked means that the client sent a cancel just
// as the backend was lent. On an error no backend is lent and the transaction is over. A BEGIN that Sluice answered is
// then stored in unserved, for a COMMIT AND CHAIN or ROLLBACK AND CHAIN.
func (s *session) acquire(inBlock bool) (asked bool, err error) {
	conn := s.acquireForSequences()
	switch {
	case conn != nil:
	case s.srv.memory.Short() && s.state != replaying:
		err = errShort
	default:
		conn, err = s.borrow()
	}
	if err != nil {
		s.endTransaction(false)
		e := unlent
		if inBlock {
			e = unlentInBlock
			s.unserved, s.deferredBegin = s.deferredBegin, nil
		}
		if merr := s.move(e); merr != nil {
			return false, merr
		}
		return false, s.unlent(err)
	}
	asked = s.attach(conn)
	return asked, s.move(lent)
}

// unlent turns an error of borrow into the turn's error. The result is for the client, unless it ends the session.
func (s *session) unlent(err error) error {
	switch {
	case s.cutOff.Load():
		return errCut
	case err == errCanceled, err == errTimedOut, err == errClientGone, err == errCut, err == errShort:
		return err
	}
	return errNoBackend(err)
}

// borrow takes backends from the reservoir until one is alive, and the client waits meanwhile. A replay precedes new
// transactions, which may wait for rows that the replay holds at the gate. An error says what ended the wait.
func (s *session) borrow() (*reservoir.Conn, error) {
	wait := s.lineUp
	if s.state == replaying {
		wait = s.goAhead
	}
	for {
		// TryAcquire succeeds if nobody is queued, and needs no timers for a wait.
		conn := s.srv.backends.TryAcquire()
		if conn == nil {
			var err error
			if conn, err = wait(); err != nil {
				return nil, err
			}
		}
		if b := s.srv.attached(conn); b.usable() {
			err := s.question(b)
			if err == nil {
				s.srv.noteReading(b.usual)
				return conn, nil
			}
			if stops(err) {
				conn.Discard(reservoir.Cancelled)
				s.heeded(err)
				return nil, err
			}
			s.srv.backends.Suspect() // the backend looked alive but did not answer
		}
		s.srv.metrics.BackendLost(metrics.LostIdle)
		conn.Discard(reservoir.PeekFailed)
	}
}

// replaceBackend replaces a backend that was lost outside a block, before the turn sent anything to it. A pinned
// session ends instead. Errors are those of ensureBackend.
func (s *session) replaceBackend(cause error) error {
	s.noteLost(&lostError{err: cause}, metrics.LostIdle)
	pinned := s.pinned
	s.losePin()
	s.dropBackend(reservoir.Broken)
	if pinned {
		return s.pinGone()
	}
	conn, err := s.borrow()
	if err != nil {
		s.endTransaction(false)
		if merr := s.move(lost); merr != nil {
			return merr
		}
		return s.unlent(err)
	}
	asked := s.attach(conn)
	if err := s.applySettings(false); err != nil {
		return err
	}
	s.t.reported, s.t.outcome = s.b.reported, outcome.At(s.standing(s.b.status))
	if asked {
		s.heeded(errCanceled)
		return errCanceled
	}
	return s.armTimeout()
}

// goAhead waits for a backend at the front of the reservoir's queue, on behalf of a replay.
func (s *session) goAhead() (*reservoir.Conn, error) {
	ctx, over := s.wait(time.Time{}, lookEvery)
	defer over()
	conn, err := s.srv.backends.AcquireAhead(ctx)
	if err != nil {
		return nil, cmp.Or(s.waited(ctx), err)
	}
	return conn, nil
}

// question asks a backend about the server before the session gets it, if answers are missing or old. See askGroups,
// askPurity and askHidden. On an error that ends the turn (stops) the answer is still on its way. On any other error
// the backend is lost.
func (s *session) question(b *backend) error {
	if now := time.Now(); !s.srv.groupsDue(now) && !s.srv.purityDue(now) && !s.srv.hiddenDue(now) {
		return nil
	}
	b.path = path{limit: s.srv.cfg.BackendPathLimit}
	s.mu.Lock()
	stop := s.cancel.stop // ends the wait for a backend
	s.cancel.questioned = b
	s.cancel.stop = func(cause error) {
		if stop != nil {
			stop(cause)
		}
		b.conn.Net.SetReadDeadline(time.Unix(1, 0))
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cancel.questioned, s.cancel.stop = nil, stop
	}()
	if err := s.srv.askGroups(b, s.t.deadline, s.stopped); err != nil {
		return err
	}
	if _, err := s.srv.askPurity(b, false, s.t.deadline, s.stopped); err != nil {
		return err
	}
	return s.srv.askHidden(b, s.t.deadline, s.stopped)
}

// sendBegin sends the BEGIN that Sluice has answered, as Parse, Bind and Execute without a Sync. If BEGIN fails, the
// server skips the frames after it. The client sees its error, but not its success. It is not in the log's frames: a
// replay sends transaction.begin.
func (s *session) sendBegin() {
	s.t.outcome.Begin(&s.deferredBegin.plan.Single().Tx)
	name := s.prepare(s.deferredBegin, false).name
	o := s.t.owed.push(wire.Bind)
	o.swallow = true
	s.add(appendBindNothing(nil, name))
	o = s.t.owed.push(wire.Execute)
	if o.swallow, o.reply = true, expectBegin; beginWord(s.deferredBegin.plan.Single(), []byte(s.deferredBegin.sql)) != "BEGIN" {
		o.reply = expectStart
	}
	s.add(wire.FrameExecuteAll)
	s.tx.notesRun(s.deferredBegin.plan)
	s.deferredBegin = nil
}

// appendBindNothing appends a Bind of the named statement, without parameters, to the unnamed portal.
func appendBindNothing(dst []byte, name string) []byte {
	dst = wire.AppendHeader(dst, wire.Bind, 1+len(name)+1+6)
	dst = append(dst, 0)
	dst = append(dst, name...)
	return append(dst, 0, 0, 0, 0, 0, 0, 0)
}

// settle ends a turn at a ReadyForQuery with the given status. It commits or drops staged settings, and returns the
// backend if nothing ties the session to it. Even in a block the session may then have no backend, if it was lost
// meanwhile. The client's next statement gets that error. An error of settle is a bug.
func (s *session) settle(status byte) error {
	t := s.t
	// A cancel that arrives from now on is dropped, since the turn is answered. settleCancel handles earlier ones.
	s.stopWaiting()
	if status == 'I' {
		s.settleTransaction()
		defer s.locksSettled() // after the backend is returned, since it borrows another
	} else {
		s.tx.at = t.outcome.Seen()
	}
	// Settings come first: values that the backend reported are part of them, and the backend may be dropped below.
	if t.midFrame && !s.dedicated { // the server waits for the rest of a frame
		s.losePin()
		s.dropBackend(reservoir.Unclean)
	} else {
		s.settleCancel()
	}
	switch {
	case s.b == nil && status == 'I': // lost while settleCancel waited
		return s.move(lost)
	case s.b == nil:
		return s.move(lostInBlock)
	}
	if s.settlePin(status); s.b == nil {
		return s.move(lost)
	}
	// The statement that pinned the session has failed and left nothing: see pin.
	if status == 'E' && s.tx.log != nil {
		s.tx.log.Refuse(retry.Failed)
	}
	// The request that began the open block may have committed a transaction before it. A replay would run that one twice.
	if status != 'I' && t.outcome.MayCommit() {
		s.tx.log.Refuse(retry.InnerCommit)
	}
	switch {
	case status == 'I' && s.sequences.IsVoid():
		s.releasePinned()
		return s.move(settledIdle)
	case status != 'I' || s.keeps():
		return s.move(settledHeld)
	}
	s.b.unsure = s.b.unsure || s.srv.cfg.Reset == ResetAlways && t.touched
	s.giveBack()
	return s.move(settledIdle)
}

// settlePin removes the pin of a statement that left no state on the backend. It may also ask the backend what
// functions have left there (lookBehind), and lose the backend over that.
func (s *session) settlePin(status byte) {
	if status == 'I' && s.t.pinnedByTurn && s.t.errorTold {
		s.unpin()
	} else {
		s.unpinUnread()
	}
	if status == 'I' && s.srv.asksBehind {
		s.lookBehind()
	}
}

// settleTransaction updates the session after its transaction ended; the backend is still lent. Settings and
// descriptions of a committed transaction become the session's. Those of a failed one are dropped, and portals are
// closed in both cases.
func (s *session) settleTransaction() {
	t := s.t
	if !s.dedicated {
		s.settleSettings(t.errorTold)
	}
	s.endKept(t.errorTold)
	committed := !t.errorTold && !t.outcome.RolledBack()
	s.endTransaction(committed)
	s.closePortals()
	s.txParsing = settings.Parsing{}
	s.schemaSettled(committed)
}

// releaseBackend returns the idle backend to the reservoir. It discards the backend if a write to it did not complete.
func (s *session) releaseBackend() {
	b := s.b
	s.bareSettings()
	b.prepared.forgetLong()
	// A backend that was not asked yet what functions have left there cannot serve another session.
	if b.left.Due() || !s.leaveBackend(b.patience) || b.broken() { // all replies are read by now
		s.dropBackend(reservoir.Unclean)
		return
	}
	s.forgetBackend()
	b.release()
}

// giveBack releases the backend, or drops it if the session is pinned or the connection broken. A pinned session then
// ends (losePin).
func (s *session) giveBack() {
	switch {
	case s.pinned:
		s.losePin()
		s.dropBackend(reservoir.Pinned)
	case s.b.broken():
		s.dropBackend(reservoir.Unclean)
	default:
		s.releaseBackend()
	}
}

// dropBackend discards the backend in any state, without waiting for an unfinished write.
func (s *session) dropBackend(why reservoir.Reason) {
	b := s.b
	s.srv.observers.detaching(s)
	s.leaveBackend(0)
	s.forgetBackend()
	b.src.Drop()
	b.conn.Discard(why)
}

// forgetBackend takes the backend from the session, so that cancels and sweeps no longer reach it.
func (s *session) forgetBackend() {
	s.disarm()
	s.mu.Lock()
	s.cancel.backend = nil
	s.mu.Unlock()
	s.b.sequences.History.Forget()
	s.b = nil
}

// inBlock reports whether the client believes that it is in a block. A block that Sluice opened (ownblock.go) does not
// count. If the turn has sent something, its outcome decides before the answers come; else the state or backend's
// status.
func (s *session) inBlock() bool {
	switch s.state {
	case begun, failed:
		return true
	case inTransaction, busy, replaying:
		if s.t != nil && s.t.outcome.Started() {
			return s.t.outcome.InBlock() && !s.t.ownTx.on
		}
		return s.b != nil && s.b.status != 'I'
	}
	return false
}
