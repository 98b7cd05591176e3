// Package ddltx decides how a transaction with DDL is committed in parts (ddl.in_transactions). In DSQL a transaction
// takes one DDL statement, and no changes of rows beside it. Migration tools put a whole migration into one
// transaction.
//
// A part is committed as late as possible: when a statement arrives that cannot be in it. A transaction with at most
// one DDL statement therefore runs as usual, and a rollback undoes the last part. Each part is a separate transaction.
//
//	in a block               a statement that cannot be in the part: COMMIT and BEGIN precede it
//	several steps            a statement that Sluice runs in transactions of its own: between two parts
//	multi-statement query    cut into groups, each like a Query of its own
//
// The package refuses the statement if the early commit would do more than the client asked for. This is the case after
// a DROP of an object with rows, after SET LOCAL, and within a pipeline. A block with modes that Sluice's BEGIN would
// lose, such as READ ONLY, is not divided. No part is committed for a text that the server refuses in any case.
//
// The client gets a WARNING for each early commit, and for each ROLLBACK that cannot undo earlier parts. After an early
// commit, errors of a conflict are replaced (ErrPartialCommit), because clients repeat the whole transaction after a
// conflict.
//
// The package does no I/O. It gets plans and the session's position in its transaction, and returns decisions and
// messages. The session's Runner sends COMMIT, BEGIN and the groups, in the order that a Tx or Groups say. A Tx belongs
// to one session, and has no lock.
package ddltx
