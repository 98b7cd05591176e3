package finding

import (
	"strings"
	"unsafe"
)

// Rule identifies a rewriting rule. Each rule can be disabled alone.
type Rule uint8

const (
	// DialectRule changes no text. DialectRule reports what DSQL refuses and no other rule handles.
	DialectRule   Rule = iota
	LockingRule        // FOR SHARE and FOR NO KEY UPDATE
	SplitRule          // FOR UPDATE over several tables, where a cluster refuses it
	IndexRule          // CREATE INDEX
	SerialRule         // serial and identity columns, sequences
	DatabaseRule       // CREATE DATABASE, DROP DATABASE
	IsolationRule      // isolation levels
	SessionRule        // DISCARD
	AlterRule          // ALTER TABLE ... ADD COLUMN
	ByteaRule          // bytea in keys
	ExtensionRule      // extensions and their functions
	CursorRule         // DECLARE, FETCH, MOVE, CLOSE
	CopyRule           // COPY FROM STDIN
	NumericRule        // numeric without a precision
	ruleCount
)

var ruleNames = [ruleCount]string{"dialect", "locking", "split", "index", "serial", "database", "isolation", "session", "alter", "bytea", "extension", "cursors", "copy", "numeric"}

func (r Rule) String() string { return ruleNames[r] }

// Outcome says what Sluice does with the statement for which a finding was made.
type Outcome uint8

const (
	Flagged    Outcome = iota // the statement passes unchanged
	Rewritten                 // the statement passes in another form
	Answered                  // Sluice answers it, not the server
	Rejected                  // Sluice refuses it
	Unverified                // the statement passes unchanged, because its rewritten text failed verification
)

func (o Outcome) String() string {
	return [...]string{"flagged", "rewritten", "answered", "rejected", "unverified"}[o]
}

// Severity says how urgently a person must act on a finding.
type Severity uint8

const (
	Info    Severity = iota // handled, with the same meaning
	Warning                 // handled, with a difference that a person should know
	Error                   // not handled, and fails on DSQL
)

func (s Severity) String() string { return [...]string{"info", "warning", "error"}[s] }

// Finding describes one use of SQL that DSQL does not support as PostgreSQL does. Its texts quote nothing of the
// client's statement.
type Finding struct {
	// Feature is the feature that the statement uses and DSQL lacks. Feature and Operation label a metric.
	Feature   Feature
	Rule      Rule
	Outcome   Outcome
	Severity  Severity
	Operation string
	// Reason says how DSQL treats the feature, and Action what Sluice does. Remedy is advice for a person, or "".
	Reason, Action, Remedy string
	// At is the byte offset, in the client's text, of the statement or the part that the finding is about.
	At int
}

// Passes, SwitchedOff and NotTheSame are values of Finding.Action for statements that the server gets unchanged.
const (
	Passes      = "passes unchanged and fails there"
	SwitchedOff = "passes unchanged: the rule is switched off"
	NotTheSame  = "passes unchanged: the text that the rule made would not have meant what was intended"
)

// Refused returns a finding about feature f in a statement that the server gets unchanged and refuses.
func Refused(f Feature, at int) Finding {
	e := catalogue[f]
	return Finding{Feature: f, Rule: e.rule, Severity: Error, Reason: e.reason, Action: Passes, Remedy: e.remedy, At: at}
}

// Handled returns a finding about a feature that a rule handled with outcome o.
func Handled(f Feature, o Outcome, s Severity, action string, at int) Finding {
	e := catalogue[f]
	finding := Finding{Feature: f, Rule: e.rule, Outcome: o, Severity: s, Reason: e.reason, Action: action, At: at}
	if s != Info {
		finding.Remedy = e.remedy
	}
	return finding
}

// Disabled returns a finding about a feature for which the rewriting rule is disabled.
func Disabled(f Feature, at int) Finding {
	finding := Refused(f, at)
	finding.Action = SwitchedOff
	return finding
}

// Bytes returns the memory of a slice of findings in bytes. The findings' texts are constants and do not count.
func Bytes(findings []Finding) int { return cap(findings) * int(unsafe.Sizeof(Finding{})) }

// New returns the finding, at offset 0, about a feature of a statement that the server gets unchanged.
func New(f Feature) Finding { return Refused(f, 0) }

// Sentence returns a remedy, the advice of a finding, as a sentence with a capital letter and a period, or "" for "".
func Sentence(remedy string) string {
	if remedy == "" {
		return ""
	}
	return strings.ToUpper(remedy[:1]) + remedy[1:] + "."
}
