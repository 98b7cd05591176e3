// Package matrix runs a small application of each tool that people use on plain PostgreSQL and, through
// Sluice, on the stand-in for DSQL, and makes the table of docs/applications.md of what it saw.
//
// An application is a program in its tool's own idiom, with migrations as the tool's generator or its
// tutorial writes them. It is called as
//
//	PROGRAM PHASE URL BULK ROWS WRITERS TRANSACTIONS
//
// and goes through the steps of a phase (features.go names them): up makes the tables, use works with
// them, down takes them away. It prints a line for each step:
//
//	step NAME: ok VALUES
//	step NAME: error SQLSTATE MESSAGE
//
// VALUES must be the same on both routes: what PostgreSQL answers in the same run is expected of Sluice.
// In up and down nothing follows the first step that fails; a line of its own names the tool's version:
//
//	tool VERSION
//
// Each tool is tried with Sluice's defaults, then with its switches (configurations), one after another,
// until every step has been right once. Where migrations fail that the rest needs, the tables of plain PostgreSQL are laid
// under the stand-in by hand, so that the rest is tried all the same; the table tells which cells are of
// that kind. A recorder between application and server knows the statement that was refused.
//
//	go test ./integration/applications/matrix                 # the short form, of make test
//	go test ./integration/applications/matrix -full           # make applications
//	go test ./integration/applications/matrix -full -update   # writes testdata/seen.json, docs/applications.md
//	go test ./integration/applications/matrix -run 'TestMatrix/tools/Django' -refusals /tmp/refusals.md
package matrix
