package serversettings

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file has the rules about a RESET, which puts the server's own values in force. A client expects the values of
// its startup packet, which Sluice must set again.

// StartupToRestore returns the SETs that restore the client's startup values of settings that the transaction has
// RESET to the server's values. They are sorted by name. For a SET LOCAL TO DEFAULT, the result has a SET LOCAL.
func StartupToRestore(of *settings.Client) (sets []rewrite.SettingChange) {
	for _, name := range slices.Sorted(maps.Keys(of.Startup.SQL)) {
		last := of.Staged.LastChange(name)
		if last == nil || last.SQL != "" || last.Action == rewrite.SetLocal && !last.Default {
			continue
		}
		c := rewrite.SettingChange{Action: rewrite.Set, Name: name, SQL: of.Startup.SQL[name], Text: of.Startup.Shown[name]}
		if last.Action == rewrite.SetLocal {
			c.Action = rewrite.SetLocal
		}
		sets = append(sets, c)
	}
	return sets
}

// ResetsStartup reports whether a statement at the server resets a setting to which the client's startup packet gave a
// value. st may be nil.
func ResetsStartup(of *settings.Client, st *rewrite.Statement) bool {
	if st == nil || len(of.Startup.SQL) == 0 {
		return false
	}
	return slices.ContainsFunc(st.Changes, func(c rewrite.SettingChange) bool {
		switch c.Action {
		case rewrite.ResetAll:
			return true
		case rewrite.Reset, rewrite.SetLocal:
			return c.SQL == "" && of.Startup.SQL[c.Name] != ""
		}
		return false
	})
}

// ResetAsSet returns the SET of the client's startup value that replaces a RESET of one setting. ok is false if the
// server gets the RESET itself: without a startup value, or if the server would merge the value with its old value.
func ResetAsSet(of *settings.Client, st *rewrite.Statement) (set rewrite.SettingChange, ok bool) {
	if len(st.Changes) != 1 || st.Changes[0].Action != rewrite.Reset {
		return set, false
	}
	name := st.Changes[0].Name
	value, given := of.Startup.SQL[name]
	if !given || settings.IsMergedByServer(name, value) {
		return set, false
	}
	return rewrite.SettingChange{Action: rewrite.Set, Name: name, SQL: value, Text: of.Startup.Shown[name]}, true
}

// TakeAnsweredResets withdraws the RESETs that Sluice has answered in the current transaction, and returns them as
// changes that the server must make within the transaction. A ROLLBACK then undoes them at the server too, for later
// statements of the same turn.
func TakeAnsweredResets(of *settings.Client) (sets []rewrite.SettingChange) {
	was, now := of.ValuesIfFailed(), of.InForce
	if was == nil {
		return nil
	}
	for _, name := range settings.OrderByRole(was.SQL, 1) {
		c := rewrite.SettingChange{Action: rewrite.Set, Name: name, SQL: now.SQL[name], Text: now.Shown[name]}
		if c.SQL == "" {
			c.Action = rewrite.Reset
		}
		if c.SQL != was.SQL[name] {
			sets = append(sets, c)
		}
	}
	of.InForce = was
	return sets
}

// CheckAfterReset refuses a multi-statement query in which statements follow the RESET of a startup value, since they
// would use the server's value. sql is the whole query. isReplaced reports whether Sluice answers or changes the i-th
// statement.
func CheckAfterReset(of *settings.Client, plan *rewrite.Plan, sql []byte, isReplaced func(i int) bool) error {
	reset, committed := false, false
	for i := range plan.Statements {
		st := &plan.Statements[i]
		if isReplaced(i) {
			continue
		}
		committed = committed || reset && (st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.PrepareTransaction)
		begins := st.Tx.Verb == rewrite.Begin || st.Tx.Chain // the new block would not include the reset
		if reset && !ignoresStartup(of, st, sql) || committed && begins {
			return errResetInside
		}
		reset = reset || ResetsStartup(of, st)
	}
	return nil
}

// ignoresStartup reports whether a statement surely means the same whatever values the client's startup has set. That
// holds for all statements by which pools reset a session. sql is the whole query.
func ignoresStartup(of *settings.Client, st *rewrite.Statement, sql []byte) bool {
	switch {
	case st.End > len(sql):
		return false
	case st.Kind == rewrite.Setting:
		return of.Startup.SQL["datestyle"] == "" || !slices.ContainsFunc(st.Changes, func(c rewrite.SettingChange) bool {
			return c.SQL != "" && settings.IsMergedByServer(c.Name, c.SQL)
		})
	case st.Kind == rewrite.Control:
		return true
	}
	return settingsIndependentText.Match(sql[st.Start:st.End])
}

