package rewrite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// DSQL cannot change a column's type. Sluice adds a column of the new type, copies the values, and exchanges the names
// (Retyping). The column becomes the table's last, so the configuration must allow the change (RetypeKey).

// RetypeKey is the configuration key of Rules.Retype.
const RetypeKey = "ddl.alter_column_type"

// retypePolicy is the value of RetypeKey that enables Rules.Retype.
const retypePolicy = "rewrite"

// retypes plans a change of a column's type.
func (r *rewriter) retypes(p *part, a *Alteration) {
	switch a.Retypes = r.rules.Retype && a.retypable(); {
	case !a.Retypes:
		p.st.Hint = a.Rebuild(ColumnFacts{})
		return
	case len(r.parts) > 1:
		p.st.Hint = a.Rebuild(ColumnFacts{}) + " Or send the statement alone, outside of a transaction: Sluice then does so (" + RetypeKey + ")."
		return
	}
	a.Checks = r.rules.NotNullCheck
	p.st.Hint = "Send the statement alone outside of a transaction: it is then carried out (" + RetypeKey + ")."
	r.find(handled(AlterType, Rewritten, Warning, "carried out in several transactions: a column of the type takes the other's place, and becomes the table's last", p.st.Start))
}

// retypable reports whether the steps have the client's type, and whether the column's temporary names fit.
func (a *Alteration) retypable() bool {
	if len(a.Column) > parse.MaxName-apartSuffix-3 {
		return false
	}
	add, err := parse.Tree(a.Apart("00000000").Add())
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
	return (parse.Intents{}).Equal(column.Child("type_name"), a.kind) && (parse.Intents{}).Equal(kind, a.kind)
}

// apartSuffix is the length in bytes that Retyping adds to a column's name.
const apartSuffix = len("__new_00000000")

// Retyping is a change of a column's type in progress. Made is the temporary name of the new column, which
// later gets the final name. Was is then the name of the old column.
type Retyping struct {
	*Alteration
	Made, Was string
}

// Apart returns a Retyping whose temporary names end with digits, which must be unique to the statement.
func (a *Alteration) Apart(digits string) *Retyping {
	return &Retyping{Alteration: a, Made: a.Column + "__new_" + digits, Was: a.Column + "__was_" + digits}
}

// alter returns an ALTER TABLE with a command, in which each %s is replaced by a quoted name.
func (r *Retyping) alter(command string, names ...string) string {
	quoted := make([]any, len(names))
	for i, name := range names {
		quoted[i] = parse.Identifier(name)
	}
	return "ALTER TABLE " + r.table + " " + fmt.Sprintf(command, quoted...)
}

// Add returns the statement that adds the column of the new type.
func (r *Retyping) Add() string { return r.alter("ADD COLUMN %s ", r.Made) + r.Type }

// Leave returns the statement that renames the old column to Was. Return returns the one that renames it back.
func (r *Retyping) Leave() string  { return r.alter("RENAME COLUMN %s TO %s", r.Column, r.Was) }
func (r *Retyping) Return() string { return r.alter("RENAME COLUMN %s TO %s", r.Was, r.Column) }

// Arrive returns the statement that gives the new column the final name.
func (r *Retyping) Arrive() string { return r.alter("RENAME COLUMN %s TO %s", r.Made, r.Column) }

// DropMade returns the statement that drops the new column. DropWas returns the one that drops the old column.
func (r *Retyping) DropMade() string { return r.alter("DROP COLUMN %s", r.Made) }
func (r *Retyping) DropWas() string  { return r.alter("DROP COLUMN %s", r.Was) }

// SetDefault returns the statement that gives the new column the default of the old one.
func (r *Retyping) SetDefault(value string) string {
	return r.alter("ALTER COLUMN %s SET DEFAULT ", r.Made) + value
}

// Fill returns the UPDATE that copies values to rows whose new column is NULL. from is the current name of the
// old column. As in ALTER TABLE, values are converted by an assignment cast unless USING casts them. rows
// bounds the number of rows, unless key is empty.
func (r *Retyping) Fill(from string, key []string, rows int) string {
	return r.update(r.value(from), parse.Identifier(r.Made)+" IS NULL AND "+parse.Identifier(from)+" IS NOT NULL", key, rows)
}

// value returns the SQL value of the new column, computed from the old one.
func (r *Retyping) value(from string) string {
	if r.casts {
		return r.cast(from)
	}
	return parse.Identifier(from)
}

