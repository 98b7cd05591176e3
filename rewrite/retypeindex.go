package rewrite

import (
	"fmt"
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
	"github.com/pganalyze/pg_query_go/v6/parser"
)

// Indexes of a column that gets another type (Retyping), its expressions and its condition
// among them. The catalog shows an index as a statement; the column gets its new name in the tree
// of that, from which the statement is written that makes an index like it. PostgreSQL reads what
// the catalog shows in the same way when a column gets another type.

// Likeness is an index like one of the old column, over the new column and under another name.
type Likeness struct {
	Text   string // the statement that makes it
	unique bool
	// Late: it may refuse rows while the new column has no values yet, or fail for them, so that it can be
	// made only when nobody writes the old column any more.
	Late bool

	r         *Retyping
	keys      []string // as SQL
	condition string   // as SQL; "" for none
	computes  bool     // a key is an expression, or there is a condition
	columns   []string // that these name, but for the new one
	together  bool     // NULLS NOT DISTINCT
}

// Like reads an index as the catalog shows it, in which the column has the name from. nil: it has
// what DSQL refuses, or what could get lost.
func (r *Retyping) Like(shown, from, name string) *Likeness {
	if Defaults().guard([]byte(shown)) != fits {
		return nil
	}
	tree, err := parseTree(shown)
	if err != nil || len(tree.values("stmts")) != 1 {
		return nil
	}
	st := tree.child("stmts").child("stmt")
	if !st.is("IndexStmt") || st.text("access_method") != "btree" || len(st.values("options")) > 0 || st.text("table_space") != "" || st.child("relation").shape == nil {
		return nil
	}
	meant := intents{}
	meant.set(st, "idxname", value{bytes: []byte(name)})
	if !r.renames(meant, st, from) {
		return nil
	}
	l := &Likeness{r: r, unique: st.flag("unique"), together: st.flag("nulls_not_distinct")}
	if l.Text = created(meant, tree, st); l.Text == "" {
		return nil
	}
	renamed := message{tree.shape, meant.encode(tree)}.child("stmts").child("stmt")
	if !l.read(renamed) {
		return nil
	}
	l.Late = l.isLate(renamed)
	return l
}

// renames means to give the column its new name wherever an index has it. false: a key has an
// order, a collation or an operator class, or a column is not named by its name alone.
func (r *Retyping) renames(meant intents, st message, from string) bool {
	var refs []message
	for _, list := range []string{"index_params", "index_including_params"} {
		for key := range st.list(list) {
			if key.integer("ordering") > int(pg_query.SortByDir_SORTBY_DEFAULT) || key.integer("nulls_ordering") > int(pg_query.SortByNulls_SORTBY_NULLS_DEFAULT) ||
				len(key.values("collation"))+len(key.values("opclass"))+len(key.values("opclassopts")) > 0 {
				return false
			}
			if key.text("name") == from {
				meant.set(key, "name", value{bytes: []byte(r.Made)})
			}
			if expr := key.child("expr"); expr.shape != nil {
				refs = columnRefs(expr, refs)
			}
		}
	}
	if condition := st.child("where_clause"); condition.shape != nil {
		refs = columnRefs(condition, refs)
	}
	for _, ref := range refs {
		names := ref.names("fields")
		if len(names) != 1 || len(ref.values("fields")) != 1 {
			return false
		}
		if names[0] == from {
			meant.set(ref.child("fields"), "sval", value{bytes: []byte(r.Made)})
		}
	}
	return true
}

// created is the statement that the intended tree of a CREATE INDEX is, as DSQL spells it; "" where
// what is written does not mean that tree.
func created(meant intents, tree, st message) string {
	written := intents{}
	for at, changes := range meant {
		written[at] = slices.Clone(changes)
	}
	written.set(st, "access_method") // the parser fills it in
	text, err := parser.DeparseFromProtobuf(written.encode(tree))
	if err != nil || Defaults().guard([]byte(text)) != fits {
		return ""
	}
	if again, err := parseTree(text); err != nil || !meant.equal(tree, again) {
		return ""
	}
	for _, verb := range []string{"CREATE INDEX", "CREATE UNIQUE INDEX"} {
		if rest, is := strings.CutPrefix(text, verb+" "); is {
			return verb + " ASYNC " + rest
		}
	}
	return ""
}

