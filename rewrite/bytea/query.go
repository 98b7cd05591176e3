package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// Clients know a mapped column as bytea. The server stores it as text of hexadecimal digits, under another name. Where
// a statement reads the column c, Sluice writes decode(c, 'hex'). Where it writes a value to the column or compares a
// value with the column, Sluice writes encode(value, 'hex'). Therefore the server's answers need no change.

// queryMapper rewrites one statement that reads or writes rows, for mapped columns (bytea stored as text). Each of its
// mappers uses only the fields before it.
type queryMapper struct {
	by      *Conversion
	draft   draft
	columns columnResolver
	params  paramChecker
	exprs   exprMapper
	from    fromMapper
	selects selectMapper
}

// newQueryMapper returns the queryMapper of the statement between the byte offsets start and end of the text.
func (m *Mapping) newQueryMapper(start, end int, readAllAsBytea bool) *queryMapper {
	q := &queryMapper{by: m.By, draft: m.newDraft(start, end)}
	q.columns = columnResolver{names: m.Names, problems: &q.draft.diagnostics}
	q.params = paramChecker{repeats: repeatsParameter(&q.draft.TokenList), columns: &q.columns, problems: &q.draft.diagnostics}
	comparisons := comparisonPlanner{spans: &q.draft.spanFinder, columns: &q.columns, params: &q.params}
	q.exprs = exprMapper{draft: &q.draft, by: m.By, columns: &q.columns, comparisons: comparisons, queries: q, readAllAsBytea: readAllAsBytea}
	q.from = fromMapper{draft: &q.draft, columns: &q.columns, exprs: &q.exprs, queries: q}
	q.selects = selectMapper{draft: &q.draft, by: m.By, columns: &q.columns, params: &q.params, exprs: &q.exprs, from: &q.from}
	return q
}

// isQueryStatement reports whether mapQuery, and not mapDDL, rewrites statements of this kind.
func isQueryStatement(node parse.TreeNode) bool {
	switch node.TypeName() {
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt",
		"ExplainStmt", "PrepareStmt", "DeclareCursorStmt", "CopyStmt", "ViewStmt", "CreateTableAsStmt":
		return true
	}
	return false
}

// mapQuery returns the edits of a statement that reads or writes rows, for mapped columns (bytea stored as text). If
// columns cannot be converted in place, subqueries replace the mapped tables.
func (m *Mapping) mapQuery(node parse.TreeNode, start, end int) MappedEdits {
	if !m.namesMappedRelation(node) {
		return MappedEdits{}
	}
	d := m.convertInPlace(node, start, end, false)
	derived := d.unconverted != "" && d.refusal == nil
	if derived {
		d = m.useDerivedTables(node, start, end, d.unconverted)
	}
	if d.refusal != nil {
		return MappedEdits{Maps: true, Refusal: d.refusal}
	}
	if len(d.edits) == 0 {
		return MappedEdits{Maps: true}
	}
	return MappedEdits{Maps: true, Derived: derived, Edits: d.edits, Meant: d.meant}
}

// AlternativeForm returns the edits of a second form of a statement that reads or writes rows, for mapped columns
// (bytea stored as text). The form reads all mapped columns as bytea, or replaces mapped tables by subqueries. means
// verifies the text of a form. ok is false if no form passes, and for other statements.
func (m *Mapping) AlternativeForm(node parse.TreeNode, start, end int, means func(text string, meant parse.TreeChanges) bool) (made MappedEdits, ok bool) {
	if !isQueryStatement(node) || !m.namesMappedRelation(node) {
		return MappedEdits{}, false
	}
	plain := m.convertInPlace(node, start, end, true)
	derived := m.useDerivedTables(node, start, end, "The text that was made does not mean what was intended.")
	for i, d := range []*draft{plain, derived} {
		if d.refusal != nil || d.unconverted != "" {
			continue
		}
		edits := make([]parse.Edit, len(d.edits))
		for j, e := range d.edits {
			edits[j] = parse.Edit{Start: e.Start - start, End: e.End - start, Text: e.Text}
		}
		text, ok := parse.Apply(string(m.Text[start:end]), edits)
		if ok && means(text, d.meant) {
			return MappedEdits{Maps: true, Again: true, Derived: i > 0, Edits: d.edits, Meant: d.meant}, true
		}
	}
	return MappedEdits{}, false
}

// convertInPlace returns the draft of a statement in which each reference to a mapped column (bytea stored as text) is
// converted where it is.
func (m *Mapping) convertInPlace(node parse.TreeNode, start, end int, readAllAsBytea bool) *draft {
	q := m.newQueryMapper(start, end, readAllAsBytea)
	q.rewriteStatement(node)
	return &q.draft
}

// namesMappedRelation reports whether a tree names a relation that has, or may have, mapped columns (bytea stored as
// text).
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

// rewriteStatement rewrites a statement that reads or writes rows, for mapped columns (bytea stored as text).
func (m *queryMapper) rewriteStatement(node parse.TreeNode) {
	switch node.TypeName() {
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt":
		m.rewriteQuery(node, nil, nil)
	case "ExplainStmt", "PrepareStmt", "DeclareCursorStmt", "ViewStmt", "CreateTableAsStmt":
		m.rewriteStatement(node.Child("query"))
	case "CopyStmt":
		m.rewriteCopyTo(node)
	case "MergeStmt":
		m.draft.refuse("MERGE over mapped columns is not rewritten.")
	default:
		m.draft.refuse("Statements of this kind over mapped columns are not rewritten.")
	}
}

// rewriteQuery rewrites a query, or an INSERT, UPDATE or DELETE, as subqueryMapper describes. It returns the result
// columns.
func (m *queryMapper) rewriteQuery(node parse.TreeNode, outer *scope, wanted []bool) queryColumns {
	switch node.TypeName() {
	case "SelectStmt":
		return m.selects.rewriteSelect(node, outer, wanted)
	case "InsertStmt":
		return m.rewriteInsert(node, outer)
	case "UpdateStmt":
		return m.rewriteUpdate(node, outer)
	case "DeleteStmt":
		return m.rewriteDelete(node, outer)
	}
	m.draft.refuse("A statement of this kind within another is not rewritten.")
	return queryColumns{unknown: true}
}