// Clear returns the UPDATE that sets the new column to NULL where the old column's value has changed. It compares
// values as text, which distinguishes numbers of different scale. It also compares them directly, because the text of a
// float depends on extra_float_digits.
func (r *Retyping) Clear(from string, key []string, rows int) string {
	made, cast := parse.Identifier(r.Made), r.cast(from)
	return r.update("NULL", fmt.Sprintf("%s IS NOT NULL AND (CAST(%s AS text) IS DISTINCT FROM CAST(%s AS text) OR %s <> %s)", made, made, cast, made, cast), key, rows)
}

// Seal returns the statement that adds a CHECK that both columns have the same value. INSERT and COPY without
// column names would otherwise write only the old column. Dropping either column also drops the CHECK.
func (r *Retyping) Seal(from, name string) string {
	return r.alter("ADD CONSTRAINT %s CHECK (", name) + r.settled(from) + ") NOT VALID"
}

// Unseal returns the statement that drops the CHECK of Seal if it exists.
func (r *Retyping) Unseal(name string) string { return r.alter("DROP CONSTRAINT IF EXISTS %s", name) }

// Settle returns the UPDATE that copies the values that differ. It sets no NULL in between, so that the CHECKs of Seal
// and NotNull hold. At this step no value moves between rows any more, so the copy is safe.
func (r *Retyping) Settle(from string, key []string, rows int) string {
	return r.update(r.value(from), "NOT ("+r.settled(from)+")", key, rows)
}

// settled returns a condition that both columns have the same value. It is never NULL, and compares as Clear does.
func (r *Retyping) settled(from string) string {
	made, was, cast := parse.Identifier(r.Made), parse.Identifier(from), r.cast(from)
	return fmt.Sprintf("(%s IS NULL AND %s IS NULL) OR (%s IS NOT NULL AND %s IS NOT NULL AND CAST(%s AS text) = CAST(%s AS text) AND %s = %s)", made, was, made, was, made, cast, made, cast)
}

// cast returns the old column, cast to the new type.
func (r *Retyping) cast(from string) string {
	return "CAST(" + parse.Identifier(from) + " AS " + r.Type + ")"
}

// update returns an UPDATE of the new column in rows that meet condition, in the order of key. rows is the
// maximum number of rows, but an empty key updates all of them.
func (r *Retyping) update(value, condition string, key []string, rows int) string {
	if len(key) > 0 {
		list := identifiers(key, "")
		condition = fmt.Sprintf("(%s) IN (SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %d)", list, list, r.table, condition, list, rows)
	}
	return fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s", r.table, parse.Identifier(r.Made), value, condition)
}

// NotNull returns the statement that adds the CHECK for NOT NULL to the new column. The CHECK gets the name
// that it would have for the final column.
func (r *Retyping) NotNull() *Constraints {
	hold := holdsNotNull(r.table, r.relation, r.Made)
	hold.nameColumns = r.Column
	return r.constraints(r.alter("ALTER COLUMN %s SET NOT NULL", r.Made), hold)
}

// constraints returns a Constraints with one addition.
func (r *Retyping) constraints(text string, a Addition) *Constraints {
	return &Constraints{Text: text, Table: r.Table, Relation: r.relation, Adds: []Addition{a}, table: r.table}
}

// ColumnIndex is an index that contains the column whose type changes.
type ColumnIndex struct {
	Name                 string
	Unique, Constraint   bool
	Deferrable, Deferred bool // the UNIQUE constraint is DEFERRABLE, or INITIALLY DEFERRED
	Keys, Including      []string
}

// Key returns the statement that adds a UNIQUE constraint over the new column, like that of index i, with another name.
func (r *Retyping) Key(i *ColumnIndex, name string) *Constraints {
	a := Addition{Kind: Unique, Name: name, Keys: r.swapped(i.Keys), Including: r.swapped(i.Including), table: r.table, relation: r.relation}
	switch {
	case i.Deferred:
		a.timing = " DEFERRABLE INITIALLY DEFERRED"
	case i.Deferrable:
		a.timing = " DEFERRABLE"
	}
	return r.constraints(r.alter("ADD CONSTRAINT %s UNIQUE ", name)+columnsOf(a.Keys, a.Including)+a.timing, a)
}

// columnsOf returns the column list of an index as SQL.
func columnsOf(keys, including []string) string {
	sql := "(" + identifiers(keys, "") + ")"
	if len(including) > 0 {
		sql += " INCLUDE (" + identifiers(including, "") + ")"
	}
	return sql
}

