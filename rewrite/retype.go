package rewrite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// The statements by which a column gets another type on DSQL, which has none for it: a column
// of the type is added, is given the values, and takes the other's place (Retyping). It becomes
// the table's last column, so that this is asked for (RetypeKey).

// RetypeKey is the configuration key of Rules.Retype.
const RetypeKey = "ddl.alter_column_type"

// retypePolicy is the value that sets it.
const retypePolicy = "rewrite"

// retypes looks at a change of type.
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

// retypable reports whether the statements that are made of the pieces mean the client's type,
// and whether there is room for their names.
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

// apartSuffix is how much longer the names of Retyping are than the column's.
const apartSuffix = len("__new_00000000")

// Retyping is a change of a column's type that is being carried out: Made is the new column
// until it takes the name, and Was the old one from then on.
type Retyping struct {
	*Alteration
	Made, Was string
}

// Apart names the columns by digits that no other such statement has.
func (a *Alteration) Apart(digits string) *Retyping {
	return &Retyping{Alteration: a, Made: a.Column + "__new_" + digits, Was: a.Column + "__was_" + digits}
}

// alter is a command of ALTER TABLE.
func (r *Retyping) alter(command string, names ...string) string {
	quoted := make([]any, len(names))
	for i, name := range names {
		quoted[i] = parse.Identifier(name)
	}
	return "ALTER TABLE " + r.table + " " + fmt.Sprintf(command, quoted...)
}

// Add adds the new column.
func (r *Retyping) Add() string { return r.alter("ADD COLUMN %s ", r.Made) + r.Type }

// Leave takes the name from the old column, and Return gives it back.
func (r *Retyping) Leave() string  { return r.alter("RENAME COLUMN %s TO %s", r.Column, r.Was) }
func (r *Retyping) Return() string { return r.alter("RENAME COLUMN %s TO %s", r.Was, r.Column) }

// Arrive gives the name to the new column.
func (r *Retyping) Arrive() string { return r.alter("RENAME COLUMN %s TO %s", r.Made, r.Column) }

// DropMade and DropWas drop a column.
func (r *Retyping) DropMade() string { return r.alter("DROP COLUMN %s", r.Made) }
func (r *Retyping) DropWas() string  { return r.alter("DROP COLUMN %s", r.Was) }

// SetDefault gives the new column the old one's default.
func (r *Retyping) SetDefault(value string) string {
	return r.alter("ALTER COLUMN %s SET DEFAULT ", r.Made) + value
}

// Fill gives the new column the values of the old one, which has that name by now, where it has
// none: as ALTER TABLE does, by a cast as for an assignment unless USING says otherwise.
func (r *Retyping) Fill(from string, key []string, rows int) string {
	return r.update(r.value(from), parse.Identifier(r.Made)+" IS NULL AND "+parse.Identifier(from)+" IS NOT NULL", key, rows)
}

// value is what the new column gets of the old one.
func (r *Retyping) value(from string) string {
	if r.casts {
		return r.cast(from)
	}
	return parse.Identifier(from)
}

// Clear takes from the new column the values that the old one has no more. They are compared as
// text, by which equal numbers of another scale differ, and as they are: how many digits of a float
// its text has is a setting of the client's (extra_float_digits).
func (r *Retyping) Clear(from string, key []string, rows int) string {
	made, cast := parse.Identifier(r.Made), r.cast(from)
	return r.update("NULL", fmt.Sprintf("%s IS NOT NULL AND (CAST(%s AS text) IS DISTINCT FROM CAST(%s AS text) OR %s <> %s)", made, made, cast, made, cast), key, rows)
}

// Seal refuses a row whose new column has not the value of the old one, which has that name by now: an
// INSERT or COPY without names of columns still writes the old one by its place. The server drops it with
// either column.
func (r *Retyping) Seal(from, name string) string {
	return r.alter("ADD CONSTRAINT %s CHECK (", name) + r.settled(from) + ") NOT VALID"
}

// Unseal takes that back, where it is there.
func (r *Retyping) Unseal(name string) string { return r.alter("DROP CONSTRAINT IF EXISTS %s", name) }

// Settle gives the new column the values of the old one where they differ, in a way that a seal and a CHECK
// for NOT NULL let pass: no value goes to another row any more, so that none is taken away first.
func (r *Retyping) Settle(from string, key []string, rows int) string {
	return r.update(r.value(from), "NOT ("+r.settled(from)+")", key, rows)
}

