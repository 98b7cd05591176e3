package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// pg_dump sends LOCK TABLE ... IN ACCESS SHARE MODE, which only prevents changes of the schema. A transaction on DSQL
// has a snapshot that never shows later changes of the schema, so it does not need the lock. Other lock modes prevent
// writes, and DSQL has nothing equal.

// accessShare is the number of the lock mode AccessShareLock in PostgreSQL's lockdefs.h.
const accessShare = 1

// rewriteLockTable replaces LOCK TABLE ... IN ACCESS SHARE MODE by a query of the tables. Like LOCK, the query fails if
// a table is missing or not readable. The query also makes the server take the transaction's snapshot when the client
// sends LOCK.
func (r *rewriter) rewriteLockTable(p *statementPart) {
	if !r.rules.Session || p.node.Integer("mode") != accessShare {
		return
	}
	var text strings.Builder
	text.WriteString("SELECT 1 WHERE false")
	for relation := range p.node.List("relations") {
		if relation.Text("catalogname") != "" {
			return
		}
		text.WriteString(" AND EXISTS (SELECT 1 FROM ")
		if schema := relation.Text("schemaname"); schema != "" {
			text.WriteString(parse.QuoteIdent(schema))
			text.WriteByte('.')
		}
		text.WriteString(parse.QuoteIdent(relation.Text("relname")))
		text.WriteByte(')')
	}
	tree, err := parse.Tree(text.String())
	if err != nil {
		return
	}
	st := p.st
	r.addEdits(parse.Edit{Start: st.Start, End: st.End, Text: text.String()})
	r.meant.Set(p.raw, "stmt", tree.Child("stmts").Values("stmt")...)
	*st = Statement{Kind: Read, Does: ChecksTables, Start: st.Start, End: st.End, Operation: st.Operation, Tables: st.Tables, Tag: "LOCK TABLE"}
	r.addFinding(finding.Handled(finding.LockTable, finding.Rewritten, finding.Info, "answered behind a query of the tables: the snapshot keeps what is read", st.Start))
}
