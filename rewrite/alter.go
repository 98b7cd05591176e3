package rewrite

import (
	"slices"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// addColumn is the rule of ALTER TABLE ... ADD COLUMN ... NULL: DSQL refuses a column with
// a constraint, and takes the word for one.
func (r *rewriter) addColumn(p *part) {
	if !r.rules.AddColumn && !r.rules.Dialect {
		return
	}
	for cmd := range p.node.list("cmds") {
		column := cmd.child("def")
		if pg_query.AlterTableType(cmd.integer("subtype")) != pg_query.AlterTableType_AT_AddColumn || !onlyNull(column) {
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
			if i >= 0 {
				r.edit(ph.remove(i))
			}
		}
		r.meant.set(column, "constraints")
		r.find(handled(AddNull, Rewritten, Info, "NULL is taken out: it is so without", at))
	}
}

// onlyNull reports whether a column has constraints, and all of them are NULL.
func onlyNull(column message) bool {
	kinds := []int{}
	for constraint := range column.list("constraints") {
		kinds = append(kinds, constraint.integer("contype"))
	}
	return len(kinds) > 0 && !slices.ContainsFunc(kinds, func(kind int) bool {
		return kind != int(pg_query.ConstrType_CONSTR_NULL)
	})
}
