package reservoir

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/sluice-proxy/sluice/lease"
)

// CloseReason says why the reservoir closed a backend. The constants below are all values of a CloseReason.
type CloseReason string

const (
	// Aged means that the backend's time of retirement has come.
	Aged CloseReason = "aged"
	// Guarded means that the backend was found in the guard window, the last part of its lifetime.
	Guarded CloseReason = "guarded"
	// Broken means that the backend's socket failed, or that the server ended the connection.
	Broken CloseReason = "broken"
	// PeekFailed means that the borrower found the backend dead before its first use.
	PeekFailed CloseReason = "peek_failed"
	// Pinned means that the backend still has state of a session that has ended.
	Pinned CloseReason = "pinned"
	// Dedicated means that the session of a dedicated backend has ended.
	Dedicated CloseReason = "dedicated"
	// Cancelled means that the backend was closed to end a statement that was cancelled or timed out.
	Cancelled CloseReason = "cancelled"
	// ClientGone means that the client left in the middle of a turn or a transaction.
	ClientGone CloseReason = "client_gone"
	// ClientLeft means that the client sent Terminate, and that its last request did not end in time. The server was not
	// asked to cancel the request, which may commit.
	ClientLeft CloseReason = "client_left"
	// Unclean means that the state of the server's session is unknown.
	Unclean CloseReason = "unclean"
	// Shutdown means that the reservoir is closing.
	Shutdown CloseReason = "shutdown"
	// Surplus means that the backend was closed to make room for a dedicated backend.
	Surplus CloseReason = "surplus"
	// Unleased means that another sidecar has a claim to the backend's slot, or that the lease is about to run out.
	Unleased CloseReason = "unleased"
	// Revoked means that the backend's slot was lost, and that its socket was closed during a loan.
	Revoked CloseReason = "revoked"
	// Silent means that the backend sent nothing for too long while an answer was due.
	Silent CloseReason = "silent"
	// ProbeFailed means that a probe found the ready backend dead.
	ProbeFailed CloseReason = "probe_failed"
)

// CloseReasons lists all reasons for which a backend is closed.
var CloseReasons = []CloseReason{Aged, Guarded, Broken, PeekFailed, Pinned, Dedicated, Cancelled, ClientGone, ClientLeft, Unclean, Shutdown, Surplus,
	Unleased, Revoked, Silent, ProbeFailed}

const (
	// terminateWait bounds the wait for the server's end of the connection after a Terminate. An idle server closes within
	// a round trip. A server that executes a statement does not read.
	terminateWait = time.Second
	// closingWait replaces terminateWait when the reservoir is closing. The drain has allowed time for orderly ends, and
	// nearly all servers are nearer than closingWait.
	closingWait = 500 * time.Millisecond
	// terminateRead bounds how much output of the server is read after a Terminate.
	terminateRead = 64 << 10
)

// Conn is a backend. While it is lent, its exported fields belong to the borrower. The borrower ends the loan with
// exactly one Release or Discard, and does not use the Conn afterwards. A second Release or Discard panics.
type Conn struct {
	// Net is the connection after the startup, with TLS where used. Net has no unread byte and no deadline.
	Net net.Conn
	// PID and Secret are the server's BackendKeyData. The secret has 4 bytes before protocol 3.2,
	// and up to 256 since.
	PID    uint32
	Secret []byte
	// Params are the server's ParameterStatus values of the startup. The map is shared and must not be changed.
	Params map[string]string
	// Notices are the NoticeResponses that arrived during the startup.
	Notices []*Notice
	// Attachment is data of the borrowers. It remains with the backend from loan to loan.
	Attachment any
	// SendCancel asks the server to cancel this backend's statement, as Cancel describes. The DialFunc sets SendCancel.
	SendCancel func(context.Context) error

	owner  *Reservoir
	permit *lease.Permit // released when the socket is closed
	// owner.mu guards the remaining fields.
	state        connState
	dedicated    bool
	socketClosed bool // its socket was closed during a loan
	replacing    bool // counted in shelf.replacing
	hour         int64
	began        time.Duration // when its dial began
	provenAt     time.Duration // when it last answered
	probeFreeFor time.Duration // the time after provenAt in which it needs no probe
	retireAt     time.Duration // when the calendar retires it
	guardAt      time.Duration // when it may no longer be lent
	endAt        time.Duration // the end of its lifetime
}

// connState is the state of a backend between its dial and its end.
type connState uint8

const (
	dialed connState = iota
	ready
	lent
	ended
)

// NewConn returns a Conn for a connection after its startup. NewConn is for a DialFunc.
func NewConn(conn net.Conn) *Conn { return &Conn{Net: conn} }

// Release returns the backend to the reservoir. The backend must be idle, outside a transaction, with nothing unread. A
// backend that is dedicated or due for retirement is closed, and so is any backend when the reservoir is closing.
// Release never blocks.
func (c *Conn) Release() { c.owner.release(c) }

// Discard ends the loan and closes the backend. Discard sends Terminate first if that does not block. Discard never
// blocks.
func (c *Conn) Discard(reason CloseReason) { c.owner.discard(c, reason) }

// Cancel asks the server, on a separate connection, to cancel this backend's statement. Cancel returns nil when the
// server has closed the separate connection, because the server has then handled the request. It returns ctx's error
// when ctx ends. Cancel may be called while the borrower uses the backend.
func (c *Conn) Cancel(ctx context.Context) error {
	if c.SendCancel == nil {
		return errors.New("cancel: this backend was dialled without a way to cancel")
	}
	return c.SendCancel(ctx)
}

// closeSocket closes the backend's socket during a loan, without a Terminate.
func (c *Conn) closeSocket() {
	socket := c.Net
	if secured, ok := socket.(interface{ NetConn() net.Conn }); ok {
		socket = secured.NetConn()
	}
	socket.Close() // its borrower sees the error
}

// setCloseDeadline sets the socket's deadline to now plus wait. The deadline bounds terminate and a concurrent read.
func (c *Conn) setCloseDeadline(wait time.Duration) {
	_ = c.Net.SetDeadline(time.Now().Add(wait)) // a closed connection needs no bound
}

// terminate sends Terminate and closes the connection, before the deadline that setCloseDeadline has set. If
// possible, terminate returns after the server has closed its side, and so no longer counts the connection.
func (c *Conn) terminate() {
	_, err := c.Net.Write([]byte{'X', 0, 0, 0, 4})
	if err == nil {
		_, err = io.CopyN(io.Discard, c.Net, terminateRead)
	}
	if err != io.EOF {
		// The underlying socket is closed first, because TLS would wait 5 s for a peer that does not read.
		if secured, ok := c.Net.(interface{ NetConn() net.Conn }); ok {
			secured.NetConn().Close()
		}
	}
	c.Net.Close() // after an error the descriptor is released as well
}
