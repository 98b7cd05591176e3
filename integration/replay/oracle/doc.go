// Package oracle decides whether the final content of a database explains the answers that clients got, under strong
// snapshot isolation. DSQL promises strong snapshot isolation, and Sluice must preserve it when it replays
// transactions.
//
// The data are lists that only grow (registers). Every write appends a unique element, so the final list of a key is
// the order of the key's versions. Every list that a transaction read is a version. The versions show, for each
// transaction, which commits its snapshot contained and which it did not. A history is explained if every transaction
// can be assigned a moment for its snapshot and one for its commit, so that
//
//   - the snapshot precedes the commit, and follows every commit that was acknowledged before the client began;
//   - a transaction that read a version has the commit of that version in its snapshot, and not the commit of the
//     next version;
//   - if a transaction wrote a key, or locked it with FOR UPDATE, no other transaction commits a write or lock of
//     that key between the first one's snapshot and commit.
//
// Each rule adds edges between events of a graph, with two events for each transaction. The history is explained if and
// only if the graph has no cycle. Two transactions that lock the same version and write nothing are not compared with
// each other, because their order is unknown.
//
// Reads after a savepoint count even if the transaction returned to the savepoint. The writes that it undid thereby
// must not be in the final lists.
//
// The oracle checks further rules. An acknowledged commit is applied as a whole and once. A transaction with an
// acknowledged rollback or an error is not applied at all. A transaction of unknown outcome is applied as a whole or
// not at all. Values that the server made (Mark) are those that the client got. now() is the same throughout a
// transaction.
//
// Package oracle neither runs clients nor queries a database.
package oracle
