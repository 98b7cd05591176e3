package values

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// tableName is a relation's name with its schema.
type tableName struct{ schema, name string }

// StoredTxTimes records the columns into which a transaction has written its own time, such as now().
type StoredTxTimes struct{ in []storedTimeColumns }

// storedTimeColumns lists the columns of one relation that may hold the transaction's time. An empty tableName means an
// unknown relation.
type storedTimeColumns struct {
	tableName
	columns []string // nil means all columns of the relation
}

// RecordText records the columns into which a text may write the transaction's time.
func (t *StoredTxTimes) RecordText(p *rewrite.Planner, sql string, names *schema.NameResolver) {
	timed, inserts, _ := timeWords([]byte(sql))
	if !timed && !inserts {
		return
	}
	for _, node := range p.StatementTrees(sql) {
		t.recordNode(node, timed, names, 0)
	}
}

// recordNode records the columns into which a statement may write the transaction's time, by an expression or a
// default. timed reports that the text contains an expression such as now().
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

// timeDefaultColumns returns the columns whose default is the transaction's time. It also returns computed columns,
// because they may depend on columns with the time.
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

// HidesTime reports whether a text uses the transaction's time in a way that its answer does not show. HidesTime also
// counts times that earlier texts have stored, and records what the text itself stores. If nothing is stored, HidesTime
// does not parse a text without a word for the time.
func (t *StoredTxTimes) HidesTime(p *rewrite.Planner, sql string, names *schema.NameResolver) bool {
	hides := t.MayReturnStored(p, sql, names)
	if !MayUseTxTime([]byte(sql)) {
		return hides
	}
	t.RecordText(p, sql, names)
	return hides || MayHideTxTime(p, sql, names)
}

// MayReturnStored reports whether a text may read a column into which the transaction has written its own time.
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

// timeReader finds out whether one statement reads columns that hold the transaction's time.
type timeReader struct {
	stored []storedTimeColumns
	names  *schema.NameResolver
	any    bool     // the statement may read any column
	rows   bool     // the statement reads columns without their names: by a star, a natural join or an alias
	of     []string // the names of columns with the time, and of their relations, which as a name mean a whole row
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
	case "JoinExpr": // a statement may read the alias of a join as a whole row
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
	case "InsertStmt": // RETURNING returns only the inserted rows
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

// visitColumn processes a reference to a column. It records the last name, which is the column's.
func (r *timeReader) visitColumn(m parse.TreeNode) {
	fields := slices.Collect(m.List("fields"))
	if last := fields[len(fields)-1]; last.Is("String") {
		r.named = append(r.named, last.Text("sval"))
	} else {
		r.rows = true
	}
}

// visitRelation processes a relation that the statement reads. System catalogs never hold the transaction's time.
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
		case found == nil: // visit processes the query of a WITH name separately
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
