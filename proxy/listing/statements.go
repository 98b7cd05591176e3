// Package listing names statements in messages to clients: statements that an early commit of a part of a transaction
// has made permanent, and statements that it has not. The package does no I/O. A list belongs to one session, and has
// no lock.
//
// No list has a string constant of a statement, which may be a secret. The size of each list is bounded.
package listing

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// MaxNamed is the greatest number of statements that a list names, not counting those that look like reads.
	MaxNamed = 10
	// maxReads is the greatest number of statements that look like reads and that a list names.
	maxReads = 4
	// mostBytes bounds the bytes of one statement's text in a list.
	mostBytes = 80
)

// Statements is a list of statements for a message: the texts of the first statements, and the number of further ones.
type Statements struct {
	named []statement
	more  int
}

// statement is one statement of a list of Statements. looksRead says that the statement looks like a read.
type statement struct {
	text      string
	looksRead bool
}

// Add appends a statement to the list by its text.
func (l *Statements) Add(sql string) { l.add(sql, false) }

// AddRead appends a statement that looks like a read, by its text. A list names few of these statements, and does not
// count further ones.
func (l *Statements) AddRead(sql string) { l.add(sql, true) }

func (l *Statements) add(sql string, looksRead bool) {
	same := 0
	for _, one := range l.named {
		if one.looksRead == looksRead {
			same++
		}
	}
	switch {
	case looksRead && same < maxReads || !looksRead && same < MaxNamed:
		l.named = append(l.named, statement{shortenStatement(sql), looksRead})
	case !looksRead:
		l.more++
	}
}

// WithoutReads returns a list without the statements that look like reads.
func (l *Statements) WithoutReads() Statements {
	looksRead := func(one statement) bool { return one.looksRead }
	if !slices.ContainsFunc(l.named, looksRead) {
		return *l
	}
	return Statements{slices.DeleteFunc(slices.Clone(l.named), looksRead), l.more}
}

// Snapshot returns a copy of the list. Later additions to the list do not change the copy, and the reverse.
func (l *Statements) Snapshot() Statements { return Statements{slices.Clip(l.named), l.more} }

// AppendAll appends the statements of another list to the list.
func (l *Statements) AppendAll(other Statements) {
	all := append(l.named, other.named...)
	n := min(len(all), MaxNamed)
	l.named, l.more = all[:n:n], l.more+other.more+len(all)-n
}

// IsEmpty reports whether the list names no statement.
func (l *Statements) IsEmpty() bool { return len(l.named) == 0 }

// String returns the list as part of a sentence: "DROP TABLE a; DROP TABLE b; and 7 more".
func (l *Statements) String() string {
	var all strings.Builder
	for i, one := range l.named {
		if i > 0 {
			all.WriteString("; ")
		}
		all.WriteString(one.text)
	}
	if l.more > 0 {
		fmt.Fprintf(&all, "; and %d more", l.more)
	}
	return all.String()
}

// shortenStatement returns a statement up to its first string constant, which may be a secret, because clients log
// messages. sql may be in any encoding of a client. The result ends between two words.
func shortenStatement(sql string) string {
	sql = strings.TrimRight(sql, "; \t\r\n")
	if i := strings.IndexAny(sql, "'$"); i >= 0 {
		sql = sql[:i] + "..."
	}
	text := ""
	for word := range strings.FieldsSeq(sql) {
		if text != "" {
			word = " " + word
		}
		if len(text)+len(word) > mostBytes {
			return text + "..."
		}
		text += word
	}
	return text
}
