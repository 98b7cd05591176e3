// Package bytea rewrites statements over bytea columns that are in keys, because the server takes no bytea in a key.
// The server stores a mapped column as text of lower-case hexadecimal digits, under another name
// (schema.MappedSuffix). Clients see the column as bytea.
//
// Mapping.MapStatement returns the MappedEdits of a statement: edits of its text, and the intended changes of its
// tree. Package rewrite verifies each form, and requests another one (AlternativeForm) if the first fails.
//
// A queryMapper rewrites a statement that reads or writes rows. Its parts use only the parts before them in this list:
//
//   - spanFinder (extent.go) finds the tokens of an expression. draft collects the edits of a statement, and the
//     diagnostics that make the draft useless.
//   - scope has the columns of one level of a query. columnResolver (resolve.go) resolves names in scopes.
//   - paramChecker (params.go) finds parameters that would get another type. comparisonPlanner (compare.go) decides
//     which comparisons become comparisons of digits. Neither changes the draft.
//   - exprMapper (expr.go) rewrites expressions, and fromMapper (from.go) rewrites FROM and WITH.
//   - selectMapper (select.go) rewrites SELECT and lists of result columns.
//   - queryMapper (query.go, insert.go, update.go) rewrites INSERT, UPDATE, DELETE and COPY.
//
// Expressions and FROM contain queries, so that exprMapper and fromMapper have a subqueryMapper, which is the
// queryMapper. A tableDeriver (derive.go) replaces tables by derived tables if columns cannot be converted in place.
//
// A ddlMapper rewrites a statement that changes the schema: ddl.go, table.go, keys.go, names.go, index.go, alter.go and
// reads.go. convert.go has the conversions of the server, which all mappers use.
//
// Invariants:
//   - A statement over mapped columns that has no correct form is refused. So is one with an unknown search path.
//   - A MappedEdits contains the edits of one statement, and declares all that they change in its tree.
package bytea
