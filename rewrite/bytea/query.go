package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// Clients know a mapped column as bytea, and the server stores hexadecimal digits as text under another name. A
// read of the column becomes decode(c, 'hex'). A value that is written to it or compared with it becomes
// encode(value, 'hex'). Therefore the server's answers need no change.

// mapper rewrites one statement that reads or writes rows.
type mapper struct {
	r  *Mapping
	ph parse.Phrase
	// pairs maps each parenthesis and bracket token to its counterpart.
	pairs []int32

	edits []parse.Edit
	meant parse.Intents
	// table is the token TABLE of a query TABLE t; -1 for none.
	table int
	// plainly means that all columns are read as bytea and no comparison is changed. The form is slow, but
	// needs no extent of an operand.
	plainly bool
	// repeats means that a parameter occurs more than once in the text.
	repeats bool
	// constants describes the query of an INSERT ... SELECT; nil without one.
	constants *constants
	// aliases are the aliases in a query that derive rewrites.
	aliases map[string]bool
	// wholes are names by which the query that derive rewrites may read whole rows.
	wholes map[string]bool

	refusal *Refused
	// unconverted is the reason why columns cannot be converted in place. A query that only reads may still be
	// rewritten by derive.
	unconverted string
}

// asks reports whether mapQuery rewrites statements of this kind.
func asks(node parse.Message) bool {
	switch node.Name() {
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt",
		"ExplainStmt", "PrepareStmt", "DeclareCursorStmt", "CopyStmt", "ViewStmt", "CreateTableAsStmt":
		return true
	}
	return false
}

// mapQuery returns the form of a statement that reads or writes rows. If columns cannot be converted in place,
// the form uses derived tables.
func (m *Mapping) mapQuery(node parse.Message, start, end int) Form {
	if !m.touches(node) {
		return Form{}
	}
	q := m.mapper(start, end, false)
	q.statement(node)
	derived := q.unconverted != "" && q.refusal == nil
	if derived {
		why := q.unconverted
		q = m.mapper(start, end, false)
		q.derive(node, why)
	}
	if q.refusal != nil {
		return Form{Maps: true, Refusal: q.refusal}
	}
	if len(q.edits) == 0 {
		return Form{Maps: true}
	}
	return Form{Maps: true, Derived: derived, Edits: q.edits, Meant: q.meant}
}

// Again returns another form of a statement that reads or writes rows: with all columns read as bytea, or with
// derived tables. means verifies the text of a form. ok is false if no form passes, and for other statements.
func (m *Mapping) Again(node parse.Message, start, end int, means func(text string, meant parse.Intents) bool) (made Form, ok bool) {
	if !asks(node) || !m.touches(node) {
		return Form{}, false
	}
	plain := m.mapper(start, end, true)
	plain.statement(node)
	derived := m.mapper(start, end, false)
	derived.derive(node, "The text that was made does not mean what was intended.")
	for i, q := range []*mapper{plain, derived} {
		if q.refusal != nil || q.unconverted != "" {
			continue
		}
		edits := make([]parse.Edit, len(q.edits))
		for j, e := range q.edits {
			edits[j] = parse.Edit{Start: e.Start - start, End: e.End - start, Text: e.Text}
		}
		text, ok := parse.Apply(string(m.Text[start:end]), edits)
		if ok && means(text, q.meant) {
			return Form{Maps: true, Again: true, Derived: i > 0, Edits: q.edits, Meant: q.meant}, true
		}
	}
	return Form{}, false
}

func (m *Mapping) mapper(start, end int, plainly bool) *mapper {
	q := &mapper{r: m, ph: m.Tokens.Of(m.Text, start, end), meant: parse.Intents{}, plainly: plainly}
	q.pairs = q.ph.Pairs()
	q.repeats = q.repeatsParameter()
	return q
}