// Held returns the statement that adds a CHECK or FOREIGN KEY to the new column. shown is the old column's
// constraint as the catalog shows it, and from the old column's current name. The result is nil if the
// constraint cannot be converted.
func (r *Retyping) Held(shown, from, name string) *Constraints {
	parsed, ok := r.reads(shown, name)
	if !ok {
		return nil
	}
	constraint := parsed.parts[0].node.Child("cmds").Child("def")
	ph, edits, made := parsed.phrase(&parsed.parts[0]), []parse.Edit(nil), parse.Identifier(r.Made)
	swap := func(i int) {
		edits = append(edits, parse.Edit{Start: int(ph.Tokens[i].Start), End: int(ph.Tokens[i].End), Text: made})
	}
	switch {
	case parse.ConstraintIs(constraint, parse.CONSTR_CHECK):
		refs := columnRefs(constraint.Child("raw_expr"), nil)
		slices.SortFunc(refs, func(a, b parse.Message) int { return a.Integer("location") - b.Integer("location") })
		for _, ref := range refs {
			i, names := ph.At(ref.Integer("location")), ref.Names("fields")
			if i < 0 || len(names) != 1 || len(ref.Values("fields")) != 1 {
				return nil
			}
			if names[0] == from {
				swap(i)
			}
		}
	case parse.ConstraintIs(constraint, parse.CONSTR_FOREIGN) && len(constraint.Values("fk_del_set_cols")) == 0:
		i := ph.At(constraint.Integer("location")) + 2 // after CONSTRAINT and the name
		listed, keys := ph.Listed(i+2), constraint.Names("fk_attrs")
		if !ph.Words(i, "foreign", "key") || len(listed) != len(keys) {
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
	text, ok := parse.Apply(string(parsed.text), edits)
	if !ok {
		return nil
	}
	parsed, ok = r.reads(strings.TrimPrefix(text, r.holding(name)), name)
	if !ok {
		return nil
	}
	c := parsed.constraintsOf(&parsed.parts[0])
	if c == nil || len(c.Adds) != 1 || len(c.Columns) > 0 {
		return nil
	}
	return c
}

// holding returns the beginning of the statement that adds a constraint with a name.
func (r *Retyping) holding(name string) string { return r.alter("ADD CONSTRAINT %s ", name) }

// reads parses a constraint that the catalog shows, as part of a statement that adds it with a name.
func (r *Retyping) reads(shown, name string) (*rewriter, bool) {
	text := r.holding(name) + shown
	tree, err := parse.Tree(text)
	if err != nil || len(tree.Values("stmts")) != 1 {
		return nil, false
	}
	_, parts := build(text, tree)
	if len(parts) != 1 || !parts[0].node.Is("AlterTableStmt") || len(parts[0].node.Values("cmds")) != 1 || !parts[0].node.Child("cmds").Child("def").Is("Constraint") {
		return nil, false
	}
	return &rewriter{rules: &Rules{Dialect: true, Constraints: true}, text: []byte(text), parts: parts, meant: parse.Intents{}}, true
}

// NameHeld returns the statement that gives a constraint of the new column the old constraint's name.
func (r *Retyping) NameHeld(name, to string) string {
	return r.alter("RENAME CONSTRAINT %s TO %s", name, to)
}

// swapped returns the column names with the new column instead of the old one.
func (r *Retyping) swapped(names []string) []string {
	names = slices.Clone(names)
	for i, name := range names {
		if name == r.Column {
			names[i] = r.Made
		}
	}
	return names
}

// NameIndex returns the statement that gives an index of the new column the old index's name.
func (r *Retyping) NameIndex(schema, name string, i *ColumnIndex) string {
	if i.Constraint {
		return r.alter("RENAME CONSTRAINT %s TO %s", name, i.Name)
	}
	return "ALTER INDEX " + parse.Identifier(schema) + "." + parse.Identifier(name) + " RENAME TO " + parse.Identifier(i.Name)
}

// retypes lists families of types. Within a family a conversion keeps the value, or refuses or rounds it as an
// assignment does. The result does not depend on session settings.
var retypes = [][]string{
	{"varchar", "text", "bpchar"},
	{"int2", "int4", "int8", "numeric", "float4", "float8"},
}

// CanRetype reports whether values of type from can be converted to type to. from and to are names of pg_type.
func CanRetype(from, to string) bool {
	return slices.ContainsFunc(retypes, func(family []string) bool { return slices.Contains(family, from) && slices.Contains(family, to) })
}

// RetypeHint returns a hint with the advice to enable Rules.Retype.
func RetypeHint(hint string) string {
	return strings.TrimSpace(hint + " Or set " + RetypeKey + " to " + retypePolicy + ": Sluice then does so.")
}
