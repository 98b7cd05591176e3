package alter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// DSQL cannot change a column's type. Sluice adds a column of the new type, copies the values, and exchanges the names
// (ColumnTypeChange). This moves the column to the end of the table, so the configuration must allow it (RetypeKey).

// RetypeKey is the configuration key that enables Rules.Retype.
const RetypeKey = "ddl.alter_column_type"

// RetypePolicy is the value of RetypeKey that enables Rules.Retype.
const RetypePolicy = "rewrite"

// planRetype plans a change of a column's type. Without Rules.Retype, it only sets a hint.
func (d *Draft) planRetype(a *Alteration) {
	switch a.Retypes = d.Rules.Retype && a.isRetypable(); {
	case !a.Retypes:
		d.Hint = a.RebuildHint(ColumnFacts{})
		return
	case !d.Alone:
		d.Hint = a.RebuildHint(ColumnFacts{}) + " Or send the statement alone, outside of a transaction: Sluice then does so (" + RetypeKey + ")."
		return
	}
	a.Checks = d.Rules.NotNullCheck
	d.Hint = "Send the statement alone outside of a transaction: it is then carried out (" + RetypeKey + ")."
	d.addFinding(finding.Handled(finding.AlterType, finding.Rewritten, finding.Warning, "carried out in several transactions: a column of the type takes the other's place, and becomes the table's last", d.Start))
}

// isRetypable reports whether Sluice can add a copy of the column with the new type, under names that are not too long.
func (a *Alteration) isRetypable() bool {
	if len(a.Column) > parse.MaxName-apartSuffix-3 {
		return false
	}
	add, err := parse.Tree(a.StartTypeChange("00000000").AddColumnSQL())
	if err != nil || len(add.Values("stmts")) != 1 {
		return false
	}
	st := add.Child("stmts").Child("stmt")
	if !st.Is("AlterTableStmt") || len(st.Values("cmds")) != 1 || st.Child("relation").Text("relname") != a.relation {
		return false
	}
	column := st.Child("cmds").Child("def")
	cast, err := parse.Tree("SELECT CAST(NULL AS " + a.Type + ")")
	if err != nil || len(cast.Values("stmts")) != 1 || !column.Is("ColumnDef") || column.Child("constraints").Shape != nil {
		return false
	}
	kind := cast.Child("stmts").Child("stmt").Child("target_list").Child("val").Child("type_name")
	return (parse.TreeChanges{}).Equal(column.Child("type_name"), a.kind) && (parse.TreeChanges{}).Equal(kind, a.kind)
}

// apartSuffix is the number of bytes that ColumnTypeChange adds to a column's name in temporary names.
const apartSuffix = len("__new_00000000")

// ColumnTypeChange is a change of a column's type in progress. NewColumn is the temporary name of the new column,
// before it gets the final name. OldColumn is the name that the old column has after that.
type ColumnTypeChange struct {
	*Alteration
	NewColumn, OldColumn string
}

// StartTypeChange returns a ColumnTypeChange whose temporary names end with digits. The digits must be unique to the
// statement.
func (a *Alteration) StartTypeChange(digits string) *ColumnTypeChange {
	return &ColumnTypeChange{Alteration: a, NewColumn: a.Column + "__new_" + digits, OldColumn: a.Column + "__was_" + digits}
}

// alterTableSQL returns an ALTER TABLE with the command. It replaces each %s in command by one of names, quoted.
func (r *ColumnTypeChange) alterTableSQL(command string, names ...string) string {
	quoted := make([]any, len(names))
	for i, name := range names {
		quoted[i] = parse.QuoteIdent(name)
	}
	return "ALTER TABLE " + r.table + " " + fmt.Sprintf(command, quoted...)
}

// AddColumnSQL returns the statement that adds the column of the new type.
func (r *ColumnTypeChange) AddColumnSQL() string {
	return r.alterTableSQL("ADD COLUMN %s ", r.NewColumn) + r.Type
}

// RenameOldSQL returns the statement that renames the old column to OldColumn. RestoreOldNameSQL returns the reverse.
func (r *ColumnTypeChange) RenameOldSQL() string {
	return r.alterTableSQL("RENAME COLUMN %s TO %s", r.Column, r.OldColumn)
}
func (r *ColumnTypeChange) RestoreOldNameSQL() string {
	return r.alterTableSQL("RENAME COLUMN %s TO %s", r.OldColumn, r.Column)
}

