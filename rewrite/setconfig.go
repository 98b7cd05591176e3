package rewrite

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// SELECT set_config('name', 'value', is_local) with constants has the effect of a SET, and returns a row. DSQL refuses
// set_config, even for settings that clients may SET.

// SetConfigColumn is a result column of a SELECT of set_config calls. The column with index i returns the value that a
// setting has after the change Statement.Changes[i].
type SetConfigColumn struct {
	Column string // the column's name
	Name   string // the setting's name as the client spells it
	Value  string // the value as the client gives it
	Param  int    // the number of the parameter that gives the value, counted from 1; 0 for a constant
	Null   bool   // the value is NULL, which resets the setting
}

// SetConfigParams returns how many parameters give values of settings. It is the greatest Param of SetConfigColumns.
func (st *Statement) SetConfigParams() (n int) {
	for i := range st.SetConfigColumns {
		n = max(n, st.SetConfigColumns[i].Param)
	}
	return n
}

// setConfigWork returns the Statement.Does for a SELECT of set_config calls with these result columns.
func setConfigWork(columns []SetConfigColumn) LocalWork {
	switch {
	case (&Statement{SetConfigColumns: columns}).SetConfigParams() > 0:
		return BindsConfig
	case len(columns) > 1:
		return SetsRow
	}
	return SetsConfig
}

// SetConfigSQL returns the SELECT of set_config calls with constants in place of parameters. values[0] replaces $1.
func (st *Statement) SetConfigSQL(values []string) string {
	var b strings.Builder
	for i, t := range st.SetConfigColumns {
		value, sep := t.Value, ", "
		if t.Param > 0 {
			value = values[t.Param-1]
		}
		if i == 0 {
			sep = "SELECT "
		}
		fmt.Fprintf(&b, `%spg_catalog.set_config(%s, %s, %v) AS "%s"`, sep, parse.QuoteLiteral(t.Name), parse.QuoteLiteral(value), st.Changes[i].Action == SetLocal, strings.ReplaceAll(t.Column, `"`, `""`))
	}
	return b.String()
}

// rewriteSetConfig handles a query that consists of set_config calls, if each has the effect of a SET. Sluice rewrites
// a single call to a SET. Several calls do not equal one SET: Sluice answers them if it manages all their settings, and
// otherwise sends the query to the server.
func (r *rewriter) rewriteSetConfig(p *statementPart) {
	if !r.rules.Session {
		r.markApplicationName(p)
		return
	}
	if restrictKindPattern().matchesAnyTree(p.node) {
		r.rewriteRestrictKind(p)
		return
	}
	changes, columns := parseSetConfigs(p.node)
	if len(columns) == 0 || slices.ContainsFunc(columns, func(t SetConfigColumn) bool { return t.Null }) {
		return
	}
	pin := NoPin
	for _, c := range changes {
		if pin == NoPin && c.Action == Set {
			pin = settingPin(c)
		}
	}
	start, end, operation := p.st.Start, p.st.End, p.st.Operation
	values := (&Statement{SetConfigColumns: columns}).SetConfigParams() > 0
	if values {
		r.addFinding(finding.Handled(finding.SetConfig, finding.Answered, finding.Info, "carried out as a SET of the value that it is bound to", start))
	} else if len(columns) == 1 {
		verb := "SET "
		if changes[0].Action == SetLocal {
			verb = "SET LOCAL "
		}
		text := verb + changes[0].Name + " TO " + changes[0].SQL
		tree, err := parse.Tree(text)
		if err != nil {
			return
		}
		r.addEdits(parse.Edit{Start: start, End: end, Text: text})
		r.meant.Set(p.raw, "stmt", tree.Child("stmts").Values("stmt")...)
		r.addFinding(finding.Handled(finding.SetConfig, finding.Rewritten, finding.Info, "rewritten to SET, and answered with the row", start))
	} else {
		r.addFinding(finding.Handled(finding.SetConfig, finding.Answered, finding.Info, "answered: each is a SET, alone in its request, and in a pipeline in front of what goes to the server", start))
	}
	// A Query message cannot give values to parameters, so the server gets the client's call then, and refuses it.
	*p.st = Statement{Kind: Setting, Does: setConfigWork(columns), Start: start, End: end, Operation: operation, Pin: pin, Changes: changes, SetConfigColumns: columns, Calls: values}
	if len(columns) > 1 {
		p.st.Hint = finding.Sentence(finding.Remedy(finding.SetConfig))
	}
}

// markApplicationName marks a query of set_config calls that set application_name to constants, so that Sluice answers
// it. If a parameter gives the value, the server runs the query and reports the changed value.
func (r *rewriter) markApplicationName(p *statementPart) {
	changes, columns := parseSetConfigs(p.node)
	if !r.rules.Named || len(columns) == 0 || (&Statement{SetConfigColumns: columns}).SetConfigParams() > 0 || slices.ContainsFunc(changes, func(c SettingChange) bool { return c.Name != "application_name" }) {
		return
	}
	*p.st = Statement{Kind: Setting, Does: setConfigWork(columns), Start: p.st.Start, End: p.st.End, Operation: p.st.Operation, Changes: changes, SetConfigColumns: columns}
}

