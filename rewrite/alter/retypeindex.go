package alter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// To change a column's type, Sluice adds a new column and creates the old column's indexes again over it. The catalog
// shows an index as a CREATE INDEX. Sluice renames the column in the tree of this statement, and makes SQL of the tree.

// IndexCopy is an index over the new column. It copies an index of the old column, under another name.
type IndexCopy struct {
	Text   string // the CREATE INDEX that Sluice runs
	unique bool
	// Late means that Sluice may create the index only after the last write of the old column. Before that, the new
	// column has NULLs, for which the index may fail or refuse rows.
	Late bool

	r                *ColumnTypeChange
	keys             []string // the index keys as SQL
	condition        string   // the SQL of the index's WHERE condition; "" for none
	hasExpression    bool     // a key is an expression, or the index has a condition
	columns          []string // the columns in keys and condition, except the new column
	nullsNotDistinct bool     // the index has NULLS NOT DISTINCT
}

// CopyIndex returns the index over the new column that copies an index of the old column, or nil if DSQL cannot have
// it. shown is the old index as the catalog shows it, and from is the old column's current name.
func (r *ColumnTypeChange) CopyIndex(shown, from, name string) *IndexCopy {
	if !fitsParser(shown) {
		return nil
	}
	tree, err := parse.Tree(shown)
	if err != nil || len(tree.Values("stmts")) != 1 {
		return nil
	}
	st := tree.Child("stmts").Child("stmt")
	if !st.Is("IndexStmt") || st.Text("access_method") != "btree" || len(st.Values("options")) > 0 || st.Text("table_space") != "" || st.Child("relation").Shape == nil {
		return nil
	}
	meant := parse.TreeChanges{}
	meant.Set(st, "idxname", parse.Value{Bytes: []byte(name)})
	if !r.renameInIndex(meant, st, from) {
		return nil
	}
	l := &IndexCopy{r: r, unique: st.Flag("unique"), nullsNotDistinct: st.Flag("nulls_not_distinct")}
	if l.Text = createIndexSQL(meant, tree, st); l.Text == "" {
		return nil
	}
	renamed := parse.TreeNode{Shape: tree.Shape, Wire: meant.Encode(tree)}.Child("stmts").Child("stmt")
	if !l.readKeys(renamed) {
		return nil
	}
	l.Late = l.mustBeLate(renamed)
	return l
}

// renameInIndex records, in meant, the renaming of the column in all parts of an index. It returns false if a key has
// an order, a collation or an operator class, or if a column reference is qualified.
func (r *ColumnTypeChange) renameInIndex(meant parse.TreeChanges, st parse.TreeNode, from string) bool {
	var refs []parse.TreeNode
	for _, list := range []string{"index_params", "index_including_params"} {
		for key := range st.List(list) {
			if key.Integer("ordering") > int(parse.SORTBY_DEFAULT) || key.Integer("nulls_ordering") > int(parse.SORTBY_NULLS_DEFAULT) ||
				len(key.Values("collation"))+len(key.Values("opclass"))+len(key.Values("opclassopts")) > 0 {
				return false
			}
			if key.Text("name") == from {
				meant.Set(key, "name", parse.Value{Bytes: []byte(r.NewColumn)})
			}
			if expr := key.Child("expr"); expr.Shape != nil {
				refs = parse.AppendColumnRefs(expr, refs)
			}
		}
	}
	if condition := st.Child("where_clause"); condition.Shape != nil {
		refs = parse.AppendColumnRefs(condition, refs)
	}
	for _, ref := range refs {
		names := ref.Names("fields")
		if len(names) != 1 || len(ref.Values("fields")) != 1 {
			return false
		}
		if names[0] == from {
			meant.Set(ref.Child("fields"), "sval", parse.Value{Bytes: []byte(r.NewColumn)})
		}
	}
	return true
}

// createIndexSQL returns the CREATE INDEX ASYNC of a tree with the changes meant, or "" if it reads back differently.
func createIndexSQL(meant parse.TreeChanges, tree, st parse.TreeNode) string {
	written := parse.TreeChanges{}
	for at, changes := range meant {
		written[at] = slices.Clone(changes)
	}
	written.Set(st, "access_method") // the parser adds it again
	text, err := parse.Deparse(written.Encode(tree))
	if err != nil || !fitsParser(text) {
		return ""
	}
	if again, err := parse.Tree(text); err != nil || !meant.Equal(tree, again) {
		return ""
	}
	for _, verb := range []string{"CREATE INDEX", "CREATE UNIQUE INDEX"} {
		if rest, is := strings.CutPrefix(text, verb+" "); is {
			return verb + " ASYNC " + rest
		}
	}
	return ""
}

