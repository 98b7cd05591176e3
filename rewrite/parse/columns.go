package parse

import (
	"strings"
	"unicode"
)

// serialTypes maps PostgreSQL's serial types to the integer types of their columns.
var serialTypes = map[string]string{"serial": "integer", "serial4": "integer", "serial2": "smallint", "smallserial": "smallint",
	"bigserial": "bigint", "serial8": "bigint"}

// SerialType returns the integer type of a serial column. ok is false for columns of other types.
func SerialType(column TreeNode) (of string, ok bool) {
	kind := column.Child("type_name")
	names := kind.Names("names")
	if len(names) != 1 || kind.Flag("setof") || kind.Flag("pct_type") || kind.Child("array_bounds").Shape != nil {
		return "", false
	}
	of, ok = serialTypes[names[0]]
	return of, ok
}

// IdentityConstraint returns the identity constraint of a column. The result is absent for a column without one.
func IdentityConstraint(column TreeNode) TreeNode {
	for constraint := range column.List("constraints") {
		if ConstraintIs(constraint, CONSTR_IDENTITY) {
			return constraint
		}
	}
	return TreeNode{}
}

// ColumnTree returns the parse tree of a column with this definition.
func ColumnTree(definition string) TreeNode {
	return LazyTree("CREATE TABLE t (c " + definition + ")")().Child("stmts").Child("stmt").Child("table_elts")
}

// ColumnTypeName returns the name of a column's type, with [] after an array's.
func ColumnTypeName(column TreeNode) string {
	kind := column.Child("type_name")
	names := kind.Names("names")
	if len(names) == 0 {
		return ""
	}
	name := names[len(names)-1]
	if kind.Child("array_bounds").Shape != nil {
		name += "[]"
	}
	return name
}

// RegclassName returns the quoted, possibly qualified name of a relation, for a cast to regclass.
func RegclassName(relation TreeNode) string {
	name := QuoteIdent(relation.Text("relname"))
	if schema := relation.Text("schemaname"); schema != "" {
		name = QuoteIdent(schema) + "." + name
	}
	return name
}

// QuoteIdents returns a list of quoted names as SQL, each with a prefix.
func QuoteIdents(names []string, prefix string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = prefix + QuoteIdent(name)
	}
	return strings.Join(all, ", ")
}

// IsNull reports whether m is the constant NULL.
func IsNull(m TreeNode) bool { return m.Is("A_Const") && m.Flag("isnull") }

// AppendColumnRefs appends the column references in an expression to refs.
func AppendColumnRefs(expr TreeNode, refs []TreeNode) []TreeNode {
	if expr.Is("ColumnRef") {
		return append(refs, expr)
	}
	for child := range expr.Children() {
		refs = AppendColumnRefs(child, refs)
	}
	return refs
}

// ContainsTimeWord reports whether a text contains now, today, tomorrow or yesterday. PostgreSQL reads these words as
// the current time, which differs between the batches of a DELETE.
func ContainsTimeWord(text []byte) bool {
	for word := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		switch strings.ToLower(word) {
		case "now", "today", "tomorrow", "yesterday":
			return true
		}
	}
	return false
}
