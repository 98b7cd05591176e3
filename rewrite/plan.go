package rewrite

import (
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Plan is what Sluice knows about one text. Sessions share plans. A plan is immutable except for the derived forms that
// ActiveSplit and Planner.Substitute cache.
type Plan struct {
	// Kind is the kind of the statement with the strongest effect in the plan.
	Kind StatementKind
	// Statements are the plans of the text's statements, in text order, or empty for a plan of kind Empty or Unknown.
	Statements []Statement
	// Pin is the first reason that a statement gives for keeping the session's backend.
	Pin PinReason
	// Contends reports whether a statement of the text locks or changes existing rows.
	Contends bool
	// Text is the text for the server if it differs from the client's text, otherwise "".
	Text string
	// Operation is the name, in metrics, of the plan's first statement of kind Kind, or "" for Empty and Unknown.
	Operation string
	// Findings are the findings about the text, in text order. Findings is nil for nearly all plans.
	Findings []finding.Finding

	// Mapped reports whether a statement names a relation with mapped columns (bytea stored as text). Server errors
	// about the statement may contain column names that the client does not know.
	Mapped bool
	// Lacks reports whether a statement names a relation that the schema snapshot of PlanWithNames lacks. Another process
	// may have created it since.
	Lacks bool
	// BehindDDL reports that a statement may depend on DDL before it in the text, but is planned by the older schema.
	BehindDDL bool

	// source is the client's text, which edits turn into Text, or "" if the plan does not need the client's text.
	source string
	edits  []parse.Edit
	// splits reports that Planner.SplitPlan may divide the text into two statements.
	splits bool
	split  lazySplit
	noted  atomic.Bool
	// table is the plan's key in tablePlanCache, or "". ran reports that the plan's statement has succeeded recently.
	table string
	ran   atomic.Bool
	// listed reports that the plan is one DELETE from a table of Rules.Chunked.
	listed  bool
	chunked lazyBatchedDelete
	// rereads reports whether a statement changes how the server reads later texts (MayChangeReading).
	rereads bool
	// Sequence names the session's sequence state that the text reads, in the words of PostgreSQL's errors: `lastval`, or
	// `currval of sequence "s"`. Sequence is "" for a text that calls neither function.
	Sequence string
	// unsure reports that a statement of kind Read may write, by code that its text does not show (IsSureRead).
	unsure  bool
	written struct {
		once sync.Once
		plan *Plan
	}
	// substituted is the last form of the plan in which Sluice answers some statements itself.
	substituted lazySubstitute
}

// ClientPosition converts a position in the text that the server got to a position in the client's text. Positions
// count characters from 1, as in PostgreSQL's errors.
func (p *Plan) ClientPosition(position int) int {
	if p.Text == "" {
		return position
	}
	return parse.OriginalPosition(p.source, p.Text, p.edits, position)
}

// IsLockTableStart reports whether a position in the client's text is the start of a LOCK TABLE that was sent as a
// query. Errors at this position are about the query, so the client gets no position (ChecksTables).
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

// ShouldLogFindings reports whether the caller should log the findings. The result is true once for each plan with
// findings.
func (p *Plan) ShouldLogFindings() bool { return len(p.Findings) > 0 && !p.noted.Swap(true) }

// summarize computes the fields of the plan that follow from its statements.
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

// AnyStatement reports whether the condition is, a function, holds for at least one statement of the plan. The
// function gets a pointer because statements are large.
func (p *Plan) AnyStatement(is func(*Statement) bool) bool {
	for i := range p.Statements {
		if is(&p.Statements[i]) {
			return true
		}
	}
	return false
}

// SingleStatement returns the only statement of a plan, or nil if there is not exactly one.
func (p *Plan) SingleStatement() *Statement {
	if len(p.Statements) != 1 {
		return nil
	}
	return &p.Statements[0]
}
