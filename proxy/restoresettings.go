package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/notice"
	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file restores settings to the values of a client's startup packet. A RESET inside a function or a DO block puts
// the server's own values in force. trackResettingCalls marks a turn in which that is possible. At the server's
// ReadyForQuery, mayHaveResetSettings looks for a RESET. settleRestoringSettings restores the settings before the
// client's.

// trackResettingCalls sets turn.resets if a plan that Sluice is about to send may reset settings inside functions.
func (s *session) trackResettingCalls(plan *rewrite.Plan) {
	for i := range plan.Statements {
		if st := &plan.Statements[i]; st.Leaves || st.Calls || st.Pin == rewrite.PinProcedural || st.Kind == rewrite.Unknown {
			s.markSettingsReset()
			return
		}
	}
}

// markSettingsReset sets turn.resets because the next statement may reset settings of the client's startup packet.
func (s *session) markSettingsReset() {
	if s.srv.cfg.Kind == Postgres && !s.dedicated && len(s.settings.Startup.SQL) > 0 {
		s.t.resets = true
		s.tx.resets.Mark()
	}
}

// mayHaveResetSettings reports, after the server's ReadyForQuery, whether functions may have reset settings of the
// client's startup packet. Most resets show in the parameters that the server reports. Other resets matter only if the
// session keeps the backend, since Sluice resets a returned backend.
func (s *session) mayHaveResetSettings() bool {
	t, b := s.t, s.b
	if s.dedicated || t.rec.phase != phaseLive || s.tx.job.IsOpen() || t.output.batches != nil || !s.tx.resets.ArePossible() || b.status == 'E' || b.status == 'T' && !t.resets {
		return false
	}
	return b.settings.MayHaveReset(&s.settings, b.status == 'T' || s.keepsBackend())
}

// findResetSettings queries the names of startup settings whose values on the backend come from no SET of this session
// (FindSQL). refusal is the server's error.
func (s *session) findResetSettings() (names []string, refusal []byte, err error) {
	if !s.finishBackendWrite(exchangeTimeout) || !s.waitOutCancel() {
		return nil, nil, errDeadPath
	}
	query := s.tx.resets.FindSQL(&s.settings, s.b.status == 'I')
	row := func(row []byte) {
		if columns := textColumns(row); len(columns) == 1 {
			names = append(names, columns[0])
		}
	}
	refusal, err = s.b.exchangeRows(wire.AppendStrings(nil, wire.Query, query), row)
	if err == nil && refusal != nil && s.b.status == 'I' { // usually the client's statement_timeout ended the query
		names = nil
		query = "BEGIN; SET LOCAL statement_timeout TO 0; " + query + "; COMMIT"
		if refusal, err = s.b.exchangeRows(wire.AppendStrings(nil, wire.Query, query), row); err == nil && s.b.status != 'I' {
			err = errDeadPath
		}
	}
	return names, refusal, err
}

// settleRestoringSettings ends a turn that may have reset startup settings, after the server's ReadyForQuery, which the
// client does not get. It restores the settings (in a block until the block's end), and sends a ReadyForQuery of
// Sluice's own. If the backend is lost meanwhile, the client's next statement fails.
func (s *session) settleRestoringSettings() error {
	t, b := s.t, s.b
	t.restoresSettings = false
	was := b.status
	s.waits.End() // a cancel must not hit Sluice's own statements
	if was == 'T' && s.t.rec.logs && s.tx.log != nil {
		s.tx.log.RefuseReplay(retry.Pinned) // the log has no ReadyForQuery of this turn
	}
	names, refusal, err := s.findResetSettings()
	if err == nil && refusal == nil && was == 'T' {
		refusal, err = s.restoreSettingsInBlock(names)
	}
	status := was
	switch {
	case err != nil: // the connection must not be used again, since the answer may come late
		b.suspect = true
		b.conn.Net.Close()
	case was == 'T' && b.status == 'E':
		status, t.server.errorTold = 'E', true
		if err := s.sendOrWithhold(sqlerror.SettingNotApplied(refusal).Append(nil)); err != nil {
			return err
		}
	}
	if was == 'I' {
		s.settleSettings(t.server.errorTold)
		s.tx.names.EndTransaction(&s.settings, t.server.errorTold)
		s.adoptResetSettings(names, err == nil && refusal == nil)
	}
	if err := s.reportParameters(); err != nil {
		return err
	}
	if err := s.settleTurn(status); err != nil {
		return err
	}
	return s.sendOrWithhold(wire.AppendReadyForQuery(notice.AppendReports(&s.settings, nil, status), status))
}

// restoreSettingsInBlock sets the settings in names to their startup values by SET LOCAL, for the rest of the block. At
// the block's end Sluice checks whether the function's RESET outlasts the block.
func (s *session) restoreSettingsInBlock(names []string) (refusal []byte, err error) {
	sets := serversettings.StartupInBlock(&s.settings, names)
	if len(sets) == 0 {
		return nil, nil
	}
	if refusal, err = s.b.exchange(wire.AppendStrings(nil, wire.Query, serversettings.SetSQL(sets...)+"; ")); err != nil || refusal != nil {
		return refusal, err
	}
	for _, c := range sets {
		s.settings.Stage(c)
	}
	s.tx.resets.RecordRestored(sets)
	s.recordRestoredSettings(sets)
	return nil, nil
}

// adoptResetSettings records the RESETs by functions of a committed transaction as if the client had sent them. So the
// backend gets the startup values before the next statement. If known is false, names is incomplete. The session then
// ends after the turn, and no other session gets its backend.
func (s *session) adoptResetSettings(names []string, known bool) {
	b := s.b
	if !known {
		b.suspect = true
		s.pin.RecordLoss()
		return
	}
	b.settings.AdoptResets(&s.settings, names)
}
