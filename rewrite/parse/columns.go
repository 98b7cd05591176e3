package parse

import (
	"strings"
	"unicode"
)

// serialTypes maps PostgreSQL's serial types to the integer types that their columns have.
var serialTypes = map[string]string{"serial": "integer", "serial4": "integer", "serial2": "smallint", "smallserial": "smallint",
	"bigserial": "bigint", "serial8": "bigint"}

// SerialType returns the integer type of a serial column. ok is false for a column that is not serial.
func SerialType(column TreeNode) (of string, ok bool) {
	kind := column.Child("type_name")
	names := kind.Names("names")
	if len(names) != 1 || kind.Flag("setof") || kind.Flag("pct_type") || kind.Child("array_bounds").Shape != nil {
		return "", false
	}
	of, ok = serialTypes[names[0]]
	return of, ok
}

// IdentityConstraint returns the identity constraint of a column, or an absent node if the column is no identity.
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

// ColumnTypeName returns the name of a column's type. For an array it adds [].
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

// RegclassName returns a relation's name as SQL, quoted and perhaps with a schema, for a cast to regclass.
func RegclassName(relation TreeNode) string {
	name := QuoteIdent(relation.Text("relname"))
	if schema := relation.Text("schemaname"); schema != "" {
		name = QuoteIdent(schema) + "." + name
	}
	return name
}

// QuoteIdents returns an SQL list of the names, each quoted and with the prefix before it.
func QuoteIdents(names []string, prefix string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = prefix + QuoteIdent(name)
	}
	return strings.Join(all, ", ")
}

// IsNull reports whether m is the constant NULL.
func IsNull(m TreeNode) bool { return m.Is("A_Const") && m.Flag("isnull") }

// AppendColumnRefs appends to refs all column references in an expression.
func AppendColumnRefs(expr TreeNode, refs []TreeNode) []TreeNode {
	if expr.Is("ColumnRef") {
		return append(refs, expr)
	}
	for child := range expr.Children() {
		refs = AppendColumnRefs(child, refs)
	}
	return refs
}

// ContainsTimeWord reports whether a text contains now, today, tomorrow or yesterday. PostgreSQL may read a constant
// with one of these words as a time, which differs between the batches of a DELETE.
func ContainsTimeWord(text []byte) bool {
	for word := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		switch strings.ToLower(word) {
		case "now", "today", "tomorrow", "yesterday":
			return true
		}
	}
	return false
}
