package retry

// savepoint is a savepoint's name and its position between two turns of a log.
type savepoint struct {
	name  string
	turns int
}

// Savepoint marks the current position of the log, between two turns. If several savepoints have one name, the last one
// counts. Savepoint returns false when the log has no room.
func (l *Log[R]) Savepoint(name string) bool {
	if !l.Replayable() || !l.charge(savepointCost+len(name)) {
		return false
	}
	l.saves = append(l.saves, savepoint{name: name, turns: len(l.turns)})
	return true
}

// Savepoints returns the number of savepoints in the log. A refused log still knows their names, because RELEASE needs
// no replay.
func (l *Log[R]) Savepoints() int {
	if l == nil {
		return 0
	}
	return len(l.saves)
}

// Names returns the names of the log's savepoints, in their order.
func (l *Log[R]) Names() (names []string) {
	for i := range l.Savepoints() {
		names = append(names, l.saves[i].name)
	}
	return names
}

// Find returns the index of the last savepoint with a name, or -1.
func (l *Log[R]) Find(name string) int {
	for i := l.Savepoints() - 1; i >= 0; i-- {
		if l.saves[i].name == name {
			return i
		}
	}
	return -1
}

// Release drops the i-th savepoint and all later savepoints, as RELEASE SAVEPOINT does.
func (l *Log[R]) Release(i int) {
	for _, s := range l.saves[i:] {
		l.charged -= savepointCost + len(s.name)
	}
	clear(l.saves[i:])
	l.saves = l.saves[:i]
}

// Recoverable reports whether RollbackTo may be called: the log is Replayable, or a statement failed after a savepoint.
func (l *Log[R]) Recoverable() bool {
	return l.Replayable() || l != nil && l.refused == Failed && len(l.saves) > 0
}

// RollbackTo takes a Recoverable log back to the i-th savepoint, which stays. It drops later savepoints and the failure
// of a statement. The backend then gets a real ROLLBACK, a BEGIN, and a replay of the turns that are left. The client
// remembers its reads after the savepoint. So turns up to the first that wrote or failed stay in the log, and are
// compared.
func (l *Log[R]) RollbackTo(i int) {
	keep := l.Kept(i)
	l.Release(i + 1)
	l.refused = Replayable
	l.truncate(keep)
}

// Since returns the index of the first turn after the i-th savepoint.
func (l *Log[R]) Since(i int) int { return l.saves[i].turns }

// Kept returns how many turns of the log RollbackTo(i) would leave.
func (l *Log[R]) Kept(i int) int {
	keep := l.saves[i].turns
	for keep < len(l.turns) && !l.turns[keep].wrote && !l.turns[keep].failed {
		keep++
	}
	return keep
}

// breakOff ends the turn in progress, whose last frame is an error, as a broken turn.
func (l *Log[R]) breakOff() {
	o, logged := &l.out, 0
	if n := len(l.turns); n > 0 {
		logged = l.turns[n-1].frames
	}
	if len(l.frames) == logged || !o.failed || !l.charge(turnCost) {
		l.truncate(len(l.turns))
		return
	}
	l.turns = append(l.turns, turn{frames: len(l.frames), sum: o.digest.sum(), statements: o.statements,
		verb: o.verb, failed: true, wrote: l.wrote, broken: true})
	l.at++
	o.reset()
	l.delivered, l.wrote = mark{}, false
}

// Fork returns a Replayable log with the turns of a Recoverable log. The caller runs the fork in another transaction,
// to compare the answers that RollbackTo is about to discard. The answers of blind turns do not count. The fork shares
// the frames' notes, and ends with its own Close. beside is the size of other forks: if all together exceed one
// transaction's log, ok is false.
func (l *Log[R]) Fork(beside int, blind func(turn int) bool) (fork *Log[R], ok bool) {
	fork = l.logs.Open()
	if beside+l.charged > l.logs.limit || !fork.charge(l.charged) {
		fork.Close()
		return nil, false
	}
	l.data.each(0, l.data.n, func(piece []byte) error {
		fork.data.append(piece)
		return nil
	})
	fork.frames = append(fork.frames, l.frames...)
	fork.turns = append(fork.turns, l.turns...)
	fork.at = len(fork.turns)
	for i := range fork.turns {
		fork.turns[i].blind = blind(i)
	}
	return fork, true
}

// Bytes returns the number of bytes that the log counts for.
func (l *Log[R]) Bytes() int { return l.charged }

// Discards reports whether RollbackTo(i) would drop turn n, which is settled or in progress.
func (l *Log[R]) Discards(i, n int) bool {
	for at := l.saves[i].turns; at <= n; at++ {
		if at >= len(l.turns) || l.turns[at].wrote || l.turns[at].failed {
			return true
		}
	}
	return false
}

// truncate drops all turns of the log after the first ones. It also drops the turn in progress.
func (l *Log[R]) truncate(turns int) {
	frames, end := 0, 0
	if turns > 0 {
		frames = l.turns[turns-1].frames
	}
	if frames > 0 {
		end = l.frames[frames-1].end
	}
	l.charged -= l.data.n - end + frameCost[R]()*(len(l.frames)-frames) + turnCost*(len(l.turns)-turns)
	l.data.truncate(end)
	clear(l.frames[frames:])
	l.frames, l.turns = l.frames[:frames], l.turns[:turns]
	l.at = turns
	l.out.reset()
	l.delivered, l.wrote = mark{}, false
}

// Cut ends the turn in progress at its current position, as a ReadyForQuery would. Cut is for a savepoint that is set,
// or rolled back to, before the request's Sync. The caller has relayed and delivered all replies that the server owes.
// In a replay, Cut compares the turn, and returns false when the replay differs.
func (l *Log[R]) Cut() bool {
	if l == nil || l.refused != Replayable {
		return l == nil || !l.stuck
	}
	_, ok := l.settle(nil, 0, true)
	return ok
}

// IsCut reports whether Cut ended the settled turn i.
func (l *Log[R]) IsCut(i int) bool { return l.turns[i].cut }

// IsBroken reports whether an error ended the settled turn i.
func (l *Log[R]) IsBroken(i int) bool { return l.turns[i].broken }

// AwaitsError reports whether a replay is at a turn that ended with an error.
func (l *Log[R]) AwaitsError() bool { return l.at < len(l.turns) && l.turns[l.at].broken }
