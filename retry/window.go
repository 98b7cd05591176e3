package retry

const (
	// mostPatience bounds the clean ends that a window waits for before it widens.
	mostPatience = 64
	// conflictCost is how many clean ends make up for a conflict.
	conflictCost = 3
	// calmEnough clean ends in which nobody had to wait close a queue.
	calmEnough = 256
)

// window is how many transactions may fight for one key at a time. It begins at
// one. It doubles after clean ends (of transactions that met no conflict), as many
// as it is wide and as it has patience for. It is halved when conflicts outweigh
// them, and its patience doubled. So a key that one conflict was reported for is
// free again after a few commits, and one with few conflicts stays so, while one
// that all fight for is tried with two at a time once in mostPatience commits.
type window struct {
	width    int
	patience int
	score    int // clean ends at this width, less the cost of conflicts
	calm     int // clean ends since somebody last had to wait
	// version counts the changes of the width; narrowed is that of the last time
	// it was halved.
	version, narrowed int
}

func newWindow() window { return window{width: 1, patience: 1} }

// ended is told of a clean end of a transaction that was let in at a version.
// What was let in at another width says nothing of this one.
func (w *window) ended(version int) {
	w.calm++
	if version != w.version || w.width >= maxPasses {
		return
	}
	if w.score++; w.score < max(w.patience, w.width) {
		return
	}
	if w.width > 1 {
		w.patience = 1 // it holds: nobody fights
	}
	w.width *= 2
	w.score = 0
	w.version++
}

// conflicted is told of a conflict of such a transaction. What was let in before
// the window was halved does not halve it again.
func (w *window) conflicted(version int) {
	w.calm = 0
	if version < w.narrowed {
		return
	}
	if w.score -= conflictCost; w.score >= 0 {
		return
	}
	if w.width > 1 {
		w.patience = min(2*w.patience, mostPatience)
		w.width /= 2
	}
	w.score = w.width / 2 // it was good enough before
	w.version++
	w.narrowed = w.version
}
