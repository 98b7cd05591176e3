package alter

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// The statements in this file add and remove constraints on DSQL. The queries in it find rows that violate a
// constraint.

// AddNotValidSQL returns the statement that adds a FOREIGN KEY or CHECK as NOT VALID: only new rows must meet it.
func (a *AddedConstraint) AddNotValidSQL(name string) string {
	return fmt.Sprintf("ALTER TABLE %s ADD CONSTRAINT %s %s NOT VALID", a.table, parse.QuoteIdent(name), a.body)
}

// ValidateSQL returns the statement that starts a job on DSQL. The job checks whether existing rows meet the
// constraint.
func (a *AddedConstraint) ValidateSQL(name string) string {
	return fmt.Sprintf("ALTER TABLE ASYNC %s VALIDATE CONSTRAINT %s", a.table, parse.QuoteIdent(name))
}

// DropSQL returns the statement that drops a constraint and its index.
func (a *AddedConstraint) DropSQL(name string) string {
	return fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT %s", a.table, parse.QuoteIdent(name))
}

// RenameSQL returns the statement that changes a constraint's name.
func (a *AddedConstraint) RenameSQL(from, to string) string {
	return fmt.Sprintf("ALTER TABLE %s RENAME CONSTRAINT %s TO %s", a.table, parse.QuoteIdent(from), parse.QuoteIdent(to))
}

// RenameIndexSQL returns the statement that renames an index before it belongs to a constraint.
func (a *AddedConstraint) RenameIndexSQL(schema, from, to string) string {
	return "ALTER INDEX " + parse.QuoteIdent(schema) + "." + parse.QuoteIdent(from) + " RENAME TO " + parse.QuoteIdent(to)
}

// CreateIndexSQL returns the statement that starts a job on DSQL. The job builds the index of a UNIQUE constraint.
func (a *AddedConstraint) CreateIndexSQL(name string) string {
	sql := fmt.Sprintf("CREATE UNIQUE INDEX ASYNC %s ON %s (%s)", parse.QuoteIdent(name), a.table, parse.QuoteIdents(a.Keys, ""))
	if len(a.Including) > 0 {
		sql += " INCLUDE (" + parse.QuoteIdents(a.Including, "") + ")"
	}
	if a.NullsNotDistinct {
		sql += " NULLS NOT DISTINCT"
	}
	return sql
}

// AddUsingIndexSQL returns the statement that makes a UNIQUE constraint of an index. The index then gets the
// constraint's name.
func (a *AddedConstraint) AddUsingIndexSQL(name, index string) string {
	return fmt.Sprintf("ALTER TABLE %s ADD CONSTRAINT %s UNIQUE USING INDEX %s%s", a.table, parse.QuoteIdent(name), parse.QuoteIdent(index), a.timing)
}

// DropIndexSQL returns the statement that drops an index before it belongs to a constraint.
func (a *AddedConstraint) DropIndexSQL(schema, name string) string {
	return "DROP INDEX " + parse.QuoteIdent(schema) + "." + parse.QuoteIdent(name)
}

// DuplicateQuery returns a query for one set of key values that violates a UNIQUE constraint. The query returns the
// values, then for each value whether it is NULL, and then the names of the keys as PostgreSQL quotes them.
func (a *AddedConstraint) DuplicateQuery() string {
	var nulls, present, names []string
	for _, key := range a.Keys {
		names = append(names, "quote_ident('"+strings.ReplaceAll(key, "'", "''")+"')")
		nulls = append(nulls, parse.QuoteIdent(key)+" IS NULL")
		present = append(present, parse.QuoteIdent(key)+" IS NOT NULL")
	}
	where := ""
	if !a.NullsNotDistinct {
		where = " WHERE " + strings.Join(present, " AND ")
	}
	keys := parse.QuoteIdents(a.Keys, "")
	return fmt.Sprintf("SELECT %s, %s, %s FROM %s%s GROUP BY %s HAVING count(*) > 1 ORDER BY %s LIMIT 1",
		keys, strings.Join(nulls, ", "), strings.Join(names, ", "), a.table, where, keys, keys)
}

// OrphanQuery returns a query for one set of FOREIGN KEY values that no row of the referenced table has.
func (a *AddedConstraint) OrphanQuery(referred []string) string {
	var present, same []string
	for i, key := range a.Keys {
		present = append(present, "f."+parse.QuoteIdent(key)+" IS NOT NULL")
		same = append(same, "p."+parse.QuoteIdent(referred[i])+" = f."+parse.QuoteIdent(key))
	}
	return fmt.Sprintf("SELECT %s FROM %s f WHERE %s AND NOT EXISTS (SELECT 1 FROM %s p WHERE %s) LIMIT 1",
		parse.QuoteIdents(a.Keys, "f."), a.table, strings.Join(present, " AND "), a.Referred, strings.Join(same, " AND "))
}

// PartialNullQuery returns a query for a row in which some columns of a FOREIGN KEY are NULL and others are not. MATCH
// FULL forbids this.
func (a *AddedConstraint) PartialNullQuery() string {
	return fmt.Sprintf("SELECT 1 FROM %s WHERE num_nulls(%s) NOT IN (0, %d) LIMIT 1", a.table, parse.QuoteIdents(a.Keys, ""), len(a.Keys))
}

