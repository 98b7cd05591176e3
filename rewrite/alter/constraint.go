package alter

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// DSQL refuses an ALTER TABLE that adds UNIQUE, FOREIGN KEY or CHECK to existing or new columns. Sluice runs several
// statements instead, each in its own transaction (constraintsteps.go).

// AddedConstraints is an ALTER TABLE whose commands add constraints and columns.
type AddedConstraints struct {
	Text     string // the client's statement
	Table    string // the table as SQL, for a cast to regclass
	Relation string // the table's name without its schema
	IfExists bool
	Columns  []AddedColumn
	Adds     []AddedConstraint // in the order in which PostgreSQL adds them
	// Keys means that int columns may reference identity columns that Sluice widened. The client then gets a NOTICE.
	Keys bool
	// DroppedNotNull are the columns of DROP NOT NULL, each with the CHECK that may represent its NOT NULL. The server
	// accepts a statement with DroppedNotNull, which adds nothing.
	DroppedNotNull []AddedConstraint

	table string // the table as the client's text spells it
}

// AddedColumn is a new column without its constraints. Add and Drop are the statements that add and drop it.
type AddedColumn struct{ Name, Add, Drop string }

// ConstraintKind says which constraint an ALTER TABLE adds: UNIQUE, FOREIGN KEY, CHECK or NOT NULL.
type ConstraintKind uint8

const (
	Unique ConstraintKind = iota
	ForeignKey
	Check
	NotNull // SET NOT NULL, or NOT NULL of a new column; Sluice adds a CHECK instead

	ownedSequence // the sequence of a serial column; PostgreSQL chooses its name like a constraint's
)

// AddedConstraint is one constraint that an ALTER TABLE adds.
type AddedConstraint struct {
	Kind             ConstraintKind
	Name             string   // the name in the statement; "" if PostgreSQL chooses the name (CandidateName)
	Keys             []string // the columns of UNIQUE and FOREIGN KEY; the column of NotNull
	Including        []string
	NullsNotDistinct bool
	Referred         string // the table that a FOREIGN KEY references, for a cast to regclass
	MatchFull        bool

	table       string // the table as the client's text spells it
	body        string // the SQL that defines a FOREIGN KEY or CHECK
	timing      string // the deferral of UNIQUE as SQL, for example DEFERRABLE
	relation    string // the table's name without its schema
	nameColumns string // the middle part of a name that PostgreSQL chooses, after the table's name
}

// AddConstraintKey and SetNotNullKey are the configuration keys that enable Rules.Constraints and Rules.NotNullCheck.
const (
	AddConstraintKey = "ddl.add_constraint"
	SetNotNullKey    = "ddl.set_not_null"
)

// PlanConstraints plans an ALTER TABLE that adds constraints. Sluice carries out the statement if it is the only one of
// the text and names no mapped columns (bytea stored as text). Otherwise a hint lists statements to use instead.
func (d *Draft) PlanConstraints() {
	if !d.Rules.Dialect || !d.Rules.Constraints {
		return
	}
	c := d.parseConstraints()
	if c == nil {
		d.planDropNotNull()
		return
	}
	if !d.Alone || len(d.Edits) > 0 {
		d.Hint = c.hint()
		if len(d.Edits) == 0 {
			d.Hint += " Or send the statement alone, outside of a transaction: Sluice then does so."
		}
		return
	}
	d.Steps = c
	d.Hint = "Send the statement alone outside of a transaction: it is then carried out in the steps that DSQL has (" + AddConstraintKey + ")."
	action := "carried out in several transactions, undone where one of them fails: NOT VALID and ALTER TABLE ASYNC ... VALIDATE CONSTRAINT, a unique index ASYNC and USING INDEX"
	feature, severity := finding.AddConstraint, finding.Info
	if c.hasNotNull() {
		feature, severity = finding.SetNotNullColumn, finding.Warning
		action += "; NOT NULL becomes a CHECK, and its errors have the code 23514"
	}
	d.addFinding(finding.Handled(feature, finding.Rewritten, severity, action, d.Start))
}

