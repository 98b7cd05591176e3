package rewrite

import (
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Plan is what Sluice knows about one text. Plans are shared, and immutable but
// for InSplit and what Planner.Substitute remembers.
type Plan struct {
	// Kind is the greatest kind of the statements.
	Kind Kind
	// Statements in text order. Empty for Empty and for Unknown.
	Statements []Statement
	// Pin is the first pin reason of the statements.
	Pin Pin
	// Contends says that a statement does.
	Contends bool
	// Text goes to the server in the place of the client's; "" for the client's own.
	Text string
	// Operation is that of the first statement of the plan's kind; "" for Empty and Unknown.
	Operation string
	// Findings in text order; nil for nearly all plans.
	Findings []Finding

	// Mapped says that a statement names a relation with mapped columns: errors about it may
	// name what the client does not know.
	Mapped bool
	// Lacks says that a statement reads or writes a relation which the snapshot of the schema
	// does not have (PlanIn): another process may have made it since.
	Lacks bool

	// source is the client's text and edits what made Text of it, where there are any.
	source string
	edits  []parse.Edit
	// splits says that there may be another form (Planner.Split).
	splits bool
	split  lazySplit
	noted  atomic.Bool
	// table is the key of a plan that is made for each table (tables); ran: its statement has
	// succeeded, lately.
	table string
	ran   atomic.Bool
	// listed says that it is one DELETE from a table of Rules.Chunked.
	listed  bool
	chunked lazyChunked
	// rereads is the answer of Rereads for the statements.
	rereads bool
	// Sequence says what a text asks of the sequences that its session has advanced, as
	// PostgreSQL's errors name it: lastval, or currval of sequence "s". "" for nothing.
	Sequence string
	// unsure: a statement of Kind Read may write all the same; see SureRead.
	unsure  bool
	written struct {
		once sync.Once
		plan *Plan
	}
	// substituted is a form in which Sluice answers some of the statements.
	substituted lazySubstitute
}

// Position maps a position in the text that the server was sent, as its errors
// tell it (in characters, from 1), to the client's text.
func (p *Plan) Position(position int) int {
	if p.Text == "" {
		return position
	}
	return parse.PositionBefore(p.source, p.Text, p.edits, position)
}

// OfOurs reports whether a position in the client's text is that of a statement in whose place the
// server was sent a query of ours (ChecksTables): the client's has no such place.
func (p *Plan) OfOurs(position int) bool {
	for i := range p.Statements {
		if st := &p.Statements[i]; st.Does == ChecksTables && p.source != "" && utf8.RuneCountInString(p.source[:st.Start])+1 == position {
			return true
		}
	}
	return false
}

// Source is the client's text, where another goes to the server; "" for any other plan.
func (p *Plan) Source() string {
	if p.Text == "" {
		return ""
	}
	return p.source
}

// Note reports true once: to whoever shall log the findings of this text.
func (p *Plan) Note() bool { return len(p.Findings) > 0 && !p.noted.Swap(true) }

// sum gathers what the plan says of its statements together.
func (p *Plan) sum() {
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
		p.rereads = p.rereads || st.rereads()
		p.unsure = p.unsure || st.unsure
		if p.Sequence == "" {
			p.Sequence = st.sequence
		}
	}
}

// Any reports whether a statement is as is says, which is given each in its place: a statement is large.
func (p *Plan) Any(is func(*Statement) bool) bool {
	for i := range p.Statements {
		if is(&p.Statements[i]) {
			return true
		}
	}
	return false
}

// Single returns the only statement of a plan, or nil.
func (p *Plan) Single() *Statement {
	if len(p.Statements) != 1 {
		return nil
	}
	return &p.Statements[0]
}
