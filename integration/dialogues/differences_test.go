package dialogues

import (
	"regexp"
	"strings"
)

var (
	// Sluice names the statements that it prepares.
	madeName = regexp.MustCompile(`(prepared statement )"sluice_\w*"`)
	bindName = regexp.MustCompile(`(bind message supplies .* prepared statement )"\w*"`)
	// Where a transaction was run again, its generated values are others.
	generated = regexp.MustCompile(`\b1\d{6}\b`)
	rowID     = regexp.MustCompile(`:\d+`)
)

// plain is an answer without what must differ.
func plain(lines []string, f frame, loose bool) []string {
	var out []string
	for _, l := range lines {
		l = madeName.ReplaceAllString(l, `$1""`)
		l = bindName.ReplaceAllString(l, `$1""`)
		if loose && strings.HasPrefix(l, "D ") {
			l = generated.ReplaceAllString(l, "key")
		}
		out = append(out, l)
	}
	return out
}

// leftover is what is in the tables, without generated keys where they may differ.
func leftover(text string, loose bool) string {
	if loose {
		return rowID.ReplaceAllString(text, "")
	}
	return text
}

// tolerated tells whether an answer differs as docs/differences.md says it may.
func (w *world) tolerated(f frame, got, want []string) bool { return false }
