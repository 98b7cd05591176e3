package rewrite

import "github.com/sluice-proxy/sluice/rewrite/schema"

// Another process may create a relation after Sluice has read its schema snapshot. SELECT * or INSERT without columns
// would then reach the server as if the relation had no mapped columns (bytea stored as text). Plan.Lacks reports this
// case.

// compareWithSnapshot sets the plan's fields Lacks, Mapped and BehindDDL by the schema snapshot of n. For Lacks and
// BehindDDL, it ignores the relation that a CREATE statement creates.
func (p *Plan) compareWithSnapshot(parts []statementPart, n *schema.NameResolver) {
	ddl, changed, named := false, []string(nil), false // changed has the tables of earlier DDL in the text
	for i := range parts {
		st, tables := parts[i].st, parts[i].st.Tables
		named, p.Mapped = named || n.MayUseMappedTable(tables), p.Mapped || n.MayMapAny(tables)
		switch kind := parts[i].node.TypeName(); {
		case kind == "DropStmt":
			tables = nil // the meaning of a DROP does not depend on columns
		case createStatements[kind] && len(tables) > 0:
			tables = tables[1:]
		}
		p.Lacks, p.BehindDDL = p.Lacks || n.LacksAnyTable(tables), p.BehindDDL || ddl && n.MayBeChanged(tables, changed)
		if st.Kind == DDL {
			ddl, changed = true, append(changed, st.Tables...)
		}
	}
	p.BehindDDL = p.BehindDDL && (p.Mapped || named)
}

// createStatements are the statements whose first table is the relation that they create.
var createStatements = map[string]bool{"CreateStmt": true, "CreateTableAsStmt": true, "CreateForeignTableStmt": true, "ViewStmt": true, "CreateSeqStmt": true}

// unparsedPlan returns the plan of a text that Sluice cannot parse. If the text may name a relation with mapped columns
// (bytea stored as text), the plan refuses the text.
func unparsedPlan(n *schema.NameResolver, sql []byte) *Plan {
	if n.MayMentionMapped(sql) {
		return unparsedMappedPlan
	}
	return guardedPlan
}

// UnparsedMappedRefusal returns the error for a text that Sluice cannot parse and that may name a relation with mapped
// columns (bytea stored as text).
func UnparsedMappedRefusal() Refusal {
	return Refusal{Unsent: true, Code: "0A000", Message: "cannot map the bytea columns of a statement that is not read",
		Detail: "It may name a table with columns that are stored as text (rewrite.bytea), and is too long, too deep or no UTF-8.",
		Hint:   "Send the constants as parameters, or raise rewrite.max_bytes."}
}

var unparsedMappedPlan = &Plan{Kind: Unknown, Pin: PinUnparsed, Statements: []Statement{{Kind: Unknown, Pin: PinUnparsed, Refusal: new(UnparsedMappedRefusal())}}}
