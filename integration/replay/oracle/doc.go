// Package oracle decides whether what clients were told is explained by what a
// database holds in the end, under strong snapshot isolation: what DSQL promises,
// and what Sluice must keep when it runs transactions again.
//
// Data are lists that only grow (registers): every write appends an element of its
// own, so the final list of a key is the order of its versions, and every list that
// was read is a version. From that follows, for each transaction, what its snapshot
// held and what it did not. A history is explained when every transaction can be
// given a moment for its snapshot and one for its commit so that
//
//   - the snapshot comes before the commit, and after every commit that was
//     acknowledged before the client began;
//   - who read a version has its commit in the snapshot, and the commit of the next
//     version not;
//   - who wrote a key, or locked it with FOR UPDATE, has no other's commit of that
//     key, or of a lock of it, between its snapshot and its commit.
//
// These are edges between two events a transaction; the history is explained if and
// only if the graph has no cycle. Two transactions that lock one version and write
// nothing are not compared with each other: nothing tells which came first.
//
// What a transaction read behind a savepoint to which it returned counts like all that it read;
// what it wrote there is not to be found.
//
// Beside that: an acknowledged commit is there whole and once, an acknowledged
// rollback or error not at all, an unknown outcome whole or not at all; values that
// the server made (Mark) are those that the client was told; now() is the same in all
// of a transaction.
//
// The package is pure: it neither runs clients nor asks a database.
package oracle
