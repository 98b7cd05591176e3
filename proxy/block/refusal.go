package block

import "github.com/sluice-proxy/sluice/rewrite"

// These are SQLSTATEs with which PostgreSQL refuses a statement because of the session's current state.
const (
	CodeAborted     = "25P02"
	CodeNoBlock     = "25P01"
	CodeNoSavepoint = "3B001"
	CodeActive      = "25001"
)

// RefusalCode returns the SQLSTATE with which PostgreSQL refuses a statement in the state b, or "" if PostgreSQL
// accepts it. RefusalCode does not check writes in a READ ONLY transaction (IsReadOnly). In a block whose BEGIN was
// not seen (HasSeenBegin), PostgreSQL may refuse more.
func (b *Block) RefusalCode(tx *rewrite.TxControl) string {
	if b.status == 'E' {
		return b.refusalInFailed(tx)
	}
	switch tx.Verb {
	case rewrite.Begin, rewrite.SetTransaction:
		return b.refusalOfModes(tx)
	case rewrite.Commit, rewrite.Rollback:
		if tx.Chain && !b.IsOpen() {
			return CodeNoBlock
		}
	case rewrite.Savepoint:
		if !b.IsOpen() {
			return CodeNoBlock
		}
	case rewrite.ReleaseSavepoint, rewrite.RollbackTo:
		switch {
		case !b.IsOpen():
			return CodeNoBlock
		case !b.HasSavepoint(tx.Name):
			return CodeNoSavepoint
		}
	}
	return ""
}

// refusalInFailed returns the result of RefusalCode for a statement in a failed block.
func (b *Block) refusalInFailed(tx *rewrite.TxControl) string {
	switch tx.Verb {
	case rewrite.Commit, rewrite.Rollback, rewrite.PrepareTransaction:
		return ""
	case rewrite.RollbackTo:
		if !b.HasSavepoint(tx.Name) {
			return CodeNoSavepoint
		}
		return ""
	}
	return CodeAborted
}

// refusalOfModes returns the result of RefusalCode for a statement that gives transaction modes. After a query, or
// within a savepoint, PostgreSQL refuses some modes. READ ONLY is always accepted.
func (b *Block) refusalOfModes(tx *rewrite.TxControl) string {
	late := b.queried || b.newest != nil
	was := b.Modes()
	switch {
	case late && tx.Isolation != rewrite.DefaultIsolation && effectiveIsolation(tx.Isolation) != effectiveIsolation(was.Isolation),
		late && tx.ReadWrite && was.Access == ReadOnly,
		late && tx.Deferrable:
		return CodeActive
	}
	return ""
}

// effectiveIsolation returns the isolation level i, or READ COMMITTED for the default level.
func effectiveIsolation(i rewrite.Isolation) rewrite.Isolation {
	if i == rewrite.DefaultIsolation {
		return rewrite.ReadCommitted
	}
	return i
}

// NeedsSnapshot reports whether a statement needs a snapshot. After such a statement, PostgreSQL refuses some
// transaction modes.
func NeedsSnapshot(st *rewrite.Statement) bool {
	switch {
	case st.Tx.Verb != rewrite.NoVerb, st.Show != "" && st.Column == "", st.Tag == "LOCK TABLE", st.Cursor != nil && st.Cursor.Verb != rewrite.DeclareCursor:
		return false
	}
	return st.Kind != rewrite.Empty && st.Kind != rewrite.Setting
}

// RecordStatement performs RecordCommand for a planned statement.
func (b *Block) RecordStatement(st *rewrite.Statement) TxEffect {
	return b.RecordCommand(&st.Tx, NeedsSnapshot(st))
}

// AtRequestStart returns b as it is at the start of a request, with EndedTxCount at 0.
func (b Block) AtRequestStart() Block {
	b.ends = 0
	return b
}