// planDropNotNull plans DROP NOT NULL, which must also drop the CHECK that represents NOT NULL.
func (d *Draft) planDropNotNull() {
	relation, drops := d.Node.Child("relation"), []AddedConstraint{}
	for cmd := range d.Node.List("cmds") {
		if RefusedFeature(cmd) != "" {
			return
		}
		if parse.AlterTableType(cmd.Integer("subtype")) == parse.AT_DropNotNull {
			drops = append(drops, newNotNullCheck(parse.RegclassName(relation), relation.Text("relname"), cmd.Text("name")))
		}
	}
	if !d.Rules.NotNullCheck || len(drops) == 0 || !d.Alone || len(d.Edits) > 0 || relation.Text("catalogname") != "" ||
		parse.ObjectType(d.Node.Integer("objtype")) != parse.OBJECT_TABLE {
		return
	}
	d.Steps = &AddedConstraints{Text: d.statementText(), Table: parse.RegclassName(relation), Relation: relation.Text("relname"),
		IfExists: d.Node.Flag("missing_ok"), DroppedNotNull: drops}
	d.addFinding(finding.Handled(finding.SetNotNullColumn, finding.Rewritten, finding.Info, "outside of a transaction the CHECK that stands for NOT NULL is dropped as well", d.Start))
}

// newNotNullCheck returns the CHECK that represents NOT NULL of a column. Like PostgreSQL 16, Sluice ignores the name
// that a statement gives a NOT NULL.
func newNotNullCheck(table, relation, column string) AddedConstraint {
	return AddedConstraint{Kind: NotNull, Keys: []string{column}, table: table, relation: relation, body: "CHECK (" + parse.QuoteIdent(column) + " IS NOT NULL)", nameColumns: column}
}

// parseConstraints returns the AddedConstraints of an ALTER TABLE. It returns nil for other statements. It also returns
// nil if the statements that Sluice would run instead do not have the same meaning.
func (d *Draft) parseConstraints() *AddedConstraints {
	relation := d.Node.Child("relation")
	if relation.Text("catalogname") != "" || parse.ObjectType(d.Node.Integer("objtype")) != parse.OBJECT_TABLE {
		return nil
	}
	ph := d.tokens()
	i := ph.TokenAt(relation.Integer("location"))
	if i < 0 {
		return nil
	}
	end := ph.AfterQualifiedName(i)
	c := &AddedConstraints{Text: d.statementText(), Table: parse.RegclassName(relation), Relation: relation.Text("relname"), IfExists: d.Node.Flag("missing_ok"), Keys: d.Rules.SerialKeys, table: ph.TextBetween(i, end)}
	if ph.IsOperator(end, "*") {
		end++
	}
	reader := constraintReader{c: c, ph: &ph, relation: relation, notNull: d.Rules.NotNullCheck}
	for cmd := range d.Node.List("cmds") {
		last := ph.ParenItemEnd(end)
		if !reader.readCommand(cmd, end, last) {
			return nil
		}
		end = last + 2
	}
	c.Adds = append(reader.ofColumns, reader.ofTable...)
	if len(c.Adds) == 0 {
		return nil
	}
	c.sortAdditions()
	return c
}

// sortAdditions moves UNIQUE to the front of Adds. PostgreSQL builds indexes before foreign keys that need them.
func (c *AddedConstraints) sortAdditions() {
	slices.SortStableFunc(c.Adds, func(a, b AddedConstraint) int { return kindOrder(a.Kind) - kindOrder(b.Kind) })
}

// hasNotNull reports whether the ALTER TABLE adds a CHECK that represents NOT NULL.
func (c *AddedConstraints) hasNotNull() bool {
	return slices.ContainsFunc(c.Adds, func(a AddedConstraint) bool { return a.Kind == NotNull })
}

