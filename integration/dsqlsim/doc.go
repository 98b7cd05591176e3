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
// reading), keeps a queue of pending replies, and reads until it is empty.
// Between two batches nothing is in flight: that is where transactions are parked
// and run again, and why that needs no lock inside a session.
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
// # Concurrency
//
// A cluster lets nobody wait and decides at COMMIT: the first to commit wins,
// whoever touched a row first. PostgreSQL, in REPEATABLE READ, makes the second
// writer wait and fails it at the statement. What stands between the two:
//
//   - A block sets a savepoint in front of its first effect and keeps a log of its
//     effects. To roll back to the savepoint releases its locks and keeps its
//     snapshot: the transaction is parked. Running the log again, in that snapshot,
//     resumes it, and its answers stay what they were.
//   - A statement that waits for longer than half of Config.LockTimeout is noticed
//     by the referee, which asks PostgreSQL who is in the way. A session that idles
//     there parks itself; one that is busy has as long as the lock timeout lasts,
//     and then the waiting statement is run again, for a second. A transaction
//     that meets no lock is never parked.
//   - A statement or log that meets another's commit dooms its transaction: COMMIT
//     will be answered OC000. Until then its statements succeed. One that PostgreSQL
//     cannot run is answered by a query for the rows that it would have written. A
//     unique or foreign key violated by a row that the snapshot does not see dooms
//     likewise (presumed: only data conflicts are recorded). Switched off by
//     Config.KeyConflicts.
//   - Locking clauses are taken out before PostgreSQL sees them, at any depth. In a
//     block the rows that they name are remembered. At COMMIT those named FOR UPDATE are
//     written, unchanged, so that PostgreSQL remembers them as a change; those named
//     FOR KEY SHARE are locked, and remembered by occ.Certifier while an older
//     snapshot is open: who deletes one, or changes its key, fails. Outside of a block
//     they do nothing, or, with Config.LocksOutsideBlocks, are PostgreSQL's own: who
//     waits for such a row longer than the lock timeout fails.
//   - Frames that PostgreSQL has skipped behind a conflict return to the front of
//     the client's queue and are taken from there again.
//   - OC001: a change of the schema fails, once for every other session, its next
//     statement outside of a transaction or the first of a block; a block that has
//     begun fails at COMMIT. An open transaction that keeps DDL waiting is ended.
//     BEGIN, COMMIT, ROLLBACK, SET and SHOW need no catalog. Switched off by
//     Config.SchemaConflicts.
//
// # The catalog
//
// What a statement alone does not tell, the catalog does: a schema sys in the
// database behind, with sys.jobs, sys.wait_for_job and event triggers that check key
// types, primary keys and numbers of things (see catalog.sql). They act in sessions
// of dsqlsim only. Jobs look at the rows for unique indexes and constraints, and one that
// fails is completed with details, as recorded of indexes. Installing them takes a superuser; without one there are no jobs,
// and these rules do not hold.
//
// Rows and bytes are counted where answers pass. The row that is one too many is
// answered with an error while PostgreSQL still has the transaction open, which it is
// then made to fail; so a Query that writes outside a block runs in the extended
// protocol, with a look at each tag before the Sync commits.
//
// # What is not exact
//
//   - Of two that conflict, exactly one fails, the later one; a cluster sometimes
//     fails both.
//   - What a doomed transaction reads may lack what it wrote itself (with
//     Config.TellsAtOnce it gets its 40001 there). An INSERT with
//     RETURNING, a WITH that writes or a DDL that only another's commit made
//     impossible gets its 40001 at once instead of at COMMIT.
//   - A transaction of several statements without a block (one string, one group up
//     to Sync) cannot be parked; what it meets it is told at the statement.
//   - The snapshot, and now(), are those of a block's first statement, not its BEGIN.
//   - Running the log again makes new random values and sequence numbers. If an
//     effect returned the old ones the transaction is doomed; if a later SELECT read
//     them, nobody notices. A portal that is read in parts does not outlive its
//     transaction being parked: its next Describe or Execute is answered OC000.
//     Advisory locks and the like in functions are taken again.
//   - Nobody is interrupted: for a transaction that holds a row and is busy for
//     longer than a second, who wants the row is doomed. So is a block whose log is
//     over 32 MiB, or unknown (a text over the guard), and who is in the way.
//   - FOR UPDATE conflicts as an UPDATE of the row that leaves its key alone does:
//     not with FOR KEY SHARE, nor with the insert of a child. (Not recorded.)
//   - The rows of a locking clause in a subquery, of a view or of a derived table are
//     not remembered. In a READ ONLY block FOR UPDATE fails as in PostgreSQL.
//   - Without a primary key a row named FOR KEY SHARE is known by its version only.
//   - A deferred constraint that has to wait at COMMIT fails with OC000.
//   - PostgreSQL's other clients, and functions that write when called by SELECT
//     under a usual name (count, now, ...), are not seen.
//   - Limits. The size of a transaction is counted from what the client sends; an
//     INSERT ... SELECT counts its text once for each row. COPY is not counted. Values,
//     rows and keys are measured in tables that were made through dsqlsim, keys by
//     their text. While a fault is planned, the rows of a write outside a block are
//     counted when it has committed.
//   - Jobs. The index is built at once and becomes valid after Config.JobDelay; a
//     duplicate is told by CREATE UNIQUE INDEX ASYNC itself. Jobs of kinds other than
//     INDEX_BUILD and the validation of constraints are not made.
//   - LEFT JOIN LATERAL is refused where a cluster's planner fails, by its form alone:
//     see package dialect.
//   - With Config.OldLocking the key of a table that others cannot see yet, made in
//     the same transaction, is not known, nor one outside the default search path.
//   - Syntax of PostgreSQL 16 works over 15 as far as package dialect respells it.
//   - The role admin is the upstream user, usually a superuser. Another role must
//     exist in PostgreSQL and is taken on by the session.
//   - Collation, and whatever else is settled by initdb, is the upstream's.
//   - Text over the guard of package dialect (2 MiB, depth) is not looked at.
package dsqlsim
