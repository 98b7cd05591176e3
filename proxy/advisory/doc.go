// Package advisory has the rules by which advisory locks are kept as rows of a table: what one who
// waits for a lock may conclude of its row (Observer), for how long one who holds it may rely on
// that (Holder), and the statements about the table (sql.go). It reads the parameters of calls
// (call.go). It is pure: no input, no output, no clock of its own.
//
// # The row
//
// A lock is one row: its name, its epoch, its owner, a sequence number and a lease. Name and
// epoch are the primary key. Whoever takes a lock deletes the row that it has seen and inserts
// one with the next epoch; whoever holds it renews it by the next sequence number; whoever
// releases it leaves the row without an owner. Each is one transaction, conditional on the row
// that was seen, so that of several who try one wins.
//
// # Time
//
// Nobody compares wall clocks. A lease is a length of time: an observer may take a lock from
// its owner once it has seen the same epoch and sequence number for that long by its own clock.
// A holder counts from the moment before it sent the renewal that was confirmed last, which is
// earlier than any moment at which somebody can have seen it. So nothing is asked of clocks but
// to run equally fast, to one in a thousand.
//
// # Rows are fenced
//
// A transaction of the holder that writes reads its row FOR KEY SHARE. To take the lock from it
// deletes the row, and of the two transactions only one commits: whatever its clock says, a
// holder that was overtaken commits nothing.
//
// # DDL is not
//
// Nothing conflicts with DDL. A holder that is about to send some promises a lease that is
// longer by the longest statement there is (Holder.Promises), and sends it within the ordinary
// lease: it has ended before somebody can take the lock. What remains is a holder that is stopped
// between its look at the clock and the first byte of the statement, for longer than all of that.
package advisory
