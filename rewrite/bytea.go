package rewrite

// The mapping of statements that read or write rows. Clients know a mapped column as bytea;
// the server has text of hexadecimal digits under another name. Reading such a column is
// decode(c, 'hex') there, and what is written to it or compared with it is encode(value,
// 'hex'): the server converts, and what it answers is what the client expects.

// mapper is the mapping of one statement.
type mapper struct {
	r  *rewriter
	ph phrase
	// pairs has for each parenthesis and bracket among the tokens the one that belongs to it.
	pairs []int32

	edits []edit
	meant intents
	// table is the word of a TABLE t, which is read; -1 for none.
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

	refusal *Refusal
	// unsaid says what has no form in which columns are converted where they stand; a
	// query that only reads may still be written over derived tables.
	unsaid string
}

// asks reports whether a statement is one of those that mapQuery rewrites.
func asks(node message) bool {
	switch node.name() {
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt",
		"ExplainStmt", "PrepareStmt", "DeclareCursorStmt", "CopyStmt", "ViewStmt", "CreateTableAsStmt":
		return true
	}
	return false
}

// mapQuery rewrites a statement that reads or writes rows.
func (r *rewriter) mapQuery(p *part) {
	if !r.touches(p.node) {
		return
	}
	r.maps = true
	m := r.mapper(p, false)
	m.statement(p.node)
	r.settle(m, p)
}

// settle takes over what a mapper has made of a statement. What it could not say, derived
// tables may.
func (r *rewriter) settle(m *mapper, p *part) {
	action, severity, feature := mappedAction, Info, ByteaKey
	if m.unsaid != "" && m.refusal == nil {
		why := m.unsaid
		m = r.mapper(p, false)
		m.derive(p.node, why)
		action, severity, feature = derivedAction, Warning, ByteaFollowed
	}
	if m.refusal != nil {
		p.st.Refusal = m.refusal
		return
	}
	if len(m.edits) == 0 {
		return
	}
	r.edits = append(r.edits, m.edits...)
	for node, changes := range m.meant {
		r.meant[node] = append(r.meant[node], changes...)
	}
	r.find(handled(feature, Rewritten, severity, action, p.st.Start))
}

const derivedAction = "rewritten to read derived tables in the place of those with mapped columns: no index over these serves it"

// again maps a statement whose first form does not mean what was intended: with columns read
// as bytea everywhere, or else over derived tables. It reports whether one of these does.
func (r *rewriter) again(planner *Planner, p *part, held bool) bool {
	if r.names == nil || !asks(p.node) || len(p.locked) > 0 || !r.touches(p.node) {
		return false
	}
	plain := r.mapper(p, true)
	plain.statement(p.node)
	derived := r.mapper(p, false)
	derived.derive(p.node, "The text that was made does not mean what was intended.")
	for i, m := range []*mapper{plain, derived} {
		if m.refusal != nil || m.unsaid != "" {
			continue
		}
		edits := make([]edit, len(m.edits))
		for j, e := range m.edits {
			edits[j] = edit{e.start - p.st.Start, e.end - p.st.Start, e.text}
		}
		text, ok := applyEdits(string(r.text[p.st.Start:p.st.End]), edits)
		if !ok {
			continue
		}
		made, ok := planner.read(text, held)
		if !ok || len(made.values("stmts")) != 1 || !m.meant.equal(p.raw, made.child("stmts")) {
			continue
		}
		r.maps, r.mapped = true, true
		r.edits = append(r.edits, m.edits...)
		for node, changes := range m.meant {
			r.meant[node] = append(r.meant[node], changes...)
		}
		if i == 0 {
			r.find(handled(ByteaKey, Rewritten, Info, mappedAction, p.st.Start))
		} else {
			r.find(handled(ByteaFollowed, Rewritten, Warning, derivedAction, p.st.Start))
		}
		return true
	}
	return false
}

