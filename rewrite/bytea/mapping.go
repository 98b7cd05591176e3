package bytea

import (
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// ColumnsKey is the configuration key that sets Mapping.Columns.
const ColumnsKey = "rewrite.bytea_columns"

// MaxMapped is the maximum length in bytes of a clients' name for a mapped column (bytea stored as text).
const MaxMapped = parse.MaxName - len(schema.MappedSuffix)

// Mapping rewrites the statements of one text for tables with mapped columns (bytea stored as text).
type Mapping struct {
	Names *schema.NameResolver // decide which columns are mapped
	By    *Conversion
	// Check means that new tables get a CHECK constraint for each mapped column (bytea stored as text).
	Check bool
	// Columns lists "table.column" pairs that new tables map although no key contains the columns.
	Columns []string
	Text    []byte
	Tokens  *parse.TokenCache // the tokens of the current statement
}

// MappedEdits has the edits that rewrite a client's statement for mapped columns (bytea stored as text). With the
// zero MappedEdits, the server gets the client's statement.
type MappedEdits struct {
	// Maps means that the statement concerns mapped bytea columns, so that the client's text must not be sent.
	Maps bool
	// Derived means that tables with mapped bytea columns became subqueries, so that no index over such a column helps.
	Derived bool
	// Again means that the first form of the statement failed verification, and that this is another form.
	Again bool
	Edits []parse.Edit
	Meant parse.TreeChanges
	// Refusal is the error for a statement that has no correct form, otherwise nil.
	Refusal *RefusalError
}

// RefusalError is the error with which Sluice refuses a statement over mapped columns (bytea stored as text). Code is
// a SQLSTATE. Unsent means that the server must not get the statement.
type RefusalError struct {
	Code, Message, Detail, Hint string
	Unsent                      bool
}

// MapStatement returns the rewritten form of a statement for mapped columns (bytea stored as text). node is the
// statement's tree, start and end are its offsets in the text.
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

// typeNames are types of PostgreSQL whose name a table may have, too. An unqualified name means the type,
// because pg_catalog is first in search paths that do not name it.
var typeNames = parse.WordSet(`text bytea name date uuid json jsonb path point box circle line lseg polygon money oid char inet cidr xml
	record void any bit varbit xid tid cid regclass regtype regproc tsvector tsquery`)

// NewRefusalError returns the refusal of a statement over mapped columns (bytea stored as text) without a correct
// form. detail is the reason.
func NewRefusalError(detail string) *RefusalError {
	return &RefusalError{Unsent: true, Code: "0A000", Message: "cannot map the bytea columns of the statement", Detail: detail,
		Hint: "A bytea column of a key is stored as text (rewrite.bytea). Name the columns, qualified by their table, and write the statement in a simpler way."}
}
