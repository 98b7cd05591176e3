package proxy

import (
	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/script"
	"github.com/sluice-proxy/sluice/proxy/serverfacts"
	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file applies the session's settings to its backend before a transaction begins (applySettings). After a client's
// RESET, which restores the server's own values, Sluice sets the client's startup values again (restoreStartupSettings,
// restoreStartupInGroup). A replay uses syncSettings alone.

// maxSettingLosses bounds how many backends in a row may be lost while Sluice applies settings to them. More losses
// have a common cause, so Sluice stops trying.
const maxSettingLosses = 3

// applySettings sets the session's settings on its backend, and awaits the answer, because the client's statements
// must not run under other settings. If the backend is lost, Sluice uses another one, since the lost one got no
// frame of the client. After an error, Sluice has sent no frame of the turn, and has set the session's state.
// inBlock says that Sluice itself has answered a BEGIN, which the server has not received.
func (s *session) applySettings(inBlock bool) error {
	e := lost
	if inBlock {
		e = lostInBlock
		defer func() {
			if s.b == nil {
				s.failedBegin, s.deferredBegin = s.deferredBegin, nil
			}
		}()
	}
	refusal, err := s.syncSettingsAndSchema()
	clientErr := error(sqlerror.BackendLost)
	for losses := 1; err != nil && !isBackendUsableAfter(err) && !s.pin.IsPinned() && losses < maxSettingLosses; losses++ {
		s.srv.metrics.CountBackendLost(metrics.LostIdle)
		s.dropBackend(reservoir.Broken)
		conn, berr := s.borrowBackend()
		if berr != nil {
			clientErr = s.borrowError(berr)
			break
		}
		s.attachBackend(conn)
		if refusal, err = s.syncSettingsAndSchema(); err == nil && refusal == nil {
			err = s.waits.CheckInterruption()
		}
	}
	if err == nil && refusal == nil {
		return nil
	}
	if err != nil && refusal != nil && clientErr == error(sqlerror.BackendLost) {
		clientErr = sqlerror.SettingNotApplied(refusal)
	}
	s.endTransaction(false)
	return s.failApplySettings(e, inBlock, refusal, err, clientErr)
}

// syncSettingsAndSchema applies the settings (syncSettings), then reads the schema if the backend may have a newer
// one (refreshSchema). refreshSchema must come last, since the server reports a schema change only once.
func (s *session) syncSettingsAndSchema() (refusal []byte, err error) {
	if refusal, err = s.syncSettings(); err != nil || refusal != nil || !s.srv.pool.keeper.Maps() {
		return refusal, err
	}
	if !s.srv.pool.readsArePure() && !s.pin.IsPinned() {
		_, err = s.askReadPurity(false)
	}
	if err == nil && !s.mapped.NamesNoRelation() {
		err = s.refreshSchema(false)
	}
	return nil, err
}

// isBackendUsableAfter reports whether the backend is usable after syncSettingsAndSchema failed with err.
func isBackendUsableAfter(err error) bool {
	return interrupt.EndsTurn(err) || isRefusal(err) || err == errClientGone
}

// failApplySettings ends a failed applySettings and returns its error. refusal is the server's error, and err is any
// other error. If the backend was lost, the client gets clientErr. e is the session's event for applyEvent.
func (s *session) failApplySettings(e sessionEvent, inBlock bool, refusal []byte, err, clientErr error) error {
	switch {
	// After a cancel, a timeout, a shutdown or an unreadable schema the backend is usable, if its answer is complete.
	case s.b != nil && isBackendUsableAfter(err):
		s.waits.Consume(err)
		if s.keepsBackend() && !inBlock && !s.b.isBroken() {
			e = settledHeld
		} else {
			s.releaseOrDropBackend()
		}
		if merr := s.applyEvent(e); merr != nil {
			return merr
		}
		return err
	case err != nil && s.pin.IsPinned():
		s.recordPinLoss()
		s.dropBackend(reservoir.Broken)
		s.recordServerFatal(err)
		return s.pinLostError()
	case err != nil:
		if s.b != nil {
			s.dropBackend(reservoir.Broken)
		}
		if merr := s.applyEvent(e); merr != nil {
			return merr
		}
		return clientErr
	default:
		s.srv.pool.accepted.Forget()
		s.releaseOrDropBackend()
		if merr := s.applyEvent(e); merr != nil {
			return merr
		}
		return sqlerror.SettingNotApplied(refusal)
	}
}

// restoreStartupSettings sets the client's startup values again after a RESET, before the client's next turn in the
// block. No reply is pending between turns, so that Sluice can await the server's answer. The error is a lostError,
// or the server's refusal of a value. The caller sends the refusal to the client, and the block has failed.
func (s *session) restoreStartupSettings() error {
	sets := serversettings.StartupToRestore(&s.settings)
	if len(sets) == 0 {
		return nil
	}
	refusal, err := s.b.exchange(wire.AppendStrings(nil, wire.Query, serversettings.SetSQL(sets...)+"; "))
	if err != nil {
		return &lostError{err: err}
	}
	if refusal != nil {
		return sqlerror.SettingNotApplied(refusal)
	}
	for _, c := range sets {
		s.settings.Stage(c)
	}
	s.recordRestoredSettings(sets)
	return nil
}

// recordRestoredSettings records that Sluice sent the SETs in sets to a backend. They are not in the replay log. So
// the transaction can no longer be replayed.
func (s *session) recordRestoredSettings(sets []rewrite.SettingChange) {
	s.srv.pool.settings.RenewParsing(&s.txParsing, s.settings.InForce, sets)
	if s.tx.log != nil {
		s.tx.log.RefuseReplay(retry.Pinned)
	}
}

// restoreStartupInGroup sets the client's startup values again after a RESET in a Sync group (frames up to a Sync).
// It sends the SETs before the client's next frames, by a portal of Sluice's own. The client gets no replies to the
// SETs. If the RESET failed, the client has the RESET's error, and Sluice drops the group's later frames (t.skip).
func (s *session) restoreStartupInGroup() error {
	if err := s.flushAndRelay(); err != nil || s.t.server.skip {
		return err
	}
	s.sendSilentSets(serversettings.StartupToRestore(&s.settings))
	return nil
}

// sendSilentSets sends the setting changes in sets before the client's next frames, by a portal of Sluice's own. It
// sends a change without a value as a RESET. The client gets no replies to these statements.
func (s *session) sendSilentSets(sets []rewrite.SettingChange) {
	for _, c := range sets {
		for _, kind := range []byte{wire.Parse, wire.Bind, wire.Execute, wire.Close} {
			o := s.t.owed.push(kind)
			if o.swallow = true; kind == wire.Execute {
				o.reply = expectSet
			}
		}
		frames := wire.AppendParse(nil, "", serversettings.SetSQL(c), wire.NoOIDs) // clients' statements never use the unnamed one there
		frames = append(wire.AppendBindHead(frames, []byte(ownershipQueryName), "", 6), 0, 0, 0, 0, 0, 0)
		frames = append(append(wire.AppendHeader(frames, wire.Execute, len(ownershipQueryName)+1+4), ownershipQueryName...), 0, 0, 0, 0, 0)
		s.t.addToBatch(wire.AppendDescribeOrClose(frames, wire.Close, 'P', ownershipQueryName))
		s.settings.Stage(c)
	}
	if len(sets) > 0 {
		s.recordRestoredSettings(sets)
	}
}

// checkStatementsAfterReset refuses a multi-statement query in which statements follow the RESET of a startup value,
// since they would use the server's value. d says which statements Sluice answers or changes, and may be nil.
func (s *session) checkStatementsAfterReset(plan *rewrite.Plan, d *script.Plan, sql []byte) error {
	if len(plan.Statements) < 2 || s.dedicated {
		return nil
	}
	if first := plan.Statements[0].Tx.Verb; s.txStatus() == 'E' && !first.EndsBlock() && first != rewrite.RollbackTo {
		return nil // the query fails, whatever its statements are
	}
	return serversettings.CheckAfterReset(&s.settings, plan, sql, func(i int) bool {
		return d != nil && d.ChangesText(i)
	})
}

// syncSettings sends the session's settings to its backend, if they differ from the backend's. Equal settings usually
// share a pointer. The backend must be idle, outside a transaction. refusal is the server's error. If err is a cancel
// or a timeout of the turn, the backend has the settings, unless the backend is broken.
func (s *session) syncSettings() (refusal []byte, err error) {
	b := s.b
	if s.srv.pool.watched.Load() {
		if err := s.srv.observers.notifyAttached(s); err != nil {
			return nil, err
		}
	}
	change := b.settings.ChangeTo(s.settings.InForce, s.keepsBackend())
	if change.SQL == "" {
		b.settings.RecordEqual(s.settings.InForce)
		return nil, nil
	}
	refusal, err = s.sendSettings(wire.AppendStrings(nil, wire.Query, change.SQL))
	if err == nil && refusal == nil {
		b.settings.RecordApplied(s.settings.InForce, change.Resets)
		err = s.waits.CheckInterruption()
	}
	return refusal, err
}

// sendSettings sends msg, a Query of SETs. It retries after a conflict, which a cluster returns if the backend's
// catalog is old. If the server is too busy, it refuses settings without checking them. In that case sendSettings
// returns err beside refusal, as for a lost backend, unless the session is pinned.
func (s *session) sendSettings(msg []byte) (refusal []byte, err error) {
	exchange := s.exchangeInTurn
	if s.pin.IsPinned() { // its backend is worth the wait
		exchange = s.b.exchange
	}
	for range mostCatalogTries {
		question.RetryInterrupted(func() (string, error) {
			refusal, err = exchange(msg)
			return string(retry.ErrorField(refusal, 'C')), err
		})
		if err != nil || refusal == nil || serverfacts.FaultOf(refusal) != question.Conflict {
			break
		}
	}
	if err == nil && refusal != nil && !s.pin.IsPinned() && serverfacts.FaultOf(refusal) == question.Timeout {
		err = serverfacts.RefusalError(refusal)
	}
	return refusal, err
}

// stageUnseenSettings records that a statement has called functions that may have changed settings without a report to
// Sluice. The record takes effect when the transaction commits.
func (s *session) stageUnseenSettings(st *rewrite.Statement) {
	if st.Calls && s.srv.pool.resetsAuto {
		s.settings.Stage(settings.UnseenChange)
	}
}

// mustResetAfterCalls reports whether functions may change settings that Sluice must reset before another client gets
// the backend. DSQL's functions cannot, because DSQL refuses set_config (a recorded fact).
func (c *Config) mustResetAfterCalls() bool {
	return (c.Reset == ResetAuto || c.Reset == "") && c.Kind == Postgres
}
