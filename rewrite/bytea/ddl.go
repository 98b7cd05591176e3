package bytea

import (
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// ddl rewrites one statement that changes the schema.
type ddl struct {
	r          *Mapping
	node       parse.Message
	start, end int
	ph         parse.Phrase
	edits      []parse.Edit
	meant      parse.Intents
	refusal    *Refused
	// created are the tables with mapped columns that the current CREATE SCHEMA creates.
	created map[string]bool
}

// mapDDL returns the form of a statement that changes the schema.
func (m *Mapping) mapDDL(node parse.Message, start, end int) Form {
	d := &ddl{r: m, node: node, start: start, end: end, meant: parse.Intents{}, created: map[string]bool{}}
	d.statement(node)
	if d.refusal != nil {
		return Form{Maps: true, Refusal: d.refusal}
	}
	return Form{Maps: len(d.edits) > 0, Edits: d.edits, Meant: d.meant}
}

func (d *ddl) statement(node parse.Message) {
	switch node.Name() {
	case "CreateStmt":
		d.createTable(node)
	case "IndexStmt":
		d.createIndex(node)
	case "AlterTableStmt":
		d.alterTable(node)
	case "RenameStmt":
		d.rename(node)
	case "CommentStmt":
		d.comment(node)
	case "GrantStmt":
		d.grant(node)
	case "VacuumStmt":
		d.analyze(node)
	case "CreateSchemaStmt":
		for element := range node.List("schema_elts") {
			d.statement(element)
		}
	case "DropStmt", "LockStmt", "TruncateStmt", "ReindexStmt", "ClusterStmt", "AlterObjectSchemaStmt":
		// The other statements name no column, or the server refuses them in every form.
	default:
		d.refuseOthers(node)
	}
}

// refuseOthers refuses a statement of another kind if it names a mapped table.
func (d *ddl) refuseOthers(node parse.Message) {
	if node.Is("RangeVar") {
		if rel := d.find(node); rel != nil && rel.Maps() {
			d.refuse("Statements of this kind over a table with such columns are not rewritten.")
		}
		return
	}
	for child := range node.Nodes() {
		d.refuseOthers(child)
	}
}

// refuse sets the refusal of the statement, unless one is set.
func (d *ddl) refuse(detail string) {
	if d.refusal == nil {
		d.refusal = RefusedFor(detail)
	}
}

// find returns the relation that a RangeVar names, or nil if the snapshot has none. An unknown search path
// refuses the statement.
func (d *ddl) find(relation parse.Message) *schema.Relation {
	return d.named(relation.Text("schemaname"), relation.Text("relname"))
}

func (d *ddl) named(schema, name string) *schema.Relation {
	if schema == "" && d.created[name] {
		d.refuse("The statement makes a table and names it again.")
		return nil
	}
	rel, known := d.r.Names.Find(schema, name)
	if !known {
		d.refuse("The search path is not known, so that nobody can tell which table the name stands for.")
	}
	return rel
}

// phrase returns the statement's tokens.
func (d *ddl) phrase() *parse.Phrase {
	if d.ph.Tokens == nil {
		d.ph = d.r.Tokens.Of(d.r.Text, d.start, d.end)
	}
	return &d.ph
}

// token returns the token at an offset in the text, as the tree has offsets.
func (d *ddl) token(at int) int {
	i := d.phrase().At(at)
	if i < 0 {
		d.refuse("The place of a name was not found in the text.")
	}
	return i
}

// write replaces token i by a name.
func (d *ddl) write(i int, name string) {
	ph := d.phrase()
	if !ph.Name(i) {
		d.refuse("The place of a name was not found in the text.")
		return
	}
	d.edit(parse.Edit{Start: int(ph.Tokens[i].Start), End: int(ph.Tokens[i].End), Text: parse.Written(name)})
}

func (d *ddl) edit(e parse.Edit) { d.edits = append(d.edits, e) }

// before inserts text before token i of the statement.
func (d *ddl) before(i int, text string) {
	if ph := d.phrase(); i >= 0 && i < len(ph.Tokens) {
		at := int(ph.Tokens[i].Start)
		d.edit(parse.Edit{Start: at, End: at, Text: text})
	}
}

// behind inserts text after token i of the statement.
func (d *ddl) behind(i int, text string) {
	if ph := d.phrase(); i >= 0 && i < len(ph.Tokens) {
		at := int(ph.Tokens[i].End)
		d.edit(parse.Edit{Start: at, End: at, Text: text})
	}
}

// renameList replaces mapped names in a list of columns by their physical names. The names are in a field of
// node, and open is the list's parenthesis.
func (d *ddl) renameList(node parse.Message, field string, open int, mapped func(name string) bool) {
	i := 0
	var tokens []int
	for name := range node.List(field) {
		if text := name.Text("sval"); mapped(text) {
			if tokens == nil {
				tokens = d.phrase().Listed(open)
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

// rewriteName replaces token i by a name that a field of node gets.
func (d *ddl) rewriteName(node parse.Message, field string, i int, name string) {
	d.write(i, name)
	d.meant.Set(node, field, parse.Value{Bytes: []byte(name)})
}

// isBytea reports whether a type is bytea.
func isBytea(kind parse.Message) bool { return parse.IsType(kind, "bytea") }
