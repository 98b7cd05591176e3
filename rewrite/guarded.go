package rewrite

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// DSQL has no DO blocks. Migrations use DO blocks as a substitute for IF NOT EXISTS, in these forms:
//
//	BEGIN statement; EXCEPTION WHEN duplicate_object THEN NULL; END
//	BEGIN IF condition THEN statement; END IF; END
//	BEGIN statement; END
//
// If a block has one DDL statement and no variables, Sluice runs the statement as if the client had sent it alone.
// Sluice sends any other block to the server, which refuses it.

// DoBlock is a DO block with one statement that Sluice carries out.
type DoBlock struct {
	Text         string // the client's DO statement
	Condition    string // an SQL condition that must be true for Sluice to run Command; "" for none
	IgnoredCodes []string
	Command      AlterCommand
}

// TextAndTag implements alter.Steps: it returns the client's DO block and its command tag.
func (g *DoBlock) TextAndTag() (text, tag string) { return g.Text, "DO" }

// Bytes implements alter.Steps: it estimates the memory of the plan in bytes.
func (g *DoBlock) Bytes(int) int {
	return int(unsafe.Sizeof(*g)) + len(g.Text) + len(g.Condition) + cap(g.IgnoredCodes)*wordBytes + g.Command.bytes()
}

// maxDoBlock is the greatest length in bytes of a DO block that Sluice examines. A block that creates an enumeration of
// a thousand values is shorter.
const maxDoBlock = 64 << 10

// planDoBlock sets Steps for a DO block whose single statement Sluice can carry out.
func (r *rewriter) planDoBlock(p *statementPart) {
	body, ok := doBlockBody(p.node)
	if !ok || !r.rules.Dialect || r.planned == nil {
		return
	}
	form, ok := parse.ReadDoBlock(body)
	if !ok || form.Condition != "" && !r.onlyReads(form.Condition) {
		return
	}
	g := &DoBlock{Condition: form.Condition, IgnoredCodes: form.IgnoredCodes, Command: AlterCommand{Text: form.Statement}}
	plan := r.planned(form.Statement)
	st := plan.SingleStatement()
	switch _, fits := plan.Demand(); {
	case st == nil:
		return
	case refusesAlone(plan, st, r.rules.Bytea):
		if st.Hint != "" {
			p.st.Hint = "The statement in the block is refused by itself, too. To that one: " + st.Hint
		}
		return
	case !fits || st.Tag != "" || st.Job != NoJob || st.Pin != NoPin || plan.Mapped || !st.demand.DDL:
		p.st.Hint = "Send the statement by itself where the block would run it, and ignore the errors that the block ignores: Sluice carries it out, but not in a DO block."
		return
	}
	p.st.Hint = "Send the block alone outside of a transaction: the statement in it is then carried out."
	if len(r.parts) > 1 {
		return
	}
	g.Text, g.Command.St = string(r.text[p.st.Start:p.st.End]), st
	g.Command.Text = cmp.Or(plan.Text, g.Command.Text)
	p.st.Does, p.st.Steps, p.st.Pin, p.st.demand, p.writeCommand, p.readOnlyAllowed = Alters, g, NoPin, st.demand, st.writeCommand, st.readOnlyAllowed
	r.addFinding(finding.Handled(finding.Procedural, finding.Rewritten, finding.Info, "the one statement in the block is carried out as if it were sent by itself", p.st.Start))
	for _, f := range plan.Findings {
		f.At = p.st.Start
		r.addFinding(f)
	}
}

// refusesAlone reports whether the server would refuse the statement st outside of a DO block, too. A bytea column in a
// key does not count if the planner maps bytea columns (bytea is not ByteaOff).
func refusesAlone(plan *Plan, st *Statement, bytea ByteaMapping) bool {
	return plan.Kind == Unknown || st.Refusal != nil || slices.ContainsFunc(plan.Findings, func(f finding.Finding) bool {
		return isAlwaysRefused(f) && !(f.Feature == finding.ByteaKey && bytea != ByteaOff)
	})
}

// onlyReads reports whether the condition of a DO block has no effect but reads.
func (r *rewriter) onlyReads(condition string) bool {
	plan := r.planned("SELECT (" + condition + ")")
	st := plan.SingleStatement()
	return st != nil && plan.Kind == Read && plan.Text == "" && st.Pin == NoPin && !st.Calls && st.Refusal == nil && st.Tag == "" && len(st.Changes) == 0 && !plan.Contends
}

// doBlockBody returns the PL/pgSQL text of a DO block. ok is false for another language, and for a text that is too
// long.
func doBlockBody(node parse.TreeNode) (body string, ok bool) {
	for option := range node.List("args") {
		arg := option.Child("arg")
		switch option.Text("defname") {
		case "as":
			body = arg.Text("sval")
		case "language":
			if arg.Text("sval") != "plpgsql" {
				return "", false
			}
		}
	}
	return body, body != "" && len(body) <= maxDoBlock
}
