// Package leftover decides whether an unparsed text may have left state on its backend that survives the transaction.
// The package checks the words of the text as they pass, and the tags of the server's answers. In doubt the decision is
// yes. The package does no I/O and allocates nothing.
package leftover

import (
	"bytes"
	"strings"
)

// Scanner follows the words of one text and the tags of its statements. The zero Scanner has seen nothing.
type Scanner struct {
	word  [maxWord]byte // the current word, in lower case
	n     int           // its length; longer words are not searched for
	odd   bool          // a word that may leave state was seen
	temp  bool          // a word that makes a relation temporary was seen
	other bool          // the tag of a statement that may leave state was seen
	made  bool          // the tag of a statement that may create a relation was seen
	tags  int
}

// maxWord is a length in bytes that exceeds the length of every word in statefulWords.
const maxWord = 32

// statefulWords are words of functions and names that may leave state on a backend. Without these words, the statements
// in harmlessTags leave no state. A name may also be written with escapes, U&"..." (ScanPiece).
var statefulWords = map[string]bool{
	"set_config": true, "setseed": true, "nextval": true, "currval": true, "lastval": true, "pg_temp": true, "pg_settings": true,
	"pg_advisory_lock": true, "pg_advisory_lock_shared": true, "pg_try_advisory_lock": true, "pg_try_advisory_lock_shared": true,
	"dblink_connect": true, "dblink_connect_u": true,
}

// harmlessTags are the starts of command tags. Statements with these tags leave no state on a backend, unless the
// text has a word of statefulWords.
var harmlessTags = []string{"INSERT ", "UPDATE ", "DELETE ", "MERGE ", "SELECT ", "COPY ", "BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK",
	"CREATE TABLE", "CREATE INDEX", "ALTER TABLE", "DROP TABLE", "COMMENT", "TRUNCATE TABLE"}

// ScanPiece processes the next piece of the text. Words in constants and comments count too.
func (x *Scanner) ScanPiece(piece []byte) {
	for _, c := range piece {
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '$', c >= 0x80:
		default:
			x.odd = x.odd || c == '&' && x.n == 1 && x.word[0] == 'u'
			x.endWord()
			continue
		}
		if x.n < maxWord {
			x.word[x.n] = c
		}
		x.n++
	}
}

// endWord checks the word of the text that has ended.
func (x *Scanner) endWord() {
	if x.n > 0 && x.n <= maxWord {
		word := x.word[:x.n]
		x.odd = x.odd || statefulWords[string(word)]
		x.temp = x.temp || string(word) == "temp" || string(word) == "temporary"
	}
	x.n = 0
}

// RecordTag records the command tag of a finished statement of the text.
func (x *Scanner) RecordTag(tag []byte) {
	x.tags++
	for _, h := range harmlessTags {
		if bytes.HasPrefix(tag, []byte(h)) && (strings.HasSuffix(h, " ") || len(tag) == len(h)) {
			x.made = x.made || h == "SELECT " || h == "CREATE TABLE"
			return
		}
	}
	x.other = true
}

// TagCount returns the number of the text's statements that have finished.
func (x *Scanner) TagCount() int { return x.tags }

// LeavesNothing reports whether the text, which must be complete, leaves no state on its backend. State that functions
// of the database may have set does not count.
func (x *Scanner) LeavesNothing() bool {
	x.endWord()
	return !x.odd && !x.other && !(x.temp && x.made)
}
