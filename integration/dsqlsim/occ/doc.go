// Package occ knows what optimistic concurrency asks of single statements, and
// adjudicates the conflicts that PostgreSQL does not see.
//
// It is pure: SQL goes in, SQL comes out. [Read] takes the locking clauses out
// of a statement, because a cluster locks nothing, and says how to find the rows
// that they name. [MakeGuess] turns an INSERT, UPDATE or DELETE that PostgreSQL
// can no longer run in an old snapshot into the query that tells its outcome.
// [Certifier] remembers the rows that transactions have named FOR KEY SHARE, for
// as long as an older snapshot is open.
package occ