// touches reports whether a tree names a relation that has mapped columns, or may have them.
func (m *Mapping) touches(node parse.Message) bool {
	if node.Shape == nil {
		return false
	}
	if node.Is("RangeVar") {
		rel, known := m.Names.Find(node.Text("schemaname"), node.Text("relname"))
		return !known || rel != nil && rel.Maps()
	}
	for child := range node.Nodes() {
		if child.Shape != nil && m.touches(child) {
			return true
		}
	}
	return false
}

// statement rewrites a statement that reads or writes rows.
func (m *mapper) statement(node parse.Message) {
	switch node.Name() {
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt":
		m.query(node, nil)
	case "ExplainStmt", "PrepareStmt", "DeclareCursorStmt", "ViewStmt", "CreateTableAsStmt":
		m.statement(node.Child("query"))
	case "CopyStmt":
		m.copyTo(node)
	case "MergeStmt":
		m.refuse("MERGE over mapped columns is not rewritten.")
	default:
		m.refuse("Statements of this kind over mapped columns are not rewritten.")
	}
}

// query rewrites a query, or a change of data with RETURNING. It returns the result columns.
func (m *mapper) query(node parse.Message, outer *scope) outputs {
	switch node.Name() {
	case "SelectStmt":
		return m.selects(node, &scope{outer: outer}, nil)
	case "InsertStmt":
		return m.insert(node, outer)
	case "UpdateStmt":
		return m.update(node, outer)
	case "DeleteStmt":
		return m.delete(node, outer)
	}
	m.refuse("A statement of this kind within another is not rewritten.")
	return outputs{unknown: true}
}

// refuse sets the refusal of the statement, unless one is set.
func (m *mapper) refuse(detail string) {
	if m.refusal == nil {
		m.refusal = RefusedFor(detail)
	}
}

// cannot records why columns cannot be converted in place, unless a reason is set.
func (m *mapper) cannot(detail string) {
	if m.unconverted == "" {
		m.unconverted = detail
	}
}

// edit replaces the tokens first to last by text.
func (m *mapper) edit(first, last int, text string) {
	if first < 0 || last < first || last >= len(m.ph.Tokens) {
		m.lost()
		return
	}
	m.edits = append(m.edits, parse.Edit{Start: int(m.ph.Tokens[first].Start), End: int(m.ph.Tokens[last].End), Text: text})
}

// before inserts text before token i of the statement.
func (m *mapper) before(i int, text string) {
	if i < 0 || i >= len(m.ph.Tokens) {
		m.lost()
		return
	}
	at := int(m.ph.Tokens[i].Start)
	m.edits = append(m.edits, parse.Edit{Start: at, End: at, Text: text})
}

// behind inserts text after token i of the statement.
func (m *mapper) behind(i int, text string) {
	if i < 0 || i >= len(m.ph.Tokens) {
		m.lost()
		return
	}
	at := int(m.ph.Tokens[i].End)
	m.edits = append(m.edits, parse.Edit{Start: at, End: at, Text: text})
}

func (m *mapper) lost() { m.cannot("The place of a name or a value was not found in the text.") }

// token returns the token at a node's position, or -1.
func (m *mapper) token(node parse.Message) int { return m.ph.At(node.Integer("location")) }

// pair returns the counterpart of the parenthesis at token i, or -1.
func (m *mapper) pair(i int) int {
	if i < 0 || i >= len(m.pairs) {
		return -1
	}
	return int(m.pairs[i])
}

// rename replaces token i by a name that a field of node gets.
func (m *mapper) rename(node parse.Message, field string, i int, name string) {
	m.edit(i, i, parse.Written(name))
	m.meant.Set(node, field, parse.Value{Bytes: []byte(name)})
}

// parsed returns the tree of a query that Sluice made; absent if it has an error.
func (m *mapper) parsed(sql string) parse.Message {
	tree, err := parse.Tree(sql)
	if err != nil {
		m.lost()
		return parse.Message{}
	}
	return tree.Child("stmts").Child("stmt")
}
