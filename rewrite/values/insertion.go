package values

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// Insertion is an INSERT ... VALUES that Sluice can repeat with the values that the server generated in the first run
// (WithFirstRun). The repeated INSERT then inserts the same rows. It may also get the time of the first transaction.
type Insertion struct {
	// Rows is the number of inserted rows. Width is the number of columns in RETURNING, or 0 without RETURNING.
	Rows, Width int

	sql      string
	names    *schema.NameResolver
	node     parse.TreeNode
	relation *schema.Relation
	ph       parse.TokenList
	pairs    []int32
	// returned maps each column of the relation to its index in the result of RETURNING, or to -1.
	returned []int
	// listed are the indexes, in the relation, of the columns that the INSERT lists, in the order of the INSERT.
	listed []int
	list   int         // the token index of the column list's opening parenthesis; -1 without a list
	head   int         // the token index of VALUES or DEFAULT
	rows   []int       // the token index of each row's opening parenthesis; empty for DEFAULT VALUES
	items  [][]rowItem // the items of each row
	system bool        // the INSERT says OVERRIDING SYSTEM VALUE
	// returnsExpression means that RETURNING has an expression other than a column.
	returnsExpression bool
	withs             []string // the names of WITH queries in the enclosing statement
}

// rowItem is one item of a row in VALUES, from token first to token last. fill means that the server generates the
// value, by DEFAULT or a call such as nextval. period is the item's text if the item is a time such as now(), otherwise
// "".
type rowItem struct {
	first, last int
	fill        bool
	period      string
}

// ParseInsertion returns the Insertion of a text, or nil if the text is no INSERT that Sluice can repeat. Sluice cannot
// repeat ON CONFLICT DO UPDATE, INSERT ... SELECT, WITH and OVERRIDING USER VALUE.
func ParseInsertion(p *rewrite.Planner, sql string, names *schema.NameResolver) *Insertion {
	return parseInsertion(p, sql, names, false)
}

// parseInsertion does the work of ParseInsertion. updates says that ON CONFLICT DO UPDATE is allowed, too.
func parseInsertion(p *rewrite.Planner, sql string, names *schema.NameResolver, updates bool) *Insertion {
	statements := p.StatementTrees(sql)
	if names == nil || len(statements) != 1 || !statements[0].Is("InsertStmt") {
		return nil
	}
	node := statements[0]
	name := node.Child("relation")
	query := node.Child("select_stmt")
	conflict := node.Child("on_conflict_clause")
	switch {
	case node.Has("with_clause"), name.Text("catalogname") != "":
		return nil
	case !updates && conflict.Shape != nil && parse.OnConflictAction(conflict.Integer("action")) != parse.ONCONFLICT_NOTHING:
		return nil
	case parse.OverridingKind(node.Integer("override")) == parse.OVERRIDING_USER_VALUE:
		return nil
	case query.Shape != nil && query.Has("from_clause"):
		if text := unrollInsertSelect(sql, node); text != "" {
			return parseInsertion(p, text, names, updates)
		}
		return nil
	case query.Shape != nil && (!query.Has("values_lists") || query.Has("with_clause", "sort_clause", "limit_offset", "limit_count", "locking_clause")):
		return nil
	}
	in := &Insertion{sql: sql, names: names, node: node, ph: parse.LexTokens([]byte(sql), 0, len(sql)), list: -1}
	in.pairs = in.ph.BracketPairs()
	in.system = parse.OverridingKind(node.Integer("override")) == parse.OVERRIDING_SYSTEM_VALUE
	if in.relation, _ = names.FindRelation(name.Text("schemaname"), name.Text("relname")); in.relation == nil {
		return nil
	}
	if !in.readReturning(node, name) || !in.readColumnList(node) || !in.readRows(query) {
		return nil
	}
	return in
}

// ResolvesSame reports whether names finds the same relation with the same columns for the INSERT. The relation is
// another one if it was dropped and created again.
func (in *Insertion) ResolvesSame(names *schema.NameResolver) bool {
	name := in.node.Child("relation")
	r, _ := names.FindRelation(name.Text("schemaname"), name.Text("relname"))
	return r != nil && r.ID == in.relation.ID && slices.Equal(r.Columns, in.relation.Columns)
}

// readReturning sets the field returned from RETURNING. It returns false if the number of returned columns is unknown.
func (in *Insertion) readReturning(node, name parse.TreeNode) bool {
	called, alias := name.Text("relname"), name.Child("alias")
	if alias.Shape != nil {
		called = alias.Text("aliasname")
	}
	in.returned = make([]int, len(in.relation.Columns))
	for i := range in.returned {
		in.returned[i] = -1
	}
	for target := range node.List("returning_list") {
		ref := target.Child("val")
		parts, star := in.referenceNames(ref)
		if len(parts) == 3 && alias.Shape == nil && parts[0] == in.relation.Schema {
			parts = parts[1:]
		}
		if len(parts) == 2 && parts[0] == called {
			parts = parts[1:]
		}
		i := -1
		if len(parts) == 1 {
			i = in.columnIndex(parts[0])
		}
		switch {
		case star && len(parts) == 1:
			for i := range in.relation.Columns {
				in.returned[i] = in.Width
				in.Width++
			}
			continue
		case mayBeSeveralColumns(ref, 0):
			return false
		case i >= 0:
			in.returned[i] = in.Width
		default:
			in.returnsExpression = true
		}
		in.Width++
	}
	return true
}

