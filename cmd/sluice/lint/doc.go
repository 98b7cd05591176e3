// Package lint has the command lint: it says what DSQL refuses of SQL files and of logs.
//
//	lint.go    the command
//	files.go   files and folders, and what --fix writes
//	log.go     statements of PostgreSQL's log
//	report.go  the report as text and as JSON
//
// All inputs are read before a file is written. A file is replaced as a whole.
package lint
