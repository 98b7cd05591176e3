package dialect

import (
	"regexp"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// What a cluster says of itself (recorded, September 2026).
const (
	ServerVersion    = "16.15"
	serverVersionNum = "160015"
	versionText      = "PostgreSQL 16"
)

// syncIndexSetting is a parameter of DSQL's own, and ownSetting the name that it
// has in PostgreSQL, which takes unknown names only with a dot.
const (
	syncIndexSetting = "disable_sync_create_index"
	ownSetting       = "dsql.disable_sync_create_index"
)

// respell returns the statement as PostgreSQL shall run it, and the command tag
// to answer if it is another's. offset is where the statement begins in its text.
func respell(q *question, offset int) (sql, tag string) {
	switch n := q.node.Node.(type) {
	case *pg.Node_VariableShowStmt:
		switch n.VariableShowStmt.Name {
		case "server_version":
			return "SELECT '" + ServerVersion + "' AS server_version", "SHOW"
		case "server_version_num":
			return "SELECT '" + serverVersionNum + "' AS server_version_num", "SHOW"
		case syncIndexSetting:
			return "SELECT coalesce(current_setting('" + ownSetting + "', true), 'on') AS " + syncIndexSetting, "SHOW"
		}
	case *pg.Node_VariableSetStmt:
		if n.VariableSetStmt.Name == syncIndexSetting {
			return replaceWord(q.text, syncIndexSetting, ownSetting), ""
		}
	case *pg.Node_SelectStmt:
		if q.clues&sawVersion != 0 {
			return respellVersion(q.text, n.SelectStmt, offset), ""
		}
	}
	return q.text, ""
}

// versionCall is a call of version() at the beginning of a string.
var versionCall = regexp.MustCompile(`^(?i:pg_catalog\s*\.\s*)?(?i:version|"version")\s*\(\s*\)`)

// respellVersion answers version() where it is an output column of its own.
func respellVersion(sql string, s *pg.SelectStmt, offset int) string {
	// From the last to the first, so that the places before stay where they are.
	for i := len(s.TargetList) - 1; i >= 0; i-- {
		target := s.TargetList[i].GetResTarget()
		call := target.GetVal().GetFuncCall()
		if call == nil || functionName(call) != "version" {
			continue
		}
		at := int(call.Location) - offset
		found := versionCall.FindString(sql[at:])
		if found == "" {
			continue
		}
		value := "'" + versionText + "'::text"
		if target.Name == "" {
			value += " AS version"
		}
		sql = sql[:at] + value + sql[at+len(found):]
	}
	return sql
}

// replaceWord replaces the first word that equals old, in any case.
func replaceWord(sql, old, by string) string {
	lex := lexer{sql: sql}
	for t := lex.next(); t.kind != endOfText; t = lex.next() {
		if t.kind == word && strings.EqualFold(sql[t.start:t.end], old) {
			return sql[:t.start] + by + sql[t.end:]
		}
	}
	return sql
}
