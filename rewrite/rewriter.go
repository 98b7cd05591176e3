package rewrite

import (
	"iter"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/bytea"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// part is one statement of a text, with what the rules need and a plan does not store.
type part struct {
	st   *Statement    // the statement's plan
	raw  parse.Message // the RawStmt
	node parse.Message // the statement's node
	// locked are the queries of the statement that have locking clauses.
	locked  []parse.Message
	samples bool // uses TABLESAMPLE
	// advisory reports that the statement calls a function that takes an advisory lock.
	advisory bool
	uuids    bool // calls uuid_generate_v4
	config   bool // calls set_config
	// writeCommand and readOnlyAllowed are copied to the statement after the rules, which may replace its plan.
	writeCommand    string
	readOnlyAllowed bool
}

// rewriter collects the edits and findings of the rules for one text.
type rewriter struct {
	rules *Rules
	names *schema.Names // nil if no column is mapped
	// maps reports that the current statement names mapped columns, so that its text must not pass unchanged.
	maps bool
	// mapped reports that a statement of the text names mapped columns.
	mapped bool
	text   []byte
	parts  []part
	// planned returns the plan of a single command; it is nil for a heavy text. alone does the same if
	// transactions with DDL are committed in parts, otherwise it is nil. With whole an ALTER TABLE is not cut
	// into its commands.
	planned func(sql string) *Plan
	alone   func(sql string, whole bool) *Plan

	tokens parse.Tokens  // the tokens of the current statement
	mapper bytea.Mapping // set by columns

	numbering *numbering // set for a single CREATE TABLE
	widens    []string   // columns of the current statement that become wider than declared

	edits    []parse.Edit
	ends     []int // for each statement, the length of edits behind it
	meant    parse.Intents
	findings []Finding
}

// rewrite applies the rules to a text and stores the result in its plan. plan and parts are the draft of the
// text and its tree.
func (p *Planner) rewrite(sql string, tree parse.Message, names *schema.Names, plan *Plan, parts []part) *Plan {
	named := p.config.Rules.Named && slices.ContainsFunc(parts, func(p part) bool { return p.config })
	if len(parts) == 0 || !named && !p.config.Rules.any() {
		return plan
	}
	held := len(sql) >= heavyBytes
	r := p.run(sql, parts, names, nil, false)
	overlap := r.overlaps()
	if overlap != nil {
		p.unverified.Add(1)
		plan, parts = p.draft(sql, tree)
		r = p.run(sql, parts, names, func(i int) bool { return overlap[i] }, false)
	}
	for try := 0; len(r.edits) > 0; try++ {
		if text, ok := parse.Apply(sql, r.edits); ok && p.verified(text, tree, r.meant, held) {
			plan.Text, plan.source, plan.edits, plan.Mapped = text, sql, r.edits, r.mapped
			p.rewritten.Add(1)
			break
		}
		wrong := func(int) bool { return true }
		if try == 0 {
			p.unverified.Add(1)
			wrong = r.wrong(p, held)
		}
		plan, parts = p.draft(sql, tree)
		r = p.run(sql, parts, names, func(i int) bool { return overlap[i] || wrong(i) }, try == 0)
	}
	for i := range overlap {
		plan.Statements[i].Refusal = errOverlap
	}
	plan.Findings = r.findings
	if st := plan.Single(); st != nil && r.numbering != nil {
		r.numbering.attach(p, r, tree, st, held)
		r.reportSequences(st)
		plan.Findings = r.findings
	}
	plan.sum()
	if p.config.Rules.Split && !r.mapped && splittable(parts) {
		plan.source, plan.splits = sql, true
	}
	return plan
}

// run applies the rules to every statement for which passes returns false. The others pass unchanged and only
// get findings. With again, mapped columns in these get their second form (mapAgain).
func (p *Planner) run(sql string, parts []part, names *schema.Names, passes func(i int) bool, again bool) *rewriter {
	r := &rewriter{rules: &p.config.Rules, names: names, text: []byte(sql), parts: parts, meant: parse.Intents{}}
	if len(sql) < heavyBytes {
		r.planned = func(sql string) *Plan { return p.alone(sql, names, false) }
		if p.config.Rules.InTransactions != RefuseDDL {
			r.alone = func(sql string, whole bool) *Plan { return p.alone(sql, names, whole) }
		}
	}
	for i := range parts {
		if passes != nil && passes(i) {
			if !again || !r.mapAgain(p, &parts[i], len(sql) >= heavyBytes) {
				r.unverified(&parts[i])
			}
		} else {
			r.statement(&parts[i])
		}
		parts[i].st.writeCommand, parts[i].st.readOnlyAllowed = parts[i].writeCommand, parts[i].readOnlyAllowed
		r.ends = append(r.ends, len(r.edits))
	}
	r.transactions()
	return r
}

// verified reports whether a rewritten text has the intended meaning. Its tree must equal the client's with the
// intended changes and no others.
func (p *Planner) verified(text string, tree parse.Message, meant parse.Intents, held bool) bool {
	made, ok := p.read(text, held)
	return ok && meant.Equal(tree, made)
}

// read parses a text that a rule made. held says that the caller has locked p.heavy.
func (p *Planner) read(text string, held bool) (tree parse.Message, ok bool) {
	if p.config.guard([]byte(text)) != parse.Fits {
		return parse.Message{}, false
	}
	if len(text) >= heavyBytes && !held {
		p.heavy.Lock()
		defer p.heavy.Unlock()
	}
	tree, err := parseDialect(text)
	return tree, err == nil
}

// overlaps returns the indexes of statements with overlapping edits or with edits outside of the statement; nil
// for none.
func (r *rewriter) overlaps() map[int]bool {
	var bad map[int]bool
	first, at := 0, 0 // the index of the statement's first edit, and the end of the edits before
	for i, last := range r.ends {
		edits := slices.Clone(r.edits[first:last])
		if first = last; len(edits) == 0 {
			continue
		}
		if !parse.Ordered(edits, at, len(r.text)) {
			if bad == nil {
				bad = map[int]bool{}
			}
			bad[i] = true
		}
		at = max(at, edits[len(edits)-1].End)
	}
	return bad
}

// wrong returns a predicate for the statements whose rewritten text, parsed alone, does not have the intended
// meaning. Callers then rewrite the text without these statements.
func (r *rewriter) wrong(p *Planner, held bool) func(i int) bool {
	bad := make(map[int]bool)
	first := 0
	for i, end := range r.ends {
		edits := slices.Clone(r.edits[first:end])
		first = end
		if len(edits) == 0 {
			continue
		}
		st := r.parts[i].st
		for j := range edits {
			edits[j].Start -= st.Start
			edits[j].End -= st.Start
		}
		if edits[0].Start < 0 {
			bad[i] = true
			continue
		}
		text, ok := parse.Apply(string(r.text[st.Start:st.End]), edits)
		if !ok {
			bad[i] = true
			continue
		}
		made, ok := p.read(text, held)
		bad[i] = !ok || len(made.Values("stmts")) != 1 || !r.meant.Equal(r.parts[i].raw, made.Child("stmts"))
	}
	return func(i int) bool { return bad[i] }
}

// unverified records the findings of a statement that passes unchanged because its rewritten text failed verification.
func (r *rewriter) unverified(p *part) {
	unchanged := *p.st
	alone := &rewriter{rules: r.rules, names: r.names, text: r.text, meant: parse.Intents{}}
	alone.statement(p)
	*p.st = unchanged
	if alone.maps {
		p.st.Refusal = (*Refusal)(bytea.RefusedFor("The text that was made does not mean what was intended."))
	}
	for _, f := range alone.findings {
		if f.Outcome == Rewritten || f.Outcome == Answered {
			f.Outcome, f.Severity, f.Action = Unverified, Error, notTheSame
			f.Remedy = catalogue[f.Feature].remedy
		}
		if f.Severity == Error && p.st.Hint == "" {
			p.st.Hint = hint(f.Remedy)
		}
		r.find(f)
	}
}

// statement applies all rules to one statement.
func (r *rewriter) statement(p *part) {
	first := len(r.findings)
	if !r.cursor(p) && !r.copyIn(p) {
		if r.names != nil {
			r.maps = false
			r.mapping(p)
			r.mapped = r.mapped || r.maps
		}
		if p.st.Refusal == nil && !r.advisory(p) && !r.separate(p) {
			r.others(p)
		}
	}
	for i := first; i < len(r.findings); i++ {
		f := &r.findings[i]
		f.Operation = p.st.Operation
		if f.Severity == Error && p.st.Hint == "" {
			p.st.Hint = hint(f.Remedy)
		}
	}
	if len(r.widens) > 0 {
		p.st.Retag, p.st.Warning, r.widens = "CREATE TABLE", wider(r.widens), nil
		if p.node.Is("CreateSchemaStmt") {
			p.st.Retag = "CREATE SCHEMA"
		}
	}
	if r.rules.Bytea != ByteaOff && p.node.Is("IndexStmt") && p.st.Hint == "" {
		p.st.Hint = unmappedIndex
	}
}

// others applies all rules to a statement, except those of cursors, COPY, advisory locks and the mapping.
func (r *rewriter) others(p *part) {
	r.locking(p)
	r.generateUUIDs(p)
	switch p.node.Name() {
	case "IndexStmt":
		r.index(p)
	case "CreateStmt", "CreateSeqStmt", "AlterSeqStmt":
		r.numbered(p)
	case "CreateSchemaStmt":
		for within := range p.members() {
			r.member(within)
		}
	case "AlterTableStmt":
		r.alterTable(p)
	case "CreateExtensionStmt", "CommentStmt", "DropStmt":
		r.extension(p)
	case "CreateEnumStmt", "AlterEnumStmt":
		r.enumeration(p)
	case "DoStmt":
		r.guarded(p)
	case "TruncateStmt":
		r.truncate(p)
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
	case "LockStmt":
		r.lockTable(p)
	case "ClosePortalStmt", "UnlistenStmt":
		r.answerRelease(p)
	case "SelectStmt":
		r.calls(p)
	}
	r.numeric(p)
	if r.rules.Dialect && !p.st.replaced() {
		r.dialect(p)
	}
}

// replaced reports whether the server does not get the statement itself. A rule answers it, sends another
// statement, or carries out its contents.
func (st *Statement) replaced() bool {
	return st.Tag != "" || st.Retag != "" || st.Guarded != nil || st.EnumValue != nil
}

// alterTable rewrites an ALTER TABLE, or marks it as one that Sluice carries out in steps.
func (r *rewriter) alterTable(p *part) {
	if r.constraints(p); p.st.Constraints != nil || r.commands(p) {
		return
	}
	r.addColumn(p)
	r.alterIdentities(p)
	r.alteration(p)
}

// calls rewrites or answers a query that calls functions on session state, such as set_config.
func (r *rewriter) calls(p *part) {
	if p.advisory {
		r.answerRelease(p)
	}
	if p.config {
		r.setConfig(p)
	}
}

// member rewrites a statement inside CREATE SCHEMA. DSQL does not take CREATE INDEX ASYNC there.
func (r *rewriter) member(p *part) {
	switch {
	case p.node.Is("CreateStmt"), p.node.Is("CreateSeqStmt"):
		r.numbered(p)
		r.numeric(p)
	case p.node.Is("IndexStmt") && (r.rules.Index || r.rules.Dialect):
		r.find(found(CreateIndex, p.st.Start))
	}
}

// members yields the statements inside CREATE SCHEMA. Each shares the plan of the CREATE SCHEMA.
func (p *part) members() iter.Seq[*part] {
	return func(yield func(*part) bool) {
		for node := range p.node.List("schema_elts") {
			if !yield(&part{st: p.st, raw: p.raw, node: node}) {
				return
			}
		}
	}
}

// hint returns a remedy as a sentence, with a capital letter and a period.
func hint(remedy string) string {
	if remedy == "" {
		return ""
	}
	return strings.ToUpper(remedy[:1]) + remedy[1:] + "."
}

func (r *rewriter) find(f Finding) { r.findings = append(r.findings, f) }

func (r *rewriter) edit(e ...parse.Edit) { r.edits = append(r.edits, e...) }

// phrase returns the tokens of a statement. It reads the tokens once and caches them until the next statement.
func (r *rewriter) phrase(p *part) parse.Phrase {
	return r.tokens.Of(r.text, p.st.Start, p.st.End)
}

// answer turns a statement into one that Sluice answers with tag. The server gets the query Nothing in its
// place, and its rows are dropped.
func (r *rewriter) answer(p *part, does Does, tag string) {
	r.edit(parse.Edit{Start: p.st.Start, End: p.st.End, Text: Nothing})
	r.meant.Set(p.raw, "stmt", sampleNothing().Child("stmts").Values("stmt")...)
	*p.st = Statement{Kind: Read, Does: does, Start: p.st.Start, End: p.st.End, Operation: p.st.Operation, Tag: tag}
}

// Nothing is the query that replaces a statement which Sluice answers itself.
const Nothing = "SELECT 1"

var sampleNothing = parse.Sample(Nothing)

// errOverlap refuses a statement to which rules made overlapping edits, because the combined meaning is undefined.
var errOverlap = &Refusal{Unsent: true, Code: "0A000", Message: "cannot rewrite the statement: two changes to it overlap",
	Detail: "Nothing of the statement was sent.", Hint: "Write it in a simpler way, or in several statements, and report it."}
