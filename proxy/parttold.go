package proxy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// What a client is told of a transaction that is committed in parts (parts.go): warnings, errors,
// and the statements in them.

// labels are statements as a message names them: so many, and how many more.
type labels struct {
	named []label
	more  int
}

// label is a statement as a message names it. looks: the statement looks like a read.
type label struct {
	text  string
	looks bool
}

// mostLabel bounds a statement in a message, in bytes.
const mostLabel = 80

// add takes a statement by its text.
func (l *labels) add(sql string) { l.take(sql, false) }

// take takes a statement by its text. looks: it looks like a read. A few of these are listed beside the others.
func (l *labels) take(sql string, looks bool) {
	same := 0
	for _, one := range l.named {
		if one.looks == looks {
			same++
		}
	}
	switch {
	case looks && same < mostLooks || !looks && same < mostListed:
		l.named = append(l.named, label{labelOf(sql), looks})
	case !looks:
		l.more++
	}
}

// mostLooks is how many statements that look like reads are listed.
const mostLooks = 4

// written returns the statements that change something. reads says that what looks like a read does not.
func (l *labels) written(reads bool) labels {
	if !reads || !slices.ContainsFunc(l.named, func(one label) bool { return one.looks }) {
		return *l
	}
	return labels{slices.DeleteFunc(slices.Clone(l.named), func(one label) bool { return one.looks }), l.more}
}

// labelOf is a statement up to its first string constant, which may be a secret: clients log what
// they are told. The text is the client's in its own encoding, and is cut between two words.
func labelOf(sql string) string {
	sql = strings.TrimRight(sql, "; \t\r\n")
	if i := strings.IndexAny(sql, "'$"); i >= 0 {
		sql = sql[:i] + "..."
	}
	label := ""
	for word := range strings.FieldsSeq(sql) {
		if label != "" {
			word = " " + word
		}
		if len(label)+len(word) > mostLabel {
			return label + "..."
		}
		label += word
	}
	return label
}

// join takes over what other has.
func (l *labels) join(other labels) {
	all := append(l.named, other.named...)
	kept := min(len(all), mostListed)
	l.named, l.more = all[:kept:kept], l.more+other.more+len(all)-kept
}

// empty reports whether no statement is named.
func (l *labels) empty() bool { return len(l.named) == 0 }

// String lists the statements, as part of a sentence.
func (l *labels) String() string {
	var texts []string
	for _, one := range l.named {
		texts = append(texts, one.text)
	}
	all := strings.Join(texts, "; ")
	if l.more > 0 {
		all += fmt.Sprintf("; and %d more", l.more)
	}
	return all
}

// partly is what the client is told in the place of a conflict, where a part of its transaction
// is committed: to send the whole again would apply that part twice. nil for any other error.
func (s *session) partly(class retry.Class, payload []byte) []byte {
	if class != retry.Conflict {
		return nil
	}
	if done := s.doneBefore(); !done.empty() {
		return errPartly(toldBy(payload), done).Append(nil)
	}
	return nil
}

// doneBefore are the statements that are committed of what the client would send again: those of its
// transaction, or in front of the statement at hand in a string that is none any more.
func (s *session) doneBefore() *labels {
	switch {
	case s.partlyDone():
		return &s.parts.stays
	case s.t.nested.done != nil:
		return s.t.nested.done
	}
	return &labels{}
}

// retryHint is what a conflict that is told says to do; nothing where errPartly says it.
func (s *session) retryHint() string {
	if s.doneBefore().empty() {
		return retry.Hint
	}
	return ""
}

// partlyRefused is partly for an error of Sluice's own.
func (s *session) partlyRefused(e *wire.Error) *wire.Error {
	if e.Code != retry.StateConflict {
		return e
	}
	if done := s.doneBefore(); !done.empty() {
		return errPartly(e, done)
	}
	return e
}

// warnPart is told with each early commit.
func warnPart(l *labels) *wire.Error {
	return &wire.Error{Code: "01000", Message: "a part of the transaction is committed, since DSQL takes one statement of DDL in a transaction",
		Detail: "Committed: " + l.String() + ".", Hint: rewrite.InTransactionsKey + " says so. A ROLLBACK does not take that part back."}
}

// warnStays is told with a ROLLBACK, and where a string has stopped.
func warnStays(l *labels) *wire.Error {
	return &wire.Error{Code: "01000", Message: "what was committed before stays (" + rewrite.InTransactionsKey + ")", Detail: "Committed: " + l.String() + "."}
}

// codePartly stands for that of a conflict (40001) where a part of what the client would send again is
// committed.
const codePartly = "25000"

// errPartly is told in the place of a conflict.
func errPartly(conflict *wire.Error, l *labels) *wire.Error {
	return &wire.Error{Code: codePartly, Message: "the rest of a transaction that is committed in part met a conflict: " + conflict.Message,
		Detail: "Committed: " + l.String() + ".", Hint: "Do not send the whole transaction again: go on behind what is committed."}
}

// errDropsEarly refuses to commit a DROP that its client has not committed.
func errDropsEarly(l *labels) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: "the transaction drops what holds rows, and would be committed before its end",
		Detail: "It holds: " + l.String() + ".", Hint: rewrite.DropsHint}
}

var (
	errPartInPipeline = &wire.Error{Code: retry.StateUnsupported, Message: "the transaction cannot be committed in the middle of a pipeline",
		Detail: "DSQL takes one statement of DDL in a transaction, and no change of rows beside it.", Hint: "Send a Sync in front of the statement."}
	errLocalInParts = &wire.Error{Code: retry.StateUnsupported, Message: "a transaction with SET LOCAL cannot be committed in parts",
		Detail: "What is set until the end of the transaction would be lost.", Hint: "Write SET without LOCAL."}
)
