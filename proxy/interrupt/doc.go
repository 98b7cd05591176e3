// Package interrupt ends the waits of a session. A cancel request, the statement timeout, the end of a drain and the
// client's leaving may end a wait for the server, for a backend, or inside Sluice.
//
// Waits (waits.go) has what a session shares with the goroutines that end its waits. cancel.go has cancel requests,
// wait.go the waits inside Sluice, and clock.go the statement timeout of one turn.
//
// A wait for the server is a read from the backend's connection. A read deadline ends that read. The session then looks
// for the reason (Due), and continues to read if there is none. So a deadline that is too early or overwritten does no
// harm.
//
// Each event ends one wait. Consume clears a cancel or timeout whose error the client gets, so that the event does not
// end the client's next statement.
package interrupt
