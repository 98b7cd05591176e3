package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// In INSERT ... SELECT, a constant or parameter may be a result column by itself. It gets the type of its
// target column, unless ORDER BY, DISTINCT or GROUP BY refers to the result column. It is text then, which a
// bytea column refuses.

// constants records what ORDER BY, DISTINCT, GROUP BY and windows of one query refer to.
type constants struct {
	query  *byte  // the address of the query's node
	wanted []bool // the target columns that are mapped
	// The clauses refer to all result columns, to columns by number or name, and to these parameters and constants.
	all     bool
	numbers map[int]bool
	names   map[string]bool
	grouped map[string]bool // names that refer to a result column unless a column of FROM has the name
	params  map[int]bool
	texts   map[string]bool
}

// constantsOf returns what ORDER BY, DISTINCT, GROUP BY and windows of a query refer to.
func constantsOf(query parse.Message, wanted []bool) *constants {
	c := &constants{query: &query.Wire[0], wanted: wanted, numbers: map[int]bool{}, names: map[string]bool{}, grouped: map[string]bool{},
		params: map[int]bool{}, texts: map[string]bool{}}
	for _, n := range query.Wrapped("distinct_clause") {
		if n.Kind().Shape == nil {
			c.all = true
		}
		c.by(n.Kind(), c.names)
	}
	for sort := range query.List("sort_clause") {
		c.by(sort.Child("node"), c.names)
	}
	for _, n := range query.Wrapped("group_clause") {
		c.by(n.Kind(), c.grouped)
	}
	for _, field := range []string{"target_list", "window_clause", "sort_clause"} {
		for _, n := range query.Wrapped(field) {
			c.windows(n.Kind())
		}
	}
	return c
}

// ordersConstant reports whether a window of a query refers to a constant or parameter.
func ordersConstant(query parse.Message) bool {
	c := constantsOf(query, nil)
	return len(c.params)+len(c.texts) > 0
}

// by records one key of an ORDER BY, DISTINCT, GROUP BY or window.
func (c *constants) by(node parse.Message, names map[string]bool) {
	switch node.Name() {
	case "A_Const":
		if ival := node.Child("ival"); ival.Shape != nil {
			c.numbers[ival.Integer("ival")] = true
		}
		c.texts[constantKey(node)] = true
	case "ParamRef":
		c.params[node.Integer("number")] = true
	case "ColumnRef":
		if fields := node.Names("fields"); len(fields) == 1 {
			names[fields[0]] = true
		}
	case "GroupingSet":
		for _, n := range node.Wrapped("content") {
			c.by(n.Kind(), names)
		}
	case "RowExpr":
		for _, n := range node.Wrapped("args") {
			c.by(n.Kind(), names)
		}
	}
}

// windows records the keys of windows. In these, numbers and names do not mean result columns.
func (c *constants) windows(node parse.Message) {
	if node.Shape == nil || node.Is("SelectStmt") {
		return
	}
	if node.Is("WindowDef") {
		within := &constants{numbers: map[int]bool{}, params: c.params, texts: c.texts}
		for _, n := range node.Wrapped("partition_clause") {
			within.by(n.Kind(), map[string]bool{})
		}
		for sort := range node.List("order_clause") {
			within.by(sort.Child("node"), map[string]bool{})
		}
	}
	for child := range node.Nodes() {
		c.windows(child)
	}
}

// constantKey returns a text that is equal for equal constants.
func constantKey(node parse.Message) string {
	if node.Flag("isnull") {
		return "NULL"
	}
	return "'" + node.Child("sval").Text("sval")
}

// freeConstant reports whether a result column is a constant or parameter that is written to a mapped column. No
// clause may refer to it. before is the number of result columns before it.
func (m *mapper) freeConstant(s *scope, query, value parse.Message, before int, name string) bool {
	c := m.constants
	if c == nil || c.query != &query.Wire[0] || before >= len(c.wanted) || !c.wanted[before] || !isUntyped(value) {
		return false
	}
	reached := c.all || c.numbers[before+1] || c.names[name]
	if c.grouped[name] && !reached {
		reached = true
		for level := s; level != nil; level = level.outer {
			reached = reached && len(level.named(name)) == 0
		}
	}
	if value.Is("ParamRef") {
		return !reached && !c.params[value.Integer("number")]
	}
	return !reached && !c.texts[constantKey(value)]
}
