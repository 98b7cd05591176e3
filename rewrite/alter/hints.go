package alter

import (
	"fmt"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// The hints in this file list statements that a person can run if Sluice does not carry out an ALTER TABLE.

// NotNullHint returns a hint with statements that a person can run: they forbid NULL in the added column by a CHECK.
func (a *Alteration) NotNullHint() string { return a.notNullStatements(a.column, a.Column) }

// notNullStatements returns the statements that add and validate a CHECK against NULL in a column. column is the column
// as SQL, and name is its name without SQL quotes.
func (a *Alteration) notNullStatements(column, name string) string {
	name = parse.QuoteIdent(name + "_not_null")
	return fmt.Sprintf("ALTER TABLE %s ADD CONSTRAINT %s CHECK (%s IS NOT NULL) NOT VALID; ALTER TABLE ASYNC %s VALIDATE CONSTRAINT %s",
		a.table, name, column, a.table, name)
}

// eachAlone introduces the list of statements in a hint about an ALTER TABLE.
const eachAlone = "each in a transaction of its own: "

// addHint returns the hint with the statements that add the column. It also names the configuration key with which
// Sluice would run them.
func (a *Alteration) addHint() string {
	return a.AddStepsHint() + " Or set " + AddColumnDefaultKey + " to " + BackfillPolicy + ": Sluice then does so."
}

// AddStepsHint returns the hint with the statements that a person can run to add the column.
func (a *Alteration) AddStepsHint() string {
	if a.Own != nil {
		return finding.Sentence(finding.Remedy(finding.AddSerial))
	}
	hint := fmt.Sprintf("Write, "+eachAlone+"ALTER TABLE %s ADD COLUMN %s %s; ALTER TABLE %s ALTER COLUMN %s SET DEFAULT %s; "+
		"UPDATE %s SET %s = DEFAULT WHERE %s IS NULL, at most 3,000 rows at a time.",
		a.table, a.column, a.Type, a.table, a.column, a.Default, a.table, a.column, a.column)
	if a.Held != nil {
		hint += " Then " + strings.ReplaceAll(strings.Join(a.Held.stepStatements(), "; "), parse.QuoteIdent(a.TemporaryName()), a.column) + "."
	}
	if a.NotNull && (a.Held == nil || !a.Held.hasNotNull()) {
		hint += " In the place of NOT NULL, behind these: " + a.NotNullHint() + "."
	}
	return hint
}

// ColumnFacts are what the catalog says about the column that an ALTER TABLE changes.
type ColumnFacts struct {
	Type     string // the column's present type, as format_type() shows it
	IsOfType bool   // the ALTER TABLE names the present type, perhaps with another modifier
	InKey    bool   // the column is in the table's primary key
	NotNull  bool
	Default  string   // the column's default as SQL; "" for none
	Indexes  []string // the indexes that contain the column
}

// HasNewType reports whether the column already has the type, and the type modifier, that the ALTER TABLE names.
func (a *Alteration) HasNewType(facts ColumnFacts) bool {
	tree, err := parse.Tree("SELECT NULL::" + facts.Type)
	if err != nil || !facts.IsOfType {
		return false
	}
	shown := tree.Child("stmts").Child("stmt").Child("target_list").Child("val").Child("type_name")
	return listsEqual(a.kind, shown, "typmods") && listsEqual(a.kind, shown, "array_bounds")
}

// listsEqual reports whether the nodes a and b have equal items in the list field.
func listsEqual(a, b parse.TreeNode, field string) bool {
	var of [2][]parse.TreeNode
	for i, m := range [2]parse.TreeNode{a, b} {
		for item := range m.List(field) {
			of[i] = append(of[i], item)
		}
	}
	if len(of[0]) != len(of[1]) {
		return false
	}
	for i := range of[0] {
		if !(parse.TreeChanges{}).Equal(of[0][i], of[1][i]) {
			return false
		}
	}
	return true
}

// RebuildHint returns the hint with the statements that a person can run to change the column's type.
func (a *Alteration) RebuildHint(facts ColumnFacts) string {
	if facts.InKey {
		return fmt.Sprintf("The column is in the primary key, and cannot be dropped. Make the table anew while nothing writes to it, "+eachAlone+
			"CREATE TABLE %s with %s %s and all else as it is; INSERT INTO it SELECT ... FROM %s, at most 3,000 rows at a time; DROP TABLE %s; ALTER TABLE ... RENAME TO it; its indexes.",
			parse.QuoteIdent(a.TableName()+"_new"), a.column, a.Type, a.table, a.table)
	}
	made := parse.QuoteIdent(a.Column + "_new")
	steps := []string{
		fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", a.table, made, a.Type),
		fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s IS NULL AND %s IS NOT NULL, at most 3,000 rows at a time", a.table, made, a.column, made, a.column),
		fmt.Sprintf("ALTER TABLE %s DROP COLUMN %s", a.table, a.column),
		fmt.Sprintf("ALTER TABLE %s RENAME COLUMN %s TO %s", a.table, made, a.column),
	}
	if facts.Default != "" {
		steps = append(steps, fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s SET DEFAULT %s", a.table, a.column, facts.Default))
	}
	if facts.NotNull {
		steps = append(steps, a.notNullStatements(a.column, a.Column))
	}
	hint := "Make the column anew while nothing writes to it, " + eachAlone + strings.Join(steps, "; ") + "."
	if len(facts.Indexes) > 0 {
		hint += " Create anew what goes with the old column: " + strings.Join(facts.Indexes, ", ") + "."
	}
	return hint
}

// TableName returns the altered table's name without its schema.
func (a *Alteration) TableName() string { return a.relation }
