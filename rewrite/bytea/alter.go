package bytea

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// alterTable rewrites an ALTER TABLE of a table that has mapped columns (bytea stored as text).
func (d *ddlMapper) alterTable(alter parse.TreeNode) {
	rel := d.findRelation(alter.Child("relation"))
	if rel == nil {
		return
	}
	t := tableOfRelation(rel)
	ph := d.statementTokens()
	i := d.tokenAt(alter.Child("relation").Integer("location"))
	if i < 0 {
		return
	}
	i = ph.AfterQualifiedName(i)
	if ph.IsOperator(i, "*") {
		i++
	}
	for cmd := range alter.List("cmds") {
		end := ph.ParenItemEnd(i)
		d.alterCommand(t, cmd, i, end)
		i = end + 2
	}
}

// columnCommands are the commands of ALTER TABLE that name one column and refer to no other column.
var columnCommands = []parse.AlterTableType{
	parse.AT_ColumnDefault, parse.AT_DropNotNull, parse.AT_SetNotNull,
	parse.AT_SetStatistics, parse.AT_SetOptions, parse.AT_ResetOptions,
	parse.AT_SetStorage, parse.AT_SetCompression, parse.AT_DropColumn,
	parse.AT_DropExpression, parse.AT_DropIdentity, parse.AT_AddIdentity,
	parse.AT_SetIdentity,
}

// alterCommand rewrites one command of an ALTER TABLE. The command is between the tokens i and end.
func (d *ddlMapper) alterCommand(t *MappedTable, cmd parse.TreeNode, i, end int) {
	ph := d.statementTokens()
	name, kind := cmd.Text("name"), parse.AlterTableType(cmd.Integer("subtype"))
	switch {
	case slices.Contains(columnCommands, kind) && t.IsMapped(name):
		at := ph.ColumnNameToken(i)
		d.rewriteName(cmd, "name", at, physicalName(name))
		if kind == parse.AT_ColumnDefault && cmd.Child("def").Shape != nil {
			d.convertToDigits(t, cmd, "def", at+3, end) // the tokens are: name SET DEFAULT expression
		}
	case kind == parse.AT_AddColumn:
		// The new column also gets its name on the server, so that the server refuses the command if the name is in
		// use.
		if name := cmd.Child("def").Text("colname"); t.IsMapped(name) {
			d.rewriteName(cmd.Child("def"), "colname", ph.ColumnNameToken(i), physicalName(name))
		}
	case kind == parse.AT_AddConstraint:
		constraint := cmd.Child("def")
		given := givenNames{}
		if constraint.Text("conname") == "" && constraint.Text("indexname") == "" {
			d.nameConstraint(t, constraint, parse.ConstraintColumns(constraint), newNameChooser(), given)
		}
		d.rewriteConstraint(t, constraint, parse.ConstraintColumns(constraint), given)
	case kind == parse.AT_AlterColumnType && t.IsMapped(name):
		d.refuse("The column is stored as text, and its type is bytea to clients: create the table anew.")
	case kind == parse.AT_SetExpression && t.IsMapped(name):
		d.refuse("A bytea column in a key is generated.")
	case kind == parse.AT_DropConstraint:
		d.refuseCheckChange(t, name)
	}
}

// refuseCheckChange refuses to drop or rename a mapped column's CHECK, by which Sluice recognizes the column as mapped
// (bytea stored as text).
func (d *ddlMapper) refuseCheckChange(t *MappedTable, constraint string) {
	if name, ours := strings.CutSuffix(constraint, schema.MappedSuffix); ours && t.IsMapped(name) && d.r.Check {
		d.refuse("By this CHECK the column is known to hold the hexadecimal digits of a bytea.")
	}
}

