package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// The mapping of statements that read or write rows. Clients know a mapped column as bytea;
// the server has text of hexadecimal digits under another name. Reading such a column is
// decode(c, 'hex') there, and what is written to it or compared with it is encode(value,
// 'hex'): the server converts, and what it answers is what the client expects.

// mapper is the mapping of one statement.
type mapper struct {
	r  *Mapping
	ph parse.Phrase
	// pairs has for each parenthesis and bracket among the tokens the one that belongs to it.
	pairs []int32

	edits []parse.Edit
	meant parse.Intents
	// Table is the word of a TABLE t, which is read; -1 for none.
	table int
	// plainly: columns are read as bytea wherever that is right, and no comparison is
	// changed: it is slow, and needs the ends of no operand.
	plainly bool
	// repeats: a parameter stands in the text more than once.
	repeats bool
	// constants are those that the query of the INSERT returns; nil where it is left as it is.
	constants *constants
	// aliases are those of a query that is written over derived tables.
	aliases map[string]bool
	// wholes are names by which that query may read whole rows.
	wholes map[string]bool

	refusal *Refused
	// unsaid says what has no form in which columns are converted where they stand; a
	// query that only reads may still be written over derived tables.
	unsaid string
}

// asks reports whether a statement is one of those that mapQuery rewrites.
func asks(node parse.Message) bool {
	switch node.Name() {
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt",
		"ExplainStmt", "PrepareStmt", "DeclareCursorStmt", "CopyStmt", "ViewStmt", "CreateTableAsStmt":
		return true
	}
	return false
}

// mapQuery maps a statement that reads or writes rows. What has no form in place, derived tables may have.
func (m *Mapping) mapQuery(node parse.Message, start, end int) Form {
	if !m.touches(node) {
		return Form{}
	}
	q := m.mapper(start, end, false)
	q.statement(node)
	derived := q.unsaid != "" && q.refusal == nil
	if derived {
		why := q.unsaid
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

// Again maps a statement that only reads or writes rows in another form: with columns read as bytea everywhere, or
// else over derived tables. means reports whether the text of a form means what was intended. ok is false where no form
// does, and for any other statement.
func (m *Mapping) Again(node parse.Message, start, end int, means func(text string, meant parse.Intents) bool) (made Form, ok bool) {
	if !asks(node) || !m.touches(node) {
		return Form{}, false
	}
	plain := m.mapper(start, end, true)
	plain.statement(node)
	derived := m.mapper(start, end, false)
	derived.derive(node, "The text that was made does not mean what was intended.")
	for i, q := range []*mapper{plain, derived} {
		if q.refusal != nil || q.unsaid != "" {
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
	q.repeats = q.again()
	return q
}

// touches reports whether a relation with mapped columns is named in a tree, or one of which
// nobody knows whether it is such.
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

// statement maps what one may ask or tell the server.
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

// query maps a query, or a change of data with what it returns, and tells its columns.
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

// refuse has the statement refused; the first reason stays.
func (m *mapper) refuse(detail string) {
	if m.refusal == nil {
		m.refusal = RefusedFor(detail)
	}
}

// cannot notes what has no form in place; the first reason stays.
func (m *mapper) cannot(detail string) {
	if m.unsaid == "" {
		m.unsaid = detail
	}
}

// edit replaces the tokens from first to last.
func (m *mapper) edit(first, last int, text string) {
	if first < 0 || last < first || last >= len(m.ph.Tokens) {
		m.lost()
		return
	}
	m.edits = append(m.edits, parse.Edit{Start: int(m.ph.Tokens[first].Start), End: int(m.ph.Tokens[last].End), Text: text})
}

// before puts text in front of token i.
func (m *mapper) before(i int, text string) {
	if i < 0 || i >= len(m.ph.Tokens) {
		m.lost()
		return
	}
	at := int(m.ph.Tokens[i].Start)
	m.edits = append(m.edits, parse.Edit{Start: at, End: at, Text: text})
}

// behind puts text behind token i.
func (m *mapper) behind(i int, text string) {
	if i < 0 || i >= len(m.ph.Tokens) {
		m.lost()
		return
	}
	at := int(m.ph.Tokens[i].End)
	m.edits = append(m.edits, parse.Edit{Start: at, End: at, Text: text})
}

func (m *mapper) lost() { m.cannot("The place of a name or a value was not found in the text.") }

// token is the one at which a node stands; -1 for none.
func (m *mapper) token(node parse.Message) int { return m.ph.At(node.Integer("location")) }

// pair is the parenthesis that belongs to the one at token i; -1 for none.
func (m *mapper) pair(i int) int {
	if i < 0 || i >= len(m.pairs) {
		return -1
	}
	return int(m.pairs[i])
}

// rename gives a name in the tree, which stands at token i, the one that the server has.
func (m *mapper) rename(node parse.Message, field string, i int, name string) {
	m.edit(i, i, parse.Written(name))
	m.meant.Set(node, field, parse.Value{Bytes: []byte(name)})
}

// parsed is the tree of a query of our own; absent where it is none.
func (m *mapper) parsed(sql string) parse.Message {
	tree, err := parse.Tree(sql)
	if err != nil {
		m.lost()
		return parse.Message{}
	}
	return tree.Child("stmts").Child("stmt")
}
