package rewrite

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Substitute is what goes to the server in the place of one statement of a text.
// The zero value leaves the statement as it is.
type Substitute struct {
	SQL string // one statement
	// Tx is what that says about transactions, where it is such a statement.
	Tx Transaction
	// Own: the statement is answered by the relay, and its plan says nothing of it.
	Own bool
}

// Place holds the place of a statement that the relay answers. It takes no
// snapshot and reads nothing, and fails where any statement fails that does not
// end the transaction.
var Place = Substitute{SQL: "SHOW server_version", Own: true}

// Fault holds the place of a statement that the relay answers with an error: it
// always fails, with FaultCode.
var Fault = Substitute{SQL: "SELECT 1/0", Own: true}

// FaultCode is the SQLSTATE of Fault; a transaction that has failed gives another.
const FaultCode = "22012"

// substituted is the last form of a plan that Substitute made.
type substituted struct {
	by   []Substitute
	plan *Plan
}

type lazySubstitute struct{ made atomic.Pointer[substituted] }

// Substitute is the plan of sql, the text of plan, with other statements in the
// place of some; by has one for each. It is nil where the result does not mean
// what was intended. The last form of each plan is remembered.
func (p *Planner) Substitute(plan *Plan, sql string, by []Substitute) *Plan {
	if last := plan.substituted.made.Load(); last != nil && slices.Equal(last.by, by) {
		return last.plan
	}
	made := p.substitute(plan, sql, by)
	plan.substituted.made.Store(&substituted{slices.Clone(by), made})
	return made
}

func (p *Planner) substitute(plan *Plan, sql string, by []Substitute) *Plan {
	made := &Plan{Statements: slices.Clone(plan.Statements), Findings: plan.Findings, Mapped: plan.Mapped, source: sql}
	made.noted.Store(true)
	for i := range made.Statements {
		st := &made.Statements[i]
		if by[i].SQL == "" {
			continue
		}
		if by[i].Tx.Verb != NoVerb {
			st.Tx = by[i].Tx
		}
		if by[i].Own {
			*st = Statement{Kind: Read, Start: st.Start, End: st.End, Operation: st.Operation}
		}
		made.edits = append(made.edits, parse.Edit{Start: st.Start, End: st.End, Text: by[i].SQL})
	}
	for _, e := range plan.edits {
		if !slices.ContainsFunc(made.edits, func(o parse.Edit) bool { return o.Start <= e.Start && e.End <= o.End }) {
			made.edits = append(made.edits, e)
		}
	}
	var ok bool
	made.Text, ok = parse.Apply(sql, made.edits)
	before := plan.Text
	if before == "" {
		before = sql
	}
	if !ok || !p.sameBut(before, made.Text, by) {
		p.unverified.Add(1)
		return nil
	}
	made.sum()
	return made
}

// sameBut reports whether the statements of two texts are the same, but for those
// that are substituted.
func (p *Planner) sameBut(before, after string, by []Substitute) bool {
	trees := [2][]parse.Message{}
	for i, text := range []string{before, after} {
		tree, ok := p.read(text, false)
		if !ok {
			return false
		}
		trees[i] = slices.Collect(tree.List("stmts"))
	}
	if len(trees[0]) != len(by) || len(trees[1]) != len(by) {
		return false
	}
	for i, want := range trees[0] {
		if by[i].SQL != "" {
			tree, ok := p.read(by[i].SQL, false)
			if !ok {
				return false
			}
			want = tree.Child("stmts")
		}
		if !(parse.Intents{}).Equal(want.Child("stmt"), trees[1][i].Child("stmt")) {
			return false
		}
	}
	return true
}

// Substitutable reports whether a relay may have to answer some of several
// statements.
func (p *Plan) Substitutable() bool { return len(p.Statements) > 1 && p.Answerable() }

// Answerable reports whether a relay may have to answer some of the statements:
// those of settings and prepared statements, the modes of transactions, and what a rule answers or leaves to the relay.
func (p *Plan) Answerable() bool {
	return slices.ContainsFunc(p.Statements, func(st Statement) bool {
		return st.Kind == Setting || st.Show != "" || st.Tag != "" || st.Asks != nil || st.Executes != "" || st.Database != nil || st.Weakened || st.Tx.Verb == SetTransaction ||
			st.Refusal != nil && st.Refusal.Unsent
	})
}

// substituteBytes is about what the form with substitutes takes in memory.
func (p *Plan) substituteBytes() int {
	n := len(p.Statements)
	each := unsafe.Sizeof(Statement{}) + unsafe.Sizeof(Substitute{}) + unsafe.Sizeof(parse.Edit{})
	return int(unsafe.Sizeof(*p)) + n*(int(each)+len(Place.SQL)) + 2*p.Statements[n-1].End
}
