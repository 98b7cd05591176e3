package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// createIndex rewrites a CREATE INDEX over mapped columns (bytea stored as text).
func (d *ddlMapper) createIndex(index parse.TreeNode) {
	rel := d.findRelation(index.Child("relation"))
	if rel == nil || !rel.HasMapped() {
		return
	}
	t := tableOfRelation(rel)
	ph := d.statementTokens()
	at := 0
	for at < len(ph.Tokens) && !ph.IsKeyword(at, "on") {
		at++
	}
	open := at
	for open < len(ph.Tokens) && !ph.IsPunct(open, '(') {
		open++
	}
	touched := d.renameIndexColumns(t, index, "index_params", open)
	if index.Child("index_including_params").Shape != nil {
		touched = d.renameIndexColumns(t, index, "index_including_params", ph.ClosingParen(open)+2) || touched
	}
	d.readAsBytea(t, index, "where_clause")
	if touched && index.Text("idxname") == "" {
		name := newNameChooser().choose(t.name, d.clientIndexColumns(index), "idx")
		d.insertBefore(at, parse.QuoteIdentIfNeeded(name)+" ")
		d.meant.Set(index, "idxname", parse.Value{Bytes: []byte(name)})
	}
}

// renameIndexColumns replaces mapped columns (bytea stored as text) in an index by their names on the server. The
// index's columns are in field, and the list opens at token open. touched reports whether one of them is mapped.
func (d *ddlMapper) renameIndexColumns(t *MappedTable, index parse.TreeNode, field string, open int) (touched bool) {
	ph := d.statementTokens()
	i := open + 1
	for element := range index.List(field) {
		name := element.Text("name")
		switch expr := element.Child("expr"); {
		case t.IsMapped(name):
			d.rewriteName(element, "name", i, physicalName(name))
			touched = true
		case expr.Is("ColumnRef"): // a column in parentheses
			if name, path := parse.LastRefName(expr); t.IsMapped(name) {
				d.rewriteName(path, "sval", ph.AfterQualifiedName(d.tokenAt(expr.Integer("location")))-1, physicalName(name))
				touched = true
			}
		case expr.Shape != nil:
			edits := len(d.edits)
			d.readAsBytea(t, element, "expr")
			touched = touched || len(d.edits) > edits
		}
		i = ph.ParenItemEnd(i) + 2
	}
	return touched
}

// clientIndexColumns returns the names that clients use for an index's columns. PostgreSQL makes the index's name from
// them.
func (d *ddlMapper) clientIndexColumns(index parse.TreeNode) []string {
	var columns []string
	for _, field := range []string{"index_params", "index_including_params"} {
		for element := range index.List(field) {
			name := element.Text("name")
			if expr := element.Child("expr"); expr.Is("ColumnRef") {
				name, _ = parse.LastRefName(expr)
			}
			if name == "" {
				d.refuse("An index over such a column and an expression has no name: give it one.")
			}
			columns = append(columns, name)
		}
	}
	return parse.NumberDuplicates(columns)
}