// read takes keys and condition from the tree of the new index.
func (l *Likeness) read(st message) bool {
	names := map[string]bool{l.r.Made: true}
	take := func(holder message, field string) (string, bool) {
		l.computes = true
		for _, ref := range columnRefs(holder.child(field), nil) {
			if name := ref.names("fields")[0]; !names[name] {
				names[name] = true
				l.columns = append(l.columns, name)
			}
		}
		return expression(holder.values(field)[0])
	}
	for key := range st.list("index_params") {
		sql, ok := identifier(key.text("name")), true
		if key.child("expr").shape != nil {
			sql, ok = take(key, "expr")
		} else if name := key.text("name"); !names[name] {
			names[name] = true
			l.columns = append(l.columns, name)
		}
		if !ok {
			return false
		}
		l.keys = append(l.keys, sql)
	}
	ok := true
	if st.child("where_clause").shape != nil {
		l.condition, ok = take(st, "where_clause")
	}
	return ok
}

// expression writes an expression, a Node as a tree holds it, in parentheses.
func expression(node value) (string, bool) {
	tree := sampleExpression()
	target := tree.child("stmts").child("stmt").child("target_list")
	meant := intents{}
	meant.set(target, "val", node)
	text, err := parser.DeparseFromProtobuf(meant.encode(tree))
	if err != nil || Defaults().guard([]byte(text)) != fits {
		return "", false
	}
	again, err := parseTree(text)
	if err != nil || !meant.equal(tree, again) {
		return "", false
	}
	text, is := strings.CutPrefix(text, "SELECT ")
	return "(" + text + ")", is
}

var sampleExpression = sample("SELECT 1")

// Trial asks the server whether keys and condition have a meaning over a column of the new type;
// "" where there is nothing to ask. It reads no row.
func (l *Likeness) Trial(from string) string {
	if !l.computes {
		return ""
	}
	columns := l.r.cast(from) + " AS " + identifier(l.r.Made)
	if len(l.columns) > 0 {
		columns += ", " + identifiers(l.columns, "")
	}
	return "SELECT " + strings.Join(l.keys, ", ") + " FROM (SELECT " + columns + " FROM " + l.r.table + ") t" + l.where() + " LIMIT 0"
}

// Computed has the server compute all keys: one that fails for a row has its error.
func (l *Likeness) Computed() string {
	var counts []string
	for _, key := range l.keys {
		counts = append(counts, "count("+key+")")
	}
	return "SELECT " + strings.Join(counts, ", ") + " FROM " + l.r.table + l.where()
}

// Duplicate finds rows of the same keys: their values, and which of these are NULL.
func (l *Likeness) Duplicate() string {
	var nulls, present, at []string
	for i, key := range l.keys {
		nulls = append(nulls, key+" IS NULL")
		present = append(present, key+" IS NOT NULL")
		at = append(at, fmt.Sprint(i+1))
	}
	where := l.where()
	if !l.together {
		if where == "" {
			where = " WHERE true"
		}
		where += " AND " + strings.Join(present, " AND ")
	}
	list := strings.Join(at, ", ")
	return fmt.Sprintf("SELECT %s, %s FROM %s%s GROUP BY %s HAVING count(*) > 1 ORDER BY %s LIMIT 1",
		strings.Join(l.keys, ", "), strings.Join(nulls, ", "), l.r.table, where, list, list)
}

// Keys is how many keys there are.
func (l *Likeness) Keys() int { return len(l.keys) }

func (l *Likeness) where() string {
	if l.condition == "" {
		return ""
	}
	return " WHERE " + l.condition
}

