// Package stopping decides how Sluice stops a statement that the server does not stop in time, because of a cancel, a
// timeout or a limit of Sluice.
package stopping

// Statement has the facts about a statement that decide how Sluice stops it.
type Statement struct {
	// Forwarded means that the client has cancelled the statement, and that Sluice has forwarded the cancel to the
	// server. The server does not know of a timeout or limit of Sluice.
	Forwarded bool
	// Readable means that bytes of the server have arrived, which the session has not read yet.
	Readable bool
	// MayCommit means that the statement may have committed, or that its transaction has sent a COMMIT.
	MayCommit bool
	// KeepsBackend means that the session cannot give up its backend.
	KeepsBackend bool
	// MidRow means that the client has got a part of a row.
	MidRow bool
	// EndsAfterRow means that the statement already ends after its current row.
	EndsAfterRow bool
}

// Action is how Sluice stops a statement.
type Action uint8

const (
	// AwaitServer means that the server has stopped the statement, and that the client still reads earlier rows. The
	// session waits once more for CancelGrace, the time that a server has to stop a statement.
	AwaitServer Action = iota
	// LetRun means that the statement runs to its end: it may have committed, or its session cannot give up its backend.
	LetRun
	// EndAfterRow means that the turn ends after the current row, or by Discard if the row's rest arrives too late.
	EndAfterRow
	// Discard means that the session discards its backend at once.
	Discard
)

// Decide returns how Sluice stops the statement.
func (st Statement) Decide() Action {
	switch {
	case st.Forwarded && st.Readable:
		return AwaitServer
	case st.MayCommit || st.KeepsBackend:
		return LetRun
	case st.MidRow && (!st.EndsAfterRow || st.Readable):
		return EndAfterRow
	}
	return Discard
}
