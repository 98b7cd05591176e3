package proxy

import (
	"maps"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file restores startup values of settings. A RESET inside a function or a DO block puts the server's own values
// in force. trackResettingCalls marks the turn, handleReadyForQuery calls mayHaveResetSettings, and
// settleRestoringSettings finds and restores the settings before the turn's ReadyForQuery. Until then the server's
// values are in force.

// trackResettingCalls sets turn.resets if a plan that is about to be sent may reset settings inside functions.
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
		s.t.resets, s.tx.resets = true, true
	}
}

// mayHaveResetSettings reports, after the turn's ReadyForQuery, whether settings of the client's startup may have been
// reset. Reported parameters show most resets. If the backend returns to the reservoir, it is reset anyway.
func (s *session) mayHaveResetSettings() bool {
	t, b := s.t, s.b
	if s.dedicated || t.phase != phaseLive || s.tx.job.IsOpen() || t.batches != nil || !s.tx.resets || b.status == 'E' || b.status == 'T' && !t.resets {
		return false
	}
	return b.settings.MayHaveReset(&s.settings, b.status == 'T' || s.keepsBackend())
}

// findResetSettings returns the names of the startup's settings whose values come from no SET of this session. It
// compares values for a setting that Sluice restored in the ended block. For a setting that pg_settings lacks, it
// checks for an empty value. refusal is the server's error.
func (s *session) findResetSettings() (names []string, refusal []byte, err error) {
	if !s.finishBackendWrite(exchangeTimeout) || !s.waitOutCancel() {
		return nil, nil, errDeadPath
	}
	query := "SELECT pg_catalog.lower(name) FROM pg_catalog.pg_settings WHERE pg_catalog.lower(name) OPERATOR(pg_catalog.=) ANY (" +
		sqlTextArray(slices.Sorted(maps.Keys(s.settings.Startup.SQL))) + ") AND (source OPERATOR(pg_catalog.<>) 'session'"
	if s.b.status == 'I' && len(s.tx.putBack) > 0 {
		query += " OR setting OPERATOR(pg_catalog.=) reset_val AND pg_catalog.lower(name) OPERATOR(pg_catalog.=) ANY (" + sqlTextArray(s.tx.putBack) + ")"
	}
	query += ")"
	if unlisted := s.unlistedSettings(); len(unlisted) > 0 {
		query += " UNION SELECT name FROM pg_catalog.unnest(" + sqlTextArray(unlisted) + ") AS name" +
			" WHERE COALESCE(pg_catalog.current_setting(name, true), '') OPERATOR(pg_catalog.=) CASE WHEN name OPERATOR(pg_catalog.=) 'role' THEN 'none' ELSE '' END"
	}
	row := func(row []byte) {
		if columns := textColumns(row); len(columns) == 1 {
			names = append(names, columns[0])
		}
	}
	refusal, err = s.b.exchangeRows(wire.AppendStrings(nil, wire.Query, query), row)
	if err == nil && refusal != nil && s.b.status == 'I' { // usually because of the client's statement_timeout
		names = nil
		query = "BEGIN; SET LOCAL statement_timeout TO 0; " + query + "; COMMIT"
		if refusal, err = s.b.exchangeRows(wire.AppendStrings(nil, wire.Query, query), row); err == nil && s.b.status != 'I' {
			err = errDeadPath
		}
	}
	return names, refusal, err
}

// unlistedSettings returns, sorted, the startup's settings that have a value but may not be in pg_settings: role, and
// names with a dot.
func (s *session) unlistedSettings() (names []string) {
	for name := range s.settings.Startup.SQL {
		value := s.settings.InForce.Shown[name]
		if last := s.settings.Staged.LastChange(name); last != nil && last.SQL != "" {
			value = last.Text
		}
		if strings.Contains(name, ".") && value != "" || name == "role" && !strings.EqualFold(value, "none") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// sqlTextArray returns an SQL expression for an array of the texts.
func sqlTextArray(texts []string) string {
	var all []string
	for _, text := range texts {
		all = append(all, settings.QuoteLiteral(text))
	}
	return "ARRAY[" + strings.Join(all, ", ") + "]::pg_catalog.text[]"
}

// settleRestoringSettings ends a turn that may have reset settings of the startup, after the server's ReadyForQuery,
// which the client does not get. It restores the settings, in a block for its rest, and sends Sluice's own
// ReadyForQuery. If the backend is lost meanwhile, the next statement fails.
func (s *session) settleRestoringSettings() error {
	t, b := s.t, s.b
	t.restoresSettings = false
	was := b.status
	s.waits.End() // a cancel must not hit Sluice's own statements
	if was == 'T' && s.t.logs && s.tx.log != nil {
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
		status, t.errorTold = 'E', true
		if err := s.sendOrWithhold(errSettingNotApplied(refusal).Append(nil)); err != nil {
			return err
		}
	}
	if was == 'I' {
		s.settleSettings(t.errorTold)
		s.endLocalSettings(t.errorTold)
		s.adoptResetSettings(names, err == nil && refusal == nil)
	}
	if err := s.reportParameters(); err != nil {
		return err
	}
	if err := s.settleTurn(status); err != nil {
		return err
	}
	return s.sendOrWithhold(wire.AppendReadyForQuery(s.appendParameterStatus(nil, status), status))
}

// restoreSettingsInBlock restores startup values of the settings names by SET LOCAL for the rest of the block. The end
// of the block shows whether the reset was to last longer.
func (s *session) restoreSettingsInBlock(names []string) (refusal []byte, err error) {
	var sets []rewrite.SettingChange
	var sql strings.Builder
	for _, name := range names {
		c := rewrite.SettingChange{Action: rewrite.SetLocal, Name: name, SQL: s.settings.Startup.SQL[name], Text: s.settings.Startup.Shown[name]}
		sets = append(sets, c)
		sql.WriteString(serversettings.SetSQL(c) + "; ")
	}
	if len(sets) == 0 {
		return nil, nil
	}
	if refusal, err = s.b.exchange(wire.AppendStrings(nil, wire.Query, sql.String())); err != nil || refusal != nil {
		return refusal, err
	}
	for _, c := range sets {
		s.settings.Stage(c)
		if !slices.Contains(s.tx.putBack, c.Name) {
			s.tx.putBack = append(s.tx.putBack, c.Name)
		}
	}
	s.recordRestoredSettings(sets)
	return nil, nil
}

// adoptResetSettings records resets by functions of a committed transaction like RESETs of the client. The backend gets
// the startup values before the next statement. If the resets are unknown, the session ends after the turn, and no
// other session gets its backend.
func (s *session) adoptResetSettings(names []string, known bool) {
	b := s.b
	if !known {
		b.suspect = true
		s.pin.RecordLoss()
		return
	}
	var resets []rewrite.SettingChange
	for _, name := range names {
		resets = append(resets, rewrite.SettingChange{Action: rewrite.Reset, Name: name})
	}
	if len(resets) > 0 {
		s.settings.ApplyCommitted(resets)
		b.settings.RecordCommitted(resets)
	}
}
