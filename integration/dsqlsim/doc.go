// Package dsqlsim is a stand-in for an Aurora DSQL cluster: a TLS server that
// answers a Postgres client as the cluster would, over a real PostgreSQL that
// supplies results, types, plans and every error that is PostgreSQL's own.
//
//	srv, err := dsqlsim.New(config)   // see DefaultConfig
//	go srv.Serve(listener)            // until Close
//	srv.Endpoint(), srv.CAPool()      // what a client needs, beside a token
//
// It shares no code with the proxy that is tested against it, so that one bug
// cannot hide at both ends.
//
// # A connection
//
// The server takes the TLS of an SSLRequest and direct TLS, wants SNI, counts
// the connection against rate and number, asks for a password in clear text and
// verifies it as the SigV4 token that it is. Then it dials one PostgreSQL
// connection that lives exactly as long as the client's.
//
// A session has two goroutines. One reads the client's frames into a bounded
// inbox, so that a client that goes away is noticed while its statement runs.
// The other owns everything else: it takes frames from the inbox, passes them on
// in batches that the socket buffers hold (so that writing never waits for
// reading), keeps a queue of the replies owed, and reads until none is owed.
// Between two batches nothing is in flight: that is where later layers stand
// (rival transactions, re-runs), and why they need no lock inside a session.
//
// # Refusals
//
// What DSQL refuses is not answered here and kept from PostgreSQL, because then
// PostgreSQL's transaction and ours would differ. Instead PostgreSQL is given,
// in its place, a statement that it must refuse as well: a column that does not
// exist. It fails the block, rolls an implicit transaction back, skips to Sync,
// and prefers 25P02 in a failed block, all by itself; only the text of that one
// error is then replaced. The same trick serves planned faults.
//
// # Faults and the ledger
//
// A plan (see [Fault]) says what goes wrong, and at which statement of which
// transaction. Faults do not lie: a statement or COMMIT that is answered with a
// planned error has not happened. For one whose error comes in the middle of its
// result PostgreSQL is therefore given a failing statement behind it, before
// anybody knows how many rows there are; if there are too few, the error comes
// at their end.
//
// The ledger (see [Event]) says what did happen, for tests that must prove it.
// It remembers the newest events; a gap behind the Seq that was asked for shows
// what it has forgotten.
//
// # What is not exact
//
//   - Concurrency. Transactions run in PostgreSQL's REPEATABLE READ: a writer
//     waits for another's row lock (at most Config.LockTimeout) and fails at the
//     statement, where DSQL would let it go on and fail at COMMIT. The SQLSTATE and
//     text are DSQL's (40001, OC000), the moment is not. PostgreSQL's deadlocks and
//     lock timeouts, which DSQL cannot have, are reported as the same conflict.
//     A FOR UPDATE without a write is not remembered after its COMMIT. OC001 comes
//     only from a planned fault.
//   - Limits of a transaction (rows, size, age) and of values are not enforced,
//     nor key types that only the catalog knows.
//   - CREATE INDEX ASYNC works at once; the job_id that it answers is made up, and
//     there is no sys.jobs.
//   - The role admin is the upstream user, usually a superuser. Another role must
//     exist in PostgreSQL and is taken on by the session.
//   - Collation, and whatever else is settled by initdb, is the upstream's.
//   - Text over the guard of package dialect (2 MiB, depth) is not looked at.
package dsqlsim
