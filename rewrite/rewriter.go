package rewrite

import (
	"iter"
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/alter"
	"github.com/sluice-proxy/sluice/rewrite/bytea"
	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// statementPart is one statement of a text, with facts that the rewriting rules need and the plan does not store.
type statementPart struct {
	st   *Statement     // the statement's plan
	raw  parse.TreeNode // the statement's RawStmt node, which contains node
	node parse.TreeNode // the node of the statement itself, such as a SelectStmt
	// locked are the queries of the statement that have locking clauses.
	locked  []parse.TreeNode
	samples bool // the statement uses TABLESAMPLE
	// advisory reports that the statement calls a function that takes an advisory lock.
	advisory bool
	uuids    bool // the statement calls uuid_generate_v4
	config   bool // the statement calls set_config
	// writeCommand and readOnlyAllowed are fields for the Statement, which a rule may still replace.
	writeCommand    string
	readOnlyAllowed bool
}

// rewriter collects the edits and findings of the rewriting rules for one text.
type rewriter struct {
	rules *Rules
	names *schema.NameResolver // resolves relations; nil if no column is mapped (bytea stored as text)
	// maps reports that the current statement names mapped columns. The server must then not get it unchanged.
	maps bool
	// mapped reports that at least one statement of the text names mapped columns (bytea stored as text).
	mapped bool
	text   []byte
	parts  []statementPart
	// planned plans one command, and is nil for a text of heavyBytes or more. alone does the same, and is also nil with
	// RefuseDDL. whole says that alone does not cut an ALTER TABLE into its commands.
	planned func(sql string) *Plan
	alone   func(sql string, whole bool) *Plan

	tokens parse.TokenCache // the tokens of the current statement
	mapper bytea.Mapping    // how bytea is stored; set by byteaMapping

	numbering *serialTableBuilder // set if the text is a single CREATE TABLE
	widens    []string            // columns of the current statement that become wider than declared

	edits    []parse.Edit
	ends     []int // for each statement, the length of edits once the statement's edits are in it
	meant    parse.TreeChanges
	findings []finding.Finding
}

// applyRules applies the rewriting rules to a text and returns the text's plan with the result. plan and parts come
// from draftPlan, and tree is the text's tree.
func (p *Planner) applyRules(sql string, tree parse.TreeNode, names *schema.NameResolver, plan *Plan, parts []statementPart) *Plan {
	named := p.config.Rules.Named && slices.ContainsFunc(parts, func(p statementPart) bool { return p.config })
	if len(parts) == 0 || !named && !p.config.Rules.anyEnabled() {
		return plan
	}
	held := len(sql) >= heavyBytes
	r := p.runRules(sql, parts, names, nil, false)
	overlap := r.overlappingStatements()
	if overlap != nil {
		p.unverified.Add(1)
		plan, parts = p.draftPlan(sql, tree)
		r = p.runRules(sql, parts, names, func(i int) bool { return overlap[i] }, false)
	}
	for try := 0; len(r.edits) > 0; try++ {
		if text, ok := parse.Apply(sql, r.edits); ok && p.hasIntendedMeaning(text, tree, r.meant, held) {
			plan.Text, plan.source, plan.edits, plan.Mapped = text, sql, r.edits, r.mapped
			p.rewritten.Add(1)
			break
		}
		wrong := func(int) bool { return true }
		if try == 0 {
			p.unverified.Add(1)
			wrong = r.wrongMeaningPredicate(p, held)
		}
		plan, parts = p.draftPlan(sql, tree)
		r = p.runRules(sql, parts, names, func(i int) bool { return overlap[i] || wrong(i) }, try == 0)
	}
	for i := range overlap {
		plan.Statements[i].Refusal = errOverlap
	}
	plan.Findings = r.findings
	if st := plan.SingleStatement(); st != nil && r.numbering != nil {
		r.numbering.attachVerified(p, r, tree, st, held)
		r.reportSequences(st)
		plan.Findings = r.findings
	}
	plan.summarize()
	if p.config.Rules.Split && !r.mapped && isSplittable(parts) {
		plan.source, plan.splits = sql, true
	}
	return plan
}

// runRules applies the rewriting rules to every statement for which passes returns false. All others stay unchanged and
// only get findings. With again, runRules first tries another form for mapped columns (bytea stored as text).
func (p *Planner) runRules(sql string, parts []statementPart, names *schema.NameResolver, passes func(i int) bool, again bool) *rewriter {
	r := &rewriter{rules: &p.config.Rules, names: names, text: []byte(sql), parts: parts, meant: parse.TreeChanges{}}
	if len(sql) < heavyBytes {
		r.planned = func(sql string) *Plan { return p.planAlone(sql, names, false) }
		if p.config.Rules.InTransactions != RefuseDDL {
			r.alone = func(sql string, whole bool) *Plan { return p.planAlone(sql, names, whole) }
		}
	}
	for i := range parts {
		if passes != nil && passes(i) {
			if !again || !r.mapAlternative(p, &parts[i], len(sql) >= heavyBytes) {
				r.reportUnverified(&parts[i])
			}
		} else {
			r.rewriteStatement(&parts[i])
		}
		parts[i].st.writeCommand, parts[i].st.readOnlyAllowed = parts[i].writeCommand, parts[i].readOnlyAllowed
		r.ends = append(r.ends, len(r.edits))
	}
	r.reportTransactions()
	return r
}

// hasIntendedMeaning reports whether a rewritten text has the intended meaning. The tree of the text must equal the
// tree of the client's text with the intended changes and no others.
func (p *Planner) hasIntendedMeaning(text string, tree parse.TreeNode, meant parse.TreeChanges, held bool) bool {
	made, ok := p.parseGuarded(text, held)
	return ok && meant.Equal(tree, made)
}

// parseGuarded parses a text that a rule made. held says that the caller has locked p.heavy, as for long texts.
func (p *Planner) parseGuarded(text string, held bool) (tree parse.TreeNode, ok bool) {
	if p.config.checkLimits([]byte(text)) != parse.Fits {
		return parse.TreeNode{}, false
	}
	if len(text) >= heavyBytes && !held {
		p.heavy.Lock()
		defer p.heavy.Unlock()
	}
	tree, err := parseDialect(text)
	return tree, err == nil
}

// overlappingStatements returns the indexes of statements whose edits overlap or lie outside of the statement. The
// result is nil if there are none.
func (r *rewriter) overlappingStatements() map[int]bool {
	var bad map[int]bool
	first, at := 0, 0 // the index of the statement's first edit, and the end of all earlier edits
	for i, last := range r.ends {
		edits := slices.Clone(r.edits[first:last])
		if first = last; len(edits) == 0 {
			continue
		}
		if !parse.SortEdits(edits, at, len(r.text)) {
			if bad == nil {
				bad = map[int]bool{}
			}
			bad[i] = true
		}
		at = max(at, edits[len(edits)-1].End)
	}
	return bad
}

// wrongMeaningPredicate returns a function that reports whether a statement's rewritten text, parsed alone, lacks the
// intended meaning. The caller then leaves these statements unchanged.
func (r *rewriter) wrongMeaningPredicate(p *Planner, held bool) func(i int) bool {
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
		made, ok := p.parseGuarded(text, held)
		bad[i] = !ok || len(made.Values("stmts")) != 1 || !r.meant.Equal(r.parts[i].raw, made.Child("stmts"))
	}
	return func(i int) bool { return bad[i] }
}