// RenameNewSQL returns the statement that gives the new column the final name, which the old column had.
func (r *ColumnTypeChange) RenameNewSQL() string {
	return r.alterTableSQL("RENAME COLUMN %s TO %s", r.NewColumn, r.Column)
}

// DropNewSQL returns the statement that drops the new column, and DropOldSQL the one that drops the old column.
func (r *ColumnTypeChange) DropNewSQL() string { return r.alterTableSQL("DROP COLUMN %s", r.NewColumn) }
func (r *ColumnTypeChange) DropOldSQL() string { return r.alterTableSQL("DROP COLUMN %s", r.OldColumn) }

// SetDefaultSQL returns the statement that gives the new column the default value.
func (r *ColumnTypeChange) SetDefaultSQL(value string) string {
	return r.alterTableSQL("ALTER COLUMN %s SET DEFAULT ", r.NewColumn) + value
}

// BackfillSQL returns the UPDATE that copies old values to rows whose new column is NULL. from is the current name of
// the old column. As in ALTER TABLE, an assignment cast converts the values, unless the client's USING casts them. The
// UPDATE changes at most rows rows, or all rows if key (the primary key) is empty.
func (r *ColumnTypeChange) BackfillSQL(from string, key []string, rows int) string {
	return r.updateSQL(r.valueSQL(from), parse.QuoteIdent(r.NewColumn)+" IS NULL AND "+parse.QuoteIdent(from)+" IS NOT NULL", key, rows)
}

// valueSQL returns the SQL value of the new column, computed from the old one.
func (r *ColumnTypeChange) valueSQL(from string) string {
	if r.casts {
		return r.castSQL(from)
	}
	return parse.QuoteIdent(from)
}

// ClearChangedSQL returns the UPDATE that sets the new column to NULL in rows whose old column has changed since the
// copy. The UPDATE compares values as text, because numbers of different scale then differ. It also compares them
// directly, because the text of a float depends on extra_float_digits.
func (r *ColumnTypeChange) ClearChangedSQL(from string, key []string, rows int) string {
	made, cast := parse.QuoteIdent(r.NewColumn), r.castSQL(from)
	return r.updateSQL("NULL", fmt.Sprintf("%s IS NOT NULL AND (CAST(%s AS text) IS DISTINCT FROM CAST(%s AS text) OR %s <> %s)", made, made, cast, made, cast), key, rows)
}

// AddEqualityCheckSQL returns the statement that adds a CHECK that old and new column have the same value. Without the
// CHECK, INSERT and COPY without column names would write only the old column. Dropping either column drops the CHECK.
func (r *ColumnTypeChange) AddEqualityCheckSQL(from, name string) string {
	return r.alterTableSQL("ADD CONSTRAINT %s CHECK (", name) + r.equalityCondition(from) + ") NOT VALID"
}

// DropEqualityCheckSQL returns the statement that drops the CHECK of AddEqualityCheckSQL if it exists.
func (r *ColumnTypeChange) DropEqualityCheckSQL(name string) string {
	return r.alterTableSQL("DROP CONSTRAINT IF EXISTS %s", name)
}

// CopyDifferingSQL returns the UPDATE that copies the old value to the new column in rows where the two differ. The
// UPDATE sets no column to NULL, so that the CHECKs of AddEqualityCheckSQL and NotNullCheck hold throughout.
func (r *ColumnTypeChange) CopyDifferingSQL(from string, key []string, rows int) string {
	return r.updateSQL(r.valueSQL(from), "NOT ("+r.equalityCondition(from)+")", key, rows)
}

// equalityCondition returns an SQL condition: the old and the new column have the same value. The condition is never
// NULL. It compares values as text and directly, as ClearChangedSQL does.
func (r *ColumnTypeChange) equalityCondition(from string) string {
	made, was, cast := parse.QuoteIdent(r.NewColumn), parse.QuoteIdent(from), r.castSQL(from)
	return fmt.Sprintf("(%s IS NULL AND %s IS NULL) OR (%s IS NOT NULL AND %s IS NOT NULL AND CAST(%s AS text) = CAST(%s AS text) AND %s = %s)", made, was, made, was, made, cast, made, cast)
}

