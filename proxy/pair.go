package proxy

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// lend makes sure that the session has a backend that stands where the client
// believes the server stands: settings applied and, after a locally answered
// BEGIN, that BEGIN in front of what follows. Errors of type *sqlError have
// moved the session to the state they leave it in.
func (s *session) lend() error {
	if s.state == busy {
		return nil
	}
	inBlock, asked := s.state == begun, false
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
	if s.b.status == 'I' && !s.dedicated {
		s.b.ran.forget()
		s.b.ran.moved = false
		if err := s.applySettings(inBlock); err != nil {
			return err
		}
	}
	if s.b.status == 'T' && len(s.staged.changes) > 0 {
		if err := s.restoreStartup(); err != nil {
			return err
		}
	}
	s.t.reported = s.b.reported
	s.startLogging()
	s.t.outcome = outcomeAt(s.b.status)
	if inBlock {
		s.sendBegin()
	}
	if asked {
		s.heeded(errCanceled)
		return errCanceled
	}
	return s.armTimeout()
}

// acquire borrows a backend, waiting no longer than the reservoir allows. asked says
// that the client has cancelled in the same moment.
func (s *session) acquire(inBlock bool) (asked bool, err error) {
	conn := s.borrowOwn()
	if conn == nil {
		conn, err = s.borrow()
	}
	if err != nil {
		s.endTransaction(false)
		e := unlent
		if inBlock {
			e = unlentInBlock
			s.begin = nil
		}
		if merr := s.move(e); merr != nil {
			return false, merr
		}
		return false, s.unlent(err)
	}
	s.b = attached(conn)
	asked = s.holdCancel(s.b)
	return asked, s.move(lent)
}

// unlent is what becomes of a client when borrow failed.
func (s *session) unlent(err error) error {
	switch {
	case s.cut.Load():
		return errCut
	case err == errCanceled, err == errTimedOut, err == errClientGone, err == errCut:
		return err
	}
	return errNoBackend(err)
}

// borrow takes backends until one is alive. A replay goes ahead of new transactions.
// When the wait was ended, the error says by what.
func (s *session) borrow() (*reservoir.Conn, error) {
	wait, every := s.srv.backends.Acquire, lookInLineEvery
	if s.state == replaying {
		wait, every = s.srv.backends.AcquireAhead, lookEvery
	}
	var ctx context.Context
	for {
		conn := s.srv.backends.TryAcquire()
		if conn == nil {
			if ctx == nil {
				var stop func()
				ctx, stop = s.wait(time.Time{}, every)
				defer stop()
			}
			var err error
			if conn, err = wait(ctx); err != nil {
				return nil, cmp.Or(s.waited(ctx), err)
			}
		}
		if b := attached(conn); b.usable() && s.srv.probe(b) && s.srv.askPurity(b, false) {
			s.srv.noteReading(b.usual)
			return conn, nil
		}
		s.srv.metrics.BackendLost(metrics.LostIdle)
		conn.Discard(reservoir.PeekFailed)
	}
}

// sendBegin writes the deferred BEGIN as Parse, Bind and Execute without a
// Sync: if it fails, the server skips what follows instead of running it in
// autocommit.
func (s *session) sendBegin() {
	s.t.outcome.begin()
	name := s.prepare(s.begin, false).name
	o := s.t.owed.push(msgBind)
	o.swallow = true
	s.addBytes(appendBindNothing(nil, name))
	o = s.t.owed.push(msgExecute)
	o.swallow = true
	s.addBytes(appendExecuteAll)
	s.begin = nil
}

// appendBindNothing binds a statement without parameters to the unnamed portal.
func appendBindNothing(dst []byte, name string) []byte {
	dst = appendHeader(dst, msgBind, 1+len(name)+1+6)
	dst = append(dst, 0)
	dst = append(dst, name...)
	return append(dst, 0, 0, 0, 0, 0, 0, 0)
}

// appendExecuteAll executes the unnamed portal to its end.
var appendExecuteAll = []byte{msgExecute, 0, 0, 0, 9, 0, 0, 0, 0, 0}