// restrictKindPattern matches the query by which pg_dump sets restrict_nonsystem_relation_kind. This setting forbids
// reads of views and foreign tables. DSQL does not let clients set it. On a server without the setting, the query has
// no effect.
var restrictKindPattern = lazyTreePatterns("SELECT set_config(name, 'view, foreign-table', false) FROM pg_settings WHERE name = 'restrict_nonsystem_relation_kind'",
	"SELECT pg_catalog.set_config(name, 'view, foreign-table', false) FROM pg_catalog.pg_settings WHERE name = 'restrict_nonsystem_relation_kind'")

// rewriteRestrictKind rewrites pg_dump's query to one without rows, the answer of a server without the setting.
func (r *rewriter) rewriteRestrictKind(p *statementPart) {
	const none = "SELECT NULL::text AS set_config WHERE false"
	tree, err := parse.Tree(none)
	if err != nil {
		return
	}
	r.addEdits(parse.Edit{Start: p.st.Start, End: p.st.End, Text: none})
	r.meant.Set(p.raw, "stmt", tree.Child("stmts").Values("stmt")...)
	*p.st = Statement{Kind: Read, Start: p.st.Start, End: p.st.End, Operation: p.st.Operation}
	p.config = false
	r.addFinding(finding.Handled(finding.SetConfig, finding.Rewritten, finding.Info, "answered without a row, as by a server that lacks the setting", p.st.Start))
}

// treePatterns are the parse trees of known statements. Sluice compares a client's statement with them.
type treePatterns []parse.TreeNode

// lazyTreePatterns returns a function that returns the trees of the statements, and parses them at its first call.
func lazyTreePatterns(sqls ...string) func() treePatterns {
	return sync.OnceValue(func() (all treePatterns) {
		for _, sql := range sqls {
			all = append(all, parse.LazyTree(sql)().Child("stmts").Child("stmt"))
		}
		return all
	})
}

// matchesAnyTree reports whether the statement m equals one of the known statements.
func (all treePatterns) matchesAnyTree(m parse.TreeNode) bool {
	return slices.ContainsFunc(all, func(known parse.TreeNode) bool { return (parse.TreeChanges{}).Equal(known, m) })
}

// parseSetConfigs returns the changes and result columns of a SELECT of set_config calls. The setting's name must be a
// constant, and its value a constant or a parameter. For other queries parseSetConfigs returns nil.
func parseSetConfigs(m parse.TreeNode) (changes []SettingChange, columns []SetConfigColumn) {
	calls, names := plainCalls(m)
	for i, call := range calls {
		c, t, ok := parseSetConfig(call)
		if !ok {
			return nil, nil
		}
		t.Column = names[i]
		changes, columns = append(changes, c), append(columns, t)
	}
	for n := (&Statement{SetConfigColumns: columns}).SetConfigParams(); n > 0; n-- { // the server must infer each parameter's type
		if !slices.ContainsFunc(columns, func(t SetConfigColumn) bool { return t.Param == n }) {
			return nil, nil
		}
	}
	return changes, columns
}

// parseSetConfig returns the change and the result column of one set_config call. ok is false if the call may differ
// from a SET in its effect.
func parseSetConfig(call parse.TreeNode) (c SettingChange, t SetConfigColumn, ok bool) {
	var args []parse.TreeNode
	for arg := range call.List("args") {
		args = append(args, arg)
	}
	if parse.CalledFunction(call) != "set_config" || len(args) != 3 || !args[2].Is("A_Const") || args[2].Child("boolval").Shape == nil {
		return SettingChange{}, t, false
	}
	name, named := textConstant(args[0])
	value, valued := textConstant(args[1])
	t.Param, t.Null = textParameterNumber(args[1]), isNullText(args[1])
	valued = valued || t.Param > 0 || t.Null
	t.Name = name
	if name = strings.ToLower(name); !named || !valued || !isSettable(name) {
		return SettingChange{}, t, false
	}
	c = SettingChange{Name: name}
	if t.Null {
		c.Action, c.Default = Reset, true
	} else if t.Param == 0 {
		c.SQL, c.Text = SettingSQL(name, value), value
	}
	if t.Param == 0 && !t.Null && ListSettings[name] && c.SQL != parse.QuoteLiteral(value) {
		c.Text = "" // the value is a list of several names, or one name that is spelled differently
	}
	if args[2].Child("boolval").Flag("boolval") {
		c.Action = SetLocal
	}
	t.Value = value
	return c, t, true
}

