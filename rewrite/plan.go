package rewrite

import (
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Plan is what Sluice knows about one text. Sessions share plans. A plan is immutable, except that ActiveSplit and
// Planner.Substitute store forms of it.
type Plan struct {
	// Kind is the strongest kind of the plan's statements.
	Kind StatementKind
	// Statements are the plans of the text's statements, in text order, or empty for a plan of kind Empty or Unknown.
	Statements []Statement
	// Pin is the first reason in the text for which the session must keep its backend.
	Pin PinReason
	// Contends reports whether a statement of the text locks or changes existing rows.
	Contends bool
	// Text is the text that the server gets, if it differs from the client's text, otherwise "".
	Text string
	// Operation is the metrics name of the first statement whose kind is Kind. Operation is "" for Empty and Unknown.
	Operation string
	// Findings are the findings about the text, in text order. Findings is nil for nearly all plans.
	Findings []finding.Finding

	// Mapped reports whether a statement names a relation with mapped columns (bytea stored as text). Server errors
	// about the statement may contain column names that the client does not know.
	Mapped bool
	// Lacks reports whether a statement names a relation that is not in the schema snapshot of PlanWithNames. Another
	// process may have created the relation since the snapshot.
	Lacks bool
	// BehindDDL reports that a statement may depend on earlier DDL of the text. Its plan uses the schema before that
	// DDL.
	BehindDDL bool

	// source is the client's text, or "" if the plan does not need it. edits turn source into Text.
	source string
	edits  []parse.Edit
	// splits reports that Planner.SplitPlan may divide the text into two statements.
	splits bool
	split  lazySplit
	noted  atomic.Bool
	// table is the plan's key in tablePlanCache, or "". ran reports that the plan's statement has recently succeeded.
	table string
	ran   atomic.Bool
	// listed reports that the plan is one DELETE from a table of Rules.Chunked, or a TRUNCATE that may run in batches.
	listed  bool
	chunked lazyBatchedDelete
	// rereads reports whether a statement changes how the server reads later texts (MayChangeReading).
	rereads bool
	// Sequence names the session's sequence state that the text reads, in the words of PostgreSQL's errors: `lastval`,
	// or `currval of sequence "s"`. Sequence is "" for a text that calls neither lastval nor currval.
	Sequence string
	// unsure reports that a statement of kind Read may still write, by code that its text does not show (IsSureRead).
	unsure  bool
	written struct {
		once sync.Once
		plan *Plan
	}
	// substituted is the last form of the plan that Planner.Substitute made. In it, Sluice answers some statements
	// itself.
	substituted lazySubstitute
}

// ClientPosition converts a position in the text that the server got to a position in the client's text. A position is
// the number of a character, counted from 1, as in PostgreSQL's errors.
func (p *Plan) ClientPosition(position int) int {
	if p.Text == "" {
		return position
	}
	return parse.OriginalPosition(p.source, p.Text, p.edits, position)
}

// IsLockTableStart reports whether a LOCK TABLE for which Sluice sent a query (ChecksTables) starts at a position of
// the client's text. An error at this position is about the query, so the client gets the error without a position.
func (p *Plan) IsLockTableStart(position int) bool {
	for i := range p.Statements {
		if st := &p.Statements[i]; st.Does == ChecksTables && p.source != "" && utf8.RuneCountInString(p.source[:st.Start])+1 == position {
			return true
		}
	}
	return false
}

// ClientText returns the client's text if the server gets another text, otherwise "".
func (p *Plan) ClientText() string {
	if p.Text == "" {
		return ""
	}
	return p.source
}

// ShouldLogFindings reports whether the caller should log the findings. It returns true once for each plan with
// findings.
func (p *Plan) ShouldLogFindings() bool { return len(p.Findings) > 0 && !p.noted.Swap(true) }

// summarize computes those fields of the plan that follow from its statements.
func (p *Plan) summarize() {
	p.Kind, p.Pin, p.Operation, p.Contends, p.rereads, p.unsure = Empty, NoPin, "", false, false, false
	for i := range p.Statements {
		st := &p.Statements[i]
		if st.Kind > p.Kind {
			p.Kind, p.Operation = st.Kind, st.Operation
		}
		if p.Pin == NoPin {
			p.Pin = st.Pin
		}
		p.Contends = p.Contends || st.Contends
		p.rereads = p.rereads || st.mayChangeReading()
		p.unsure = p.unsure || st.unsure
		if p.Sequence == "" {
			p.Sequence = st.sequence
		}
	}
}

// AnyStatement reports whether the function is returns true for at least one statement of the plan. The function gets a
// pointer because statements are large.
func (p *Plan) AnyStatement(is func(*Statement) bool) bool {
	for i := range p.Statements {
		if is(&p.Statements[i]) {
			return true
		}
	}
	return false
}

// SingleStatement returns the only statement of a plan, or nil if the plan has none or several.
func (p *Plan) SingleStatement() *Statement {
	if len(p.Statements) != 1 {
		return nil
	}
	return &p.Statements[0]
}
