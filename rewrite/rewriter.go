package rewrite

import "strings"

// part is one statement of a text while its plan is made.
type part struct {
	st   *Statement // in the plan
	raw  message    // the RawStmt
	node message    // the statement's
	// locked are the queries in it that have locking clauses.
	locked  []message
	samples bool // TABLESAMPLE
	// advisory says that it calls a function that takes an advisory lock.
	advisory bool
}

// rewriter gathers what the rules make of one text.
type rewriter struct {
	rules *Rules
	text  []byte
	parts []part

	edits    []edit
	meant    intents
	findings []Finding
}

// rewrite applies the rules to a text that passed the guard. It fills the plan,
// which draft has made of the text and its tree.
func (p *Planner) rewrite(sql string, tree message, plan *Plan, parts []part) *Plan {
	if len(parts) == 0 || !p.config.Rules.any() {
		return plan
	}
	r := &rewriter{rules: &p.config.Rules, text: []byte(sql), parts: parts, meant: intents{}}
	for i := range parts {
		r.statement(&parts[i])
	}
	r.transactions()
	if len(r.edits) > 0 {
		text := applyEdits(sql, r.edits)
		if !p.verified(text, tree, r.meant, len(sql) >= heavyBytes) {
			plan, _ = p.draft(sql, tree)
			plan.Findings = r.unverified()
			p.unverified.Add(1)
			return plan
		}
		plan.Text, plan.source, plan.edits = text, sql, r.edits
		p.rewritten.Add(1)
	}
	plan.Findings = r.findings
	plan.sum()
	if p.config.Rules.Split && splittable(parts) {
		plan.source, plan.splits = sql, true
	}
	return plan
}

// verified reports whether a text means what was intended: its own tree must be
// the client's with the changes that the rules meant, and no other.
func (p *Planner) verified(text string, tree message, meant intents, held bool) bool {
	if p.config.guard([]byte(text)) != fits {
		return false
	}
	if len(text) >= heavyBytes && !held {
		p.heavy.Lock()
		defer p.heavy.Unlock()
	}
	made, err := parseDialect(text)
	return err == nil && meant.equal(tree, made)
}

// unverified turns what was to be rewritten into what passes unchanged.
func (r *rewriter) unverified() []Finding {
	for i := range r.findings {
		if f := &r.findings[i]; f.Outcome == Rewritten || f.Outcome == Answered {
			f.Outcome, f.Severity, f.Action = Unverified, Error, notTheSame
			f.Remedy = catalogue[f.Feature].remedy
		}
	}
	return r.findings
}

// statement has every rule look at one statement.
func (r *rewriter) statement(p *part) {
	first := len(r.findings)
	r.locking(p)
	switch p.node.name() {
	case "IndexStmt":
		r.index(p)
	case "CreateStmt":
		r.serial(p)
	case "CreatedbStmt":
		r.createDatabase(p)
	case "DropdbStmt":
		r.dropDatabase(p)
	case "TransactionStmt":
		r.begin(p)
	case "VariableSetStmt":
		r.setIsolation(p)
	case "DiscardStmt":
		r.discard(p)
	}
	if r.rules.Dialect {
		r.dialect(p)
	}
	for i := first; i < len(r.findings); i++ {
		f := &r.findings[i]
		f.Operation = p.st.Operation
		if f.Severity == Error && p.st.Hint == "" {
			p.st.Hint = hint(f.Remedy)
		}
	}
}

// hint makes a sentence of a remedy.
func hint(remedy string) string {
	if remedy == "" {
		return ""
	}
	return strings.ToUpper(remedy[:1]) + remedy[1:] + "."
}

func (r *rewriter) find(f Finding) { r.findings = append(r.findings, f) }

func (r *rewriter) edit(e ...edit) { r.edits = append(r.edits, e...) }

// phrase reads a statement's tokens.
func (r *rewriter) phrase(p *part) phrase { return lexPhrase(r.text, p.st.Start, p.st.End) }

// answer makes a statement one that Sluice answers: in its place a query goes to
// the server whose rows nobody sees.
func (r *rewriter) answer(p *part, tag string) {
	r.edit(edit{p.st.Start, p.st.End, nothing})
	r.meant.set(p.raw, "stmt", sampleNothing().child("stmts").values("stmt")...)
	*p.st = Statement{Kind: Read, Start: p.st.Start, End: p.st.End, Operation: p.st.Operation, Tag: tag}
}

// nothing is the query that stands where a statement is answered by Sluice.
const nothing = "SELECT 1"

var sampleNothing = sample(nothing)

// transactions looks for what DSQL does not take in one transaction: a text
// without BEGIN is one too, when it has several statements.
func (r *rewriter) transactions() {
	if !r.rules.Dialect || len(r.parts) < 2 {
		return
	}
	var b block
	for i := range r.parts {
		p := &r.parts[i]
		f := b.observe(p.st, p.node)
		if f == "" {
			continue
		}
		finding := found(f, p.st.Start)
		finding.Operation = p.st.Operation
		if p.st.Hint == "" {
			p.st.Hint = hint(finding.Remedy)
		}
		r.find(finding)
	}
}

// block follows a transaction.
type block struct{ ddl, dml bool }

// observe reports what a statement is too much for the transaction; "" for nothing.
func (b *block) observe(st *Statement, node message) Feature {
	switch st.Tx.Verb {
	case Commit, Rollback, PrepareTransaction:
		*b = block{}
		return ""
	}
	switch {
	case st.Refusal != nil:
	case st.Kind == DDL:
		already := *b
		b.ddl = true
		if already.ddl {
			return SeveralDDL
		}
		if already.dml {
			return DDLAndDML
		}
	case node.is("InsertStmt"), node.is("UpdateStmt"), node.is("DeleteStmt"), node.is("MergeStmt"):
		b.dml = true
		if b.ddl {
			return DDLAndDML
		}
	}
	return ""
}
