package rewrite

import (
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// alterTable rewrites ALTER TABLE.
func (d *ddl) alterTable(alter message) {
	rel := d.find(alter.child("relation"))
	if rel == nil {
		return
	}
	t := tableOf(rel)
	ph := d.phrase()
	i := d.token(alter.child("relation").integer("location"))
	if i < 0 {
		return
	}
	i = ph.qualified(i)
	if ph.punctuated(i, "*") {
		i++
	}
	for cmd := range alter.list("cmds") {
		end := ph.ends(i)
		d.alterCommand(t, cmd, i, end)
		i = end + 2
	}
}

// punctuated reports whether token i is an operator of that text.
func (p *phrase) punctuated(i int, operator string) bool { return string(p.lexeme(i)) == operator }

// columnCommands are the commands of ALTER TABLE that name a column and read nothing.
var columnCommands = []pg_query.AlterTableType{
	pg_query.AlterTableType_AT_ColumnDefault, pg_query.AlterTableType_AT_DropNotNull, pg_query.AlterTableType_AT_SetNotNull,
	pg_query.AlterTableType_AT_SetStatistics, pg_query.AlterTableType_AT_SetOptions, pg_query.AlterTableType_AT_ResetOptions,
	pg_query.AlterTableType_AT_SetStorage, pg_query.AlterTableType_AT_SetCompression, pg_query.AlterTableType_AT_DropColumn,
	pg_query.AlterTableType_AT_DropExpression, pg_query.AlterTableType_AT_DropIdentity, pg_query.AlterTableType_AT_AddIdentity,
	pg_query.AlterTableType_AT_SetIdentity,
}

// alterCommand rewrites a command of ALTER TABLE that stands from token i to token end.
func (d *ddl) alterCommand(t *table, cmd message, i, end int) {
	ph := d.phrase()
	name, kind := cmd.text("name"), pg_query.AlterTableType(cmd.integer("subtype"))
	switch {
	case slices.Contains(columnCommands, kind) && t.maps(name):
		at := ph.columnToken(i)
		d.rewriteName(cmd, "name", at, physicalName(name))
		if kind == pg_query.AlterTableType_AT_ColumnDefault && cmd.child("def").shape != nil {
			d.wrap(t, cmd, "def", at+3, end) // name SET DEFAULT expression
		}
	case kind == pg_query.AlterTableType_AT_AddColumn:
		// A column that clients know by the name is there: the server must find it.
		if name := cmd.child("def").text("colname"); t.maps(name) {
			d.rewriteName(cmd.child("def"), "colname", ph.columnToken(i), physicalName(name))
		}
	case kind == pg_query.AlterTableType_AT_AddConstraint:
		constraint := cmd.child("def")
		given := givenNames{}
		if constraint.text("conname") == "" && constraint.text("indexname") == "" {
			d.nameConstraint(t, constraint, keysOf(constraint), newChooser(), given)
		}
		d.constraint(t, constraint, keysOf(constraint), given)
	case kind == pg_query.AlterTableType_AT_AlterColumnType && t.maps(name):
		d.refuse("The column is stored as text, and its type is bytea to clients: create the table anew.")
	case kind == pg_query.AlterTableType_AT_SetExpression && t.maps(name):
		d.refuse("A bytea column in a key is generated.")
	case kind == pg_query.AlterTableType_AT_DropConstraint:
		d.keepCheck(t, name)
	}
}

// columnToken is the token of the column's name in a command of ALTER TABLE that begins at
// token i: ALTER or DROP or ADD, COLUMN, IF [NOT] EXISTS, name.
func (p *phrase) columnToken(i int) int {
	i++
	if p.word(i, "column") {
		i++
	}
	switch {
	case p.words(i, "if", "exists") && p.name(i+2):
		return i + 2
	case p.words(i, "if", "not", "exists"):
		return i + 3
	}
	return i
}

// keepCheck refuses to take away, or to rename, the CHECK by which a mapped column is known.
func (d *ddl) keepCheck(t *table, constraint string) {
	if name, ours := strings.CutSuffix(constraint, MappedSuffix); ours && t.maps(name) && d.r.rules.ByteaCheck {
		d.refuse("By this CHECK the column is known to hold the hexadecimal digits of a bytea.")
	}
}

// rename rewrites ALTER TABLE ... RENAME of a column. A name that another column has for
// clients is left to the server to refuse.
func (d *ddl) rename(node message) {
	if kind := pg_query.ObjectType(node.integer("rename_type")); kind == pg_query.ObjectType_OBJECT_TABCONSTRAINT {
		if rel := d.find(node.child("relation")); rel != nil {
			d.keepCheck(tableOf(rel), node.text("subname"))
		}
		return
	} else if kind != pg_query.ObjectType_OBJECT_COLUMN {
		return
	}
	rel := d.find(node.child("relation"))
	if rel == nil || !rel.Maps() {
		return
	}
	from, isColumn := rel.Column(node.text("subname"))
	to, taken := rel.Column(node.text("newname"))
	last := len(d.phrase().tokens) - 1
	if isColumn && from.Mapped {
		d.rewriteName(node, "subname", last-2, from.Physical())
	}
	switch {
	case taken && to.Mapped:
		d.rewriteName(node, "newname", last, to.Physical())
	case !taken && from.Mapped:
		if len(node.text("newname")) > maxMapped {
			d.refuse(tooLongName)
			return
		}
		d.rewriteName(node, "newname", last, physicalName(node.text("newname")))
	}
}

// tooLongName is why the name of a column is none for a mapped one.
const tooLongName = "The name of a bytea column in a key has more than 53 bytes: there is no room for " + MappedSuffix + " behind it."

// comment rewrites COMMENT ON COLUMN.
func (d *ddl) comment(node message) {
	if pg_query.ObjectType(node.integer("objtype")) != pg_query.ObjectType_OBJECT_COLUMN {
		return
	}
	var path []message
	for name := range node.child("object").list("items") {
		path = append(path, name)
	}
	if len(path) < 2 {
		return
	}
	schema, column := "", path[len(path)-1]
	if len(path) > 2 {
		schema = path[len(path)-3].text("sval")
	}
	rel := d.named(schema, path[len(path)-2].text("sval"))
	if rel == nil || !tableOf(rel).maps(column.text("sval")) {
		return
	}
	d.rewriteName(column, "sval", d.phrase().qualified(3)-1, physicalName(column.text("sval"))) // COMMENT ON COLUMN a.b.c
}

// grant rewrites GRANT and REVOKE of columns.
func (d *ddl) grant(node message) {
	if pg_query.ObjectType(node.integer("objtype")) != pg_query.ObjectType_OBJECT_TABLE {
		return
	}
	var tables []*table
	objects := map[*Relation]bool{}
	for object := range node.list("objects") {
		if !object.is("RangeVar") {
			return // all tables of a schema: no columns
		}
		rel := d.find(object)
		if rel != nil && !objects[rel] {
			tables = append(tables, tableOf(rel))
		}
		objects[rel] = true
	}
	mapped := func(name string) bool {
		n := 0
		for _, t := range tables {
			if t.maps(name) {
				n++
			}
		}
		if n > 0 && n < len(objects) {
			d.refuse("The column is stored as text in some of the tables only: name each in a statement of its own.")
		}
		return n > 0
	}
	ph := d.phrase()
	i := 0
	for privilege := range node.list("privileges") {
		if privilege.child("cols").shape == nil {
			continue
		}
		for i < len(ph.tokens) && !ph.punct(i, '(') {
			i++
		}
		d.renameList(privilege, "cols", i, mapped)
		i = max(i, ph.closing(i)) + 1
	}
}

// analyze rewrites ANALYZE of columns.
func (d *ddl) analyze(node message) {
	ph := d.phrase()
	for target := range node.list("rels") {
		rel := d.find(target.child("relation"))
		if rel == nil || !rel.Maps() || target.child("va_cols").shape == nil {
			continue
		}
		d.renameList(target, "va_cols", ph.qualified(d.token(target.child("relation").integer("location"))), tableOf(rel).maps)
	}
}
