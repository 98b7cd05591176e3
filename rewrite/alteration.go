package rewrite

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// ALTER TABLE that DSQL refuses as it is written and that can be carried out otherwise. What
// is equivalent is a rule of the text (alter.go). What depends on the catalog, or takes
// several transactions, is left to the relay, which sends the statement first: a server may
// take it.

// Alteration is an ALTER TABLE with one command: a change of a column's type, which needs
// nothing where the column has the type already, or a column that is added with a DEFAULT.
type Alteration struct {
	Text   string // the statement
	Table  string // for a cast to regclass
	Column string // its name
	Type   string // as SQL
	// Default is that of a column that is added, as SQL; "" for a change of type.
	Default              string
	NotNull, IfNotExists bool
	// Held is what the column is held to from the moment that it has its name; nil for nothing.
	// NotNull is told of where it is not in there.
	Held *Constraints
	// Retypes: a change of type is carried out, as Apart says; Checks: also where that makes a
	// CHECK of NOT NULL.
	Retypes, Checks bool

	table, column string  // as the text has them
	relation      string  // the table's own name
	kind          message // the type
	casts         bool    // USING says that the column is cast to the type
	besides       string  // the text of the constraints of Held
}

// AddColumnDefaultKey is the configuration key of Rules.Backfill.
const AddColumnDefaultKey = "ddl.add_column_default"

// backfillPolicy is the value that sets it.
const backfillPolicy = "backfill"

// alteration looks at an ALTER TABLE: it leaves to the relay what that may carry out, and
// makes the hint of what the server refuses of one command.
func (r *rewriter) alteration(p *part) {
	a := r.alterationOf(p)
	switch {
	case a == nil || !r.rules.Dialect:
		return
	case a.Default == "":
		r.retypes(p, a)
	case !r.rules.Backfill:
		p.st.Hint = a.addHint()
		return
	case len(r.parts) > 1 || !a.verified():
		p.st.Hint = a.addHint() + " It must be sent alone."
		return
	default:
		p.st.Hint = "Send the statement alone outside of a transaction: it is then carried out (" + AddColumnDefaultKey + ")."
		action := "carried out in several transactions: the column gets its name when its rows have the default"
		switch {
		case a.Held != nil && a.Held.hasNotNull():
			action += "; NOT NULL becomes a CHECK, and its errors have the code 23514"
		case a.NotNull:
			action += "; NOT NULL is given up"
		}
		r.find(handled(AddColumn, Rewritten, Warning, action, p.st.Start))
	}
	if len(r.parts) == 1 && len(r.edits) == 0 {
		p.st.Alteration = a
	}
}

// alterationOf reads an ALTER TABLE; nil for one that is no Alteration. Comments are left to
// others: a statement that is made of pieces must not end in one.
func (r *rewriter) alterationOf(p *part) *Alteration {
	var cmds []message
	for cmd := range p.node.list("cmds") {
		cmds = append(cmds, cmd)
	}
	text, relation := string(r.text[p.st.Start:p.st.End]), p.node.child("relation")
	if len(cmds) != 1 || p.node.flag("missing_ok") || pg_query.ObjectType(p.node.integer("objtype")) != pg_query.ObjectType_OBJECT_TABLE ||
		relation.text("catalogname") != "" || strings.Contains(text, "--") || strings.Contains(text, "/*") {
		return nil
	}
	ph := r.phrase(p)
	i := ph.at(relation.integer("location"))
	if i < 0 {
		return nil
	}
	end := ph.qualified(i)
	a := &Alteration{Text: text, table: ph.span(i, end), Table: identifier(relation.text("relname")), relation: relation.text("relname")}
	if schema := relation.text("schemaname"); schema != "" {
		a.Table = identifier(schema) + "." + a.Table
	}
	if ph.punctuated(end, "*") {
		end++
	}
	at := ph.columnToken(end)
	a.column = string(ph.lexeme(at))
	switch pg_query.AlterTableType(cmds[0].integer("subtype")) {
	case pg_query.AlterTableType_AT_AlterColumnType:
		return a.retypes(cmds[0], &ph, at)
	case pg_query.AlterTableType_AT_AddColumn:
		reader := constraintReader{c: &Constraints{table: a.table}, ph: &ph, relation: relation, notNull: r.rules.NotNullCheck}
		return a.adds(cmds[0], &reader, at, r.rules.Constraints)
	}
	return nil
}

// span is the text from token i up to token end, which it does not include.
func (p *phrase) span(i, end int) string {
	if i >= end || end > len(p.tokens) {
		return ""
	}
	return string(p.text[p.tokens[i].start:p.tokens[end-1].end])
}

