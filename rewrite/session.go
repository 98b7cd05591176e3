package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// answerRelease answers statements by which connection pools release cursors, channels and advisory locks: CLOSE
// ALL, UNLISTEN and SELECT pg_advisory_unlock_all(). DSQL sessions have none of these.
func (r *rewriter) answerRelease(p *part) {
	if !r.rules.Session {
		return
	}
	switch m := p.node; m.Name() {
	case "ClosePortalStmt":
		if m.Text("portalname") != "" {
			return
		}
		r.answer(p, ClosesAll, "CLOSE CURSOR ALL")
	case "UnlistenStmt":
		r.answer(p, Answers, "UNLISTEN")
	case "SelectStmt":
		call, column := loneCall(m)
		if parse.FunctionOf(call) != "pg_advisory_unlock_all" || len(call.Values("args")) > 0 {
			return
		}
		r.answer(p, AnswersVoid, "SELECT 1")
		p.st.Column = column
	default:
		return
	}
	p.advisory = false
	r.find(handled(Discard, Answered, Info, "answered: there is nothing to discard", p.st.Start))
}

// loneCall returns the function call and the column name of a query SELECT f(...) without other clauses.
func loneCall(m parse.Message) (call parse.Message, column string) {
	if calls, columns := plainCalls(m); len(calls) == 1 {
		return calls[0], columns[0]
	}
	return parse.Message{}, ""
}

// plainCalls returns the function calls and column names of a query SELECT f(...), g(...) without other
// clauses. It returns nil for other queries.
func plainCalls(m parse.Message) (calls []parse.Message, columns []string) {
	plain := sampleNothing().Child("stmts").Child("stmt")
	meant := parse.Intents{}
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

// settingAsked returns the parameter of a current_setting call if it is a constant, otherwise "".
func settingAsked(call parse.Message) string {
	if parse.FunctionOf(call) != "current_setting" {
		return ""
	}
	return constant(call.Child("args"))
}

// constant returns the lower-cased text of a string constant that is short enough for a parameter's name.
func constant(m parse.Message) string {
	if !m.Is("A_Const") {
		return ""
	}
	text := m.Child("sval").Text("sval")
	if len(text) > parse.MaxName {
		return ""
	}
	return strings.ToLower(text)
}

// shows marks SELECT current_setting('name') as ShowsInQuery, so that it is answered like SHOW name.
func (st *Statement) shows(m parse.Message) {
	call, column := loneCall(m)
	if n := len(call.ValuesOf("args")); n == 1 || n == 2 && secondIsBool(call) {
		if name := settingAsked(call); name != "" {
			st.Does, st.Show, st.Column, st.Asks = ShowsInQuery, name, column, nil
		}
	}
}

// secondIsBool reports whether the second argument of a call is TRUE or FALSE.
func secondIsBool(call parse.Message) bool {
	n := 0
	for arg := range call.List("args") {
		if n++; n == 2 {
			return arg.Is("A_Const") && arg.Child("boolval").Shape != nil
		}
	}
	return false
}

// mostAsks is the maximum number of parameters in Statement.Asks.
const mostAsks = 32

// recordParameter records that the statement reads a parameter.
func (a *analysis) recordParameter(name string) {
	if name != "" && len(a.parameters) < mostAsks {
		a.parameters = append(a.parameters, name)
	}
}

// settingsAsked returns the parameters that a statement reads. In a query of pg_settings every constant counts
// as a parameter's name.
func (a *analysis) settingsAsked(m parse.Message) []string {
	for _, t := range a.tables {
		if t.name == "pg_settings" || t.name == "pg_catalog.pg_settings" {
			a.constants(m)
			break
		}
	}
	return a.parameters
}

func (a *analysis) constants(m parse.Message) {
	if m.Is("A_Const") {
		a.recordParameter(constant(m))
		return
	}
	for child := range m.Nodes() {
		a.constants(child)
	}
}
