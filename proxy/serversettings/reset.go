package serversettings

import (
	"cmp"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// ResetSQL returns SQL that resets all settings of a server's session. It resets the authorization first, since
// another role may not be allowed to reset the other settings.
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

// SetSQL returns the SQL of statements SET or SET LOCAL, with "; " between them. A change without a value sets the
// server's default.
func SetSQL(changes ...rewrite.SettingChange) string {
	var sql strings.Builder
	for i, c := range changes {
		if i > 0 {
			sql.WriteString("; ")
		}
		verb := "SET "
		if c.Action == rewrite.SetLocal {
			verb = "SET LOCAL "
		}
		sql.WriteString(verb + settings.QuoteName(c.Name) + " TO " + cmp.Or(c.SQL, "DEFAULT"))
	}
	return sql.String()
}