// retypes reads ALTER COLUMN name [SET DATA] TYPE type, with or without USING the column, as it
// is or cast to the type.
func (a *Alteration) retypes(cmd message, ph *phrase, at int) *Alteration {
	def := cmd.child("def")
	a.Column, a.kind = cmd.text("name"), def.child("type_name")
	using := def.child("raw_default")
	if using.is("TypeCast") {
		if !(intents{}).equal(using.child("type_name"), a.kind) {
			return nil
		}
		a.casts, using = true, using.child("arg")
	}
	if def.child("coll_clause").shape != nil || using.shape != nil && !isColumn(using, a.Column) {
		return nil
	}
	i, end := at+1, len(ph.tokens)
	for i < end && !ph.word(i, "type") {
		i++
	}
	for n := i + 1; using.shape != nil && n < end; n++ { // a reserved word in no type
		if ph.word(n, "using") {
			end = n
		}
	}
	a.Type = ph.span(i+1, end)
	return a
}

// isColumn reports a reference to the column by its name alone.
func isColumn(m message, name string) bool {
	return m.is("ColumnRef") && len(m.values("fields")) == 1 && slices.Equal(m.names("fields"), []string{name})
}

// adds reads ADD [COLUMN] [IF NOT EXISTS] name type DEFAULT constant, with other constraints or
// not, in any order.
func (a *Alteration) adds(cmd message, reader *constraintReader, at int, constraints bool) *Alteration {
	column, ph := cmd.child("def"), reader.ph
	if refusedAlter(cmd) != AddColumn || !plainColumn(column) {
		return nil
	}
	a.Column, a.IfNotExists, a.kind = column.text("colname"), cmd.flag("missing_ok"), column.child("type_name")
	spans, until, ok := reader.spans(column, a.Column, len(ph.tokens)-1)
	if !ok {
		return nil
	}
	a.Type = ph.span(at+1, until)
	null := false
	var others []constraintSpan
	for _, span := range spans {
		switch pg_query.ConstrType(span.constraint.integer("contype")) {
		case pg_query.ConstrType_CONSTR_NOTNULL:
			a.NotNull = true
			if reader.notNull {
				others = append(others, span)
			}
		case pg_query.ConstrType_CONSTR_NULL:
			null = true
		case pg_query.ConstrType_CONSTR_DEFAULT:
			if a.Default != "" || !ph.word(span.first, "default") || !isFixed(span.constraint.child("raw_expr")) {
				return nil
			}
			a.Default = ph.span(span.first+1, span.last+1)
		default:
			others = append(others, span)
		}
	}
	if a.Default == "" || null && a.NotNull || len(a.Column) > maxAdded || len(others) > 0 && !(constraints && a.holds(reader, others)) {
		return nil
	}
	return a
}

// plainColumn reports a column without a collation and the like.
func plainColumn(column message) bool {
	return column.child("coll_clause").shape == nil && column.text("storage_name") == "" && column.text("compression") == "" && column.child("fdwoptions").shape == nil
}

// holds reads what the column is held to besides. The constraints are added while it has its name
// for the time being, by which they call it: nobody else can have written it then.
func (a *Alteration) holds(reader *constraintReader, spans []constraintSpan) bool {
	var adds []Addition
	for _, span := range spans {
		a.besides += " " + reader.ph.span(span.first, span.last+1)
	}
	for _, span := range spans {
		n := len(adds)
		if constraintIs(span.constraint, pg_query.ConstrType_CONSTR_NOTNULL) {
			hold := holdsNotNull(a.table, a.relation, a.Adding())
			hold.Name = span.constraint.text("conname")
			adds = append(adds, hold)
		} else if span.column = a.Adding(); !reader.add(&adds, span) {
			return false
		}
		hold := &adds[n]
		if hold.Kind == Check && !a.names(hold, span, reader.ph) {
			return false
		}
		if hold.Kind != Check {
			hold.second = a.Column
		}
	}
	a.Held = &Constraints{Table: a.Table, Relation: a.relation, Adds: adds, table: a.table}
	a.Held.sort()
	return true
}

