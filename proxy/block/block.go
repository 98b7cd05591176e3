package block

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// Ending is the effect of a statement on its transaction.
type Ending uint8

const (
	GoesOn Ending = iota
	Commits
	RollsBack
)

// Access is the last READ ONLY or READ WRITE that a transaction was given.
type Access uint8

const (
	Unsaid Access = iota
	ReadOnly
	ReadWrite
)

// Modes are the modes that BEGIN and SET TRANSACTION have given a transaction. The zero Modes have none.
type Modes struct {
	Isolation rewrite.Isolation
	Access    Access
	// Deferrable is set by DEFERRABLE and NOT DEFERRABLE. Waits is set if DEFERRABLE came last.
	Deferrable, Waits bool
	// Snapshot is set by SET TRANSACTION SNAPSHOT.
	Snapshot bool
}

// with returns m with the modes that another statement gives.
func (m Modes) with(tx *rewrite.Transaction) Modes {
	if tx.Isolation != rewrite.DefaultIsolation {
		m.Isolation = tx.Isolation
	}
	switch {
	case tx.ReadOnly:
		m.Access = ReadOnly
	case tx.ReadWrite:
		m.Access = ReadWrite
	}
	if tx.Deferrable {
		m.Deferrable, m.Waits = true, tx.Waits
	}
	m.Snapshot = m.Snapshot || tx.Snapshot != ""
	return m
}

// Block is the state of a session's transaction between two statements. The zero Block is the state of a session
// outside of a block that has sent nothing.
type Block struct {
	status byte // 'I' or 0, 'T', 'E': the status of a ReadyForQuery
	// ends is the number of transactions that have ended.
	ends uint32
	// open means that outside of a block a statement of the current Query or pipeline has run.
	open bool
	// queried means that the transaction has a snapshot.
	queried bool
	modes   Modes
	// usual are the modes of later transactions that are given none.
	usual Modes
	saves []save
	// unseen means that the block was begun by a statement that b did not see.
	unseen bool
}

// save is a savepoint of the block, with the transaction's modes at that point.
type save struct {
	name  string
	modes Modes
}

// At returns the Block of a session of which only the status in the last ReadyForQuery is known: 'I', 'T' or 'E'.
func At(status byte) Block { return Block{status: status, unseen: status != 'I'} }

// Usual returns b with default modes for transactions, from the settings default_transaction_read_only and
// default_transaction_isolation. The defaults do not affect an open block.
func (b Block) Usual(m Modes) Block {
	if b.usual = m; !b.Began() {
		b.modes = m
	}
	return b
}

// Status returns the status that a ReadyForQuery would have: 'I', 'T' or 'E'.
func (b *Block) Status() byte {
	if b.status == 0 {
		return 'I'
	}
	return b.status
}

// In reports whether a block is open. A failed block is open too.
func (b *Block) In() bool { return b.status == 'T' || b.status == 'E' }

// Ends returns the number of transactions that have ended. Two statements belong to one transaction if the number is
// the same before both.
func (b *Block) Ends() uint32 { return b.ends }

// Began reports whether the current transaction has begun: by a BEGIN, or by a statement outside of a block whose Query
// or pipeline continues.
func (b *Block) Began() bool { return b.In() || b.open }

// Modes returns the modes of the current transaction. If the block is not Known, the transaction may have others.
func (b *Block) Modes() Modes { return b.modes }

// Known reports whether b has seen the statement that began the block.
func (b *Block) Known() bool { return !b.unseen }

// ReadOnly reports whether the current transaction accepts no writes.
func (b *Block) ReadOnly() bool { return b.modes.Access == ReadOnly }

// Savepoints returns the number of the block's savepoints.
func (b *Block) Savepoints() int { return len(b.saves) }

// Saved returns the index, from 0, of the newest savepoint with a name, or -1.
func (b *Block) Saved(name string) int {
	for i, s := range slices.Backward(b.saves) {
		if s.name == name {
			return i
		}
	}
	return -1
}

