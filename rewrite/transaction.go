package rewrite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// DSQL accepts at most one DDL statement in a transaction, and then no change of rows. If the configuration allows it,
// Sluice commits a client's transaction in several parts around DDL.

// DDLInTransactions says how Sluice runs DDL that shares a transaction with other statements.
type DDLInTransactions uint8

const (
	// RefuseDDL means that Sluice sends DDL within a transaction to the server, which refuses it.
	RefuseDDL DDLInTransactions = iota
	// CommitDDL means that Sluice commits the transaction before and after DDL. Sluice does not do so for DDL that
	// drops rows, if the client's own COMMIT comes later.
	CommitDDL
	// CommitDrops is like CommitDDL, but Sluice also commits DDL that drops rows before the client's COMMIT.
	CommitDrops
)

// InTransactionsKey is the configuration key that sets Rules.InTransactions.
const InTransactionsKey = "ddl.in_transactions"

// inTransactionsNames are the values of the configuration key InTransactionsKey.
var inTransactionsNames = [...]string{RefuseDDL: "refuse", CommitDDL: "autocommit", CommitDrops: "autocommit-destructive"}

// String returns the value of the configuration key InTransactionsKey that selects t.
func (t DDLInTransactions) String() string { return inTransactionsNames[t] }

// InTransactionsChoices returns all values that the key InTransactionsKey may have.
func InTransactionsChoices() []string { return inTransactionsNames[:] }

// ParseInTransactions returns the DDLInTransactions for a value of InTransactionsKey, or RefuseDDL for other values.
func ParseInTransactions(value string) DDLInTransactions {
	for t, name := range inTransactionsNames {
		if name == value {
			return DDLInTransactions(t)
		}
	}
	return RefuseDDL
}

// dropsRemedy is the advice with a refusal of a DROP that Sluice would commit before the client's COMMIT.
const dropsRemedy = "send the DROP as the last statement of its transaction, or alone; or set " + InTransactionsKey + " to autocommit-destructive"

// InTransactionsHint is the hint that the client gets with a refusal of DDL in a transaction. DropsHint is the hint if
// Sluice refuses a DROP because it would commit the DROP before the client's COMMIT.
var InTransactionsHint, DropsHint = finding.Sentence(finding.Remedy(finding.SeveralDDL)), finding.Sentence(dropsRemedy)

// TxDemand says what statements require of their transaction. Reads, locks and ANALYZE require nothing. Statements that
// Sluice itself answers or refuses require nothing, either.
type TxDemand struct {
	DDL   bool // changes the catalog by a statement that DSQL counts as DDL
	Rows  bool // changes rows
	Drops bool // drops a table, a column or a schema, and with it rows
	Local bool // changes what ends with the transaction, and what Sluice does not carry over to its later parts
	Sets  bool // changes a setting that ROLLBACK restores
}

// Union returns the demands of a transaction that contains statements with the demands d and e.
func (d TxDemand) Union(e TxDemand) TxDemand {
	return TxDemand{d.DDL || e.DDL, d.Rows || e.Rows, d.Drops || e.Drops, d.Local || e.Local, d.Sets || e.Sets}
}

// Demand returns what the statement requires of its transaction.
func (st *Statement) Demand() TxDemand {
	var d TxDemand
	if st.Tag == "" && st.Refusal == nil && st.Database == nil && st.Cursor == nil {
		d = st.demand
	}
	for _, c := range st.Changes {
		d.Local, d.Sets = d.Local || c.Action == SetLocal && !strings.HasPrefix(c.Name, OwnPrefix), d.Sets || c.Action != SetLocal
	}
	return d
}

// Demand returns what the plan's statements together require of their transaction. ok is false for a text that Sluice
// did not parse, and for a text with a statement that the server refuses in any transaction.
func (p *Plan) Demand() (d TxDemand, ok bool) {
	for i := range p.Statements {
		d = d.Union(p.Statements[i].Demand())
	}
	return d, p.Kind != Unknown && !slices.ContainsFunc(p.Findings, isAlwaysRefused)
}

