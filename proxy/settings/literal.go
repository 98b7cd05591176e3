package settings

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite"
)

// QuoteName returns the name of a setting as SQL, with each part quoted if necessary.
func QuoteName(name string) string {
	parts := strings.Split(name, ".")
	for i, p := range parts {
		if parts[i] = QuoteIdentifier(p); i == 0 && reservedWords[p] {
			parts[i] = `"` + p + `"`
		}
	}
	return strings.Join(parts, ".")
}

// reservedWords are the words that PostgreSQL's grammar accepts as names only in quotes.
var reservedWords = func() map[string]bool {
	words := map[string]bool{}
	for word := range strings.FieldsSeq(`all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate
		collation column concurrently constraint create cross current_catalog current_date current_role current_schema current_time
		current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze from full grant
		group having ilike in initially inner intersect into is isnull join lateral leading left like limit localtime localtimestamp
		natural not notnull null offset on only or order outer overlaps placing primary references returning right select session_user
		similar some symmetric system_user table tablesample then to trailing true union unique user using variadic verbose when where
		window with`) {
		words[word] = true
	}
	return words
}()

// QuoteIdentifier returns v as an SQL identifier, quoted unless v consists of lower-case letters, digits and _.
func QuoteIdentifier(v string) string {
	if v != "" && (v[0] < '0' || v[0] > '9') && strings.IndexFunc(v, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}) < 0 {
		return v
	}
	return `"` + strings.ReplaceAll(v, `"`, `""`) + `"`
}

// QuoteLiteral returns v as an SQL string constant that does not depend on
// standard_conforming_strings.
func QuoteLiteral(v string) string {
	quoted := "'" + strings.ReplaceAll(v, "'", "''") + "'"
	if strings.Contains(v, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// StartupSQL returns the value of a startup parameter as it may follow SET name TO.
func StartupSQL(name, value string) string {
	if parts, ok := rewrite.SplitIdentifiers(value); ok && rewrite.ListSettings[name] {
		for i, part := range parts {
			parts[i] = QuoteLiteral(part)
		}
		return strings.Join(parts, ", ")
	}
	return QuoteLiteral(value) // also for an invalid list
}

// ReportedSpelling returns a setting's value in the spelling in which the server reports it.
func ReportedSpelling(name, value string) string {
	switch name {
	case "client_encoding":
		switch strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(value, "-", ""), "_", "")) {
		case "utf8", "unicode":
			return "UTF8"
		}
		return strings.ToUpper(value)
	case rewrite.ReadOnlyDefault, "standard_conforming_strings":
		if shown, bad := Normalize(name, value); bad == nil {
			return shown
		}
	case "intervalstyle":
		return strings.ToLower(value)
	}
	return value
}
