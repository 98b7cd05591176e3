package values

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// NamesTime reports whether the only statement of a text plainly reads the time of its transaction: by a word for
// it, by a constant that says now, or by a default that an INSERT fills. given is what Timed returned of the text
// where the INSERT is given those defaults; nil where nothing is given.
//
// Survey is its opposite, which takes for the clock whatever it does not know. Functions, views and DDL are not
// looked into: a default that DDL notes is not read.
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

// timeNamer looks for the time in one statement.
type timeNamer struct {
	names  *schema.Names
	filled bool // its INSERTs are given their defaults
}

func (n *timeNamer) visit(m parse.Message, depth int) bool {
	if depth > deepest || isPeriod(m) || isAge(m) || saysNow(m) || n.fills(m) {
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

// leavesOut reports whether the relation of an INSERT has a column with such a default that the statement does not list.
// Without a list the columns of its query are the first of the relation.
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

// defaulted reports whether a field of a statement has DEFAULT, and its relation such a column.
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

// anyTimed reports whether the relation of a statement has a column that is filled with the time, of which take is true.
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

// inserts counts the INSERTs in a statement.
func inserts(m parse.Message, depth int) (count int) {
	if depth > deepest {
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

// isAge reports a call of age() of one value, which is that from the current date.
func isAge(m parse.Message) bool {
	if !m.Is("FuncCall") || len(m.Values("args")) != 1 {
		return false
	}
	names := m.Names("funcname")
	return names[len(names)-1] == "age" && (len(names) == 1 || len(names) == 2 && names[0] == "pg_catalog")
}

// saysNow reports a constant that is a word for the time, and nothing else.
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
