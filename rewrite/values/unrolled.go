package values

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// SQLAlchemy inserts several rows in this form if it needs their keys in order:
//
//	INSERT INTO t (a, b) SELECT p0::VARCHAR, p1::INTEGER
//	FROM (VALUES ($1::VARCHAR, $2::INTEGER, 0), ($3::VARCHAR, $4::INTEGER, 1)) AS imp_sen(p0, p1, sen_counter)
//	ORDER BY sen_counter RETURNING t.id
//
// Sluice handles the statement as an INSERT ... VALUES with the same rows (Insertion).

// unrollInsertSelect converts an INSERT in SQLAlchemy's form to an INSERT ... VALUES with the same rows in the same
// order. It returns "" for any other statement.
func unrollInsertSelect(sql string, node parse.TreeNode) string {
	u := unroller{Insertion{ph: parse.LexTokens([]byte(sql), 0, len(sql))}}
	u.pairs = u.ph.BracketPairs()
	query := node.Child("select_stmt")
	rows, columns := valuesSource(query)
	if len(rows) == 0 || !node.Has("cols") {
		return ""
	}
	at := u.ph.TokenAt(node.Child("relation").Integer("location"))
	if at < 0 {
		return ""
	}
	if at = u.ph.AfterQualifiedName(at); u.ph.IsKeyword(at, "as") {
		at += 2
	}
	if !u.ph.IsPunct(at, '(') || u.pairs[at] < 0 {
		return ""
	}
	head := int(u.pairs[at]) + 1
	made, open := u.resultCasts(query, head, columns)
	if made == nil {
		return ""
	}
	texts, end := u.rowsText(rows, open, made)
	if texts == "" || !u.endsLikeSQLAlchemy(end, columns) {
		return ""
	}
	last := int(u.ph.Tokens[end+6+2*len(columns)].End)
	return sql[:u.ph.Tokens[head].Start] + "VALUES " + texts + sql[last:]
}

// unroller reads the tokens of an INSERT ... SELECT in SQLAlchemy's form.
type unroller struct{ Insertion }

// valuesSource returns the rows and the column names of the VALUES in SQLAlchemy's form. The rows lack the number at
// their end, but the names include the number's column. valuesSource returns nil for any other query.
func valuesSource(query parse.TreeNode) (rows [][]parse.TreeNode, columns []string) {
	from, sort := slices.Collect(query.List("from_clause")), slices.Collect(query.List("sort_clause"))
	if len(from) != 1 || len(sort) != 1 || !from[0].Is("RangeSubselect") || !sort[0].Child("node").Is("ColumnRef") || from[0].Flag("lateral") || parse.SetOperation(query.Integer("op")) > parse.SETOP_NONE ||
		query.Has("distinct_clause", "into_clause", "where_clause", "group_clause", "having_clause", "window_clause", "values_lists", "limit_offset", "limit_count", "locking_clause", "with_clause") {
		return nil, nil
	}
	columns = from[0].Child("alias").Names("colnames")
	key, kind := sort[0].Child("node").Names("fields"), sort[0].Integer("sortby_dir")
	values := from[0].Child("subquery")
	if len(columns) < 2 || len(key) != 1 || key[0] != columns[len(columns)-1] || parse.SortByDir(kind) > parse.SORTBY_ASC ||
		sort[0].Has("use_op") || values.Has("sort_clause", "limit_offset", "limit_count", "locking_clause", "with_clause") {
		return nil, nil
	}
	return unnumberedRows(values, len(columns)), columns
}

// unnumberedRows returns the rows of a VALUES in SQLAlchemy's form without the number at their end. It returns nil if
// the numbers do not increase, or if a column has values of several types.
func unnumberedRows(values parse.TreeNode, columns int) (rows [][]parse.TreeNode) {
	was := -1
	for list := range values.List("values_lists") {
		row := list.WrappedNodes("items")
		if len(row) != columns {
			return nil
		}
		number := row[len(row)-1].NodeContent()
		if n := number.Child("ival"); !number.Is("A_Const") || number.Flag("isnull") || n.Shape == nil || n.Integer("ival") <= was {
			return nil
		}
		was = number.Child("ival").Integer("ival")
		row = row[:len(row)-1]
		for i := range row {
			row[i] = row[i].NodeContent()
		}
		rows = append(rows, row)
	}
	for i := range columns - 1 {
		if !hasOneType(rows, i) {
			return nil
		}
	}
	return rows
}