func kindOrder(k ConstraintKind) int {
	if k == Unique {
		return 0
	}
	return 1
}

// constraintReader reads the commands of an ALTER TABLE. Its methods return false if Sluice cannot carry out a command.
type constraintReader struct {
	c                  *AddedConstraints
	ph                 *parse.TokenList
	relation           parse.TreeNode
	notNull            bool // the rule that replaces NOT NULL by a CHECK is enabled
	ofColumns, ofTable []AddedConstraint
}

// readCommand reads one command of an ALTER TABLE: the tokens after token i, up to token last.
func (r *constraintReader) readCommand(cmd parse.TreeNode, i, last int) bool {
	switch parse.AlterTableType(cmd.Integer("subtype")) {
	case parse.AT_AddConstraint:
		constraint := cmd.Child("def")
		if r.ph.TokenAt(constraint.Integer("location")) != i+1 || constraint.Flag("skip_validation") {
			return false
		}
		return r.addConstraint(&r.ofTable, constraintSpan{constraint: constraint, first: i + 1, last: last,
			deferrable: constraint.Flag("deferrable"), deferred: constraint.Flag("initdeferred")})
	case parse.AT_AddColumn:
		return r.readColumn(cmd, i, last)
	case parse.AT_SetNotNull:
		return r.addNotNullCheck(&r.ofTable, cmd.Text("name"))
	}
	return false
}

// constraintSpan is a constraint and its first and last token in the text.
type constraintSpan struct {
	constraint           parse.TreeNode
	first, last          int // token indexes
	column               string
	deferrable, deferred bool
}

// readColumn reads an ADD COLUMN with its constraints. It returns false for IF NOT EXISTS: after a lost connection
// Sluice could not see whether the statement had added the constraints of an existing column.
func (r *constraintReader) readColumn(cmd parse.TreeNode, i, last int) bool {
	column := cmd.Child("def")
	if f := RefusedFeature(cmd); cmd.Flag("missing_ok") || f != "" && f != finding.AddColumn || column.Child("coll_clause").Shape != nil || column.Child("fdwoptions").Shape != nil {
		return false
	}
	name, at := column.Text("colname"), r.ph.ColumnNameToken(i)
	spans, until, ok := r.constraintSpans(column, name, last)
	if !ok {
		return false
	}
	added := AddedColumn{Name: name, Drop: "ALTER TABLE " + r.c.table + " DROP COLUMN " + parse.QuoteIdent(name)}
	added.Add = "ALTER TABLE " + r.c.table + " ADD COLUMN " + r.ph.TextBetween(at, until)
	meant := parse.TreeChanges{}
	if len(spans) > 0 {
		meant.Set(column, "constraints")
	}
	if made := r.parseDefinition(added.Add); !made.Is("ColumnDef") || !meant.Equal(column, made) {
		return false
	}
	r.c.Columns = append(r.c.Columns, added)
	return r.readColumnConstraints(column, spans)
}

// constraintSpans returns the constraints of a column definition, which ends at token last. until is the token at which
// the constraints begin.
func (r *constraintReader) constraintSpans(column parse.TreeNode, name string, last int) (spans []constraintSpan, until int, ok bool) {
	until = last + 1
	for constraint := range column.List("constraints") {
		place := r.ph.TokenAt(constraint.Integer("location"))
		if place < 0 {
			return nil, 0, false
		}
		until = min(until, place)
		attribute := parse.ConstrType(constraint.Integer("contype"))
		if n := len(spans); n > 0 {
			timed := &spans[n-1]
			switch attribute {
			case parse.CONSTR_ATTR_DEFERRABLE:
				timed.deferrable = true
				continue
			case parse.CONSTR_ATTR_DEFERRED:
				timed.deferrable, timed.deferred = true, true
				continue
			case parse.CONSTR_ATTR_NOT_DEFERRABLE, parse.CONSTR_ATTR_IMMEDIATE:
				continue
			}
			timed.last = place - 1
		}
		spans = append(spans, constraintSpan{constraint: constraint, first: place, last: last, column: name})
	}
	return spans, until, true
}

