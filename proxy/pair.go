package proxy

import (
	"cmp"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/access"
	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/outcome"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/request"
	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file pairs sessions with backends. ensureBackend borrows a backend when a frame first needs one. settleTurn
// returns the backend at a ReadyForQuery if nothing ties the session to it.

// ensureBackend gives the session a backend in the state that the client expects. It applies settings and sends a BEGIN
// that Sluice has answered. On success the session is busy, the turn's outcome starts from the backend's status, and
// the log of the transaction is open.
//
// A *wire.Error goes to the client. If no backend was lent, the session is now idle, or failed in a block. If a backend
// was lent, sendRefusal must make the turn fail at the server. Any other error is a lost backend, or ends the session.
func (s *session) ensureBackend() error {
	if s.state == busy {
		return nil
	}
	inBlock, asked := s.state == begun, false
	s.failedBegin = nil
	if err := s.applyEvent(wanted); err != nil {
		return err
	}
	s.waits.Begin(s.settings.StatementTimeout())
	if s.b == nil {
		var err error
		if asked, err = s.acquireBackend(inBlock); err != nil {
			return err
		}
	}
	s.t.server.statement = 0
	var resets []rewrite.SettingChange
	// In a block the server already has the session's settings. So settings are applied only to an idle backend.
	if s.b.status == 'I' && !s.dedicated {
		s.b.sequences.History.StartTransaction()
		if inBlock || s.srv.cfg.Kind == Postgres { // on DSQL such a ROLLBACK needs a BEGIN that Sluice has answered
			resets = serversettings.TakeAnsweredResets(&s.settings)
		}
		if err := s.applySettings(inBlock); err != nil {
			return err
		}
		s.tx.settingsAtBegin = s.settings.InForce
	}
	if s.b.status == 'T' && len(s.settings.Staged.Changes) > 0 {
		if err := s.restoreStartupSettings(); err != nil {
			return err
		}
	}
	s.t.parsing.changes.Begin(&s.b.settings)
	// The replay log starts after the settings are applied. A replay applies settings without the log.
	s.startLogging()
	s.t.server.outcome.ResetTo(s.t.blockAtStatus(s.b.status))
	if inBlock {
		s.sendDeferredBegin()
	}
	s.sendSilentSets(resets)
	if asked {
		s.waits.Consume(interrupt.ErrCanceled)
		return interrupt.ErrCanceled
	}
	return s.waits.ArmTimeout()
}

// acquireBackend borrows a backend, and waits as long as the reservoir allows. asked means that the client sent a
// cancel while the backend was being lent. After an error the session has no backend, and the transaction is over. In
// a block, the BEGIN that Sluice answered is then in failedBegin, for a COMMIT or ROLLBACK with AND CHAIN.
func (s *session) acquireBackend(inBlock bool) (asked bool, err error) {
	conn := s.srv.observers.dial(s)
	switch {
	case conn != nil:
	case s.srv.memory.IsShort() && s.state != replaying:
		err = sqlerror.LowMemory
	default:
		conn, err = s.borrowBackend()
	}
	if err != nil {
		s.endTransaction(false)
		e := unlent
		if inBlock {
			e = unlentInBlock
			s.failedBegin, s.deferredBegin = s.deferredBegin, nil
		}
		if merr := s.applyEvent(e); merr != nil {
			return false, merr
		}
		return false, s.borrowError(err)
	}
	asked = s.attachBackend(conn)
	return asked, s.applyEvent(lent)
}

// borrowError turns an error of borrowBackend into the turn's error, which goes to the client or ends the session.
func (l *link) borrowError(err error) error {
	switch {
	case l.waits.IsCut():
		return errCut
	case err == interrupt.ErrCanceled, err == interrupt.ErrTimedOut, err == errClientGone, err == errCut, err == sqlerror.LowMemory:
		return err
	}
	return sqlerror.NoBackend(err)
}

// borrowBackend takes backends from the reservoir until one is alive, while the client waits. A replay gets one ahead
// of new transactions, which may have to wait for the replay. The error says why the wait ended.
func (s *session) borrowBackend() (*reservoir.Conn, error) {
	for {
		// TryAcquire needs no timers. It succeeds if a backend is ready and no other session waits for one.
		conn := s.srv.pool.backends.TryAcquire()
		if conn == nil {
			var err error
			if conn, err = s.awaitBackend(); err != nil {
				return nil, err
			}
		}
		if b := s.srv.backendOf(conn); b.isUsable() {
			err := s.refreshServerFacts(b)
			if err == nil {
				s.srv.pool.settings.RecordReading(&b.settings)
				return conn, nil
			}
			if interrupt.EndsTurn(err) {
				conn.Discard(reservoir.Cancelled)
				s.waits.Consume(err)
				return nil, err
			}
			s.srv.pool.backends.ProbeAllReady() // the backend looked alive but did not answer
		}
		s.srv.metrics.CountBackendLost(metrics.LostIdle)
		conn.Discard(reservoir.PeekFailed)
	}
}

// replaceBackend replaces a backend that was lost outside a block, before the turn sent anything to it. A pinned
// session ends instead. Errors are the same as for ensureBackend.
func (s *session) replaceBackend(cause error) error {
	s.recordLoss(&lostError{err: cause}, metrics.LostIdle)
	pinned := s.pin.IsPinned()
	s.recordPinLoss()
	s.dropBackend(reservoir.Broken)
	if pinned {
		return s.pinLostError()
	}
	conn, err := s.borrowBackend()
	if err != nil {
		s.endTransaction(false)
		if merr := s.applyEvent(lost); merr != nil {
			return merr
		}
		return s.borrowError(err)
	}
	asked := s.attachBackend(conn)
	if err := s.applySettings(false); err != nil {
		return err
	}
	s.t.parsing.changes.Begin(&s.b.settings)
	s.t.server.outcome = outcome.FromBlock(s.t.blockAtStatus(s.b.status))
	if asked {
		s.waits.Consume(interrupt.ErrCanceled)
		return interrupt.ErrCanceled
	}
	return s.waits.ArmTimeout()
}

// awaitBackend waits for a backend in the reservoir's queue. A replay gets a backend before all sessions in the queue.
func (s *session) awaitBackend() (*reservoir.Conn, error) {
	if s.state != replaying {
		return s.waits.AcquireInLine(s.srv.pool.backends, waitingSession{s}.Timeouts())
	}
	ctx, over := s.waitContext(time.Time{}, lookEvery)
	defer over()
	conn, err := s.srv.pool.backends.AcquireAhead(ctx)
	if err != nil {
		return nil, cmp.Or(s.waits.Error(ctx), err)
	}
	return conn, nil
}

// refreshServerFacts asks a backend about the server before the session gets it, if Sluice's facts about the server are
// missing or old. After an error that ends the turn, such as a cancel, the answer is still pending. On any other error
// the backend is lost.
func (s *session) refreshServerFacts(b *backend) error {
	srv, now, epoch := s.srv, time.Now(), s.srv.pool.templates.Epoch()
	probes := srv.pool.replays != nil && srv.pool.groups.IsDue(now) // only replays need the answer
	if !probes && !srv.pool.purity.IsDue(srv.pool.templates.ReadEpoch(), now) && !srv.pool.leftState.IsDue(epoch, now) {
		return nil
	}
	b.path = rawconn.Path{Limit: s.srv.cfg.BackendPathLimit}
	defer s.waits.BeginQuestions(b.conn)()
	ask := s.questionOn(b)
	if probes {
		if err := srv.pool.groups.Ask(ask, srv.log); err != nil {
			return err
		}
	}
	if _, err := srv.askPurity(ask, false); err != nil {
		return err
	}
	return s.srv.checkHiddenFunctions(b, s.t.clock.Deadline(), s.waits.CheckInterruption)
}

// sendDeferredBegin sends the BEGIN that Sluice has answered, as Parse, Bind and Execute without a Sync. If BEGIN
// fails, the server skips the frames after it. The client gets the BEGIN's error, but not its tag. The log does not
// have this BEGIN, since a replay sends transaction.begin.
func (s *session) sendDeferredBegin() {
	s.t.server.outcome.RecordBegin(&s.deferredBegin.Plan.SingleStatement().Tx)
	name := s.prepareOnBackend(s.deferredBegin, false).Name
	o := s.t.owed.push(wire.Bind)
	o.swallow = true
	s.t.addToBatch(request.AppendBindWithoutParams(nil, name))
	o = s.t.owed.push(wire.Execute)
	if o.swallow, o.reply = true, expectBegin; access.BeginWord(s.deferredBegin.Plan.SingleStatement(), []byte(s.deferredBegin.SQL)) != "BEGIN" {
		o.reply = expectStart
	}
	s.t.addToBatch(wire.FrameExecuteAll)
	s.tx.ran.Record(s.deferredBegin.Plan)
	s.deferredBegin = nil
}

// settleTurn ends a turn at a ReadyForQuery with the given status. It commits or drops staged settings, and returns
// the backend if nothing ties the session to it. If the backend is lost meanwhile in a block, the client's next
// statement fails. An error of settleTurn is a bug.
func (s *session) settleTurn(status byte) error {
	t := s.t
	// From now on Sluice drops a cancel request, since the turn is answered. finishCancel handles an earlier cancel.
	s.waits.End()
	if status == 'I' {
		s.settleTransaction()
		defer s.srv.observers.returned.notify(s) // after the backend is returned, since a feature may borrow another
	} else {
		s.tx.at = t.server.outcome.SeenBlock()
	}
	// Settings were settled first, since they use the parameters of the backend, which may be dropped below.
	if t.partial.midFrame && !s.dedicated { // the server waits for the rest of a frame
		s.recordPinLoss()
		s.dropBackend(reservoir.Unclean)
	} else {
		s.finishCancel()
	}
	switch {
	case s.b == nil && status == 'I': // lost while finishCancel waited
		return s.applyEvent(lost)
	case s.b == nil:
		return s.applyEvent(lostInBlock)
	}
	if s.removeNeedlessPin(status); s.b == nil {
		return s.applyEvent(lost)
	}
	// The statement that pinned the session has left no state on the backend if the block has failed (removeNeedlessPin).
	if status == 'E' && s.tx.log != nil {
		s.tx.log.RefuseReplay(retry.Failed)
	}
	// The request that began the open block may have committed an earlier transaction, which a replay would repeat.
	if status != 'I' && t.server.outcome.MayCommit() {
		s.tx.log.RefuseReplay(retry.InnerCommit)
	}
	switch {
	case status == 'I' && s.pin.MustGiveUp():
		s.releasePinned()
		return s.applyEvent(settledIdle)
	case status != 'I' || s.keepsBackend():
		return s.applyEvent(settledHeld)
	}
	if s.srv.cfg.Reset == ResetAlways && t.touched {
		s.b.settings.RecordUnseen()
	}
	s.releaseOrDropBackend()
	return s.applyEvent(settledIdle)
}

// removeNeedlessPin removes the pin of a statement that left no state on the backend. It may ask the backend what state
// functions have left there (checkLeftState), and may lose the backend while asking.
func (s *session) removeNeedlessPin(status byte) {
	switch {
	case status == 'I' && s.t.server.errorTold && s.pin.UnpinFailed(&s.t.request.pin, s.srv.pins):
	case s.pin.UnpinUnparsed(&s.t.request.pin, s.srv.pins):
		if s.srv.cfg.Reset != ResetNever {
			s.b.settings.RecordUnseen()
		}
	}
	if status == 'I' && s.srv.pool.leftState.Enabled() {
		s.checkLeftState()
	}
}

// settleTransaction updates the session after its transaction ended, while the session still has its backend. Settings
// and descriptions of a committed transaction become the session's. Those of a failed transaction are dropped. Portals
// are closed in both cases.
func (s *session) settleTransaction() {
	t := s.t
	if !s.dedicated {
		s.settleSettings(t.server.errorTold)
	}
	s.tx.names.EndTransaction(&s.settings, t.server.errorTold)
	committed := !t.server.errorTold && !t.server.outcome.IsRolledBack()
	s.endTransaction(committed)
	closePortals(s)
	s.txParsing = serversettings.TxParsing{}
	s.endSchemaChange(committed)
}

// releaseBackend returns the idle backend to the reservoir, or discards a backend to which a write did not complete.
func (s *session) releaseBackend() {
	b := s.b
	s.b.settings.DropLongValues()
	b.prepared.Trim(s.srv.cfg.PreparedPerBackend, s.srv.pool.textsOfBackend)
	// No other session may get a backend that Sluice has not yet asked what state functions have left on it.
	if b.leftState.NeedsQuery() || !s.finishBackendWrite(b.answerTimeout) || b.isBroken() { // all replies are read by now
		s.dropBackend(reservoir.Unclean)
		return
	}
	s.detachBackend()
	b.release()
}

// releaseOrDropBackend releases the backend, or drops it if the session is pinned or the connection broken. In these
// cases a pinned session ends (recordPinLoss).
func (s *session) releaseOrDropBackend() {
	switch {
	case s.pin.IsPinned():
		s.recordPinLoss()
		s.dropBackend(reservoir.Pinned)
	case s.b.isBroken():
		s.dropBackend(reservoir.Unclean)
	default:
		s.releaseBackend()
	}
}

// dropBackend discards the backend in any state, without waiting for an unfinished write.
func (s *session) dropBackend(why reservoir.CloseReason) {
	b := s.b
	s.srv.observers.notifyDetaching(s)
	s.finishBackendWrite(0)
	s.detachBackend()
	b.src.DropBuffer()
	b.conn.Discard(why)
}

// detachBackend takes the backend from the session, so that cancels and sweeps no longer reach it.
func (l *link) detachBackend() {
	l.waits.Detach()
	l.b.sequences.History.Clear()
	l.b = nil
}

// inBlock reports whether the client believes that it is in a block. A block that Sluice opened (internalblock.go) does
// not count. If the turn has sent something, the turn's outcome decides before the answers come. Otherwise the
// session's state or the backend's status decides.
func (p *pairing) inBlock() bool {
	switch p.state {
	case begun, failed:
		return true
	case inTransaction, busy, replaying:
		if p.t != nil && p.t.server.outcome.HasStarted() {
			return p.t.server.outcome.InBlock() && !p.t.server.internalTx.on
		}
		return p.b != nil && p.b.status != 'I'
	}
	return false
}

// isInTransaction reports whether PostgreSQL would run the next statement within a transaction of more statements: in a
// block, or in a multi-statement query that Sluice runs in parts.
func (p *pairing) isInTransaction() bool { return p.inBlock() || p.t.nested.amidOthers }
