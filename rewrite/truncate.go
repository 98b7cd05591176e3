package rewrite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// DSQL has no TRUNCATE. Sluice rewrites a TRUNCATE to one statement that deletes all rows of each table.
//
// TRUNCATE refuses a table that another table references, even if both are empty. DELETE does not refuse it. Therefore
// the rewritten statement also queries the catalog, in its own snapshot. If PostgreSQL would refuse the TRUNCATE, a
// cast in the query fails, and the error contains the reason (TruncationRefusal). No row is deleted in this case.

// TruncatePolicy says what Sluice does with a TRUNCATE.
type TruncatePolicy string

const (
	TruncateRefuse  TruncatePolicy = "refuse"  // the server gets the TRUNCATE, and refuses it
	TruncateDelete  TruncatePolicy = "delete"  // the server gets one statement that deletes all rows
	TruncateBatches TruncatePolicy = "batches" // as TruncateDelete, and beyond the row limit in several transactions
)

// TruncateKey is the configuration key that sets Rules.Truncate.
const TruncateKey = "rewrite.truncate"

// TruncateTag is the command tag that the client of a TRUNCATE gets.
const TruncateTag = "TRUNCATE TABLE"

// Truncation is a TRUNCATE that Sluice rewrites to DELETE.
type Truncation struct {
	Tables  []string // the tables as SQL, for a cast to regclass
	Restart bool     // the TRUNCATE says RESTART IDENTITY
	Cascade bool
	Batches bool // Rules.Truncate allows to delete the rows in several transactions

	qualified bool // the text names a schema for at least one of the tables
}

// rewriteTruncate rewrites a TRUNCATE to DELETE if the rules allow it. Otherwise it sets a hint.
func (r *rewriter) rewriteTruncate(p *statementPart) {
	on := r.rules.Truncate == TruncateDelete || r.rules.Truncate == TruncateBatches
	if !on {
		if r.rules.Dialect {
			p.st.Hint = "Set " + TruncateKey + " to delete, or batches: Sluice then deletes the rows. Or DELETE at most 3,000 rows at a time."
		}
		return
	}
	t := parseTruncate(p.node)
	if t == nil {
		return
	}
	text := t.deleteSQL()
	tree, err := parse.Tree(text)
	if err != nil || len(tree.Values("stmts")) != 1 {
		return
	}
	t.Batches = r.rules.Truncate == TruncateBatches
	p.st.Truncation, p.st.ReplacementTag, p.st.demand.Rows = t, TruncateTag, true
	r.addEdits(parse.Edit{Start: p.st.Start, End: p.st.End, Text: text})
	r.meant.Set(p.raw, "stmt", tree.Child("stmts").Values("stmt")...)
	action := "rewritten to DELETE of all rows, where no other table refers to them"
	if t.Batches {
		action += "; more than a transaction may change are deleted in several, where the statement is sent alone outside of a transaction"
	}
	r.addFinding(finding.Handled(finding.Truncate, finding.Rewritten, finding.Warning, action, p.st.Start))
}

// parseTruncate returns the Truncation of a TRUNCATE, or nil if Sluice cannot rewrite it to DELETE.
func parseTruncate(node parse.TreeNode) *Truncation {
	t := &Truncation{Restart: node.Flag("restart_seqs"), Cascade: parse.DropBehavior(node.Integer("behavior")) == parse.DROP_CASCADE}
	for relation := range node.List("relations") {
		name := parse.RegclassName(relation)
		if relation.Text("catalogname") != "" || strings.HasPrefix(relation.Text("relname"), truncateName) {
			return nil
		}
		t.qualified = t.qualified || relation.Text("schemaname") != ""
		if !slices.Contains(t.Tables, name) { // a TRUNCATE may list the same table twice
			t.Tables = append(t.Tables, name)
		}
	}
	return t
}

// truncateName begins the names of WITH queries in the rewritten TRUNCATE. No table in a TRUNCATE may have such a name.
const truncateName = "sluice truncate"

// deleteSQL returns the statement with DELETE that replaces the TRUNCATE.
func (t *Truncation) deleteSQL() string {
	// If a table is qualified, a WITH query goes first, so that the error of a missing schema names the schema.
	if len(t.Tables) == 1 && !t.qualified {
		return "DELETE FROM " + t.Tables[0] + " WHERE " + t.allowedCondition()
	}
	var b strings.Builder
	fmt.Fprintf(&b, `WITH "%s" AS MATERIALIZED (SELECT %s AS allowed)`, truncateName, t.allowedCondition())
	for i, table := range t.Tables[:len(t.Tables)-1] {
		fmt.Fprintf(&b, `, "%s %d" AS (DELETE FROM %s WHERE (SELECT allowed FROM "%s"))`, truncateName, i, table, truncateName)
	}
	fmt.Fprintf(&b, ` DELETE FROM %s WHERE (SELECT allowed FROM "%s")`, t.Tables[len(t.Tables)-1], truncateName)
	return b.String()
}

// refusedBy precedes the reason in the error for a refused TRUNCATE. Its last byte also separates reason and names.
const refusedBy = "sluice\x01"

