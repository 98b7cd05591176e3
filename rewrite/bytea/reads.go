package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// CHECKs, generated columns, DEFAULTs and index expressions refer to one table and contain no query. The functions in
// this file change these expressions so that they read mapped columns (bytea stored as text) as bytea.

// wrapOperand returns the expression in the sample tree, with operand in place of the sample's NULL.
func (d *ddlMapper) wrapOperand(sample parse.TreeNode, operand parse.Value) parse.Value {
	made := parse.SampleExpression(sample)
	d.meant.ReplaceContent(parse.NullPlaceholder(made), parse.TreeNode{Shape: made.Shape, Wire: operand.Bytes})
	return parse.Value{Bytes: made.Wire}
}

// readAsBytea changes the expressions in a field of node so that they read mapped columns (bytea stored as text) as
// bytea.
func (d *ddlMapper) readAsBytea(t *MappedTable, node parse.TreeNode, field string) {
	all := node.Values(field)
	changed := false
	for i, expr := range all {
		if made, ok := d.readExpression(t, parse.TreeNode{Shape: node.Shape.Fields[node.Shape.FieldNumber(field)].Shape, Wire: expr.Bytes}); ok {
			all[i], changed = made, true
		}
	}
	if changed {
		d.meant.Set(node, field, all...)
	}
}

// readExpression changes an expression so that it reads mapped columns (bytea stored as text) as bytea. If the
// expression itself is a mapped column, ok is true, and the caller must replace it by made.
func (d *ddlMapper) readExpression(t *MappedTable, node parse.TreeNode) (made parse.Value, ok bool) {
	expr := node.UnwrapNode()
	if expr.Shape == nil {
		return parse.Value{}, false
	}
	if !expr.Is("ColumnRef") {
		for _, f := range expr.Shape.Fields {
			if f.Shape != nil {
				d.readAsBytea(t, expr, f.Name)
			}
		}
		return parse.Value{}, false
	}
	name, path := parse.LastRefName(expr)
	switch {
	case name == t.name && len(t.mapped) > 0 && !t.IsMapped(name), name == "" && len(t.mapped) > 0:
		d.refuse("An expression reads a whole row.")
		return parse.Value{}, false
	case !t.IsMapped(name):
		return parse.Value{}, false
	}
	ph, i := d.statementTokens(), d.tokenAt(expr.Integer("location"))
	if i < 0 {
		return parse.Value{}, false
	}
	last := ph.AfterQualifiedName(i) - 1
	by := d.r.By
	d.insertBefore(i, by.toBytea.open)
	d.rewriteName(path, "sval", last, physicalName(name))
	d.insertAfter(last, by.toBytea.close)
	return d.wrapOperand(by.byteaTree(), parse.Value{Bytes: node.Wire}), true
}

// convertToDigits converts the expression in a field of node, between the tokens first and last, to hexadecimal digits.
// The expression then reads mapped columns (bytea stored as text) as bytea.
func (d *ddlMapper) convertToDigits(t *MappedTable, node parse.TreeNode, field string, first, last int) {
	if last < first {
		d.refuse("The place of an expression was not found in the text.")
		return
	}
	by := d.r.By
	d.insertBefore(first, by.toHex.open)
	expr := node.Values(field)[0]
	if made, ok := d.readExpression(t, parse.TreeNode{Shape: parse.NodeTypes()["Node"], Wire: expr.Bytes}); ok {
		expr = made
	}
	d.insertAfter(last, by.toHex.close)
	d.meant.Set(node, field, d.wrapOperand(by.hexTree(), expr))
}
