// Package lint reads files of SQL, and writes them as Sluice would send them. The findings about a
// statement come from the planner, package rewrite.
//
// LintFile and FixFile (fix.go) read a file as the file's migration tool would run it: migrations.go has the parts of a
// file, transactions and switches. CompareMigrations (migrationorder.go) orders files as migration tools run them.
//
// Invariants:
//   - FixFile changes only statements that Sluice sends differently, and comments before statements.
//   - The output of FixFile reads as the intended statements, or the file stays unchanged.
//   - FixFile of a fixed file changes nothing.
package lint