// isSettable reports whether set_config has the effect of a SET of this setting. The result is false for a name that
// needs quotes, and for settings of the transaction. It is also false for settings with their own syntax, such as SET
// NAMES.
func isSettable(name string) bool {
	if transactionSettings[name] || strings.HasPrefix(name, "default_transaction_") && name != ReadOnlyDefault {
		return false
	}
	switch name {
	case "session_authorization", "seed", "names", "schema", "xml":
		return false
	}
	return len(name) <= parse.MaxName && (plainName.MatchString(name) || ownName.MatchString(name))
}

// ownName matches the names of Sluice's own settings, which equal configuration keys with a prefix.
var ownName = regexp.MustCompile(`^sluice(\.[a-z_][a-z0-9_]*)+$`)

var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$`)

// textConstant returns the value of a string constant, with or without a cast to text or varchar. For any other node,
// the boolean is false.
func textConstant(m parse.TreeNode) (string, bool) {
	m, ok := withoutTextCast(m)
	if !ok {
		return "", false
	}
	if !m.Is("A_Const") || m.Child("sval").Shape == nil {
		return "", false
	}
	return m.Child("sval").Text("sval"), true
}

// isNullText reports whether m is NULL, with or without a cast to text or varchar.
func isNullText(m parse.TreeNode) bool {
	inner, ok := withoutTextCast(m)
	return ok && parse.IsNull(inner)
}

// textParameterNumber returns the number of a parameter of type text, or 0 for anything else.
func textParameterNumber(m parse.TreeNode) int {
	inner, ok := withoutTextCast(m)
	if !ok || !inner.Is("ParamRef") || m.Is("TypeCast") && !slices.Contains(m.Child("type_name").Names("names"), "text") {
		return 0 // a cast to varchar would give the parameter another type
	}
	return inner.Integer("number")
}

// withoutTextCast returns the operand of a cast to text or varchar, or m if m is no cast. ok is false for a cast to
// another type.
func withoutTextCast(m parse.TreeNode) (inner parse.TreeNode, ok bool) {
	if !m.Is("TypeCast") {
		return m, true
	}
	kind := m.Child("type_name")
	names := kind.Names("names")
	if len(names) == 0 || names[len(names)-1] != "text" && names[len(names)-1] != "varchar" ||
		kind.Child("typmods").Shape != nil || kind.Child("array_bounds").Shape != nil || len(names) > 1 && names[0] != "pg_catalog" {
		return m, false
	}
	return m.Child("arg"), true
}

// ListSettings are the settings whose value is a list of names (GUC_LIST_QUOTE in PostgreSQL). SET would read a list in
// one string constant as a single name.
var ListSettings = map[string]bool{"search_path": true, "temp_tablespaces": true,
	"local_preload_libraries": true, "session_preload_libraries": true}

// SettingSQL returns a setting's value, from a startup packet or from set_config, in the form that follows SET name TO.
// For a setting in ListSettings whose value is no valid list, the SQL is one string constant.
func SettingSQL(name, value string) string {
	if ListSettings[name] {
		if parts, ok := SplitIdentifiers(value); ok {
			for i, part := range parts {
				parts[i] = parse.QuoteLiteral(part)
			}
			return strings.Join(parts, ", ")
		}
	}
	return parse.QuoteLiteral(value)
}

// SplitIdentifiers splits a list of names as PostgreSQL's SplitIdentifierString does. ok is false for a malformed list.
// A blank text gives one empty name, because SET accepts no empty list.
func SplitIdentifiers(value string) (parts []string, ok bool) {
	const blanks = " \t\n\r\f\v"
	rest := strings.TrimLeft(value, blanks)
	if rest == "" {
		return []string{""}, true
	}
	for {
		var part string
		if strings.HasPrefix(rest, `"`) {
			if part, rest, ok = cutQuotedName(rest[1:]); !ok {
				return nil, false
			}
		} else {
			i := strings.IndexAny(rest, ","+blanks)
			if i < 0 {
				i = len(rest)
			}
			if part, rest = string(parse.FoldName(nil, []byte(rest[:i]))), rest[i:]; part == "" {
				return nil, false
			}
		}
		parts = append(parts, part)
		if rest = strings.TrimLeft(rest, blanks); rest == "" {
			return parts, true
		}
		if rest[0] != ',' {
			return nil, false
		}
		rest = strings.TrimLeft(rest[1:], blanks)
	}
}

// cutQuotedName returns the quoted name at the start of text, where the opening quote is already removed. A doubled
// quote is part of the name. rest is the text after the closing quote.
func cutQuotedName(text string) (name, rest string, ok bool) {
	for {
		i := strings.IndexByte(text, '"')
		if i < 0 {
			return "", "", false
		}
		name, text = name+text[:i], text[i+1:]
		if !strings.HasPrefix(text, `"`) {
			return name, text, true
		}
		name, text = name+`"`, text[1:]
	}
}
