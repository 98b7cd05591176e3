package rewrite

import (
	"errors"
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// Linter reads statements one after another, as one session would run them. It
// is not safe for concurrent use.
type Linter struct {
	planner *Planner
	inBlock bool
	block   block
	run     run
	// tables are those that the texts have made so far, where bytea is mapped; nil elsewhere.
	tables *schema.Schema
}

// Linter begins a session of reading. Whatever the word scan would clear is
// parsed all the same, and nothing is remembered.
func (p *Planner) Linter() *Linter {
	l := &Linter{planner: p}
	if p.config.Rules.Bytea != ByteaOff {
		l.tables = schema.New(nil)
	}
	return l
}

// Session begins another session over the same tables, in the transaction that how says.
func (l *Linter) Session(how Running) *Linter {
	s := &Linter{planner: l.planner, tables: l.tables, run: run{Running: how}}
	s.begin()
	return s
}

// Read says what DSQL would not do with a text as PostgreSQL does, and what
// Sluice does about it. Only the reason of a Syntax finding quotes the text.
func (l *Linter) Read(sql string) []Finding {
	findings, _ := l.ReadText(sql)
	return findings
}

// ReadText is Read, with the text that Sluice would send, "" where that is the client's own.
// Columns are not mapped in it: their physical names are Sluice's matter.
func (l *Linter) ReadText(sql string) (findings []Finding, sent string) {
	p := l.planner
	if p.config.guard([]byte(sql)) != parse.Fits {
		return []Finding{found(Unread, 0)}, ""
	}
	tree, err := parseDialect(sql)
	if err != nil {
		return []Finding{misspelt(sql, err)}, ""
	}
	plan, parts := p.draft(sql, tree)
	verbs := make([]Verb, len(parts))
	for i := range parts {
		verbs[i] = parts[i].st.Tx.Verb
	}
	made := p.rewrite(sql, tree, l.names(), plan, parts)
	findings, sent = made.Findings, made.Text
	if made.Mapped {
		unmapped, again := p.draft(sql, tree)
		sent = p.rewrite(sql, tree, nil, unmapped, again).Text
	}
	if len(parts) == 1 && parts[0].st.Advisory != nil {
		sent = "" // the relay carries it out: what stands in its place locks nothing
	}
	if l.numbers(parts, findings) {
		sent = "" // likewise
	}
	for i := range findings {
		if f := &findings[i]; f.Action == mappedAction {
			f.Action = "would be " + mappedAction
		}
	}
	if l.refusesParts() && len(parts) == 1 && parts[0].st.Alters() && (parts[0].st.Numbered == nil || !parts[0].st.Numbered.Identity) {
		l.alone(findings)
	}
	l.learn(parts)
	for i := range parts {
		findings = append(findings, l.follow(verbs[i], &parts[i], len(parts) == 1)...)
	}
	return findings, sent
}

// refusesParts reports whether the statement is in a transaction that is not committed in parts.
func (l *Linter) refusesParts() bool {
	return l.inBlock && l.planner.config.Rules.InTransactions == RefuseDDL
}

// numbers reports whether the relay makes sequences for a statement. In a transaction that it does not
// commit in parts the findings speak of identity columns.
func (l *Linter) numbers(parts []part, findings []Finding) bool {
	n := numberedOf(parts)
	if n == nil || !n.HasSequences() {
		return false
	}
	if l.refusesParts() && n.Identity {
		asIdentities(n, findings)
	}
	return true
}

// alone says of what is carried out outside of transactions only that it is not.
func (l *Linter) alone(findings []Finding) {
	for i := range findings {
		if f := &findings[i]; f.Outcome == Rewritten {
			f.Outcome, f.Severity, f.Action = Flagged, Error, Passes
			f.Remedy = "run the statement alone outside of a transaction: it is then carried out in the steps that DSQL has"
		}
	}
}

// numberedOf is what a text says that the relay makes with sequences; nil for any other text.
func numberedOf(parts []part) *Numbered {
	if len(parts) != 1 {
		return nil
	}
	return parts[0].st.Numbered
}

// asIdentities says of serial columns in a transaction that they are made wider than declared there.
func asIdentities(n *Numbered, findings []Finding) {
	for i := range findings {
		f := &findings[i]
		of := slices.IndexFunc(n.Sequences, func(s OwnedSequence) bool { return s.at == f.At })
		if of < 0 || f.Feature != Serial && f.Feature != IdentityType {
			continue
		}
		f.Action = "rewritten to " + identity + ", in a transaction"
		if slices.Contains(n.Widens, n.Sequences[of].Column) {
			f.Severity, f.Action = Warning, "rewritten to a bigint identity, in a transaction: the column is wider than declared, and so must columns be that refer to it"
			f.Remedy = "run CREATE TABLE alone outside of a transaction, or set " + InTransactionsKey + " to autocommit: the column then has its own type"
		}
	}
}

// lintSchema is where a script's tables are whose names have no schema.
const lintSchema = "public"

func (l *Linter) names() *schema.Names {
	if l.tables == nil {
		return nil
	}
	return l.tables.In([]string{lintSchema})
}

// learn takes note of the tables that a text makes. What becomes of them later is not followed.
func (l *Linter) learn(parts []part) {
	if l.tables == nil {
		return
	}
	r := &rewriter{rules: &l.planner.config.Rules, names: l.names()}
	for i := range parts {
		if parts[i].node.Is("CreateStmt") {
			l.tables.Add(r.columns().RelationMade(parts[i].node, lintSchema))
		}
	}
}

// misspelt is the finding of a text that PostgreSQL's parser does not take.
func misspelt(sql string, err error) Finding {
	f := found(Syntax, 0)
	if syntax, ok := errors.AsType[*parse.SyntaxError](err); ok {
		f.Reason += ": " + syntax.Message
		if at, ok := parse.ByteOffset(sql, syntax.Cursorpos); ok {
			f.At = at
		}
	}
	return f
}

// WithIdentities has serial columns be identity columns where either may be: a file holds statements that
// DSQL takes one by one, and what the relay makes of CREATE TABLE is several.
func (l *Linter) WithIdentities() *Linter {
	if l.planner.config.Rules.SerialForm != SerialAuto {
		return l
	}
	planner, fixes := *l.planner, *l
	planner.config.Rules.SerialForm = SerialIdentity
	fixes.planner = &planner
	return &fixes
}
