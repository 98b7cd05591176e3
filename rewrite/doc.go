// Package rewrite reads SQL. It plans a text: what kind of statements it holds,
// what they do to the session and to the transaction, which tables they name, and
// whether they leave something behind that ties the session to its backend. It
// is pure: no input, no output, no goroutine.
//
// # The way of a text
//
// The cache (cache.go) knows it; or its words alone show that it is one harmless
// SELECT, VALUES, INSERT, UPDATE or DELETE (scan.go); or it is too long or too
// deep for the parser (guard.go); or PostgreSQL's own parser reads it (tree.go)
// and a plan is built from the tree (build.go) and remembered.
//
// # Invariants
//
//   - The parser is C and recursive, without a check of its stack. Nothing
//     reaches it but through the guard, which bounds length and depth.
//   - Whoever errs, errs to the safe side: the scan towards parsing, the guard
//     towards refusing, the plan towards the stronger kind and towards a pin.
//   - The scan and the tree agree: what the scan clears, the tree would have
//     planned with the same kind, and without a pin or a change.
//   - Plans are immutable and shared.
//
// # What is taken on trust
//
// Texts are UTF-8 and read with standard_conforming_strings on; a SET that turns
// it off pins. A plan knows only what is written: not what views, triggers,
// casts, operators and a user's overload of a builtin function do, nor a function
// called as a field of a row (t.f), nor what is in the search path.
package rewrite
