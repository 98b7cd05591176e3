package block

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// Ending says what a statement does to the transaction that it runs in.
type Ending uint8

const (
	GoesOn Ending = iota
	Commits
	RollsBack
)

// Access is what was said of READ ONLY and READ WRITE.
type Access uint8

const (
	Unsaid Access = iota
	ReadOnly
	ReadWrite
)

// Modes are what BEGIN and SET TRANSACTION have said of a transaction. The zero value: nothing.
type Modes struct {
	Isolation rewrite.Isolation
	Access    Access
	// Deferrable: DEFERRABLE or NOT DEFERRABLE was said, and Waits: DEFERRABLE was said last.
	Deferrable, Waits bool
	// Snapshot: SET TRANSACTION SNAPSHOT was said.
	Snapshot bool
}

// with is m behind a statement that says more.
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

// Block is how a session stands between two statements. The zero value is that of a session
// outside of a block, of which nothing was sent.
type Block struct {
	status byte // 'I' or 0, 'T', 'E': what a ReadyForQuery would say
	// ends counts the ends of transactions.
	ends uint32
	// open: outside of a block, a statement of the Query or pipeline at hand has run.
	open bool
	// queried: the transaction has a snapshot.
	queried bool
	modes   Modes
	// usual are the modes of the transactions to come of which nothing is said.
	usual Modes
	saves []save
	// unseen: the block was begun by something that b was not told of.
	unseen bool
}

// save is a savepoint.
type save struct {
	name  string
	modes Modes
}

// At is a session of which nothing is known but the status of its last ReadyForQuery: 'I', 'T' or 'E'.
func At(status byte) Block { return Block{status: status, unseen: status != 'I'} }

// Usual is b where transactions begin with these modes, which nobody says: by the settings
// default_transaction_read_only and default_transaction_isolation. It changes nothing of a block
// that is open.
func (b Block) Usual(m Modes) Block {
	if b.usual = m; !b.Began() {
		b.modes = m
	}
	return b
}

// Status is what a ReadyForQuery would say: 'I', 'T' or 'E'.
func (b *Block) Status() byte {
	if b.status == 0 {
		return 'I'
	}
	return b.status
}

// In reports whether a block is open, be it a failed one.
func (b *Block) In() bool { return b.status == 'T' || b.status == 'E' }

// Ends counts the ends of transactions that b has seen. Two statements are of one transaction if it
// is the same in front of both.
func (b *Block) Ends() uint32 { return b.ends }

// Began reports whether anything is of the transaction at hand: a BEGIN, or a statement outside of a
// block whose Query or pipeline goes on.
func (b *Block) Began() bool { return b.In() || b.open }

// Modes are what was said of the transaction at hand, over the usual ones. Of a block that is not
// Known something else may have been said.
func (b *Block) Modes() Modes { return b.modes }

// Known reports whether b has seen the beginning of the block.
func (b *Block) Known() bool { return !b.unseen }

// ReadOnly reports whether the transaction at hand takes no writes.
func (b *Block) ReadOnly() bool { return b.modes.Access == ReadOnly }

// Savepoints is how many savepoints the block has.
func (b *Block) Savepoints() int { return len(b.saves) }

// Saved is the index of the newest savepoint of a name, from 0; -1 for none.
func (b *Block) Saved(name string) int {
	for i, s := range slices.Backward(b.saves) {
		if s.name == name {
			return i
		}
	}
	return -1
}

// Run is told that the server has taken a statement, or is sent one and will. It returns what
// that does to the transaction. tx is what the statement says about transactions, and snapshot
// whether it needs one (Snapshots).
func (b *Block) Run(tx *rewrite.Transaction, snapshot bool) Ending {
	if b.status == 'E' {
		return b.revive(tx)
	}
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
		// As PostgreSQL: the level stays, and READ ONLY ends with the savepoint.
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
		b.open = b.open || b.status != 'T'
		b.queried = b.queried || snapshot
	}
	return GoesOn
}

// revive is Run in a failed block, where whatever else is sent fails.
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

// returnTo is ROLLBACK TO.
func (b *Block) returnTo(name string) {
	if i := b.Saved(name); i >= 0 {
		b.modes = b.saves[i].modes
		b.saves = b.saves[:i+1]
	}
}

// undo takes back what was said of modes behind the first savepoint. In a failed block that has
// none PostgreSQL takes back everything: AND CHAIN begins one with the usual modes.
func (b *Block) undo() {
	switch {
	case len(b.saves) > 0:
		b.modes = b.saves[0].modes
	case b.status == 'E':
		b.modes = b.usual
	}
}

// close ends the transaction. AND CHAIN begins another with the same modes, in a block only.
func (b *Block) close(chain bool) {
	modes, unseen := b.modes, b.unseen
	chain = chain && b.In()
	*b = Block{status: 'I', ends: b.ends + 1, modes: b.usual, usual: b.usual}
	if chain {
		b.status, b.modes, b.unseen = 'T', modes, unseen
	}
}

// Fail is told of an error: a block fails, and outside of one the transaction ends. ends: the
// statement that has failed is one that ends a block all the same, as COMMIT does.
func (b *Block) Fail(ends bool) {
	switch {
	case b.status == 'E' && !ends:
	case b.status == 'T' && !ends:
		b.status = 'E'
	case b.Began():
		b.close(false)
	}
}

// End is told of a Sync, or of the end of a Query: outside of a block the transaction ends.
func (b *Block) End() Ending {
	if b.In() || !b.open {
		return GoesOn
	}
	b.close(false)
	return Commits
}

// Ready is told of a ReadyForQuery, whose status counts, whatever was known before.
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
