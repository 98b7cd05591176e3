// Package bytea compares a database in which bytea columns of keys are mapped (rewrite.bytea) with a database that
// stores them as bytea.
//
// A world is a random schema with rows, created twice: as the client writes it in a plain PostgreSQL (stock), and
// mapped. Random statements run in both databases, in the text that a client writes. All answers to the client must be
// equal: types of parameters, names and types of columns, rows, command tags and SQLSTATEs. The order of rows must be
// equal where ORDER BY determines it. The tables that the statements write must be equal too.
//
// The generator draws from a list of numbers, in which zero is always the simplest choice (draw.go). A differing
// statement is shrunk by making its list shorter and its numbers smaller. Each trial runs in a transaction that is
// rolled back.
//
// Two differences are allowed and counted. At most one of a hundred statements may be refused (0A000), which a client
// can write in another way. If a statement has several errors, the databases may report different ones.
//
// In addition there are texts written by hand (traps.go). Those in trapcases.go are texts that a simple rewriting
// gets wrong, grouped by the reason. Those in trapforms.go are SQL of all forms.
//
// Package rewrite runs the comparison without a proxy, with the texts that it plans. Package bytea runs the
// comparison through the built program on dsqlsim, the simulated DSQL cluster:
//
//	go test ./rewrite -run TestByteaOracle -v -bytea.count 20000 -bytea.seed 7
//	go test ./integration/bytea -run TestOracle -v -bytea.count 5000
//
// World n of a seed is the same in every run; "-bytea.only n" runs that world alone.
package bytea
