package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// scope is one level of a query, in which names of columns are looked up: what its FROM
// has, then the levels around it.
type scope struct {
	view
	outer *scope
	ctes  []commonTable
	// byName has the columns by name, once it was needed for so many columns.
	byName  map[string][]int
	indexed int
}

// view is what an item of FROM shows, or several together.
type view struct {
	items []*item
	// columns are those that a name without table may mean, in the order of a star.
	columns []attribute
	unknown bool // there may be others
}

// item is a table, a query or a function of FROM by its name.
type item struct {
	schema, name string // schema is "" for what has an alias, or no schema in the text
	columns      []attribute
	unknown      bool
}

// attribute is a column of an item, as the text names it and as the server does.
type attribute struct {
	name, server string
	mapped       bool
	of           *item // nil for one that JOIN USING has merged
}

// Maps reports whether some column is mapped.
func (v *view) maps() bool { return mapsAny(v.columns) }

func mapsAny(columns []attribute) bool {
	for _, c := range columns {
		if c.mapped {
			return true
		}
	}
	return false
}

// and are two views side by side.
func (v view) and(w view) view {
	return view{
		items:   append(v.items[:len(v.items):len(v.items)], w.items...),
		columns: append(v.columns[:len(v.columns):len(v.columns)], w.columns...),
		unknown: v.unknown || w.unknown,
	}
}

// commonTable is a query of WITH.
type commonTable struct {
	name string
	outputs
}

// outputs are the names of a query's columns, which the server gives it as clients expect.
type outputs struct {
	names   []string
	unknown bool // there may be others, or they are not in this order
	// digits are those, by their place, that are digits of a mapped column already.
	digits map[int]bool
}

// common finds a query of WITH by its name.
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

// named are the columns of this level that have a name.
func (s *scope) named(name string) []int {
	if s.byName == nil || s.indexed != len(s.columns) {
		s.byName, s.indexed = make(map[string][]int, len(s.columns)), len(s.columns)
		for i, c := range s.columns {
			s.byName[c.name] = append(s.byName[c.name], i)
		}
	}
	return s.byName[name]
}

// column finds what a reference stands for; ok where that is a mapped column.
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

// unqualified finds a column by its name alone, as PostgreSQL does: level by level.
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

// ambiguous refuses a name that two tables have: under the server's names it would have one
// meaning.
func (m *mapper) ambiguous(name string) {
	if m.refusal == nil {
		m.refusal = &Refused{Code: "42702", Message: "column reference \"" + name + "\" is ambiguous",
			Hint: "Write the table before the column."}
	}
}

// qualified finds a column by its table's name too.
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

// item finds what a name of a table stands for at the innermost level that has it; nil for
// nothing.
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

// wholeRow notes a star in an expression, which reads whole rows.
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

// relation is the item that a table of the text is. alias is the node of its alias.
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

// called gives an item its alias, and those of its columns.
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

// natural is the item of a query's columns.
func (o outputs) item(name string) *item {
	it := &item{name: name, unknown: o.unknown}
	for _, n := range o.names {
		it.columns = append(it.columns, attribute{name: n, server: n})
	}
	return it
}
