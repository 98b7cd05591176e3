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

// Pairing: a session gets a backend when the first frame needs one (ensureBackend), and gives it back when nothing ties
// the session to it (settle). Handlers of frames call the former; relayed (downlink.go) and settleJob (rewritten.go)
// call the latter at a ReadyForQuery.

// ensureBackend makes sure that the session has a backend that stands where the client believes the server stands:
// settings applied and, after a locally answered BEGIN, that BEGIN in front of what follows. On success the state is
// busy, the outcome of what the turn sends counts from the backend's status, and the log of the transaction is open.
//
// A *wire.Error is for the client. Either no backend is lent, and the session has been moved to the state that follows
// (idle, or failed in a block), or one is lent, and refuse has to make the turn fail there as well. Any other error is
// a lost backend or the session's end.
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
	// In a block the server has the settings already.
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
	// The log begins behind the settings: a replay brings them to its backend by itself (borrowAgain).
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

// acquire borrows a backend, waiting no longer than the reservoir allows. asked says that the client has cancelled in
// the same moment: the backend is lent all the same. With an error none is lent, the transaction is forgotten, and the
// session stands where an error leaves it; a BEGIN that was answered before is kept in unserved, for COMMIT or ROLLBACK
// AND CHAIN.
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

// unlent is the error of a turn that got no backend, given the reason why borrow failed:
// for the client, save those that end the session.
func (s *session) unlent(err error) error {
	switch {
	case s.cutOff.Load():
		return errCut
	case err == errCanceled, err == errTimedOut, err == errClientGone, err == errCut, err == errShort:
		return err
	}
	return errNoBackend(err)
}

// borrow takes backends until one is alive. A replay goes ahead of new transactions: others may wait for what it holds
// at the gate. When the wait was ended, the error says by what. A backend that has died on the shelf is nobody's fault:
// the next one is taken, and the client waits on.
func (s *session) borrow() (*reservoir.Conn, error) {
	wait := s.lineUp
	if s.state == replaying {
		wait = s.goAhead
	}
	for {
		// Without a line there is no wait to be looked after.
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
			s.srv.backends.Suspect() // it looked alive and did not answer
		}
		s.srv.metrics.BackendLost(metrics.LostIdle)
		conn.Discard(reservoir.PeekFailed)
	}
}

// replaceBackend has another backend in the place of the session's, which was lost for that cause
// outside of a block and before anything of the turn was sent there. A pinned session ends with its
// backend. Errors are those of ensureBackend.
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

// goAhead waits for a backend in front of the line, for a transaction that is run again.
func (s *session) goAhead() (*reservoir.Conn, error) {
	ctx, over := s.wait(time.Time{}, lookEvery)
	defer over()
	conn, err := s.srv.backends.AcquireAhead(ctx)
	if err != nil {
		return nil, cmp.Or(s.waited(ctx), err)
	}
	return conn, nil
}

// question asks a backend that the session is about to have about the server: about groups,
// and about functions that write. Most of the time all is known. An error that stops the
// turn (stops) leaves the answer on its way; with any other the backend is lost.
func (s *session) question(b *backend) error {
	if now := time.Now(); !s.srv.groupsDue(now) && !s.srv.purityDue(now) && !s.srv.hiddenDue(now) {
		return nil
	}
	b.path = path{limit: s.srv.cfg.BackendPathLimit}
	s.mu.Lock()
	stop := s.cancel.stop // of a wait for the backend
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

// sendBegin writes the deferred BEGIN as Parse, Bind and Execute without a Sync: if it fails, the server skips what
// follows instead of running it in autocommit. Its answers are for nobody, since the client has been answered; its
// error is the client's. It is no frame of the log, which keeps its text beside (transaction.begin).
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
	s.add(appendExecuteAll)
	s.tx.notesRun(s.deferredBegin.plan)
	s.deferredBegin = nil
}