// isAlwaysRefused reports whether a finding is about a statement that the server refuses in any transaction.
func isAlwaysRefused(f finding.Finding) bool {
	return f.Severity == finding.Error && f.Outcome != finding.Rewritten && f.Feature != finding.SeveralDDL && f.Feature != finding.DDLAndDML
}

// SingleTxHint returns the hint for a text that Sluice sent as one transaction, and that was too much for one
// transaction. Even with CommitDDL, Sluice sends a text whole if DSQL refuses one of its statements anyway.
func (p *Plan) SingleTxHint() string {
	i := slices.IndexFunc(p.Findings, isAlwaysRefused)
	if i < 0 {
		return finding.Sentence(finding.ToolsRemedy)
	}
	n := slices.IndexFunc(p.Statements, func(st Statement) bool { return p.Findings[i].At <= st.End })
	switch {
	case n < 0:
		return finding.Sentence(finding.ToolsRemedy)
	case len(p.Statements) == 1:
		return p.Statements[n].Hint
	}
	return fmt.Sprintf("It is sent as one transaction since DSQL refuses statement %d of it, of which nothing is carried out. To that one: %s", n+1, p.Statements[n].Hint)
}

// planAlone plans a statement as if it were the whole text. whole says that an ALTER TABLE is not cut into commands.
func (p *Planner) planAlone(sql string, names *schema.NameResolver, whole bool) *Plan {
	if whole {
		other := *p
		other.config.Rules.InTransactions = RefuseDDL
		p = &other
	}
	tree, ok := p.parseGuarded(sql, false)
	if !ok {
		return &Plan{}
	}
	plan, parts := p.draftPlan(sql, tree)
	return p.applyRules(sql, tree, names, plan, parts)
}

// markSeparate handles DDL in a multi-statement query that Sluice can only run in steps (Statement.Steps). It marks the
// statement to run as a separate text, records its findings, and reports whether it did so.
func (r *rewriter) markSeparate(p *statementPart) bool {
	if r.alone == nil || len(r.parts) == 1 || !slices.Contains([]string{"AlterTableStmt", "AlterEnumStmt", "DoStmt", "CreateStmt"}, p.node.TypeName()) {
		return false
	}
	plan := r.alone(string(r.text[p.st.Start:p.st.End]), false)
	st := plan.SingleStatement()
	if st == nil || !st.MustRunInSteps() {
		return false
	}
	p.st.separate, p.st.Hint = true, st.Hint
	for _, f := range plan.Findings {
		f.At += p.st.Start
		r.addFinding(f)
	}
	return true
}

// TxGroups cuts the plan's statements into groups, each for a transaction. A group is one DDL or transaction-control
// statement, or all statements between two of these. A group is a half-open range of indexes in Statements. The result
// is nil for a text with one statement or without DDL.
func (p *Plan) TxGroups() [][2]int {
	ddl := slices.ContainsFunc(p.Statements, func(st Statement) bool { return st.demand.DDL })
	if !ddl || len(p.Statements) < 2 {
		return nil
	}
	return p.CutIntoGroups()
}

// CutIntoGroups returns the groups that TxGroups describes, even for a text with one statement or without DDL.
func (p *Plan) CutIntoGroups() (groups [][2]int) {
	joins := false
	for i := range p.Statements {
		st := &p.Statements[i]
		alone := st.demand.DDL || st.Tx.Verb != NoVerb
		if joins && !alone {
			groups[len(groups)-1][1] = i + 1
		} else {
			groups = append(groups, [2]int{i, i + 1})
		}
		joins = !alone
	}
	return groups
}

// GroupBounds returns the byte offsets in the text at which a group of statements begins and ends.
func (p *Plan) GroupBounds(group [2]int) (from, to int) {
	return p.Statements[group[0]].Start, p.Statements[group[1]-1].End
}

