package parse

import (
	"slices"
	"strings"
)

// WordSet returns the words of a text as a set. Blanks separate the words.
func WordSet(words string) map[string]bool {
	m := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		m[word] = true
	}
	return m
}

// FoldName appends word to to, in the form in which PostgreSQL folds an unquoted name: ASCII letters become lower-case,
// and MaxName bytes remain.
func FoldName(to, word []byte) []byte {
	for _, c := range word {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		to = append(to, c)
	}
	return to[:min(len(to), MaxName)]
}

// MaxName is the greatest length in bytes that PostgreSQL allows for a name.
const MaxName = 63

// QuoteIdent returns a name as SQL, in double quotes. The name may also be a keyword.
func QuoteIdent(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// QuoteLiteral returns s as an SQL string constant, with the same meaning for any value of standard_conforming_strings.
func QuoteLiteral(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return "E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// QuoteIdentIfNeeded returns a name as SQL. It quotes a name that has other characters than lower-case letters, digits
// and _. The name must not be a keyword.
func QuoteIdentIfNeeded(name string) string {
	for i := range len(name) {
		c := name[i]
		if 'a' <= c && c <= 'z' || c == '_' || i > 0 && '0' <= c && c <= '9' {
			continue
		}
		return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	}
	return name
}

// IsType reports whether a TypeName is the type of this name in pg_catalog. An array, or a type with a length, is not.
func IsType(kind TreeNode, name string) bool {
	names := kind.Names("names")
	if len(names) == 2 && names[0] == "pg_catalog" {
		names = names[1:]
	}
	return slices.Equal(names, []string{name}) && !kind.Flag("setof") && !kind.Flag("pct_type") &&
		kind.Child("array_bounds").Shape == nil && kind.Child("typmods").Shape == nil
}

// CalledFunction returns the name of a called function that has no schema or the schema pg_catalog. It returns "" for a
// function in another schema.
func CalledFunction(call TreeNode) string {
	names := call.Names("funcname")
	switch {
	case len(names) == 1:
		return names[0]
	case len(names) == 2 && names[0] == "pg_catalog":
		return names[1]
	}
	return ""
}

// IsBuiltinType reports whether a TypeName certainly means one of PostgreSQL's own types.
func IsBuiltinType(m TreeNode) bool {
	switch names := m.Names("names"); len(names) {
	case 1:
		return builtinTypes[names[0]]
	case 2:
		return names[0] == "pg_catalog"
	}
	return false
}

// builtinTypes are frequent types of PostgreSQL whose names are not keywords.
var builtinTypes = map[string]bool{"text": true, "bool": true, "int2": true, "int4": true, "int8": true, "float4": true, "float8": true,
	"date": true, "uuid": true, "json": true, "jsonb": true, "bytea": true, "oid": true, "regclass": true, "regtype": true,
	"timestamptz": true, "timestamp": true, "name": true}

// ConstraintIs reports whether a Constraint is of one of these kinds.
func ConstraintIs(constraint TreeNode, kinds ...ConstrType) bool {
	return slices.Contains(kinds, ConstrType(constraint.Integer("contype")))
}