// isLate looks at the index over a column that has no values: it is made early where it takes any
// such row, whatever the others are.
func (l *Likeness) isLate(st message) bool {
	condition := st.child("where_clause")
	excluded := condition.shape != nil && l.untrue(condition)
	free := condition.shape == nil || l.free(condition)
	if !free && !l.harmless(condition) {
		return true
	}
	named, distinct := false, false
	for key := range st.list("index_params") {
		expr := key.child("expr")
		switch {
		case key.text("name") == l.r.Made:
			named, distinct = true, true
		case expr.shape == nil || l.free(expr):
		case !l.harmless(expr):
			return true
		default:
			named, distinct = true, distinct || l.null(expr)
		}
	}
	return l.unique && !excluded && !(distinct && !l.together) && (named || !free)
}

// free reports an expression that does not name the new column.
func (l *Likeness) free(m message) bool {
	return !slices.ContainsFunc(columnRefs(m, nil), func(ref message) bool { return slices.Equal(ref.names("fields"), []string{l.r.Made}) })
}

// strictOperators and strictFunctions are PostgreSQL's own that are NULL where an operand is, and
// are not run then.
var (
	strictOperators = wordSet("= <> < > <= >= + - * / % ^ || ~~ !~~ ~~* !~~* ~ ~* !~ !~*")
	strictFunctions = wordSet("lower upper initcap btrim ltrim rtrim length char_length octet_length substr substring left right reverse md5 abs round floor ceil ceiling trunc")
)

// null reports an expression that is NULL, and does not fail, where the new column is NULL.
func (l *Likeness) null(m message) bool {
	switch {
	case m.is("ColumnRef"):
		return !l.free(m)
	case m.is("TypeCast"):
		return isNoDomain(m.child("type_name")) && l.null(m.child("arg"))
	case m.is("CollateClause"):
		return l.null(m.child("arg"))
	}
	null := false
	for _, operand := range l.operands(m) {
		switch {
		case operand.shape == nil || l.free(operand):
		case !l.null(operand):
			return false
		default:
			null = true
		}
	}
	return null
}

// operands are those of an operator or a function that is NULL where one of them is; none of any other.
func (l *Likeness) operands(m message) (operands []message) {
	switch {
	case m.is("A_Expr"):
		if names := m.names("name"); len(names) != 1 || !strictOperators[names[0]] {
			return nil
		}
		operands = []message{m.child("lexpr"), m.child("rexpr")}
		switch pg_query.A_Expr_Kind(m.integer("kind")) {
		case pg_query.A_Expr_Kind_AEXPR_OP:
			return operands
		case pg_query.A_Expr_Kind_AEXPR_OP_ANY: // of no list that has the column
			if l.free(operands[1]) {
				return operands
			}
		}
		return nil
	case m.is("FuncCall"):
		names := m.names("funcname")
		if len(names) == 2 && names[0] == "pg_catalog" {
			names = names[1:]
		}
		if len(names) == 1 && strictFunctions[names[0]] {
			operands = slices.Collect(m.list("args"))
		}
	}
	return operands
}

// harmless reports an expression that does not fail for the new column where that is NULL.
func (l *Likeness) harmless(m message) bool {
	switch {
	case l.free(m) || l.null(m):
		return true
	case m.is("NullTest"):
		return l.harmless(m.child("arg"))
	case m.is("BoolExpr"):
		for arg := range m.list("args") {
			if !l.harmless(arg) {
				return false
			}
		}
		return true
	}
	return false
}

// untrue reports a condition that no row meets in which the new column is NULL.
func (l *Likeness) untrue(m message) bool {
	switch {
	case l.null(m):
		return true
	case m.is("NullTest"):
		return pg_query.NullTestType(m.integer("nulltesttype")) == pg_query.NullTestType_IS_NOT_NULL && l.null(m.child("arg"))
	case m.is("BoolExpr"):
		untrue, all := 0, 0
		for arg := range m.list("args") {
			if all++; l.untrue(arg) {
				untrue++
			}
		}
		switch pg_query.BoolExprType(m.integer("boolop")) {
		case pg_query.BoolExprType_AND_EXPR:
			return untrue > 0
		case pg_query.BoolExprType_OR_EXPR:
			return untrue == all
		}
	}
	return false
}