// readKeys sets keys, condition and columns from the index's tree. It returns false if it cannot make SQL of them.
func (l *IndexCopy) readKeys(st parse.TreeNode) bool {
	names := map[string]bool{l.r.NewColumn: true}
	take := func(holder parse.TreeNode, field string) (string, bool) {
		l.hasExpression = true
		for _, ref := range parse.AppendColumnRefs(holder.Child(field), nil) {
			if name := ref.Names("fields")[0]; !names[name] {
				names[name] = true
				l.columns = append(l.columns, name)
			}
		}
		return expressionSQL(holder.Values(field)[0])
	}
	for key := range st.List("index_params") {
		sql, ok := parse.QuoteIdent(key.Text("name")), true
		if key.Child("expr").Shape != nil {
			sql, ok = take(key, "expr")
		} else if name := key.Text("name"); !names[name] {
			names[name] = true
			l.columns = append(l.columns, name)
		}
		if !ok {
			return false
		}
		l.keys = append(l.keys, sql)
	}
	ok := true
	if st.Child("where_clause").Shape != nil {
		l.condition, ok = take(st, "where_clause")
	}
	return ok
}

// expressionSQL returns the SQL, in parentheses, of an expression node. It returns false if the SQL reads back
// differently.
func expressionSQL(node parse.Value) (string, bool) {
	tree := sampleExpression()
	target := tree.Child("stmts").Child("stmt").Child("target_list")
	meant := parse.TreeChanges{}
	meant.Set(target, "val", node)
	text, err := parse.Deparse(meant.Encode(tree))
	if err != nil || !fitsParser(text) {
		return "", false
	}
	again, err := parse.Tree(text)
	if err != nil || !meant.Equal(tree, again) {
		return "", false
	}
	text, is := strings.CutPrefix(text, "SELECT ")
	return "(" + text + ")", is
}

var sampleExpression = parse.LazyTree("SELECT 1")

// TrialQuery returns a query that fails if the index's keys or condition are not valid for a column of the new type.
// The query reads no row. TrialQuery returns "" if there is nothing to check.
func (l *IndexCopy) TrialQuery(from string) string {
	if !l.hasExpression {
		return ""
	}
	columns := l.r.castSQL(from) + " AS " + parse.QuoteIdent(l.r.NewColumn)
	if len(l.columns) > 0 {
		columns += ", " + parse.QuoteIdents(l.columns, "")
	}
	return "SELECT " + strings.Join(l.keys, ", ") + " FROM (SELECT " + columns + " FROM " + l.r.table + ") t" + l.whereSQL() + " LIMIT 0"
}

// ComputeKeysQuery returns a query that computes the index keys of all rows. The query fails if the key of a row fails.
func (l *IndexCopy) ComputeKeysQuery() string {
	var counts []string
	for _, key := range l.keys {
		counts = append(counts, "count("+key+")")
	}
	return "SELECT " + strings.Join(counts, ", ") + " FROM " + l.r.table + l.whereSQL()
}

// DuplicateQuery returns a query for one group of rows that have equal index keys. The query returns the keys, and
// then, for each key, whether the key is NULL.
func (l *IndexCopy) DuplicateQuery() string {
	var nulls, present, at []string
	for i, key := range l.keys {
		nulls = append(nulls, key+" IS NULL")
		present = append(present, key+" IS NOT NULL")
		at = append(at, fmt.Sprint(i+1))
	}
	where := l.whereSQL()
	if !l.nullsNotDistinct {
		if where == "" {
			where = " WHERE true"
		}
		where += " AND " + strings.Join(present, " AND ")
	}
	list := strings.Join(at, ", ")
	return fmt.Sprintf("SELECT %s, %s FROM %s%s GROUP BY %s HAVING count(*) > 1 ORDER BY %s LIMIT 1",
		strings.Join(l.keys, ", "), strings.Join(nulls, ", "), l.r.table, where, list, list)
}

// KeyCount returns the number of the index's keys.
func (l *IndexCopy) KeyCount() int { return len(l.keys) }

func (l *IndexCopy) whereSQL() string {
	if l.condition == "" {
		return ""
	}
	return " WHERE " + l.condition
}

