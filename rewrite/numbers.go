package rewrite

import (
	"fmt"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// currval and lastval ask for what a session has drawn of sequences. In a block on a
// backend where others have drawn before, the answer is the session's own when it has
// surely drawn there itself: a statement that has run was one that draws. Which of them
// do the schema tells, so that the server is asked for it.

// Run is a statement that has run to its end in a transaction.
type Run struct {
	Text string
	N    int // which of the text's statements
	Rows int // as its tag counts them
}

// OwnNumbers returns a query with one row of one column, which is true where all that
// the statements of a text ask by currval and lastval was drawn by what has run, or by
// statements before them in the text. It changes nothing, and cannot fail for what the
// schema lacks. It returns "" where no schema makes it so, or where nobody can tell.
// Names are looked up as they stand now: since the statements ran, neither search_path
// nor the schema may have been changed by their session.
func (p *Planner) OwnNumbers(text string, runs []Run) string {
	statements := p.Statements(text)
	var all strings.Builder
	for i, node := range statements {
		asked, known := questions(node)
		if !known {
			return ""
		}
		if len(asked) == 0 {
			continue
		}
		var drawn []string
		for _, r := range runs {
			if nodes := p.Statements(r.Text); r.N < len(nodes) {
				drawn = append(drawn, draws(nodes[r.N], r.Rows)...)
			}
		}
		for _, before := range statements[:i] {
			if !before.Is("SelectStmt") && !before.Is("InsertStmt") {
				return "" // it may change what names mean
			}
			drawn = append(drawn, draws(before, 0)...)
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

// Statements returns the trees of a text's statements, in their order; none for a text that cannot be read.
func (p *Planner) Statements(text string) (nodes []parse.Message) {
	tree, ok := p.read(text, false)
	if !ok {
		return nil
	}
	for raw := range tree.List("stmts") {
		nodes = append(nodes, raw.Child("stmt"))
	}
	return nodes
}

// anySequence is what lastval asks for.
const anySequence = "any"

// questions are the sequences that a statement asks for, as queries for their OIDs. known
// is false when one is not plain to see.
func questions(node parse.Message) (asked []string, known bool) {
	a := analysis{}
	a.visit(node)
	for _, q := range a.questions {
		if q.name == "lastval" {
			asked = append(asked, anySequence)
		} else if sequence := sequenceOf(q.call); sequence != "" {
			asked = append(asked, sequence)
		} else {
			return nil, false
		}
	}
	return asked, true
}

// draws are the sequences that a statement has surely drawn of, as queries for their
// OIDs, which return NULL where the schema has no such sequence. rows is 0 also where
// nobody knows.
func draws(node parse.Message, rows int) []string {
	switch node.Name() {
	case "InsertStmt":
		return drawsOfInsert(node, rows)
	case "SelectStmt":
		var drawn []string
		lone := !node.Has("from_clause", "where_clause", "having_clause", "limit_offset", "limit_count", "group_clause", "distinct_clause")
		for target := range node.List("target_list") {
			value := target.Child("val")
			if sequence := drawnBy(value); sequence != "" {
				drawn = append(drawn, sequence)
			} else if !value.Is("A_Const") {
				lone = false // it may return no row
			}
		}
		if node.Integer("op") == int(parse.SETOP_NONE) && (rows > 0 || lone) {
			return drawn
		}
	}
	return nil
}

// drawsOfInsert are those of an INSERT: of each column that is given no value the
// default draws, or does not. An INSERT of VALUES draws also where it inserts nothing,
// for a conflict or a trigger.
func drawsOfInsert(node parse.Message, rows int) (drawn []string) {
	from := node.Child("select_stmt")
	if node.Integer("override") != int(parse.OVERRIDING_NOT_SET) || node.Child("relation").Text("relpersistence") == "t" {
		return nil
	}
	var names []string
	for column := range node.List("cols") {
		names = append(names, column.Text("name"))
	}
	defaults, width := map[int]bool{}, 0 // places of DEFAULT among the values
	for row := range from.List("values_lists") {
		width = 0
		for value := range row.List("items") {
			if value.Is("SetToDefault") {
				defaults[width] = true
			} else if sequence := drawnBy(value); sequence != "" {
				drawn = append(drawn, sequence)
			}
			width++
		}
	}
	switch sure := width > 0 && !from.Has("limit_offset", "limit_count"); {
	case from.Shape == nil: // DEFAULT VALUES
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
			free += " AND a.attname <> " + parse.Literal(names[i])
		}
	}
	table := oidOf(relation.Text("schemaname"), relation.Text("relname"), "r', 'p")
	return append(drawn, drawnByDefault("a.attrelid = "+table+free))
}

// drawnByDefault is a query for the sequences of columns whose default draws: of identity
// columns, and of those with the default that serial makes.
func drawnByDefault(columns string) string {
	return "SELECT d.objid FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class t ON t.oid = a.attrelid JOIN pg_catalog.pg_depend d ON d.refobjid = a.attrelid AND d.refobjsubid = a.attnum" +
		" WHERE d.deptype = 'i' AND d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refclassid = d.classid AND a.attidentity <> '' AND NOT t.relhasrules AND NOT a.attisdropped AND " + columns +
		" UNION ALL SELECT d.refobjid FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class t ON t.oid = a.attrelid JOIN pg_catalog.pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum" +
		" JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND d.objid = f.oid JOIN pg_catalog.pg_class q ON q.oid = d.refobjid AND q.relkind = 'S'" +
		" WHERE d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND pg_catalog.pg_get_expr(f.adbin, f.adrelid) ~ '^nextval[(]''[^'']*''::regclass[)]$'" +
		" AND NOT t.relhasrules AND NOT a.attisdropped AND " + columns
}

// drawnBy is a query for the sequence that an expression draws of, "" for any other
// expression.
func drawnBy(value parse.Message) string {
	for value.Is("TypeCast") {
		value = value.Child("arg")
	}
	if !value.Is("FuncCall") || parse.FunctionOf(value) != "nextval" || value.Has("agg_filter", "over", "agg_order") {
		return ""
	}
	if sequence := sequenceOf(value); sequence != "" {
		return "SELECT " + sequence
	}
	return ""
}

// sequenceOf is a query for the OID of the sequence that a call of nextval or currval
// names; "" where that is not plain to see.
func sequenceOf(call parse.Message) string {
	arg := only(call, 1)
	for arg.Is("TypeCast") && namesRelations(arg.Child("type_name")) {
		arg = arg.Child("arg")
	}
	if arg.Is("FuncCall") && parse.FunctionOf(arg) == "pg_get_serial_sequence" {
		table, column := relationNamed(only(arg, 2), "r', 'p"), constantText(second(arg))
		if table == "" || column == "" {
			return ""
		}
		return "(SELECT CASE WHEN count(*) = 1 THEN min(d.objid) END FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_class q ON q.oid = d.objid AND q.relkind = 'S'" +
			" JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid WHERE d.deptype IN ('a', 'i')" +
			" AND d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refclassid = d.classid AND a.attrelid = " + table + " AND a.attname = " + parse.Literal(column) + ")"
	}
	return relationNamed(arg, "S")
}

// namesRelations reports whether a cast to a type leaves the name of a relation one.
func namesRelations(m parse.Message) bool {
	names := m.Names("names")
	if len(names) == 2 && names[0] == "pg_catalog" {
		names = names[1:]
	}
	return len(names) == 1 && (names[0] == "regclass" || names[0] == "text") && m.Child("array_bounds").Shape == nil
}

// relationNamed is a query for the OID of the relation of one of some kinds that a
// constant names, as regclass takes it.
func relationNamed(m parse.Message, kinds string) string {
	parts := relationParts(constantText(m))
	switch len(parts) {
	case 1:
		return oidOf("", parts[0], kinds)
	case 2:
		return oidOf(parts[0], parts[1], kinds)
	}
	return ""
}

// oidOf is a query for a relation's OID. Where several schemas of search_path have one
// of that name, nobody knows which was meant when.
func oidOf(schema, name, kinds string) string {
	where := "n.nspname = ANY (pg_catalog.current_schemas(true))"
	if schema != "" {
		where = "n.nspname = " + parse.Literal(schema)
	}
	return "(SELECT CASE WHEN count(*) = 1 THEN min(CASE WHEN c.relkind IN ('" + kinds + "') THEN c.oid END) END" +
		" FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = " + parse.Literal(name) + " AND " + where + ")"
}

// relationParts splits the name of a relation: s, public.s, "My Sequence". nil for what
// is no plain name.
func relationParts(text string) (parts []string) {
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

// constantText is a string constant, "" for anything else.
func constantText(m parse.Message) string {
	if !m.Is("A_Const") {
		return ""
	}
	return m.Child("sval").Text("sval")
}

// only is the first of a call's n arguments; it is absent where there are more or fewer.
func only(call parse.Message, n int) (first parse.Message) {
	for arg := range call.List("args") {
		if first.Shape == nil {
			first = arg
		}
		n--
	}
	if n != 0 {
		return parse.Message{}
	}
	return first
}

// second is a call's second argument.
func second(call parse.Message) (arg parse.Message) {
	n := 0
	for a := range call.List("args") {
		if n++; n == 2 {
			arg = a
		}
	}
	return arg
}