// castSQL returns an SQL expression that casts the old column's value to the new type.
func (r *ColumnTypeChange) castSQL(from string) string {
	return "CAST(" + parse.QuoteIdent(from) + " AS " + r.Type + ")"
}

// updateSQL returns an UPDATE of the new column in rows that meet condition. The UPDATE changes at most rows rows, in
// the order of key. If key is empty, it changes all rows.
func (r *ColumnTypeChange) updateSQL(value, condition string, key []string, rows int) string {
	if len(key) > 0 {
		list := parse.QuoteIdents(key, "")
		condition = fmt.Sprintf("(%s) IN (SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %d)", list, list, r.table, condition, list, rows)
	}
	return fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s", r.table, parse.QuoteIdent(r.NewColumn), value, condition)
}

// NotNullCheck returns the statement that adds a CHECK for NOT NULL to the new column. The CHECK's name is derived from
// the column's final name.
func (r *ColumnTypeChange) NotNullCheck() *AddedConstraints {
	hold := newNotNullCheck(r.table, r.relation, r.NewColumn)
	hold.nameColumns = r.Column
	return r.singleConstraint(r.alterTableSQL("ALTER COLUMN %s SET NOT NULL", r.NewColumn), hold)
}

// singleConstraint returns AddedConstraints for the client's text that add only the constraint a.
func (r *ColumnTypeChange) singleConstraint(text string, a AddedConstraint) *AddedConstraints {
	return &AddedConstraints{Text: text, Table: r.Table, Relation: r.relation, Adds: []AddedConstraint{a}, table: r.table}
}

// ColumnIndex is an index that contains the column whose type changes.
type ColumnIndex struct {
	Name                 string
	Unique, Constraint   bool
	Deferrable, Deferred bool // the UNIQUE constraint is DEFERRABLE, or INITIALLY DEFERRED
	Keys, Including      []string
}

// UniqueConstraint returns the statement that adds a UNIQUE constraint over the new column. i is the UNIQUE index of
// the old column that the constraint replaces. name is the constraint's name.
func (r *ColumnTypeChange) UniqueConstraint(i *ColumnIndex, name string) *AddedConstraints {
	a := AddedConstraint{Kind: Unique, Name: name, Keys: r.withNewColumn(i.Keys), Including: r.withNewColumn(i.Including), table: r.table, relation: r.relation}
	switch {
	case i.Deferred:
		a.timing = " DEFERRABLE INITIALLY DEFERRED"
	case i.Deferrable:
		a.timing = " DEFERRABLE"
	}
	return r.singleConstraint(r.alterTableSQL("ADD CONSTRAINT %s UNIQUE ", name)+indexColumnsSQL(a.Keys, a.Including)+a.timing, a)
}

// indexColumnsSQL returns the columns of an index as SQL: the keys, and the columns of INCLUDE.
func indexColumnsSQL(keys, including []string) string {
	sql := "(" + parse.QuoteIdents(keys, "") + ")"
	if len(including) > 0 {
		sql += " INCLUDE (" + parse.QuoteIdents(including, "") + ")"
	}
	return sql
}

