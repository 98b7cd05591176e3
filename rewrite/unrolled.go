package rewrite

import (
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// Several rows as SQLAlchemy inserts them where it wants their keys in order:
//
//	INSERT INTO t (a, b) SELECT p0::VARCHAR, p1::INTEGER
//	FROM (VALUES ($1::VARCHAR, $2::INTEGER, 0), ($3::VARCHAR, $4::INTEGER, 1)) AS imp_sen(p0, p1, sen_counter)
//	ORDER BY sen_counter RETURNING t.id
//
// That is an INSERT ... VALUES, and is taken for one (Insertion).

// unrolled is a text of one INSERT of that form as the INSERT ... VALUES that inserts the same rows in the same
// order; "" for any other.
func unrolled(sql string, node message) string {
	u := unroller{Insertion{ph: lexPhrase([]byte(sql), 0, len(sql))}}
	u.pairs = u.ph.pairs()
	query := node.child("select_stmt")
	rows, columns := source(query)
	if len(rows) == 0 || !node.has("cols") {
		return ""
	}
	at := u.ph.at(node.child("relation").integer("location"))
	if at < 0 {
		return ""
	}
	if at = u.ph.qualified(at); u.ph.word(at, "as") {
		at += 2
	}
	if !u.ph.punct(at, '(') || u.pairs[at] < 0 {
		return ""
	}
	head := int(u.pairs[at]) + 1
	made, open := u.targets(query, head, columns)
	if made == nil {
		return ""
	}
	texts, end := u.values(rows, open, made)
	if texts == "" || !u.behind(end, columns) {
		return ""
	}
	last := int(u.ph.tokens[end+6+2*len(columns)].end)
	return sql[:u.ph.tokens[head].start] + "VALUES " + texts + sql[last:]
}

// unroller reads the tokens of such a text.
type unroller struct{ Insertion }

// source are the rows that a query of that form selects from, without the number that each has at its end, and
// the names of their columns, with that of the number; none for any other query.
func source(query message) (rows [][]message, columns []string) {
	from, sort := slices.Collect(query.list("from_clause")), slices.Collect(query.list("sort_clause"))
	if len(from) != 1 || len(sort) != 1 || !from[0].is("RangeSubselect") || !sort[0].child("node").is("ColumnRef") || from[0].flag("lateral") || pg_query.SetOperation(query.integer("op")) > pg_query.SetOperation_SETOP_NONE ||
		query.has("distinct_clause", "into_clause", "where_clause", "group_clause", "having_clause", "window_clause", "values_lists", "limit_offset", "limit_count", "locking_clause", "with_clause") {
		return nil, nil
	}
	columns = from[0].child("alias").names("colnames")
	key, kind := sort[0].child("node").names("fields"), sort[0].integer("sortby_dir")
	values := from[0].child("subquery")
	if len(columns) < 2 || len(key) != 1 || key[0] != columns[len(columns)-1] || pg_query.SortByDir(kind) > pg_query.SortByDir_SORTBY_ASC ||
		sort[0].has("use_op") || values.has("sort_clause", "limit_offset", "limit_count", "locking_clause", "with_clause") {
		return nil, nil
	}
	return numbered(values, len(columns)), columns
}

// numbered are the rows of VALUES without the number that each has at its end; none where that does not grow, or
// a column has values of several types.
func numbered(values message, columns int) (rows [][]message) {
	was := -1
	for list := range values.list("values_lists") {
		row := list.wrapped("items")
		if len(row) != columns {
			return nil
		}
		number := row[len(row)-1].kind()
		if n := number.child("ival"); !number.is("A_Const") || number.flag("isnull") || n.shape == nil || n.integer("ival") <= was {
			return nil
		}
		was = number.child("ival").integer("ival")
		row = row[:len(row)-1]
		for i := range row {
			row[i] = row[i].kind()
		}
		rows = append(rows, row)
	}
	for i := range columns - 1 {
		if !alike(rows, i) {
			return nil
		}
	}
	return rows
}

// alike reports whether the values of a column are of one type whichever of the rows is looked at: casts to one
// type, or constants of one kind, beside NULL.
func alike(rows [][]message, column int) bool {
	var first message
	for _, row := range rows {
		switch n := row[column]; {
		case n.is("A_Const") && n.flag("isnull"):
		case !n.is("A_Const") && !n.is("TypeCast"):
			return false
		case first.shape == nil:
			first = n
		case first.name() != n.name(), n.is("TypeCast") && !(intents{}).equal(first.child("type_name"), n.child("type_name")),
			n.is("A_Const") && constantKind(n) != constantKind(first):
			return false
		}
	}
	return true
}

// constantKind is the field of a constant that has its value.
func constantKind(n message) string {
	for _, field := range [...]string{"ival", "fval", "boolval", "sval", "bsval"} {
		if n.has(field) {
			return field
		}
	}
	return ""
}

// targets says of each column that the query selects which value of a row it is, with what is made of that
// (::VARCHAR). head is the token SELECT; open becomes that behind the list.
func (u *unroller) targets(query message, head int, columns []string) (made []madeOf, open int) {
	if !u.ph.word(head, "select") {
		return nil, 0
	}
	open = head + 1
	for open < len(u.ph.tokens) && !u.ph.word(open, "from") {
		if u.ph.punct(open, '(') || u.ph.punct(open, '[') {
			if open = int(u.pairs[open]); open < 0 {
				return nil, 0
			}
		}
		open++
	}
	items := u.between(head+1, open)
	for target := range query.list("target_list") {
		n := target.child("val")
		if n.is("TypeCast") {
			n = n.child("arg")
		}
		if len(made) == len(items) || !n.is("ColumnRef") {
			return nil, 0
		}
		names := n.names("fields")
		if len(names) != 1 || target.text("name") != "" {
			return nil, 0
		}
		it, i := items[len(made)], slices.Index(columns, names[0])
		if i < 0 || i == len(columns)-1 || !u.ph.name(it.first) || n.integer("location") != int(u.ph.tokens[it.first].start) {
			return nil, 0
		}
		made = append(made, madeOf{i, string(u.ph.text[u.ph.tokens[it.first].end:u.ph.tokens[it.last].end])})
	}
	if len(made) != len(items) {
		return nil, 0
	}
	return made, open
}

// madeOf is a column of the query: a value of its row, and the cast behind it.
type madeOf struct {
	value int
	cast  string
}

// values are the rows of VALUES as they are inserted; open is the token FROM. end becomes the token that closes
// the subquery. "" where they are not plain to see.
func (u *unroller) values(rows [][]message, open int, made []madeOf) (texts string, end int) {
	if !u.ph.punct(open+1, '(') || !u.ph.word(open+2, "values") || u.pairs[open+1] < 0 {
		return "", 0
	}
	end, open = int(u.pairs[open+1]), open+3
	var b strings.Builder
	for n, row := range rows {
		items := u.spans(open)
		if len(items) != len(row)+1 {
			return "", 0
		}
		if n > 0 {
			b.WriteString(", ")
		}
		for i, m := range made {
			b.WriteString(map[bool]string{true: "(", false: ", "}[i == 0])
			it := items[m.value]
			text := "(" + string(u.ph.text[u.ph.tokens[it.first].start:u.ph.tokens[it.last].end]) + ")"
			if untyped(rows, m.value) { // a subquery takes it for a text
				text = "(" + text + "::text)"
			}
			b.WriteString(text + m.cast)
		}
		b.WriteString(")")
		open = int(u.pairs[open]) + 2
	}
	if open-1 != end {
		return "", 0
	}
	return b.String(), end
}

// untyped reports whether the values of a column are strings and NULL, which are of no type by themselves.
func untyped(rows [][]message, column int) bool {
	return !slices.ContainsFunc(rows, func(row []message) bool {
		n := row[column]
		return !n.is("A_Const") || !n.flag("isnull") && constantKind(n) != "sval"
	})
}

// behind reports whether nothing but the names of the columns and ORDER BY stands behind the subquery, which
// ends at token end, in front of RETURNING or the end.
func (u *unroller) behind(end int, columns []string) bool {
	open := end + 3
	if !u.ph.word(end+1, "as") || !u.ph.punct(open, '(') || int(u.pairs[open]) != open+2*len(columns) {
		return false
	}
	last := open + 2*len(columns) + 3
	return u.ph.words(last-2, "order", "by") && u.ph.name(last) && (last+1 == len(u.ph.tokens) || u.ph.word(last+1, "returning") || u.ph.word(last+1, "on") || u.ph.punct(last+1, ';'))
}