// settle ends a turn at a ReadyForQuery: it keeps or drops what the turn
// staged, and gives the backend back when nothing ties the session to it.
func (s *session) settle(status byte) error {
	t := s.t
	s.stopWaiting()
	if status == 'I' {
		if !s.dedicated {
			s.settleSettings(t.failed)
		}
		s.foldLocal(t.failed)
		s.endTransaction(!t.failed && !t.outcome.rolledBack())
		s.portal, s.portals, s.salt = portal{}, nil, parsing{}
		s.schemaSettled(!t.failed && !t.outcome.rolledBack())
	}
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
	case status == 'I' && t.pinned && t.failed:
		s.pinned = false
		s.srv.pinned.Add(-1)
	}
	if status == 'E' && s.tx.log != nil {
		s.tx.log.Refuse(retry.Failed)
	}
	if status != 'I' && t.outcome.mayCommit() {
		s.tx.log.Refuse(retry.InnerCommit)
	}
	if status == 'I' && s.void {
		s.dropVoid()
		return s.move(settledIdle)
	}
	if status != 'I' || s.keeps() {
		return s.move(settledHeld)
	}
	if s.srv.cfg.Reset == ResetAlways && t.touched {
		s.b.unsure = true
	}
	if s.b.suspect {
		s.dropBackend(reservoir.Unclean)
	} else {
		s.releaseBackend()
	}
	return s.move(settledIdle)
}

// pin keeps the backend for the rest of the session.
func (s *session) pin(plan *rewrite.Plan) error {
	why := plan.Pin
	if why == rewrite.NoPin {
		return nil
	}
	s.own, s.void = false, false
	// PREPARE stays when another statement of its Sync group fails.
	undone := len(plan.Statements) == 1 && leavesNothing[why] && (why != rewrite.PinPrepare || s.t.ended)
	if s.pinned {
		s.t.pinned, s.t.unreadPin = s.t.pinned && undone, false
		return nil
	}
	if n := s.srv.pinned.Add(1); n > int64(s.srv.cfg.MaxPins) {
		s.srv.pinned.Add(-1)
		return errTooManyPins(s.srv.cfg.MaxPins, pinNames[why])
	}
	s.pinned = true
	s.t.pinned, s.t.unreadPin = undone, why == rewrite.PinUnparsed
	s.srv.metrics.Pinned(pinNames[why])
	s.srv.log.Info("session keeps its backend", append(s.logAttrs(), "reason", pinNames[why])...)
	return nil
}

// leavesNothing holds the reasons of a pin that a failed statement undoes. A
// session lock, for one, stays when the statement that took it fails.
var leavesNothing = map[rewrite.Pin]bool{rewrite.PinPrepare: true, rewrite.PinListen: true,
	rewrite.PinHoldCursor: true, rewrite.PinTemp: true, rewrite.PinSetConfig: true, rewrite.PinRole: true}

// releaseBackend gives the backend back to the reservoir.
func (s *session) releaseBackend() {
	b := s.b
	if !s.leaveBackend() {
		s.dropBackend(reservoir.Unclean)
		return
	}
	s.forgetBackend()
	b.conn.Release()
}

// giveBack releases the backend, or drops it when it is pinned or suspect.
func (s *session) giveBack() {
	switch {
	case s.pinned:
		s.losePin()
		s.dropBackend(reservoir.Pinned)
	case s.b.suspect:
		s.dropBackend(reservoir.Unclean)
	default:
		s.releaseBackend()
	}
}

// dropBackend discards the backend.
func (s *session) dropBackend(why reservoir.Reason) {
	b := s.b
	s.leaveBackend()
	s.forgetBackend()
	b.src.drop()
	b.conn.Discard(why)
}

// forgetBackend takes the backend out of reach of cancels and sweeps.
func (s *session) forgetBackend() {
	s.disarm()
	s.mu.Lock()
	s.cancel.backend = nil
	s.mu.Unlock()
	s.b.ran.forget()
	s.b = nil
}

// losePin says that a pinned backend is going, and with it the state that the
// session had there: the session ends once the turn has been answered.
func (s *session) losePin() {
	if s.pinned {
		s.pinned, s.own, s.void, s.pinLost = false, false, false, true
		s.srv.pinned.Add(-1)
	}
}

// inBlock reports whether the client believes itself inside a transaction block.
func (s *session) inBlock() bool {
	switch s.state {
	case begun, failed:
		return true
	case held, busy, replaying:
		if s.t != nil && s.t.outcome.started() {
			return s.t.outcome.inBlock()
		}
		return s.b != nil && s.b.status != 'I'
	}
	return false
}

// backendLost answers the loss of a backend in the middle of a turn.
func (s *session) backendLost(gone *lostError) error {
	t := s.t
	if s.dedicated {
		return gone
	}
	told, when := s.lossTold(), "transaction"
	if told == errUnknownOutcome {
		when = "unknown_outcome"
	}
	s.logLost(gone, when)
	if told == nil {
		s.settleSettings(t.failed)
	} else if s.survives() {
		reason := s.judge(retry.BackendLost)
		if reason == retry.Replayable || reason == retry.Cancelled || t.original != nil {
			return s.survive(told, reason)
		}
		s.noteRefusal(reason)
	}
	return s.abandon(told, reservoir.Broken)
}

