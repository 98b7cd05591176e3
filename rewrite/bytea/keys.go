package bytea

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// givenNames maps constraints to the names that Sluice gives them. The address of a node's bytes identifies a
// constraint.
type givenNames map[*byte]string

// chooseConstraintNames chooses names for unnamed constraints over mapped columns (bytea stored as text). The names are
// those that PostgreSQL would derive from the clients' column names. Clients see them in errors and use them in ON
// CONFLICT.
func (d *ddlMapper) chooseConstraintNames(t *MappedTable, create parse.TreeNode) givenNames {
	given := givenNames{}
	if len(t.mapped) == 0 {
		return given
	}
	taken := newNameChooser()
	for _, kind := range []parse.ConstrType{parse.CONSTR_CHECK, parse.CONSTR_UNIQUE, parse.CONSTR_FOREIGN} {
		same := repeatedConstraints(create)
		for constraint, keys := range parse.ConstraintsOf(create) {
			switch name := constraint.Text("conname"); {
			case !parse.ConstraintIs(constraint, kind):
			case name != "":
				taken.taken[name] = true
			case !same[&constraint.Wire[0]]:
				d.nameConstraint(t, constraint, keys, taken, given)
			}
		}
	}
	return given
}

// repeatedConstraints returns the UNIQUE constraints that equal an earlier constraint or the PRIMARY KEY. PostgreSQL
// creates one index for equal constraints, with the name of the first one.
func repeatedConstraints(create parse.TreeNode) map[*byte]bool {
	said, same := map[string]bool{}, map[*byte]bool{}
	deferred := deferralCodes(create)
	for _, kind := range []parse.ConstrType{parse.CONSTR_PRIMARY, parse.CONSTR_UNIQUE} {
		for constraint, keys := range parse.ConstraintsOf(create) {
			if !parse.ConstraintIs(constraint, kind) {
				continue
			}
			id := &constraint.Wire[0]
			says := strings.Join(keys, "\x00") + "\x00\x00" + strings.Join(constraint.Names("including"), "\x00") + "\x00" + deferred[id]
			if constraint.Flag("nulls_not_distinct") {
				says += "N"
			}
			same[id] = said[says]
			said[says] = true
		}
	}
	return same
}

// deferralCodes maps each deferrable constraint to a code for its options DEFERRABLE and INITIALLY DEFERRED. The
// options of a column constraint are nodes of their own, after the constraint's node.
func deferralCodes(create parse.TreeNode) map[*byte]string {
	all := map[*byte]string{}
	var last *byte
	for constraint := range parse.ConstraintsOf(create) {
		switch parse.ConstrType(constraint.Integer("contype")) {
		case parse.CONSTR_ATTR_DEFERRABLE:
			all[last] = "D" + strings.TrimPrefix(all[last], "D")
		case parse.CONSTR_ATTR_DEFERRED:
			all[last] = "DI"
		case parse.CONSTR_ATTR_NOT_DEFERRABLE, parse.CONSTR_ATTR_IMMEDIATE:
		default:
			last = &constraint.Wire[0]
			if constraint.Flag("deferrable") {
				all[last] = "D"
			}
			if constraint.Flag("initdeferred") {
				all[last] = "DI"
			}
		}
	}
	return all
}

// nameConstraint chooses the name of a constraint. If the constraint has a mapped column (bytea stored as text),
// nameConstraint records the name in given.
func (d *ddlMapper) nameConstraint(t *MappedTable, constraint parse.TreeNode, keys []string, taken nameChooser, given givenNames) {
	var columns []string
	label := "check"
	switch parse.ConstrType(constraint.Integer("contype")) {
	case parse.CONSTR_CHECK:
		if columns = parse.AppendColumnNames(constraint.Child("raw_expr"), nil); len(columns) > 1 { // the name contains a column only if there is just one
			columns = nil
		}
	case parse.CONSTR_UNIQUE:
		columns, label = append(columns, keys...), "key"
		columns = parse.NumberDuplicates(append(columns, constraint.Names("including")...))
	case parse.CONSTR_FOREIGN:
		columns, label = keys, "fkey"
	}
	name := taken.choose(t.name, columns, label)
	for _, column := range columns { // columns may contain names with a number, such as a1
		if t.IsMapped(column) {
			given[&constraint.Wire[0]] = name
		}
	}
}

