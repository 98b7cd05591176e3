package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// The query of an INSERT may return a constant or parameter by itself. It has the type of the
// column that it is written to, unless ORDER BY, DISTINCT or GROUP BY reaches it: then it is
// text, which no bytea column takes.

// constants are those of one query.
type constants struct {
	query  *byte  // its node
	wanted []bool // the columns that are mapped
	// What the rows are sorted, grouped or told apart by: all columns, those with a number or a
	// name, and these parameters and constants.
	all     bool
	numbers map[int]bool
	names   map[string]bool
	grouped map[string]bool // unless a column of FROM has the name
	params  map[int]bool
	texts   map[string]bool
}

// constantsOf reads what sorts, groups or tells apart the rows of a query.
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

// ordersConstant reports whether a window of a query sorts by a constant or parameter.
func ordersConstant(query parse.Message) bool {
	c := constantsOf(query, nil)
	return len(c.params)+len(c.texts) > 0
}

// by notes one key.
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

// windows notes the keys of windows, which mean no output column by its number or name.
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

// constantKey is a constant as a key of what is equal to it.
func constantKey(node parse.Message) string {
	if node.Flag("isnull") {
		return "NULL"
	}
	return "'" + node.Child("sval").Text("sval")
}

// loose reports whether a target of a query is a constant or parameter by itself that is
// written to a mapped column; it has as many columns before it.
func (m *mapper) loose(s *scope, query, value parse.Message, before int, name string) bool {
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
