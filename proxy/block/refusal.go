package block

import "github.com/sluice-proxy/sluice/rewrite"

// These are SQLSTATEs with which PostgreSQL refuses a statement because of the session's current state.
const (
	CodeAborted     = "25P02"
	CodeNoBlock     = "25P01"
	CodeNoSavepoint = "3B001"
	CodeActive      = "25001"
)

// Refuses returns the SQLSTATE with which PostgreSQL refuses a statement in this state, or "" if PostgreSQL accepts it.
// Refuses does not check writes in a READ ONLY transaction (ReadOnly). In a block that is not Known, PostgreSQL may
// refuse more.
func (b *Block) Refuses(tx *rewrite.Transaction) string {
	if b.status == 'E' {
		return b.refusesFailed(tx)
	}
	switch tx.Verb {
	case rewrite.Begin, rewrite.SetTransaction:
		return b.refusesModes(tx)
	case rewrite.Commit, rewrite.Rollback:
		if tx.Chain && !b.In() {
			return CodeNoBlock
		}
	case rewrite.Savepoint:
		if !b.In() {
			return CodeNoBlock
		}
	case rewrite.ReleaseSavepoint, rewrite.RollbackTo:
		switch {
		case !b.In():
			return CodeNoBlock
		case b.Saved(tx.Name) < 0:
			return CodeNoSavepoint
		}
	}
	return ""
}

// refusesFailed returns the result of Refuses for a statement in a failed block.
func (b *Block) refusesFailed(tx *rewrite.Transaction) string {
	switch tx.Verb {
	case rewrite.Commit, rewrite.Rollback, rewrite.PrepareTransaction:
		return ""
	case rewrite.RollbackTo:
		if b.Saved(tx.Name) < 0 {
			return CodeNoSavepoint
		}
		return ""
	}
	return CodeAborted
}

// refusesModes returns the result of Refuses for a statement that gives transaction modes. After a query, or within a
// savepoint, PostgreSQL refuses some modes. READ ONLY is always accepted.
func (b *Block) refusesModes(tx *rewrite.Transaction) string {
	late := b.queried || len(b.saves) > 0
	was := b.Modes()
	switch {
	case late && tx.Isolation != rewrite.DefaultIsolation && level(tx.Isolation) != level(was.Isolation),
		late && tx.ReadWrite && was.Access == ReadOnly,
		late && tx.Deferrable:
		return CodeActive
	}
	return ""
}

// level returns the isolation level i, or READ COMMITTED for the default level.
func level(i rewrite.Isolation) rewrite.Isolation {
	if i == rewrite.DefaultIsolation {
		return rewrite.ReadCommitted
	}
	return i
}

// Snapshots reports whether a statement needs a snapshot. After such a statement, PostgreSQL refuses some transaction
// modes.
func Snapshots(st *rewrite.Statement) bool {
	switch {
	case st.Tx.Verb != rewrite.NoVerb, st.Show != "" && st.Column == "", st.Tag == "LOCK TABLE", st.Cursor != nil && st.Cursor.Verb != rewrite.DeclareCursor:
		return false
	}
	return st.Kind != rewrite.Empty && st.Kind != rewrite.Setting
}

// Step performs Run for a planned statement.
func (b *Block) Step(st *rewrite.Statement) Ending { return b.Run(&st.Tx, Snapshots(st)) }

// Turn returns b as it is at the start of a request, with Ends at 0.
func (b Block) Turn() Block {
	b.ends = 0
	return b
}
