package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// Clients know a mapped column as bytea, and the server stores hexadecimal digits as text under another name. A read of
// the column c becomes decode(c, 'hex'). A value that is written to a mapped column or compared with one becomes
// encode(value, 'hex'). Therefore the server's answers need no change.

// queryMapper rewrites, for mapped columns, one statement that reads or writes rows.
type queryMapper struct {
	r  *Mapping
	ph parse.TokenList
	// pairs maps each parenthesis and bracket token to its counterpart.
	pairs []int32

	edits []parse.Edit
	meant parse.TreeChanges
	// table is the token TABLE of a query of the form TABLE t, or -1 for none.
	table int
	// readAllAsBytea means that the statement reads all mapped columns as bytea, and that no comparison is changed.
	// Such a statement is slow, but needs no first and last token of an operand.
	readAllAsBytea bool
	// repeats means that a parameter occurs more than once in the statement.
	repeats bool
	// constants describes what the query of an INSERT ... SELECT refers to, or is nil for other statements.
	constants *constantRefs
	// aliases are the aliases in a query whose mapped tables useDerivedTables replaces.
	aliases map[string]bool
	// wholes are names by which the query that useDerivedTables rewrites may read whole rows.
	wholes map[string]bool

	refusal *RefusalError
	// unconverted is the reason why columns cannot be converted in place. A query that only reads may still be rewritten
	// by useDerivedTables.
	unconverted string
}

// isQueryStatement reports whether mapQuery rewrites statements of this kind.
func isQueryStatement(node parse.TreeNode) bool {
	switch node.TypeName() {
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt",
		"ExplainStmt", "PrepareStmt", "DeclareCursorStmt", "CopyStmt", "ViewStmt", "CreateTableAsStmt":
		return true
	}
	return false
}

// mapQuery returns the form, for mapped columns, of a statement that reads or writes rows. If columns cannot be
// converted in place, the form uses derived tables.
func (m *Mapping) mapQuery(node parse.TreeNode, start, end int) RewrittenForm {
	if !m.namesMappedRelation(node) {
		return RewrittenForm{}
	}
	q := m.newMapper(start, end, false)
	q.rewriteStatement(node)
	derived := q.unconverted != "" && q.refusal == nil
	if derived {
		why := q.unconverted
		q = m.newMapper(start, end, false)
		q.useDerivedTables(node, why)
	}
	if q.refusal != nil {
		return RewrittenForm{Maps: true, Refusal: q.refusal}
	}
	if len(q.edits) == 0 {
		return RewrittenForm{Maps: true}
	}
	return RewrittenForm{Maps: true, Derived: derived, Edits: q.edits, Meant: q.meant}
}

// AlternativeForm returns another form, for mapped columns, of a statement that reads or writes rows: with all columns
// read as bytea, or with derived tables. means verifies the text of a form. ok is false if no form passes, and for
// other statements.
func (m *Mapping) AlternativeForm(node parse.TreeNode, start, end int, means func(text string, meant parse.TreeChanges) bool) (made RewrittenForm, ok bool) {
	if !isQueryStatement(node) || !m.namesMappedRelation(node) {
		return RewrittenForm{}, false
	}
	plain := m.newMapper(start, end, true)
	plain.rewriteStatement(node)
	derived := m.newMapper(start, end, false)
	derived.useDerivedTables(node, "The text that was made does not mean what was intended.")
	for i, q := range []*queryMapper{plain, derived} {
		if q.refusal != nil || q.unconverted != "" {
			continue
		}
		edits := make([]parse.Edit, len(q.edits))
		for j, e := range q.edits {
			edits[j] = parse.Edit{Start: e.Start - start, End: e.End - start, Text: e.Text}
		}
		text, ok := parse.Apply(string(m.Text[start:end]), edits)
		if ok && means(text, q.meant) {
			return RewrittenForm{Maps: true, Again: true, Derived: i > 0, Edits: q.edits, Meant: q.meant}, true
		}
	}
	return RewrittenForm{}, false
}

func (m *Mapping) newMapper(start, end int, plainly bool) *queryMapper {
	q := &queryMapper{r: m, ph: m.Tokens.StatementTokens(m.Text, start, end), meant: parse.TreeChanges{}, readAllAsBytea: plainly}
	q.pairs = q.ph.BracketPairs()
	q.repeats = q.repeatsParameter()
	return q
}

