package block

import "github.com/sluice-proxy/sluice/rewrite"

// SQLSTATEs of what PostgreSQL refuses because of how the session stands.
const (
	CodeAborted     = "25P02"
	CodeNoBlock     = "25P01"
	CodeNoSavepoint = "3B001"
	CodeActive      = "25001"
)

// Refuses is the SQLSTATE with which PostgreSQL refuses a statement for how the session stands;
// "" where it takes it. What a READ ONLY transaction does not take is not looked at (ReadOnly). Of a
// block that was begun before b knew of it, PostgreSQL may refuse more.
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

// refusesFailed is Refuses in a failed block.
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

// refusesModes is Refuses for modes of the transaction at hand: behind a query, or within a
// savepoint, some come too late. READ ONLY never does.
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

// level is a level, which is READ COMMITTED where none was said.
func level(i rewrite.Isolation) rewrite.Isolation {
	if i == rewrite.DefaultIsolation {
		return rewrite.ReadCommitted
	}
	return i
}

// Snapshots reports whether a statement needs a snapshot: behind it modes come too late.
func Snapshots(st *rewrite.Statement) bool {
	switch {
	case st.Tx.Verb != rewrite.NoVerb, st.Show != "" && st.Column == "", st.Tag == "LOCK TABLE", st.Cursor != nil && st.Cursor.Verb != rewrite.DeclareCursor:
		return false
	}
	return st.Kind != rewrite.Empty && st.Kind != rewrite.Setting
}

// Step is Run for a statement.
func (b *Block) Step(st *rewrite.Statement) Ending { return b.Run(&st.Tx, Snapshots(st)) }

// Turn is b at the beginning of a request: the ends of transactions are counted from there.
func (b Block) Turn() Block {
	b.ends = 0
	return b
}
