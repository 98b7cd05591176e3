package rewrite

import (
	"slices"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// addColumn is the rule of ALTER TABLE ... ADD COLUMN with NULL and DEFAULT NULL: DSQL refuses
// a column with a constraint, and takes these words for one, which say what is so without.
func (r *rewriter) addColumn(p *part) {
	if !r.rules.AddColumn && !r.rules.Dialect {
		return
	}
	for cmd := range p.node.list("cmds") {
		column := cmd.child("def")
		if pg_query.AlterTableType(cmd.integer("subtype")) != pg_query.AlterTableType_AT_AddColumn || !saysNothing(column) {
			continue
		}
		at := column.integer("location")
		if !r.rules.AddColumn {
			r.find(off(AddNull, at))
			continue
		}
		ph := r.phrase(p)
		for constraint := range column.list("constraints") {
			i := ph.at(constraint.integer("location"))
			if ph.word(i, "constraint") {
				r.edit(ph.remove(i), ph.remove(i+1))
				i += 2
			}
			if ph.word(i, "default") {
				r.edit(ph.remove(i))
				i++
			}
			if i >= 0 {
				r.edit(ph.remove(i))
			}
		}
		r.meant.set(column, "constraints")
		r.find(handled(AddNull, Rewritten, Info, "NULL is taken out: it is so without", at))
	}
}

// saysNothing reports whether a column has constraints, and all of them are NULL or DEFAULT
// NULL. A domain may have another default, which DEFAULT NULL would be instead of.
func saysNothing(column message) bool {
	any := false
	for constraint := range column.list("constraints") {
		any = true
		switch {
		case constraintIs(constraint, pg_query.ConstrType_CONSTR_NULL):
		case constraintIs(constraint, pg_query.ConstrType_CONSTR_DEFAULT) && isNull(constraint.child("raw_expr")) && isNoDomain(column.child("type_name")):
		default:
			return false
		}
	}
	return any
}

// plainTypes are types of PostgreSQL's that its grammar takes for any other name.
var plainTypes = []string{"text", "bytea", "uuid", "date", "json", "jsonb", "int2", "int4", "int8", "float4", "float8", "bool", "timestamptz", "timetz"}

// isNoDomain reports whether a type is one of PostgreSQL's own, for certain enough.
func isNoDomain(kind message) bool {
	names := kind.names("names")
	return len(names) == 2 && names[0] == "pg_catalog" || len(names) == 1 && slices.Contains(plainTypes, names[0])
}

// isNull reports the constant NULL.
func isNull(m message) bool { return m.is("A_Const") && m.flag("isnull") }