// reportUnverified records the findings of a statement that the server gets unchanged, because the rewritten text does
// not have the intended meaning.
func (r *rewriter) reportUnverified(p *statementPart) {
	unchanged := *p.st
	alone := &rewriter{rules: r.rules, names: r.names, text: r.text, meant: parse.TreeChanges{}}
	alone.rewriteStatement(p)
	*p.st = unchanged
	if alone.maps {
		p.st.Refusal = (*Refusal)(bytea.NewRefusalError("The text that was made does not mean what was intended."))
	}
	for _, f := range alone.findings {
		if f.Outcome == finding.Rewritten || f.Outcome == finding.Answered {
			f.Outcome, f.Severity, f.Action = finding.Unverified, finding.Error, finding.NotTheSame
			f.Remedy = finding.Remedy(f.Feature)
		}
		if f.Severity == finding.Error && p.st.Hint == "" {
			p.st.Hint = finding.Sentence(f.Remedy)
		}
		r.addFinding(f)
	}
}

// rewriteStatement applies all rewriting rules to one statement.
func (r *rewriter) rewriteStatement(p *statementPart) {
	first := len(r.findings)
	if !r.planCursor(p) && !r.planCopyIn(p) {
		if r.names != nil {
			r.maps = false
			r.rewriteMapped(p)
			r.mapped = r.mapped || r.maps
		}
		if p.st.Refusal == nil && !r.planAdvisoryLock(p) && !r.markSeparate(p) {
			r.applyOtherRules(p)
		}
	}
	for i := first; i < len(r.findings); i++ {
		f := &r.findings[i]
		f.Operation = p.st.Operation
		if f.Severity == finding.Error && p.st.Hint == "" {
			p.st.Hint = finding.Sentence(f.Remedy)
		}
	}
	if len(r.widens) > 0 {
		p.st.ReplacementTag, p.st.Warning, r.widens = "CREATE TABLE", wideningNotice(r.widens), nil
		if p.node.Is("CreateSchemaStmt") {
			p.st.ReplacementTag = "CREATE SCHEMA"
		}
	}
	if r.rules.Bytea != ByteaOff && p.node.Is("IndexStmt") && p.st.Hint == "" {
		p.st.Hint = unmappedIndex
	}
}