// appendBindNothing binds a statement without parameters, by its name, to the unnamed portal.
func appendBindNothing(dst []byte, name string) []byte {
	dst = wire.AppendHeader(dst, wire.Bind, 1+len(name)+1+6)
	dst = append(dst, 0)
	dst = append(dst, name...)
	return append(dst, 0, 0, 0, 0, 0, 0, 0)
}

// appendExecuteAll executes the unnamed portal to its end.
var appendExecuteAll = []byte{wire.Execute, 0, 0, 0, 9, 0, 0, 0, 0, 0}

// settle ends a turn at a ReadyForQuery of that status: it keeps or drops what the turn staged, and gives the backend
// back when nothing ties the session to it. Afterwards the session may be without a backend, also in a block, where the
// backend was lost meanwhile; the client is told with its next statement. An error is a bug.
func (s *session) settle(status byte) error {
	t := s.t
	// A cancel that comes from here on is dropped: the turn is answered. Those that came
	// before are seen to by settleCancel.
	s.stopWaiting()
	if status == 'I' {
		s.settleTransaction()
		defer s.locksSettled() // behind the return of the backend: it takes another
	} else {
		s.tx.at = t.outcome.Seen()
	}
	// Settings go first: what the backend has reported counts among them, and the backend may be dropped below.
	if t.midFrame && !s.dedicated { // the server waits for the rest of a frame
		s.losePin()
		s.dropBackend(reservoir.Unclean)
	} else {
		s.settleCancel()
	}
	switch {
	case s.b == nil && status == 'I': // lost while the cancel was awaited
		return s.move(lost)
	case s.b == nil:
		return s.move(lostInBlock)
	}
	if s.settlePin(status); s.b == nil {
		return s.move(lost)
	}
	// The statement for which the backend was to be kept has failed, and left nothing there: see pin.
	if status == 'E' && s.tx.log != nil {
		s.tx.log.Refuse(retry.Failed)
	}
	// A block is open, and the request that began it may have committed something in front
	// of it: to run the block again would be to run that again.
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

// settlePin takes a pin of the turn back whose statement has left nothing, and has the backend asked
// for what nobody has seen; it may be lost over that.
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

// settleTransaction ends the transaction that the backend has ended, while the session still has that backend. The
// session keeps what a transaction has committed: settings, descriptions that others are told of. Of one that failed it
// keeps nothing, and portals end with either.
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

// releaseBackend gives the backend, which is idle outside a transaction, back to the
// reservoir. It is discarded instead where a write to it did not come to its end.
func (s *session) releaseBackend() {
	b := s.b
	s.bareSettings()
	b.prepared.forgetLong()
	// One that nobody has asked for what functions have left is nobody else's.
	if b.left.Due() || !s.leaveBackend(b.patience) || b.broken() { // all was answered, so all was read
		s.dropBackend(reservoir.Unclean)
		return
	}
	s.forgetBackend()
	b.release()
}

// giveBack releases the backend, or drops it when it is pinned or suspect. Of a pinned one
// the session is told (losePin).
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

// dropBackend discards the backend, in whatever state it is. A write that is under way is ended, not awaited.
func (s *session) dropBackend(why reservoir.Reason) {
	b := s.b
	s.srv.observers.detaching(s)
	s.leaveBackend(0)
	s.forgetBackend()
	b.src.Drop()
	b.conn.Discard(why)
}

// forgetBackend takes the backend out of reach of cancels and sweeps, before somebody else gets it.
func (s *session) forgetBackend() {
	s.disarm()
	s.mu.Lock()
	s.cancel.backend = nil
	s.mu.Unlock()
	s.b.sequences.History.Forget()
	s.b = nil
}

// inBlock reports whether the client believes itself inside a transaction block, of which a block of Sluice's own
// (ownblock.go) is none. In a turn that has sent something the outcome says so, ahead of the answers; else the state or
// the backend's status.
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
