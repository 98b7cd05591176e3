package serversettings

import (
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Backend is Sluice's record of the settings of one backend. The goroutine that uses the backend owns the record.
type Backend struct {
	shared *Shared
	// applied are the settings in force on the server.
	applied *settings.Values
	// unseen is set when a function may have changed a setting whose change the server does not report.
	unseen bool
	// reported are the parameters that the server last reported. dialled are those at the start of the connection, and
	// idle those at the end of the last transaction.
	reported, dialled, idle *settings.Reports
	// reading is how the server parses texts under its reported settings. usual is how it did when dialled.
	reading, usual rewrite.ReadingMode
}

// NewBackend returns the settings of a backend that has just been dialled. params are the parameters that the server
// has reported.
func (v *Shared) NewBackend(params map[string]string) Backend {
	b := Backend{shared: v, applied: v.values.NoSettings(), reported: settings.WithDefaults(params)}
	b.dialled, b.idle = b.reported, b.reported
	for name, value := range params {
		b.usual |= rewrite.ReadingModeFor(name, value)
	}
	b.reading = b.usual
	return b
}

// RecordParameter records a parameter that the server reports. A Reports value is immutable, so that a new value of a
// parameter makes a new Reports.
func (b *Backend) RecordParameter(name, value string) {
	switch name {
	case "client_encoding":
		b.reading = b.reading&^rewrite.Recoded | rewrite.ReadingModeFor(name, value)
	case "standard_conforming_strings":
		b.reading = b.reading&^rewrite.Escaping | rewrite.ReadingModeFor(name, value)
	}
	b.reported = b.reported.With(name, value)
}

// Reported returns the parameters that the server last reported.
func (b *Backend) Reported() *settings.Reports { return b.reported }

// Reading returns how the server reads texts (encoding, backslashes) under the settings that it has reported.
func (b *Backend) Reading() rewrite.ReadingMode { return b.reading }

// NextReading returns how the server will read the next text, as reported and applied settings (encoding, say) imply.
func (b *Backend) NextReading() rewrite.ReadingMode { return b.reading | b.applied.Reading }

// MayHaveUnseen reports whether a function may have changed a setting whose change the server does not report.
func (b *Backend) MayHaveUnseen() bool { return b.unseen }

// RecordUnseen records that statements may have changed settings whose changes the server does not report.
func (b *Backend) RecordUnseen() { b.unseen = true }

// Change is a request that gives a backend other settings. The caller sends SQL, and calls Backend.RecordApplied after
// the server's success.
type Change struct {
	// SQL are the statements, or "" for none.
	SQL string
	// Resets says that the SQL resets all settings first, also those that functions have changed unseen.
	Resets bool
}

// ChangeTo returns the Change that gives the idle backend other settings (to). Equal settings usually share a
// pointer, and need no SQL. keepsUnseen says that settings changed by functions stay, as the client's own.
func (b *Backend) ChangeTo(to *settings.Values, keepsUnseen bool) Change {
	if b.unseen && !keepsUnseen {
		return Change{SQL: b.shared.ResetSQL() + b.shared.AllSQL(to), Resets: true}
	}
	if b.applied.Equal(to) {
		return Change{}
	}
	return Change{SQL: settings.DiffSQL(b.applied, to)}
}

// RecordEqual records that the backend has the given settings, for which ChangeTo needed no SQL. Later comparisons
// then find equal pointers.
func (b *Backend) RecordEqual(to *settings.Values) { b.applied = to }

// ChangeToNone returns the Change that resets a backend whose settings could affect Sluice's own queries. On a DSQL
// cluster, no setting affects them.
func (b *Backend) ChangeToNone() Change {
	if !b.shared.postgres || !b.unseen && b.applied == b.shared.values.NoSettings() {
		return Change{}
	}
	return Change{SQL: b.shared.ResetSQL(), Resets: true}
}

// RecordApplied records that the backend has the settings to. resets says that the Change reset all settings first.
// AdoptReports will compare later reports with the parameters reported so far.
func (b *Backend) RecordApplied(to *settings.Values, resets bool) {
	b.unseen = b.unseen && !resets
	b.applied = to
	b.share()
	b.idle = b.reported
}

// RecordReset records that the backend was reset and has no client's settings.
func (b *Backend) RecordReset() { b.RecordApplied(b.shared.values.NoSettings(), true) }

// RecordCommitted records changes of settings by the statements of a transaction that has committed.
func (b *Backend) RecordCommitted(changes []rewrite.SettingChange) {
	if len(changes) > 0 {
		b.applied = b.shared.values.Intern(b.applied.WithChanges(changes, b.shared.values.NoSettings()))
	}
}

// DropLongValues drops the client's long values from the recorded settings of a returned backend.
func (b *Backend) DropLongValues() {
	if b.applied.Bytes() > settings.MaxBareValue {
		b.applied = b.shared.values.Intern(b.applied.WithoutLongValues())
	}
}

// NewParameters returns the parameters whose values differ from those at the start of the connection.
func (b *Backend) NewParameters() []settings.Param { return b.reported.ChangedSince(b.dialled) }

// share replaces the reported parameters by the shared Reports that are equal to them.
func (b *Backend) share() { b.reported = b.shared.reports.Intern(b.reported) }
