package rewrite

import (
	"slices"
)

// What a table's own definition computes (CHECK, generated columns, DEFAULT, expressions and
// predicates of indexes) reads one relation only and holds no query. Here such an expression
// reads mapped columns as the bytea that they stand for.

// samples of the calls that convert.
var (
	sampleHexed   = sample("SELECT pg_catalog.encode(NULL, 'hex')")
	sampleUnhexed = sample("SELECT pg_catalog.decode(NULL, 'hex')")
)

// call is a call of a sample with another argument.
func (d *ddl) call(model message, argument value) value {
	node := value{bytes: slices.Clone(model.child("stmts").child("stmt").child("target_list").values("val")[0].bytes)}
	call := message{shape: shapes()["Node"], wire: node.bytes}.inner()
	d.r.meant.set(call, "args", argument, call.values("args")[1])
	return node
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
	d.before(i, "pg_catalog.decode(")
	d.rewriteName(path, "sval", last, physicalName(name))
	d.behind(last, ", 'hex')")
	return d.call(sampleUnhexed(), value{bytes: node.wire}), true
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
	d.before(first, "pg_catalog.encode(")
	expr := node.values(field)[0]
	if made, ok := d.reads(t, message{shapes()["Node"], expr.bytes}); ok {
		expr = made
	}
	d.behind(last, ", 'hex')")
	d.r.meant.set(node, field, d.call(sampleHexed(), expr))
}
