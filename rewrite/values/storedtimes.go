package values

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// tableName is a relation's name with its schema.
type tableName struct{ schema, name string }

// StoredTxTimes records the columns in which a transaction has stored its time.
type StoredTxTimes struct{ in []storedTimeColumns }

// storedTimeColumns lists columns of one relation that hold the transaction's time. nil columns mean any column. An
// empty tableName is an unknown relation.
type storedTimeColumns struct {
	tableName
	columns []string // nil means any column
}

// RecordText records which columns a text may set to the transaction's time.
func (t *StoredTxTimes) RecordText(p *rewrite.Planner, sql string, names *schema.NameResolver) {
	timed, inserts, _ := timeWords([]byte(sql))
	if !timed && !inserts {
		return
	}
	for _, node := range p.StatementTrees(sql) {
		t.recordNode(node, timed, names, 0)
	}
}

// recordNode records statements that store the transaction's time, by an expression or by a default. timed reports that
// the text contains an expression for the time.
func (t *StoredTxTimes) recordNode(m parse.TreeNode, timed bool, names *schema.NameResolver, depth int) {
	if depth > maxDepth {
		t.add(storedTimeColumns{})
		return
	}
	switch m.TypeName() {
	case "InsertStmt", "MergeStmt", "UpdateStmt":
		relation := m.Child("relation")
		r := names.Relation(relation.Text("schemaname"), relation.Text("relname"))
		switch {
		case r == nil, r.View:
			t.add(storedTimeColumns{})
		case timed:
			t.add(storedTimeColumns{tableName: tableName{r.Schema, r.Name}})
		case !m.Is("UpdateStmt") && hasTimeDefault(relation, names):
			t.add(storedTimeColumns{tableName{r.Schema, r.Name}, timeDefaultColumns(r)})
		}
	}
	for child := range m.Children() {
		t.recordNode(child, timed, names, depth+1)
	}
}

// timeDefaultColumns returns the columns whose default is the transaction's time, and the columns that may be computed
// from such columns.
func timeDefaultColumns(r *schema.Relation) (columns []string) {
	for _, c := range r.Columns {
		if c.Fill == schema.Clock || c.Computed {
			columns = append(columns, c.Name)
		}
	}
	return columns
}

func (t *StoredTxTimes) add(s storedTimeColumns) {
	known := func(k storedTimeColumns) bool {
		return k.tableName == s.tableName && (k.columns == nil || slices.Equal(k.columns, s.columns))
	}
	if !slices.ContainsFunc(t.in, known) {
		t.in = append(t.in, s)
	}
}

// HidesTime reports whether a text uses the transaction's time without returning it unchanged, given what earlier texts
// have stored. HidesTime records what the text itself stores. A text without a word for the time is not parsed, if
// nothing is stored.
func (t *StoredTxTimes) HidesTime(p *rewrite.Planner, sql string, names *schema.NameResolver) bool {
	hides := t.MayReturnStored(p, sql, names)
	if !MayUseTxTime([]byte(sql)) {
		return hides
	}
	t.RecordText(p, sql, names)
	return hides || MayHideTxTime(p, sql, names)
}

// MayReturnStored reports whether a text may return a recorded transaction time to the client.
func (t *StoredTxTimes) MayReturnStored(p *rewrite.Planner, sql string, names *schema.NameResolver) bool {
	if len(t.in) == 0 {
		return false
	}
	return slices.ContainsFunc(p.StatementTrees(sql), func(node parse.TreeNode) bool {
		r := timeReader{stored: t.in, names: names}
		r.visit(node, 0)
		return r.readsTime()
	})
}

// timeReader searches one statement for reads of columns with the transaction's time.
type timeReader struct {
	stored []storedTimeColumns
	names  *schema.NameResolver
	any    bool     // it may read any column
	rows   bool     // it reads columns without naming them: by a star, a natural join or an alias
	of     []string // the names of recorded columns, and of their relations, which denote whole rows
	named  []string // the names in the statement
}

func (r *timeReader) readsTime() bool {
	return r.any || len(r.of) > 0 && (r.rows || slices.ContainsFunc(r.named, func(name string) bool { return slices.Contains(r.of, name) }))
}

func (r *timeReader) visit(m parse.TreeNode, depth int) {
	target := parse.TreeNode{}
	switch m.TypeName() {
	case "RangeVar":
		r.visitRelation(m)
	case "FuncCall":
		r.any = r.any || isUnknownCall(m)
	case "A_Star":
		r.rows = true
	case "JoinExpr": // the alias of a join may be read as a whole row
		r.rows = r.rows || m.Flag("is_natural") || m.Has("alias")
	case "CopyStmt":
		r.rows = r.rows || !m.Has("attlist")
	case "ColumnRef":
		r.visitColumn(m)
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
	for child := range m.Children() {
		if target.Shape == nil || !child.IsSameNode(target) {
			r.visit(child, depth+1)
		}
	}
}

// visitColumn processes a reference to a column. Names before the last one are names of relations.
func (r *timeReader) visitColumn(m parse.TreeNode) {
	fields := slices.Collect(m.List("fields"))
	if last := fields[len(fields)-1]; last.Is("String") {
		r.named = append(r.named, last.Text("sval"))
	} else {
		r.rows = true
	}
}

// visitRelation processes a relation that the statement reads. Catalogs contain no recorded times.
func (r *timeReader) visitRelation(m parse.TreeNode) {
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
