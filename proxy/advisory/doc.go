// Package advisory has the rules for advisory locks that are rows of a table. A LockObserver says what a waiting
// process may conclude from a lock's row. A LockHolder says how long the holder of a lock may rely on it. sql.go has
// the statements, and call.go decodes parameters. The package does no I/O and has no clock.
//
// # The row
//
// A lock is one row: its name, its epoch, its owner, a sequence number and a lease. Name and epoch are the primary key.
// To take a lock, a process deletes the row it has seen and inserts one with the next epoch. A renewal increments the
// sequence number, and a release removes the owner. Each of these is one transaction with the seen row as its
// condition, so that only one of several processes wins.
//
// # Time
//
// No wall clocks are compared. A lease is a duration. An observer may take a lock when it has seen the same epoch and
// sequence number for that long by its own clock. A holder counts from a time before it sent its last confirmed
// renewal, which is earlier than any observation of that renewal. So clocks need only run equally fast, to one in a
// thousand.
//
// # Fenced rows
//
// A writing transaction of the holder reads the lock's row FOR KEY SHARE. Taking the lock deletes that row, and only
// one of the two transactions commits. So a holder that lost its lock commits nothing, whatever its clock says.
//
// # DDL
//
// No statement conflicts with DDL. So before DDL a holder writes a lease that is longer by the longest statement
// (LockHolder.CoversDDL), and sends the DDL within the ordinary lease. The DDL has then ended before another process
// can take the lock. The exception is a holder that stops between its look at the clock and the first byte of the
// statement, for longer than the whole lease.
package advisory