// constraintToken returns the token of a constraint's definition, after CONSTRAINT and the constraint's name.
func (d *ddlMapper) constraintToken(constraint parse.TreeNode) int {
	i := d.tokenAt(constraint.Integer("location"))
	if d.statementTokens().IsKeyword(i, "constraint") {
		i += 2
	}
	return i
}

// rewriteConstraint rewrites a table or column constraint. keys are the constraint's columns.
func (d *ddlMapper) rewriteConstraint(t *MappedTable, constraint parse.TreeNode, keys []string, given givenNames) {
	if name, ok := given[&constraint.Wire[0]]; ok {
		d.insertBefore(d.tokenAt(constraint.Integer("location")), "CONSTRAINT "+parse.QuoteIdentIfNeeded(name)+" ")
		d.meant.Set(constraint, "conname", parse.Value{Bytes: []byte(name)})
	}
	switch parse.ConstrType(constraint.Integer("contype")) {
	case parse.CONSTR_PRIMARY, parse.CONSTR_UNIQUE:
		d.renameKeyColumns(t, constraint)
	case parse.CONSTR_FOREIGN:
		d.renameForeignKey(t, constraint, keys)
	case parse.CONSTR_CHECK:
		d.readAsBytea(t, constraint, "raw_expr")
	case parse.CONSTR_EXCLUSION:
		if len(t.mapped) > 0 {
			d.refuse("The table has an EXCLUDE constraint.")
		}
	}
}

// renameKeyColumns replaces the columns in a PRIMARY KEY or UNIQUE constraint by their names on the server.
func (d *ddlMapper) renameKeyColumns(t *MappedTable, constraint parse.TreeNode) {
	if constraint.Child("keys").Shape == nil || len(t.mapped) == 0 {
		return // a column constraint, or USING INDEX
	}
	ph := d.statementTokens()
	open := d.constraintToken(constraint)
	for open < len(ph.Tokens) && !ph.IsPunct(open, '(') {
		open++
	}
	d.renameList(constraint, "keys", open, t.IsMapped)
	d.renameList(constraint, "including", ph.ClosingParen(open)+2, t.IsMapped)
}

// renameForeignKey replaces the mapped columns (bytea stored as text) of a FOREIGN KEY by their names on the server. It
// does so for the referencing and the referenced columns.
func (d *ddlMapper) renameForeignKey(t *MappedTable, constraint parse.TreeNode, keys []string) {
	to := constraint.Child("pktable")
	if to.Text("relname") != t.name || to.Text("schemaname") != t.schema {
		d.findRelation(to) // findRelation refuses the statement if the table is unknown
	}
	referred := d.r.referencedColumns(t, constraint)
	ph := d.statementTokens()
	i := d.constraintToken(constraint)
	for n, name := range keys {
		if n < len(referred) && referred[n].Mapped != t.IsMapped(name) {
			d.refuse("A FOREIGN KEY pairs a bytea column that is stored as text with a column that is not: " +
				"create the table anew with the column of type bytea, and name both in " + ColumnsKey + ".")
		}
	}
	if ph.AreKeywords(i, "foreign", "key") {
		d.renameList(constraint, "fk_attrs", i+2, t.IsMapped)
		if constraint.Child("fk_del_set_cols").Shape != nil && len(t.mapped) > 0 {
			d.refuse("ON DELETE SET has a list of columns.")
		}
		i = ph.ClosingParen(i+2) + 1
	}
	if !ph.IsKeyword(i, "references") {
		d.refuse("The place of a name was not found in the text.")
		return
	}
	mapped := map[string]bool{}
	for _, column := range referred {
		mapped[column.Name] = column.Mapped
	}
	d.renameList(constraint, "pk_attrs", ph.AfterQualifiedName(i+1), func(name string) bool { return mapped[name] })
}
