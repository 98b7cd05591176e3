package rewrite

import (
	"fmt"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
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
	statements := p.statements(text)
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
			if nodes := p.statements(r.Text); r.N < len(nodes) {
				drawn = append(drawn, draws(nodes[r.N], r.Rows)...)
			}
		}
		for _, before := range statements[:i] {
			if !before.is("SelectStmt") && !before.is("InsertStmt") {
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

// statements are the trees of a text's statements; none where it cannot be read.
func (p *Planner) statements(text string) (nodes []message) {
	tree, ok := p.read(text, false)
	if !ok {
		return nil
	}
	for raw := range tree.list("stmts") {
		nodes = append(nodes, raw.child("stmt"))
	}
	return nodes
}

// anySequence is what lastval asks for.
const anySequence = "any"

// questions are the sequences that a statement asks for, as queries for their OIDs. known
// is false when one is not plain to see.
func questions(node message) (asked []string, known bool) {
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
func draws(node message, rows int) []string {
	switch node.name() {
	case "InsertStmt":
		return drawsOfInsert(node, rows)
	case "SelectStmt":
		var drawn []string
		lone := !node.has("from_clause", "where_clause", "having_clause", "limit_offset", "limit_count", "group_clause", "distinct_clause")
		for target := range node.list("target_list") {
			value := target.child("val")
			if sequence := drawnBy(value); sequence != "" {
				drawn = append(drawn, sequence)
			} else if !value.is("A_Const") {
				lone = false // it may return no row
			}
		}
		if node.integer("op") == int(pg_query.SetOperation_SETOP_NONE) && (rows > 0 || lone) {
			return drawn
		}
	}
	return nil
}

// drawsOfInsert are those of an INSERT: of each column that is given no value the
// default draws, or does not. An INSERT of VALUES draws also where it inserts nothing,
// for a conflict or a trigger.
func drawsOfInsert(node message, rows int) (drawn []string) {
	from := node.child("select_stmt")
	if node.integer("override") != int(pg_query.OverridingKind_OVERRIDING_NOT_SET) || node.child("relation").text("relpersistence") == "t" {
		return nil
	}
	var names []string
	for column := range node.list("cols") {
		names = append(names, column.text("name"))
	}
	defaults, width := map[int]bool{}, 0 // places of DEFAULT among the values
	for row := range from.list("values_lists") {
		width = 0
		for value := range row.list("items") {
			if value.is("SetToDefault") {
				defaults[width] = true
			} else if sequence := drawnBy(value); sequence != "" {
				drawn = append(drawn, sequence)
			}
			width++
		}
	}
	switch sure := width > 0 && !from.has("limit_offset", "limit_count"); {
	case from.shape == nil: // DEFAULT VALUES
	case rows == 0 && !sure, width == 0 && len(names) == 0:
		return nil
	}
	relation := node.child("relation")
	if relation.text("catalogname") != "" {
		return nil
	}
	free := ""
	for i := range max(len(names), width) {
		switch {
		case defaults[i]:
		case len(names) == 0:
			free += fmt.Sprintf(" AND (SELECT count(*) FROM pg_catalog.pg_attribute b WHERE b.attrelid = a.attrelid AND b.attnum > 0 AND b.attnum <= a.attnum AND NOT b.attisdropped) <> %d", i+1)
		case i < len(names):
			free += " AND a.attname <> " + literal(names[i])
		}
	}
	table := oidOf(relation.text("schemaname"), relation.text("relname"), "r', 'p")
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
func drawnBy(value message) string {
	for value.is("TypeCast") {
		value = value.child("arg")
	}
	if !value.is("FuncCall") || functionOf(value) != "nextval" || value.has("agg_filter", "over", "agg_order") {
		return ""
	}
	if sequence := sequenceOf(value); sequence != "" {
		return "SELECT " + sequence
	}
	return ""
}

// sequenceOf is a query for the OID of the sequence that a call of nextval or currval
// names; "" where that is not plain to see.
func sequenceOf(call message) string {
	arg := only(call, 1)
	for arg.is("TypeCast") && namesRelations(arg.child("type_name")) {
		arg = arg.child("arg")
	}
	if arg.is("FuncCall") && functionOf(arg) == "pg_get_serial_sequence" {
		table, column := relationNamed(only(arg, 2), "r', 'p"), constantText(second(arg))
		if table == "" || column == "" {
			return ""
		}
		return "(SELECT CASE WHEN count(*) = 1 THEN min(d.objid) END FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_class q ON q.oid = d.objid AND q.relkind = 'S'" +
			" JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid WHERE d.deptype IN ('a', 'i')" +
			" AND d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refclassid = d.classid AND a.attrelid = " + table + " AND a.attname = " + literal(column) + ")"
	}
	return relationNamed(arg, "S")
}

// namesRelations reports whether a cast to a type leaves the name of a relation one.
func namesRelations(m message) bool {
	names := m.names("names")
	if len(names) == 2 && names[0] == "pg_catalog" {
		names = names[1:]
	}
	return len(names) == 1 && (names[0] == "regclass" || names[0] == "text") && m.child("array_bounds").shape == nil
}

// relationNamed is a query for the OID of the relation of one of some kinds that a
// constant names, as regclass takes it.
func relationNamed(m message, kinds string) string {
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
		where = "n.nspname = " + literal(schema)
	}
	return "(SELECT CASE WHEN count(*) = 1 THEN min(CASE WHEN c.relkind IN ('" + kinds + "') THEN c.oid END) END" +
		" FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = " + literal(name) + " AND " + where + ")"
}

// relationParts splits the name of a relation: s, public.s, "My Sequence". nil for what
// is no plain name.
func relationParts(text string) (parts []string) {
	l := lexer{text: []byte(text)}
	for {
		switch kind := l.next(); {
		case kind == wordToken:
			parts = append(parts, strings.ToLower(string(l.lexeme())))
		case kind == quotedToken && l.lexeme()[0] == '"':
			name := l.lexeme()
			parts = append(parts, strings.ReplaceAll(string(name[1:len(name)-1]), `""`, `"`))
		default:
			return nil
		}
		if last := parts[len(parts)-1]; last == "" || len(last) > maxName {
			return nil
		}
		switch kind := l.next(); {
		case kind == endToken:
			return parts
		case kind != punctToken || l.text[l.start] != '.':
			return nil
		}
	}
}

// constantText is a string constant, "" for anything else.
func constantText(m message) string {
	if !m.is("A_Const") {
		return ""
	}
	return m.child("sval").text("sval")
}

// only is the first of a call's n arguments; it is absent where there are more or fewer.
func only(call message, n int) (first message) {
	for arg := range call.list("args") {
		if first.shape == nil {
			first = arg
		}
		n--
	}
	if n != 0 {
		return message{}
	}
	return first
}

// second is a call's second argument.
func second(call message) (arg message) {
	n := 0
	for a := range call.list("args") {
		if n++; n == 2 {
			arg = a
		}
	}
	return arg
}

// has reports whether m has any of some fields. DISTINCT has a list of one empty node.
func (m message) has(fields ...string) bool {
	for _, f := range fields {
		if len(m.valuesOf(f)) > 0 {
			return true
		}
	}
	return false
}
