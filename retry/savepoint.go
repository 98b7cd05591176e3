package retry

// savepoint is a position between two turns.
type savepoint struct {
	name  string
	turns int
}

// Savepoint marks the place where the log stands, between two turns. Of several
// with one name the last counts. It reports false when the log cannot hold it.
func (l *Log[R]) Savepoint(name string) bool {
	if !l.Replayable() || !l.charge(savepointCost+len(name)) {
		return false
	}
	l.saves = append(l.saves, savepoint{name: name, turns: len(l.turns)})
	return true
}

// find returns the index of the last savepoint of that name, or -1.
func (l *Log[R]) find(name string) int {
	for i := len(l.saves) - 1; i >= 0; i-- {
		if l.saves[i].name == name {
			return i
		}
	}
	return -1
}

// Release forgets a savepoint and those after it, as RELEASE SAVEPOINT does. It
// reports false when there is none of that name.
func (l *Log[R]) Release(name string) bool {
	i := l.find(name)
	if i < 0 {
		return false
	}
	l.forget(i)
	return true
}

// forget drops the savepoints from the i-th on.
func (l *Log[R]) forget(i int) {
	for _, s := range l.saves[i:] {
		l.charged -= savepointCost + len(s.name)
	}
	clear(l.saves[i:])
	l.saves = l.saves[:i]
}

// RollbackTo takes the log back to a savepoint, which stays; those after it are
// forgotten. What follows at the backend is a real ROLLBACK, BEGIN, and a replay
// of what is left. The client remembers what it read behind the savepoint, so
// those turns stay in the log, and are compared, up to the first that wrote or
// failed. It reports false when there is no savepoint of that name.
func (l *Log[R]) RollbackTo(name string) bool {
	i := l.find(name)
	if i < 0 || !l.Replayable() {
		return false
	}
	l.forget(i + 1)
	keep := l.saves[i].turns
	for keep < len(l.turns) && !l.turns[keep].wrote && !l.turns[keep].failed {
		keep++
	}
	frames, end := 0, 0
	if keep > 0 {
		frames = l.turns[keep-1].frames
	}
	if frames > 0 {
		end = l.frames[frames-1].end
	}
	l.charged -= l.data.n - end + frameCost*(len(l.frames)-frames) + turnCost*(len(l.turns)-keep)
	l.data.truncate(end)
	clear(l.frames[frames:])
	l.frames, l.turns = l.frames[:frames], l.turns[:keep]
	l.at = keep
	l.out.reset()
	l.delivered, l.wrote = mark{}, false
	return true
}
