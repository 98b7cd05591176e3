// Package applications runs applications with usual database tools through Sluice, on dsqlsim, the simulated DSQL
// cluster. The directory contention has one small application for each tool, with many writers, generated keys,
// nested transactions, and contended rows. The directory matrix has one application with migrations for each tool.
//
// An application of contention is a program. Its arguments are a connection string in the tool's form, the number of
// writers, and the number of transactions for each. The program prints a line for each transaction:
//
//	committed KIND KEY COUNTER BEFORE
//	refused KIND SQLSTATE COUNTER BEFORE DETAIL
//
// KIND add means that the server increments the counter. KIND load means that the program reads the counter, and writes
// the value plus one. KIND nested means that an INSERT in a nested transaction fails, which the program catches, before
// an add. KEY is the server's key for the entry that the transaction has inserted. BEFORE is the value of COUNTER that
// load has read; else -.
package applications
