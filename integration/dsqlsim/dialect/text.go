package dialect

import (
	"fmt"
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// Kind is the class of a statement. Rules about transactions treat statements of one class alike.
type Kind uint8

const (
	Other Kind = iota // reads, settings, everything that the other kinds are not
	DML               // INSERT, UPDATE, DELETE
	DDL               // changes the catalog; GRANT and REVOKE included
	Begin
	Commit
	Rollback
	Copy
)

// Refusal is the error that DSQL answers instead of running a statement.
type Refusal struct {
	Code    string // SQLSTATE
	Message string
}

// Statement is what package dialect knows about one statement of a text.
type Statement struct {
	Kind Kind
	// Verb is the first word in upper case ("SELECT"), empty when unknown.
	Verb string
	// Source is the statement's text as the client sent it.
	Source string
	// SQL is the statement's text for PostgreSQL, in which DSQL's spellings are replaced.
	SQL string
	// Refusal is DSQL's error for the statement, or nil for a statement that DSQL runs.
	Refusal *Refusal
	// Job means that DSQL does the statement's work in the background and answers one row, the job_id.
	Job bool
	// Listed means that the statement is an INSERT with its rows listed in VALUES.
	Listed bool
	// Parameters means that the text has parameters, for which a Query has no values.
	Parameters bool
	// Waits means that the statement is a CALL that waits for a job.
	Waits bool
	// Locked are the tables whose rows the statement locks, with Options.OldLocking. A statement that does not name the
	// whole key of each table gets WholeKeyRequired.
	Locked []LockedTable
	// Tag, if not empty, replaces PostgreSQL's command tag for SQL.
	Tag string
}

// Text is what Analyze returns about one SQL text. Callers share a Text, so no caller may change it.
type Text struct {
	// SQL is the text for PostgreSQL, valid when no statement is refused.
	SQL string
	// Statements are the text's statements in order, none for an empty or an Unread text.
	Statements []Statement
	// Unread means that the text is too long or too deep to be parsed safely, or has a syntax error. PostgreSQL gets
	// an Unread text unchanged.
	Unread bool
}

// Options select a dialect that differs from that of a real cluster.
type Options struct {
	Copy      bool // COPY runs
	ByteaKeys bool // bytea may be in a key
	// OldLocking refuses locking clauses over several tables, and without equality on the key, as clusters of early 2026
	// did.
	OldLocking bool
	// WithoutEncode refuses encode() and decode(). All known clusters have both functions.
	WithoutEncode bool
	// DomainChanges allows ALTER DOMAIN with ADD CONSTRAINT or SET NOT NULL, and DROP DOMAIN CASCADE, which clusters
	// refuse.
	DomainChanges bool
	// WithoutSequenceDefaults refuses nextval in a DEFAULT, and WithoutSequenceOwners refuses the OWNED BY of a sequence.
	WithoutSequenceDefaults, WithoutSequenceOwners bool
	// Jobs reports whether background jobs check rows. Its result must not change after the first text. If Jobs is nil, no
	// job checks rows.
	Jobs func() bool
}

// Dialect analyses SQL texts by the rules of Aurora DSQL, see Analyze. It is safe for concurrent use.
type Dialect struct {
	options Options
	seen    *textCache
}

// New returns a Dialect with the given options.
func New(o Options) *Dialect { return &Dialect{options: o, seen: newTextCache()} }

// Analyze returns the statements of the text sql. It does not parse a simple text: a single plain SELECT, INSERT,
// UPDATE or DELETE, or a lone BEGIN or COMMIT. A text over 2 MiB, or so deep that it may crash the parser, is Unread.
func (d *Dialect) Analyze(sql string) *Text {
	o := newOutline(sql)
	if o.deep {
		return &Text{SQL: sql, Unread: true}
	}
	if o.tokens == 0 {
		return &Text{SQL: sql}
	}
	if kind, ok := o.plainKind(sql); ok && (!d.options.WithoutEncode || o.clues&sawEncode == 0) {
		listed := kind == DML && o.clues&(sawValues|sawSelect) == sawValues
		return &Text{SQL: sql, Statements: []Statement{{Kind: kind, Verb: o.verb(sql), Source: sql, SQL: sql, Listed: listed, Parameters: hasParameters(sql)}}}
	}
	if t := d.seen.findText(sql); t != nil {
		return t
	}
	t := d.parseText(sql, &o)
	d.seen.storeText(sql, t)
	return t
}

// notPlainClues are the clues (words in a text) that show that some rule may concern a SELECT, INSERT, UPDATE or
// DELETE.
const notPlainClues = sawFor | sawSetConfig | sawAnswered | sawSpecial | sawNumber | sawModern

// plainKind returns the Kind of the only statement in the text, and true, if no rule of the dialect concerns that
// statement. Otherwise the second result is false.
func (o *textOutline) plainKind(sql string) (Kind, bool) {
	if o.statements != 1 || o.first.kind != word {
		return Other, false
	}
	alone := o.tokens == 1
	switch lookUpKeyword(sql[o.first.start:o.first.end]) {
	case selectWord, values, table:
		return Other, o.clues&(notPlainClues|sawInto) == 0
	case insert, update, delete_:
		return DML, o.clues&notPlainClues == 0
	case begin:
		return Begin, alone
	case commit:
		return Commit, alone
	case rollback:
		return Rollback, alone
	}
	return Other, false
}

// verb returns the text's first word in upper case, without an allocation for usual words.
func (o *textOutline) verb(sql string) string {
	if o.first.kind != word {
		return ""
	}
	return upperVerb(sql[o.first.start:o.first.end])
}

func upperVerb(s string) string {
	for _, usual := range []string{"SELECT", "UPDATE", "INSERT", "DELETE", "BEGIN", "COMMIT", "END", "ROLLBACK"} {
		if strings.EqualFold(s, usual) {
			return usual
		}
	}
	return strings.ToUpper(s)
}

func (d *Dialect) parseText(sql string, o *textOutline) *Text {
	source := sql
	sql = blankAsync(sql, o.async)
	tree, err := pg.Parse(sql)
	if err == nil && o.clues&sawModern != 0 && len(o.async) == 0 {
		sql, tree, err = downgradeSyntax(sql, tree)
		source = sql
	}
	if err != nil {
		return &Text{SQL: sql, Unread: true}
	}
	t := &Text{SQL: sql, Statements: make([]Statement, 0, len(tree.Stmts))}
	edited := false
	for _, raw := range tree.Stmts {
		start, end := int(raw.StmtLocation), len(sql)
		if raw.StmtLen > 0 {
			end = start + int(raw.StmtLen)
		}
		s := d.analyzeStatement(raw.Stmt, sql[start:end], start, o)
		s.Source = source[start:end]
		s.Parameters = hasParameters(s.Source)
		edited = edited || s.SQL != sql[start:end]
		t.Statements = append(t.Statements, s)
	}
	if edited {
		t.SQL = joinStatements(t.Statements)
	}
	return t
}

// hasParameters reports whether a text has a parameter such as $1.
func hasParameters(sql string) bool {
	if !strings.Contains(sql, "$") {
		return false
	}
	scanned, err := pg.Scan(sql)
	return err == nil && slices.ContainsFunc(scanned.Tokens, func(t *pg.ScanToken) bool { return t.Token == pg.Token_PARAM })
}

// analyzeStatement reads one statement. text is sql[offset:offset+len(text)]; locations in the parse tree count from
// the start of sql.
func (d *Dialect) analyzeStatement(node *pg.Node, text string, offset int, o *textOutline) Statement {
	lex := lexer{sql: text}
	first := lex.nextToken()
	s := Statement{Kind: kindOf(node), Verb: upperVerb(text[first.start:first.end]), SQL: text}
	s.Listed = len(node.GetInsertStmt().GetSelectStmt().GetSelectStmt().GetValuesLists()) > 0
	s.Waits = functionName(node.GetCallStmt().GetFunccall()) == "wait_for_job"
	for _, at := range o.async {
		s.Job = s.Job || at >= offset && at < offset+len(text)
	}
	if s.Kind == Copy && d.options.Copy {
		return s
	}
	q := checkedStatement{node: node, text: text, async: s.Job, clues: o.clues, byteaKeys: d.options.ByteaKeys,
		oldLocking: d.options.OldLocking, withoutEncode: d.options.WithoutEncode, domainChanges: d.options.DomainChanges,
		withoutDefaults: d.options.WithoutSequenceDefaults, withoutOwners: d.options.WithoutSequenceOwners,
		jobs: d.options.Jobs != nil && d.options.Jobs()}
	if s.Refusal = q.findRefusal(); s.Refusal == nil {
		s.SQL, s.Tag = respellForPostgres(&q, offset)
		s.Locked = q.locked
	}
	return s
}

// SQLBefore returns the statements of the text before statement i, joined to one SQL text.
func (t *Text) SQLBefore(i int) string { return joinStatements(t.Statements[:i]) }

func joinStatements(statements []Statement) string {
	var b strings.Builder
	for _, s := range statements {
		b.WriteString(s.SQL)
		// The newline precedes the semicolon, because the statement may end in a comment.
		b.WriteString("\n;")
	}
	return b.String()
}

// blankAsync replaces the five letters of each ASYNC by spaces, so that every position in the text remains valid.
func blankAsync(sql string, at []int) string {
	for _, i := range at {
		sql = sql[:i] + "     " + sql[i+len("async"):]
	}
	return sql
}

// nodeName returns the type of a parse node, for example "SelectStmt".
func nodeName(node *pg.Node) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", node.GetNode()), "*pg_query.Node_")
}
