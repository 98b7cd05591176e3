package alter

import (
	"unsafe"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Draft is one statement of a text, with what the rules of this package need. A rule is a method of Draft without
// parameters and results. A rule changes the fields from Edits on, or nothing if it does not apply.
type Draft struct {
	Rules Rules
	Raw   parse.TreeNode // the RawStmt
	Node  parse.TreeNode // the statement's node
	Text  []byte         // the whole text
	// Start and End are the statement's byte offsets in Text.
	Start, End int
	Tokens     *parse.TokenCache // the tokens of the current statement
	Alone      bool              // the text has no other statement
	Dry        bool              // only the findings count: the rewritten statement failed verification
	Temporary  bool              // the statement is about a temporary object of the session
	// SequenceOptions returns options of CREATE SEQUENCE in a form that DSQL takes. ok is false without such a form.
	SequenceOptions func(options string) (adapted string, ok bool)

	Edits    []parse.Edit // the edits of the text, those of earlier rules included
	Meant    parse.TreeChanges
	Findings []finding.Finding
	Hint     string // the hint for the server's refusal of the statement
	// Steps is the plan of the statements that Sluice runs instead of the client's statement, or nil for none.
	Steps Steps
	// ReplacementTag and Warning are for a statement that another statement replaces: the client's command tag, and
	// the notice before the tag.
	ReplacementTag string
	Warning        *Notice
}

// Rules are the configured rules of package rewrite that concern this package. The zero value disables all of them.
type Rules struct {
	Dialect, AddColumn, Backfill, Retype, Constraints, NotNullCheck, SerialKeys, Enums bool
	// Sequences allows sequences for serial columns.
	Sequences bool
}

// Notice is a notice or warning that the client gets before the answer to a statement.
type Notice struct{ Message, Detail string }

// Steps is a plan of the statements that Sluice sends instead of one that DSQL refuses. The plans of this package are
// *Alteration, *AddedConstraints and *EnumValueAddition.
type Steps interface {
	// TextAndTag returns the client's statement and its command tag.
	TextAndTag() (text, tag string)
	// Bytes estimates the memory of the plan in bytes. The plan may refer to the client's text, of length source.
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

// fitsParser reports whether a text that a rule made is within the default limits of the parser.
func fitsParser(text string) bool {
	return parse.CheckLimits([]byte(text), parse.DefaultMaxBytes, parse.DefaultMaxNesting) == parse.Fits
}

// wordBytes is the size of a string header, used to estimate the memory of a slice.
const wordBytes = int(unsafe.Sizeof(""))
