// Package bytea maps columns of type bytea that are in keys, for a server that takes no bytea there. The server stores
// lower-case hexadecimal digits as text, under another name (schema.MappedSuffix). Clients know the column as bytea.
//
// Mapping.Map returns the Form in which a statement goes to the server: edits of its text, and what they mean in its
// tree. Queries and changes of rows are in query.go and those that it calls; scope.go looks names up. derive.go writes a
// query over derived tables where no form in place is right. Statements that change the schema are in ddl.go, table.go,
// keys.go, names.go, index.go, alter.go and reads.go. convert.go has how the server converts.
//
// Package rewrite owns the text, verifies each form, and asks for another one (Again) where the first is wrong.
//
// Invariants:
//   - A statement over a mapped column that has no right form is refused, and so is one of unknown search path.
//   - A Form has the edits of one statement, and says all that they change in its tree.
package bytea
