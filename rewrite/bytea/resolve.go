package bytea

import (
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// columnResolver finds the relations and columns that names mean. If a name's column is uncertain, it records the name
// in the statement's diagnostics.
type columnResolver struct {
	names    *schema.NameResolver
	problems *diagnostics
}

// resolveRelation returns the columns of the table that the node names.
func (r *columnResolver) resolveRelation(node parse.TreeNode) columnView {
	schema, name := node.Text("schemaname"), node.Text("relname")
	it := &fromItem{schema: schema, name: name}
	rel, known := r.names.FindRelation(schema, name)
	switch {
	case !known:
		r.problems.refuse("The search path is not known, so that nobody can tell which table the name " + parse.QuoteIdentIfNeeded(name) + " stands for.")
		it.unknown = true
	case rel == nil:
		it.unknown = true
	default:
		if it.schema == "" {
			it.schema = rel.Schema
		}
		for _, c := range rel.Columns {
			it.columns = append(it.columns, itemColumn{name: c.Name, server: c.ServerName(), mapped: c.Mapped})
		}
	}
	return it.applyAlias(node.Child("alias")).asView()
}

// resolveColumn returns the column that a reference means. ok reports that the column is mapped (bytea stored as text).
func (r *columnResolver) resolveColumn(s *scope, ref parse.TreeNode) (c itemColumn, ok bool) {
	names := make([]string, 0, 4)
	for field := range ref.List("fields") {
		if field.Is("A_Star") {
			r.recordWholeRow(s, names)
			return itemColumn{}, false
		}
		names = append(names, field.Text("sval"))
	}
	switch len(names) {
	case 1:
		return r.resolveUnqualified(s, names[0])
	case 2:
		return r.resolveQualified(s, "", names[0], names[1])
	case 3:
		return r.resolveQualified(s, names[0], names[1], names[2])
	case 4:
		return r.resolveQualified(s, names[1], names[2], names[3])
	}
	return itemColumn{}, false
}

// bareMappedColumn returns the mapped column (bytea stored as text) that n means, if n is only a column reference.
func (r *columnResolver) bareMappedColumn(s *scope, n parse.TreeNode) (itemColumn, bool) {
	ref := n.NodeContent()
	if !ref.Is("ColumnRef") {
		return itemColumn{}, false
	}
	return r.resolveColumn(s, ref)
}

// isMappedRef reports whether an expression is only a reference to a mapped column (bytea stored as text).
func (r *columnResolver) isMappedRef(s *scope, n parse.TreeNode) bool {
	_, ok := r.bareMappedColumn(s, n)
	return ok
}

// resolveUnqualified finds the column that a name without a table means, from the innermost level of the query
// outwards.
func (r *columnResolver) resolveUnqualified(s *scope, name string) (itemColumn, bool) {
	perhaps := false
	for level := s; level != nil; level = level.outer {
		at := level.columnIndexes(name)
		if len(at) == 0 {
			perhaps = perhaps || level.unknown
			continue
		}
		found := itemColumn{}
		for _, i := range at {
			if c := level.columns[i]; c.mapped || found.name == "" {
				found = c
			}
		}
		switch {
		case !found.mapped:
			return itemColumn{}, false
		case len(at) > 1:
			r.problems.refuseAmbiguous(name)
			return itemColumn{}, false
		case perhaps:
			r.problems.refuse("The name " + parse.QuoteIdentIfNeeded(name) + " may belong to a function or a table whose columns are not known, or to a mapped column of a query around: write the table before it.")
			return itemColumn{}, false
		}
		return found, true
	}
	for level := s; level != nil; level = level.outer {
		for _, it := range level.items {
			if it.name == name {
				if anyMapped(it.columns) {
					r.problems.recordUnconvertible("The whole row of " + parse.QuoteIdentIfNeeded(name) + " is read.")
				}
				return itemColumn{}, false
			}
		}
	}
	return itemColumn{}, false
}

// resolveQualified finds the column that a name means if the text writes a table's name before it.
func (r *columnResolver) resolveQualified(s *scope, schema, table, name string) (itemColumn, bool) {
	it := s.findItem(schema, table)
	if it == nil {
		return itemColumn{}, false
	}
	found, n := itemColumn{}, 0
	for _, c := range it.columns {
		if c.name == name {
			n++
			if c.mapped {
				found = c
			}
		}
	}
	if found.mapped && n > 1 {
		r.problems.refuseAmbiguous(name)
		return itemColumn{}, false
	}
	return found, found.mapped
}

// recordWholeRow records that an expression has a star, such as t.*. Columns of whole rows cannot be converted in
// place.
func (r *columnResolver) recordWholeRow(s *scope, table []string) {
	if len(table) == 0 {
		if s.hasMapped() {
			r.problems.recordUnconvertible("A star within an expression reads whole rows.")
		}
		return
	}
	schema := ""
	if len(table) > 1 {
		schema = table[len(table)-2]
	}
	if it := s.findItem(schema, table[len(table)-1]); it != nil && anyMapped(it.columns) {
		r.problems.recordUnconvertible("A star within an expression reads whole rows.")
	}
}
