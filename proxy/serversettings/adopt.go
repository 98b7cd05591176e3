package serversettings

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// fixedParameters are reported parameters that no client can set.
var fixedParameters = []string{"in_hot_standby", "integer_datetimes", "is_superuser", "server_encoding", "server_version", "session_authorization"}

// HasNews reports whether AdoptReports has something to compare, after a transaction that has set the settings in done.
func (b *Backend) HasNews(done []rewrite.SettingChange) bool {
	return b.reported != b.idle || len(done) > 0
}

// AdoptReports compares, after a transaction, the backend's reports with the settings that its statements made. A
// difference, such as a set_config in a function, becomes a setting of the backend. The returned changes become
// settings of the client, whose current settings are inForce. Then the caller calls EndComparison.
//
// done has the settings that the transaction has set. Their unchanged values are not reported a second time. names
// takes a reported application name. If names is nil, the name is a setting like others.
func (b *Backend) AdoptReports(inForce *settings.Values, done []rewrite.SettingChange, names *AppNames) (ofClient []rewrite.SettingChange) {
	was := b.idle
	for _, c := range done {
		was = was.Without(c.Name)
	}
	var of []rewrite.SettingChange
	for _, p := range b.reported.ChangedSince(was) {
		if p.Lower == AppName && names != nil {
			of = append(of, names.recordLeft(p.Value)) // the next transaction resets the name
			continue
		}
		// The report of a list is not the text of a SET. For settings that Sluice enforces, the server's report is
		// ignored.
		if slices.Contains(fixedParameters, p.Lower) || rewrite.ListSettings[p.Lower] || b.shared.treat.ForName(p.Lower) != settings.Carried {
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
		if inForce.SQL[p.Lower] == sql {
			ofClient = append(ofClient, c)
		}
	}
	b.RecordCommitted(of)
	return ofClient
}

// HasChangedRole reports whether the server has reported another role since the last transaction. asksRole says that
// the caller will ask the backend for its role, so that only a new session_authorization counts.
func (b *Backend) HasChangedRole(asksRole bool) bool {
	for _, name := range []string{"is_superuser", "session_authorization"} {
		was, _ := b.idle.Get(name)
		if is, _ := b.reported.Get(name); is != was && (name != "is_superuser" || !asksRole) {
			return true
		}
	}
	return false
}

// MayHaveReset reports whether startup settings of the client may have been reset, as the reports show. silent says
// that a setting that the server does not report may have been reset too.
func (b *Backend) MayHaveReset(of *settings.Client, silent bool) bool {
	for name := range of.Startup.SQL {
		is, reported := b.reported.Get(name)
		usual, _ := b.dialled.Get(name)
		switch {
		case reported && is == usual && is != reportedValue(b.shared.Parameters(), name, of.Startup.Shown[name]):
			return true
		case !reported && silent:
			return true
		}
	}
	return false
}

// EndComparison ends a comparison of AdoptReports. The next comparison starts from the backend's present reports.
func (b *Backend) EndComparison() { b.idle = b.reported }
