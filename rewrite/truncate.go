package rewrite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// TRUNCATE, which DSQL has not: as DELETE of all rows, one for each table, in one statement.
//
// TRUNCATE refuses a table that another one refers to, whether there are rows or not, and fires
// nothing, while a DELETE does what a foreign key says. So the catalog is asked by the statement
// itself, in its own snapshot: where it must be refused, a cast fails whose error has the reason
// in it (TruncationRefusal), and no row is deleted.

// TruncatePolicy is what becomes of TRUNCATE.
type TruncatePolicy string

const (
	TruncateRefuse  TruncatePolicy = "refuse"  // it is left to the server
	TruncateDelete  TruncatePolicy = "delete"  // a DELETE
	TruncateBatches TruncatePolicy = "batches" // also of more rows than a transaction may change, where it stands alone
)

// TruncateKey is the configuration key of Rules.Truncate.
const TruncateKey = "rewrite.truncate"

// TruncateTag is the tag that the client is to see.
const TruncateTag = "TRUNCATE TABLE"

// Truncation is a TRUNCATE that a DELETE stands for.
type Truncation struct {
	Tables  []string // for a cast to regclass
	Restart bool     // RESTART IDENTITY
	Cascade bool

	qualified bool // a table is named with its schema
}

// truncate is the rule.
func (r *rewriter) truncate(p *part) {
	on := r.rules.Truncate == TruncateDelete || r.rules.Truncate == TruncateBatches
	if !on {
		if r.rules.Dialect {
			p.st.Hint = "Set " + TruncateKey + " to delete, or batches: Sluice then deletes the rows. Or DELETE at most 3,000 rows at a time."
		}
		return
	}
	t := truncationOf(p.node)
	if t == nil {
		return
	}
	text := t.text()
	tree, err := parse.Tree(text)
	if err != nil || len(tree.Values("stmts")) != 1 {
		return
	}
	p.st.Truncation, p.st.Retag, p.st.demand.Rows = t, TruncateTag, true
	r.edit(parse.Edit{Start: p.st.Start, End: p.st.End, Text: text})
	r.meant.Set(p.raw, "stmt", tree.Child("stmts").Values("stmt")...)
	action := "rewritten to DELETE of all rows, where no other table refers to them"
	if r.rules.Truncate == TruncateBatches {
		action += "; more than a transaction may change are deleted in several, where the statement is sent alone outside of a transaction"
	}
	r.find(handled(Truncate, Rewritten, Warning, action, p.st.Start))
}

// truncationOf reads a TRUNCATE; nil for one that no DELETE stands for.
func truncationOf(node parse.Message) *Truncation {
	t := &Truncation{Restart: node.Flag("restart_seqs"), Cascade: parse.DropBehavior(node.Integer("behavior")) == parse.DROP_CASCADE}
	for relation := range node.List("relations") {
		name := regclass(relation)
		if relation.Text("catalogname") != "" || strings.HasPrefix(relation.Text("relname"), truncateName) {
			return nil
		}
		t.qualified = t.qualified || relation.Text("schemaname") != ""
		if !slices.Contains(t.Tables, name) { // the same one may have two names
			t.Tables = append(t.Tables, name)
		}
	}
	return t
}

// truncateName begins the names of queries in the statement, which no table of it may have.
const truncateName = "sluice truncate"

// text is the DELETE.
func (t *Truncation) text() string {
	// The WITH is looked at first, and tells of a schema that is not there.
	if len(t.Tables) == 1 && !t.qualified {
		return "DELETE FROM " + t.Tables[0] + " WHERE " + t.allowed()
	}
	var b strings.Builder
	fmt.Fprintf(&b, `WITH "%s" AS MATERIALIZED (SELECT %s AS allowed)`, truncateName, t.allowed())
	for i, table := range t.Tables[:len(t.Tables)-1] {
		fmt.Fprintf(&b, `, "%s %d" AS (DELETE FROM %s WHERE (SELECT allowed FROM "%s"))`, truncateName, i, table, truncateName)
	}
	fmt.Fprintf(&b, ` DELETE FROM %s WHERE (SELECT allowed FROM "%s")`, t.Tables[len(t.Tables)-1], truncateName)
	return b.String()
}

// refusedBy stands in front of the reason for which a TRUNCATE is refused, and between its parts.
const refusedBy = "sluice\x01"

// allowed is a condition that is true, or fails, whatever the row.
func (t *Truncation) allowed() string {
	oids := make([]string, len(t.Tables))
	for i, table := range t.Tables {
		oids[i] = parse.Literal(table) + "::pg_catalog.regclass"
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

// TruncationRefusal is what a client is told of an error of the server's, which is about the
// DELETE that stands for its TRUNCATE; nil for one that it is to be told as it is.
func (t *Truncation) TruncationRefusal(code, message string) *Refusal {
	if _, parts, ok := strings.Cut(message, refusedBy); ok && code == "22P02" {
		of := strings.Split(strings.TrimSuffix(parts, `"`), "\x01")
		for len(of) < 3 {
			of = append(of, "")
		}
		return t.refusal(of[0], of[1], of[2])
	}
	_, name, _ := strings.Cut(message, `"`)
	name, _, _ = strings.Cut(name, `"`)
	switch {
	case strings.HasPrefix(message, "cannot execute DELETE "): // in a transaction that only reads
		return &Refusal{Code: code, Message: strings.Replace(message, "DELETE", TruncateTag, 1)}
	case code == "55000" && strings.HasPrefix(message, "cannot delete from view"), code == "42809" && name != "":
		return t.refusal("kind", name, "")
	}
	return nil
}

// refusal is the error of a TRUNCATE for a reason.
func (t *Truncation) refusal(reason, name, other string) *Refusal {
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

// chunked is the form in batches: one for each table.
func (t *Truncation) chunked() *Chunked {
	c := &Chunked{truncates: t, Table: t.Tables[0]}
	for _, table := range t.Tables {
		c.each = append(c.each, &Chunked{truncates: t, Table: table, head: "DELETE FROM " + table + " WHERE", condition: t.allowed()})
	}
	return c
}

// References is a query for the foreign keys between tables of the statement, each as the table
// that refers, the one that it refers to, by their places in the statement, and what a DELETE
// does to what refers.
func (t *Truncation) References() string {
	oids := make([]string, len(t.Tables))
	for i, table := range t.Tables {
		oids[i] = parse.Literal(table) + "::pg_catalog.regclass"
	}
	list := strings.Join(oids, ", ")
	place := func(column string) string {
		return "pg_catalog.array_position(ARRAY[" + list + "]::pg_catalog.oid[], " + column + ") - 1"
	}
	return "SELECT " + place("conrelid") + ", " + place("confrelid") + ", confdeltype FROM pg_catalog.pg_constraint WHERE contype = 'f' AND confrelid IN (" + list + ") AND conrelid IN (" + list + ")"
}
