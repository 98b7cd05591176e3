// Package lint reads files of SQL, and writes them as Sluice would send them. The planner, rewrite, owns what there
// is to say of a statement.
//
// File and Fix (fix.go) read a file as its tool would run it: passages, transactions and switches are in
// migrations.go. CompareMigrations (migrationorder.go) orders files as tools run them.
//
// Invariants:
//   - Fix changes nothing but statements that Sluice sends otherwise, and comments in front of statements.
//   - What Fix has written reads as the statements that were meant, or the file is left as it is.
//   - Fix of a fixed file changes nothing.
package lint
