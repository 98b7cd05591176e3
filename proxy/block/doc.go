// Package block follows a session's transactions through its client's statements, one by one, as PostgreSQL does. The
// package handles Querys of several statements, pipelines of the extended protocol, and mixtures of these. A Block says
// which statements belong to one transaction, which modes the transaction has, and which statements PostgreSQL refuses
// in it.
//
// An assignment copies a Block, and later changes of the copy do not change the original. Code that needs the state
// before a statement saves a copy, or repeats the steps. No other code in Sluice tracks BEGIN, COMMIT and savepoints.
//
// The package's test compares Block with PostgreSQL for every short program.
package block
