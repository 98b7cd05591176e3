package serversettings

import (
	"github.com/sluice-proxy/sluice/proxy/settings"
)

// As in PostgreSQL, clients get changed parameters before a ReadyForQuery. Backend records a server's reports, which
// CurrentReports compares with the client's values. So a client gets correct values even if its backend was lost or
// replaced.

// MayReport reports whether a parameter may have changed since the client last got it. It mostly compares pointers.
func (b *Backend) MayReport(of *settings.Client) bool {
	return b.reported != of.Reported || of.InForce != of.ReportedFor || of.HasPendingChanges()
}

// Moment has the facts that CurrentReports needs about a session, besides its settings.
type Moment struct {
	// Backend is the session's backend, or nil for none. Status is the status byte of its last ReadyForQuery.
	Backend *Backend
	Status  byte
	// Failed says that the client is in a failed block. Stays says that the session keeps its backend.
	Failed, Stays bool
	// AtBegin are the backend's settings when the transaction began. AtSavepoint are the parameters that the client had
	// been sent at the newest savepoint that Sluice emulates, or nil.
	AtBegin     *settings.Values
	AtSavepoint *settings.Reports
}

// CurrentReports returns the parameters that a client must know before the next ReadyForQuery. underValues are the
// settings to which the parameters belong, for Client.ReportedFor. The first case that applies gives the values:
//
//   - In a failed block in which Sluice answered a RESET: the values before the RESET.
//   - In another failed block on a cluster: the values at the newest savepoint, or before the block.
//   - In a block, or while the session keeps a backend: the backend's own reports.
//   - Otherwise: the session's settings, as a backend with these settings reports them.
func (v *Shared) CurrentReports(of *settings.Client, m Moment) (now *settings.Reports, underValues *settings.Values) {
	if undone := of.ValuesIfFailed(); undone != nil && m.Failed {
		return v.reportsUnder(m.Backend, undone), undone
	}
	switch b := m.Backend; {
	case v.isBlockUndone(of, m):
		return v.reportsBeforeBlock(of, m), nil
	case b != nil && (m.Status != 'I' || m.Stays):
		return b.effectiveReports(of, m.Status == 'I'), nil
	case of.ReportedFor != of.InForce || b != nil && b.reported != of.Reported:
		return v.reportsUnder(b, of.InForce), of.InForce
	}
	return of.Reported, of.ReportedFor
}

// isBlockUndone reports whether a block has failed on a cluster, which has no savepoints. If so, the cluster has
// undone all settings of the block, even if it reports this only after the ROLLBACK.
func (v *Shared) isBlockUndone(of *settings.Client, m Moment) bool {
	return !v.postgres && m.Backend != nil && m.Status == 'E' && m.Failed && !of.HasSavepoint()
}

// reportsBeforeBlock returns the parameters that the backend reported before the failed block, or at the newest
// savepoint that Sluice emulates.
func (v *Shared) reportsBeforeBlock(of *settings.Client, m Moment) *settings.Reports {
	if m.AtSavepoint != nil {
		return m.AtSavepoint
	}
	if m.AtBegin == of.InForce {
		return v.reports.Intern(m.Backend.idle)
	}
	return v.deriveReports(of.InForce) // a part of the request has committed
}

// reportsUnder returns the parameters that a server reports if a client has the settings under. If the backend b has
// these settings, its reports are the result, and are cached with the settings. Otherwise the result is derived from
// the server's defaults and the client's settings. b may be nil.
func (v *Shared) reportsUnder(b *Backend, under *settings.Values) *settings.Reports {
	if b != nil && b.applied.Equal(under) {
		b.share()
		under.Seen.Store(b.reported)
		return b.reported
	}
	if r := under.Seen.Load(); r != nil {
		return r
	}
	return v.deriveReports(under)
}

// deriveReports derives the parameters that a server reports from the server's defaults and the client's settings.
func (v *Shared) deriveReports(under *settings.Values) *settings.Reports {
	r := v.Parameters()
	for name, value := range under.Shown {
		if name == "datestyle" {
			value = reportedValue(v.Parameters(), name, value)
		}
		if was, ok := r.Get(name); ok && was != value && under.SQL[name] != "" {
			r = r.With(name, value)
		}
	}
	return v.reports.Intern(r)
}

// effectiveReports returns the backend's reports. If a RESET has set the server's own value of a startup setting, it
// returns the client's startup value instead. Outside a transaction (idle) it adds settings that the server gets with
// the next statement, because they are in force for the client.
func (b *Backend) effectiveReports(of *settings.Client, idle bool) *settings.Reports {
	b.share()
	now := b.reported
	unstaged := len(of.Staged.Changes) == 0
	if unstaged && b.applied.Equal(of.InForce) {
		return now
	}
	for _, c := range StartupToRestore(of) {
		reset, _ := b.dialled.Get(c.Name)
		if is, _ := now.Get(c.Name); is != reset {
			continue // a failed block has undone the RESET
		}
		now = now.WithExisting(c.Name, reportedValue(b.shared.Parameters(), c.Name, of.Startup.Shown[c.Name]))
	}
	if unstaged && idle { // the next statement sends the session's settings
		for name := range b.applied.SQL {
			if usual, ok := b.dialled.Get(name); ok && of.InForce.SQL[name] == "" {
				now = now.WithExisting(name, usual)
			}
		}
		for name, sql := range of.InForce.SQL {
			if value := of.InForce.Shown[name]; value != "" && b.applied.SQL[name] != sql {
				now = now.WithExisting(name, reportedValue(b.shared.Parameters(), name, value))
			}
		}
	}
	return b.shared.reports.Intern(now)
}
