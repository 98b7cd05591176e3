// Package leftover decides whether an unparsed text may have left state on its backend that
// survives its transaction. It checks the words of the text as they pass, and the tags of the
// server's answers. In doubt the answer is yes. It does no I/O and allocates nothing.
package leftover

import (
	"bytes"
	"strings"
)

// Text follows one text. The zero value has seen nothing.
type Text struct {
	word  [maxWord]byte // the current word, in lower case
	n     int           // its length; longer words are not searched for
	odd   bool          // a word that may leave state was seen
	temp  bool          // a word that makes a relation temporary was seen
	other bool          // the tag of a statement that may leave state was seen
	made  bool          // the tag of a statement that may create a relation was seen
	tags  int
}

// maxWord is longer than each searched word.
const maxWord = 32

// marks are the words without which statements in harmless leave no state. A name may also be
// written with escapes, U&"...": see Read.
var marks = map[string]bool{
	"set_config": true, "setseed": true, "nextval": true, "currval": true, "lastval": true, "pg_temp": true, "pg_settings": true,
	"pg_advisory_lock": true, "pg_advisory_lock_shared": true, "pg_try_advisory_lock": true, "pg_try_advisory_lock_shared": true,
	"dblink_connect": true, "dblink_connect_u": true,
}

// harmless are the starts of tags of statements that leave no state without one of marks.
var harmless = []string{"INSERT ", "UPDATE ", "DELETE ", "MERGE ", "SELECT ", "COPY ", "BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK",
	"CREATE TABLE", "CREATE INDEX", "ALTER TABLE", "DROP TABLE", "COMMENT", "TRUNCATE TABLE"}

// Read reads the next piece of the text. Words in constants and comments count too.
func (x *Text) Read(piece []byte) {
	for _, c := range piece {
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '$', c >= 0x80:
		default:
			x.odd = x.odd || c == '&' && x.n == 1 && x.word[0] == 'u'
			x.ends()
			continue
		}
		if x.n < maxWord {
			x.word[x.n] = c
		}
		x.n++
	}
}

// ends checks the word that has ended.
func (x *Text) ends() {
	if x.n > 0 && x.n <= maxWord {
		word := x.word[:x.n]
		x.odd = x.odd || marks[string(word)]
		x.temp = x.temp || string(word) == "temp" || string(word) == "temporary"
	}
	x.n = 0
}

// Ran records the tag of a finished statement.
func (x *Text) Ran(tag []byte) {
	x.tags++
	for _, h := range harmless {
		if bytes.HasPrefix(tag, []byte(h)) && (strings.HasSuffix(h, " ") || len(tag) == len(h)) {
			x.made = x.made || h == "SELECT " || h == "CREATE TABLE"
			return
		}
	}
	x.other = true
}

// Tags returns the number of finished statements.
func (x *Text) Tags() int { return x.tags }

// LeavesNothing reports whether the text, which is complete, leaves no state, except what functions
// of the database may have set.
func (x *Text) LeavesNothing() bool {
	x.ends()
	return !x.odd && !x.other && !(x.temp && x.made)
}