func (r *rewriter) mapper(p *part, plainly bool) *mapper {
	m := &mapper{r: r, ph: r.phrase(p), meant: intents{}, plainly: plainly}
	m.pairs = m.ph.pairs()
	m.repeats = m.again()
	return m
}

// touches reports whether a relation with mapped columns is named in a tree, or one of which
// nobody knows whether it is such.
func (r *rewriter) touches(node message) bool {
	if node.shape == nil {
		return false
	}
	if node.is("RangeVar") {
		rel, known := r.names.find(node.text("schemaname"), node.text("relname"))
		return !known || rel != nil && rel.Maps()
	}
	for child := range node.nodes() {
		if child.shape != nil && r.touches(child) {
			return true
		}
	}
	return false
}

// statement maps what one may ask or tell the server.
func (m *mapper) statement(node message) {
	switch node.name() {
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt":
		m.query(node, nil)
	case "ExplainStmt", "PrepareStmt", "DeclareCursorStmt", "ViewStmt", "CreateTableAsStmt":
		m.statement(node.child("query"))
	case "CopyStmt":
		m.copyTo(node)
	case "MergeStmt":
		m.refuse("MERGE over mapped columns is not rewritten.")
	default:
		m.refuse("Statements of this kind over mapped columns are not rewritten.")
	}
}

// query maps a query, or a change of data with what it returns, and tells its columns.
func (m *mapper) query(node message, outer *scope) outputs {
	switch node.name() {
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
		m.refusal = errUnmapped(detail)
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
	if first < 0 || last < first || last >= len(m.ph.tokens) {
		m.lost()
		return
	}
	m.edits = append(m.edits, edit{int(m.ph.tokens[first].start), int(m.ph.tokens[last].end), text})
}

// before puts text in front of token i.
func (m *mapper) before(i int, text string) {
	if i < 0 || i >= len(m.ph.tokens) {
		m.lost()
		return
	}
	at := int(m.ph.tokens[i].start)
	m.edits = append(m.edits, edit{at, at, text})
}

// behind puts text behind token i.
func (m *mapper) behind(i int, text string) {
	if i < 0 || i >= len(m.ph.tokens) {
		m.lost()
		return
	}
	at := int(m.ph.tokens[i].end)
	m.edits = append(m.edits, edit{at, at, text})
}

func (m *mapper) lost() { m.cannot("The place of a name or a value was not found in the text.") }

// token is the one at which a node stands; -1 for none.
func (m *mapper) token(node message) int { return m.ph.at(node.integer("location")) }

// pair is the parenthesis that belongs to the one at token i; -1 for none.
func (m *mapper) pair(i int) int {
	if i < 0 || i >= len(m.pairs) {
		return -1
	}
	return int(m.pairs[i])
}

// rename gives a name in the tree, which stands at token i, the one that the server has.
func (m *mapper) rename(node message, field string, i int, name string) {
	m.edit(i, i, written(name))
	m.meant.set(node, field, value{bytes: []byte(name)})
}

// wrapped are the Nodes in a field as they stand.
func (m message) wrapped(field string) []message {
	if m.shape == nil {
		return nil
	}
	held := m.shape.fields[m.shape.number(field)].shape
	var all []message
	for _, v := range m.values(field) {
		all = append(all, message{held, v.bytes})
	}
	return all
}

// node is the Node in a field that is not repeated, as it stands.
func (m message) node(field string) message {
	for _, n := range m.wrapped(field) {
		return n
	}
	return message{}
}

// kind is the inner of a Node, which may be absent.
func (m message) kind() message {
	if m.shape == nil {
		return m
	}
	return m.inner()
}

// parsed is the tree of a query of our own; absent where it is none.
func (m *mapper) parsed(sql string) message {
	tree, err := parseTree(sql)
	if err != nil {
		m.lost()
		return message{}
	}
	return tree.child("stmts").child("stmt")
}