// settingsIndependentText matches the statements, other than SET and transaction control, by which connection pools
// reset a session. The expression for a SELECT must match the whole query.
var settingsIndependentText = regexp.MustCompile(`(?i)^(unlisten|listen|notify|close|deallocate)\b|^select \d+( as \w+)?$|^select pg_advisory_unlock_all\(\)$`)

// errResetInside refuses a multi-statement query in which other statements follow a RESET of a startup value.
var errResetInside = &wire.Error{Code: retry.StateUnsupported, Message: "a RESET to a value of the client's startup must not stand in front of other statements in one string",
	Hint: "Send it in a request of its own, or at the end of the string."}

// TxResets records the settings that functions may have reset in the current transaction. The zero TxResets has none.
type TxResets struct {
	possible bool
	restored []string // settings that Sluice has restored since
}

// Mark records that the next statement may reset settings of the client's startup packet.
func (r *TxResets) Mark() { r.possible = true }

// ArePossible reports whether a statement of the transaction may have reset settings.
func (r *TxResets) ArePossible() bool { return r.possible }

// RecordRestored records that Sluice has restored values of the client's startup packet for the rest of the block.
func (r *TxResets) RecordRestored(sets []rewrite.SettingChange) {
	for _, c := range sets {
		if !slices.Contains(r.restored, c.Name) {
			r.restored = append(r.restored, c.Name)
		}
	}
}

// FindSQL returns a query for the names of those startup settings whose values come from no SET of the client. If
// ended is set, the transaction has ended, and the query compares the values of settings that Sluice has restored.
// For a setting that pg_settings lacks, it checks for an empty value.
func (r *TxResets) FindSQL(of *settings.Client, ended bool) string {
	query := "SELECT pg_catalog.lower(name) FROM pg_catalog.pg_settings WHERE pg_catalog.lower(name) OPERATOR(pg_catalog.=) ANY (" +
		sqlTextArray(slices.Sorted(maps.Keys(of.Startup.SQL))) + ") AND (source OPERATOR(pg_catalog.<>) 'session'"
	if ended && len(r.restored) > 0 {
		query += " OR setting OPERATOR(pg_catalog.=) reset_val AND pg_catalog.lower(name) OPERATOR(pg_catalog.=) ANY (" + sqlTextArray(r.restored) + ")"
	}
	query += ")"
	if unlisted := unlistedSettings(of); len(unlisted) > 0 {
		query += " UNION SELECT name FROM pg_catalog.unnest(" + sqlTextArray(unlisted) + ") AS name" +
			" WHERE COALESCE(pg_catalog.current_setting(name, true), '') OPERATOR(pg_catalog.=) CASE WHEN name OPERATOR(pg_catalog.=) 'role' THEN 'none' ELSE '' END"
	}
	return query
}

// unlistedSettings returns, sorted, the startup's settings that have a value but may not be in pg_settings: role, and
// names with a dot.
func unlistedSettings(of *settings.Client) (names []string) {
	for name := range of.Startup.SQL {
		value := of.InForce.Shown[name]
		if last := of.Staged.LastChange(name); last != nil && last.SQL != "" {
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

// StartupInBlock returns SETs LOCAL that restore the startup values of the named settings for the rest of a block.
func StartupInBlock(of *settings.Client, names []string) (sets []rewrite.SettingChange) {
	for _, name := range names {
		sets = append(sets, rewrite.SettingChange{Action: rewrite.SetLocal, Name: name, SQL: of.Startup.SQL[name], Text: of.Startup.Shown[name]})
	}
	return sets
}

// AdoptResets records resets by functions of a committed transaction like RESETs of the client. The backend b gets the
// startup values before the next statement.
func (b *Backend) AdoptResets(of *settings.Client, names []string) {
	var resets []rewrite.SettingChange
	for _, name := range names {
		resets = append(resets, rewrite.SettingChange{Action: rewrite.Reset, Name: name})
	}
	of.ApplyCommitted(resets)
	b.RecordCommitted(resets)
}
