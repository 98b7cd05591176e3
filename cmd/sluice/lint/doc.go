// Package lint has the command lint, which reports statements of SQL files and logs that DSQL
// refuses.
//
//	lint.go    the command
//	files.go   files and folders, and the result of --fix
//	log.go     statements of PostgreSQL's log
//	report.go  the report as text and as JSON
//
// All inputs are read before a file is written. A file is replaced as a whole.
package lint
