package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// CHECKs, generated columns, DEFAULTs and index expressions refer to one relation and contain no query. The functions
// in this file make these expressions read mapped columns as bytea.

// around returns the expression of sample with operand instead of NULL.
func (d *ddl) around(sample parse.Message, operand parse.Value) parse.Value {
	made := parse.Converted(sample)
	d.meant.Replace(parse.Hole(made), parse.Message{Shape: made.Shape, Wire: operand.Bytes})
	return parse.Value{Bytes: made.Wire}
}

// readAsBytea makes the expressions in a field of node read a table's mapped columns as bytea.
func (d *ddl) readAsBytea(t *Table, node parse.Message, field string) {
	all := node.Values(field)
	changed := false
	for i, expr := range all {
		if made, ok := d.reads(t, parse.Message{Shape: node.Shape.Fields[node.Shape.Number(field)].Shape, Wire: expr.Bytes}); ok {
			all[i], changed = made, true
		}
	}
	if changed {
		d.meant.Set(node, field, all...)
	}
}

// reads makes an expression read mapped columns as bytea. If the expression itself is a mapped column, ok is
// true and made replaces it.
func (d *ddl) reads(t *Table, node parse.Message) (made parse.Value, ok bool) {
	expr := node.Inner()
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
	name, path := parse.LastName(expr)
	switch {
	case name == t.name && len(t.mapped) > 0 && !t.Maps(name), name == "" && len(t.mapped) > 0:
		d.refuse("An expression reads a whole row.")
		return parse.Value{}, false
	case !t.Maps(name):
		return parse.Value{}, false
	}
	ph, i := d.phrase(), d.token(expr.Integer("location"))
	if i < 0 {
		return parse.Value{}, false
	}
	last := ph.Qualified(i) - 1
	by := d.r.By
	d.before(i, by.toBytea.open)
	d.rewriteName(path, "sval", last, physicalName(name))
	d.behind(last, by.toBytea.close)
	return d.around(by.unhexed(), parse.Value{Bytes: node.Wire}), true
}

// wrap converts the expression in a field of node to hexadecimal digits, between the tokens first and last.
// Mapped columns in it are read as bytea.
func (d *ddl) wrap(t *Table, node parse.Message, field string, first, last int) {
	if last < first {
		d.refuse("The place of an expression was not found in the text.")
		return
	}
	by := d.r.By
	d.before(first, by.toHex.open)
	expr := node.Values(field)[0]
	if made, ok := d.reads(t, parse.Message{Shape: parse.Shapes()["Node"], Wire: expr.Bytes}); ok {
		expr = made
	}
	d.behind(last, by.toHex.close)
	d.meant.Set(node, field, d.around(by.hexed(), expr))
}
