package rewrite

import "github.com/sluice-proxy/sluice/rewrite/parse"

// mapping has the statements that read or write rows, and those that change the schema, say
// to the server what they mean where columns are mapped (MappedSuffix). It goes first: its
// edits and those of the other rules do not overlap.
func (r *rewriter) mapping(p *part) {
	switch {
	case r.rowTyped(p.node):
		p.st.Refusal = errUnmapped("It names the type of a mapped table's rows, which has the columns as they are stored.")
	case asks(p.node):
		r.mapQuery(p)
	default:
		r.mapDDL(p)
	}
	if p.st.Refusal != nil {
		f := handled(ByteaKey, Rejected, Error, "refused: a statement of this form over a mapped column is not rewritten", p.st.Start)
		f.Remedy = "name the columns, qualified by their table, and write the statement in a simpler way"
		r.find(f)
	}
}

// rowTyped reports whether a tree names the type of the rows of a table with mapped columns.
func (r *rewriter) rowTyped(node parse.Message) bool {
	if node.Is("TypeName") && !node.Flag("pct_type") {
		switch names := node.Names("names"); {
		case len(names) == 1 && !typeNames[names[0]]:
			rel, known := r.names.Find("", names[0])
			return !known || rel != nil && rel.Maps()
		case len(names) > 1 && names[len(names)-2] != "pg_catalog":
			rel, _ := r.names.Find(names[len(names)-2], names[len(names)-1])
			return rel != nil && rel.Maps()
		}
		return false
	}
	for child := range node.Nodes() {
		if child.Shape != nil && r.rowTyped(child) {
			return true
		}
	}
	return false
}

// typeNames are types of PostgreSQL that a table may be called as. Their schema comes first in
// each search path that does not name it.
var typeNames = parse.WordSet(`text bytea name date uuid json jsonb path point box circle line lseg polygon money oid char inet cidr xml
	record void any bit varbit xid tid cid regclass regtype regproc tsvector tsquery`)

// errUnmapped refuses a statement over mapped columns that cannot be said to the server.
func errUnmapped(detail string) *Refusal {
	return &Refusal{Unsent: true, Code: "0A000", Message: "cannot map the bytea columns of the statement", Detail: detail,
		Hint: "A bytea column of a key is stored as text (rewrite.bytea). Name the columns, qualified by their table, and write the statement in a simpler way."}
}