// mustBeLate reports whether Sluice must create the index after the last write of the old column (Late). Sluice may
// create the index earlier if the index accepts every row whose new column is NULL.
func (l *IndexCopy) mustBeLate(st parse.TreeNode) bool {
	condition := st.Child("where_clause")
	excluded := condition.Shape != nil && l.isNeverTrueOnNull(condition)
	free := condition.Shape == nil || l.omitsColumn(condition)
	if !free && !l.cannotFailOnNull(condition) {
		return true
	}
	named, distinct := false, false
	for key := range st.List("index_params") {
		expr := key.Child("expr")
		switch {
		case key.Text("name") == l.r.NewColumn:
			named, distinct = true, true
		case expr.Shape == nil || l.omitsColumn(expr):
		case !l.cannotFailOnNull(expr):
			return true
		default:
			named, distinct = true, distinct || l.isNullWithColumn(expr)
		}
	}
	return l.unique && !excluded && !(distinct && !l.nullsNotDistinct) && (named || !free)
}

// omitsColumn reports whether an expression does not contain the new column.
func (l *IndexCopy) omitsColumn(m parse.TreeNode) bool {
	return !slices.ContainsFunc(parse.AppendColumnRefs(m, nil), func(ref parse.TreeNode) bool { return slices.Equal(ref.Names("fields"), []string{l.r.NewColumn}) })
}

// strictOperators are builtin operators, and strictFunctions builtin functions, that PostgreSQL does not evaluate if an
// operand is NULL. Their result is then NULL.
var (
	strictOperators = parse.WordSet("= <> < > <= >= + - * / % ^ || ~~ !~~ ~~* !~~* ~ ~* !~ !~*")
	strictFunctions = parse.WordSet("lower upper initcap btrim ltrim rtrim length char_length octet_length substr substring left right reverse md5 abs round floor ceil ceiling trunc")
)

// isNullWithColumn reports whether an expression certainly is NULL, without an error, if the new column is NULL.
func (l *IndexCopy) isNullWithColumn(m parse.TreeNode) bool {
	switch {
	case m.Is("ColumnRef"):
		return !l.omitsColumn(m)
	case m.Is("TypeCast"):
		return isBuiltinType(m.Child("type_name")) && l.isNullWithColumn(m.Child("arg"))
	case m.Is("CollateClause"):
		return l.isNullWithColumn(m.Child("arg"))
	}
	null := false
	for _, operand := range l.strictOperands(m) {
		switch {
		case operand.Shape == nil || l.omitsColumn(operand):
		case !l.isNullWithColumn(operand):
			return false
		default:
			null = true
		}
	}
	return null
}

// strictOperands returns the operands of an expression that is NULL if an operand is NULL. For others it returns nil.
func (l *IndexCopy) strictOperands(m parse.TreeNode) (operands []parse.TreeNode) {
	switch {
	case m.Is("A_Expr"):
		if names := m.Names("name"); len(names) != 1 || !strictOperators[names[0]] {
			return nil
		}
		operands = []parse.TreeNode{m.Child("lexpr"), m.Child("rexpr")}
		switch parse.A_Expr_Kind(m.Integer("kind")) {
		case parse.AEXPR_OP:
			return operands
		case parse.AEXPR_OP_ANY: // x = ANY (a list with the column) need not be NULL
			if l.omitsColumn(operands[1]) {
				return operands
			}
		}
		return nil
	case m.Is("FuncCall"):
		names := m.Names("funcname")
		if len(names) == 2 && names[0] == "pg_catalog" {
			names = names[1:]
		}
		if len(names) == 1 && strictFunctions[names[0]] {
			operands = slices.Collect(m.List("args"))
		}
	}
	return operands
}

// cannotFailOnNull reports whether an expression certainly does not fail in a row whose new column is NULL.
func (l *IndexCopy) cannotFailOnNull(m parse.TreeNode) bool {
	switch {
	case l.omitsColumn(m) || l.isNullWithColumn(m):
		return true
	case m.Is("NullTest"):
		return l.cannotFailOnNull(m.Child("arg"))
	case m.Is("BoolExpr"):
		for arg := range m.List("args") {
			if !l.cannotFailOnNull(arg) {
				return false
			}
		}
		return true
	}
	return false
}

// isNeverTrueOnNull reports whether a condition is never true for a row whose new column is NULL.
func (l *IndexCopy) isNeverTrueOnNull(m parse.TreeNode) bool {
	switch {
	case l.isNullWithColumn(m):
		return true
	case m.Is("NullTest"):
		return parse.NullTestType(m.Integer("nulltesttype")) == parse.IS_NOT_NULL && l.isNullWithColumn(m.Child("arg"))
	case m.Is("BoolExpr"):
		untrue, all := 0, 0
		for arg := range m.List("args") {
			if all++; l.isNeverTrueOnNull(arg) {
				untrue++
			}
		}
		switch parse.BoolExprType(m.Integer("boolop")) {
		case parse.AND_EXPR:
			return untrue > 0
		case parse.OR_EXPR:
			return untrue == all
		}
	}
	return false
}
