// Package leftover judges whether a text that nobody has parsed may have left something on its
// backend that outlives its transaction. It looks at the words of the text as they pass, and at the
// tags that the server answers with. It errs towards yes, does no I/O and allocates nothing.
package leftover

import (
	"bytes"
	"strings"
)

// Text follows one text. The zero value is a text of which nothing was seen.
type Text struct {
	word  [maxWord]byte // the word that is being read, in lower case
	n     int           // its length; longer words are none of those that are looked for
	odd   bool          // a word that may leave something was seen
	temp  bool          // a word that makes a relation temporary was seen
	other bool          // a tag was seen of a statement that may leave something
	made  bool          // a tag was seen of one that may make a relation
	tags  int
}

// maxWord is longer than each word that is looked for.
const maxWord = 32

// marks are the words that a text needs to leave something by statements of the kinds in harmless.
// A name may also be written with escapes, U&"...": see Read.
var marks = map[string]bool{
	"set_config": true, "setseed": true, "nextval": true, "currval": true, "lastval": true, "pg_temp": true, "pg_settings": true,
	"pg_advisory_lock": true, "pg_advisory_lock_shared": true, "pg_try_advisory_lock": true, "pg_try_advisory_lock_shared": true,
	"dblink_connect": true, "dblink_connect_u": true,
}

// harmless are the beginnings of the tags of statements that leave nothing without one of marks.
var harmless = []string{"INSERT ", "UPDATE ", "DELETE ", "MERGE ", "SELECT ", "COPY ", "BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK",
	"CREATE TABLE", "CREATE INDEX", "ALTER TABLE", "DROP TABLE", "COMMENT", "TRUNCATE TABLE"}

// Read takes the next piece of the text. Words in constants and comments count too.
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

// ends judges the word that has ended.
func (x *Text) ends() {
	if x.n > 0 && x.n <= maxWord {
		word := x.word[:x.n]
		x.odd = x.odd || marks[string(word)]
		x.temp = x.temp || string(word) == "temp" || string(word) == "temporary"
	}
	x.n = 0
}

// Ran notes the tag of a statement that has run.
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

// Tags is the number of statements that have run.
func (x *Text) Tags() int { return x.tags }

// LeavesNothing reports whether all that was seen of the text, which is at its end, leaves nothing but
// what functions of the database may have set.
func (x *Text) LeavesNothing() bool {
	x.ends()
	return !x.odd && !x.other && !(x.temp && x.made)
}