// allowedCondition returns an SQL condition that is true for all rows, or fails if PostgreSQL would refuse the
// TRUNCATE.
func (t *Truncation) allowedCondition() string {
	oids := make([]string, len(t.Tables))
	for i, table := range t.Tables {
		oids[i] = parse.QuoteLiteral(table) + "::pg_catalog.regclass"
	}
	list := strings.Join(oids, ", ")
	reason := func(parts ...string) string {
		return "'sluice' || pg_catalog.chr(1) || " + strings.Join(parts, " || pg_catalog.chr(1) || ")
	}
	reasons := []string{
		"(SELECT " + reason("'kind'", "c.relname") + " FROM pg_catalog.pg_class c WHERE c.oid IN (" + list + ") AND c.relkind NOT IN ('r', 'p') LIMIT 1)",
		"(SELECT " + reason("'system'", "c.relname") + " FROM pg_catalog.pg_class c WHERE c.oid IN (" + list + ") AND c.oid < 16384 LIMIT 1)",
		"(SELECT " + reason("'key'", "r.relname", "c.relname") + " FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class r ON r.oid = k.conrelid" +
			" JOIN pg_catalog.pg_class c ON c.oid = k.confrelid WHERE k.contype = 'f' AND k.confrelid IN (" + list + ") AND k.conrelid NOT IN (" + list + ")" +
			" ORDER BY pg_catalog.array_position(ARRAY[" + list + "]::pg_catalog.oid[], k.confrelid), k.conrelid LIMIT 1)",
	}
	if t.Restart {
		reasons = append(reasons, "(SELECT "+reason("'sequence'", "q.relname", "c.relname")+" FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_class q ON q.oid = d.objid AND q.relkind = 'S'"+
			" JOIN pg_catalog.pg_class c ON c.oid = d.refobjid WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refclassid = d.classid AND d.refobjid IN ("+list+
			") AND d.deptype IN ('a', 'i') ORDER BY 1 LIMIT 1)")
	}
	return "(SELECT CASE WHEN q.reason IS NULL THEN true ELSE CAST(q.reason AS pg_catalog.bool) END FROM (SELECT COALESCE(" + strings.Join(reasons, ", ") + ") AS reason) q)"
}

// TruncationRefusal converts a server error about the rewritten statement to an error about TRUNCATE. It returns nil if
// the client gets the server's error unchanged.
func (t *Truncation) TruncationRefusal(code, message string) *Refusal {
	if _, parts, ok := strings.Cut(message, refusedBy); ok && code == "22P02" {
		of := strings.Split(strings.TrimSuffix(parts, `"`), "\x01")
		for len(of) < 3 {
			of = append(of, "")
		}
		return t.refusalFor(of[0], of[1], of[2])
	}
	_, name, _ := strings.Cut(message, `"`)
	name, _, _ = strings.Cut(name, `"`)
	switch {
	case strings.HasPrefix(message, "cannot execute DELETE "): // the error of a READ ONLY transaction
		return &Refusal{Code: code, Message: strings.Replace(message, "DELETE", TruncateTag, 1)}
	case code == "55000" && strings.HasPrefix(message, "cannot delete from view"), code == "42809" && name != "":
		return t.refusalFor("kind", name, "")
	}
	return nil
}

// refusalFor returns the client's error for a TRUNCATE. Its arguments come from the server's error (allowedCondition).
func (t *Truncation) refusalFor(reason, name, other string) *Refusal {
	switch reason {
	case "kind":
		return &Refusal{Code: "42809", Message: fmt.Sprintf("\"%s\" is not a table", name)}
	case "system":
		return &Refusal{Code: "42501", Message: fmt.Sprintf("permission denied: \"%s\" is a system catalog", name)}
	case "sequence":
		return &Refusal{Code: "0A000", Message: "TRUNCATE ... RESTART IDENTITY is not supported for a table with a sequence",
			Detail: fmt.Sprintf("The sequence \"%s\" belongs to \"%s\". It could not be restarted in the transaction that deletes the rows.", name, other),
			Hint:   "Leave RESTART IDENTITY out. To begin anew behind it, while nobody inserts: SELECT setval('" + name + "', 1, false)."}
	}
	message, hint := "cannot truncate a table referenced in a foreign key constraint", fmt.Sprintf("Truncate table \"%s\" at the same time.", name)
	if t.Cascade {
		message = "TRUNCATE ... CASCADE is not supported where another table refers to the one"
		hint = fmt.Sprintf("Name \"%s\" in the statement, which is then truncated as well.", name)
	}
	return &Refusal{Code: "0A000", Message: message, Detail: fmt.Sprintf("Table \"%s\" references \"%s\".", name, other), Hint: hint}
}

// batchedDelete returns the BatchedDelete that carries out the TRUNCATE in batches, one table after the other.
func (t *Truncation) batchedDelete() *BatchedDelete {
	c := &BatchedDelete{truncates: t, Table: t.Tables[0]}
	for _, table := range t.Tables {
		c.each = append(c.each, &BatchedDelete{truncates: t, Table: table, head: "DELETE FROM " + table + " WHERE", condition: t.allowedCondition()})
	}
	return c
}

// ForeignKeysQuery returns a query for the foreign keys between tables of the TRUNCATE. The query returns the
// positions of the referencing and of the referenced table in Tables, and the ON DELETE action.
func (t *Truncation) ForeignKeysQuery() string {
	oids := make([]string, len(t.Tables))
	for i, table := range t.Tables {
		oids[i] = parse.QuoteLiteral(table) + "::pg_catalog.regclass"
	}
	list := strings.Join(oids, ", ")
	place := func(column string) string {
		return "pg_catalog.array_position(ARRAY[" + list + "]::pg_catalog.oid[], " + column + ") - 1"
	}
	return "SELECT " + place("conrelid") + ", " + place("confrelid") + ", confdeltype FROM pg_catalog.pg_constraint WHERE contype = 'f' AND confrelid IN (" + list + ") AND conrelid IN (" + list + ")"
}
