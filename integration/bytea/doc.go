// Package bytea holds a database in which the bytea columns of keys are mapped
// (rewrite.bytea) against one in which they are what the client says.
//
// A world is a random schema with rows in it, made twice: stock, as the client writes it,
// in a plain PostgreSQL, and mapped. Random statements run in both, in the text that a
// client writes. Everything that the client is told must be the same: types of parameters,
// names and types of columns, rows and, where ORDER BY decides it, their order, command
// tags, SQLSTATEs; and the tables that are written to.
//
// The generator draws from a list of numbers, of which zero is always the simplest choice
// (draw.go). A statement that differs is made smaller by making its numbers fewer and
// smaller, each trial in a transaction that is rolled back.
//
// What may differ is counted: a statement that is refused (0A000), which a client can write
// in another way, in one of a hundred at most; and which of several errors is found first.
//
// Beside them stand texts by hand (traps.go): what a simple rewriting gets wrong, by why it
// does (trapcases.go), and SQL of all forms (trapforms.go).
//
// Package rewrite runs it without a proxy, with the texts that it plans; here it runs
// through the built daemon on the stand-in for DSQL:
//
//	go test ./rewrite -run TestByteaOracle -v -bytea.count 20000 -bytea.seed 7
//	go test ./integration/bytea -run TestOracle -v -bytea.count 5000
//
// World n of a seed is the same in every run; "-bytea.only n" runs it alone.
package bytea
