package bytea

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// MappedTable is a new or existing table, with the names of its mapped columns (bytea stored as text).
type MappedTable struct {
	schema, name string
	mapped       map[string]bool
	key          []string // the columns of the primary key
}

func (t *MappedTable) IsMapped(name string) bool { return t.mapped[name] }

// tableOfRelation returns the MappedTable of an existing relation.
func tableOfRelation(rel *schema.Relation) *MappedTable {
	t := &MappedTable{schema: rel.Schema, name: rel.Name, mapped: map[string]bool{}, key: rel.Key}
	for _, c := range rel.Columns {
		if c.Mapped {
			t.mapped[c.Name] = true
		}
	}
	return t
}

// TableFromCreate returns the table of a CREATE TABLE with its mapped columns (bytea stored as text). Sluice maps bytea
// columns that are in a key, reference a mapped column, or are listed in the configuration. If the server refuses the
// table anyway, no column is mapped.
func (m *Mapping) TableFromCreate(create parse.TreeNode) *MappedTable {
	relation := create.Child("relation")
	t := &MappedTable{schema: relation.Text("schemaname"), name: relation.Text("relname"), mapped: map[string]bool{}}
	for _, field := range []string{"partspec", "partbound", "inh_relations", "of_typename"} {
		if create.Child(field).Shape != nil {
			return t
		}
	}
	if relation.Text("relpersistence") != "p" || t.schema == "pg_temp" {
		return t
	}
	bytea := map[string]bool{}
	for column := range create.List("table_elts") {
		if column.Is("ColumnDef") && isBytea(column.Child("type_name")) {
			name := column.Text("colname")
			bytea[name] = true
			if slices.Contains(m.Columns, t.name+"."+name) {
				t.mapped[name] = true
			}
		}
	}
	for constraint, keys := range parse.ConstraintsOf(create) {
		if parse.ConstraintIs(constraint, parse.CONSTR_PRIMARY, parse.CONSTR_UNIQUE) {
			for _, key := range keys {
				if bytea[key] {
					t.mapped[key] = true
				}
			}
		}
		if parse.ConstraintIs(constraint, parse.CONSTR_PRIMARY) {
			t.key = keys
		}
	}
	for constraint, keys := range parse.ConstraintsOf(create) {
		if !parse.ConstraintIs(constraint, parse.CONSTR_FOREIGN) {
			continue
		}
		for i, to := range m.referencedColumns(t, constraint) {
			if i < len(keys) && to.Mapped && bytea[keys[i]] {
				t.mapped[keys[i]] = true
			}
		}
	}
	return t
}

// RelationFromCreate returns the relation that a CREATE TABLE creates. within is its schema if the text names none.
func (m *Mapping) RelationFromCreate(create parse.TreeNode, within string) *schema.Relation {
	t := m.TableFromCreate(create)
	rel := &schema.Relation{Schema: t.schema, Name: t.name, Key: t.key}
	if rel.Schema == "" {
		rel.Schema = within
	}
	for column := range create.List("table_elts") {
		if column.Is("ColumnDef") {
			name := column.Text("colname")
			rel.Columns = append(rel.Columns, schema.Column{Name: name, Mapped: t.IsMapped(name)})
		}
	}
	return rel
}

// referencedColumns returns the columns that a FOREIGN KEY references, or nil if the referenced table is unknown.
func (m *Mapping) referencedColumns(t *MappedTable, constraint parse.TreeNode) []schema.Column {
	to := constraint.Child("pktable")
	name := to.Text("relname")
	other := t
	if within := to.Text("schemaname"); name != t.name || within != t.schema {
		rel, _ := m.Names.FindRelation(within, name)
		if rel == nil {
			return nil
		}
		other = tableOfRelation(rel)
	}
	names := constraint.Names("pk_attrs")
	if len(names) == 0 {
		names = other.key
	}
	var columns []schema.Column
	for _, name := range names {
		columns = append(columns, schema.Column{Name: name, Mapped: other.mapped[name]})
	}
	return columns
}

// createTable rewrites a CREATE TABLE whose table may have mapped columns (bytea stored as text).
func (d *ddlMapper) createTable(create parse.TreeNode) {
	for element := range create.List("table_elts") {
		if !element.Is("TableLikeClause") {
			continue
		}
		if rel := d.findRelation(element.Child("relation")); rel != nil && rel.HasMapped() {
			d.refuse("LIKE would copy a table that has such columns.")
		}
	}
	t := d.r.TableFromCreate(create)
	given := d.chooseConstraintNames(t, create)
	for element := range create.List("table_elts") {
		switch {
		case element.Is("ColumnDef"):
			d.rewriteColumn(t, element, given)
		case element.Is("Constraint"):
			d.rewriteConstraint(t, element, parse.ConstraintColumns(element), given)
		}
	}
	if len(t.mapped) > 0 && d.node.Is("CreateSchemaStmt") {
		d.created[t.name] = true
	}
}

