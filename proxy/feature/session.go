package feature

import (
	"errors"
	"time"

	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// Session is what a feature sees of a session, in the turn in which the feature performs a statement of the client.
type Session interface {
	State
	Client
	Server
	StopControl
}

// State is the part of a Session that describes the session's state.
type State interface {
	// InBlock reports whether the client is in a transaction block.
	InBlock() bool
	// IsFirstStatement reports whether the statement is the first one of the client's request.
	IsFirstStatement() bool
	// RefusesWrite returns the error for a statement that writes in a READ ONLY transaction, or nil if the statement may
	// run.
	RefusesWrite(st *rewrite.Statement) *wire.Error
	// OptsOut reports whether no part of the statement may run again after a conflict. The client's settings, its request,
	// or a comment in the statement's text sql may say so.
	OptsOut(sql []byte) bool
	// Setting returns the value of a setting as the client has SET it last, as SQL, or "" if the client has not set it.
	Setting(name string) string
	// Reading returns how the server's reading of a text differs from plain UTF8, or 0 if it does not differ.
	Reading() rewrite.ReadingMode
	// Names returns what the names of relations mean to the client, or nil if no column is mapped (bytea stored as
	// text). The error is for the client, or ends the session.
	Names() (*schema.NameResolver, error)
}

// Client is the part of a Session for the client's connection. Errors of its methods end the session, unless they say
// otherwise.
type Client interface {
	// Reply queues frames of the statement's answer for the client. The frames must not change afterwards.
	Reply(frames ...[]byte) error
	// Flush sends the client all frames that are queued.
	Flush() error

	// NextFrame waits for the header of the client's next frame. total is the length of the frame with its header. The
	// frame remains unread, until ReadWhole, ReadPayload or Discard reads it. If a cancel, a timeout or the end of a drain
	// comes meanwhile, NextFrame returns that as an error, which may be for the client.
	NextFrame() (typ byte, total int, err error)
	// ReadWhole returns the next total bytes from the client, which the caller must have bounded. The bytes are valid until
	// the next read from the client.
	ReadWhole(total int) ([]byte, error)
	// ReadPayload calls take with the payload of a frame of total bytes, in pieces, as it arrives. A piece is valid until
	// take uses the Session. take may run nested turns. If take returns an error for the client, ReadPayload drops the
	// rest of the frame. ReadPayload returns the error of take.
	ReadPayload(total int, take func(piece []byte) error) error
	// Discard drops the next n bytes from the client.
	Discard(n int) error
	// ProtocolError sends the client the error for a frame after which the position of the next frame is unknown.
	// ProtocolError returns the error that ends the session.
	ProtocolError(e *wire.Error) error

	// ChargeMemory charges bytes to the client's memory account, instead of the bytes that the last call of ChargeMemory
	// has charged. The end of the turn frees them. The error is for the client: there is no room, and the last charge
	// remains.
	ChargeMemory(bytes int) error
}

// Server is the part of a Session for the server, which gets nested turns. A nested turn is a turn within the
// client's turn, while the client's turn has sent the server nothing. Sluice plans, logs and replays each nested turn
// like a turn of the client. The errors of the methods end the session.
type Server interface {
	// RunNested runs sql as a simple Query in a nested turn.
	RunNested(sql string, how NestedOptions) (NestedResult, error)
	// RunTxCommand runs a command such as BEGIN or COMMIT, outside of the client's block. If a cancel or timeout comes
	// while it runs, the NestedResult does not have the event, and CheckMayContinue returns it.
	RunTxCommand(sql string, want silent.ExpectedAnswer) (NestedResult, error)
}

// StopControl is the part of a Session for events that end a statement early.
type StopControl interface {
	// BeginStatement begins the client's statement: the statement timeout starts, and a cancel request stops the statement.
	BeginStatement()
	// EndStatement ends the statement that BeginStatement began. A cancel request that comes after it is too late.
	EndStatement()
	// CheckMayContinue returns nil if the next unit of work may begin. Otherwise CheckMayContinue returns the event that
	// stops the statement: a cancel, the timeout, the end of a drain, or a client that has left. CheckMayContinue returns
	// each event once.
	CheckMayContinue() error
	// Pause waits for d. If an event stops the statement meanwhile, Pause returns that event, as CheckMayContinue does.
	Pause(d time.Duration) error
}

// NestedOptions says how a nested turn differs from a turn of the client. The client gets only its notices, parameters
// and notifications.
type NestedOptions struct {
	// Want is the answer that the nested turn expects from the server.
	Want silent.ExpectedAnswer
	// Outside means that the statement is no part of the client's block.
	Outside bool
	// OptsOut means that the statement must not run again after a conflict.
	OptsOut bool
}

// NestedResult is the result of a nested turn (RunNested, RunTxCommand).
type NestedResult struct {
	// Failed means that the statement failed. The client has got the error, unless NestedOptions.Want was set.
	Failed bool
	// Err is the error of the statement, or nil if its answer is the expected one.
	Err *wire.Error
	// Answer is the server's answer to the statement.
	Answer *silent.Answer
	// Stopped is the cancel or timeout that came while the nested turn could not be stopped, or nil. The event stops the
	// client's statement.
	Stopped *wire.Error
}

// Cause returns the error with which the client's statement ends: Err or Stopped, or nil for none.
func (r *NestedResult) Cause() error {
	switch {
	case r.Err != nil:
		return r.Err
	case r.Stopped != nil:
		return r.Stopped
	}
	return nil
}

// Deferred is the rest of a statement of the extended protocol. The session performs it when the Sync shows that the
// request has no other statement.
type Deferred interface {
	// Finish performs the rest of the statement and queues the answer. The error is for the client, or ends the session.
	Finish() error
	// NotAlone returns the error for the client if another frame comes before the Sync, and Finish is not called.
	NotAlone() *wire.Error
}

var (
	// ErrTerminated ends the session of a client that has sent Terminate.
	ErrTerminated = errors.New("client said goodbye")
	// ErrInternal ends a session that has reached an impossible state.
	ErrInternal = &wire.Error{Fatal: true, Code: "XX000", Message: "Sluice met a state that it does not know and closed the connection",
		Hint: "Please report this with Sluice's log line."}
)

// IsRefusal reports whether an error is for a client whose session continues.
func IsRefusal(err error) bool {
	var e *wire.Error
	return errors.As(err, &e) && !e.Fatal
}
