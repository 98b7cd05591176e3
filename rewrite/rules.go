package rewrite

import "github.com/sluice-proxy/sluice/rewrite/alter"

// rule is a rewriting rule for statements whose parse tree has one of these node types.
type rule struct {
	nodes []string
	apply func(r *rewriter, p *statementPart)
}

// ruleTable lists the rules for statements of certain types, in the order in which they apply. After a rule that sets
// Statement.Steps, no later rule applies to the statement. applyOtherRules also calls rules that are for all
// statements.
var ruleTable = []rule{
	{[]string{"IndexStmt"}, (*rewriter).rewriteCreateIndex},
	{[]string{"CreateStmt", "CreateSeqStmt", "AlterSeqStmt"}, (*rewriter).rewriteSequences},
	{[]string{"CreateSchemaStmt"}, (*rewriter).rewriteSchemaMembers},
	{[]string{"AlterTableStmt"}, draftRule((*alter.Draft).PlanConstraints)},
	{[]string{"AlterTableStmt"}, (*rewriter).planMultiCommand},
	{[]string{"AlterTableStmt"}, draftRule((*alter.Draft).RemoveAddedNull)},
	{[]string{"AlterTableStmt"}, (*rewriter).alterIdentities},
	{[]string{"AlterTableStmt"}, draftRule((*alter.Draft).PlanColumn)},
	{[]string{"CreateExtensionStmt", "CommentStmt", "DropStmt"}, (*rewriter).rewriteExtension},
	{[]string{"CreateEnumStmt"}, draftRule((*alter.Draft).CreateEnum)},
	{[]string{"AlterEnumStmt"}, draftRule((*alter.Draft).AddEnumValue)},
	{[]string{"DoStmt"}, (*rewriter).planDoBlock},
	{[]string{"TruncateStmt"}, (*rewriter).rewriteTruncate},
	{[]string{"CreatedbStmt"}, (*rewriter).createDatabase},
	{[]string{"DropdbStmt"}, (*rewriter).dropDatabase},
	{[]string{"TransactionStmt"}, (*rewriter).rewriteBegin},
	{[]string{"VariableSetStmt"}, (*rewriter).setIsolation},
	{[]string{"DiscardStmt"}, (*rewriter).answerDiscard},
	{[]string{"LockStmt"}, (*rewriter).rewriteLockTable},
	{[]string{"ClosePortalStmt", "UnlistenStmt"}, (*rewriter).answerPoolReset},
	{[]string{"SelectStmt"}, (*rewriter).rewriteStateCalls},
}

// rulesByNode maps each type of node to its rules in ruleTable.
var rulesByNode = func() map[string][]func(*rewriter, *statementPart) {
	by := map[string][]func(*rewriter, *statementPart){}
	for _, rule := range ruleTable {
		for _, node := range rule.nodes {
			by[node] = append(by[node], rule.apply)
		}
	}
	return by
}()

// draftRule makes a rule of this package from apply, a rule of package alter.
func draftRule(apply func(*alter.Draft)) func(*rewriter, *statementPart) {
	return func(r *rewriter, p *statementPart) { r.applyDraft(p, apply) }
}

// applyDraft applies a rule of package alter to a statement, and stores the results of the rule in the statement's
// plan.
func (r *rewriter) applyDraft(p *statementPart, apply func(*alter.Draft)) {
	d := r.newDraft(p)
	apply(d)
	r.edits, r.findings = d.Edits, d.Findings
	p.st.Hint, p.st.ReplacementTag, p.st.Warning = d.Hint, d.ReplacementTag, (*Notice)(d.Warning)
	if p.st.Steps = d.Steps; d.Steps != nil {
		p.st.Does = Alters
	}
}

// newDraft returns the alter.Draft of a statement, on which the rules of package alter work.
func (r *rewriter) newDraft(p *statementPart) *alter.Draft {
	all := r.rules
	return &alter.Draft{
		Rules: alter.Rules{Dialect: all.Dialect, AddColumn: all.AddColumn, Backfill: all.Backfill, Retype: all.Retype, Constraints: all.Constraints,
			NotNullCheck: all.NotNullCheck, SerialKeys: all.SerialKeys, Enums: all.Enums, Sequences: all.SerialForm != SerialIdentity},
		Raw: p.raw, Node: p.node, Text: r.text, Start: p.st.Start, End: p.st.End, Tokens: &r.tokens,
		Alone: len(r.parts) <= 1, Dry: len(r.parts) == 0, Temporary: temporaryFeature(p) != "", SequenceOptions: r.adaptSequenceOptions,
		Edits: r.edits, Meant: r.meant, Findings: r.findings,
		Hint: p.st.Hint, Steps: p.st.Steps, ReplacementTag: p.st.ReplacementTag, Warning: (*alter.Notice)(p.st.Warning),
	}
}
