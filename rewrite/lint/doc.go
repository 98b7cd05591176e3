// Package lint reads SQL files, and writes them as Sluice would send them. The findings about a statement come from
// package rewrite, which plans the statement.
//
// LintFile and FixFile (fix.go) read a file as the file's migration tool would run it. migrations.go finds the parts of
// a file and their transactions. CompareMigrations (migrationorder.go) orders files as migration tools run them.
//
// Invariants:
//   - FixFile changes only statements that Sluice sends in another form, and comments before statements.
//   - Read again, the output of FixFile has the intended statements. Otherwise FixFile leaves the file unchanged.
//   - FixFile of a fixed file changes nothing.
package lint
