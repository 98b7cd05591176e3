// Package matrix runs a small application of each database tool, on plain PostgreSQL and, through Sluice, on
// dsqlsim, the simulated DSQL cluster. It writes the results as the table of docs/applications.md.
//
// An application is a program in its tool's idiom, with migrations as the tool's generator or tutorial writes them. Its
// command line is
//
//	PROGRAM PHASE URL BULK ROWS WRITERS TRANSACTIONS
//
// A phase has several steps (features.go names them): up makes the tables, use works with the tables, down removes
// them. The program prints a line for each step:
//
//	step NAME: ok VALUES
//	step NAME: error SQLSTATE MESSAGE
//
// VALUES must be equal on both routes: Sluice must answer as PostgreSQL does in the same run. In the phases up and
// down, a step that fails is the last one. A separate line names the tool's version:
//
//	tool VERSION
//
// Each tool runs with Sluice's defaults, and then with Sluice's settings (configurations) one after another, until
// every step has succeeded once. If a migration fails, the test copies the tables of plain PostgreSQL to dsqlsim, so
// that the later steps can run. The table marks the results of these steps. A recorder between application and
// server finds the statement that was refused.
//
//	go test ./integration/applications/matrix                 # the short form, of make test
//	go test ./integration/applications/matrix -full           # make applications
//	go test ./integration/applications/matrix -full -update   # writes testdata/seen.json, docs/applications.md
//	go test ./integration/applications/matrix -run 'TestMatrix/tools/Django' -refusals /tmp/refusals.md
package matrix
