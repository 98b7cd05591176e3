package retry

const (
	// maxWindowPatience bounds the patience of a window (the number of transactions that may compete for a key). Patience
	// is the number of transactions without a conflict after which the window widens.
	maxWindowPatience = 64
	// conflictCost is the number of transactions without a conflict that outweigh one conflict.
	conflictCost = 3
	// cleanEndsToClose is the number of transactions with neither conflict nor wait after which a key's queue closes.
	cleanEndsToClose = 256
)

// concurrencyWindow is the number of transactions that may compete for one key at a time. It begins at one. A clean
// end is the end of a transaction without a conflict. The window doubles after as many clean ends as it is wide, and
// at least as many as its patience. When conflicts outweigh clean ends, the window is halved and its patience doubled.
//
// So a key with one conflict is free again after a few commits, and a key with few conflicts stays free. If all
// transactions want one key, two at a time are tried once in maxWindowPatience commits.
type concurrencyWindow struct {
	width    int
	patience int
	score    int // clean ends at this width, less the cost of conflicts
	calm     int // clean ends since a transaction last had to wait
	// version counts the changes of the window's width (how many transactions may compete). narrowed is the version after
	// the last halving.
	version, narrowed int
}

func newConcurrencyWindow() concurrencyWindow { return concurrencyWindow{width: 1, patience: 1} }

// recordCleanEnd records the end of a transaction without a conflict. version is the window's version when the
// transaction was admitted. If the window's width has changed since, the end does not count.
func (w *concurrencyWindow) recordCleanEnd(version int) {
	w.calm++
	if version != w.version || w.width >= maxPasses {
		return
	}
	if w.score++; w.score < max(w.patience, w.width) {
		return
	}
	if w.width > 1 {
		w.patience = 1 // the width suffices: there is no contention
	}
	w.width *= 2
	w.score = 0
	w.version++
}

// recordConflictAt records a conflict of a transaction. version is the window's version when the transaction was
// admitted. A transaction that was admitted before the last halving does not halve the window again.
func (w *concurrencyWindow) recordConflictAt(version int) {
	w.calm = 0
	if version < w.narrowed {
		return
	}
	if w.score -= conflictCost; w.score >= 0 {
		return
	}
	if w.width > 1 {
		w.patience = min(2*w.patience, maxWindowPatience)
		w.width /= 2
	}
	w.score = w.width / 2 // the old width was good enough before
	w.version++
	w.narrowed = w.version
}