// CopiedConstraint returns the statement that adds to the new column a copy of the old column's CHECK or FOREIGN KEY.
// shown is the old constraint as the catalog shows it, and from is the old column's current name. The result is nil if
// Sluice cannot convert the constraint.
func (r *ColumnTypeChange) CopiedConstraint(shown, from, name string) *AddedConstraints {
	parsed, ok := r.parseConstraint(shown, name)
	if !ok {
		return nil
	}
	constraint := parsed.Node.Child("cmds").Child("def")
	ph, edits, made := parsed.tokens(), []parse.Edit(nil), parse.QuoteIdent(r.NewColumn)
	swap := func(i int) {
		edits = append(edits, parse.Edit{Start: int(ph.Tokens[i].Start), End: int(ph.Tokens[i].End), Text: made})
	}
	switch {
	case parse.ConstraintIs(constraint, parse.CONSTR_CHECK):
		refs := parse.AppendColumnRefs(constraint.Child("raw_expr"), nil)
		slices.SortFunc(refs, func(a, b parse.TreeNode) int { return a.Integer("location") - b.Integer("location") })
		for _, ref := range refs {
			i, names := ph.TokenAt(ref.Integer("location")), ref.Names("fields")
			if i < 0 || len(names) != 1 || len(ref.Values("fields")) != 1 {
				return nil
			}
			if names[0] == from {
				swap(i)
			}
		}
	case parse.ConstraintIs(constraint, parse.CONSTR_FOREIGN) && len(constraint.Values("fk_del_set_cols")) == 0:
		i := ph.TokenAt(constraint.Integer("location")) + 2 // after CONSTRAINT and the name
		listed, keys := ph.ListedNames(i+2), constraint.Names("fk_attrs")
		if !ph.AreKeywords(i, "foreign", "key") || len(listed) != len(keys) {
			return nil
		}
		for n, key := range keys {
			if key == from {
				swap(listed[n])
			}
		}
	}
	if len(edits) == 0 {
		return nil
	}
	text, ok := parse.Apply(string(parsed.Text), edits)
	if !ok {
		return nil
	}
	parsed, ok = r.parseConstraint(strings.TrimPrefix(text, r.addConstraintPrefix(name)), name)
	if !ok {
		return nil
	}
	c := parsed.parseConstraints()
	if c == nil || len(c.Adds) != 1 || len(c.Columns) > 0 {
		return nil
	}
	return c
}

// addConstraintPrefix returns the beginning of an ALTER TABLE that adds a constraint of this name.
func (r *ColumnTypeChange) addConstraintPrefix(name string) string {
	return r.alterTableSQL("ADD CONSTRAINT %s ", name)
}

// parseConstraint parses a constraint that the catalog shows, within an ALTER TABLE that adds it under the name.
func (r *ColumnTypeChange) parseConstraint(shown, name string) (*Draft, bool) {
	text := r.addConstraintPrefix(name) + shown
	tree, err := parse.Tree(text)
	if err != nil || len(tree.Values("stmts")) != 1 {
		return nil, false
	}
	raw := tree.Child("stmts")
	node := raw.Child("stmt")
	if !node.Is("AlterTableStmt") || len(node.Values("cmds")) != 1 || !node.Child("cmds").Child("def").Is("Constraint") {
		return nil, false
	}
	return &Draft{Rules: Rules{Dialect: true, Constraints: true}, Raw: raw, Node: node, Text: []byte(text), End: len(text), Tokens: &parse.TokenCache{}}, true
}

// RenameConstraintSQL returns the statement that renames a constraint of the new column, to the old constraint's name.
func (r *ColumnTypeChange) RenameConstraintSQL(name, to string) string {
	return r.alterTableSQL("RENAME CONSTRAINT %s TO %s", name, to)
}

// withNewColumn returns the names, with the new column's name in place of the old column's.
func (r *ColumnTypeChange) withNewColumn(names []string) []string {
	names = slices.Clone(names)
	for i, name := range names {
		if name == r.Column {
			names[i] = r.NewColumn
		}
	}
	return names
}

// RenameIndexSQL returns the statement that renames an index of the new column, to the old index's name.
func (r *ColumnTypeChange) RenameIndexSQL(schema, name string, i *ColumnIndex) string {
	if i.Constraint {
		return r.alterTableSQL("RENAME CONSTRAINT %s TO %s", name, i.Name)
	}
	return "ALTER INDEX " + parse.QuoteIdent(schema) + "." + parse.QuoteIdent(name) + " RENAME TO " + parse.QuoteIdent(i.Name)
}

// retypeFamilies lists families of types. A conversion within a family keeps, rounds or refuses a value, exactly as an
// assignment does. The result does not depend on session settings.
var retypeFamilies = [][]string{
	{"varchar", "text", "bpchar"},
	{"int2", "int4", "int8", "numeric", "float4", "float8"},
}

// CanRetype reports whether Sluice can convert values from one type to another. The types are names of pg_type.
func CanRetype(from, to string) bool {
	return slices.ContainsFunc(retypeFamilies, func(family []string) bool { return slices.Contains(family, from) && slices.Contains(family, to) })
}

// RetypeHint returns the hint with an added sentence: the advice to enable Rules.Retype.
func RetypeHint(hint string) string {
	return strings.TrimSpace(hint + " Or set " + RetypeKey + " to " + RetypePolicy + ": Sluice then does so.")
}
