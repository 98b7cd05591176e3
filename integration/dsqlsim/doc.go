// Package dsqlsim simulates an Aurora DSQL cluster. It is a TLS server that answers a PostgreSQL client as the
// cluster would. A real PostgreSQL server supplies results, types, plans and all errors that DSQL shares with
// PostgreSQL.
//
//	srv, err := dsqlsim.New(config)   // see DefaultConfig
//	go srv.Serve(listener)            // until Close
//	srv.Endpoint(), srv.CAPool()      // what a client needs, beside a token
//
// Package dsqlsim shares no code with the proxy that is tested against it, so that one bug cannot hide at both ends.
//
// # A connection
//
// The server accepts an SSLRequest and direct TLS, and requires SNI. It counts the connection against the quotas of
// rate and number. It asks for a password in clear text and verifies the password as a SigV4 token. Then the server
// dials one PostgreSQL connection, which lives exactly as long as the client's connection.
//
// A session has two goroutines. One goroutine reads the client's frames into a bounded inbox, so that the session
// notices a client's end while a statement runs. The other goroutine owns the rest of the session. It passes frames
// from the inbox to PostgreSQL in batches that fit the socket buffers, so that writing never waits for reading. It
// queues the pending replies and reads replies until the queue is empty. Between two batches no frame is in flight.
// Only at that moment the session parks its transaction (undoes its effects for a while) or runs it again. So the
// session needs no lock for its state.
//
// # Refusals
//
// A statement that DSQL refuses must fail in PostgreSQL too, because otherwise PostgreSQL's transaction and the
// client's would differ. PostgreSQL therefore gets another statement instead, which names a column that does not
// exist. PostgreSQL then fails the block or rolls an implicit transaction back, and skips to Sync. In a failed block
// PostgreSQL answers 25P02, as a cluster does. Dsqlsim replaces only the text of that one error. Planned faults use
// the same method.
//
// # Faults and the ledger
//
// A planned fault (see [Fault]) says what goes wrong, and at which statement of which transaction. A statement or
// COMMIT that is answered with a planned error has no effect. If a planned error comes in the middle of a result,
// PostgreSQL gets a failing statement after the client's statement. If the result has too few rows, the error comes at
// its end.
//
// The ledger (see [Event]) records what happened, for tests that must prove it. It remembers the newest events. A gap
// after the requested Seq shows that the ledger has forgotten events.
//
// # Concurrency
//
// In a cluster no statement waits for a lock: conflicts are decided at COMMIT, and the first transaction to commit
// wins. PostgreSQL, in REPEATABLE READ, makes the second writer wait and fails it at the statement. Dsqlsim bridges
// that difference as follows:
//
//   - A block sets a savepoint before its first effect and keeps a log of its effects. A return to the savepoint
//     releases the block's locks and keeps its snapshot: the transaction is parked. Running the log again, in that
//     snapshot, resumes the transaction with the same answers.
//   - The referee, a goroutine, notices a statement that waits for longer than half of Config.LockTimeout. It asks
//     PostgreSQL which session is in the way. An idle session in the way parks its transaction. A busy session keeps
//     its locks, and after the lock timeout the waiting statement is run again, for a second. A transaction that
//     meets no lock is never parked.
//   - A statement or log that meets another's commit dooms its transaction: COMMIT will be answered OC000. Until
//     then the statements of a doomed transaction succeed. If PostgreSQL cannot run a statement, a query for the
//     rows that it would have written answers it. A unique or foreign key violated by a row outside the snapshot
//     dooms the transaction as well. That is presumed, because only data conflicts are recorded; Config.KeyConflicts
//     switches it off.
//   - Dsqlsim removes locking clauses, at any depth, before PostgreSQL sees the statement. In a block it
//     remembers the rows that the clauses name. At COMMIT it writes the rows named FOR UPDATE, unchanged, so that
//     PostgreSQL records a change. It locks the rows named FOR KEY SHARE, and occ.Certifier remembers them while an
//     older snapshot is open. A transaction that deletes a remembered row, or changes its key, then fails. Outside
//     of a block locking clauses do nothing. With Config.LocksOutsideBlocks they take PostgreSQL's locks, and a
//     statement that waits for longer than the lock timeout fails.
//   - The frames that PostgreSQL has skipped after a conflict return to the front of the client's queue. The session
//     then sends these frames again.
//   - After a change of the schema every other session gets OC001 once. OC001 answers the session's next statement
//     outside of a block, or the first statement of a block. A block that has begun fails at COMMIT. An open
//     transaction that makes DDL wait is ended. BEGIN, COMMIT, ROLLBACK, SET and SHOW never get OC001.
//     Config.SchemaConflicts switches OC001 off.
//
// # The catalog
//
// Dsqlsim installs a schema sys in the PostgreSQL database, for rules that need more than a statement's text. The
// schema has sys.jobs, sys.wait_for_job and event triggers (see catalog.sql). The triggers check key types, primary
// keys and numbers of objects, and act in sessions of dsqlsim only. Jobs check the rows for unique indexes and
// constraints. A job that fails is completed with details, as recorded of indexes. Installing the schema sys takes a
// superuser. Without a superuser there are no jobs, and the triggers' rules do not hold.
//
// The session counts rows and bytes as it relays answers. The first row over a limit is answered with an error while
// PostgreSQL still has the transaction open. The session then makes PostgreSQL's transaction fail. A Query that writes
// outside a block therefore runs in the extended protocol, where the session reads each command tag before the Sync
// commits.
//
// # What is not exact
//
//   - Of two conflicting transactions exactly one fails, the later one; a cluster sometimes fails both.
//   - A read in a doomed transaction may lack rows that the transaction has written itself. With Config.ReportsConflictEarly
//     such a read gets 40001. An INSERT with RETURNING, a WITH that writes or DDL gets 40001 at once, not at COMMIT,
//     if another's commit made it impossible.
//   - An implicit transaction of several statements (one multi-statement query, one group up to Sync) cannot be
//     parked. A conflict fails the statement that meets it.
//   - The snapshot, and now(), are those of a block's first statement, not of its BEGIN.
//   - Running the log again makes new random values and sequence numbers. If an effect returned the old values, the
//     transaction is doomed. If only a later SELECT read the old values, dsqlsim does not notice. A portal that
//     the client reads in parts is lost when its transaction is parked: its next Describe or Execute is answered
//     OC000. Running the log again also repeats side effects of functions, such as advisory locks.
//   - Dsqlsim interrupts no busy session. If a busy transaction holds a row for longer than a second, the transaction
//     that waits for the row is doomed. A block that is in the way is doomed as well if its log is over 32 MiB or
//     incomplete. A text over the guard of package dialect makes the log incomplete.
//   - FOR UPDATE conflicts like an UPDATE of the row that leaves its key unchanged: not with FOR KEY SHARE, nor with
//     the insert of a child. (Not recorded.)
//   - The rows of a locking clause in a subquery, of a view or of a derived table are not remembered. In a READ ONLY
//     block FOR UPDATE fails as in PostgreSQL.
//   - In a table without a primary key a row named FOR KEY SHARE is known by its version only.
//   - A deferred constraint that has to wait at COMMIT fails with OC000.
//   - Dsqlsim does not see other clients of the PostgreSQL server, nor writing functions that SELECT calls
//     under a usual name (count, now, ...).
//   - The size of a transaction is counted from the bytes that the client sends. An INSERT ... SELECT counts its
//     text once for each row. COPY is not counted. Values, rows and keys are measured in tables that were made
//     through dsqlsim, keys by their text. While a fault is planned, the rows of a write outside a block are counted
//     after its commit.
//   - CREATE INDEX ASYNC builds the index at once; the index becomes valid after Config.JobDelay. CREATE UNIQUE
//     INDEX ASYNC itself reports a duplicate. The only jobs are of the kind INDEX_BUILD and for the validation of
//     constraints.
//   - LEFT JOIN LATERAL is refused by its form alone where a cluster's planner fails, see package dialect.
//   - With Config.OldLocking dsqlsim does not know the key of a table that the same transaction has made, nor
//     of a table outside the default search path.
//   - Syntax of PostgreSQL 16 works over PostgreSQL 15 as far as package dialect respells it.
//   - The role admin is the upstream user, usually a superuser. Another role must exist in PostgreSQL, and the
//     session takes it on.
//   - Collation, and all other choices of initdb, are those of the PostgreSQL server.
//   - Text over the guard of package dialect (2 MiB, depth) is not analysed.
package dsqlsim