// settled is a condition that is never NULL: the new column has the value of the old one. They are compared
// as Clear does.
func (r *Retyping) settled(from string) string {
	made, was, cast := parse.Identifier(r.Made), parse.Identifier(from), r.cast(from)
	return fmt.Sprintf("(%s IS NULL AND %s IS NULL) OR (%s IS NOT NULL AND %s IS NOT NULL AND CAST(%s AS text) = CAST(%s AS text) AND %s = %s)", made, was, made, was, made, cast, made, cast)
}

// cast is the old column as a value of the type.
func (r *Retyping) cast(from string) string {
	return "CAST(" + parse.Identifier(from) + " AS " + r.Type + ")"
}

// update sets the new column in so many rows, in the order of the table's key, or in all where
// that has no columns.
func (r *Retyping) update(value, condition string, key []string, rows int) string {
	if len(key) > 0 {
		list := identifiers(key, "")
		condition = fmt.Sprintf("(%s) IN (SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %d)", list, list, r.table, condition, list, rows)
	}
	return fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s", r.table, parse.Identifier(r.Made), value, condition)
}

// NotNull is a statement that holds the new column to NOT NULL, by a CHECK of the name that one
// for the column has.
func (r *Retyping) NotNull() *Constraints {
	hold := holdsNotNull(r.table, r.relation, r.Made)
	hold.second = r.Column
	return r.constraints(r.alter("ALTER COLUMN %s SET NOT NULL", r.Made), hold)
}

// constraints is a statement that adds one constraint.
func (r *Retyping) constraints(text string, a Addition) *Constraints {
	return &Constraints{Text: text, Table: r.Table, Relation: r.relation, Adds: []Addition{a}, table: r.table}
}

// ColumnIndex is an index over columns of a table, one of which gets another type.
type ColumnIndex struct {
	Name                 string
	Unique, Constraint   bool
	Deferrable, Deferred bool // of a constraint
	Keys, Including      []string
}

// Key is the statement that makes a UNIQUE constraint like that of an index, over the new column
// and under another name.
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

// columnsOf are the columns of an index.
func columnsOf(keys, including []string) string {
	sql := "(" + identifiers(keys, "") + ")"
	if len(including) > 0 {
		sql += " INCLUDE (" + identifiers(including, "") + ")"
	}
	return sql
}

// Held is the statement that holds the new column to a CHECK or FOREIGN KEY like one that the catalog
// shows of the old column, which has that name by now; nil where none can be made of it. PostgreSQL
// reads what the catalog shows in the same way.
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
		i := ph.At(constraint.Integer("location")) + 2 // behind CONSTRAINT and the name
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

// holding is what a statement begins with that adds a constraint of that name.
func (r *Retyping) holding(name string) string { return r.alter("ADD CONSTRAINT %s ", name) }

// reads reads a constraint as the catalog shows it, in a statement that adds it under that name.
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

// NameHeld gives such a constraint the name of the old column's.
func (r *Retyping) NameHeld(name, to string) string {
	return r.alter("RENAME CONSTRAINT %s TO %s", name, to)
}

// swapped are names of columns, the new one in the place of the old.
func (r *Retyping) swapped(names []string) []string {
	names = slices.Clone(names)
	for i, name := range names {
		if name == r.Column {
			names[i] = r.Made
		}
	}
	return names
}

// NameIndex gives an index of the new column the name of the old one's.
func (r *Retyping) NameIndex(schema, name string, i *ColumnIndex) string {
	if i.Constraint {
		return r.alter("RENAME CONSTRAINT %s TO %s", name, i.Name)
	}
	return "ALTER INDEX " + parse.Identifier(schema) + "." + parse.Identifier(name) + " RENAME TO " + parse.Identifier(i.Name)
}

// Explicit names of PostgreSQL's types between which a value keeps its meaning, or is refused or
// rounded as an assignment does, whatever the session's settings are.
var retypes = [][]string{
	{"varchar", "text", "bpchar"},
	{"int2", "int4", "int8", "numeric", "float4", "float8"},
}

// CanRetype reports whether values of one of PostgreSQL's types become such of another, by the
// names that its catalog has.
func CanRetype(from, to string) bool {
	return slices.ContainsFunc(retypes, func(family []string) bool { return slices.Contains(family, from) && slices.Contains(family, to) })
}

// RetypeHint is how to have a change of type carried out.
func RetypeHint(hint string) string {
	return strings.TrimSpace(hint + " Or set " + RetypeKey + " to " + retypePolicy + ": Sluice then does so.")
}