// hasOneType reports whether the values of a column, except NULL, are all casts to one type, or all constants of one
// kind.
func hasOneType(rows [][]parse.TreeNode, column int) bool {
	var first parse.TreeNode
	for _, row := range rows {
		switch n := row[column]; {
		case n.Is("A_Const") && n.Flag("isnull"):
		case !n.Is("A_Const") && !n.Is("TypeCast"):
			return false
		case first.Shape == nil:
			first = n
		case first.TypeName() != n.TypeName(), n.Is("TypeCast") && !(parse.TreeChanges{}).Equal(first.Child("type_name"), n.Child("type_name")),
			n.Is("A_Const") && constantField(n) != constantField(first):
			return false
		}
	}
	return true
}

// constantField returns the name of the tree field that contains a constant's value, or "".
func constantField(n parse.TreeNode) string {
	for _, field := range [...]string{"ival", "fval", "boolval", "sval", "bsval"} {
		if n.Has(field) {
			return field
		}
	}
	return ""
}

// resultCasts returns, for each result column of SELECT, the value that it reads and the cast. head is the token
// SELECT. open is the token FROM.
func (u *unroller) resultCasts(query parse.TreeNode, head int, columns []string) (made []castColumn, open int) {
	if !u.ph.IsKeyword(head, "select") {
		return nil, 0
	}
	open = head + 1
	for open < len(u.ph.Tokens) && !u.ph.IsKeyword(open, "from") {
		if u.ph.IsPunct(open, '(') || u.ph.IsPunct(open, '[') {
			if open = int(u.pairs[open]); open < 0 {
				return nil, 0
			}
		}
		open++
	}
	items := u.itemsBetween(head+1, open)
	for target := range query.List("target_list") {
		n := target.Child("val")
		if n.Is("TypeCast") {
			n = n.Child("arg")
		}
		if len(made) == len(items) || !n.Is("ColumnRef") {
			return nil, 0
		}
		names := n.Names("fields")
		if len(names) != 1 || target.Text("name") != "" {
			return nil, 0
		}
		it, i := items[len(made)], slices.Index(columns, names[0])
		if i < 0 || i == len(columns)-1 || !u.ph.IsName(it.first) || n.Integer("location") != int(u.ph.Tokens[it.first].Start) {
			return nil, 0
		}
		made = append(made, castColumn{i, string(u.ph.Text[u.ph.Tokens[it.first].End:u.ph.Tokens[it.last].End])})
	}
	if len(made) != len(items) {
		return nil, 0
	}
	return made, open
}

// castColumn is a result column of the SELECT: the index of its value in a row of VALUES, and the text of its cast.
type castColumn struct {
	value int
	cast  string
}

// rowsText returns the SQL of the rows for INSERT ... VALUES, or "" if the text is not in SQLAlchemy's form. open is
// the token FROM, and end is the token that closes the subquery.
func (u *unroller) rowsText(rows [][]parse.TreeNode, open int, made []castColumn) (texts string, end int) {
	if !u.ph.IsPunct(open+1, '(') || !u.ph.IsKeyword(open+2, "values") || u.pairs[open+1] < 0 {
		return "", 0
	}
	end, open = int(u.pairs[open+1]), open+3
	var b strings.Builder
	for n, row := range rows {
		items := u.parenItems(open)
		if len(items) != len(row)+1 {
			return "", 0
		}
		if n > 0 {
			b.WriteString(", ")
		}
		for i, m := range made {
			b.WriteString(map[bool]string{true: "(", false: ", "}[i == 0])
			it := items[m.value]
			text := "(" + string(u.ph.Text[u.ph.Tokens[it.first].Start:u.ph.Tokens[it.last].End]) + ")"
			if isUntypedColumn(rows, m.value) { // a subquery gives these constants the type text
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

// isUntypedColumn reports whether all values of a column are string constants or NULL, which have no type of their own.
func isUntypedColumn(rows [][]parse.TreeNode, column int) bool {
	return !slices.ContainsFunc(rows, func(row []parse.TreeNode) bool {
		n := row[column]
		return !n.Is("A_Const") || !n.Flag("isnull") && constantField(n) != "sval"
	})
}

// endsLikeSQLAlchemy reports whether only column names and ORDER BY follow the subquery that ends at token end. Only
// RETURNING, ON or the end of the text may come after them.
func (u *unroller) endsLikeSQLAlchemy(end int, columns []string) bool {
	open := end + 3
	if !u.ph.IsKeyword(end+1, "as") || !u.ph.IsPunct(open, '(') || int(u.pairs[open]) != open+2*len(columns) {
		return false
	}
	last := open + 2*len(columns) + 3
	return u.ph.AreKeywords(last-2, "order", "by") && u.ph.IsName(last) && (last+1 == len(u.ph.Tokens) || u.ph.IsKeyword(last+1, "returning") || u.ph.IsKeyword(last+1, "on") || u.ph.IsPunct(last+1, ';'))
}
