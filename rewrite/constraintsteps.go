package rewrite

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// The statements by which constraints are added on DSQL, what takes them back, and queries that
// tell which row is against one.

// NotValid adds a FOREIGN KEY or CHECK that holds for rows to come.
func (a *Addition) NotValid(name string) string {
	return fmt.Sprintf("ALTER TABLE %s ADD CONSTRAINT %s %s NOT VALID", a.table, parse.Identifier(name), a.body)
}

// Validate begins the job that looks at the rows that are there.
func (a *Addition) Validate(name string) string {
	return fmt.Sprintf("ALTER TABLE ASYNC %s VALIDATE CONSTRAINT %s", a.table, parse.Identifier(name))
}

// Drop takes a constraint back, with its index.
func (a *Addition) Drop(name string) string {
	return fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT %s", a.table, parse.Identifier(name))
}

// Rename gives a constraint another name.
func (a *Addition) Rename(from, to string) string {
	return fmt.Sprintf("ALTER TABLE %s RENAME CONSTRAINT %s TO %s", a.table, parse.Identifier(from), parse.Identifier(to))
}

// RenameIndex gives an index that is no constraint's yet another name.
func (a *Addition) RenameIndex(schema, from, to string) string {
	return "ALTER INDEX " + parse.Identifier(schema) + "." + parse.Identifier(from) + " RENAME TO " + parse.Identifier(to)
}

// CreateIndex begins the job that makes the index of a UNIQUE constraint.
func (a *Addition) CreateIndex(name string) string {
	sql := fmt.Sprintf("CREATE UNIQUE INDEX ASYNC %s ON %s (%s)", parse.Identifier(name), a.table, identifiers(a.Keys, ""))
	if len(a.Including) > 0 {
		sql += " INCLUDE (" + identifiers(a.Including, "") + ")"
	}
	if a.NullsNotDistinct {
		sql += " NULLS NOT DISTINCT"
	}
	return sql
}

// UsingIndex makes a constraint of an index, which gets its name.
func (a *Addition) UsingIndex(name, index string) string {
	return fmt.Sprintf("ALTER TABLE %s ADD CONSTRAINT %s UNIQUE USING INDEX %s%s", a.table, parse.Identifier(name), parse.Identifier(index), a.timing)
}

// DropIndex takes an index back that is no constraint's yet.
func (a *Addition) DropIndex(schema, name string) string {
	return "DROP INDEX " + parse.Identifier(schema) + "." + parse.Identifier(name)
}

// identifiers are names in a list, each with a prefix.
func identifiers(names []string, prefix string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = prefix + parse.Identifier(name)
	}
	return strings.Join(all, ", ")
}

// Duplicate finds values that a UNIQUE constraint is against: those of its keys, behind them
// whether each is NULL, and then the names of the keys as PostgreSQL writes them.
func (a *Addition) Duplicate() string {
	var nulls, present, names []string
	for _, key := range a.Keys {
		names = append(names, "quote_ident('"+strings.ReplaceAll(key, "'", "''")+"')")
		nulls = append(nulls, parse.Identifier(key)+" IS NULL")
		present = append(present, parse.Identifier(key)+" IS NOT NULL")
	}
	where := ""
	if !a.NullsNotDistinct {
		where = " WHERE " + strings.Join(present, " AND ")
	}
	keys := identifiers(a.Keys, "")
	return fmt.Sprintf("SELECT %s, %s, %s FROM %s%s GROUP BY %s HAVING count(*) > 1 ORDER BY %s LIMIT 1",
		keys, strings.Join(nulls, ", "), strings.Join(names, ", "), a.table, where, keys, keys)
}

// Orphan finds values of a FOREIGN KEY that are not in the columns of its other table.
func (a *Addition) Orphan(referred []string) string {
	var present, same []string
	for i, key := range a.Keys {
		present = append(present, "f."+parse.Identifier(key)+" IS NOT NULL")
		same = append(same, "p."+parse.Identifier(referred[i])+" = f."+parse.Identifier(key))
	}
	return fmt.Sprintf("SELECT %s FROM %s f WHERE %s AND NOT EXISTS (SELECT 1 FROM %s p WHERE %s) LIMIT 1",
		identifiers(a.Keys, "f."), a.table, strings.Join(present, " AND "), a.Referred, strings.Join(same, " AND "))
}