// applyOtherRules applies all rewriting rules to a statement except those for cursors, COPY, locks and bytea in keys.
func (r *rewriter) applyOtherRules(p *statementPart) {
	r.rewriteLocking(p)
	r.rewriteUUIDCalls(p)
	for _, apply := range rulesByNode[p.node.TypeName()] {
		if apply(r, p); p.st.Steps != nil {
			break
		}
	}
	r.rewriteNumeric(p)
	if r.rules.Dialect && !p.st.isReplaced() {
		r.reportUnsupported(p)
	}
}

// isReplaced reports whether the server does not get the statement itself. In this case a rule answers the statement,
// sends another statement, or carries out what the statement contains.
func (st *Statement) isReplaced() bool {
	switch st.Steps.(type) {
	case *DoBlock, *alter.EnumValueAddition:
		return true
	}
	return st.Tag != "" || st.ReplacementTag != ""
}

// rewriteStateCalls rewrites or answers a query that calls functions on session state: advisory locks or set_config.
func (r *rewriter) rewriteStateCalls(p *statementPart) {
	if p.advisory {
		r.answerPoolReset(p)
	}
	if p.config {
		r.rewriteSetConfig(p)
	}
}

// rewriteSchemaMembers rewrites the statements inside CREATE SCHEMA.
func (r *rewriter) rewriteSchemaMembers(p *statementPart) {
	for within := range p.schemaMembers() {
		r.rewriteSchemaMember(within)
	}
}

// rewriteSchemaMember rewrites a statement inside CREATE SCHEMA. There DSQL does not accept CREATE INDEX ASYNC.
func (r *rewriter) rewriteSchemaMember(p *statementPart) {
	switch {
	case p.node.Is("CreateStmt"), p.node.Is("CreateSeqStmt"):
		r.rewriteSequences(p)
		r.rewriteNumeric(p)
	case p.node.Is("IndexStmt") && (r.rules.Index || r.rules.Dialect):
		r.addFinding(finding.Refused(finding.CreateIndex, p.st.Start))
	}
}

// schemaMembers yields the statements inside CREATE SCHEMA. Each statement shares the plan of the CREATE SCHEMA.
func (p *statementPart) schemaMembers() iter.Seq[*statementPart] {
	return func(yield func(*statementPart) bool) {
		for node := range p.node.List("schema_elts") {
			if !yield(&statementPart{st: p.st, raw: p.raw, node: node}) {
				return
			}
		}
	}
}

func (r *rewriter) addFinding(f finding.Finding) { r.findings = append(r.findings, f) }

func (r *rewriter) addEdits(e ...parse.Edit) { r.edits = append(r.edits, e...) }

// statementTokens returns the tokens of a statement. It caches them until a caller asks for another statement.
func (r *rewriter) statementTokens(p *statementPart) parse.TokenList {
	return r.tokens.StatementTokens(r.text, p.st.Start, p.st.End)
}

// answerLocally turns a statement into one that Sluice answers with the command tag. The server gets the query Nothing
// instead, and Sluice drops the query's rows.
func (r *rewriter) answerLocally(p *statementPart, does LocalWork, tag string) {
	r.addEdits(parse.Edit{Start: p.st.Start, End: p.st.End, Text: Nothing})
	r.meant.Set(p.raw, "stmt", sampleNothing().Child("stmts").Values("stmt")...)
	*p.st = Statement{Kind: Read, Does: does, Start: p.st.Start, End: p.st.End, Operation: p.st.Operation, Tag: tag}
}

// Nothing is the query that the server gets in place of a statement that Sluice itself answers.
const Nothing = "SELECT 1"

var sampleNothing = parse.LazyTree(Nothing)

// errOverlap is the refusal of a statement for which two rules made overlapping edits, which have no defined meaning.
var errOverlap = &Refusal{Unsent: true, Code: "0A000", Message: "cannot rewrite the statement: two changes to it overlap",
	Detail: "Nothing of the statement was sent.", Hint: "Write it in a simpler way, or in several statements, and report it."}
