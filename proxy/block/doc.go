// Package block follows a session's transactions through its client's statements, one by one, as
// PostgreSQL does. It handles Querys of several statements, pipelines of the extended protocol, and
// both mixed. It returns which statements belong to one transaction, the modes of that, and the
// statements that PostgreSQL refuses there.
//
// Block is a pure value: assignment copies it. Code that needs the state before a statement saves a
// copy, or repeats the steps. No other code in Sluice tracks BEGIN, COMMIT and savepoints.
//
// The test compares it with PostgreSQL for every short program.
package block