// referenceNames returns the names in a column reference, with "" in place of a star. It returns nil for any other
// expression.
func (in *Insertion) referenceNames(n parse.TreeNode) (parts []string, star bool) {
	if !n.Is("ColumnRef") {
		return nil, false
	}
	for field := range n.List("fields") {
		if star = field.Is("A_Star"); star {
			parts = append(parts, "")
		} else {
			parts = append(parts, field.Text("sval"))
		}
	}
	return parts, star
}

// columnIndex returns the index of a column in the relation, or -1 if the relation does not have the column.
func (in *Insertion) columnIndex(name string) int {
	return slices.IndexFunc(in.relation.Columns, func(c schema.Column) bool { return c.Name == name })
}

// readColumnList reads the INSERT's column list, and sets head to the token after it. It returns false if it cannot.
func (in *Insertion) readColumnList(node parse.TreeNode) bool {
	i := in.ph.TokenAt(node.Child("relation").Integer("location"))
	if i < 0 {
		return false
	}
	if i = in.ph.AfterQualifiedName(i); in.ph.IsKeyword(i, "as") {
		i += 2
	}
	if node.Has("cols") {
		for col := range node.List("cols") {
			at := in.columnIndex(col.Text("name"))
			if at < 0 || col.Has("indirection") || slices.Contains(in.listed, at) {
				return false
			}
			in.listed = append(in.listed, at)
		}
		if in.list = i; !in.ph.IsPunct(i, '(') || in.pairs[i] < 0 {
			return false
		}
		i = int(in.pairs[i]) + 1
	}
	if in.ph.IsKeyword(i, "overriding") {
		i += 3
	}
	in.head = i
	return true
}

// readRows reads the items of each row in VALUES. It returns false if it cannot, or if a row does not fit the columns.
func (in *Insertion) readRows(query parse.TreeNode) bool {
	if query.Shape == nil {
		in.Rows = 1
		return in.list < 0 && in.ph.AreKeywords(in.head, "default", "values")
	}
	if !in.ph.IsKeyword(in.head, "values") {
		return false
	}
	open := in.head + 1
	for row := range query.List("values_lists") {
		spans := in.parenItems(open)
		nodes := row.WrappedNodes("items")
		if spans == nil || len(spans) != len(nodes) {
			return false
		}
		for i, n := range nodes {
			spans[i].fill, spans[i].period = isGeneratedItem(n.NodeContent()), txTimeItemText(&in.ph, spans[i], n.NodeContent())
		}
		in.rows, in.items = append(in.rows, open), append(in.items, spans)
		open = int(in.pairs[open]) + 2
	}
	in.Rows = len(in.rows)
	if in.list < 0 { // an INSERT without a column list sets as many leading columns as a row has items
		for i := range in.items[0] {
			in.listed = append(in.listed, i)
		}
	}
	return len(in.listed) <= len(in.relation.Columns) &&
		!slices.ContainsFunc(in.items, func(row []rowItem) bool { return len(row) != len(in.listed) })
}

// parenItems returns the items between the parenthesis at token open and its closing one, or nil if there is no pair.
func (in *Insertion) parenItems(open int) []rowItem {
	if !in.ph.IsPunct(open, '(') || in.pairs[open] < 0 {
		return nil
	}
	return in.itemsBetween(open+1, int(in.pairs[open]))
}

// itemsBetween returns the items of a list between token first and token end, or nil if a parenthesis does not close.
func (in *Insertion) itemsBetween(first, end int) (all []rowItem) {
	for i := first; i <= end; i++ {
		switch {
		case i == end, in.ph.IsPunct(i, ','):
			all = append(all, rowItem{first: first, last: i - 1})
			first = i + 1
		case in.ph.IsPunct(i, '('), in.ph.IsPunct(i, '['):
			if i = int(in.pairs[i]); i < 0 {
				return nil
			}
		}
	}
	return all
}

// isGeneratedItem reports whether the server generates a unique value for an item: DEFAULT, or a call like nextval.
func isGeneratedItem(n parse.TreeNode) bool {
	if n.Is("TypeCast") {
		n = n.Child("arg")
	}
	switch n.TypeName() {
	case "SetToDefault":
		return true
	case "FuncCall":
		names := n.Names("funcname")
		return len(names) > 0 && parse.UniqueValueFuncs[names[len(names)-1]]
	}
	return false
}

// txTimeItemText returns the text of an item that is exactly the transaction's time, as the server spells it: for
// example now(). It returns "" for any other item.
func txTimeItemText(p *parse.TokenList, it rowItem, n parse.TreeNode) string {
	if !isTxTimeExpr(n) {
		return ""
	}
	_, last := txTimeEdit(p, it.first, "")
	switch {
	case last != it.last: // the name has a schema, or the item is in parentheses
		return ""
	case n.Is("FuncCall"):
		return strings.ToLower(string(p.Lexeme(it.first))) + "()"
	}
	return strings.ToUpper(string(p.Text[p.Tokens[it.first].Start:p.Tokens[it.last].End]))
}