// lossTold is what the client is told of the loss of its backend; nil: all that it
// asked for was answered, and only the ReadyForQuery is missing.
func (s *session) lossTold() *sqlError {
	t := s.t
	switch o := &t.outcome; {
	case o.unknown() || t.job.tag != nil || t.settled: // a job: see settleJob
		return errUnknownOutcome
	case t.refused != nil && !t.owed.empty() && t.owed.first().poison: // all that was before it is answered
		return t.refused
	case s.concluded():
		return nil
	case o.ended:
		return errRestLost
	case s.inBlock() || o.loses():
		return errBackendLost
	}
	return errReadLost
}

// concluded reports whether the client can do without the backend: all that is owed
// is a ReadyForQuery, and no transaction goes on that was not told to have failed.
func (s *session) concluded() bool {
	t := s.t
	if !t.ended || t.mute || t.rerun || t.rest > 0 || t.owed.len() != 1 || s.inBlock() && !t.failed {
		return false
	}
	kind := t.owed.first().kind
	return kind == msgSync || kind == msgQuery && t.outcome.concluded
}

// lostWhenReplaying is the loss of a backend that no client is told of.
const lostWhenReplaying = metrics.LostReplaying

func (s *session) logLost(gone *lostError, when string) {
	s.srv.metrics.BackendLost(when)
	s.srv.log.Warn("backend lost in a turn", append(s.logAttrs(), "outcome", when, "error", gone.err)...)
}

// abandon drops the backend in the middle of a turn and tells the client e
// (nil: that the turn succeeded), so that its connection lives on.
func (s *session) abandon(e *sqlError, why reservoir.Reason) error {
	t := s.t
	if t.torn || t.rest > 0 && !t.restSwallow && !t.mute && !s.holding() {
		return errors.Join(errClientGone, errors.New("a row was cut in the middle"))
	}
	// Behind COMMIT or ROLLBACK no client rolls back, whatever became of it.
	inBlock := s.inBlock()
	if t.original != nil && e != nil {
		inBlock = t.after != 0 && t.after != 'I' || t.after == 0 && inBlock
	}
	if t.rest > 0 || t.mute {
		s.held.Drop()
	}
	if e == nil { // it is done, and what it set is the session's
		s.commitSettings()
	}
	if e != nil {
		s.takeBack(append(t.owed.lost(), t.undos...))
	}
	if s.b != nil {
		s.dropBackend(why)
	}
	s.losePin()
	s.nothingRuns()
	s.forgetTurn()
	ev := lost
	if inBlock {
		ev = lostInBlock
	}
	if err := s.move(ev); err != nil {
		return err
	}
	if e != nil {
		t.failed = true
		s.say(e)
	}
	if !t.ended {
		t.skip = true
		return nil
	}
	return s.ready()
}

// takeBack undoes changes of the client's statements that it was told have failed.
func (s *session) takeBack(undos []undo) {
	for _, u := range undos {
		s.setStatement(u.name, u.prev)
	}
}

// stopBackend asks the server to stop what it is doing before its connection
// is dropped: closing a socket alone lets a running statement keep its locks.
func (s *session) stopBackend() {
	if !s.srv.cfg.ForwardCancel || s.b == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), exchangeTimeout)
	defer stop()
	if err := s.b.conn.Cancel(ctx); err != nil {
		s.srv.log.Debug("cancel before discard", append(s.logAttrs(), "error", err)...)
	}
}

// startWaiting begins the part of a turn that can be cancelled and timed out: it
// waits for its backend, or to have one. The sweeper is shown that it does.
func (s *session) startWaiting() {
	s.tick.Store(s.tick.Load() | 1)
	s.startClock()
}

// armTimeout has the read from the backend end with the statement's time, which may
// be over already.
func (s *session) armTimeout() error {
	deadline := s.t.deadline
	if deadline.IsZero() {
		return nil
	}
	if !time.Now().Before(deadline) {
		s.heeded(errTimedOut)
		return errTimedOut
	}
	s.b.conn.Net.SetReadDeadline(deadline)
	return nil
}

// stopWaiting ends it.
func (s *session) stopWaiting() {
	if v := s.tick.Load(); v&1 == 1 {
		s.tick.Store(v + 1)
	}
	s.disarm()
	if s.t != nil {
		s.t.deadline = time.Time{}
	}
}

// disarm takes the alarms of the turn off its backend.
func (s *session) disarm() {
	if s.t != nil && !(s.t.deadline.IsZero() && s.t.holdEnd.IsZero()) {
		s.t.holdEnd = time.Time{}
		if s.b != nil {
			s.b.conn.Net.SetReadDeadline(time.Time{})
		}
	}
}
