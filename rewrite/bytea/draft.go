package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// draft is the rewritten form of one statement while it is made: edits of its text, and changes of its tree.
type draft struct {
	spanFinder
	diagnostics
	edits []parse.Edit
	meant parse.TreeChanges
}

// newDraft returns a draft without edits, for the statement from start to end of the text.
func (m *Mapping) newDraft(start, end int) draft {
	return draft{spanFinder: newSpanFinder(m.Tokens.StatementTokens(m.Text, start, end)), meant: parse.TreeChanges{}}
}

// replaceTokens replaces the tokens first to last by text.
func (d *draft) replaceTokens(first, last int, text string) {
	if first < 0 || last < first || last >= len(d.Tokens) {
		d.recordPositionLost()
		return
	}
	d.edits = append(d.edits, parse.Edit{Start: int(d.Tokens[first].Start), End: int(d.Tokens[last].End), Text: text})
}

// insertBefore inserts text before token i of the statement.
func (d *draft) insertBefore(i int, text string) {
	if i < 0 || i >= len(d.Tokens) {
		d.recordPositionLost()
		return
	}
	at := int(d.Tokens[i].Start)
	d.edits = append(d.edits, parse.Edit{Start: at, End: at, Text: text})
}

// insertAfter inserts text after token i of the statement.
func (d *draft) insertAfter(i int, text string) {
	if i < 0 || i >= len(d.Tokens) {
		d.recordPositionLost()
		return
	}
	at := int(d.Tokens[i].End)
	d.edits = append(d.edits, parse.Edit{Start: at, End: at, Text: text})
}

// renameField replaces token i by name, and records the new value of the node's field.
func (d *draft) renameField(node parse.TreeNode, field string, i int, name string) {
	d.replaceTokens(i, i, parse.QuoteIdentIfNeeded(name))
	d.meant.Set(node, field, parse.Value{Bytes: []byte(name)})
}

// parseSQL returns the tree of a query whose text Sluice made. The result is absent if the query has a syntax error.
func (d *draft) parseSQL(sql string) parse.TreeNode {
	tree, err := parse.Tree(sql)
	if err != nil {
		d.recordPositionLost()
		return parse.TreeNode{}
	}
	return tree.Child("stmts").Child("stmt")
}

// diagnostics are the reasons why a draft is of no use. Only the first reason of each kind is recorded.
type diagnostics struct {
	refusal *RefusalError
	// unconverted is the reason why columns cannot be converted in place. A query that only reads may still be rewritten
	// by a tableDeriver.
	unconverted string
}

// refuse sets the refusal of the statement, with detail as the reason, unless a refusal is set.
func (d *diagnostics) refuse(detail string) {
	if d.refusal == nil {
		d.refusal = NewRefusalError(detail)
	}
}

// refuseAmbiguous refuses a column name that two tables have, because the reference would not be ambiguous with the
// server's column names.
func (d *diagnostics) refuseAmbiguous(name string) {
	if d.refusal == nil {
		d.refusal = &RefusalError{Code: "42702", Message: "column reference \"" + name + "\" is ambiguous",
			Hint: "Write the table before the column."}
	}
}

// recordUnconvertible records why columns cannot be converted in place, unless a reason is set.
func (d *diagnostics) recordUnconvertible(detail string) {
	if d.unconverted == "" {
		d.unconverted = detail
	}
}

// recordPositionLost records that a token was not found, so that columns cannot be converted in place.
func (d *diagnostics) recordPositionLost() {
	d.recordUnconvertible("The place of a name or a value was not found in the text.")
}

// recordUnknownNode records a node of an unknown kind as unconvertible if it may read a column.
func (d *diagnostics) recordUnknownNode(node parse.TreeNode) {
	if containsColumnOrQuery(node) {
		d.recordUnconvertible("An expression of the kind " + node.TypeName() + " is not rewritten.")
	}
}

// containsColumnOrQuery reports whether a tree contains a column reference or a query.
func containsColumnOrQuery(node parse.TreeNode) bool {
	if node.Shape == nil {
		return false
	}
	switch node.TypeName() {
	case "ColumnRef", "RangeVar", "SelectStmt":
		return true
	}
	for child := range node.Children() {
		if child.Shape != nil && containsColumnOrQuery(child) {
			return true
		}
	}
	return false
}
