package rewrite

// What a table's own definition computes (CHECK, generated columns, DEFAULT, expressions and
// predicates of indexes) reads one relation only and holds no query. Here such an expression
// reads mapped columns as the bytea that they stand for.

// around is the expression of a sample with a Node in the place of NULL.
func (d *ddl) around(sample message, operand value) value {
	made := converted(sample)
	d.r.meant.replace(hole(made), message{made.shape, operand.bytes})
	return value{bytes: made.wire}
}

// natural has the expressions in a field of a node read a table's mapped columns as bytea.
func (d *ddl) natural(t *table, node message, field string) {
	all := node.values(field)
	changed := false
	for i, expr := range all {
		if made, ok := d.reads(t, message{node.shape.fields[node.shape.number(field)].shape, expr.bytes}); ok {
			all[i], changed = made, true
		}
	}
	if changed {
		d.r.meant.set(node, field, all...)
	}
}

// reads makes an expression read mapped columns as bytea; ok where it is one itself, and
// another expression stands in its place.
func (d *ddl) reads(t *table, node message) (made value, ok bool) {
	expr := node.inner()
	if expr.shape == nil {
		return value{}, false
	}
	if !expr.is("ColumnRef") {
		for _, f := range expr.shape.fields {
			if f.shape != nil {
				d.natural(t, expr, f.name)
			}
		}
		return value{}, false
	}
	name, path := column(expr)
	switch {
	case name == t.name && len(t.mapped) > 0 && !t.maps(name), name == "" && len(t.mapped) > 0:
		d.refuse("An expression reads a whole row.")
		return value{}, false
	case !t.maps(name):
		return value{}, false
	}
	ph, i := d.phrase(), d.token(expr.integer("location"))
	if i < 0 {
		return value{}, false
	}
	last := ph.qualified(i) - 1
	by := d.r.conversion()
	d.before(i, by.toBytea.open)
	d.rewriteName(path, "sval", last, physicalName(name))
	d.behind(last, by.toBytea.close)
	return d.around(by.unhexed(), value{bytes: node.wire}), true
}

// column is the last name of a reference, with its node; "" where that is a star.
func column(ref message) (name string, node message) {
	for field := range ref.list("fields") {
		node = field
	}
	if !node.is("String") {
		return "", node
	}
	return node.text("sval"), node
}

// wrap has the expression in a field of a node, from token first to token last, made
// hexadecimal digits, of the bytea columns that it reads.
func (d *ddl) wrap(t *table, node message, field string, first, last int) {
	if last < first {
		d.refuse("The place of an expression was not found in the text.")
		return
	}
	by := d.r.conversion()
	d.before(first, by.toHex.open)
	expr := node.values(field)[0]
	if made, ok := d.reads(t, message{shapes()["Node"], expr.bytes}); ok {
		expr = made
	}
	d.behind(last, by.toHex.close)
	d.r.meant.set(node, field, d.around(by.hexed(), expr))
}
