package values

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// PlainlyReadsTxTime reports whether the single statement of a text plainly reads its transaction's time. It may do so
// by an expression such as now(), by a constant such as 'now', or by a default that an INSERT fills. given is the
// result of ParseTimed if Sluice gives these defaults the first run's time, otherwise nil. An EXECUTE counts, since it
// may run any statement.
//
// EffectsOf assumes that whatever it does not know reads the clock. PlainlyReadsTxTime assumes the opposite: it ignores
// functions, views and DDL.
func PlainlyReadsTxTime(p *rewrite.Planner, sql string, names *schema.NameResolver, given TimedStatement) bool {
	for _, node := range p.StatementTrees(sql) {
		switch node.TypeName() {
		case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt", "DeclareCursorStmt", "ExplainStmt", "CreateTableAsStmt", "CopyStmt", "ExecuteStmt":
		default:
			continue
		}
		n := txTimeFinder{names: names, filled: given != nil}
		if w, ok := given.(*insertsInWith); ok {
			n.filled = len(w.parts) == countInserts(node, 0)
		}
		if n.findsTxTime(node, 0) {
			return true
		}
	}
	return false
}

// txTimeFinder searches one statement for expressions whose value is the transaction's time.
type txTimeFinder struct {
	names  *schema.NameResolver
	filled bool // Sluice gives values to the defaults in the statement's INSERTs
}

func (n *txTimeFinder) findsTxTime(m parse.TreeNode, depth int) bool {
	if depth > maxDepth || m.Is("ExecuteStmt") || isTxTimeExpr(m) || isAgeCall(m) || isNowConstant(m) || n.fillsTxTime(m) {
		return true
	}
	for child := range m.Children() {
		if n.findsTxTime(child, depth+1) {
			return true
		}
	}
	return false
}

// fillsTxTime reports whether a node inserts or changes rows in which a default may write the transaction's time.
func (n *txTimeFinder) fillsTxTime(m parse.TreeNode) bool {
	if n.names == nil {
		return false
	}
	switch {
	case m.Is("InsertStmt"):
		return !n.filled && n.omitsTimeColumn(m) || n.setsTimeDefault(m, "on_conflict_clause")
	case m.Is("MergeStmt"):
		return n.hasTimeColumn(m, func(*schema.Column) bool { return true })
	case m.Is("UpdateStmt"):
		return n.setsTimeDefault(m, "target_list")
	}
	return false
}

// omitsTimeColumn reports whether an INSERT omits a column whose default is the transaction's time. An INSERT without a
// column list gives values to the first columns of the relation, and omits the others.
func (n *txTimeFinder) omitsTimeColumn(m parse.TreeNode) bool {
	listed, first := map[string]bool{}, 0
	for column := range m.List("cols") {
		listed[column.Text("name")] = true
	}
	if len(listed) == 0 && m.Has("select_stmt") {
		for target := range m.Child("select_stmt").List("target_list") {
			if first++; mayBeSeveralColumns(target.Child("val"), 0) {
				first = 0
				break
			}
		}
	}
	at := 0
	return n.hasTimeColumn(m, func(c *schema.Column) bool {
		at++
		return at > first && !listed[c.Name]
	})
}

// setsTimeDefault reports whether a clause sets a column to DEFAULT, and the relation has a column whose default is the
// transaction's time. field is the clause's field in m.
func (n *txTimeFinder) setsTimeDefault(m parse.TreeNode, field string) bool {
	if !m.Has(field) || !n.hasTimeColumn(m, func(*schema.Column) bool { return true }) {
		return false
	}
	for child := range m.Children() {
		if !child.Is("SelectStmt") && containsDefault(child, 0) {
			return true
		}
	}
	return false
}

// hasTimeColumn reports whether the statement's relation has a column that take accepts, and whose default is the
// transaction's time.
func (n *txTimeFinder) hasTimeColumn(m parse.TreeNode, take func(*schema.Column) bool) bool {
	name := m.Child("relation")
	r, _ := n.names.FindRelation(name.Text("schemaname"), name.Text("relname"))
	if r == nil || r.View {
		return false
	}
	for i := range r.Columns {
		if c := &r.Columns[i]; take(c) && c.Time != "" && !c.Computed {
			return true
		}
	}
	return false
}

// countInserts returns the number of INSERTs in a statement, including those in WITH queries.
func countInserts(m parse.TreeNode, depth int) (count int) {
	if depth > maxDepth {
		return 0
	}
	if m.Is("InsertStmt") {
		count++
	}
	for child := range m.Children() {
		count += countInserts(child, depth+1)
	}
	return count
}

// isAgeCall reports whether m is age(x), which PostgreSQL computes from the current date.
func isAgeCall(m parse.TreeNode) bool {
	if !m.Is("FuncCall") || len(m.Values("args")) != 1 {
		return false
	}
	names := m.Names("funcname")
	return names[len(names)-1] == "age" && (len(names) == 1 || len(names) == 2 && names[0] == "pg_catalog")
}

// isNowConstant reports whether m is one of the constants 'now', 'today', 'tomorrow' and 'yesterday'.
func isNowConstant(m parse.TreeNode) bool {
	if !m.Is("A_Const") || !m.Has("sval") {
		return false
	}
	switch strings.ToLower(strings.TrimSpace(m.Child("sval").Text("sval"))) {
	case "now", "today", "tomorrow", "yesterday":
		return true
	}
	return false
}
