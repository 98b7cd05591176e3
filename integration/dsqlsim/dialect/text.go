package dialect

import (
	"fmt"
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// Kind says what a statement is to a transaction.
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

// Refusal is what DSQL answers instead of running a statement.
type Refusal struct {
	Code    string // SQLSTATE
	Message string
}

// Statement is one statement of a text.
type Statement struct {
	Kind Kind
	// Verb is the first word in upper case ("SELECT"), empty when unknown.
	Verb string
	// Source is the statement's own text.
	Source string
	// SQL is what PostgreSQL shall run: the statement's own text, with DSQL's
	// spellings replaced.
	SQL string
	// Refusal is nil for a statement that DSQL runs.
	Refusal *Refusal
	// Job: DSQL does the work in the background and answers one row, its job_id.
	Job bool
	// Listed: an INSERT whose rows stand in VALUES.
	Listed bool
	// Parameters: it has parameters, which no Query can give.
	Parameters bool
	// Waits: a CALL that waits for a job.
	Waits bool
	// Locked are the tables whose rows it locks, with Options.OldLocking: a
	// statement that does not name the whole key of each meets NoWholeKey.
	Locked []Locked
	// Tag replaces the command tag that PostgreSQL gives to SQL.
	Tag string
}

// Text is what is known about one text. Texts are immutable and shared.
type Text struct {
	// SQL is the text for PostgreSQL, to be sent when no statement is refused.
	SQL string
	// Statements in order; empty for an empty text, and for one that is Unread.
	Statements []Statement
	// Unread: over the guard, or not PostgreSQL's grammar. PostgreSQL judges it.
	Unread bool
}

// Options make a dialect other than that of a real cluster of today.
type Options struct {
	Copy      bool // COPY runs
	ByteaKeys bool // bytea may be in a key
	// OldLocking refuses locking clauses as clusters of early 2026 did: over
	// several tables, and without equality on the key.
	OldLocking bool
	// WithoutEncode knows no encode() and decode(), as no cluster is known to.
	WithoutEncode bool
	// DomainChanges takes ALTER DOMAIN with ADD CONSTRAINT or SET NOT NULL, and DROP DOMAIN CASCADE, which
	// clusters refuse.
	DomainChanges bool
	// WithoutSequenceDefaults refuses nextval in a DEFAULT, WithoutSequenceOwners the OWNED BY of a sequence.
	WithoutSequenceDefaults, WithoutSequenceOwners bool
	// Jobs reports whether there are jobs that look at rows; nil: there are none. It says the
	// same from the first text on.
	Jobs func() bool
}

// Dialect reads texts. It is safe for concurrent use.
type Dialect struct {
	options Options
	seen    *cache
}

// New returns a Dialect.
func New(o Options) *Dialect { return &Dialect{options: o, seen: newCache()} }

// Read tells what is known about a text. It does not parse what needs no parse:
// a single plain SELECT, INSERT, UPDATE or DELETE, a lone BEGIN or COMMIT. A
// text over 2 MiB or of a depth that may crash the parser is Unread.
func (d *Dialect) Read(sql string) *Text {
	o := draw(sql)
	if o.deep {
		return &Text{SQL: sql, Unread: true}
	}
	if o.tokens == 0 {
		return &Text{SQL: sql}
	}
	if kind, ok := o.plain(sql); ok && (!d.options.WithoutEncode || o.clues&sawEncode == 0) {
		listed := kind == DML && o.clues&(sawValues|sawSelect) == sawValues
		return &Text{SQL: sql, Statements: []Statement{{Kind: kind, Verb: o.verb(sql), Source: sql, SQL: sql, Listed: listed, Parameters: hasParameters(sql)}}}
	}
	if t := d.seen.find(sql); t != nil {
		return t
	}
	t := d.parse(sql, &o)
	d.seen.keep(sql, t)
	return t
}

// notPlain are the clues that some rule concerns a SELECT, INSERT, UPDATE or DELETE.
const notPlain = sawFor | sawSetConfig | sawAnswered | sawSpecial | sawNumber | sawModern

// plain reports the kind of a text that no rule can concern.
func (o *outline) plain(sql string) (Kind, bool) {
	if o.statements != 1 || o.first.kind != word {
		return Other, false
	}
	alone := o.tokens == 1
	switch lookup(sql[o.first.start:o.first.end]) {
	case selectWord, values, table:
		return Other, o.clues&(notPlain|sawInto) == 0
	case insert, update, delete_:
		return DML, o.clues&notPlain == 0
	case begin:
		return Begin, alone
	case commit:
		return Commit, alone
	case rollback:
		return Rollback, alone
	}
	return Other, false
}

// verb is the first word in upper case, without allocating for the usual ones.
func (o *outline) verb(sql string) string {
	if o.first.kind != word {
		return ""
	}
	return upper(sql[o.first.start:o.first.end])
}

func upper(s string) string {
	for _, usual := range []string{"SELECT", "UPDATE", "INSERT", "DELETE", "BEGIN", "COMMIT", "END", "ROLLBACK"} {
		if strings.EqualFold(s, usual) {
			return usual
		}
	}
	return strings.ToUpper(s)
}

func (d *Dialect) parse(sql string, o *outline) *Text {
	source := sql
	sql = blank(sql, o.async)
	tree, err := pg.Parse(sql)
	if err == nil && o.clues&sawModern != 0 && len(o.async) == 0 {
		sql, tree, err = modernize(sql, tree)
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
		s := d.statement(raw.Stmt, sql[start:end], start, o)
		s.Source = source[start:end]
		s.Parameters = hasParameters(s.Source)
		edited = edited || s.SQL != sql[start:end]
		t.Statements = append(t.Statements, s)
	}
	if edited {
		t.SQL = join(t.Statements)
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

// statement judges one statement. text is sql[offset:offset+len(text)]; the
// locations in the parse tree count from the start of sql.
func (d *Dialect) statement(node *pg.Node, text string, offset int, o *outline) Statement {
	lex := lexer{sql: text}
	first := lex.next()
	s := Statement{Kind: kindOf(node), Verb: upper(text[first.start:first.end]), SQL: text}
	s.Listed = len(node.GetInsertStmt().GetSelectStmt().GetSelectStmt().GetValuesLists()) > 0
	s.Waits = functionName(node.GetCallStmt().GetFunccall()) == "wait_for_job"
	for _, at := range o.async {
		s.Job = s.Job || at >= offset && at < offset+len(text)
	}
	if s.Kind == Copy && d.options.Copy {
		return s
	}
	q := question{node: node, text: text, async: s.Job, clues: o.clues, byteaKeys: d.options.ByteaKeys,
		oldLocking: d.options.OldLocking, withoutEncode: d.options.WithoutEncode, domainChanges: d.options.DomainChanges,
		withoutDefaults: d.options.WithoutSequenceDefaults, withoutOwners: d.options.WithoutSequenceOwners,
		jobs: d.options.Jobs != nil && d.options.Jobs()}
	if s.Refusal = q.refusal(); s.Refusal == nil {
		s.SQL, s.Tag = respell(&q, offset)
		s.Locked = q.locked
	}
	return s
}

// Before joins the statements in front of statement i.
func (t *Text) Before(i int) string { return join(t.Statements[:i]) }

func join(statements []Statement) string {
	var b strings.Builder
	for _, s := range statements {
		b.WriteString(s.SQL)
		// A newline first: the statement may end in a comment.
		b.WriteString("\n;")
	}
	return b.String()
}

// blank replaces the five letters of each ASYNC by spaces, so that every
// position in the text stays what it was.
func blank(sql string, at []int) string {
	for _, i := range at {
		sql = sql[:i] + "     " + sql[i+len("async"):]
	}
	return sql
}

// nodeName is the parse node's type: "SelectStmt".
func nodeName(node *pg.Node) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", node.GetNode()), "*pg_query.Node_")
}
