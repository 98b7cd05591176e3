package rewrite

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// DO blocks, which DSQL has not, of the forms in which migrations write "unless it is there
// already" where PostgreSQL has no IF NOT EXISTS:
//
//	BEGIN statement; EXCEPTION WHEN duplicate_object THEN NULL; END
//	BEGIN IF condition THEN statement; END IF; END
//	BEGIN statement; END
//
// with one statement of DDL, and without variables. The relay carries the statement out as if it
// were sent by itself; that is what the block does, which has no other. Any other block is the
// server's to refuse.

// Guarded is such a block.
type Guarded struct {
	Text      string // the block
	Condition string // SQL of a boolean, under which the statement is run; "" for none
	Ignores   []string
	Command   Command
}

// mostGuarded bounds a block that is looked into, in bytes. An enumeration of a thousand values is
// well below.
const mostGuarded = 64 << 10

// conditionCodes are PostgreSQL's names of what a block may ignore: what says that something is
// there already, or is not there. OTHERS is not among them, since it would hide a refusal.
var conditionCodes = map[string]string{
	"duplicate_object": "42710", "duplicate_table": "42P07", "duplicate_column": "42701", "duplicate_schema": "42P06",
	"unique_violation": "23505", "undefined_object": "42704", "undefined_table": "42P01", "undefined_column": "42703",
	"invalid_schema_name": "3F000", "invalid_table_definition": "42P16",
}

// guarded is the rule of DO.
func (r *rewriter) guarded(p *part) {
	body, ok := blockOf(p.node)
	if !ok || !r.rules.Dialect || r.planned == nil {
		return
	}
	g := readBlock(body)
	if g == nil || g.Condition != "" && !r.asks(g.Condition) {
		return
	}
	plan := r.planned(g.Command.Text)
	st := plan.Single()
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
	p.st.Guarded, p.st.Pin, p.st.demand, p.writes, p.neutral = g, NoPin, st.demand, st.writes, st.neutral
	r.find(handled(Procedural, Rewritten, Info, "the one statement in the block is carried out as if it were sent by itself", p.st.Start))
	for _, f := range plan.Findings {
		f.At = p.st.Start
		r.find(f)
	}
}

// asks reports whether a condition only reads.
func (r *rewriter) asks(condition string) bool {
	plan := r.planned("SELECT (" + condition + ")")
	st := plan.Single()
	return st != nil && plan.Kind == Read && plan.Text == "" && st.Pin == NoPin && !st.Calls && st.Refusal == nil && st.Tag == "" && len(st.Changes) == 0 && !plan.Contends
}

// blockOf is the text of a DO in PL/pgSQL.
func blockOf(node message) (body string, ok bool) {
	for option := range node.list("args") {
		arg := option.child("arg")
		switch option.text("defname") {
		case "as":
			body = arg.text("sval")
		case "language":
			if arg.text("sval") != "plpgsql" {
				return "", false
			}
		}
	}
	return body, body != "" && len(body) <= mostGuarded
}

// readBlock reads a block; nil for one of another form. Comments are left to others: the statement
// is cut out of its text.
func readBlock(body string) *Guarded {
	ph := lexPhrase([]byte(body), 0, len(body))
	g, i := &Guarded{}, 1
	if !ph.word(0, "begin") || ph.commented() {
		return nil
	}
	conditional := ph.word(i, "if")
	if conditional {
		then := ph.next(i, "then")
		if then < 0 || slices.ContainsFunc(ph.tokens[i:then], func(t lexed) bool { return t.kind == wordToken && is(ph.text[t.start:t.end], "case") }) {
			return nil
		}
		g.Condition, i = ph.span(i+1, then), then+1
	}
	end := i
	for end < len(ph.tokens) && !ph.punct(end, ';') {
		end++
	}
	if !slices.ContainsFunc([]string{"create", "alter", "drop", "comment"}, func(verb string) bool { return ph.word(i, verb) }) {
		return nil
	}
	g.Command.Text = ph.span(i, end)
	i = end + 1
	if conditional {
		if !ph.words(i, "end", "if") || !ph.punct(i+2, ';') {
			return nil
		}
		i += 3
	}
	if ph.word(i, "exception") && !conditional { // which would be for the condition as well
		if i = g.handlers(&ph, i+1); len(g.Ignores) == 0 {
			return nil
		}
	}
	if !ph.word(i, "end") {
		return nil
	}
	if i++; ph.punct(i, ';') {
		i++
	}
	if i != len(ph.tokens) {
		return nil
	}
	return g
}

// commented reports whether there are comments among the tokens.
func (p *phrase) commented() bool {
	from := 0
	for _, t := range p.tokens {
		if len(bytes.TrimSpace(p.text[from:t.start])) > 0 {
			return true
		}
		from = int(t.end)
	}
	return false
}

// next is the first token from i on that is a word; -1 for none.
func (p *phrase) next(i int, lower string) int {
	for ; i < len(p.tokens); i++ {
		if p.word(i, lower) {
			return i
		}
	}
	return -1
}

// handlers reads WHEN condition [OR condition] THEN NULL; as often as it stands from i on, and
// returns where the next token is. For any other handler nothing is ignored.
func (g *Guarded) handlers(ph *phrase, i int) int {
	for ph.word(i, "when") {
		for more := true; more; more = ph.word(i, "or") {
			code := conditionCodes[strings.ToLower(string(ph.lexeme(i+1)))]
			if code == "" {
				g.Ignores = nil
				return i
			}
			g.Ignores = append(g.Ignores, code)
			i += 2
		}
		if !ph.words(i, "then", "null") || !ph.punct(i+2, ';') {
			g.Ignores = nil
			return i
		}
		i += 3
	}
	return i
}