// namesMappedRelation reports whether a tree names a relation that has mapped columns, or may have them.
func (m *Mapping) namesMappedRelation(node parse.TreeNode) bool {
	if node.Shape == nil {
		return false
	}
	if node.Is("RangeVar") {
		rel, known := m.Names.FindRelation(node.Text("schemaname"), node.Text("relname"))
		return !known || rel != nil && rel.HasMapped()
	}
	for child := range node.Children() {
		if child.Shape != nil && m.namesMappedRelation(child) {
			return true
		}
	}
	return false
}

// rewriteStatement rewrites a statement that reads or writes rows.
func (m *queryMapper) rewriteStatement(node parse.TreeNode) {
	switch node.TypeName() {
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt":
		m.rewriteQuery(node, nil)
	case "ExplainStmt", "PrepareStmt", "DeclareCursorStmt", "ViewStmt", "CreateTableAsStmt":
		m.rewriteStatement(node.Child("query"))
	case "CopyStmt":
		m.rewriteCopyTo(node)
	case "MergeStmt":
		m.refuse("MERGE over mapped columns is not rewritten.")
	default:
		m.refuse("Statements of this kind over mapped columns are not rewritten.")
	}
}

// rewriteQuery rewrites a query, or a change of data with RETURNING. rewriteQuery returns the result columns.
func (m *queryMapper) rewriteQuery(node parse.TreeNode, outer *scope) queryColumns {
	switch node.TypeName() {
	case "SelectStmt":
		return m.rewriteSelect(node, &scope{outer: outer}, nil)
	case "InsertStmt":
		return m.rewriteInsert(node, outer)
	case "UpdateStmt":
		return m.rewriteUpdate(node, outer)
	case "DeleteStmt":
		return m.rewriteDelete(node, outer)
	}
	m.refuse("A statement of this kind within another is not rewritten.")
	return queryColumns{unknown: true}
}

// refuse sets the refusal of the statement, with detail as the reason, unless a refusal is set.
func (m *queryMapper) refuse(detail string) {
	if m.refusal == nil {
		m.refusal = NewRefusalError(detail)
	}
}

// recordUnconvertible records why columns cannot be converted in place, unless a reason is set.
func (m *queryMapper) recordUnconvertible(detail string) {
	if m.unconverted == "" {
		m.unconverted = detail
	}
}

// replaceTokens replaces the tokens first to last by text.
func (m *queryMapper) replaceTokens(first, last int, text string) {
	if first < 0 || last < first || last >= len(m.ph.Tokens) {
		m.recordPositionLost()
		return
	}
	m.edits = append(m.edits, parse.Edit{Start: int(m.ph.Tokens[first].Start), End: int(m.ph.Tokens[last].End), Text: text})
}

// insertBefore inserts text before token i of the statement.
func (m *queryMapper) insertBefore(i int, text string) {
	if i < 0 || i >= len(m.ph.Tokens) {
		m.recordPositionLost()
		return
	}
	at := int(m.ph.Tokens[i].Start)
	m.edits = append(m.edits, parse.Edit{Start: at, End: at, Text: text})
}

// insertAfter inserts text after token i of the statement.
func (m *queryMapper) insertAfter(i int, text string) {
	if i < 0 || i >= len(m.ph.Tokens) {
		m.recordPositionLost()
		return
	}
	at := int(m.ph.Tokens[i].End)
	m.edits = append(m.edits, parse.Edit{Start: at, End: at, Text: text})
}

func (m *queryMapper) recordPositionLost() {
	m.recordUnconvertible("The place of a name or a value was not found in the text.")
}

// tokenOf returns the token at a node's position, or -1.
func (m *queryMapper) tokenOf(node parse.TreeNode) int { return m.ph.TokenAt(node.Integer("location")) }

// matchingParen returns the counterpart of the parenthesis at token i, or -1.
func (m *queryMapper) matchingParen(i int) int {
	if i < 0 || i >= len(m.pairs) {
		return -1
	}
	return int(m.pairs[i])
}

// renameField replaces token i by name, and records the new value of the node's field.
func (m *queryMapper) renameField(node parse.TreeNode, field string, i int, name string) {
	m.replaceTokens(i, i, parse.QuoteIdentIfNeeded(name))
	m.meant.Set(node, field, parse.Value{Bytes: []byte(name)})
}

// parseSQL returns the tree of a query whose text Sluice made. The result is absent if the query has a syntax error.
func (m *queryMapper) parseSQL(sql string) parse.TreeNode {
	tree, err := parse.Tree(sql)
	if err != nil {
		m.recordPositionLost()
		return parse.TreeNode{}
	}
	return tree.Child("stmts").Child("stmt")
}