// Run records a statement that the server has executed, or will, and returns the statement's effect on the transaction.
// tx is the statement's transaction command. snapshot says whether the statement needs a snapshot (Snapshots).
func (b *Block) Run(tx *rewrite.Transaction, snapshot bool) Ending {
	switch {
	case b.status == 'E':
		return b.revive(tx)
	case tx.Verb == rewrite.NoVerb: // nearly all
		b.ran(snapshot)
		return GoesOn
	}
	return b.control(tx, snapshot)
}

// ran records a statement that is no transaction command.
func (b *Block) ran(snapshot bool) {
	b.open = b.open || b.status != 'T'
	b.queried = b.queried || snapshot
}

// control performs Run for a transaction command, in a block that has not failed, or outside of a block.
func (b *Block) control(tx *rewrite.Transaction, snapshot bool) Ending {
	switch tx.Verb {
	case rewrite.Begin:
		b.status, b.open = 'T', false
		b.modes = b.modes.with(tx)
	case rewrite.Commit, rewrite.PrepareTransaction:
		b.close(tx.Chain)
		return Commits
	case rewrite.Rollback:
		b.undo()
		b.close(tx.Chain)
		return RollsBack
	case rewrite.Savepoint:
		if b.status == 'T' {
			b.saves = append(slices.Clip(b.saves), save{tx.Name, b.modes})
		}
	case rewrite.ReleaseSavepoint:
		// As in PostgreSQL, the isolation level stays, and a READ ONLY since the savepoint ends.
		if i := b.Saved(tx.Name); i >= 0 {
			b.modes.Access = b.saves[i].modes.Access
			b.saves = b.saves[:i]
		}
	case rewrite.RollbackTo:
		b.returnTo(tx.Name)
	default:
		if tx.Verb == rewrite.SetTransaction {
			b.modes = b.modes.with(tx)
		}
		b.ran(snapshot)
	}
	return GoesOn
}

// revive performs Run in a failed block, in which all but the commands below fail.
func (b *Block) revive(tx *rewrite.Transaction) Ending {
	switch tx.Verb {
	case rewrite.Commit, rewrite.Rollback, rewrite.PrepareTransaction:
		b.undo()
		b.close(tx.Chain)
		return RollsBack
	case rewrite.RollbackTo:
		b.status = 'T'
		b.returnTo(tx.Name)
	}
	return GoesOn
}

// returnTo performs ROLLBACK TO: it restores the modes at a savepoint.
func (b *Block) returnTo(name string) {
	if i := b.Saved(name); i >= 0 {
		b.modes = b.saves[i].modes
		b.saves = b.saves[:i+1]
	}
}

// undo restores the modes at the first savepoint. In a failed block without savepoints, PostgreSQL restores the
// defaults, so that AND CHAIN begins a transaction with the usual modes.
func (b *Block) undo() {
	switch {
	case len(b.saves) > 0:
		b.modes = b.saves[0].modes
	case b.status == 'E':
		b.modes = b.usual
	}
}

// close ends the transaction. Within a block, AND CHAIN begins another transaction with the same modes.
func (b *Block) close(chain bool) {
	modes, unseen := b.modes, b.unseen
	chain = chain && b.In()
	*b = Block{status: 'I', ends: b.ends + 1, modes: b.usual, usual: b.usual}
	if chain {
		b.status, b.modes, b.unseen = 'T', modes, unseen
	}
}

// Fail records an error. A block fails, and outside of a block the transaction ends. ends says that the failed
// statement, for example COMMIT, ends a block even when it fails.
func (b *Block) Fail(ends bool) {
	switch {
	case b.status == 'E' && !ends:
	case b.status == 'T' && !ends:
		b.status = 'E'
	case b.Began():
		b.close(false)
	}
}

// End records a Sync, or the end of a simple Query. Outside of a block the transaction ends.
func (b *Block) End() Ending {
	if b.In() || !b.open {
		return GoesOn
	}
	b.close(false)
	return Commits
}

// Ready records a ReadyForQuery. Its status has precedence over the state of b.
func (b *Block) Ready(status byte) {
	switch {
	case status == b.Status():
	case status == 'I':
		b.close(false)
	default:
		b.unseen = b.unseen || !b.In()
		b.status = status
	}
}
