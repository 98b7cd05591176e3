// Package bytea rewrites statements over bytea columns that are in keys, because the server accepts no bytea in a key.
// The server stores such a column (a mapped column) as text of lower-case hexadecimal digits, under another name
// (schema.MappedSuffix). Clients see the column as bytea.
//
// Mapping.MapStatement returns the MappedEdits of a statement: edits of its text, and the intended changes of its tree.
// Package rewrite verifies the edited text. If verification fails, it requests another form of the text
// (AlternativeForm).
//
// A queryMapper rewrites a statement that reads or writes rows. Its parts use only the parts before them in this list:
//
//   - spanFinder (extent.go) finds the tokens of an expression. draft collects the edits of a statement, and the
//     problems for which Sluice cannot use the edits.
//   - scope has the columns of one level of a query. columnResolver (resolve.go) finds the column that a name means.
//   - paramChecker (params.go) finds parameters that would get another type. comparisonPlanner (compare.go) decides
//     which comparisons become comparisons of digits. paramChecker and comparisonPlanner do not change the draft.
//   - exprMapper (expr.go) rewrites expressions, and fromMapper (from.go) rewrites FROM and WITH.
//   - selectMapper (select.go) rewrites SELECT and lists of result columns.
//   - queryMapper (query.go, insert.go, update.go) rewrites INSERT, UPDATE, DELETE and COPY.
//
// Expressions and FROM contain queries. Therefore exprMapper and fromMapper call the queryMapper as a subqueryMapper.
// If columns of a table cannot be converted in place, a tableDeriver (derive.go) replaces the table by a subquery.
//
// A ddlMapper rewrites a statement that changes the schema: ddl.go, table.go, keys.go, names.go, index.go, alter.go and
// reads.go. convert.go has the SQL of conversions between bytea and digits, which all mappers use.
//
// Invariants:
//   - Sluice refuses a statement over mapped columns if no correct form exists, or if the search path is unknown.
//   - A MappedEdits contains the edits of one statement, and declares all changes that they make in its tree.
package bytea
