package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// createIndex rewrites CREATE INDEX over mapped columns.
func (d *ddl) createIndex(index parse.Message) {
	rel := d.find(index.Child("relation"))
	if rel == nil || !rel.Maps() {
		return
	}
	t := tableOf(rel)
	ph := d.phrase()
	at := 0
	for at < len(ph.Tokens) && !ph.Word(at, "on") {
		at++
	}
	open := at
	for open < len(ph.Tokens) && !ph.Punct(open, '(') {
		open++
	}
	touched := d.indexElements(t, index, "index_params", open)
	if index.Child("index_including_params").Shape != nil {
		touched = d.indexElements(t, index, "index_including_params", ph.Closing(open)+2) || touched
	}
	d.readAsBytea(t, index, "where_clause")
	if touched && index.Text("idxname") == "" {
		name := newChooser().choose(t.name, d.indexColumns(index), "idx")
		d.before(at, parse.Written(name)+" ")
		d.meant.Set(index, "idxname", parse.Value{Bytes: []byte(name)})
	}
}

// indexElements renames the columns of an index, whose list opens at token open. It reports whether one of them
// is mapped.
func (d *ddl) indexElements(t *Table, index parse.Message, field string, open int) (touched bool) {
	ph := d.phrase()
	i := open + 1
	for element := range index.List(field) {
		name := element.Text("name")
		switch expr := element.Child("expr"); {
		case t.Maps(name):
			d.rewriteName(element, "name", i, physicalName(name))
			touched = true
		case expr.Is("ColumnRef"): // a column in parentheses
			if name, path := parse.LastName(expr); t.Maps(name) {
				d.rewriteName(path, "sval", ph.Qualified(d.token(expr.Integer("location")))-1, physicalName(name))
				touched = true
			}
		case expr.Shape != nil:
			edits := len(d.edits)
			d.readAsBytea(t, element, "expr")
			touched = touched || len(d.edits) > edits
		}
		i = ph.Ends(i) + 2
	}
	return touched
}

// indexColumns returns the client's names of an index's columns, from which PostgreSQL makes the index name.
func (d *ddl) indexColumns(index parse.Message) []string {
	var columns []string
	for _, field := range []string{"index_params", "index_including_params"} {
		for element := range index.List(field) {
			name := element.Text("name")
			if expr := element.Child("expr"); expr.Is("ColumnRef") {
				name, _ = parse.LastName(expr)
			}
			if name == "" {
				d.refuse("An index over such a column and an expression has no name: give it one.")
			}
			columns = append(columns, name)
		}
	}
	return parse.DistinctNames(columns)
}
