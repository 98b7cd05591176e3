package parse

import (
	_ "embed"
	"strings"
)

// WordRole is a set of bits that says what an SQL word means to ScanWords and CheckLimits.
type WordRole uint16

// These are the roles that an SQL word may have for ScanWords and CheckLimits.
const (
	// telltale words matter for a text's kind, for a rule, or for a pin (the session must keep its backend). Sluice
	// must parse a text with a telltale word.
	telltale WordRole = 1 << iota
	// Callable words may precede a parenthesis in a query that only reads. They are functions without side effects, and
	// keywords that cannot be functions.
	Callable
	// Harmless words are the names of functions without side effects.
	Harmless
	// chained words make the parse tree of an expression one level deeper, just as operators do.
	chained
	conjunction // the word AND
	disjunction // the word OR
	// linked words, such as JOIN or UNION, make the parse tree of a query or of its FROM one level deeper.
	linked
	// querying words are words, such as SELECT, that begin a query.
	querying
	caseBegin
	caseArm // the words WHEN, THEN and ELSE
	caseEnd
	// Stateful words, at the beginning of a statement, mean that it may leave state in the session. StatefulAnywhere
	// words mean so at any position of a statement.
	Stateful
	StatefulAnywhere
)

// MaxWord is the greatest length in bytes of a word with a role. PostgreSQL truncates names to 63 bytes.
const MaxWord = 63

// functions lists the builtins of PostgreSQL 15 to 18 that have no side effects: no write, no lock, nothing left in the
// session, no text run as SQL. Sluice takes a user's overload of such a name for the builtin.
//
//go:embed functions.txt
var functions string

// vocabulary lists the SQL words of each WordRole.
var vocabulary = []struct {
	role  WordRole
	words string
}{
	{Callable | Harmless, functions},
	// These Callable words are reserved, or PostgreSQL's grammar does not accept them as a function's name.
	{Callable, `all and any array as between bit case cast char character coalesce dec decimal distinct else except
		exists extract float from greatest group grouping having in intersect interval lateral least limit national
		nchar not nullif numeric offset on or overlay position returning row select some substring then time
		timestamp trim union using values varchar when where`},
	{telltale, `for into with nextval setval`},
	{telltale | Callable | Harmless, `current_setting uuid_generate_v4`},
	{telltale | StatefulAnywhere, `currval lastval setseed set_config pg_settings`},
	{StatefulAnywhere, `temp temporary execute`},
	{Stateful, `set prepare execute listen declare load do call`},
	{chained, `at between collate ilike in is isnull like not notnull operator overlaps similar
		json json_array json_arrayagg json_exists json_object json_objectagg json_query json_scalar json_serialize
		json_table json_value`},
	{conjunction, `and`},
	{disjunction, `or`},
	{linked, `union intersect except join`},
	{querying, `select values table insert update delete merge with`},
	{caseBegin, `case`},
	{caseArm, `when then else`},
	{caseEnd, `end`},
}

var roles = func() map[string]WordRole {
	m := map[string]WordRole{}
	for _, v := range vocabulary {
		for word := range strings.FieldsSeq(v.words) {
			m[word] |= v.role
		}
	}
	return m
}()

// telltalePrefixes are prefixes of names of functions and of objects of the session, as in pg_advisory_lock. The full
// names are too many to list. Sluice must parse a text with one of these names.
var telltalePrefixes = []string{"pg_advisory", "pg_try_advisory", "pg_temp"}

// telltaleLengths has, for each first letter, a bit for the length of each word that forces a parse (telltale).
var telltaleLengths = func() (bits [256]uint64) {
	note := func(word string, lengths uint64) {
		bits[word[0]] |= lengths
		bits[word[0]-'a'+'A'] |= lengths
	}
	for word, r := range roles {
		if r&telltale != 0 {
			note(word, 1<<len(word))
		}
	}
	for _, p := range telltalePrefixes {
		note(p, ^uint64(0)<<len(p))
	}
	return bits
}()

// telltaleThirds has, for each first letter, a bit for the third letter of each word that forces a parse (telltale).
// Each of these words has at least three letters.
var telltaleThirds = func() (bits [256]uint32) {
	note := func(word string) {
		bits[word[0]] |= thirdLetter([]byte(word))
		bits[word[0]-'a'+'A'] |= thirdLetter([]byte(word))
	}
	for word, r := range roles {
		if r&telltale != 0 {
			note(word)
		}
	}
	for _, p := range telltalePrefixes {
		note(p)
	}
	return bits
}()

// thirdLetter returns the bit of telltaleThirds for a word's third letter, which is the same in upper and lower case.
func thirdLetter(word []byte) uint32 { return 1 << (word[2] & 0x1f) }

// RoleOfWord returns the roles of a word, which may be in any letter case.
func RoleOfWord(word []byte) WordRole {
	if len(word) > MaxWord {
		return 0
	}
	var buf [MaxWord]byte
	folded := buf[:len(word)]
	for i, c := range word {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		folded[i] = c
	}
	r := roles[string(folded)]
	if len(folded) > len("pg_t") && string(folded[:3]) == "pg_" {
		for _, p := range telltalePrefixes {
			if strings.HasPrefix(string(folded), p) {
				r |= telltale | StatefulAnywhere
			}
		}
	}
	return r
}

// RoleOfLowerWord returns the roles of a word in lower case.
func RoleOfLowerWord(word string) WordRole { return roles[word] }
