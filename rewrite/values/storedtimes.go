package values

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// tableName is a relation's name with its schema.
type tableName struct{ schema, name string }

// StoredTimes records the columns in which a transaction has stored its time.
type StoredTimes struct{ in []storedTime }

// storedTime lists columns of one relation that hold the time; nil columns mean any. An empty tableName is an
// unknown relation.
type storedTime struct {
	tableName
	columns []string // nil means any column
}

// Note records which columns a text may set to the time.
func (t *StoredTimes) Note(p *rewrite.Planner, sql string, names *schema.Names) {
	timed, inserts, _ := timeWords([]byte(sql))
	if !timed && !inserts {
		return
	}
	for _, node := range p.Statements(sql) {
		t.note(node, timed, names, 0)
	}
}

// note records statements that store the time, by an expression or by a default. timed reports that the text
// contains an expression for the time.
func (t *StoredTimes) note(m parse.Message, timed bool, names *schema.Names, depth int) {
	if depth > maxDepth {
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

// timeColumns returns the columns whose default is the time, and those that may be computed from it.
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

// Read reports whether a text may return a recorded transaction time to the client.
func (t *StoredTimes) Read(p *rewrite.Planner, sql string, names *schema.Names) bool {
	if len(t.in) == 0 {
		return false
	}
	return slices.ContainsFunc(p.Statements(sql), func(node parse.Message) bool {
		r := timeReader{stored: t.in, names: names}
		r.visit(node, 0)
		return r.readsTime()
	})
}

// timeReader searches one statement for reads of recorded times.
type timeReader struct {
	stored []storedTime
	names  *schema.Names
	any    bool     // it may read any column
	rows   bool     // it reads columns without naming them: by a star, a natural join or an alias
	of     []string // the names of recorded columns, and of their relations, which denote whole rows
	named  []string // the names in the statement
}

func (r *timeReader) readsTime() bool {
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
	case "JoinExpr": // the alias of a join may be read as a whole row
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
	case "InsertStmt": // RETURNING shows only the inserted rows
		if !m.Has("on_conflict_clause") {
			target = m.Child("relation")
		}
	}
	if r.any = r.any || depth > maxDepth; r.any {
		return
	}
	for child := range m.Nodes() {
		if target.Shape == nil || !child.Same(target) {
			r.visit(child, depth+1)
		}
	}
}

// column processes a column reference. Names before the last one are those of relations.
func (r *timeReader) column(m parse.Message) {
	fields := slices.Collect(m.List("fields"))
	if last := fields[len(fields)-1]; last.Is("String") {
		r.named = append(r.named, last.Text("sval"))
	} else {
		r.rows = true
	}
}

// relation processes a relation that is read. Catalogs contain no recorded times.
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
		case found == nil: // the query of a WITH name is visited separately
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
