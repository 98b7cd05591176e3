package dialect

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// These are facts that a cluster reports about itself (recorded, September 2026).
const (
	ServerVersion    = "16.15"
	serverVersionNum = "160015"
	versionText      = "PostgreSQL 16"
	databaseName     = "postgres"
	// maxConnections is the answer to SHOW max_connections (measured, September 2026). It differs from the quota.
	maxConnections = "20"
)

// syncIndexSetting is a parameter that only DSQL has. ownSetting is its name in PostgreSQL, which accepts unknown
// parameters only with a dot.
const (
	syncIndexSetting = "disable_sync_create_index"
	ownSetting       = "dsql.disable_sync_create_index"
)

// clusterSettings maps parameters to the values that a cluster shows for them.
var clusterSettings = map[string]string{
	"server_version": ServerVersion, "server_version_num": serverVersionNum, "max_connections": maxConnections,
}

// textEdit says that the text by replaces the bytes from start to end of a statement's text.
type textEdit struct {
	start, end int
	by         string
}

// respellForPostgres returns the text of a statement for PostgreSQL. If PostgreSQL's command tag would differ from the
// cluster's, respellForPostgres also returns the cluster's tag. offset is the statement's place in its text.
func respellForPostgres(q *checkedStatement, offset int) (sql, tag string) {
	switch n := q.node.Node.(type) {
	case *pg.Node_VariableShowStmt:
		name := n.VariableShowStmt.Name
		if value, ok := clusterSettings[name]; ok {
			return "SELECT '" + value + "' AS " + name, "SHOW"
		}
		if name == syncIndexSetting {
			return "SELECT coalesce(current_setting('" + ownSetting + "', true), 'on') AS " + syncIndexSetting, "SHOW"
		}
	case *pg.Node_VariableSetStmt:
		if n.VariableSetStmt.Name == syncIndexSetting {
			return replaceWord(q.text, syncIndexSetting, ownSetting), ""
		}
	}
	r := respelling{text: q.text, offset: offset, clues: q.clues}
	r.respellStatement(q.node)
	sql = r.applyEdits()
	if q.async && q.jobs {
		sql = deferToJob(q.node, sql)
	}
	return sql, ""
}

// deferToJob changes a statement so that a job checks the rows for a unique index, or for a constraint. PostgreSQL
// would check them at once and fail. The comment that deferToJob appends is read by catalog.sql.
func deferToJob(node *pg.Node, sql string) string {
	if node.GetIndexStmt().GetUnique() {
		return replaceWord(sql, "unique", "      ") + "\n/*dsqlsim unique*/"
	}
	for _, cmd := range node.GetAlterTableStmt().GetCmds() {
		c := cmd.GetAlterTableCmd()
		if c.GetSubtype() == pg.AlterTableType_AT_ValidateConstraint && !strings.Contains(c.Name, "*/") {
			sql += "\n/*dsqlsim validates " + c.Name + "*/"
		}
	}
	return sql
}

// respelling collects the edits of one statement.
type respelling struct {
	text   string
	offset int
	clues  clueSet
	edits  []textEdit
}

func (r *respelling) respellStatement(node *pg.Node) {
	switch node.Node.(type) {
	case *pg.Node_CreateStmt, *pg.Node_AlterTableStmt:
		r.removeStorage(node)
	case *pg.Node_SelectStmt, *pg.Node_InsertStmt, *pg.Node_UpdateStmt, *pg.Node_DeleteStmt:
		if r.clues&sawAnswered != 0 {
			r.replaceServerFacts(node)
		}
	}
	if r.clues&sawNumber != 0 {
		r.rewriteNumbers(node)
	}
}

// applyEdits returns the text with all edits made, from the last to the first.
func (r *respelling) applyEdits() string {
	text := r.text
	for len(r.edits) > 0 {
		last := 0
		for i, e := range r.edits {
			if e.start >= r.edits[last].start {
				last = i
			}
		}
		e := r.edits[last]
		text = text[:e.start] + e.by + text[e.end:]
		r.edits = append(r.edits[:last], r.edits[last+1:]...)
	}
	return text
}

// addEdit adds an edit, unless it overlaps with another edit.
func (r *respelling) addEdit(start, end int, by string) {
	for _, e := range r.edits {
		if start < e.end && e.start < end {
			return
		}
	}
	r.edits = append(r.edits, textEdit{start, end, by})
}

// replaceServerFacts replaces calls that ask for properties of the cluster, such as version(), at any place of an
// expression.
func (r *respelling) replaceServerFacts(node *pg.Node) {
	unnamed := make(map[any]bool) // output columns that take their name from the call
	tables := make(map[any]bool)  // calls in FROM, which only a call can take the place of
	WalkMessage(node.ProtoReflect(), func(m any) {
		switch m := m.(type) {
		case *pg.ResTarget:
			if m.Name == "" {
				unnamed[m.Val.GetFuncCall()] = true
			}
		case *pg.RangeFunction:
			WalkMessage(m.ProtoReflect(), func(m any) { tables[m] = true })
		case *pg.FuncCall:
			if !tables[m] {
				r.replaceCall(m, unnamed[m])
			}
		case *pg.SQLValueFunction:
			if m.Op == pg.SQLValueFunctionOp_SVFOP_CURRENT_CATALOG {
				start := int(m.Location) - r.offset
				r.addEdit(start, start+len("current_catalog"), "name '"+databaseName+"'")
			}
		}
	})
}

func (r *respelling) replaceCall(f *pg.FuncCall, unnamed bool) {
	name, value := functionName(f), ""
	switch name {
	case "version":
		value = "text '" + versionText + "'"
	case "current_database":
		value = "name '" + databaseName + "'"
	case "current_setting":
		setting, ok := "", false
		if len(f.Args) > 0 {
			setting, ok = clusterSettings[strings.ToLower(constantString(f.Args[0]))]
		}
		if !ok {
			return
		}
		value = "text '" + setting + "'"
	default:
		return
	}
	start := int(f.Location) - r.offset
	if unnamed {
		value += " AS " + name
	}
	r.addEdit(start, callEnd(r.text, start), value)
}

// callEnd returns the offset at which the function call at start ends.
func callEnd(text string, start int) int {
	lex := lexer{sql: text, at: start}
	depth := 0
	for t := lex.nextToken(); t.kind != endOfText; t = lex.nextToken() {
		switch t.kind {
		case open:
			depth++
		case shut:
			if depth--; depth == 0 {
				return t.end
			}
		}
	}
	return len(text)
}

// replaceWord replaces the first word that equals old, in any case.
func replaceWord(sql, old, by string) string {
	lex := lexer{sql: sql}
	for t := lex.nextToken(); t.kind != endOfText; t = lex.nextToken() {
		if t.kind == word && strings.EqualFold(sql[t.start:t.end], old) {
			return sql[:t.start] + by + sql[t.end:]
		}
	}
	return sql
}
