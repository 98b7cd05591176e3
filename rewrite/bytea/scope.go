package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// scope is one level of a query, in which column names are resolved. outer is the enclosing level.
type scope struct {
	columnView
	outer *scope
	ctes  []cteTable
	// byName maps a column name to the indexes of the columns with that name. indexed is the number of columns in
	// byName.
	byName  map[string][]int
	indexed int
}

// columnView is the set of columns that one or several items of FROM provide.
type columnView struct {
	items []*fromItem
	// columns are the columns that an unqualified name may mean, in the order in which * lists them.
	columns []itemColumn
	unknown bool // there may be other columns
}

// fromItem is one item of a FROM clause with its name: a table, a query or a function.
type fromItem struct {
	schema, name string // schema is "" for an alias or an unknown table without schema
	columns      []itemColumn
	unknown      bool
}

// itemColumn is a column of an item of FROM, with the names for clients (name) and on the server (server).
type itemColumn struct {
	name, server string
	mapped       bool
	of           *fromItem // nil for a column that JOIN USING has merged
}

// hasMapped reports whether a column of the columnView is mapped.
func (v *columnView) hasMapped() bool { return anyMapped(v.columns) }

func anyMapped(columns []itemColumn) bool {
	for _, c := range columns {
		if c.mapped {
			return true
		}
	}
	return false
}

// union returns the union of two columnViews.
func (v columnView) union(w columnView) columnView {
	return columnView{
		items:   append(v.items[:len(v.items):len(v.items)], w.items...),
		columns: append(v.columns[:len(v.columns):len(v.columns)], w.columns...),
		unknown: v.unknown || w.unknown,
	}
}

// cteTable is a WITH query, with its name and its columns.
type cteTable struct {
	name string
	queryColumns
}

// queryColumns are the result columns of a query, which have the same names for clients and on the server.
type queryColumns struct {
	names   []string
	unknown bool // there may be other columns, or another order
	// digits contains the indexes of columns that already are hexadecimal digits of a mapped column.
	digits map[int]bool
}

// findCTE returns the WITH query with a name, from the innermost scope that has one.
func (s *scope) findCTE(name string) (cteTable, bool) {
	for ; s != nil; s = s.outer {
		for i := len(s.ctes) - 1; i >= 0; i-- {
			if s.ctes[i].name == name {
				return s.ctes[i], true
			}
		}
	}
	return cteTable{}, false
}

// columnIndexes returns the indexes of the columns with a name at this level of the query.
func (s *scope) columnIndexes(name string) []int {
	if s.byName == nil || s.indexed != len(s.columns) {
		s.byName, s.indexed = make(map[string][]int, len(s.columns)), len(s.columns)
		for i, c := range s.columns {
			s.byName[c.name] = append(s.byName[c.name], i)
		}
	}
	return s.byName[name]
}

// resolveColumn returns the column to which a column reference refers. ok reports whether the column is mapped.
func (m *queryMapper) resolveColumn(s *scope, ref parse.TreeNode) (c itemColumn, ok bool) {
	var names []string
	for field := range ref.List("fields") {
		if field.Is("A_Star") {
			m.recordWholeRow(s, names)
			return itemColumn{}, false
		}
		names = append(names, field.Text("sval"))
	}
	switch len(names) {
	case 1:
		return m.resolveUnqualified(s, names[0])
	case 2:
		return m.resolveQualified(s, "", names[0], names[1])
	case 3:
		return m.resolveQualified(s, names[0], names[1], names[2])
	case 4:
		return m.resolveQualified(s, names[1], names[2], names[3])
	}
	return itemColumn{}, false
}

// resolveUnqualified resolves an unqualified column name, one level of the query after the other, as PostgreSQL does.
func (m *queryMapper) resolveUnqualified(s *scope, name string) (itemColumn, bool) {
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
			m.draft.refuseAmbiguous(name)
			return itemColumn{}, false
		case perhaps:
			m.draft.refuse("The name " + parse.QuoteIdentIfNeeded(name) + " may belong to a function or a table whose columns are not known, or to a mapped column of a query around: write the table before it.")
			return itemColumn{}, false
		}
		return found, true
	}
	for level := s; level != nil; level = level.outer {
		for _, it := range level.items {
			if it.name == name {
				if anyMapped(it.columns) {
					m.draft.recordUnconvertible("The whole row of " + parse.QuoteIdentIfNeeded(name) + " is read.")
				}
				return itemColumn{}, false
			}
		}
	}
	return itemColumn{}, false
}

// resolveQualified resolves a column name that the text qualifies with a table's name.
func (m *queryMapper) resolveQualified(s *scope, schema, table, name string) (itemColumn, bool) {
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
		m.draft.refuseAmbiguous(name)
		return itemColumn{}, false
	}
	return found, found.mapped
}

// findItem returns the FROM item with a table's name, at the innermost level that has one, or nil.
func (s *scope) findItem(schema, table string) *fromItem {
	for ; s != nil; s = s.outer {
		for _, it := range s.items {
			if it.name == table && (schema == "" || it.schema == schema) {
				return it
			}
		}
	}
	return nil
}

// recordWholeRow records that an expression contains a star, such as t.*, and so reads whole rows.
func (m *queryMapper) recordWholeRow(s *scope, table []string) {
	if len(table) == 0 {
		if s.hasMapped() {
			m.draft.recordUnconvertible("A star within an expression reads whole rows.")
		}
		return
	}
	schema := ""
	if len(table) > 1 {
		schema = table[len(table)-2]
	}
	if it := s.findItem(schema, table[len(table)-1]); it != nil && anyMapped(it.columns) {
		m.draft.recordUnconvertible("A star within an expression reads whole rows.")
	}
}

// resolveRelation returns the columns of a table that the text names, as a columnView.
func (m *queryMapper) resolveRelation(node parse.TreeNode) columnView {
	schema, name := node.Text("schemaname"), node.Text("relname")
	it := &fromItem{schema: schema, name: name}
	rel, known := m.r.Names.FindRelation(schema, name)
	switch {
	case !known:
		m.draft.refuse("The search path is not known, so that nobody can tell which table the name " + parse.QuoteIdentIfNeeded(name) + " stands for.")
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

// applyAlias renames an item of FROM and its columns by an alias.
func (it *fromItem) applyAlias(alias parse.TreeNode) *fromItem {
	if alias.Shape != nil {
		it.schema, it.name = "", alias.Text("aliasname")
		for i, name := range alias.Names("colnames") {
			if i < len(it.columns) {
				it.columns[i].name, it.columns[i].server = name, name
			} else {
				it.columns = append(it.columns, itemColumn{name: name, server: name})
			}
		}
	}
	for i := range it.columns {
		it.columns[i].of = it
	}
	return it
}

func (it *fromItem) asView() columnView {
	return columnView{items: []*fromItem{it}, columns: it.columns, unknown: it.unknown}
}

// asItem returns an item of FROM with a name and the query's columns.
func (o queryColumns) asItem(name string) *fromItem {
	it := &fromItem{name: name, unknown: o.unknown}
	for _, n := range o.names {
		it.columns = append(it.columns, itemColumn{name: n, server: n})
	}
	return it
}
