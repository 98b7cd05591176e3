package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// LOCK TABLE ... IN ACCESS SHARE MODE, which pg_dump sends, only holds off changes of the schema. A snapshot of DSQL
// never sees later changes of the schema, so the lock is needless. Other modes hold off writers, and DSQL has no equal.

// accessShare is the number of the lock mode AccessShareLock in PostgreSQL's lockdefs.h.
const accessShare = 1

// rewriteLockTable replaces LOCK TABLE ... IN ACCESS SHARE MODE by a query of the tables. The query fails if a table is
// missing or not readable, as LOCK does. The query also makes the server take the transaction's snapshot at the time of
// the LOCK.
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