// ExceedsTransaction reports whether the text certainly needs several transactions, or several plans (BehindDDL).
func (p *Plan) ExceedsTransaction() bool {
	return p.BehindDDL || slices.ContainsFunc(p.Statements, func(st Statement) bool { return st.separate }) ||
		slices.ContainsFunc(p.Findings, func(f finding.Finding) bool {
			return f.Feature == finding.SeveralDDL || f.Feature == finding.DDLAndDML
		})
}

// defersConstraints reports whether the statement m is SET CONSTRAINTS ... DEFERRED, which delays checks to the end of
// the transaction.
func defersConstraints(m parse.TreeNode) bool {
	return m.Is("ConstraintsSetStmt") && m.Flag("deferred")
}

// dropsRows reports whether the statement m drops tables, columns or schemas, and so their rows.
func dropsRows(m parse.TreeNode) bool {
	switch m.TypeName() {
	case "DropStmt":
		switch parse.ObjectType(m.Integer("remove_type")) {
		case parse.OBJECT_TABLE, parse.OBJECT_SCHEMA:
			return true
		case parse.OBJECT_TYPE, parse.OBJECT_DOMAIN: // CASCADE drops the columns that have the type
			return parse.DropBehavior(m.Integer("behavior")) == parse.DROP_CASCADE
		}
	case "AlterTableStmt":
		for cmd := range m.List("cmds") {
			if parse.AlterTableType(cmd.Integer("subtype")) == parse.AT_DropColumn {
				return true
			}
		}
	}
	return false
}

// reportTransactions reports statements that DSQL does not accept together in one transaction. Without BEGIN, a text of
// several statements is one transaction.
func (r *rewriter) reportTransactions() {
	if !r.rules.Dialect || len(r.parts) < 2 {
		return
	}
	var b txContents
	for i := range r.parts {
		p := &r.parts[i]
		f := b.addStatement(p.st)
		if f == "" {
			continue
		}
		found := b.featureFinding(f, p.st, r.rules.InTransactions)
		if p.st.Hint == "" {
			p.st.Hint = finding.Sentence(found.Remedy)
		}
		r.addFinding(found)
	}
}

// txContents records what the current transaction contains. dropped reports a DROP before the last added statement.
type txContents struct{ ddl, dml, drops, dropped bool }

// addStatement adds a statement to the transaction. If DSQL lacks what the transaction now needs (such as several DDL
// statements), addStatement returns that feature, otherwise "".
func (b *txContents) addStatement(st *Statement) finding.Feature {
	switch st.Tx.Verb {
	case Commit, Rollback, PrepareTransaction:
		*b = txContents{}
		return ""
	}
	already := *b
	b.dropped = b.drops
	switch {
	case st.Refusal != nil:
	case st.demand.DDL:
		b.ddl, b.drops = true, b.drops || st.demand.Drops
		if already.ddl {
			return finding.SeveralDDL
		}
		if already.dml {
			return finding.DDLAndDML
		}
	case st.demand.Rows:
		b.dml = true
		if b.ddl {
			return finding.DDLAndDML
		}
	}
	return ""
}

// featureFinding returns the finding for a feature that addStatement returned. If Sluice commits the transaction before
// the statement, featureFinding resets b to contain only the statement.
func (b *txContents) featureFinding(f finding.Feature, st *Statement, how DDLInTransactions) finding.Finding {
	found := finding.Refused(f, st.Start)
	switch {
	case how == RefuseDDL:
	case how == CommitDDL && b.dropped:
		found.Remedy = dropsRemedy
	default:
		found = finding.Handled(f, finding.Rewritten, finding.Warning, "commits the transaction in front of the statement: a ROLLBACK does not take back what was before", st.Start)
		found.Remedy = finding.ToolsRemedy
		*b = txContents{ddl: st.demand.DDL, dml: st.demand.Rows, drops: st.demand.Drops}
	}
	found.Operation = st.Operation
	return found
}
