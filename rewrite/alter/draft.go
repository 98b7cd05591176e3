package alter

import (
	"unsafe"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Draft is one statement of a text, with the data that the rules of this package need. A rule is a method of Draft
// without parameters and results. A rule that applies changes the fields from Edits on. Any other rule changes nothing.
type Draft struct {
	Rules Rules
	Raw   parse.TreeNode // the statement's RawStmt node, which contains Node
	Node  parse.TreeNode // the node of the statement itself
	Text  []byte         // the client's whole text
	// Start and End are the statement's byte offsets in Text.
	Start, End int
	Tokens     *parse.TokenCache // the tokens of the current statement
	Alone      bool              // the text has no other statement
	Dry        bool              // the rewritten statement failed verification, so only Findings is used
	Temporary  bool              // the statement is about a temporary object
	// SequenceOptions returns options of CREATE SEQUENCE in a form that DSQL accepts. If there is none, ok is false.
	SequenceOptions func(options string) (adapted string, ok bool)

	Edits    []parse.Edit // the edits of the text, including those of earlier rules
	Meant    parse.TreeChanges
	Findings []finding.Finding
	Hint     string // the hint that the client gets if the server refuses the statement
	// Steps is the plan of the statements that Sluice runs instead of the client's statement, or nil.
	Steps Steps
	// If another statement replaces the client's statement, ReplacementTag is the command tag for the client, and
	// Warning is a notice before the tag.
	ReplacementTag string
	Warning        *Notice
}

// Rules are those rules of package rewrite that concern this package. The zero value disables all of them.
type Rules struct {
	Dialect, AddColumn, Backfill, Retype, Constraints, NotNullCheck, SerialKeys, Enums bool
	// Sequences allows Sluice to create sequences for serial columns.
	Sequences bool
}

// Notice is a notice or warning that the client gets before the answer to a statement.
type Notice struct{ Message, Detail string }

// Steps is a plan of the statements that Sluice sends instead of one that DSQL refuses. The plans of this package are
// *Alteration, *AddedConstraints and *EnumValueAddition.
type Steps interface {
	// TextAndTag returns the client's statement and its command tag.
	TextAndTag() (text, tag string)
	// Bytes estimates the memory of the plan in bytes. source is the length of the client's text, to which the plan may
	// refer.
	Bytes(source int) int
}

// statementText returns the text of the statement.
func (d *Draft) statementText() string { return string(d.Text[d.Start:d.End]) }

// tokens returns the SQL tokens of the statement, from Start to End in Text.
func (d *Draft) tokens() parse.TokenList {
	return d.Tokens.StatementTokens(d.Text, d.Start, d.End)
}

func (d *Draft) addFinding(f finding.Finding) { d.Findings = append(d.Findings, f) }

func (d *Draft) addEdits(e ...parse.Edit) { d.Edits = append(d.Edits, e...) }

// fitsParser reports whether a text that a rule made is within the default limits of parse.CheckLimits.
func fitsParser(text string) bool {
	return parse.CheckLimits([]byte(text), parse.DefaultMaxBytes, parse.DefaultMaxNesting) == parse.Fits
}

// wordBytes is the size in bytes of a Go string header. Estimates of a slice's memory use it.
const wordBytes = int(unsafe.Sizeof(""))
