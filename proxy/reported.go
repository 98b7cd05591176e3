package proxy

import (
	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file sends a client changed parameters before a ReadyForQuery. Package serversettings decides which ones.

// recordParameter records a ParameterStatus on the backend. Only reportParameters sends parameters to a client.
func (b *backend) recordParameter(frame []byte) {
	name, rest, ok := wire.CutCString(frame[wire.HeaderLen:])
	value, _, ok2 := wire.CutCString(rest)
	if ok && ok2 {
		b.settings.RecordParameter(string(name), string(value))
	}
}

// reportParameters sends the client a ParameterStatus for each parameter whose value the client does not know yet. It
// must be called before any ReadyForQuery.
func (s *session) reportParameters() error {
	m := serversettings.Moment{Failed: s.txStatus() == 'E', Stays: s.keepsBackend(), AtBegin: s.tx.settingsAtBegin}
	if s.b != nil {
		m.Backend, m.Status = &s.b.settings, s.b.status
	}
	if n := len(s.tx.marks); n > 0 && s.tx.marks[n-1].reports != nil {
		m.AtSavepoint = s.tx.marks[n-1].reports
	}
	var now *settings.Reports
	now, s.settings.ReportedFor = s.srv.pool.settings.CurrentReports(&s.settings, m)
	if now == s.settings.Reported {
		return nil
	}
	for _, p := range now.ChangedSince(s.settings.Reported) {
		if s.settings.IsReportedLocal(p.Lower) {
			continue // Sluice sent this parameter when the client changed the setting
		}
		if err := s.sendOrWithhold(wire.AppendStrings(nil, wire.ParameterStatus, p.Name, p.Value)); err != nil {
			return err
		}
	}
	s.settings.Reported = now
	return nil
}

// adoptReportedSettings records for the session the settings that functions changed in the ended transaction, as the
// server reported them. done has the changes that the transaction's own statements made.
func (s *session) adoptReportedSettings(done []rewrite.SettingChange) {
	if !s.b.settings.HasNews(done) {
		return
	}
	s.settings.ApplyCommitted(s.b.settings.AdoptReports(s.settings.InForce, done, s.adoptableNames()))
	s.pinForRole()
	s.b.settings.EndComparison()
}

// pinForRole pins the session to its backend if a function has changed the role there. The role decides the session's
// rights, and no other backend has it. If no more pins are allowed, the session ends, and Sluice closes the backend.
func (s *session) pinForRole() {
	if s.keepsBackend() && !s.pin.IsFound() {
		return
	}
	asksRole := s.srv.pool.leftState.Enabled() && s.b.leftState.NeedsQuery() // checkLeftState queries the role
	if s.b.settings.HasChangedRole(asksRole) {
		s.pinForFoundState(rewrite.PinRole)
	}
}

// pinForFoundState pins the session to its backend, because a query of Sluice has found state of the session there. If
// no more pins are allowed, it returns false. The session then ends after its turn, and Sluice closes the backend.
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
