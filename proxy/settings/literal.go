package settings

import "strings"

// QuoteName quotes each part of a parameter's name where it must be.
func QuoteName(name string) string {
	parts := strings.Split(name, ".")
	for i, p := range parts {
		parts[i] = QuoteIdentifier(p)
	}
	return strings.Join(parts, ".")
}

// QuoteIdentifier writes v as an SQL identifier, in quotes unless it is one of lower-case
// letters, digits and _.
func QuoteIdentifier(v string) string {
	if v != "" && (v[0] < '0' || v[0] > '9') && strings.IndexFunc(v, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}) < 0 {
		return v
	}
	return `"` + strings.ReplaceAll(v, `"`, `""`) + `"`
}

// QuoteLiteral writes v as an SQL string constant that means the same whatever
// standard_conforming_strings is.
func QuoteLiteral(v string) string {
	quoted := "'" + strings.ReplaceAll(v, "'", "''") + "'"
	if strings.Contains(v, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// ListSettings hold lists of identifiers: as one string constant, SET would
// take the whole list for one name (GUC_LIST_QUOTE in PostgreSQL's guc tables).
var ListSettings = map[string]bool{"search_path": true, "temp_tablespaces": true,
	"local_preload_libraries": true, "session_preload_libraries": true}

// StartupSQL writes a startup parameter's raw value for SET.
func StartupSQL(name, value string) string {
	if !ListSettings[name] {
		return QuoteLiteral(value)
	}
	var parts []string
	for rest := value; ; {
		rest = strings.TrimLeft(rest, " \t\n\r\f\v")
		var part string
		if strings.HasPrefix(rest, `"`) {
			rest = rest[1:]
			for {
				i := strings.IndexByte(rest, '"')
				if i < 0 {
					return QuoteLiteral(value) // not a list: the server says so
				}
				part += rest[:i]
				rest = rest[i+1:]
				if !strings.HasPrefix(rest, `"`) {
					break
				}
				part += `"`
				rest = rest[1:]
			}
		} else {
			i := strings.IndexAny(rest, ", \t\n\r\f\v")
			if i < 0 {
				i = len(rest)
			}
			part, rest = strings.ToLower(rest[:i]), rest[i:]
		}
		parts = append(parts, QuoteLiteral(part))
		rest = strings.TrimLeft(rest, " \t\n\r\f\v")
		if rest == "" {
			return strings.Join(parts, ", ")
		}
		if rest[0] != ',' {
			return QuoteLiteral(value)
		}
		rest = rest[1:]
	}
}

// Reported is the spelling in which the server reports a value it was given.
func Reported(name, value string) string {
	switch name {
	case "client_encoding":
		switch strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(value, "-", ""), "_", "")) {
		case "utf8", "unicode":
			return "UTF8"
		}
		return strings.ToUpper(value)
	case "intervalstyle":
		return strings.ToLower(value)
	}
	return value
}
