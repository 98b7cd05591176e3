package values

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// NamesTime reports whether the single statement of a text plainly reads its transaction's time. It does by an
// expression for the time, a constant such as 'now', or a default that an INSERT fills. given is the result of
// TimedOf if the INSERT gets these defaults, otherwise nil.
//
// SurveyOf is the opposite: it takes everything unknown for the clock. NamesTime ignores functions, views and
// DDL.
func NamesTime(p *rewrite.Planner, sql string, names *schema.Names, given Timed) bool {
	for _, node := range p.Statements(sql) {
		switch node.Name() {
		case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt", "DeclareCursorStmt", "ExplainStmt", "CreateTableAsStmt":
		default:
			continue
		}
		n := timeNamer{names: names, filled: given != nil}
		if w, ok := given.(*within); ok {
			n.filled = len(w.parts) == inserts(node, 0)
		}
		if n.visit(node, 0) {
			return true
		}
	}
	return false
}

// timeNamer searches one statement for the time.
type timeNamer struct {
	names  *schema.Names
	filled bool // the INSERTs of the statement get the values of their defaults
}

func (n *timeNamer) visit(m parse.Message, depth int) bool {
	if depth > maxDepth || isPeriod(m) || isAge(m) || saysNow(m) || n.fills(m) {
		return true
	}
	for child := range m.Nodes() {
		if n.visit(child, depth+1) {
			return true
		}
	}
	return false
}

// fills reports whether a node inserts or changes rows whose defaults are the time.
func (n *timeNamer) fills(m parse.Message) bool {
	if n.names == nil {
		return false
	}
	switch {
	case m.Is("InsertStmt"):
		return !n.filled && n.leavesOut(m) || n.defaulted(m, "on_conflict_clause")
	case m.Is("MergeStmt"):
		return n.anyTimed(m, func(*schema.Column) bool { return true })
	case m.Is("UpdateStmt"):
		return n.defaulted(m, "target_list")
	}
	return false
}

// leavesOut reports whether an INSERT omits a column whose default is the time. Without a column list, the
// query provides the leading columns of the relation.
func (n *timeNamer) leavesOut(m parse.Message) bool {
	listed, first := map[string]bool{}, 0
	for column := range m.List("cols") {
		listed[column.Text("name")] = true
	}
	if len(listed) == 0 && m.Has("select_stmt") {
		for target := range m.Child("select_stmt").List("target_list") {
			if first++; expands(target.Child("val"), 0) {
				first = 0
				break
			}
		}
	}
	at := 0
	return n.anyTimed(m, func(c *schema.Column) bool {
		at++
		return at > first && !listed[c.Name]
	})
}

// defaulted reports whether a field contains DEFAULT, and the relation has a column whose default is the time.
func (n *timeNamer) defaulted(m parse.Message, field string) bool {
	if !m.Has(field) || !n.anyTimed(m, func(*schema.Column) bool { return true }) {
		return false
	}
	for child := range m.Nodes() {
		if !child.Is("SelectStmt") && setsDefault(child, 0) {
			return true
		}
	}
	return false
}

// anyTimed reports whether the statement's relation has a column whose default is the time and for which take
// returns true.
func (n *timeNamer) anyTimed(m parse.Message, take func(*schema.Column) bool) bool {
	name := m.Child("relation")
	r, _ := n.names.Find(name.Text("schemaname"), name.Text("relname"))
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

// inserts returns the number of INSERTs in a statement.
func inserts(m parse.Message, depth int) (count int) {
	if depth > maxDepth {
		return 0
	}
	if m.Is("InsertStmt") {
		count++
	}
	for child := range m.Nodes() {
		count += inserts(child, depth+1)
	}
	return count
}

// isAge reports whether m is age(x), which is computed from the current date.
func isAge(m parse.Message) bool {
	if !m.Is("FuncCall") || len(m.Values("args")) != 1 {
		return false
	}
	names := m.Names("funcname")
	return names[len(names)-1] == "age" && (len(names) == 1 || len(names) == 2 && names[0] == "pg_catalog")
}

// saysNow reports whether m is one of the constants now, today, tomorrow and yesterday.
func saysNow(m parse.Message) bool {
	if !m.Is("A_Const") || !m.Has("sval") {
		return false
	}
	switch strings.ToLower(strings.TrimSpace(m.Child("sval").Text("sval"))) {
	case "now", "today", "tomorrow", "yesterday":
		return true
	}
	return false
}