// rewriteColumn rewrites one column definition of a CREATE TABLE, for mapped columns (bytea stored as text).
func (d *ddlMapper) rewriteColumn(t *MappedTable, column parse.TreeNode, given givenNames) {
	name := column.Text("colname")
	if !t.IsMapped(name) {
		for constraint := range column.List("constraints") {
			d.rewriteConstraint(t, constraint, []string{name}, given)
			if parse.ConstraintIs(constraint, parse.CONSTR_GENERATED) {
				d.readAsBytea(t, constraint, "raw_expr")
			}
		}
		return
	}
	if len(name) > MaxMapped {
		d.refuse(tooLongName)
		return
	}
	if column.Child("coll_clause").Shape != nil {
		d.refuse("A bytea column in a key has COLLATE.")
	}
	ph, i := d.statementTokens(), d.tokenAt(column.Integer("location"))
	d.rewriteName(column, "colname", i, physicalName(name))
	if isBytea(column.Child("type_name")) { // the server refuses a column that is defined twice
		d.changeTypeToText(column)
	}
	end := ph.ParenItemEnd(i)
	constraints := slices.Collect(column.List("constraints"))
	for n, constraint := range constraints {
		d.rewriteConstraint(t, constraint, []string{name}, given)
		switch {
		case parse.ConstraintIs(constraint, parse.CONSTR_DEFAULT):
			last := end
			if n+1 < len(constraints) {
				last = d.tokenAt(constraints[n+1].Integer("location")) - 1
			}
			d.convertToDigits(t, constraint, "raw_expr", d.constraintToken(constraint)+1, last)
		case parse.ConstraintIs(constraint, parse.CONSTR_GENERATED) && d.r.By.dependsOnSetting:
			d.refuse("The digits of a generated column would depend on a setting (bytea_output) where they are made by casts.")
		case parse.ConstraintIs(constraint, parse.CONSTR_GENERATED):
			open := d.constraintToken(constraint) + 3 // the tokens GENERATED ALWAYS AS (
			d.convertToDigits(t, constraint, "raw_expr", open+1, ph.ClosingParen(open)-1)
		}
	}
	if !d.r.Check {
		return
	}
	text := d.r.By.CheckConstraint(physicalName(name))
	d.insertAfter(end, " "+text)
	all := append(column.Values("constraints"), d.parseSQL("CREATE TABLE t (c text "+text+")").
		Child("stmts").Child("stmt").Child("table_elts").Values("constraints")...)
	d.meant.Set(column, "constraints", all...)
}

// sampleText is the tree of a CREATE TABLE from which changeTypeToText copies the type text.
var sampleText = parse.LazyTree("CREATE TABLE t (c text)")

// changeTypeToText replaces the type in a column definition by text.
func (d *ddlMapper) changeTypeToText(column parse.TreeNode) {
	kind := column.Child("type_name")
	ph, i := d.statementTokens(), d.tokenAt(kind.Integer("location"))
	if i < 0 {
		return
	}
	last := ph.AfterQualifiedName(i) - 1
	d.addEdit(parse.Edit{Start: int(ph.Tokens[i].Start), End: int(ph.Tokens[last].End), Text: "text"})
	d.meant.Set(column, "type_name", sampleText().Child("stmts").Child("stmt").Child("table_elts").Values("type_name")...)
}

// CheckConstraint returns the CHECK of a mapped column (bytea stored as text), which allows only pairs of lower-case
// hexadecimal digits. The CHECK has the column's name. Sluice recognizes mapped columns by this CHECK.
func (by *Conversion) CheckConstraint(physical string) string {
	c := parse.QuoteIdentIfNeeded(physical)
	return "CONSTRAINT " + c + " CHECK (" + strings.ReplaceAll(by.check, "%c", c) + ")"
}

// parseSQL returns the tree of SQL that Sluice made. If the SQL has a syntax error, parseSQL refuses the client's
// statement.
func (d *ddlMapper) parseSQL(sql string) parse.TreeNode {
	tree, err := parse.Tree(sql)
	if err != nil {
		d.refuse("What was to be put in is not PostgreSQL's grammar.")
	}
	return tree
}
