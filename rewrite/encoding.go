package rewrite

import (
	"bytes"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// ReadingMode describes how a server may read texts differently from a Planner. The zero ReadingMode is the Planner's
// own reading: texts are UTF-8, and standard_conforming_strings is on.
type ReadingMode uint8

const (
	// Recoded means that the client's encoding has characters of several bytes, of which one may look like an ASCII
	// character, such as a backslash.
	Recoded ReadingMode = 1 << iota
	// Escaping means that the server reads backslashes as escapes in all string constants.
	Escaping
)

// MayMislead reports whether a server in this mode may read the text differently from the text's plan.
func (r ReadingMode) MayMislead(sql []byte) bool {
	if r&Escaping != 0 && bytes.IndexByte(sql, '\\') >= 0 {
		return true
	}
	if r&Recoded != 0 {
		for _, c := range sql {
			if c >= 0x80 {
				return true
			}
		}
	}
	return false
}

// ReadingModeFor returns the ReadingMode for a value of the setting client_encoding or standard_conforming_strings. For
// other settings it returns 0.
func ReadingModeFor(name, value string) ReadingMode {
	switch strings.ToLower(name) {
	case "client_encoding":
		if !isASCIISafeEncoding(value) {
			return Recoded
		}
	case "standard_conforming_strings":
		switch strings.ToLower(value) {
		case "on", "true", "yes", "1":
		default:
			return Escaping
		}
	}
	return 0
}

// isASCIISafeEncoding reports whether an encoding uses bytes below 0x80 only for ASCII characters. All encodings in
// which PostgreSQL can store text do so. As in PostgreSQL, case and punctuation of the name do not matter. The result
// is false for an unknown name.
func isASCIISafeEncoding(name string) bool {
	var b strings.Builder
	for _, c := range strings.ToLower(name) {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' {
			b.WriteRune(c)
		}
	}
	name = b.String()
	for _, prefix := range []string{"latin", "iso8859", "koi8", "euc", "win125", "windows125"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "utf8", "unicode", "sqlascii", "muleinternal", "abc", "tcvn", "tcvn5712", "vscii", "alt", "win",
		"win866", "windows866", "win874", "windows874":
		return true
	}
	return false
}

// UnparsedPlan returns the plan of a text that the planner cannot read, and counts the text in Stats.GuardedText.
func (p *Planner) UnparsedPlan() *Plan {
	p.guarded[parse.NotText].Add(1)
	return guardedPlan
}

// UnparsedPlanFor returns the plan of a text that the planner cannot read, and counts the text in Stats.GuardedText.
// names resolves the session's relations. If names is nil, no column is mapped (bytea stored as text).
func (p *Planner) UnparsedPlanFor(sql []byte, names *schema.NameResolver) *Plan {
	p.guarded[parse.NotText].Add(1)
	return unparsedPlan(names, sql)
}

// MayChangeReading reports whether the server may read later texts in another way, because this text may change
// client_encoding or standard_conforming_strings.
func (p *Plan) MayChangeReading() bool { return p.rereads || p.Kind == Unknown }

// mayChangeReading reports whether the statement may change how the server reads later texts.
func (st *Statement) mayChangeReading() bool {
	for _, c := range st.Changes {
		switch c.Name {
		case "client_encoding", "standard_conforming_strings", "":
			return true
		}
	}
	return st.Pin == PinProcedural || st.setsConfig
}
