// Package bytea rewrites statements over bytea columns that are in keys, because the server takes no bytea in a key.
// The server stores a mapped column as text of lower-case hexadecimal digits, under another name
// (schema.MappedSuffix). Clients see the column as bytea.
//
// Mapping.MapStatement returns the RewrittenForm of a statement: edits of its text, and the intended changes of its
// tree. query.go and the files that it uses rewrite queries and changes of rows; scope.go resolves names. derive.go
// replaces tables by derived tables if columns cannot be converted in place. ddl.go, table.go, keys.go, names.go,
// index.go, alter.go and reads.go rewrite statements that change the schema. convert.go has the conversions of the
// server.
//
// Package rewrite verifies each form, and requests another one (Again) if the first fails.
//
// Invariants:
//   - A statement over mapped columns that has no correct form is refused. So is one with an unknown search path.
//   - A RewrittenForm contains the edits of one statement, and declares all that they change in its tree.
package bytea
