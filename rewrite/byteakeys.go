package rewrite

import (
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// givenNames are those that constraints get which have none, by constraint.
type givenNames map[*byte]string

// constraintNames are the names that PostgreSQL would give a table's unnamed constraints
// over mapped columns, if these had their own names: clients read them in errors, and write
// them in ON CONFLICT ON CONSTRAINT.
func (d *ddl) constraintNames(t *table, create message) givenNames {
	given := givenNames{}
	if len(t.mapped) == 0 {
		return given
	}
	taken := newChooser()
	for _, kind := range []pg_query.ConstrType{pg_query.ConstrType_CONSTR_CHECK, pg_query.ConstrType_CONSTR_UNIQUE, pg_query.ConstrType_CONSTR_FOREIGN} {
		same := merged(create)
		for constraint, keys := range constraintsOf(create) {
			switch name := constraint.text("conname"); {
			case !constraintIs(constraint, kind):
			case name != "":
				taken.taken[name] = true
			case !same[&constraint.wire[0]]:
				d.nameConstraint(t, constraint, keys, taken, given)
			}
		}
	}
	return given
}

// merged are the UNIQUE constraints that say what another one before, or PRIMARY KEY, says:
// PostgreSQL makes one of both, with the name of the first.
func merged(create message) map[*byte]bool {
	said, same := map[string]bool{}, map[*byte]bool{}
	deferred := deferrals(create)
	for _, kind := range []pg_query.ConstrType{pg_query.ConstrType_CONSTR_PRIMARY, pg_query.ConstrType_CONSTR_UNIQUE} {
		for constraint, keys := range constraintsOf(create) {
			if !constraintIs(constraint, kind) {
				continue
			}
			id := &constraint.wire[0]
			says := strings.Join(keys, "\x00") + "\x00\x00" + strings.Join(constraint.names("including"), "\x00") + "\x00" + deferred[id]
			if constraint.flag("nulls_not_distinct") {
				says += "N"
			}
			same[id] = said[says]
			said[says] = true
		}
	}
	return same
}

// deferrals say of constraints whether they are deferrable, and deferred. A column's have it
// in constraints of their own behind them.
func deferrals(create message) map[*byte]string {
	all := map[*byte]string{}
	var last *byte
	for constraint := range constraintsOf(create) {
		switch pg_query.ConstrType(constraint.integer("contype")) {
		case pg_query.ConstrType_CONSTR_ATTR_DEFERRABLE:
			all[last] = "D" + strings.TrimPrefix(all[last], "D")
		case pg_query.ConstrType_CONSTR_ATTR_DEFERRED:
			all[last] = "DI"
		case pg_query.ConstrType_CONSTR_ATTR_NOT_DEFERRABLE, pg_query.ConstrType_CONSTR_ATTR_IMMEDIATE:
		default:
			last = &constraint.wire[0]
			if constraint.flag("deferrable") {
				all[last] = "D"
			}
			if constraint.flag("initdeferred") {
				all[last] = "DI"
			}
		}
	}
	return all
}

// nameConstraint chooses the name of a constraint, and gives it where it is over a mapped
// column.
func (d *ddl) nameConstraint(t *table, constraint message, keys []string, taken chooser, given givenNames) {
	var columns []string
	label := "check"
	switch pg_query.ConstrType(constraint.integer("contype")) {
	case pg_query.ConstrType_CONSTR_CHECK:
		if columns = columnsIn(constraint.child("raw_expr"), nil); len(columns) > 1 { // then none of them is in the name
			columns = nil
		}
	case pg_query.ConstrType_CONSTR_UNIQUE:
		columns, label = append(columns, keys...), "key"
		columns = distinct(append(columns, constraint.names("including")...))
	case pg_query.ConstrType_CONSTR_FOREIGN:
		columns, label = keys, "fkey"
	}
	name := taken.choose(t.name, columns, label)
	for _, column := range columns { // a number is behind one that is there twice, too
		if t.maps(column) {
			given[&constraint.wire[0]] = name
		}
	}
}

// columnsIn adds the names of the columns in an expression, each once, up to a second.
func columnsIn(expr message, columns []string) []string {
	if expr.is("ColumnRef") {
		if name, _ := column(expr); name != "" && !slices.Contains(columns, name) {
			columns = append(columns, name)
		}
		return columns
	}
	for child := range expr.nodes() {
		if columns = columnsIn(child, columns); len(columns) > 1 {
			break
		}
	}
	return columns
}

// constraintToken is the first token of a constraint behind its name.
func (d *ddl) constraintToken(constraint message) int {
	i := d.token(constraint.integer("location"))
	if d.phrase().word(i, "constraint") {
		i += 2
	}
	return i
}

// constraint rewrites a constraint of a table, or of a column of it, which is over keys.
func (d *ddl) constraint(t *table, constraint message, keys []string, given givenNames) {
	if name, ok := given[&constraint.wire[0]]; ok {
		d.before(d.token(constraint.integer("location")), "CONSTRAINT "+written(name)+" ")
		d.r.meant.set(constraint, "conname", value{bytes: []byte(name)})
	}
	switch pg_query.ConstrType(constraint.integer("contype")) {
	case pg_query.ConstrType_CONSTR_PRIMARY, pg_query.ConstrType_CONSTR_UNIQUE:
		d.keyColumns(t, constraint)
	case pg_query.ConstrType_CONSTR_FOREIGN:
		d.foreignKey(t, constraint, keys)
	case pg_query.ConstrType_CONSTR_CHECK:
		d.natural(t, constraint, "raw_expr")
	case pg_query.ConstrType_CONSTR_EXCLUSION:
		if len(t.mapped) > 0 {
			d.refuse("The table has an EXCLUDE constraint.")
		}
	}
}

// keyColumns writes the columns of PRIMARY KEY and UNIQUE of a table.
func (d *ddl) keyColumns(t *table, constraint message) {
	if constraint.child("keys").shape == nil || len(t.mapped) == 0 {
		return // a column's, or USING INDEX
	}
	ph := d.phrase()
	open := d.constraintToken(constraint)
	for open < len(ph.tokens) && !ph.punct(open, '(') {
		open++
	}
	d.renameList(constraint, "keys", open, t.maps)
	d.renameList(constraint, "including", ph.closing(open)+2, t.maps)
}

// foreignKey writes the columns of FOREIGN KEY and REFERENCES, on both sides.
func (d *ddl) foreignKey(t *table, constraint message, keys []string) {
	to := constraint.child("pktable")
	if to.text("relname") != t.name || to.text("schemaname") != t.schema {
		d.find(to) // it must be known which it is
	}
	referred := d.r.referred(t, constraint)
	ph := d.phrase()
	i := d.constraintToken(constraint)
	for n, name := range keys {
		if n < len(referred) && referred[n].Mapped != t.maps(name) {
			d.refuse("A FOREIGN KEY pairs a bytea column that is stored as text with a column that is not: " +
				"create the table anew with the column of type bytea, and name both in " + byteaColumnsKey + ".")
		}
	}
	if ph.words(i, "foreign", "key") {
		d.renameList(constraint, "fk_attrs", i+2, t.maps)
		if constraint.child("fk_del_set_cols").shape != nil && len(t.mapped) > 0 {
			d.refuse("ON DELETE SET has a list of columns.")
		}
		i = ph.closing(i+2) + 1
	}
	if !ph.word(i, "references") {
		d.refuse("The place of a name was not found in the text.")
		return
	}
	mapped := map[string]bool{}
	for _, column := range referred {
		mapped[column.Name] = column.Mapped
	}
	d.renameList(constraint, "pk_attrs", ph.qualified(i+1), func(name string) bool { return mapped[name] })
}