// readColumnConstraints reads an added column's constraints. Foreign keys come last, as PostgreSQL adds them last.
func (r *constraintReader) readColumnConstraints(column parse.TreeNode, spans []constraintSpan) bool {
	var adds, keys []AddedConstraint
	for _, span := range spans {
		list := &adds
		switch parse.ConstrType(span.constraint.Integer("contype")) {
		case parse.CONSTR_NULL:
			continue
		case parse.CONSTR_DEFAULT:
			if !parse.IsNull(span.constraint.Child("raw_expr")) || !isBuiltinType(column.Child("type_name")) {
				return false
			}
			continue
		case parse.CONSTR_NOTNULL:
			if !r.addNotNullCheck(&adds, span.column) {
				return false
			}
			continue
		case parse.CONSTR_FOREIGN:
			list = &keys
		}
		if !r.addConstraint(list, span) {
			return false
		}
	}
	r.ofColumns = append(append(r.ofColumns, adds...), keys...)
	return true
}

// addNotNullCheck appends the CHECK that represents a column's NOT NULL to list, if the rules allow it.
func (r *constraintReader) addNotNullCheck(list *[]AddedConstraint, column string) bool {
	if !r.notNull {
		return false
	}
	*list = append(*list, newNotNullCheck(r.c.table, r.relation.Text("relname"), column))
	return true
}

// addConstraint appends one constraint of an ALTER TABLE to list. It returns false if Sluice cannot add it.
func (r *constraintReader) addConstraint(list *[]AddedConstraint, span constraintSpan) bool {
	constraint := span.constraint
	a := AddedConstraint{Name: constraint.Text("conname"), table: r.c.table, relation: r.relation.Text("relname")}
	first := span.first
	if r.ph.IsKeyword(first, "constraint") {
		first += 2
	}
	a.body = r.ph.TextBetween(first, span.last+1)
	switch parse.ConstrType(constraint.Integer("contype")) {
	case parse.CONSTR_UNIQUE:
		return r.addUnique(list, a, span)
	case parse.CONSTR_FOREIGN:
		a.Kind, a.Keys = ForeignKey, constraint.Names("fk_attrs")
		if span.column != "" {
			a.Keys = []string{span.column}
			a.body = "FOREIGN KEY (" + parse.QuoteIdent(span.column) + ") " + a.body
		}
		a.Referred, a.MatchFull, a.nameColumns = parse.RegclassName(constraint.Child("pktable")), constraint.Text("fk_matchtype") == "f", parse.JoinColumnNames(a.Keys)
		if constraint.Child("pktable").Text("catalogname") != "" {
			return false
		}
	case parse.CONSTR_CHECK:
		a.Kind = Check
		if columns := parse.AppendColumnNames(constraint.Child("raw_expr"), nil); len(columns) == 1 {
			a.nameColumns = columns[0]
		}
	default:
		return false
	}
	made := r.parseDefinition(a.AddNotValidSQL("n"))
	if !made.Is("Constraint") {
		return false
	}
	meant := parse.TreeChanges{}
	for _, field := range []string{"conname", "skip_validation", "initially_valid", "fk_attrs", "deferrable", "initdeferred"} {
		meant.Set(constraint, field, made.Values(field)...)
	}
	if made.Text("conname") != "n" || !made.Flag("skip_validation") || made.Flag("initially_valid") || !slices.Equal(made.Names("fk_attrs"), a.Keys) ||
		made.Flag("deferrable") != span.deferrable || made.Flag("initdeferred") != span.deferred || !meant.Equal(constraint, made) {
		return false
	}
	*list = append(*list, a)
	return true
}

