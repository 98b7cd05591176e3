package block

import (
	"github.com/sluice-proxy/sluice/rewrite"
)

// TxEffect is the effect of a statement on its transaction.
type TxEffect uint8

const (
	GoesOn TxEffect = iota
	Commits
	RollsBack
)

// AccessMode is the last READ ONLY or READ WRITE that a transaction was given.
type AccessMode uint8

const (
	Unsaid AccessMode = iota
	ReadOnly
	ReadWrite
)

// TxModes are the modes that BEGIN and SET TRANSACTION have given a transaction. The zero TxModes have none.
type TxModes struct {
	Isolation rewrite.Isolation
	Access    AccessMode
	// Deferrable is set by DEFERRABLE and NOT DEFERRABLE. Waits is set if DEFERRABLE came last.
	Deferrable, Waits bool
	// Snapshot is set by SET TRANSACTION SNAPSHOT.
	Snapshot bool
}

// merge returns the modes m, changed by the modes that the transaction command tx gives.
func (m TxModes) merge(tx *rewrite.TxControl) TxModes {
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

// Block is the state of a session's transaction between two statements. The zero Block is the state of a session that
// has sent nothing and is outside of a block.
type Block struct {
	status byte // 'I' or 0, 'T', 'E': the status of a ReadyForQuery
	// ends is the number of transactions that have ended.
	ends uint32
	// open means that outside of a block a statement of the current Query or pipeline has run.
	open bool
	// queried means that the transaction has a snapshot.
	queried bool
	modes   TxModes
	// usual are the modes of later transactions to which no statement gives modes.
	usual  TxModes
	newest *savepoint // the newest savepoint of the block, or nil
	// unseen means that the statement which began the block was not recorded in the Block.
	unseen bool
}

// savepoint is one SAVEPOINT of a block, with the transaction's modes at that point. Copies of a Block share their
// savepoints, which never change.
type savepoint struct {
	name  string
	modes TxModes
	older *savepoint // the savepoint before this one, or nil
	count int        // the number of the block's savepoints up to this one
}

// FromStatus returns the Block of a session whose status in the last ReadyForQuery, 'I', 'T' or 'E', is all that is
// known.
func FromStatus(status byte) Block { return Block{status: status, unseen: status != 'I'} }

// WithDefaults returns b with default modes for transactions, from the settings default_transaction_read_only and
// default_transaction_isolation. The defaults do not affect an open block.
func (b Block) WithDefaults(m TxModes) Block {
	if b.usual = m; !b.HasBegun() {
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

// IsOpen reports whether a block is open. A failed block is open too.
func (b *Block) IsOpen() bool { return b.status == 'T' || b.status == 'E' }

// EndedTxCount returns the number of transactions that have ended. Two statements belong to one transaction if the
// number is the same before both.
func (b *Block) EndedTxCount() uint32 { return b.ends }

// HasBegun reports whether the current transaction has begun: by a BEGIN, or by a statement outside of a block whose
// Query or pipeline continues.
func (b *Block) HasBegun() bool { return b.IsOpen() || b.open }

// Modes returns the modes of the current transaction. If HasSeenBegin is false, the transaction may have other modes.
func (b *Block) Modes() TxModes { return b.modes }

// HasSeenBegin reports whether b has seen the statement that began the block.
func (b *Block) HasSeenBegin() bool { return !b.unseen }

// IsReadOnly reports whether the current transaction accepts no writes.
func (b *Block) IsReadOnly() bool { return b.modes.Access == ReadOnly }

// SavepointCount returns the number of the block's savepoints.
func (b *Block) SavepointCount() int {
	if b.newest == nil {
		return 0
	}
	return b.newest.count
}

// HasSavepoint reports whether the block has a savepoint with a name.
func (b *Block) HasSavepoint(name string) bool { return b.findSavepoint(name) != nil }

// findSavepoint returns the newest savepoint with a name, or nil.
func (b *Block) findSavepoint(name string) *savepoint {
	s := b.newest
	for s != nil && s.name != name {
		s = s.older
	}
	return s
}

// RecordCommand records a statement that the server has executed, or will, and returns the statement's effect on the
// transaction. tx is the statement's transaction command. snapshot says whether the statement needs a snapshot
// (NeedsSnapshot).
func (b *Block) RecordCommand(tx *rewrite.TxControl, snapshot bool) TxEffect {
	switch {
	case b.status == 'E':
		return b.recordInFailed(tx)
	case tx.Verb == rewrite.NoVerb: // nearly all
		b.recordOrdinary(snapshot)
		return GoesOn
	}
	return b.recordControl(tx, snapshot)
}

// recordOrdinary records a statement that is no transaction command.
func (b *Block) recordOrdinary(snapshot bool) {
	b.open = b.open || b.status != 'T'
	b.queried = b.queried || snapshot
}

// recordControl performs RecordCommand for a transaction command, in a block that has not failed, or outside of a
// block.
func (b *Block) recordControl(tx *rewrite.TxControl, snapshot bool) TxEffect {
	switch tx.Verb {
	case rewrite.Begin:
		b.status, b.open = 'T', false
		b.modes = b.modes.merge(tx)
	case rewrite.Commit, rewrite.PrepareTransaction:
		b.endTransaction(tx.Chain)
		return Commits
	case rewrite.Rollback:
		b.restoreModes()
		b.endTransaction(tx.Chain)
		return RollsBack
	case rewrite.Savepoint:
		if b.status == 'T' {
			b.newest = &savepoint{name: tx.Name, modes: b.modes, older: b.newest, count: b.SavepointCount() + 1}
		}
	case rewrite.ReleaseSavepoint:
		// As in PostgreSQL, RELEASE restores the access mode that held at the savepoint, but not the isolation level.
		if s := b.findSavepoint(tx.Name); s != nil {
			b.modes.Access = s.modes.Access
			b.newest = s.older
		}
	case rewrite.RollbackTo:
		b.rollBackTo(tx.Name)
	default:
		if tx.Verb == rewrite.SetTransaction {
			b.modes = b.modes.merge(tx)
		}
		b.recordOrdinary(snapshot)
	}
	return GoesOn
}

// recordInFailed performs RecordCommand in a failed block, in which all but the commands below fail.
func (b *Block) recordInFailed(tx *rewrite.TxControl) TxEffect {
	switch tx.Verb {
	case rewrite.Commit, rewrite.Rollback, rewrite.PrepareTransaction:
		b.restoreModes()
		b.endTransaction(tx.Chain)
		return RollsBack
	case rewrite.RollbackTo:
		b.status = 'T'
		b.rollBackTo(tx.Name)
	}
	return GoesOn
}

// rollBackTo performs ROLLBACK TO: it restores the modes at a savepoint.
func (b *Block) rollBackTo(name string) {
	if s := b.findSavepoint(name); s != nil {
		b.modes, b.newest = s.modes, s
	}
}

// restoreModes restores the modes at the first savepoint. In a failed block without savepoints, PostgreSQL restores the
// defaults, so that AND CHAIN begins a transaction with the usual modes.
func (b *Block) restoreModes() {
	switch {
	case b.newest != nil:
		s := b.newest
		for s.older != nil {
			s = s.older
		}
		b.modes = s.modes
	case b.status == 'E':
		b.modes = b.usual
	}
}

// endTransaction ends the transaction. Within a block, AND CHAIN begins another transaction with the same modes.
func (b *Block) endTransaction(chain bool) {
	modes, unseen := b.modes, b.unseen
	chain = chain && b.IsOpen()
	*b = Block{status: 'I', ends: b.ends + 1, modes: b.usual, usual: b.usual}
	if chain {
		b.status, b.modes, b.unseen = 'T', modes, unseen
	}
}

// RecordError records an error. A block fails, and outside of a block the transaction ends. ends says that the failed
// statement, for example COMMIT, ends a block even when it fails.
func (b *Block) RecordError(ends bool) {
	switch {
	case b.status == 'E' && !ends:
	case b.status == 'T' && !ends:
		b.status = 'E'
	case b.HasBegun():
		b.endTransaction(false)
	}
}

// RecordSync records a Sync, or the end of a simple Query. Outside of a block the transaction ends.
func (b *Block) RecordSync() TxEffect {
	if b.IsOpen() || !b.open {
		return GoesOn
	}
	b.endTransaction(false)
	return Commits
}

// RecordReady records a ReadyForQuery. Its status has precedence over the state of b.
func (b *Block) RecordReady(status byte) {
	switch {
	case status == b.Status():
	case status == 'I':
		b.endTransaction(false)
	default:
		b.unseen = b.unseen || !b.IsOpen()
		b.status = status
	}
}
