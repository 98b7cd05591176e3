package serversettings

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// ResetSQL returns SQL that resets all settings of a server's session. It resets the authorization first, since another
// role may not be allowed to reset the others.
func (v *Shared) ResetSQL() string {
	if v.postgres {
		return "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; "
	}
	var b strings.Builder
	for _, name := range settings.OrderByRole(dsqlResets, -1) {
		b.WriteString("RESET " + name + "; ")
	}
	return b.String()
}

// dsqlResets lists the settings that every cluster lets a session change. The role is absent, since only SET LOCAL can
// set it. The map's values are unused (OrderByRole takes a map).
var dsqlResets = map[string]string{"client_encoding": "", "datestyle": "", "extra_float_digits": "", "intervalstyle": "",
	"search_path": "", "timezone": ""}

// SetSQL returns the SQL of a SET or SET LOCAL. A change without a value sets the server's default.
func SetSQL(c rewrite.SettingChange) string {
	verb := "SET "
	if c.Action == rewrite.SetLocal {
		verb = "SET LOCAL "
	}
	return verb + settings.QuoteName(c.Name) + " TO " + cmp.Or(c.SQL, "DEFAULT")
}

// StartupToRestore returns the SETs that restore the client's startup values of settings that the transaction has RESET
// to the server's values. They are sorted by name. A reset for the transaction becomes SET LOCAL.
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
