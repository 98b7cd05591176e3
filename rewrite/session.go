package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// answerPoolReset makes Sluice answer statements by which connection pools release cursors, channels and advisory
// locks: CLOSE ALL, UNLISTEN and SELECT pg_advisory_unlock_all(). DSQL sessions have none of these objects.
func (r *rewriter) answerPoolReset(p *statementPart) {
	if !r.rules.Session {
		return
	}
	switch m := p.node; m.TypeName() {
	case "ClosePortalStmt":
		if m.Text("portalname") != "" {
			return
		}
		r.answerLocally(p, ClosesAll, "CLOSE CURSOR ALL")
	case "UnlistenStmt":
		r.answerLocally(p, Answers, "UNLISTEN")
	case "SelectStmt":
		call, column := soleCall(m)
		if parse.CalledFunction(call) != "pg_advisory_unlock_all" || len(call.Values("args")) > 0 {
			return
		}
		r.answerLocally(p, AnswersVoid, "SELECT 1")
		p.st.Column = column
	default:
		return
	}
	p.advisory = false
	r.addFinding(finding.Handled(finding.Discard, finding.Answered, finding.Info, "answered: there is nothing to discard", p.st.Start))
}

// soleCall returns the function call and the column name of a query that is only SELECT f(...).
func soleCall(m parse.TreeNode) (call parse.TreeNode, column string) {
	if calls, columns := plainCalls(m); len(calls) == 1 {
		return calls[0], columns[0]
	}
	return parse.TreeNode{}, ""
}

// plainCalls returns the function calls and column names of a query that is only SELECT f(...), g(...). For any other
// query it returns nil.
func plainCalls(m parse.TreeNode) (calls []parse.TreeNode, columns []string) {
	plain := sampleNothing().Child("stmts").Child("stmt")
	meant := parse.TreeChanges{}
	meant.Set(plain, "target_list", m.Values("target_list")...)
	if !meant.Equal(plain, m) {
		return nil, nil
	}
	for target := range m.List("target_list") {
		call := target.Child("val")
		if !target.Is("ResTarget") || target.Child("indirection").Shape != nil || !call.Is("FuncCall") {
			return nil, nil
		}
		for _, option := range []string{"agg_order", "agg_filter", "over"} {
			if call.Child(option).Shape != nil {
				return nil, nil
			}
		}
		for _, option := range []string{"agg_within_group", "agg_star", "agg_distinct", "func_variadic"} {
			if call.Flag(option) {
				return nil, nil
			}
		}
		column := target.Text("name")
		if column == "" {
			names := call.Names("funcname")
			column = names[len(names)-1]
		}
		calls, columns = append(calls, call), append(columns, column)
	}
	return calls, columns
}

// currentSettingName returns the setting's name in a call of current_setting, if the name is a constant, otherwise "".
func currentSettingName(call parse.TreeNode) string {
	if parse.CalledFunction(call) != "current_setting" {
		return ""
	}
	return settingNameConstant(call.Child("args"))
}

// settingNameConstant returns the lower-cased value of a string constant, or "" if the value is too long for a
// setting's name.
func settingNameConstant(m parse.TreeNode) string {
	if !m.Is("A_Const") {
		return ""
	}
	text := m.Child("sval").Text("sval")
	if len(text) > parse.MaxName {
		return ""
	}
	return strings.ToLower(text)
}

// markCurrentSetting marks SELECT current_setting('name') as ShowsInQuery, so that Sluice answers it as it answers SHOW
// name.
func (st *Statement) markCurrentSetting(m parse.TreeNode) {
	call, column := soleCall(m)
	if n := len(call.ValuesIfPresent("args")); n == 1 || n == 2 && secondIsBool(call) {
		if name := currentSettingName(call); name != "" {
			st.Does, st.Show, st.Column, st.Asks = ShowsInQuery, name, column, nil
		}
	}
}

// secondIsBool reports whether the second argument of a function call is TRUE or FALSE.
func secondIsBool(call parse.TreeNode) bool {
	n := 0
	for arg := range call.List("args") {
		if n++; n == 2 {
			return arg.Is("A_Const") && arg.Child("boolval").Shape != nil
		}
	}
	return false
}

// maxSettingsRead is the greatest number of settings in Statement.Asks.
const maxSettingsRead = 32

// recordParameter records that the statement reads the setting of this name.
func (a *analysis) recordParameter(name string) {
	if name != "" && len(a.parameters) < maxSettingsRead {
		a.parameters = append(a.parameters, name)
	}
}

// settingsRead returns the names of the settings that a statement reads. In a query of pg_settings, every constant
// counts as the name of a setting.
func (a *analysis) settingsRead(m parse.TreeNode) []string {
	for _, t := range a.tables {
		if t.name == "pg_settings" || t.name == "pg_catalog.pg_settings" {
			a.recordConstants(m)
			break
		}
	}
	return a.parameters
}

func (a *analysis) recordConstants(m parse.TreeNode) {
	if m.Is("A_Const") {
		a.recordParameter(settingNameConstant(m))
		return
	}
	for child := range m.Children() {
		a.recordConstants(child)
	}
}
