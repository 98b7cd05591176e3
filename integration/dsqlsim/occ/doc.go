// Package occ simulates optimistic concurrency control for single statements, and decides conflicts that PostgreSQL
// does not see.
//
// The functions on SQL have no side effects. [Read] removes the locking clauses from a statement, because a cluster
// locks nothing. It also returns a query for the rows that the clauses name. [NewGuessQuery] replaces an INSERT, UPDATE
// or DELETE that PostgreSQL can no longer run in an old snapshot. The replacement is a query that shows the statement's
// outcome. [Certifier] remembers the rows that transactions have named FOR KEY SHARE, for as long as an older snapshot
// is open.
package occ
