package mapping

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file parses values of search_path, and finds the search path of a session. Nothing here queries a server.
//
// The search path decides which relation a name without a schema refers to, and so whether columns are mapped. If a
// value cannot be parsed for certain, the path is unknown, and the planner refuses names that are mapped in any schema.

// ownSchema in a search path means the schema with the user's name.
const ownSchema = "$user"

// parseShownPath parses a search path as a server shows it (`"$user", public`). ok is false for another value.
func parseShownPath(value string) (path []string, ok bool) {
	return parsePathConstants(settings.StartupSQL("search_path", value))
}

// parsePathConstants parses a search path as in a SET, which is a list of string constants. ok is false for anything
// else. The planner writes each SET in this form, with folded names, so that 'a, b' in one constant is one schema.
func parsePathConstants(sql string) (path []string, ok bool) {
	path = []string{}
	for rest := sql; ; {
		rest = strings.TrimLeft(rest, " ")
		var name string
		if name, rest, ok = cutStringConstant(rest); !ok {
			return nil, false
		}
		if name != "" { // "" is no schema
			path = append(path, name)
		}
		rest = strings.TrimLeft(rest, " ")
		if rest == "" {
			return path, true
		}
		if rest[0] != ',' {
			return nil, false
		}
		rest = rest[1:]
	}
}

// cutStringConstant parses the SQL string constant at the start of a text, as settings.QuoteLiteral and the planner
// write it. rest is the remaining text. ok is false for another start, or an escape other than a doubled backslash.
func cutStringConstant(text string) (value, rest string, ok bool) {
	escapes := strings.HasPrefix(text, "E'")
	if escapes {
		text = text[1:]
	}
	if !strings.HasPrefix(text, "'") {
		return "", "", false
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && escapes:
			if i++; i == len(text) || text[i] != '\\' {
				return "", "", false
			}
		case c == '\'':
			if i+1 == len(text) || text[i+1] != '\'' {
				return b.String(), text[i+1:], true
			}
			i++
		}
		b.WriteByte(text[i])
	}
	return "", "", false
}

// MayChangeResolution reports whether changes of settings may make names refer to other relations. A change without a
// setting's name may be of any setting.
func MayChangeResolution(changes []rewrite.SettingChange) bool {
	return slices.ContainsFunc(changes, func(c rewrite.SettingChange) bool {
		switch c.Name {
		case "", "search_path", "role", "session_authorization", settings.UnseenChange.Name:
			return true
		}
		return c.Action == rewrite.ResetAll || c.Action == rewrite.DiscardAll
	})
}

// effectiveSearchPath returns the search path of a client, or usual if the client has set none. user is the backends'
// role, which $user means until the client sets another role. Changes in the open transaction take precedence. ok is
// false if the path is unknown.
func effectiveSearchPath(c *settings.Client, user string, usual []string) (path []string, ok bool) {
	sql, ok := searchPathSQL(c)
	if !ok {
		return nil, false
	}
	if path = usual; sql != "" {
		if path, ok = parsePathConstants(sql); !ok {
			return nil, false
		}
	}
	if !slices.Contains(path, ownSchema) {
		return path, true
	}
	if c.InForce.SQL["role"] != "" || c.Staged.MayHaveChanged("role") || c.Staged.MayHaveChanged("session_authorization") {
		return nil, false
	}
	path = slices.Clone(path)
	for i, name := range path {
		if name == ownSchema {
			path[i] = user
		}
	}
	return path, true
}

// searchPathSQL returns the value of search_path as SQL, or "" for the server's default. ok is false after a change
// with an unparsed name or value. A RESET in a transaction returns to the client's startup value.
func searchPathSQL(c *settings.Client) (sql string, ok bool) {
	for _, change := range slices.Backward(c.Staged.Changes) {
		switch {
		case change.Name == "" && change.Action <= rewrite.SetLocal, change.Name == settings.UnseenChange.Name:
			return "", false
		case change.Action == rewrite.ResetAll, change.Action == rewrite.DiscardAll, change.Name == "search_path" && (change.Action == rewrite.Reset || change.Default):
			return c.Startup.SQL["search_path"], true
		case change.Name == "search_path":
			return change.SQL, change.SQL != ""
		}
	}
	return c.InForce.SQL["search_path"], true
}
