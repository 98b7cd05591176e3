package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// scope is one level of a query. Sluice resolves a column name in this level, and then in outer, the enclosing level.
type scope struct {
	columnView
	outer *scope
	ctes  []cteTable
	// byName maps a column name to the indexes of the columns of that name. indexed is the number of columns that
	// byName covers.
	byName  map[string][]int
	indexed int
}

// columnView is the set of columns that one or several items of FROM provide to a query.
type columnView struct {
	items []*fromItem
	// columns are the columns that an unqualified name may mean, in the order in which * lists them.
	columns []itemColumn
	unknown bool // the items may have more columns than columns has
}

// fromItem is one item of a FROM clause, with its name: a table, a query or a function.
type fromItem struct {
	schema, name string // schema is "" for an alias, and for an unknown table that the text writes without a schema
	columns      []itemColumn
	unknown      bool
}

// itemColumn is a column of an item of FROM. name is its name for clients, and server its name on the server.
type itemColumn struct {
	name, server string
	mapped       bool
	of           *fromItem // nil for a column that JOIN USING has merged
}

// hasMapped reports whether a column of the columnView is mapped (bytea stored as text).
func (v *columnView) hasMapped() bool { return anyMapped(v.columns) }

func anyMapped(columns []itemColumn) bool {
	for _, c := range columns {
		if c.mapped {
			return true
		}
	}
	return false
}

// union returns a columnView with the columns of v and w. It may share their slices.
func (v columnView) union(w columnView) columnView {
	if len(v.items) == 0 {
		w.unknown = w.unknown || v.unknown
		return w
	}
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

// queryColumns are the result columns of a query. They have the same names for clients and on the server.
type queryColumns struct {
	names   []string
	unknown bool // the query may have more columns, or another order of them
	// digits contains the indexes of columns that return the hexadecimal digits of a mapped column (bytea stored as
	// text).
	digits map[int]bool
}

// findCTE returns the WITH query of this name, from the innermost scope that has one.
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

// columnIndexes returns the indexes of the columns of this name at this level of the query.
func (s *scope) columnIndexes(name string) []int {
	if s.byName == nil || s.indexed != len(s.columns) {
		s.byName, s.indexed = make(map[string][]int, len(s.columns)), len(s.columns)
		for i, c := range s.columns {
			s.byName[c.name] = append(s.byName[c.name], i)
		}
	}
	return s.byName[name]
}

// findItem returns the FROM item that a table's name means. It is from the innermost level that has one, or nil.
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

// applyAlias gives an item of FROM and its columns the names in an alias clause.
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

// asItem returns the query's columns as an item of FROM with this name.
func (o queryColumns) asItem(name string) *fromItem {
	it := &fromItem{name: name, unknown: o.unknown}
	for _, n := range o.names {
		it.columns = append(it.columns, itemColumn{name: n, server: n})
	}
	return it
}

// resolveStar returns the columns that a star means. known is false if the star may mean further columns.
func (s *scope) resolveStar(ref parse.TreeNode) (columns []itemColumn, known bool) {
	names := ref.Names("fields")
	if len(names) == 0 {
		return s.columns, !s.unknown
	}
	schema := ""
	if len(names) > 1 {
		schema = names[len(names)-2]
	}
	it := s.findItem(schema, names[len(names)-1])
	if it == nil {
		return nil, false
	}
	return it.columns, !it.unknown
}

// knownStarColumns returns the columns that a star means. It returns nil if the star may mean further columns, or if
// node is no star.
func (s *scope) knownStarColumns(node parse.TreeNode) []itemColumn {
	if !isStar(node) {
		return nil
	}
	columns, known := s.resolveStar(node)
	if !known {
		return nil
	}
	return columns
}

// resolveRowField returns the column k that an expression such as (t).k means.
func (s *scope) resolveRowField(node parse.TreeNode) (itemColumn, bool) {
	row, field := node.Child("arg"), node.Child("indirection")
	if !row.Is("ColumnRef") || !field.Is("String") || len(node.Values("indirection")) != 1 {
		return itemColumn{}, false
	}
	names := row.Names("fields")
	if len(names) != 1 {
		return itemColumn{}, false
	}
	for level := s; level != nil; level = level.outer {
		if len(level.columnIndexes(names[0])) > 0 {
			return itemColumn{}, false
		}
	}
	it := s.findItem("", names[0])
	if it == nil {
		return itemColumn{}, false
	}
	for _, c := range it.columns {
		if c.name == field.Text("sval") {
			return c, true
		}
	}
	return itemColumn{}, false
}
