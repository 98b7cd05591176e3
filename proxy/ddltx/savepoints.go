package ddltx

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// This file has the savepoints of a block that Sluice commits in parts (several transactions).
//
// A savepoint ends with its part, since a commit cannot be undone. RELEASE of such a savepoint succeeds, and releases
// all later savepoints, as in PostgreSQL. ROLLBACK TO is refused.
//
// If nothing ran after a savepoint before its part was committed, the next part sets it again (restoreSavepoints).
// ROLLBACK TO then reaches the same state. Migration tools need this: they send SAVEPOINT, then an INSERT before which
// Sluice commits earlier DDL, and ROLLBACK TO after 23505.

// maxSavepoints is the largest number of savepoints' names that Sluice remembers of a block's committed parts.
const maxSavepoints = 100

// keepSavepoints records the names of the savepoints of a committed part. Above the limit it forgets the oldest.
func (x *Tx) keepSavepoints(names []string) {
	x.savepoints = append(x.savepoints, names...)
	x.savepoints = slices.Clone(x.savepoints[max(0, len(x.savepoints)-maxSavepoints):])
}

// savepointRestored records that the next part has set a savepoint of a committed part again.
func (x *Tx) savepointRestored(name string) {
	if i := x.findSavepoint(name); i >= 0 { // otherwise the limit has removed it
		x.savepoints = slices.Delete(x.savepoints, i, i+1)
	}
}

// findSavepoint returns the index of the last savepoint of a committed part with the name, or -1.
func (x *Tx) findSavepoint(name string) int {
	for i, n := range slices.Backward(x.savepoints) {
		if n == name {
			return i
		}
	}
	return -1
}

// Savepoint carries out RELEASE, or refuses ROLLBACK TO, of a savepoint whose part is committed. ended is false for
// other savepoints, and for SAVEPOINT. refusal is the detail of the error for the client. If refusal is "", the
// savepoint is released, and all savepoints of the open part must be released too. x may be nil.
func (x *Tx) Savepoint(verb rewrite.TxVerb, name string) (ended bool, refusal string) {
	if x == nil || verb == rewrite.Savepoint {
		return false, ""
	}
	i := x.findSavepoint(name)
	switch {
	case i < 0:
		return false, ""
	case verb == rewrite.RollbackTo:
		return true, "What the transaction did before is committed (" + rewrite.InTransactionsKey + "): " + x.committed.String() + "."
	}
	x.savepoints = x.savepoints[:i]
	return true, ""
}
