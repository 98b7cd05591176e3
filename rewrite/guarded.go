package rewrite

import (
	"cmp"
	"slices"
	"strings"
	"unsafe"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// DSQL has no DO blocks. Migrations use them as a substitute for IF NOT EXISTS, in these forms:
//
//	BEGIN statement; EXCEPTION WHEN duplicate_object THEN NULL; END
//	BEGIN IF condition THEN statement; END IF; END
//	BEGIN statement; END
//
// For a block with one DDL statement and without variables, Sluice runs the statement as if it were sent alone. Other
// blocks are sent to the server, which refuses them.

// DoBlock is a DO block with one statement that Sluice carries out.
type DoBlock struct {
	Text         string // the DO statement
	Condition    string // a boolean SQL expression that must be true; "" for none
	IgnoredCodes []string
	Command      AlterCommand
}

// TextAndTag implements alter.Steps.
func (g *DoBlock) TextAndTag() (text, tag string) { return g.Text, "DO" }

// Bytes implements alter.Steps.
func (g *DoBlock) Bytes(int) int {
	return int(unsafe.Sizeof(*g)) + len(g.Text) + len(g.Condition) + cap(g.IgnoredCodes)*wordBytes + g.Command.bytes()
}

// maxDoBlock is the maximum length in bytes of a DO block that Sluice examines. An enumeration of a thousand values is
// shorter.
const maxDoBlock = 64 << 10

// conditionCodes maps the error conditions that a DO block may ignore to their SQLSTATEs. All mean that an object
// exists or is missing. OTHERS is excluded because it would hide a refusal.
var conditionCodes = map[string]string{
	"duplicate_object": "42710", "duplicate_table": "42P07", "duplicate_column": "42701", "duplicate_schema": "42P06",
	"unique_violation": "23505", "undefined_object": "42704", "undefined_table": "42P01", "undefined_column": "42703",
	"invalid_schema_name": "3F000", "invalid_table_definition": "42P16",
}

// planDoBlock marks a DO block whose single statement Sluice can carry out.
func (r *rewriter) planDoBlock(p *statementPart) {
	body, ok := doBlockBody(p.node)
	if !ok || !r.rules.Dialect || r.planned == nil {
		return
	}
	g := parseDoBlock(body)
	if g == nil || g.Condition != "" && !r.onlyReads(g.Condition) {
		return
	}
	plan := r.planned(g.Command.Text)
	st := plan.SingleStatement()
	if _, fits := plan.Demand(); !fits || st == nil || st.Refusal != nil || st.Tag != "" || st.Job != NoJob || st.Pin != NoPin || plan.Mapped || !st.demand.DDL {
		if st != nil && st.Hint != "" {
			p.st.Hint = "The statement in the block is refused by itself, too. To that one: " + st.Hint
		}
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

// onlyReads reports whether the condition of a DO block only reads.
func (r *rewriter) onlyReads(condition string) bool {
	plan := r.planned("SELECT (" + condition + ")")
	st := plan.SingleStatement()
	return st != nil && plan.Kind == Read && plan.Text == "" && st.Pin == NoPin && !st.Calls && st.Refusal == nil && st.Tag == "" && len(st.Changes) == 0 && !plan.Contends
}

// doBlockBody returns the text of a DO block in PL/pgSQL. ok is false for another language or a block that is too long.
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

// parseDoBlock returns the DoBlock for the body of a DO block, or nil for a body of another form. Bodies with comments
// are excluded, because the statement is cut out of the text.
func parseDoBlock(body string) *DoBlock {
	ph := parse.LexTokens([]byte(body), 0, len(body))
	g, i := &DoBlock{}, 1
	if !ph.IsKeyword(0, "begin") || ph.HasComments() {
		return nil
	}
	conditional := ph.IsKeyword(i, "if")
	if conditional {
		then := ph.NextKeyword(i, "then")
		if then < 0 || slices.ContainsFunc(ph.Tokens[i:then], func(t parse.LexedToken) bool {
			return t.Kind == parse.WordToken && parse.IsWord(ph.Text[t.Start:t.End], "case")
		}) {
			return nil
		}
		g.Condition, i = ph.TextBetween(i+1, then), then+1
	}
	end := i
	for end < len(ph.Tokens) && !ph.IsPunct(end, ';') {
		end++
	}
	if !slices.ContainsFunc([]string{"create", "alter", "drop", "comment"}, func(verb string) bool { return ph.IsKeyword(i, verb) }) {
		return nil
	}
	g.Command.Text = ph.TextBetween(i, end)
	i = end + 1
	if conditional {
		if !ph.AreKeywords(i, "end", "if") || !ph.IsPunct(i+2, ';') {
			return nil
		}
		i += 3
	}
	if ph.IsKeyword(i, "exception") && !conditional { // with a condition, the handlers would cover it, too
		if i = g.readHandlers(&ph, i+1); len(g.IgnoredCodes) == 0 {
			return nil
		}
	}
	if !ph.IsKeyword(i, "end") {
		return nil
	}
	if i++; ph.IsPunct(i, ';') {
		i++
	}
	if i != len(ph.Tokens) {
		return nil
	}
	return g
}

// readHandlers reads the clauses WHEN condition [OR condition] THEN NULL; from token i on, and returns the index of the
// next token. Another form of handler clears IgnoredCodes.
func (g *DoBlock) readHandlers(ph *parse.TokenList, i int) int {
	for ph.IsKeyword(i, "when") {
		for more := true; more; more = ph.IsKeyword(i, "or") {
			code := conditionCodes[strings.ToLower(string(ph.Lexeme(i+1)))]
			if code == "" {
				g.IgnoredCodes = nil
				return i
			}
			g.IgnoredCodes = append(g.IgnoredCodes, code)
			i += 2
		}
		if !ph.AreKeywords(i, "then", "null") || !ph.IsPunct(i+2, ';') {
			g.IgnoredCodes = nil
			return i
		}
		i += 3
	}
	return i
}