// addUnique appends a UNIQUE constraint to list. The constraint may have a name, INCLUDE and NULLS NOT DISTINCT.
// addUnique returns false for a repeated column, which PostgreSQL refuses, and for unsupported options.
func (r *constraintReader) addUnique(list *[]AddedConstraint, a AddedConstraint, span constraintSpan) bool {
	constraint := span.constraint
	a.Kind, a.body, a.Keys, a.Including = Unique, "", constraint.Names("keys"), constraint.Names("including")
	if span.column != "" {
		a.Keys = []string{span.column}
	}
	sorted := slices.Clone(a.Keys)
	slices.Sort(sorted)
	if len(a.Keys) == 0 || len(slices.Compact(sorted)) < len(a.Keys) || constraint.Text("indexname") != "" || constraint.Text("indexspace") != "" ||
		constraint.Child("options").Shape != nil {
		return false
	}
	a.NullsNotDistinct = constraint.Flag("nulls_not_distinct")
	switch {
	case span.deferred:
		a.timing = " DEFERRABLE INITIALLY DEFERRED"
	case span.deferrable:
		a.timing = " DEFERRABLE"
	}
	a.nameColumns = parse.JoinColumnNames(parse.NumberDuplicates(append(slices.Clone(a.Keys), a.Including...)))
	if made := r.parseDefinition(a.AddUsingIndexSQL("n", "n")); !made.Is("Constraint") || made.Text("conname") != "n" {
		return false
	}
	*list = append(*list, a)
	return true
}

// parseDefinition returns the constraint or column that sql defines. sql must be an ALTER TABLE of the same table with
// one command; for any other sql the result is empty.
func (r *constraintReader) parseDefinition(sql string) parse.TreeNode {
	tree, err := parse.Tree(sql)
	if err != nil || len(tree.Values("stmts")) != 1 {
		return parse.TreeNode{}
	}
	alter := tree.Child("stmts").Child("stmt")
	relation := alter.Child("relation")
	if !alter.Is("AlterTableStmt") || len(alter.Values("cmds")) != 1 || relation.Text("relname") != r.relation.Text("relname") ||
		relation.Text("schemaname") != r.relation.Text("schemaname") {
		return parse.TreeNode{}
	}
	return alter.Child("cmds").Child("def")
}

// constraintNameLabels are the last parts of constraint names that PostgreSQL chooses. Sluice's CHECK for NOT NULL
// differs from a client's equal CHECK only by its name. Its label is therefore one that neither PostgreSQL 18
// (not_null) nor people use.
var constraintNameLabels = map[ConstraintKind]string{Unique: "key", ForeignKey: "fkey", Check: "check", NotNull: "sluice_not_null", ownedSequence: "seq"}

// CandidateName returns a name that PostgreSQL may choose for the constraint. pass counts the earlier candidates that
// are in use. Names of constraints of the schema are in use. For UNIQUE, names of relations are in use, too.
func (a *AddedConstraint) CandidateName(pass int) string {
	label := constraintNameLabels[a.Kind]
	if pass > 0 {
		label += strconv.Itoa(pass)
	}
	return parse.MakeObjectName(a.relation, a.nameColumns, label)
}

// TemporaryName returns the name that the constraint or its index has until the rows are checked. Only Sluice uses
// names of this form, so it never mistakes a client's object for a leftover of an interrupted statement. pass counts
// the earlier temporary names that are in use.
func (a *AddedConstraint) TemporaryName(pass int) string {
	label := "sluice_" + constraintNameLabels[a.Kind]
	if pass > 0 {
		label += strconv.Itoa(pass)
	}
	if a.Name != "" {
		return parse.MakeObjectName(a.Name, "", label)
	}
	return parse.MakeObjectName(a.relation, a.nameColumns, label)
}

// MayBeCandidate reports whether name could be a CandidateName of this kind of constraint, for any table and column.
// The table and the column may have other names since the constraint was added.
func (a *AddedConstraint) MayBeCandidate(name string) bool {
	return strings.HasSuffix(strings.TrimRight(name, "0123456789"), "_"+constraintNameLabels[a.Kind])
}
