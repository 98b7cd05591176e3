package proxy

import (
	"reflect"
	"slices"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// As in PostgreSQL, clients get changed parameters before a ReadyForQuery. Sluice records a backend's reports, and
// compares them with the client's values. So a client gets correct values even if its backend was lost or replaced.

// recordParameter records a ParameterStatus on the backend. Only reportParameters sends parameters to a client. A
// Reports value is immutable, so that a new value of a parameter makes a new Reports.
func (b *backend) recordParameter(frame []byte) {
	name, rest, ok := wire.CutCString(frame[wire.HeaderLen:])
	value, _, ok2 := wire.CutCString(rest)
	if ok && ok2 {
		b.updateReadingMode(string(name), string(value))
	}
	if ok && ok2 && b.reported != nil {
		b.reported = b.reported.With(string(name), string(value))
	}
}

// mayReportParameters reports whether a parameter may have changed for the client in this turn. It runs at every
// ReadyForQuery and mostly compares two pointers. The session must have a backend.
func (s *session) mayReportParameters() bool {
	return s.b.reported != s.settings.Reported || s.settings.InForce != s.settings.ReportedFor || s.settings.HasPendingChanges()
}

// reportParameters sends the client a ParameterStatus for each parameter whose value the client does not know yet. It
// must be called before any ReadyForQuery. The first case that applies gives the values:
//
//   - In a failed block in which Sluice answered a RESET: the values before the RESET.
//   - In another failed block on a cluster: the values at the newest savepoint, or before the block.
//   - In a block, or while the session keeps a backend: the backend's own reports.
//   - Otherwise: the session's settings, as a backend with these settings reports them.
func (s *session) reportParameters() error {
	now := s.settings.Reported
	if undone := s.settings.ValuesIfFailed(); undone != nil && s.txStatus() == 'E' {
		now, s.settings.ReportedFor = s.reportsUnder(undone), undone
	} else if s.isBlockUndone() {
		now, s.settings.ReportedFor = s.reportsBeforeBlock(), nil
	} else if s.b != nil && (s.b.status != 'I' || s.keepsBackend()) {
		now, s.settings.ReportedFor = s.effectiveReports(), nil
	} else if s.settings.ReportedFor != s.settings.InForce || s.b != nil && s.b.reported != s.settings.Reported {
		now, s.settings.ReportedFor = s.reportsUnder(s.settings.InForce), s.settings.InForce
	}
	if now == s.settings.Reported {
		return nil
	}
	for _, p := range now.ChangedSince(s.settings.Reported) {
		if s.settings.IsReportedLocal(p.Lower) {
			continue // sent when the setting was set
		}
		if err := s.sendOrWithhold(wire.AppendStrings(nil, wire.ParameterStatus, p.Name, p.Value)); err != nil {
			return err
		}
	}
	s.settings.Reported = now
	return nil
}

// isBlockUndone reports whether a block has failed on a cluster, which has no savepoints. The cluster has then undone
// all settings of the block, even if it reports this only after the ROLLBACK.
func (s *session) isBlockUndone() bool {
	return s.srv.cfg.Kind == DSQL && s.b != nil && s.b.status == 'E' && s.txStatus() == 'E' && !s.settings.HasSavepoint()
}

// reportsBeforeBlock returns the parameters that the backend reported before the failed block, or at the newest
// savepoint that Sluice emulates.
func (s *session) reportsBeforeBlock() *settings.Reports {
	if n := len(s.tx.marks); n > 0 && s.tx.marks[n-1].reports != nil {
		return s.tx.marks[n-1].reports
	}
	if s.tx.settingsAtBegin == s.settings.InForce {
		return s.srv.sharedReports.Intern(s.b.idle)
	}
	return s.deriveReports(s.settings.InForce) // a part of the request has committed
}

// reportsUnder returns the parameters that a server reports if a client has the settings of. If the backend has these
// settings, its reports are the result, and are cached with the settings. Otherwise the result is derived from the
// server's defaults and the client's settings.
func (s *session) reportsUnder(of *settings.Values) *settings.Reports {
	if b := s.b; b != nil && b.applied != nil && b.applied.Equal(of) {
		b.reported = s.srv.sharedReports.Intern(b.reported)
		of.Seen.Store(b.reported)
		return b.reported
	}
	if r := of.Seen.Load(); r != nil {
		return r
	}
	return s.deriveReports(of)
}

// deriveReports derives the parameters that a server reports from the server's defaults and the client's settings.
func (s *session) deriveReports(of *settings.Values) *settings.Reports {
	r := s.srv.serverParameters()
	for name, value := range of.Shown {
		if name == "datestyle" {
			value = valueAsReported(s.srv.serverParameters(), name, value)
		}
		if was, ok := r.Get(name); ok && was != value && of.SQL[name] != "" {
			r = r.With(name, value)
		}
	}
	return s.srv.sharedReports.Intern(r)
}

// effectiveReports returns the backend's reports. If a RESET has set the server's own value of a startup setting, it
// returns the client's startup value instead. Outside a transaction it adds settings that the server gets with the next
// statement, because they are in force for the client.
func (s *session) effectiveReports() *settings.Reports {
	s.b.reported = s.srv.sharedReports.Intern(s.b.reported)
	now := s.b.reported
	if len(s.settings.Staged.Changes) == 0 && (s.b.applied == nil || s.b.applied.Equal(s.settings.InForce)) {
		return now
	}
	for _, c := range s.startupSettingsToRestore() {
		reset, _ := s.b.dialled.Get(c.Name)
		if is, _ := now.Get(c.Name); is != reset {
			continue // a failed block has undone the RESET
		}
		now = now.WithExisting(c.Name, valueAsReported(s.srv.serverParameters(), c.Name, s.settings.Startup.Shown[c.Name]))
	}
	if len(s.settings.Staged.Changes) == 0 && s.b.status == 'I' { // the next statement sends the session's settings
		for name := range s.b.applied.SQL {
			if usual, ok := s.b.dialled.Get(name); ok && s.settings.InForce.SQL[name] == "" {
				now = now.WithExisting(name, usual)
			}
		}
		for name, sql := range s.settings.InForce.SQL {
			if value := s.settings.InForce.Shown[name]; value != "" && s.b.applied.SQL[name] != sql {
				now = now.WithExisting(name, valueAsReported(s.srv.serverParameters(), name, value))
			}
		}
	}
	return s.srv.sharedReports.Intern(now)
}

// fixedParameters are reported parameters that no client can set.
var fixedParameters = []string{"in_hot_standby", "integer_datetimes", "is_superuser", "server_encoding", "server_version", "session_authorization"}

// adoptReportedSettings compares, after a transaction, the backend's reports with the settings that its statements
// made. A difference, such as a set_config in a function, becomes a setting of the session and of the backend. The next
// comparison starts from these reports.
//
// done has the settings that the transaction has set. Their unchanged values are not reported a second time.
func (s *session) adoptReportedSettings(done []rewrite.SettingChange) {
	b := s.b
	if b.reported == b.idle && len(done) == 0 || b.applied == nil {
		return
	}
	was := b.idle
	for _, c := range done {
		was = was.Without(c.Name)
	}
	var of, ofSession []rewrite.SettingChange
	for _, p := range b.reported.ChangedSince(was) {
		if p.Lower == appName && s.canAdoptAppName() {
			of = append(of, s.recordAppName(p.Value)) // the next transaction resets the name
			continue
		}
		// The report of a list is not the text of a SET. For settings that Sluice enforces, the server's report is ignored.
		if slices.Contains(fixedParameters, p.Lower) || rewrite.ListSettings[p.Lower] || s.srv.treat.ForName(p.Lower) != settings.Carried {
			continue
		}
		sql, given := b.applied.SQL[p.Lower]
		expected := b.applied.Shown[p.Lower]
		if !given {
			expected, _ = b.dialled.Get(p.Lower)
		}
		if p.Value == expected {
			continue
		}
		c := rewrite.SettingChange{Action: rewrite.Set, Name: p.Lower, SQL: settings.QuoteLiteral(p.Value), Text: p.Value}
		of = append(of, c)
		// The session may have set a newer value of the setting that the backend does not have yet. That value stays.
		if s.settings.InForce.SQL[p.Lower] == sql {
			ofSession = append(ofSession, c)
		}
	}
	if len(of) > 0 {
		b.applied = s.srv.interned.Intern(b.applied.WithChanges(of, s.srv.interned.NoSettings()))
		s.settings.ApplyCommitted(ofSession)
	}
	s.pinForRole()
	b.idle = b.reported
}

// pinForRole pins the session if a function has changed its role. The role decides the session's rights, and no other
// backend has that role. If no more pins are allowed, the session ends, and its backend is closed.
func (s *session) pinForRole() {
	b := s.b
	if s.keepsBackend() && !s.pin.IsFound() {
		return
	}
	for _, name := range []string{"is_superuser", "session_authorization"} {
		was, _ := b.idle.Get(name)
		if is, _ := b.reported.Get(name); is == was || name == "is_superuser" && s.srv.asksBehind && b.leftState.NeedsQuery() {
			continue // checkLeftState queries the role
		}
		s.pinForFoundState(rewrite.PinRole)
		return
	}
}

// pinForFoundState pins the session for state that a query found on the backend after a transaction. If no pin is
// allowed, it returns false, the session ends after its turn, and its backend is closed.
func (s *session) pinForFoundState(why rewrite.PinReason) bool {
	// The plan has two statements, so that pinBackend makes a pin which no failed statement removes.
	if s.pinBackend(&rewrite.Plan{Pin: why, Statements: make([]rewrite.Statement, 2)}) != nil {
		s.b.suspect = true
		s.pin.RecordLoss()
		s.srv.metrics.CountRefusal(metrics.FeatureSetting)
		return false
	}
	return true
}

// serverParameters returns the parameters of the last dialled backend, plus those that clients require. It caches the
// result by the identity of the backend's map.
func (srv *Server) serverParameters() *settings.Reports {
	seen := srv.backends.Params()
	r := srv.reports.Load()
	if r != nil && reflect.ValueOf(r.From).Pointer() == reflect.ValueOf(seen).Pointer() {
		return r
	}
	r = settings.WithDefaults(seen)
	srv.reports.Store(r)
	return r
}