// ViolationQuery returns a query for one row for which the expression is false.
func (a *AddedConstraint) ViolationQuery(expression string) string {
	return fmt.Sprintf("SELECT 1 FROM %s WHERE NOT (%s) LIMIT 1", a.table, expression)
}

// MatchesShown reports whether a equals a constraint that the catalog shows. It may return false for an equal
// constraint, because a server may show an expression in another form than the client wrote.
func (a *AddedConstraint) MatchesShown(shown string) bool {
	var defs [2]parse.TreeNode
	for i, sql := range [2]string{a.AddNotValidSQL("n"), "ALTER TABLE t ADD " + shown} {
		tree, err := parse.Tree(sql)
		if err != nil || len(tree.Values("stmts")) != 1 || len(tree.Child("stmts").Child("stmt").Values("cmds")) != 1 {
			return false
		}
		if defs[i] = tree.Child("stmts").Child("stmt").Child("cmds").Child("def"); !defs[i].Is("Constraint") {
			return false
		}
	}
	ours, theirs := defs[0], defs[1]
	// The catalog may show the referenced table with or without its schema, and always shows its columns. The caller
	// compares the table and the columns by queries of the catalog.
	meant := parse.TreeChanges{}
	meant.Set(ours, "conname")
	meant.Set(ours, "pktable", theirs.Values("pktable")...)
	if ours.Child("pk_attrs").Shape == nil {
		meant.Set(ours, "pk_attrs", theirs.Values("pk_attrs")...)
	}
	if parse.ConstraintIs(ours, parse.CONSTR_CHECK) {
		if !isSameExpression(ours.Child("raw_expr"), theirs.Child("raw_expr")) {
			return false
		}
		meant.Set(ours, "raw_expr", theirs.Values("raw_expr")...)
	}
	return meant.Equal(ours, theirs)
}

// isSameExpression reports whether shown may be the form in which a server shows the expression written. Servers add
// types to constants, and cast columns of types like varchar to text.
func isSameExpression(written, shown parse.TreeNode) bool {
	for shown.Is("TypeCast") && !written.Is("TypeCast") {
		arg, kind := shown.Child("arg"), shown.Child("type_name").Names("names")
		if !arg.Is("A_Const") && !(arg.Is("ColumnRef") && len(kind) == 1 && kind[0] == "text") {
			return false
		}
		shown = arg
	}
	if written.Shape == nil || written.Shape != shown.Shape {
		return written.Shape == shown.Shape
	}
	left, right := (parse.TreeChanges{}).Walk(written), (parse.TreeChanges{}).Walk(shown)
	for {
		x, y := left.Next(), right.Next()
		switch {
		case x.Number != y.Number:
			return false
		case x.Number == 0:
			return true
		}
		held := written.Shape.Fields[x.Number].Shape
		switch {
		case held != nil && !isSameExpression(parse.TreeNode{Shape: held, Wire: x.Bytes}.UnwrapNode(), parse.TreeNode{Shape: held, Wire: y.Bytes}.UnwrapNode()):
			return false
		case held == nil && (x.Value.Number != y.Value.Number || !bytes.Equal(x.Bytes, y.Bytes)):
			return false
		}
	}
}

// hint returns a hint with the statements that a person can run instead of the ALTER TABLE.
func (c *AddedConstraints) hint() string {
	return "Write, " + eachAlone + strings.Join(c.stepStatements(), "; ") + "."
}

// stepStatements returns the statements that add the columns and constraints one by one. A person may run them by hand.
func (c *AddedConstraints) stepStatements() (steps []string) {
	for _, column := range c.Columns {
		steps = append(steps, column.Add)
	}
	for i := range c.Adds {
		a := &c.Adds[i]
		name := a.Name
		if name == "" {
			name = a.CandidateName(0)
		}
		if a.Kind == Unique {
			steps = append(steps, a.CreateIndexSQL(name), "when its job (sys.jobs) is done "+a.AddUsingIndexSQL(name, name))
			continue
		}
		steps = append(steps, a.AddNotValidSQL(name), a.ValidateSQL(name))
	}
	return steps
}

// TextAndTag implements Steps: it returns the client's ALTER TABLE and its command tag.
func (c *AddedConstraints) TextAndTag() (text, tag string) { return c.Text, "ALTER TABLE" }

// Bytes implements Steps: it estimates the memory of the plan in bytes.
func (c *AddedConstraints) Bytes(source int) int {
	n := int(unsafe.Sizeof(*c)) + len(c.Text) + len(c.Table) + source
	for _, column := range c.Columns {
		n += int(unsafe.Sizeof(column)) + len(column.Add) + len(column.Drop)
	}
	for _, a := range slices.Concat(c.Adds, c.DroppedNotNull) {
		n += int(unsafe.Sizeof(a)) + (cap(a.Keys)+cap(a.Including))*wordBytes + len(a.body) + len(a.nameColumns) + len(a.Referred)
	}
	return n
}
