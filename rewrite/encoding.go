package rewrite

import (
	"bytes"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// Reading describes how a server reads texts differently from a Planner. A Planner assumes UTF-8 and
// standard_conforming_strings on; the zero value is this reading.
type Reading uint8

const (
	// Recoded means an encoding in which a byte of a multi-byte character may equal an ASCII character, such as
	// a backslash.
	Recoded Reading = 1 << iota
	// Escaping means that backslashes are escapes in all string constants.
	Escaping
)

// Misleads reports whether a text under this reading may have another meaning than its plan.
func (r Reading) Misleads(sql []byte) bool {
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

// ReadingOf returns the reading that a value of client_encoding or standard_conforming_strings causes. It is 0
// for other settings.
func ReadingOf(name, value string) Reading {
	switch strings.ToLower(name) {
	case "client_encoding":
		if !plainEncoding(value) {
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

// plainEncoding reports whether an encoding uses bytes below 0x80 for ASCII characters only. All encodings in
// which PostgreSQL stores text do. As in PostgreSQL, case and punctuation of the name are ignored; unknown
// names are not plain.
func plainEncoding(name string) bool {
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

// Unread returns the plan of a text that the planner cannot read, and counts it.
func (p *Planner) Unread() *Plan {
	p.guarded[parse.NotText].Add(1)
	return guardedPlan
}

// UnreadIn returns the plan of a text that the planner cannot read, for a session with names, and counts it.
// nil names map no column.
func (p *Planner) UnreadIn(sql []byte, names *schema.Names) *Plan {
	p.guarded[parse.NotText].Add(1)
	return unread(names, sql)
}

// Rereads reports whether the server may read texts after this one differently. The text changes
// client_encoding or standard_conforming_strings, or calls set_config.
func (p *Plan) Rereads() bool { return p.rereads || p.Kind == Unknown }

// rereads reports whether one statement may change how later texts are read.
func (st *Statement) rereads() bool {
	for _, c := range st.Changes {
		switch c.Name {
		case "client_encoding", "standard_conforming_strings", "":
			return true
		}
	}
	return st.Pin == PinProcedural || st.setsConfig
}