// names has a CHECK call the column by its name for the time being.
func (a *Alteration) names(hold *Addition, span constraintSpan, ph *phrase) bool {
	var edits []edit
	refs := columnRefs(span.constraint.child("raw_expr"), nil)
	slices.SortFunc(refs, func(a, b message) int { return a.integer("location") - b.integer("location") })
	for _, ref := range refs {
		names := ref.names("fields")
		i := ph.at(ref.integer("location"))
		switch {
		case i < 0 || len(names) != len(ref.values("fields")):
			return false
		case len(names) == 1 && names[0] == a.Column:
			edits = append(edits, edit{int(ph.tokens[i].start), int(ph.tokens[i].end), identifier(a.Adding())})
		case names[len(names)-1] == a.Column:
			return false
		}
	}
	first := span.first
	if ph.word(first, "constraint") {
		first += 2
	}
	from, to := int(ph.tokens[first].start), int(ph.tokens[span.last].end)
	hold.body = ""
	for _, e := range edits {
		hold.body += string(ph.text[from:e.start]) + e.text
		from = e.end
	}
	hold.body += string(ph.text[from:to])
	return true
}

// columnRefs are the references to columns in an expression.
func columnRefs(expr message, refs []message) []message {
	if expr.is("ColumnRef") {
		return append(refs, expr)
	}
	for child := range expr.nodes() {
		refs = columnRefs(child, refs)
	}
	return refs
}

// isFixed reports a constant that is not NULL, with casts or not, and means the same whenever
// it is read.
func isFixed(m message) bool {
	for m.is("TypeCast") {
		m = m.child("arg")
	}
	return m.is("A_Const") && !m.flag("isnull") && isLasting(m)
}

// verified reports whether the statements that are made of the pieces mean what the client's
// says of type and default.
func (a *Alteration) verified() bool {
	client, err := parseTree(a.Text)
	if err != nil {
		return false
	}
	was := client.child("stmts").child("stmt").child("cmds").child("def")
	add, err := parseTree(a.Add())
	if err != nil {
		return false
	}
	column := add.child("stmts").child("stmt").child("cmds").child("def")
	if column.child("constraints").shape != nil || !(intents{}).equal(was.child("type_name"), column.child("type_name")) {
		return false
	}
	set, err := parseTree(a.SetDefault())
	if err != nil || len(set.values("stmts")) != 1 {
		return false
	}
	value := set.child("stmts").child("stmt").child("cmds").child("def")
	for constraint := range was.list("constraints") {
		if constraintIs(constraint, pg_query.ConstrType_CONSTR_DEFAULT) {
			return (intents{}).equal(constraint.child("raw_expr"), value)
		}
	}
	return false
}

// maxAdded bounds the name of a column that is added under another one first.
const maxAdded = maxName - len(addingSuffix) - 8

// addingSuffix stands between the name of a column and a number of its type and default,
// and what it is held to, while its rows do not have the default yet. By this name a statement finds what another
// like it has left behind.
const addingSuffix = "__adding_"

// Adding is the name that the column has until its rows have the default.
func (a *Alteration) Adding() string {
	h := fnv.New32a()
	h.Write([]byte(a.Type + "\x00" + a.Default))
	if a.besides != "" {
		h.Write([]byte("\x00" + a.besides))
	}
	return fmt.Sprintf("%s%s%08x", a.Column, addingSuffix, h.Sum32())
}

// Statements that add the column.

// Add adds it under its name for the time being.
func (a *Alteration) Add() string {
	return fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", a.table, identifier(a.Adding()), a.Type)
}

// SetDefault gives rows to come the default.
func (a *Alteration) SetDefault() string {
	return fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s SET DEFAULT %s", a.table, identifier(a.Adding()), a.Default)
}

// Fill gives the default to so many rows that do not have it, in the order of the table's
// key, or to all where that has no columns.
func (a *Alteration) Fill(key []string, rows int) string {
	name := identifier(a.Adding())
	if len(key) == 0 {
		return fmt.Sprintf("UPDATE %s SET %s = DEFAULT WHERE %s IS NULL", a.table, name, name)
	}
	columns := make([]string, len(key))
	for i, column := range key {
		columns[i] = identifier(column)
	}
	list := strings.Join(columns, ", ")
	return fmt.Sprintf("UPDATE %s SET %s = DEFAULT WHERE (%s) IN (SELECT %s FROM %s WHERE %s IS NULL ORDER BY %s LIMIT %d)",
		a.table, name, list, list, a.table, name, list, rows)
}

// Rename gives the column its name.
func (a *Alteration) Rename() string {
	return fmt.Sprintf("ALTER TABLE %s RENAME COLUMN %s TO %s", a.table, identifier(a.Adding()), a.column)
}

// Undo drops the column while it has not got its name.
func (a *Alteration) Undo() string {
	return fmt.Sprintf("ALTER TABLE %s DROP COLUMN %s", a.table, identifier(a.Adding()))
}

// NotNullHint is how to have the column hold no NULL.
func (a *Alteration) NotNullHint() string { return a.checked(a.column, a.Column) }

