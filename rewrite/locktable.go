package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// LOCK TABLE ... IN ACCESS SHARE MODE holds off nothing but changes of the schema, which a snapshot
// of DSQL never sees: whoever reads behind it reads what was there. pg_dump sends it. Any other
// mode holds off writers, and DSQL has nothing of the kind.

// accessShare is AccessShareLock of PostgreSQL's lockdefs.h.
const accessShare = 1

// lockTable has a query in the place of such a statement, which fails where the statement would:
// the relations have to be there, and may be read. The server runs it, so that the snapshot is
// taken there as it is by LOCK's client.
func (r *rewriter) lockTable(p *part) {
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
			text.WriteString(parse.Identifier(schema))
			text.WriteByte('.')
		}
		text.WriteString(parse.Identifier(relation.Text("relname")))
		text.WriteByte(')')
	}
	tree, err := parse.Tree(text.String())
	if err != nil {
		return
	}
	st := p.st
	r.edit(parse.Edit{Start: st.Start, End: st.End, Text: text.String()})
	r.meant.Set(p.raw, "stmt", tree.Child("stmts").Values("stmt")...)
	*st = Statement{Kind: Read, Does: ChecksTables, Start: st.Start, End: st.End, Operation: st.Operation, Tables: st.Tables, Tag: "LOCK TABLE"}
	r.find(handled(LockTable, Rewritten, Info, "answered behind a query of the tables: the snapshot keeps what is read", st.Start))
}
