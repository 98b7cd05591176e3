package rewrite

import (
	"bytes"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// Reading says in which ways a server reads texts otherwise than a Planner does,
// which takes them for UTF-8 with standard_conforming_strings on. The zero value: in none.
type Reading uint8

const (
	// Recoded texts are in an encoding whose characters may hold bytes that are
	// ASCII characters by themselves, a backslash for one.
	Recoded Reading = 1 << iota
	// Escaping texts have backslashes that escape in every string constant.
	Escaping
)

// Misleads reports whether a text that is read so may mean something else than
// its plan would say.
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

// ReadingOf is what a value of client_encoding or standard_conforming_strings
// says; 0 for other settings.
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

// plainEncoding reports whether all bytes of an encoding's other characters are
// beyond ASCII: so it is in all that PostgreSQL stores text in. As there, case
// and punctuation of the name do not matter. Unknown names are not plain.
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

// Unread is the plan of a text that nobody could read.
func (p *Planner) Unread() *Plan {
	p.guarded[parse.NotText].Add(1)
	return guardedPlan
}

// UnreadIn is Unread for a session in which names stand for what names says; nil: nothing is
// mapped.
func (p *Planner) UnreadIn(sql []byte, names *schema.Names) *Plan {
	p.guarded[parse.NotText].Add(1)
	return unread(names, sql)
}

// Rereads reports whether the texts that follow a plan's may be read otherwise: it
// changes client_encoding or standard_conforming_strings, or calls set_config.
func (p *Plan) Rereads() bool { return p.rereads || p.Kind == Unknown }

// rereads is Rereads for one statement.
func (st *Statement) rereads() bool {
	for _, c := range st.Changes {
		switch c.Name {
		case "client_encoding", "standard_conforming_strings", "":
			return true
		}
	}
	return st.Pin == PinProcedural || st.setsConfig
}
