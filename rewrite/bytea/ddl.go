package bytea

import (
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// ddlMapper rewrites one statement that changes the schema, for tables with mapped columns (bytea stored as text).
type ddlMapper struct {
	r          *Mapping
	node       parse.TreeNode
	start, end int
	ph         parse.TokenList
	edits      []parse.Edit
	meant      parse.TreeChanges
	refusal    *RefusalError
	// created are the tables with mapped columns (bytea stored as text) that the current CREATE SCHEMA creates.
	created map[string]bool
}

// mapDDL returns the edits of a statement that changes the schema of tables with mapped columns (bytea stored as text).
func (m *Mapping) mapDDL(node parse.TreeNode, start, end int) MappedEdits {
	d := &ddlMapper{r: m, node: node, start: start, end: end, meant: parse.TreeChanges{}, created: map[string]bool{}}
	d.mapStatement(node)
	if d.refusal != nil {
		return MappedEdits{Maps: true, Refusal: d.refusal}
	}
	return MappedEdits{Maps: len(d.edits) > 0, Edits: d.edits, Meant: d.meant}
}

func (d *ddlMapper) mapStatement(node parse.TreeNode) {
	switch node.TypeName() {
	case "CreateStmt":
		d.createTable(node)
	case "IndexStmt":
		d.createIndex(node)
	case "AlterTableStmt":
		d.alterTable(node)
	case "RenameStmt":
		d.renameColumn(node)
	case "CommentStmt":
		d.commentOnColumn(node)
	case "GrantStmt":
		d.grantColumns(node)
	case "VacuumStmt":
		d.analyzeColumns(node)
	case "CreateSchemaStmt":
		for element := range node.List("schema_elts") {
			d.mapStatement(element)
		}
	case "DropStmt", "LockStmt", "TruncateStmt", "ReindexStmt", "ClusterStmt", "AlterObjectSchemaStmt":
		// All other statements name no column, or the server refuses them in every form.
	default:
		d.refuseMappedTables(node)
	}
}

// refuseMappedTables refuses a statement that names a table with mapped columns and that no other method rewrites.
func (d *ddlMapper) refuseMappedTables(node parse.TreeNode) {
	if node.Is("RangeVar") {
		if rel := d.findRelation(node); rel != nil && rel.HasMapped() {
			d.refuse("Statements of this kind over a table with such columns are not rewritten.")
		}
		return
	}
	for child := range node.Children() {
		d.refuseMappedTables(child)
	}
}

// refuse sets the refusal of the statement, with detail as the reason. An earlier refusal stays.
func (d *ddlMapper) refuse(detail string) {
	if d.refusal == nil {
		d.refusal = NewRefusalError(detail)
	}
}

// findRelation returns the relation that a RangeVar names, or nil if the snapshot of the schema has none. If the search
// path is unknown, findRelation may refuse the statement.
func (d *ddlMapper) findRelation(relation parse.TreeNode) *schema.Relation {
	return d.findNamed(relation.Text("schemaname"), relation.Text("relname"))
}

func (d *ddlMapper) findNamed(schema, name string) *schema.Relation {
	if schema == "" && d.created[name] {
		d.refuse("The statement makes a table and names it again.")
		return nil
	}
	rel, known := d.r.Names.FindRelation(schema, name)
	if !known {
		d.refuse("The search path is not known, so that nobody can tell which table the name stands for.")
	}
	return rel
}

// statementTokens returns the statement's tokens.
func (d *ddlMapper) statementTokens() *parse.TokenList {
	if d.ph.Tokens == nil {
		d.ph = d.r.Tokens.StatementTokens(d.r.Text, d.start, d.end)
	}
	return &d.ph
}

// tokenAt returns the index of the token at a byte offset of the text. If there is none, it refuses the statement.
func (d *ddlMapper) tokenAt(at int) int {
	i := d.statementTokens().TokenAt(at)
	if i < 0 {
		d.refuse("The place of a name was not found in the text.")
	}
	return i
}

// replaceName replaces token i of the statement by name. It quotes name if necessary.
func (d *ddlMapper) replaceName(i int, name string) {
	ph := d.statementTokens()
	if !ph.IsName(i) {
		d.refuse("The place of a name was not found in the text.")
		return
	}
	d.addEdit(parse.Edit{Start: int(ph.Tokens[i].Start), End: int(ph.Tokens[i].End), Text: parse.QuoteIdentIfNeeded(name)})
}

func (d *ddlMapper) addEdit(e parse.Edit) { d.edits = append(d.edits, e) }

// insertBefore inserts text before token i of the statement.
func (d *ddlMapper) insertBefore(i int, text string) {
	if ph := d.statementTokens(); i >= 0 && i < len(ph.Tokens) {
		at := int(ph.Tokens[i].Start)
		d.addEdit(parse.Edit{Start: at, End: at, Text: text})
	}
}

// insertAfter inserts text after token i of the statement.
func (d *ddlMapper) insertAfter(i int, text string) {
	if ph := d.statementTokens(); i >= 0 && i < len(ph.Tokens) {
		at := int(ph.Tokens[i].End)
		d.addEdit(parse.Edit{Start: at, End: at, Text: text})
	}
}

// renameList replaces mapped columns (bytea stored as text) in a list by their names on the server. The list is a field
// of node, and its opening parenthesis is token open. mapped reports whether a name means a mapped column.
func (d *ddlMapper) renameList(node parse.TreeNode, field string, open int, mapped func(name string) bool) {
	i := 0
	var tokens []int
	for name := range node.List(field) {
		if text := name.Text("sval"); mapped(text) {
			if tokens == nil {
				tokens = d.statementTokens().ListedNames(open)
			}
			if i >= len(tokens) {
				d.refuse("The place of a name was not found in the text.")
				return
			}
			d.rewriteName(name, "sval", tokens[i], physicalName(text))
		}
		i++
	}
}

// rewriteName replaces token i by name. It records name as the intended value of the node's field.
func (d *ddlMapper) rewriteName(node parse.TreeNode, field string, i int, name string) {
	d.replaceName(i, name)
	d.meant.Set(node, field, parse.Value{Bytes: []byte(name)})
}

// isBytea reports whether a type is bytea.
func isBytea(kind parse.TreeNode) bool { return parse.IsType(kind, "bytea") }
