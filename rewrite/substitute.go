package rewrite

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Substitute says which statement the server gets in place of one statement of a text. The zero Substitute leaves the
// client's statement as it is.
type Substitute struct {
	SQL string // a single statement; "" for the client's
	// Tx is the transaction command in SQL, if SQL contains one.
	Tx TxControl
	// Own means that Sluice itself answers the client's statement. The plan must then not describe this statement.
	Own bool
}

// AnsweredSubstitute is what the server gets for a statement that Sluice answers. It reads nothing, and makes the
// server take no snapshot. In a failed transaction it fails, as other statements do.
var AnsweredSubstitute = Substitute{SQL: "SHOW server_version", Own: true}

// FailingSubstitute is what the server gets for a statement that Sluice answers with an error. It always fails, with
// the SQLSTATE FailingSubstituteCode.
var FailingSubstitute = Substitute{SQL: "SELECT 1/0", Own: true}

// FailingSubstituteCode is the SQLSTATE with which FailingSubstitute fails. In a failed transaction, it is another one.
const FailingSubstituteCode = "22012"

// cachedSubstitute is the last result of Planner.Substitute for a plan, and the argument by of that call.
type cachedSubstitute struct {
	by   []Substitute
	plan *Plan
}

type lazySubstitute struct {
	made atomic.Pointer[cachedSubstitute]
}

// Substitute returns the plan of sql with some statements replaced. plan is the plan of sql, and by has one Substitute
// for each statement. The result is nil if the new text has other statements than intended. plan caches the last
// result.
func (p *Planner) Substitute(plan *Plan, sql string, by []Substitute) *Plan {
	if last := plan.substituted.made.Load(); last != nil && slices.Equal(last.by, by) {
		return last.plan
	}
	made := p.buildSubstitute(plan, sql, by)
	plan.substituted.made.Store(&cachedSubstitute{slices.Clone(by), made})
	return made
}

func (p *Planner) buildSubstitute(plan *Plan, sql string, by []Substitute) *Plan {
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
	if !ok || !p.sameExceptReplaced(before, made.Text, by) {
		p.unverified.Add(1)
		return nil
	}
	made.summarize()
	return made
}

// sameExceptReplaced reports whether two texts have the same statements, except for the statements that by replaces.
func (p *Planner) sameExceptReplaced(before, after string, by []Substitute) bool {
	trees := [2][]parse.TreeNode{}
	for i, text := range []string{before, after} {
		tree, ok := p.parseGuarded(text, false)
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
			tree, ok := p.parseGuarded(by[i].SQL, false)
			if !ok {
				return false
			}
			want = tree.Child("stmts")
		}
		if !(parse.TreeChanges{}).Equal(want.Child("stmt"), trees[1][i].Child("stmt")) {
			return false
		}
	}
	return true
}

// MayNeedSubstitutes reports whether the plan has several statements, and Sluice may have to answer at least one of
// them.
func (p *Plan) MayNeedSubstitutes() bool { return len(p.Statements) > 1 && p.MayAnswerStatement() }

// MayAnswerStatement reports whether Sluice itself may have to answer a statement of the plan. These are statements
// about settings, prepared statements or transaction modes, and statements that a rule answers.
func (p *Plan) MayAnswerStatement() bool {
	return slices.ContainsFunc(p.Statements, func(st Statement) bool {
		return st.Kind == Setting || st.Show != "" || st.Tag != "" || st.Asks != nil || st.Executes != "" || st.Database != nil || st.Weakened || st.Tx.Verb == SetTransaction ||
			st.Refusal != nil && st.Refusal.Unsent
	})
}

// substituteBytes estimates the memory in bytes of a plan that Substitute would return.
func (p *Plan) substituteBytes() int {
	n := len(p.Statements)
	each := unsafe.Sizeof(Statement{}) + unsafe.Sizeof(Substitute{}) + unsafe.Sizeof(parse.Edit{})
	return int(unsafe.Sizeof(*p)) + n*(int(each)+len(AnsweredSubstitute.SQL)) + 2*p.Statements[n-1].End
}