// checked are the statements by which a column holds no NULL.
func (a *Alteration) checked(column, name string) string {
	name = identifier(name + "_not_null")
	return fmt.Sprintf("ALTER TABLE %s ADD CONSTRAINT %s CHECK (%s IS NOT NULL) NOT VALID; ALTER TABLE ASYNC %s VALIDATE CONSTRAINT %s",
		a.table, name, column, a.table, name)
}

// eachAlone begins a list of statements.
const eachAlone = "each in a transaction of its own: "

// addHint are the statements to write in the place of one that adds the column.
func (a *Alteration) addHint() string {
	hint := fmt.Sprintf("Write, "+eachAlone+"ALTER TABLE %s ADD COLUMN %s %s; ALTER TABLE %s ALTER COLUMN %s SET DEFAULT %s; "+
		"UPDATE %s SET %s = DEFAULT WHERE %s IS NULL, at most 3,000 rows at a time.",
		a.table, a.column, a.Type, a.table, a.column, a.Default, a.table, a.column, a.column)
	if a.Held != nil {
		hint += " Then " + strings.ReplaceAll(strings.Join(a.Held.steps(), "; "), identifier(a.Adding()), a.column) + "."
	}
	if a.NotNull && (a.Held == nil || !a.Held.hasNotNull()) {
		hint += " In the place of NOT NULL, behind these: " + a.NotNullHint() + "."
	}
	return hint + " Or set " + AddColumnDefaultKey + " to " + backfillPolicy + ": Sluice then does so."
}

// ColumnFacts are what the catalog says of the column of an Alteration.
type ColumnFacts struct {
	Type     string // as format_type() shows it
	IsOfType bool   // it is of the type that the statement names, its modifier aside
	InKey    bool   // of the table's primary key
	NotNull  bool
	Default  string   // as SQL; "" for none
	Indexes  []string // that read it
}

// Same reports whether a change of type changes nothing.
func (a *Alteration) Same(facts ColumnFacts) bool {
	tree, err := parseTree("SELECT NULL::" + facts.Type)
	if err != nil || !facts.IsOfType {
		return false
	}
	shown := tree.child("stmts").child("stmt").child("target_list").child("val").child("type_name")
	return listsEqual(a.kind, shown, "typmods") && listsEqual(a.kind, shown, "array_bounds")
}

// listsEqual reports whether two nodes have the same in a field that is a list.
func listsEqual(a, b message, field string) bool {
	var of [2][]message
	for i, m := range [2]message{a, b} {
		for item := range m.list(field) {
			of[i] = append(of[i], item)
		}
	}
	if len(of[0]) != len(of[1]) {
		return false
	}
	for i := range of[0] {
		if !(intents{}).equal(of[0][i], of[1][i]) {
			return false
		}
	}
	return true
}

// Rebuild are the statements to write in the place of a change of the column's type.
func (a *Alteration) Rebuild(facts ColumnFacts) string {
	if facts.InKey {
		return fmt.Sprintf("The column is in the primary key, and cannot be dropped. Make the table anew while nothing writes to it, "+eachAlone+
			"CREATE TABLE %s with %s %s and all else as it is; INSERT INTO it SELECT ... FROM %s, at most 3,000 rows at a time; DROP TABLE %s; ALTER TABLE ... RENAME TO it; its indexes.",
			identifier(a.unquotedTable()+"_new"), a.column, a.Type, a.table, a.table)
	}
	made := identifier(a.Column + "_new")
	steps := []string{
		fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", a.table, made, a.Type),
		fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s IS NULL AND %s IS NOT NULL, at most 3,000 rows at a time", a.table, made, a.column, made, a.column),
		fmt.Sprintf("ALTER TABLE %s DROP COLUMN %s", a.table, a.column),
		fmt.Sprintf("ALTER TABLE %s RENAME COLUMN %s TO %s", a.table, made, a.column),
	}
	if facts.Default != "" {
		steps = append(steps, fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s SET DEFAULT %s", a.table, a.column, facts.Default))
	}
	if facts.NotNull {
		steps = append(steps, a.checked(a.column, a.Column))
	}
	hint := "Make the column anew while nothing writes to it, " + eachAlone + strings.Join(steps, "; ") + "."
	if len(facts.Indexes) > 0 {
		hint += " Create anew what goes with the old column: " + strings.Join(facts.Indexes, ", ") + "."
	}
	return hint
}

// unquotedTable is the table's name.
func (a *Alteration) unquotedTable() string {
	name := a.Table[strings.LastIndex(a.Table, `"."`)+1:]
	return strings.ReplaceAll(strings.Trim(name, `".`), `""`, `"`)
}