// renameColumn rewrites ALTER TABLE ... RENAME COLUMN of a mapped column (bytea stored as text). The server itself
// refuses a new name that another column has.
func (d *ddlMapper) renameColumn(node parse.TreeNode) {
	if kind := parse.ObjectType(node.Integer("rename_type")); kind == parse.OBJECT_TABCONSTRAINT {
		if rel := d.findRelation(node.Child("relation")); rel != nil {
			d.refuseCheckChange(tableOfRelation(rel), node.Text("subname"))
		}
		return
	} else if kind != parse.OBJECT_COLUMN {
		return
	}
	rel := d.findRelation(node.Child("relation"))
	if rel == nil || !rel.HasMapped() {
		return
	}
	from, isColumn := rel.Column(node.Text("subname"))
	to, taken := rel.Column(node.Text("newname"))
	last := len(d.statementTokens().Tokens) - 1
	if isColumn && from.Mapped {
		d.rewriteName(node, "subname", last-2, from.ServerName())
	}
	switch {
	case taken && to.Mapped:
		d.rewriteName(node, "newname", last, to.ServerName())
	case !taken && from.Mapped:
		if len(node.Text("newname")) > MaxMapped {
			d.refuse(tooLongName)
			return
		}
		d.rewriteName(node, "newname", last, physicalName(node.Text("newname")))
	}
}

// tooLongName is the reason for the refusal of a mapped column (bytea stored as text) whose name is too long.
const tooLongName = "The name of a bytea column in a key has more than 53 bytes: there is no room for " + schema.MappedSuffix + " behind it."

// commentOnColumn rewrites COMMENT ON COLUMN of a mapped column (bytea stored as text).
func (d *ddlMapper) commentOnColumn(node parse.TreeNode) {
	if parse.ObjectType(node.Integer("objtype")) != parse.OBJECT_COLUMN {
		return
	}
	var path []parse.TreeNode
	for name := range node.Child("object").List("items") {
		path = append(path, name)
	}
	if len(path) < 2 {
		return
	}
	schema, column := "", path[len(path)-1]
	if len(path) > 2 {
		schema = path[len(path)-3].Text("sval")
	}
	rel := d.findNamed(schema, path[len(path)-2].Text("sval"))
	if rel == nil || !tableOfRelation(rel).IsMapped(column.Text("sval")) {
		return
	}
	d.rewriteName(column, "sval", d.statementTokens().AfterQualifiedName(3)-1, physicalName(column.Text("sval"))) // the tokens are COMMENT ON COLUMN a.b.c
}

// grantColumns rewrites GRANT and REVOKE of privileges on single columns, for mapped columns (bytea stored as text).
func (d *ddlMapper) grantColumns(node parse.TreeNode) {
	if parse.ObjectType(node.Integer("objtype")) != parse.OBJECT_TABLE {
		return
	}
	var tables []*MappedTable
	objects := map[*schema.Relation]bool{}
	for object := range node.List("objects") {
		if !object.Is("RangeVar") {
			return // the statement is about all tables of a schema, and names no columns
		}
		rel := d.findRelation(object)
		if rel != nil && !objects[rel] {
			tables = append(tables, tableOfRelation(rel))
		}
		objects[rel] = true
	}
	mapped := func(name string) bool {
		n := 0
		for _, t := range tables {
			if t.IsMapped(name) {
				n++
			}
		}
		if n > 0 && n < len(objects) {
			d.refuse("The column is stored as text in some of the tables only: name each in a statement of its own.")
		}
		return n > 0
	}
	ph := d.statementTokens()
	i := 0
	for privilege := range node.List("privileges") {
		if privilege.Child("cols").Shape == nil {
			continue
		}
		for i < len(ph.Tokens) && !ph.IsPunct(i, '(') {
			i++
		}
		d.renameList(privilege, "cols", i, mapped)
		i = max(i, ph.ClosingParen(i)) + 1
	}
}

// analyzeColumns rewrites an ANALYZE that names mapped columns (bytea stored as text).
func (d *ddlMapper) analyzeColumns(node parse.TreeNode) {
	ph := d.statementTokens()
	for target := range node.List("rels") {
		rel := d.findRelation(target.Child("relation"))
		if rel == nil || !rel.HasMapped() || target.Child("va_cols").Shape == nil {
			continue
		}
		d.renameList(target, "va_cols", ph.AfterQualifiedName(d.tokenAt(target.Child("relation").Integer("location"))), tableOfRelation(rel).IsMapped)
	}
}
