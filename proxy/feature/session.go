package feature

import (
	"errors"
	"time"

	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// Session is a session in the turn in which a feature does a statement of the client.
type Session interface {
	State
	Client
	Server
	Stops
}

// State is the state of a session.
type State interface {
	// InBlock reports whether the client is in a transaction block.
	InBlock() bool
	// First reports whether the client's request has no statement before this one.
	First() bool
	// RefusesWrite returns the error of a statement that writes while the transaction is READ ONLY; nil
	// if it may run.
	RefusesWrite(st *rewrite.Statement) *wire.Error
	// OptsOut reports whether nothing of the statement may run again after a conflict: by the client's
	// settings, its request, or a comment in the statement's text sql.
	OptsOut(sql []byte) bool
	// Setting returns the value of a setting as the client has SET it last, as SQL; "" if it has not.
	Setting(name string) string
	// Reading returns how the server's reading of a text differs from plain UTF8; 0 if it does not.
	Reading() rewrite.Reading
	// Names returns what the names of relations mean to the client; nil if no column is mapped. The error
	// is for the client, or ends the session.
	Names() (*schema.Names, error)
}

// Client is the client's connection. Errors of its methods end the session, unless they say otherwise.
type Client interface {
	// Reply queues frames of the statement's answer. The frames must not change afterwards.
	Reply(frames ...[]byte) error
	// Flush sends the client everything that is queued.
	Flush() error

	// NextFrame waits for the header of the client's next frame. total is the length of the frame with
	// its header. The frame remains unread, and Whole, Payload or Discard takes it. A cancel, a timeout
	// or the end of a drain that comes meanwhile is the error, which may be for the client.
	NextFrame() (typ byte, total int, err error)
	// Whole returns the next total bytes, which the caller must have bounded. They are valid until the
	// next read from the client.
	Whole(total int) ([]byte, error)
	// Payload calls take with the payload of a frame of total bytes, in pieces, as it arrives. A piece is
	// valid until take uses the Session. take may run nested turns. With an error of take that is for
	// the client, Payload drops the rest of the frame. It returns the error of take.
	Payload(total int, take func(piece []byte) error) error
	// Discard drops the next n bytes.
	Discard(n int) error
	// ProtocolError sends the error of a frame after which the position of the next one is unknown. It
	// returns the error that ends the session.
	ProtocolError(e *wire.Error) error

	// Hold charges bytes to the client's account, instead of those that the last Hold has charged. The
	// turn's end frees them. The error is for the client: there is no room, and the last charge remains.
	Hold(bytes int) error
}

// Server is the server, in nested turns: turns within the client's turn, which has sent the server
// nothing. Each is planned, logged and run again like a turn of the client. The errors of its methods end
// the session.
type Server interface {
	// Nested runs sql as a simple Query.
	Nested(sql string, how Nested) (Result, error)
	// Command runs BEGIN, COMMIT or the like, outside of the client's block. A cancel or timeout that
	// comes while it runs stops the next unit of work (Proceed), and the Result has none.
	Command(sql string, want silent.Want) (Result, error)
}

// Stops is what ends a statement before its end.
type Stops interface {
	// Start begins the statement: the statement timeout begins, and a cancel has something to stop.
	Start()
	// Finished ends what Start began. A cancel that has come is too late.
	Finished()
	// Proceed returns nil if the next unit of work may begin. Otherwise it returns what stops the
	// statement: a cancel, the timeout, the end of a drain, a client that has left. Each counts once.
	Proceed() error
	// Pause waits for d. It returns what stops the statement meanwhile, as Proceed does.
	Pause(d time.Duration) error
}

// Nested is how a nested turn differs from a turn of the client. The client gets nothing but news of it.
type Nested struct {
	// Want is the expected answer.
	Want silent.Want
	// Outside: the statement is no part of the client's block.
	Outside bool
	// OptsOut: it must not run again after a conflict.
	OptsOut bool
}

// Result is how a nested turn has ended.
type Result struct {
	// Failed: the client was sent an error, or would have been without Want.
	Failed bool
	// Err is the error of the statement; nil if its answer is the expected one.
	Err *wire.Error
	// Answer is the server's answer.
	Answer *silent.Answer
	// Stopped is the cancel or timeout that came while the statement could not be stopped; nil if none
	// did. It stops the client's statement.
	Stopped *wire.Error
}

// Why returns the error with which the client's statement ends: Err, else Stopped, else nil.
func (r *Result) Why() error {
	switch {
	case r.Err != nil:
		return r.Err
	case r.Stopped != nil:
		return r.Stopped
	}
	return nil
}

// Deferred is the rest of a statement of the extended protocol, which is done at the Sync: that shows
// that nothing else is in its group.
type Deferred interface {
	// Finish does the rest and queues the answer. The error is for the client, or ends the session.
	Finish() error
	// NotAlone returns the error for the client if another frame comes before the Sync. Finish is not
	// called then.
	NotAlone() *wire.Error
}

var (
	// ErrTerminated ends the session of a client that has sent Terminate.
	ErrTerminated = errors.New("client said goodbye")
	// ErrInternal ends a session that has met an impossible state.
	ErrInternal = &wire.Error{Fatal: true, Code: "XX000", Message: "Sluice met a state that it does not know and closed the connection",
		Hint: "Please report this with Sluice's log line."}
)

// IsRefusal reports whether an error is for a client whose session goes on.
func IsRefusal(err error) bool {
	var e *wire.Error
	return errors.As(err, &e) && !e.Fatal
}
