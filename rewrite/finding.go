package rewrite

import "unsafe"

// Rule is a rule of rewriting; each can be switched off alone.
type Rule uint8

const (
	// DialectRule changes nothing: it knows what DSQL refuses and Sluice leaves as it is.
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

// Outcome is what became of a statement that a rule speaks about.
type Outcome uint8

const (
	Flagged    Outcome = iota // passes unchanged
	Rewritten                 // passes in another form
	Answered                  // Sluice answers in the server's place
	Rejected                  // Sluice refuses it
	Unverified                // passes unchanged: the new text did not mean what was intended
)

func (o Outcome) String() string {
	return [...]string{"flagged", "rewritten", "answered", "rejected", "unverified"}[o]
}

// Severity says whether somebody must act.
type Severity uint8

const (
	Info    Severity = iota // handled, and it means the same
	Warning                 // handled, but something differs that a person should know
	Error                   // not handled: it fails on DSQL
)

func (s Severity) String() string { return [...]string{"info", "warning", "error"}[s] }

// Finding is one thing that DSQL would not do as PostgreSQL does. Its texts hold
// nothing of the client's.
type Finding struct {
	// Feature is what the statement uses; with Operation it labels a metric.
	Feature  Feature
	Rule     Rule
	Outcome  Outcome
	Severity Severity
	// Operation is the statement's.
	Operation string
	// Reason is what DSQL makes of it, Action what Sluice does about it, Remedy
	// what a person can do ("" for nothing).
	Reason, Action, Remedy string
	// At is the byte offset in the client's text of the statement, or of its part.
	At int
}

// Texts of findings that pass as they are.
const (
	Passes     = "passes unchanged and fails there"
	switched   = "passes unchanged: the rule is switched off"
	notTheSame = "passes unchanged: the text that the rule made would not have meant what was intended"
)

// found is a finding about a feature that Sluice leaves as it is.
func found(f Feature, at int) Finding {
	e := catalogue[f]
	return Finding{Feature: f, Rule: e.rule, Severity: Error, Reason: e.reason, Action: Passes, Remedy: e.remedy, At: at}
}

// handled is a finding about a feature that a rule has dealt with.
func handled(f Feature, o Outcome, s Severity, action string, at int) Finding {
	e := catalogue[f]
	finding := Finding{Feature: f, Rule: e.rule, Outcome: o, Severity: s, Reason: e.reason, Action: action, At: at}
	if s != Info {
		finding.Remedy = e.remedy
	}
	return finding
}

// off is a finding about a feature whose rule is switched off.
func off(f Feature, at int) Finding {
	finding := found(f, at)
	finding.Action = switched
	return finding
}

// findingBytes is what findings take in memory; their texts are constants.
func findingBytes(findings []Finding) int { return cap(findings) * int(unsafe.Sizeof(Finding{})) }

// FindingOf is the finding about a feature that Sluice leaves as it is.
func FindingOf(f Feature) Finding { return found(f, 0) }
