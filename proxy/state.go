package proxy

// This file has the states of a session and the events that change them. Only session.applyEvent applies an event. All
// other code of a session only reads the state.

// sessionState says what a session is doing between two frames.
//
//	starting       the startup is not answered yet
//	idle           no transaction, no backend
//	begun          Sluice answered a BEGIN locally; no backend yet
//	acquiring      waiting for a backend
//	busy           the backend works on a turn
//	inTransaction  the session has a backend between two turns, for an open transaction or a pin
//	replaying      between two attempts of a transaction that met a conflict
//	failed         in a block that failed and has no backend, mostly because the backend was lost
//	closing        the session ends
//
// A pinned session outside a transaction is also in the state inTransaction; its backend's status is then 'I'.
type sessionState uint8

const (
	starting sessionState = iota
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

// String returns the state's name for the log.
func (s sessionState) String() string {
	return [...]string{"starting", "idle", "begun", "acquiring", "busy", "inTransaction", "replaying", "failed", "closing"}[s]
}

// sessionEvent is an event that changes a session's state. The events lost and lostInBlock also occur when Sluice gives
// up a backend on purpose, after a cancel or a timeout.
type sessionEvent uint8

const (
	started        sessionEvent = iota // Sluice answered the client's startup
	beginAnswered                      // Sluice answered a BEGIN locally
	endAnswered                        // Sluice answered COMMIT or ROLLBACK locally
	wanted                             // the next frame needs the server
	lent                               // the session got a backend
	unlent                             // no backend is available, outside a block
	unlentInBlock                      // no backend is available, after a BEGIN that Sluice answered locally
	settledIdle                        // the turn ended with ReadyForQuery 'I', and Sluice returned the backend
	settledHeld                        // the turn ended with 'T' or 'E', or in a session that is pinned to its backend
	lost                               // the backend was lost outside a block
	lostInBlock                        // the backend was lost inside a block
	refusedInBlock                     // Sluice refused a statement in a block that no server has seen
	conflictMet                        // the transaction met a conflict, and Sluice will replay it
	resumed                            // the replay sends the transaction's first frame
	rolledBackTo                       // Sluice answered ROLLBACK TO locally
	left                               // the client has left, or Sluice ends the session
	eventCount
)

// String returns the event's name for the log.
func (e sessionEvent) String() string {
	return [...]string{"started", "beginAnswered", "endAnswered", "wanted", "lent", "unlent", "unlentInBlock",
		"settledIdle", "settledHeld", "lost", "lostInBlock", "refusedInBlock", "conflictMet", "resumed", "rolledBackTo", "left"}[e]
}

// transitions maps every pair (state, event) that may occur to the next state. The zero value, starting, marks a
// forbidden pair, because no event leads back to starting.
var transitions = [stateCount][eventCount]sessionState{
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

// nextState returns the state after event e. ok is false if the event is forbidden in state s. That is a bug, which the
// session logs before it ends. TestTransitions compares the table transitions with a second copy.
func nextState(s sessionState, e sessionEvent) (to sessionState, ok bool) {
	to = transitions[s][e]
	return to, to != starting
}
