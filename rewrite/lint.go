package rewrite

import (
	"errors"
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// Linter checks the statements of one session, one after the other. A Linter is not safe for concurrent use.
type Linter struct {
	planner *Planner
	inBlock bool
	block   txContents
	run     scriptState
	// tables are the tables that earlier texts created, or nil if Sluice maps no bytea columns (to text).
	tables *schema.Schema
}

// NewLinter returns a Linter for a new session. The Linter parses every text, and does not use the planner's cache.
func (p *Planner) NewLinter() *Linter {
	l := &Linter{planner: p}
	if p.config.Rules.Bytea != ByteaOff {
		l.tables = schema.New(nil)
	}
	return l
}

// NewSession returns a Linter for another session with the same tables. how is the transaction of the session's script.
func (l *Linter) NewSession(how ScriptTransaction) *Linter {
	s := &Linter{planner: l.planner, tables: l.tables, run: scriptState{ScriptTransaction: how}}
	s.beginScript()
	return s
}

// LintStatements returns findings: how DSQL would treat the statements differently from PostgreSQL, and how Sluice
// handles it. Only the Reason of a Syntax finding quotes the text.
func (l *Linter) LintStatements(sql string) []finding.Finding {
	findings, _ := l.LintText(sql)
	return findings
}

// LintText returns the findings of LintStatements, and the text that Sluice would send. sent is "" if the two texts are
// equal. sent has the client's column names, because only Sluice uses the server's names of mapped columns.
func (l *Linter) LintText(sql string) (findings []finding.Finding, sent string) {
	p := l.planner
	if p.config.checkLimits([]byte(sql)) != parse.Fits {
		return []finding.Finding{finding.Refused(finding.Unread, 0)}, ""
	}
	tree, err := parseDialect(sql)
	if err != nil {
		return []finding.Finding{syntaxFinding(sql, err)}, ""
	}
	plan, parts := p.draftPlan(sql, tree)
	verbs := make([]TxVerb, len(parts))
	for i := range parts {
		verbs[i] = parts[i].st.Tx.Verb
	}
	made := p.applyRules(sql, tree, l.nameResolver(), plan, parts)
	findings, sent = made.Findings, made.Text
	if made.Mapped {
		unmapped, again := p.draftPlan(sql, tree)
		sent = p.applyRules(sql, tree, nil, unmapped, again).Text
	}
	if len(parts) == 1 && parts[0].st.Advisory != nil {
		sent = "" // Sluice takes the lock itself, and the query that the server would get locks nothing
	}
	if l.usesSequences(parts, findings) {
		sent = "" // Sluice carries the statement out in steps
	}
	for i := range findings {
		if f := &findings[i]; f.Action == mappedAction {
			f.Action = "would be " + mappedAction
		}
	}
	if n := singleSerialTable(parts); l.keepsWholeTransaction() && len(parts) == 1 && parts[0].st.MayRunInSteps() && (n == nil || !n.Identity) {
		l.reportRefused(findings)
	}
	l.addCreatedTables(parts)
	for i := range parts {
		findings = append(findings, l.observeStatement(verbs[i], &parts[i], len(parts) == 1)...)
	}
	return findings, sent
}

// keepsWholeTransaction reports whether the session is in a transaction block, and Sluice does not commit it in parts.
func (l *Linter) keepsWholeTransaction() bool {
	return l.inBlock && l.planner.config.Rules.InTransactions == RefuseDDL
}

// usesSequences reports whether Sluice can carry out the text's CREATE TABLE with sequences. In a transaction that
// Sluice does not commit in parts, it changes the findings: they then describe identity columns.
func (l *Linter) usesSequences(parts []statementPart, findings []finding.Finding) bool {
	n := singleSerialTable(parts)
	if n == nil || !n.HasSequences() {
		return false
	}
	if l.keepsWholeTransaction() && n.Identity {
		describeAsIdentities(n, findings)
	}
	return true
}

// reportRefused changes the findings of DDL that Sluice carries out only outside of a transaction. The findings then
// say that the DDL fails inside of a transaction.
func (l *Linter) reportRefused(findings []finding.Finding) {
	for i := range findings {
		if f := &findings[i]; f.Outcome == finding.Rewritten {
			f.Outcome, f.Severity, f.Action = finding.Flagged, finding.Error, finding.Passes
			f.Remedy = "run the statement alone outside of a transaction: it is then carried out in the steps that DSQL has"
		}
	}
}

// singleSerialTable returns the SerialTable of a text with one statement, or nil if there is none.
func singleSerialTable(parts []statementPart) *SerialTable {
	if len(parts) != 1 {
		return nil
	}
	n, _ := parts[0].st.Steps.(*SerialTable)
	return n
}

// describeAsIdentities changes findings about serial columns to say that the columns become identity columns.
func describeAsIdentities(n *SerialTable, findings []finding.Finding) {
	for i := range findings {
		f := &findings[i]
		of := n.sequenceOfFinding(f)
		if of < 0 {
			continue
		}
		f.Action = "rewritten to " + identity + ", in a transaction"
		if slices.Contains(n.Widens, n.Sequences[of].Column) {
			f.Severity, f.Action = finding.Warning, "rewritten to a bigint identity, in a transaction: the column is wider than declared, and so must columns be that refer to it"
			f.Remedy = "run CREATE TABLE alone outside of a transaction, or set " + InTransactionsKey + " to autocommit: the column then has its own type"
		}
	}
}

// lintSchema is the schema of a table whose name in the script has no schema.
const lintSchema = "public"

func (l *Linter) nameResolver() *schema.NameResolver {
	if l.tables == nil {
		return nil
	}
	return l.tables.ResolverFor([]string{lintSchema})
}

// addCreatedTables adds the tables that a text creates to l.tables. Linter ignores later changes of these tables.
func (l *Linter) addCreatedTables(parts []statementPart) {
	if l.tables == nil {
		return
	}
	r := &rewriter{rules: &l.planner.config.Rules, names: l.nameResolver()}
	for i := range parts {
		if parts[i].node.Is("CreateStmt") {
			l.tables.AddRelation(r.byteaMapping().RelationFromCreate(parts[i].node, lintSchema))
		}
	}
}

// syntaxFinding returns the finding about a text that violates PostgreSQL's grammar.
func syntaxFinding(sql string, err error) finding.Finding {
	f := finding.Refused(finding.Syntax, 0)
	if syntax, ok := errors.AsType[*parse.SyntaxError](err); ok {
		f.Reason += ": " + syntax.Message
		if at, ok := parse.ByteOffset(sql, syntax.Cursorpos); ok {
			f.At = at
		}
	}
	return f
}

// WithIdentities returns a Linter that makes identity columns of serial columns, even if the rules allow sequences,
// too. A fixed script needs this, because DSQL runs it without Sluice, and sequences need several transactions.
func (l *Linter) WithIdentities() *Linter {
	if l.planner.config.Rules.SerialForm != SerialAuto {
		return l
	}
	planner, fixes := *l.planner, *l
	planner.config.Rules.SerialForm = SerialIdentity
	fixes.planner = &planner
	return &fixes
}
