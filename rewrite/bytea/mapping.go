package bytea

import (
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// ColumnsKey is the configuration key that sets Mapping.Columns.
const ColumnsKey = "rewrite.bytea_columns"

// MaxMapped is the greatest length in bytes of a mapped column's name, so that the server's suffix fits.
const MaxMapped = parse.MaxName - len(schema.MappedSuffix)

// Mapping rewrites the statements of one text that concern tables with mapped columns (bytea stored as text).
type Mapping struct {
	Names *schema.NameResolver // decides which columns are mapped
	By    *Conversion
	// Check means that new tables get a CHECK constraint for each mapped column (bytea stored as text).
	Check bool
	// Columns lists "table.column" pairs of columns that no key contains. New tables map these columns all the same.
	Columns []string
	Text    []byte
	Tokens  *parse.TokenCache // the tokens of the current statement
}

// MappedEdits has the edits that rewrite a client's statement for mapped columns (bytea stored as text). The zero
// MappedEdits leaves the statement unchanged.
type MappedEdits struct {
	// Maps means that the statement concerns mapped columns. Sluice must not send the client's text.
	Maps bool
	// Derived means that subqueries replaced tables with mapped columns. No index over a mapped column then helps.
	Derived bool
	// Again means that these edits are the second form of the statement, because the first form failed verification.
	Again bool
	Edits []parse.Edit
	Meant parse.TreeChanges
	// Refusal is the error for a statement that has no correct form, otherwise nil.
	Refusal *RefusalError
}

// RefusalError is the error with which Sluice refuses a statement over mapped columns (bytea stored as text). Code is a
// SQLSTATE. Unsent means that Sluice must not send the statement to the server.
type RefusalError struct {
	Code, Message, Detail, Hint string
	Unsent                      bool
}

// MapStatement returns the edits of a statement for mapped columns (bytea stored as text). node is the statement's
// tree. start and end are the statement's byte offsets in the text.
func (m *Mapping) MapStatement(node parse.TreeNode, start, end int) MappedEdits {
	switch {
	case m.namesMappedRowType(node):
		return MappedEdits{Refusal: NewRefusalError("It names the type of a mapped table's rows, which has the columns as they are stored.")}
	case isQueryStatement(node):
		return m.mapQuery(node, start, end)
	}
	return m.mapDDL(node, start, end)
}

// namesMappedRowType reports whether a tree names the row type of a table with mapped columns (bytea stored as text).
func (m *Mapping) namesMappedRowType(node parse.TreeNode) bool {
	if node.Is("TypeName") && !node.Flag("pct_type") {
		switch names := node.Names("names"); {
		case len(names) == 1 && !typeNames[names[0]]:
			rel, known := m.Names.FindRelation("", names[0])
			return !known || rel != nil && rel.HasMapped()
		case len(names) > 1 && names[len(names)-2] != "pg_catalog":
			rel, _ := m.Names.FindRelation(names[len(names)-2], names[len(names)-1])
			return rel != nil && rel.HasMapped()
		}
		return false
	}
	for child := range node.Children() {
		if child.Shape != nil && m.namesMappedRowType(child) {
			return true
		}
	}
	return false
}

// typeNames are names of PostgreSQL's types that a table may also have. Without a schema, the name means the type,
// because PostgreSQL searches pg_catalog first.
var typeNames = parse.WordSet(`text bytea name date uuid json jsonb path point box circle line lseg polygon money oid char inet cidr xml
	record void any bit varbit xid tid cid regclass regtype regproc tsvector tsquery`)

// NewRefusalError returns the error for a statement over mapped columns (bytea stored as text) that has no correct
// form. detail is the reason.
func NewRefusalError(detail string) *RefusalError {
	return &RefusalError{Unsent: true, Code: "0A000", Message: "cannot map the bytea columns of the statement", Detail: detail,
		Hint: "A bytea column of a key is stored as text (rewrite.bytea). Name the columns, qualified by their table, and write the statement in a simpler way."}
}
