package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// In INSERT ... SELECT, a result column may be only a constant or a parameter. The column gets the type of its target
// column, unless ORDER BY, DISTINCT or GROUP BY refers to it. In that case it has the type text, and the server refuses
// text for a bytea column.

// constantRefs records to which result columns and constants ORDER BY, DISTINCT, GROUP BY and windows of one query
// refer.
type constantRefs struct {
	query  *byte  // the address of the query's node, which identifies the query
	wanted []bool // for each target column, whether it is mapped (bytea stored as text)
	// The clauses refer to all result columns (all), to result columns by these numbers and names, and to these
	// parameters and constants.
	all     bool
	numbers map[int]bool
	names   map[string]bool
	grouped map[string]bool // names that mean a result column if no column of FROM has the name
	params  map[int]bool
	texts   map[string]bool
}

// collectConstantRefs returns the constantRefs of a query: to what its ORDER BY, DISTINCT, GROUP BY and windows refer.
func collectConstantRefs(query parse.TreeNode, wanted []bool) *constantRefs {
	c := &constantRefs{query: &query.Wire[0], wanted: wanted, numbers: map[int]bool{}, names: map[string]bool{}, grouped: map[string]bool{},
		params: map[int]bool{}, texts: map[string]bool{}}
	for _, n := range query.WrappedNodes("distinct_clause") {
		if n.NodeContent().Shape == nil {
			c.all = true
		}
		c.recordKey(n.NodeContent(), c.names)
	}
	for sort := range query.List("sort_clause") {
		c.recordKey(sort.Child("node"), c.names)
	}
	for _, n := range query.WrappedNodes("group_clause") {
		c.recordKey(n.NodeContent(), c.grouped)
	}
	for _, field := range []string{"target_list", "window_clause", "sort_clause"} {
		for _, n := range query.WrappedNodes(field) {
			c.recordWindows(n.NodeContent())
		}
	}
	return c
}

// windowUsesConstant reports whether a window of a query refers to a constant or parameter.
func windowUsesConstant(query parse.TreeNode) bool {
	c := collectConstantRefs(query, nil)
	return len(c.params)+len(c.texts) > 0
}

// recordKey records one key of an ORDER BY, DISTINCT, GROUP BY or window. It records a column's name in names.
func (c *constantRefs) recordKey(node parse.TreeNode, names map[string]bool) {
	switch node.TypeName() {
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
		for _, n := range node.WrappedNodes("content") {
			c.recordKey(n.NodeContent(), names)
		}
	case "RowExpr":
		for _, n := range node.WrappedNodes("args") {
			c.recordKey(n.NodeContent(), names)
		}
	}
}

// recordWindows records the keys of all windows under node. In a window, a number or a name does not mean a result
// column.
func (c *constantRefs) recordWindows(node parse.TreeNode) {
	if node.Shape == nil || node.Is("SelectStmt") {
		return
	}
	if node.Is("WindowDef") {
		within := &constantRefs{numbers: map[int]bool{}, params: c.params, texts: c.texts}
		for _, n := range node.WrappedNodes("partition_clause") {
			within.recordKey(n.NodeContent(), map[string]bool{})
		}
		for sort := range node.List("order_clause") {
			within.recordKey(sort.Child("node"), map[string]bool{})
		}
	}
	for child := range node.Children() {
		c.recordWindows(child)
	}
}

// constantKey returns a text that identifies a constant. Equal constants have the same text.
func constantKey(node parse.TreeNode) string {
	if node.Flag("isnull") {
		return "NULL"
	}
	return "'" + node.Child("sval").Text("sval")
}

// isUnreferencedConstant reports whether value, a result column, is a constant or parameter for a mapped column (bytea
// stored as text). No clause may refer to the result column. before is the number of result columns before it.
func (c *constantRefs) isUnreferencedConstant(s *scope, query, value parse.TreeNode, before int, name string) bool {
	if c == nil || c.query != &query.Wire[0] || before >= len(c.wanted) || !c.wanted[before] || !isUntyped(value) {
		return false
	}
	reached := c.all || c.numbers[before+1] || c.names[name]
	if c.grouped[name] && !reached {
		reached = true
		for level := s; level != nil; level = level.outer {
			reached = reached && len(level.columnIndexes(name)) == 0
		}
	}
	if value.Is("ParamRef") {
		return !reached && !c.params[value.Integer("number")]
	}
	return !reached && !c.texts[constantKey(value)]
}
