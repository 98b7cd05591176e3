package finding

import (
	"strings"
	"unsafe"
)

// Rule identifies a rewriting rule. The configuration can disable each rule separately.
type Rule uint8

const (
	// DialectRule reports what DSQL refuses and no other rule handles. It changes no text.
	DialectRule   Rule = iota
	LockingRule        // FOR SHARE and FOR NO KEY UPDATE
	SplitRule          // FOR UPDATE over several tables, if a cluster refuses it
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

// Outcome says what Sluice does with the statement that a finding is about.
type Outcome uint8

const (
	Flagged    Outcome = iota // the server gets the statement unchanged
	Rewritten                 // the server gets the statement in another form
	Answered                  // Sluice answers the statement, not the server
	Rejected                  // Sluice refuses the statement
	Unverified                // the server gets the statement unchanged, because its rewritten text failed verification
)

func (o Outcome) String() string {
	return [...]string{"flagged", "rewritten", "answered", "rejected", "unverified"}[o]
}

// Severity says how urgently a person must act on a finding.
type Severity uint8

const (
	Info    Severity = iota // Sluice handles the statement, with the same meaning
	Warning                 // Sluice handles the statement, with a difference that a person should know
	Error                   // Sluice does not handle the statement, which fails on DSQL
)

func (s Severity) String() string { return [...]string{"info", "warning", "error"}[s] }

// Finding describes one use of an SQL feature that DSQL does not support as PostgreSQL does. The texts in a Finding
// quote nothing of the client's statement.
type Finding struct {
	// Feature is the feature that the statement uses and DSQL lacks. Feature and Operation are labels of a metric.
	Feature   Feature
	Rule      Rule
	Outcome   Outcome
	Severity  Severity
	Operation string
	// Reason says how DSQL treats the feature, and Action what Sluice does. Remedy is advice for a person, or "".
	Reason, Action, Remedy string
	// At is the byte offset, in the client's text, of the statement or the part of it that the finding is about.
	At int
}

// Passes, SwitchedOff and NotTheSame are values of Finding.Action for statements that the server gets unchanged.
const (
	Passes      = "passes unchanged and fails there"
	SwitchedOff = "passes unchanged: the rule is switched off"
	NotTheSame  = "passes unchanged: the text that the rule made would not have meant what was intended"
)

// Refused returns a finding about feature f in a statement that Sluice passes unchanged and the server refuses.
func Refused(f Feature, at int) Finding {
	e := catalogue[f]
	return Finding{Feature: f, Rule: e.rule, Severity: Error, Reason: e.reason, Action: Passes, Remedy: e.remedy, At: at}
}

// Handled returns a finding about feature f, which a rule handled with outcome o.
func Handled(f Feature, o Outcome, s Severity, action string, at int) Finding {
	e := catalogue[f]
	finding := Finding{Feature: f, Rule: e.rule, Outcome: o, Severity: s, Reason: e.reason, Action: action, At: at}
	if s != Info {
		finding.Remedy = e.remedy
	}
	return finding
}

// Disabled returns a finding about feature f, whose rewriting rule is disabled.
func Disabled(f Feature, at int) Finding {
	finding := Refused(f, at)
	finding.Action = SwitchedOff
	return finding
}

// Bytes returns the memory that a slice of findings uses, in bytes. The texts of findings are constants and do not
// count.
func Bytes(findings []Finding) int { return cap(findings) * int(unsafe.Sizeof(Finding{})) }

// New returns a finding, at offset 0, about feature f in a statement that Sluice passes unchanged and the server
// refuses.
func New(f Feature) Finding { return Refused(f, 0) }

// Sentence returns a finding's remedy as a sentence, with a capital letter and a period. For "" it returns "".
func Sentence(remedy string) string {
	if remedy == "" {
		return ""
	}
	return strings.ToUpper(remedy[:1]) + remedy[1:] + "."
}
