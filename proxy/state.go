package proxy

// The states of a session and the events that move it. session.move applies them;
// everything else of a session may read its state.

// state is where a session stands between frames.
//
//	idle           no transaction, no backend
//	begun          a BEGIN was answered locally; no backend yet
//	acquiring      waiting for a backend
//	busy           a turn is with the backend
//	inTransaction  the backend is kept: for an open transaction, or because the session is pinned
//	replaying      between two attempts of a transaction that met a conflict
//	failed         inside a transaction that has lost its backend
//
// The names of two states say less than they mean: a session whose backend is kept for a
// pin alone is inTransaction too, with a backend whose status is 'I', and one in a block
// that failed before it had a backend is failed.
type state uint8

const (
	starting state = iota
	idle
	begun
	acquiring
	busy
	inTransaction
	replaying
	failed
	closing
	stateCount
)

// String is the state's name, for the log.
func (s state) String() string {
	return [...]string{"starting", "idle", "begun", "acquiring", "busy", "inTransaction", "replaying", "failed", "closing"}[s]
}

// event is what moves a session from one state to another. lost and lostInBlock do so also
// where the backend is given up on purpose, for a cancel or a timeout.
type event uint8

const (
	started        event = iota // the client's startup is answered
	beginAnswered               // a BEGIN was answered locally
	endAnswered                 // COMMIT or ROLLBACK was answered locally
	wanted                      // the next frame needs the server
	lent                        // a backend is there
	unlent                      // none is to be had; outside a transaction
	unlentInBlock               // none is to be had; a BEGIN was answered
	settledIdle                 // ReadyForQuery 'I', backend given back
	settledHeld                 // ReadyForQuery 'T' or 'E', or pinned
	lost                        // backend lost outside a transaction
	lostInBlock                 // backend lost inside a transaction
	refusedInBlock              // a statement was refused by us inside a begun transaction
	conflictMet                 // the transaction is to be run again
	resumed                     // it is, from its first frame
	rolledBackTo                // ROLLBACK TO was answered locally
	left                        // the client is gone or told to go
	eventCount
)

// String is the event's name, for the log.
func (e event) String() string {
	return [...]string{"started", "beginAnswered", "endAnswered", "wanted", "lent", "unlent", "unlentInBlock",
		"settledIdle", "settledHeld", "lost", "lostInBlock", "refusedInBlock", "conflictMet", "resumed", "rolledBackTo", "left"}[e]
}

// transitions holds every (state, event) pair that may occur; the zero state,
// starting, marks a pair that may not, since nothing returns there.
var transitions = [stateCount][eventCount]state{
	starting: {started: idle, left: closing, settledHeld: inTransaction},
	idle:     {beginAnswered: begun, endAnswered: idle, wanted: acquiring, left: closing},
	begun: {beginAnswered: begun, endAnswered: idle, wanted: acquiring, refusedInBlock: failed,
		lostInBlock: failed, left: closing},
	acquiring:     {lent: busy, unlent: idle, unlentInBlock: failed, lost: idle, lostInBlock: failed, left: closing},
	busy:          {settledIdle: idle, settledHeld: inTransaction, lost: idle, lostInBlock: failed, conflictMet: replaying, left: closing},
	replaying:     {resumed: busy, lost: idle, lostInBlock: failed, left: closing},
	inTransaction: {wanted: busy, settledHeld: inTransaction, settledIdle: idle, lost: idle, lostInBlock: failed, left: closing},
	failed:        {endAnswered: idle, rolledBackTo: begun, left: closing},
	closing:       {left: closing},
}

// next is the state after event e; ok is false for a pair that may not occur, which is a
// bug: the session logs it and closes. TestTransitions holds a second copy of the table.
func next(s state, e event) (to state, ok bool) {
	to = transitions[s][e]
	return to, to != starting
}
