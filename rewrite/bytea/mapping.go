package bytea

import (
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// ColumnsKey is the configuration key of Mapping.Columns.
const ColumnsKey = "rewrite.bytea_columns"

// MaxMapped is the length of the longest name that a mapped column may have for clients, in bytes.
const MaxMapped = parse.MaxName - len(schema.MappedSuffix)

// Mapping maps the statements of one text.
type Mapping struct {
	Names *schema.Names // say which columns are mapped
	By    *Conversion
	// Check: a new table gets a CHECK for each mapped column.
	Check bool
	// Columns are those that a new table maps though they are in no key, each as table.column.
	Columns []string
	Text    []byte
	Tokens  *parse.Tokens // of the statement at hand
}

// Form is what goes to the server for a statement. The zero value is the client's own.
type Form struct {
	// Maps: the statement concerns mapped columns, and must not go to the server in the client's form.
	Maps bool
	// Derived: no index over a mapped column serves it.
	Derived bool
	// Again: the form was made where the first one did not mean what was intended.
	Again bool
	Edits []parse.Edit
	Meant parse.Intents
	// Refusal is the error for a statement that has no form; nil for any other.
	Refusal *Refused
}

// Refused is an error for the client. Code is a SQLSTATE. Unsent: the statement must not reach the server.
type Refused struct {
	Code, Message, Detail, Hint string
	Unsent                      bool
}

// Map returns what goes to the server for the statement of a node, which has the offsets start and end in the text.
func (m *Mapping) Map(node parse.Message, start, end int) Form {
	switch {
	case m.rowTyped(node):
		return Form{Refusal: RefusedFor("It names the type of a mapped table's rows, which has the columns as they are stored.")}
	case asks(node):
		return m.mapQuery(node, start, end)
	}
	return m.mapDDL(node, start, end)
}

// rowTyped reports whether a tree names the type of the rows of a table with mapped columns.
func (m *Mapping) rowTyped(node parse.Message) bool {
	if node.Is("TypeName") && !node.Flag("pct_type") {
		switch names := node.Names("names"); {
		case len(names) == 1 && !typeNames[names[0]]:
			rel, known := m.Names.Find("", names[0])
			return !known || rel != nil && rel.Maps()
		case len(names) > 1 && names[len(names)-2] != "pg_catalog":
			rel, _ := m.Names.Find(names[len(names)-2], names[len(names)-1])
			return rel != nil && rel.Maps()
		}
		return false
	}
	for child := range node.Nodes() {
		if child.Shape != nil && m.rowTyped(child) {
			return true
		}
	}
	return false
}

// typeNames are types of PostgreSQL that a table may be called as. Their schema comes first in
// each search path that does not name it.
var typeNames = parse.WordSet(`text bytea name date uuid json jsonb path point box circle line lseg polygon money oid char inet cidr xml
	record void any bit varbit xid tid cid regclass regtype regproc tsvector tsquery`)

// RefusedFor refuses a statement over mapped columns that cannot be said to the server.
func RefusedFor(detail string) *Refused {
	return &Refused{Unsent: true, Code: "0A000", Message: "cannot map the bytea columns of the statement", Detail: detail,
		Hint: "A bytea column of a key is stored as text (rewrite.bytea). Name the columns, qualified by their table, and write the statement in a simpler way."}
}
