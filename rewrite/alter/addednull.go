package alter

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// RemoveAddedNull removes the words NULL and DEFAULT NULL from columns that an ALTER TABLE adds. They have no effect,
// but DSQL refuses them as constraints.
func (d *Draft) RemoveAddedNull() {
	if !d.Rules.AddColumn && !d.Rules.Dialect {
		return
	}
	for cmd := range d.Node.List("cmds") {
		column := cmd.Child("def")
		if parse.AlterTableType(cmd.Integer("subtype")) != parse.AT_AddColumn || !onlyNullConstraints(column) {
			continue
		}
		at := column.Integer("location")
		if !d.Rules.AddColumn {
			d.addFinding(finding.Disabled(finding.AddNull, at))
			continue
		}
		ph := d.tokens()
		for constraint := range column.List("constraints") {
			i := ph.TokenAt(constraint.Integer("location"))
			if ph.IsKeyword(i, "constraint") {
				d.addEdits(ph.Remove(i), ph.Remove(i+1))
				i += 2
			}
			if ph.IsKeyword(i, "default") {
				d.addEdits(ph.Remove(i))
				i++
			}
			if i >= 0 {
				d.addEdits(ph.Remove(i))
			}
		}
		d.Meant.Set(column, "constraints")
		d.addFinding(finding.Handled(finding.AddNull, finding.Rewritten, finding.Info, "NULL is taken out: it is so without", at))
	}
}

// onlyNullConstraints reports whether a column has constraints, and all are NULL or DEFAULT NULL. It returns false for
// a DEFAULT NULL of a domain, because it overrides the domain's own default.
func onlyNullConstraints(column parse.TreeNode) bool {
	any := false
	for constraint := range column.List("constraints") {
		any = true
		switch {
		case parse.ConstraintIs(constraint, parse.CONSTR_NULL):
		case parse.ConstraintIs(constraint, parse.CONSTR_DEFAULT) && parse.IsNull(constraint.Child("raw_expr")) && isBuiltinType(column.Child("type_name")):
		default:
			return false
		}
	}
	return any
}

// plainTypes are builtin types that PostgreSQL's parser leaves without the schema pg_catalog, unlike integer or
// boolean.
var plainTypes = []string{"text", "bytea", "uuid", "date", "json", "jsonb", "int2", "int4", "int8", "float4", "float8", "bool", "timestamptz", "timetz"}

// isBuiltinType reports whether the name of a type shows that the type is PostgreSQL's own.
func isBuiltinType(kind parse.TreeNode) bool {
	names := kind.Names("names")
	return len(names) == 2 && names[0] == "pg_catalog" || len(names) == 1 && slices.Contains(plainTypes, names[0])
}
