package retry

// savepoint is a savepoint's name and its position between two turns of a log.
type savepoint struct {
	name  string
	turns int
}

// AddSavepoint marks the current position of the log, between two turns, as a savepoint. If several savepoints have
// one name, the last one counts. AddSavepoint returns false when the log has no room.
func (l *ReplayLog[R]) AddSavepoint(name string) bool {
	if !l.Replayable() || !l.chargeOrRefuse(savepointCost+len(name)) {
		return false
	}
	l.saves = append(l.saves, savepoint{name: name, turns: len(l.turns)})
	return true
}

// SavepointCount returns the number of savepoints in the log. A refused log still has the savepoints' names, because
// RELEASE needs no replay.
func (l *ReplayLog[R]) SavepointCount() int {
	if l == nil {
		return 0
	}
	return len(l.saves)
}

// SavepointNames returns the names of the log's savepoints, in their order.
func (l *ReplayLog[R]) SavepointNames() (names []string) {
	for i := range l.SavepointCount() {
		names = append(names, l.saves[i].name)
	}
	return names
}

// FindSavepoint returns the index of the last savepoint with a name, or -1.
func (l *ReplayLog[R]) FindSavepoint(name string) int {
	for i := l.SavepointCount() - 1; i >= 0; i-- {
		if l.saves[i].name == name {
			return i
		}
	}
	return -1
}

// ReleaseSavepoint drops the i-th savepoint and all later savepoints, as RELEASE SAVEPOINT does.
func (l *ReplayLog[R]) ReleaseSavepoint(i int) {
	for _, s := range l.saves[i:] {
		l.charged -= savepointCost + len(s.name)
	}
	clear(l.saves[i:])
	l.saves = l.saves[:i]
}

// CanRollbackTo reports whether RollbackTo may be called: the log is Replayable, or a statement failed after a
// savepoint.
func (l *ReplayLog[R]) CanRollbackTo() bool {
	return l.Replayable() || l != nil && l.refused == Failed && len(l.saves) > 0
}

// RollbackTo takes a log back to the i-th savepoint, which remains. CanRollbackTo must be true. RollbackTo drops
// later savepoints, and forgets that a statement failed. The caller then sends a real ROLLBACK, a BEGIN, and a replay
// of the remaining turns. The client has the answers to its reads after the savepoint. So turns up to the first turn
// that wrote or failed stay in the log, and a replay compares their answers.
func (l *ReplayLog[R]) RollbackTo(i int) {
	keep := l.TurnsKeptByRollback(i)
	l.ReleaseSavepoint(i + 1)
	l.refused = Replayable
	l.truncateTurns(keep)
}

// FirstTurnAfter returns the index of the first turn after the i-th savepoint.
func (l *ReplayLog[R]) FirstTurnAfter(i int) int { return l.saves[i].turns }

// TurnsKeptByRollback returns how many turns of the log RollbackTo(i) would leave.
func (l *ReplayLog[R]) TurnsKeptByRollback(i int) int {
	keep := l.saves[i].turns
	for keep < len(l.turns) && !l.turns[keep].wrote && !l.turns[keep].failed {
		keep++
	}
	return keep
}

// endTurnWithError settles the turn in progress, whose last frame is an error, as a turn that an error ended
// (broken).
func (l *ReplayLog[R]) endTurnWithError() {
	o, logged := &l.out, 0
	if n := len(l.turns); n > 0 {
		logged = l.turns[n-1].frames
	}
	if len(l.frames) == logged || !o.failed || !l.chargeOrRefuse(turnCost) {
		l.truncateTurns(len(l.turns))
		return
	}
	l.turns = append(l.turns, loggedTurn{frames: len(l.frames), sum: o.digest.sum(), statements: o.statements,
		verb: o.verb, failed: true, wrote: l.wrote, broken: true})
	l.at++
	o.reset()
	l.delivered, l.wrote = outputPosition{}, false
}

// Fork returns a replayable copy of a log, for which CanRollbackTo must be true. The caller runs the copy in another
// transaction, to compare the answers that RollbackTo is about to discard. Of turns for which blind returns true, a
// replay compares only whether they failed. The copy shares the caller's data, and needs its own Close. beside is the
// size of other copies. If all copies together exceed the limit of one transaction's log, ok is false.
func (l *ReplayLog[R]) Fork(beside int, blind func(turn int) bool) (fork *ReplayLog[R], ok bool) {
	fork = l.logs.Open()
	if beside+l.charged > l.logs.limit || !fork.chargeOrRefuse(l.charged) {
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
func (l *ReplayLog[R]) Bytes() int { return l.charged }

// RollbackDropsTurn reports whether RollbackTo(i) would drop turn n, which is settled or in progress.
func (l *ReplayLog[R]) RollbackDropsTurn(i, n int) bool {
	for at := l.saves[i].turns; at <= n; at++ {
		if at >= len(l.turns) || l.turns[at].wrote || l.turns[at].failed {
			return true
		}
	}
	return false
}

// truncateTurns drops all turns of the log except the first ones, whose number is turns. It also drops the turn in
// progress.
func (l *ReplayLog[R]) truncateTurns(turns int) {
	frames, end := 0, 0
	if turns > 0 {
		frames = l.turns[turns-1].frames
	}
	if frames > 0 {
		end = l.frames[frames-1].end
	}
	l.charged -= l.data.n - end + frameOverhead[R]()*(len(l.frames)-frames) + turnCost*(len(l.turns)-turns)
	l.data.truncate(end)
	for i := range l.frames[frames:] {
		l.charged -= l.frames[frames+i].beside
	}
	clear(l.frames[frames:])
	l.frames, l.turns = l.frames[:frames], l.turns[:turns]
	l.at = turns
	l.out.reset()
	l.delivered, l.wrote = outputPosition{}, false
}

// CutTurn ends the turn in progress at its current position, as a ReadyForQuery would. CutTurn is for a client that
// sets a savepoint, or rolls back to one, before the request's Sync. The caller has relayed and delivered all
// replies that the server owes. In a replay, CutTurn compares the turn, and returns false when the replay differs.
func (l *ReplayLog[R]) CutTurn() bool {
	if l == nil || l.refused != Replayable {
		return l == nil || !l.refusedMidReplay
	}
	_, ok := l.endTurn(nil, 0, true)
	return ok
}

// IsCutTurn reports whether CutTurn ended the settled turn i.
func (l *ReplayLog[R]) IsCutTurn(i int) bool { return l.turns[i].cut }

// EndedWithError reports whether an error ended the settled turn i.
func (l *ReplayLog[R]) EndedWithError(i int) bool { return l.turns[i].broken }

// AwaitsError reports whether a replay is at a turn that ended with an error.
func (l *ReplayLog[R]) AwaitsError() bool { return l.at < len(l.turns) && l.turns[l.at].broken }
