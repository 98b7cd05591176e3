package values

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// tableName is a relation's name with that of its schema.
type tableName struct{ schema, name string }

// StoredTimes are the columns in which statements of a transaction have stored its time.
type StoredTimes struct{ in []storedTime }

// storedTime are such columns of a relation, by their names; of all columns where nobody knows which they are. Of
// a relation without a name nobody knows which one it is.
type storedTime struct {
	tableName
	columns []string // nil: any
}

// Note takes in what a text stores.
func (t *StoredTimes) Note(p *rewrite.Planner, sql string, names *schema.Names) {
	timed, inserts, _ := timeWords([]byte(sql))
	if !timed && !inserts {
		return
	}
	for _, node := range p.Statements(sql) {
		t.note(node, timed, names, 0)
	}
}

// note looks for statements that store the time: by its words, which timed says are in the text, or by defaults.
func (t *StoredTimes) note(m parse.Message, timed bool, names *schema.Names, depth int) {
	if depth > deepest {
		t.add(storedTime{})
		return
	}
	switch m.Name() {
	case "InsertStmt", "MergeStmt", "UpdateStmt":
		relation := m.Child("relation")
		r := names.Relation(relation.Text("schemaname"), relation.Text("relname"))
		switch {
		case r == nil, r.View:
			t.add(storedTime{})
		case timed:
			t.add(storedTime{tableName: tableName{r.Schema, r.Name}})
		case !m.Is("UpdateStmt") && fillsTime(relation, names):
			t.add(storedTime{tableName{r.Schema, r.Name}, timeColumns(r)})
		}
	}
	for child := range m.Nodes() {
		t.note(child, timed, names, depth+1)
	}
}

// timeColumns are the columns of a relation that are filled with the time, and those that may be computed of it.
func timeColumns(r *schema.Relation) (columns []string) {
	for _, c := range r.Columns {
		if c.Fill == schema.Clock || c.Computed {
			columns = append(columns, c.Name)
		}
	}
	return columns
}

func (t *StoredTimes) add(s storedTime) {
	known := func(k storedTime) bool {
		return k.tableName == s.tableName && (k.columns == nil || slices.Equal(k.columns, s.columns))
	}
	if !slices.ContainsFunc(t.in, known) {
		t.in = append(t.in, s)
	}
}

// Read reports whether a text may read what was stored, and so tell its client the time.
func (t *StoredTimes) Read(p *rewrite.Planner, sql string, names *schema.Names) bool {
	if len(t.in) == 0 {
		return false
	}
	return slices.ContainsFunc(p.Statements(sql), func(node parse.Message) bool {
		r := timeReader{stored: t.in, names: names}
		r.visit(node, 0)
		return r.told()
	})
}

// timeReader looks through one statement.
type timeReader struct {
	stored []storedTime
	names  *schema.Names
	any    bool     // it may read what was stored, whatever it names
	rows   bool     // it reads columns that it does not name: by a star, a join, names of its own
	of     []string // the names of what was stored: columns, and relations, which stand for whole rows
	named  []string // what it names
}

func (r *timeReader) told() bool {
	return r.any || len(r.of) > 0 && (r.rows || slices.ContainsFunc(r.named, func(name string) bool { return slices.Contains(r.of, name) }))
}

func (r *timeReader) visit(m parse.Message, depth int) {
	target := parse.Message{}
	switch m.Name() {
	case "RangeVar":
		r.relation(m)
	case "FuncCall":
		r.any = r.any || callsUnknown(m)
	case "A_Star":
		r.rows = true
	case "JoinExpr": // one with a name has rows of its own
		r.rows = r.rows || m.Flag("is_natural") || m.Has("alias")
	case "CopyStmt":
		r.rows = r.rows || !m.Has("attlist")
	case "ColumnRef":
		r.column(m)
		return
	case "String":
		r.named = append(r.named, m.Text("sval"))
	case "IndexElem":
		r.named = append(r.named, m.Text("name"))
	case "InsertStmt": // what it returns it has inserted
		if !m.Has("on_conflict_clause") {
			target = m.Child("relation")
		}
	}
	if r.any = r.any || depth > deepest; r.any {
		return
	}
	for child := range m.Nodes() {
		if target.Shape == nil || !child.Same(target) {
			r.visit(child, depth+1)
		}
	}
}

// column looks at a reference to a column. What stands in front of its last name is a relation's.
func (r *timeReader) column(m parse.Message) {
	fields := slices.Collect(m.List("fields"))
	if last := fields[len(fields)-1]; last.Is("String") {
		r.named = append(r.named, last.Text("sval"))
	} else {
		r.rows = true
	}
}

// relation looks at a relation that is read. Those of the catalog show nothing that was stored.
func (r *timeReader) relation(m parse.Message) {
	name := tableName{m.Text("schemaname"), m.Text("relname")}
	found := r.names.Relation(name.schema, name.name)
	if found != nil {
		name.schema = found.Schema
	}
	if name.schema == "pg_catalog" || name.schema == "information_schema" {
		return
	}
	for _, s := range r.stored {
		switch {
		case s.tableName == tableName{}:
			r.any = true
		case found == nil: // of a WITH query the query itself is looked at
			r.any = r.any || name.schema != ""
		case found.View:
			r.any = true
		case s.tableName == name:
			r.any = r.any || s.columns == nil
			r.of = append(r.of, s.columns...)
			r.of = append(r.of, name.name)
			if alias := m.Child("alias"); alias.Shape != nil {
				r.of = append(r.of, alias.Text("aliasname"))
				r.rows = r.rows || alias.Has("colnames")
			}
		}
	}
}
