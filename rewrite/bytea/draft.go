package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// draft collects the edits of one statement's text, and the changes of its tree that the edits make.
type draft struct {
	spanFinder
	diagnostics
	edits []parse.Edit
	meant parse.TreeChanges
}

// newDraft returns an empty draft for the statement between the byte offsets start and end of the text.
func (m *Mapping) newDraft(start, end int) draft {
	return draft{spanFinder: newSpanFinder(m.Tokens.StatementTokens(m.Text, start, end)), meant: parse.TreeChanges{}}
}

// replaceTokens records the edit that replaces the tokens from first to last by text.
func (d *draft) replaceTokens(first, last int, text string) {
	if first < 0 || last < first || last >= len(d.Tokens) {
		d.recordPositionLost()
		return
	}
	d.edits = append(d.edits, parse.Edit{Start: int(d.Tokens[first].Start), End: int(d.Tokens[last].End), Text: text})
}

// insertBefore records the edit that inserts text before token i of the statement.
func (d *draft) insertBefore(i int, text string) {
	if i < 0 || i >= len(d.Tokens) {
		d.recordPositionLost()
		return
	}
	at := int(d.Tokens[i].Start)
	d.edits = append(d.edits, parse.Edit{Start: at, End: at, Text: text})
}

// insertAfter records the edit that inserts text after token i of the statement.
func (d *draft) insertAfter(i int, text string) {
	if i < 0 || i >= len(d.Tokens) {
		d.recordPositionLost()
		return
	}
	at := int(d.Tokens[i].End)
	d.edits = append(d.edits, parse.Edit{Start: at, End: at, Text: text})
}

// renameField records the edit that replaces token i by name. It also records name as the new value of the node's
// field.
func (d *draft) renameField(node parse.TreeNode, field string, i int, name string) {
	d.replaceTokens(i, i, parse.QuoteIdentIfNeeded(name))
	d.meant.Set(node, field, parse.Value{Bytes: []byte(name)})
}

// parseSQL returns the tree of SQL that Sluice made. If the SQL has a syntax error, the result is absent.
func (d *draft) parseSQL(sql string) parse.TreeNode {
	tree, err := parse.Tree(sql)
	if err != nil {
		d.recordPositionLost()
		return parse.TreeNode{}
	}
	return tree.Child("stmts").Child("stmt")
}

// diagnostics has the reasons why Sluice cannot use a draft. It records only the first reason of each kind.
type diagnostics struct {
	refusal *RefusalError
	// unconverted is the reason why columns cannot be converted in place, or "". If the query only reads, a
	// tableDeriver may still rewrite it.
	unconverted string
}

// refuse sets the refusal of the statement, with detail as the reason. An earlier refusal stays.
func (d *diagnostics) refuse(detail string) {
	if d.refusal == nil {
		d.refusal = NewRefusalError(detail)
	}
}

// refuseAmbiguous refuses a column name that two tables have. The server would not find the name ambiguous, because the
// server's columns have other names.
func (d *diagnostics) refuseAmbiguous(name string) {
	if d.refusal == nil {
		d.refusal = &RefusalError{Code: "42702", Message: "column reference \"" + name + "\" is ambiguous",
			Hint: "Write the table before the column."}
	}
}

// recordUnconvertible records why columns cannot be converted in place. An earlier reason stays.
func (d *diagnostics) recordUnconvertible(detail string) {
	if d.unconverted == "" {
		d.unconverted = detail
	}
}

// recordPositionLost records that Sluice did not find a token, so that columns cannot be converted in place.
func (d *diagnostics) recordPositionLost() {
	d.recordUnconvertible("The place of a name or a value was not found in the text.")
}

// recordUnknownNode records that Sluice cannot convert columns in a node of an unknown kind. It does so only if the
// node may read a column.
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