// Mixed finds a row of which some columns of a FOREIGN KEY are NULL, and not all.
func (a *Addition) Mixed() string {
	return fmt.Sprintf("SELECT 1 FROM %s WHERE num_nulls(%s) NOT IN (0, %d) LIMIT 1", a.table, identifiers(a.Keys, ""), len(a.Keys))
}

// Against finds a row for which an expression is false.
func (a *Addition) Against(expression string) string {
	return fmt.Sprintf("SELECT 1 FROM %s WHERE NOT (%s) LIMIT 1", a.table, expression)
}

// Is reports whether a constraint that the catalog shows says the same. It may report false
// for one that does: what a server adds to an expression is not all known.
func (a *Addition) Is(shown string) bool {
	var defs [2]parse.Message
	for i, sql := range [2]string{a.NotValid("n"), "ALTER TABLE t ADD " + shown} {
		tree, err := parse.Tree(sql)
		if err != nil || len(tree.Values("stmts")) != 1 || len(tree.Child("stmts").Child("stmt").Values("cmds")) != 1 {
			return false
		}
		if defs[i] = tree.Child("stmts").Child("stmt").Child("cmds").Child("def"); !defs[i].Is("Constraint") {
			return false
		}
	}
	ours, theirs := defs[0], defs[1]
	// The table that is referred to may be shown with or without its schema: the catalog is
	// asked which it is. So are its columns, where the statement has them.
	meant := parse.Intents{}
	meant.Set(ours, "conname")
	meant.Set(ours, "pktable", theirs.Values("pktable")...)
	if ours.Child("pk_attrs").Shape == nil {
		meant.Set(ours, "pk_attrs", theirs.Values("pk_attrs")...)
	}
	if parse.ConstraintIs(ours, parse.CONSTR_CHECK) {
		if !saysSame(ours.Child("raw_expr"), theirs.Child("raw_expr")) {
			return false
		}
		meant.Set(ours, "raw_expr", theirs.Values("raw_expr")...)
	}
	return meant.Equal(ours, theirs)
}

// saysSame reports whether an expression is what a server shows of another: it writes the type
// behind constants, and text behind columns of types like it.
func saysSame(written, shown parse.Message) bool {
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
	left, right := (parse.Intents{}).Walk(written), (parse.Intents{}).Walk(shown)
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
		case held != nil && !saysSame(parse.Message{Shape: held, Wire: x.Bytes}.Inner(), parse.Message{Shape: held, Wire: y.Bytes}.Inner()):
			return false
		case held == nil && (x.Value.Number != y.Value.Number || !bytes.Equal(x.Bytes, y.Bytes)):
			return false
		}
	}
}

// hint are the statements to write in the place of one that adds constraints.
func (c *Constraints) hint() string {
	return "Write, " + eachAlone + strings.Join(c.steps(), "; ") + "."
}

// steps are these statements.
func (c *Constraints) steps() (steps []string) {
	for _, column := range c.Columns {
		steps = append(steps, column.Add)
	}
	for i := range c.Adds {
		a := &c.Adds[i]
		name := a.Name
		if name == "" {
			name = a.Candidate(0)
		}
		if a.Kind == Unique {
			steps = append(steps, a.CreateIndex(name), "when its job (sys.jobs) is done "+a.UsingIndex(name, name))
			continue
		}
		steps = append(steps, a.NotValid(name), a.Validate(name))
	}
	return steps
}

// bytes is about what it takes in memory.
func (c *Constraints) bytes() int {
	n := int(unsafe.Sizeof(*c)) + len(c.Text) + len(c.Table)
	for _, column := range c.Columns {
		n += int(unsafe.Sizeof(column)) + len(column.Add) + len(column.Drop)
	}
	for _, a := range slices.Concat(c.Adds, c.Freed) {
		n += int(unsafe.Sizeof(a)) + (cap(a.Keys)+cap(a.Including))*wordBytes + len(a.body) + len(a.second) + len(a.Referred)
	}
	return n
}
