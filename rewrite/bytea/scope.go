package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// scope is one level of a query for the resolution of column names. outer is the enclosing level.
type scope struct {
	view
	outer *scope
	ctes  []commonTable
	// byName maps a name to the indexes of its columns. indexed is the number of columns in that map.
	byName  map[string][]int
	indexed int
}

// view is the set of columns that one or several items of FROM provide.
type view struct {
	items []*item
	// columns are those that an unqualified name may mean, in the order of a star.
	columns []attribute
	unknown bool // there may be other columns
}

// item is a table, query or function in FROM with its name.
type item struct {
	schema, name string // schema is "" for an alias or an unknown table without schema
	columns      []attribute
	unknown      bool
}

// attribute is a column of an item, with the names for clients (name) and on the server.
type attribute struct {
	name, server string
	mapped       bool
	of           *item // nil for a column that JOIN USING has merged
}

// maps reports whether a column of the view is mapped.
func (v *view) maps() bool { return mapsAny(v.columns) }

func mapsAny(columns []attribute) bool {
	for _, c := range columns {
		if c.mapped {
			return true
		}
	}
	return false
}

// and returns the union of two views.
func (v view) and(w view) view {
	return view{
		items:   append(v.items[:len(v.items):len(v.items)], w.items...),
		columns: append(v.columns[:len(v.columns):len(v.columns)], w.columns...),
		unknown: v.unknown || w.unknown,
	}
}

// commonTable is a WITH query.
type commonTable struct {
	name string
	outputs
}

// outputs are the result columns of a query, which have the same names on the server.
type outputs struct {
	names   []string
	unknown bool // there may be other columns, or another order
	// digits contains the indexes of columns that already are hexadecimal digits of a mapped column.
	digits map[int]bool
}

// common returns the WITH query with a name.
func (s *scope) common(name string) (commonTable, bool) {
	for ; s != nil; s = s.outer {
		for i := len(s.ctes) - 1; i >= 0; i-- {
			if s.ctes[i].name == name {
				return s.ctes[i], true
			}
		}
	}
	return commonTable{}, false
}

// named returns the indexes of this level's columns with a name.
func (s *scope) named(name string) []int {
	if s.byName == nil || s.indexed != len(s.columns) {
		s.byName, s.indexed = make(map[string][]int, len(s.columns)), len(s.columns)
		for i, c := range s.columns {
			s.byName[c.name] = append(s.byName[c.name], i)
		}
	}
	return s.byName[name]
}

// column resolves a column reference. ok reports whether it is a mapped column.
func (m *mapper) column(s *scope, ref parse.Message) (c attribute, ok bool) {
	var names []string
	for field := range ref.List("fields") {
		if field.Is("A_Star") {
			m.wholeRow(s, names)
			return attribute{}, false
		}
		names = append(names, field.Text("sval"))
	}
	switch len(names) {
	case 1:
		return m.unqualified(s, names[0])
	case 2:
		return m.qualified(s, "", names[0], names[1])
	case 3:
		return m.qualified(s, names[0], names[1], names[2])
	case 4:
		return m.qualified(s, names[1], names[2], names[3])
	}
	return attribute{}, false
}

// unqualified resolves an unqualified column name, level by level as PostgreSQL does.
func (m *mapper) unqualified(s *scope, name string) (attribute, bool) {
	perhaps := false
	for level := s; level != nil; level = level.outer {
		at := level.named(name)
		if len(at) == 0 {
			perhaps = perhaps || level.unknown
			continue
		}
		found := attribute{}
		for _, i := range at {
			if c := level.columns[i]; c.mapped || found.name == "" {
				found = c
			}
		}
		switch {
		case !found.mapped:
			return attribute{}, false
		case len(at) > 1:
			m.ambiguous(name)
			return attribute{}, false
		case perhaps:
			m.refuse("The name " + parse.Written(name) + " may belong to a function or a table whose columns are not known, or to a mapped column of a query around: write the table before it.")
			return attribute{}, false
		}
		return found, true
	}
	for level := s; level != nil; level = level.outer {
		for _, it := range level.items {
			if it.name == name {
				if mapsAny(it.columns) {
					m.cannot("The whole row of " + parse.Written(name) + " is read.")
				}
				return attribute{}, false
			}
		}
	}
	return attribute{}, false
}

// ambiguous refuses a name that two tables have. With the server's names the reference would not be ambiguous.
func (m *mapper) ambiguous(name string) {
	if m.refusal == nil {
		m.refusal = &Refused{Code: "42702", Message: "column reference \"" + name + "\" is ambiguous",
			Hint: "Write the table before the column."}
	}
}

// qualified resolves a column name with a table.
func (m *mapper) qualified(s *scope, schema, table, name string) (attribute, bool) {
	it := s.item(schema, table)
	if it == nil {
		return attribute{}, false
	}
	found, n := attribute{}, 0
	for _, c := range it.columns {
		if c.name == name {
			n++
			if c.mapped {
				found = c
			}
		}
	}
	if found.mapped && n > 1 {
		m.ambiguous(name)
		return attribute{}, false
	}
	return found, found.mapped
}

// item returns the item with a table's name at the innermost level that has one, or nil.
func (s *scope) item(schema, table string) *item {
	for ; s != nil; s = s.outer {
		for _, it := range s.items {
			if it.name == table && (schema == "" || it.schema == schema) {
				return it
			}
		}
	}
	return nil
}

// wholeRow records a star in an expression, which reads whole rows.
func (m *mapper) wholeRow(s *scope, table []string) {
	if len(table) == 0 {
		if s.maps() {
			m.cannot("A star within an expression reads whole rows.")
		}
		return
	}
	schema := ""
	if len(table) > 1 {
		schema = table[len(table)-2]
	}
	if it := s.item(schema, table[len(table)-1]); it != nil && mapsAny(it.columns) {
		m.cannot("A star within an expression reads whole rows.")
	}
}

// relation returns the view of a table in the text.
func (m *mapper) relation(node parse.Message) view {
	schema, name := node.Text("schemaname"), node.Text("relname")
	it := &item{schema: schema, name: name}
	rel, known := m.r.Names.Find(schema, name)
	switch {
	case !known:
		m.refuse("The search path is not known, so that nobody can tell which table the name " + parse.Written(name) + " stands for.")
		it.unknown = true
	case rel == nil:
		it.unknown = true
	default:
		if it.schema == "" {
			it.schema = rel.Schema
		}
		for _, c := range rel.Columns {
			it.columns = append(it.columns, attribute{name: c.Name, server: c.Physical(), mapped: c.Mapped})
		}
	}
	return it.called(node.Child("alias")).view()
}

// called renames an item and its columns by an alias.
func (it *item) called(alias parse.Message) *item {
	if alias.Shape != nil {
		it.schema, it.name = "", alias.Text("aliasname")
		for i, name := range alias.Names("colnames") {
			if i < len(it.columns) {
				it.columns[i].name, it.columns[i].server = name, name
			} else {
				it.columns = append(it.columns, attribute{name: name, server: name})
			}
		}
	}
	for i := range it.columns {
		it.columns[i].of = it
	}
	return it
}

func (it *item) view() view {
	return view{items: []*item{it}, columns: it.columns, unknown: it.unknown}
}

// item returns an item with the query's columns.
func (o outputs) item(name string) *item {
	it := &item{name: name, unknown: o.unknown}
	for _, n := range o.names {
		it.columns = append(it.columns, attribute{name: n, server: n})
	}
	return it
}
