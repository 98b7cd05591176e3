// Package applications runs what people write with their tools through Sluice, on the stand-in for
// DSQL. contention has one small application for each tool: many writers, generated keys, nested
// transactions, and rows that all of them want. matrix has one with migrations for each tool.
//
// An application of contention is a program. It is told a connection string as the tool's users write it, how
// many writers it has and how many transactions they make. It prints a line for each:
//
//	committed KIND KEY COUNTER BEFORE
//	refused KIND SQLSTATE COUNTER BEFORE DETAIL
//
// KIND is add (the counter is raised by the server), load (it is read, and written one higher) or
// nested (an INSERT in a nested transaction fails, which is caught; then as add). KEY is the key that
// the server has made for the transaction's entry, and BEFORE what load has read of COUNTER; else -.
package applications
