package rewrite

import (
	"fmt"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// In a transaction block, currval or lastval may run on a backend that served other sessions before. The answer is
// right if an earlier statement of the block certainly called nextval for the same sequence. Whether it did depends on
// the schema, so OwnSequenceQuery builds a query that the server answers.

// ExecutedStatement is a statement that the current transaction has executed completely.
type ExecutedStatement struct {
	Text string
	N    int // the index of the statement among those in Text
	Rows int // the number of rows that the command tag shows
}

// OwnSequenceQuery returns a query for one boolean value: whether all currval and lastval calls of text are safe. A
// call is safe if a statement of runs, or an earlier statement of text, certainly advanced the call's sequence. The
// query has no side effects, and does not fail if relations are missing.
//
// OwnSequenceQuery returns "" if no schema makes the calls safe, or if the texts do not show it. The query resolves
// names when it runs, so the session must not have changed search_path or the schema since runs.
func (p *Planner) OwnSequenceQuery(text string, runs []ExecutedStatement) string {
	statements := p.StatementTrees(text)
	var all strings.Builder
	for i, node := range statements {
		asked, known := sequencesRead(node)
		if !known {
			return ""
		}
		if len(asked) == 0 {
			continue
		}
		var drawn []string
		for _, r := range runs {
			if nodes := p.StatementTrees(r.Text); r.N < len(nodes) {
				drawn = append(drawn, advancedSequences(nodes[r.N], r.Rows)...)
			}
		}
		for _, before := range statements[:i] {
			if !before.Is("SelectStmt") && !before.Is("InsertStmt") {
				return "" // the earlier statement may change what names mean
			}
			drawn = append(drawn, advancedSequences(before, 0)...)
		}
		if len(drawn) == 0 {
			return ""
		}
		const most = 32
		set := strings.Join(drawn[max(0, len(drawn)-most):], " UNION ALL ")
		for _, sequence := range asked {
			if sequence == anySequence {
				fmt.Fprintf(&all, " AND EXISTS (SELECT 1 FROM (%s) AS d (s) WHERE s IS NOT NULL)", set)
			} else {
				fmt.Fprintf(&all, " AND %s IN (SELECT s FROM (%s) AS d (s) WHERE s IS NOT NULL)", sequence, set)
			}
		}
	}
	if all.Len() == 0 {
		return ""
	}
	return "SELECT NOT EXISTS (SELECT 1 FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace" +
		" WHERE p.proname IN ('nextval', 'pg_get_serial_sequence') AND n.nspname <> 'pg_catalog')" + all.String()
}

// StatementTrees returns the trees of a text's statements in order, or nil for a text that Sluice cannot parse.
func (p *Planner) StatementTrees(text string) (nodes []parse.TreeNode) {
	tree, ok := p.parseGuarded(text, false)
	if !ok {
		return nil
	}
	for raw := range tree.List("stmts") {
		nodes = append(nodes, raw.Child("stmt"))
	}
	return nodes
}

// anySequence represents any sequence, because the text of a lastval call does not show which one it reads.
const anySequence = "any"

// sequencesRead returns the sequences that a statement reads by currval and lastval. Each is an SQL query for its OID,
// or anySequence. known is false if the text does not show a sequence.
func sequencesRead(node parse.TreeNode) (asked []string, known bool) {
	a := analysis{}
	a.visit(node)
	for _, q := range a.questions {
		if q.name == "lastval" {
			asked = append(asked, anySequence)
		} else if sequence := sequenceOIDQuery(q.call); sequence != "" {
			asked = append(asked, sequence)
		} else {
			return nil, false
		}
	}
	return asked, true
}

// advancedSequences returns the sequences that a statement certainly advanced, each as an SQL query for its OID. The
// query returns NULL if the sequence does not exist. rows is the number of rows in the command tag, or 0 if it is
// unknown.
func advancedSequences(node parse.TreeNode, rows int) []string {
	switch node.TypeName() {
	case "InsertStmt":
		return sequencesAdvancedByInsert(node, rows)
	case "SelectStmt":
		var drawn []string
		lone := !node.Has("from_clause", "where_clause", "having_clause", "limit_offset", "limit_count", "group_clause", "distinct_clause")
		for target := range node.List("target_list") {
			value := target.Child("val")
			if sequence := nextvalSequenceQuery(value); sequence != "" {
				drawn = append(drawn, sequence)
			} else if !value.Is("A_Const") {
				lone = false // the query may return no row, and then calls nothing
			}
		}
		if node.Integer("op") == int(parse.SETOP_NONE) && (rows > 0 || lone) {
			return drawn
		}
	}
	return nil
}

// sequencesAdvancedByInsert returns the sequences that an INSERT certainly advanced, by nextval among its values and by
// defaults of columns without a value. INSERT ... VALUES advances them even if a conflict or a trigger prevents the
// row.
func sequencesAdvancedByInsert(node parse.TreeNode, rows int) (drawn []string) {
	from := node.Child("select_stmt")
	if node.Integer("override") != int(parse.OVERRIDING_NOT_SET) || node.Child("relation").Text("relpersistence") == "t" {
		return nil
	}
	var names []string
	for column := range node.List("cols") {
		names = append(names, column.Text("name"))
	}
	defaults, width := map[int]bool{}, 0 // the indexes of DEFAULT in rows of values, and the number of values in a row
	for row := range from.List("values_lists") {
		width = 0
		for value := range row.List("items") {
			if value.Is("SetToDefault") {
				defaults[width] = true
			} else if sequence := nextvalSequenceQuery(value); sequence != "" {
				drawn = append(drawn, sequence)
			}
			width++
		}
	}
	switch sure := width > 0 && !from.Has("limit_offset", "limit_count"); {
	case from.Shape == nil: // INSERT ... DEFAULT VALUES
	case rows == 0 && !sure, width == 0 && len(names) == 0:
		return nil
	}
	relation := node.Child("relation")
	if relation.Text("catalogname") != "" {
		return nil
	}
	free := ""
	for i := range max(len(names), width) {
		switch {
		case defaults[i]:
		case len(names) == 0:
			free += fmt.Sprintf(" AND (SELECT count(*) FROM pg_catalog.pg_attribute b WHERE b.attrelid = a.attrelid AND b.attnum > 0 AND b.attnum <= a.attnum AND NOT b.attisdropped) <> %d", i+1)
		case i < len(names):
			free += " AND a.attname <> " + parse.QuoteLiteral(names[i])
		}
	}
	table := oidQuery(relation.Text("schemaname"), relation.Text("relname"), "r', 'p")
	return append(drawn, defaultSequencesQuery("a.attrelid = "+table+free))
}

// defaultSequencesQuery returns a query for the sequences that the defaults of columns advance. The columns are
// identity columns and columns with the default of a serial type, if they meet columns, a condition on pg_attribute a.
func defaultSequencesQuery(columns string) string {
	return "SELECT d.objid FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class t ON t.oid = a.attrelid JOIN pg_catalog.pg_depend d ON d.refobjid = a.attrelid AND d.refobjsubid = a.attnum" +
		" WHERE d.deptype = 'i' AND d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refclassid = d.classid AND a.attidentity <> '' AND NOT t.relhasrules AND NOT a.attisdropped AND " + columns +
		" UNION ALL SELECT d.refobjid FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class t ON t.oid = a.attrelid JOIN pg_catalog.pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum" +
		" JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND d.objid = f.oid JOIN pg_catalog.pg_class q ON q.oid = d.refobjid AND q.relkind = 'S'" +
		" WHERE d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND pg_catalog.pg_get_expr(f.adbin, f.adrelid) ~ '^nextval[(]''[^'']*''::regclass[)]$'" +
		" AND NOT t.relhasrules AND NOT a.attisdropped AND " + columns
}

// nextvalSequenceQuery returns a query for the sequence that a nextval call advances, or "" for any other expression.
func nextvalSequenceQuery(value parse.TreeNode) string {
	for value.Is("TypeCast") {
		value = value.Child("arg")
	}
	if !value.Is("FuncCall") || parse.CalledFunction(value) != "nextval" || value.Has("agg_filter", "over", "agg_order") {
		return ""
	}
	if sequence := sequenceOIDQuery(value); sequence != "" {
		return "SELECT " + sequence
	}
	return ""
}

// sequenceOIDQuery returns a query for the OID of the sequence that a nextval or currval call names. It returns "" if
// the text does not show the sequence.
func sequenceOIDQuery(call parse.TreeNode) string {
	arg := firstOfArguments(call, 1)
	for arg.Is("TypeCast") && isRegclassOrText(arg.Child("type_name")) {
		arg = arg.Child("arg")
	}
	if arg.Is("FuncCall") && parse.CalledFunction(arg) == "pg_get_serial_sequence" {
		table, column := relationOIDQuery(firstOfArguments(arg, 2), "r', 'p"), constantText(secondArgument(arg))
		if table == "" || column == "" {
			return ""
		}
		return "(SELECT CASE WHEN count(*) = 1 THEN min(d.objid) END FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_class q ON q.oid = d.objid AND q.relkind = 'S'" +
			" JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid WHERE d.deptype IN ('a', 'i')" +
			" AND d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refclassid = d.classid AND a.attrelid = " + table + " AND a.attname = " + parse.QuoteLiteral(column) + ")"
	}
	return relationOIDQuery(arg, "S")
}

// isRegclassOrText reports whether m is the type text or regclass. A cast to one of them keeps a relation's name.
func isRegclassOrText(m parse.TreeNode) bool {
	names := m.Names("names")
	if len(names) == 2 && names[0] == "pg_catalog" {
		names = names[1:]
	}
	return len(names) == 1 && (names[0] == "regclass" || names[0] == "text") && m.Child("array_bounds").Shape == nil
}

// relationOIDQuery returns a query for the OID of the relation that the constant m names, in the syntax of regclass.
// kinds lists the allowed values of pg_class.relkind.
func relationOIDQuery(m parse.TreeNode, kinds string) string {
	parts := splitRelationName(constantText(m))
	switch len(parts) {
	case 1:
		return oidQuery("", parts[0], kinds)
	case 2:
		return oidQuery(parts[0], parts[1], kinds)
	}
	return ""
}

// oidQuery returns a query for a relation's OID. If schema is "" and several schemas of search_path have the name, the
// query returns NULL. The client's statement may have meant any of the relations.
func oidQuery(schema, name, kinds string) string {
	where := "n.nspname = ANY (pg_catalog.current_schemas(true))"
	if schema != "" {
		where = "n.nspname = " + parse.QuoteLiteral(schema)
	}
	return "(SELECT CASE WHEN count(*) = 1 THEN min(CASE WHEN c.relkind IN ('" + kinds + "') THEN c.oid END) END" +
		" FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = " + parse.QuoteLiteral(name) + " AND " + where + ")"
}

// splitRelationName splits text, such as `public.s` or `"My Sequence"`, into schema and name, or only a name. It
// returns nil for a malformed text.
func splitRelationName(text string) (parts []string) {
	l := parse.Lexer{Text: []byte(text)}
	for {
		switch kind := l.Next(); {
		case kind == parse.WordToken:
			parts = append(parts, strings.ToLower(string(l.Lexeme())))
		case kind == parse.QuotedToken && l.Lexeme()[0] == '"':
			name := l.Lexeme()
			parts = append(parts, strings.ReplaceAll(string(name[1:len(name)-1]), `""`, `"`))
		default:
			return nil
		}
		if last := parts[len(parts)-1]; last == "" || len(last) > parse.MaxName {
			return nil
		}
		switch kind := l.Next(); {
		case kind == parse.EndToken:
			return parts
		case kind != parse.PunctToken || l.Text[l.Start] != '.':
			return nil
		}
	}
}

// constantText returns the value of a string constant, or "" for anything else.
func constantText(m parse.TreeNode) string {
	if !m.Is("A_Const") {
		return ""
	}
	return m.Child("sval").Text("sval")
}

// firstOfArguments returns the first argument of a call that has exactly n arguments, otherwise an absent node.
func firstOfArguments(call parse.TreeNode, n int) (first parse.TreeNode) {
	for arg := range call.List("args") {
		if first.Shape == nil {
			first = arg
		}
		n--
	}
	if n != 0 {
		return parse.TreeNode{}
	}
	return first
}

// secondArgument returns the second argument of a function call.
func secondArgument(call parse.TreeNode) (arg parse.TreeNode) {
	n := 0
	for a := range call.List("args") {
		if n++; n == 2 {
			arg = a
		}
	}
	return arg
}
