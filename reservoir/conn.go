package reservoir

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/sluice-proxy/sluice/lease"
)

// Reason says why a backend was closed. The constants below are all reasons.
type Reason string

const (
	// Aged: its time of retirement has come.
	Aged Reason = "aged"
	// Guarded: it was found in the guard window before its end.
	Guarded Reason = "guarded"
	// Broken: its socket failed, or the server ended it.
	Broken Reason = "broken"
	// PeekFailed: its borrower found it dead on the shelf.
	PeekFailed Reason = "peek_failed"
	// Pinned: it carries the state of a session that has ended.
	Pinned Reason = "pinned"
	// Dedicated: its session has ended.
	Dedicated Reason = "dedicated"
	// Cancelled: it was closed to end a statement that was cancelled or timed out.
	Cancelled Reason = "cancelled"
	// ClientGone: the client left in the middle of a turn or a transaction.
	ClientGone Reason = "client_gone"
	// ClientLeft: the client sent Terminate, and its last request, which may commit, did not end in
	// time. The server was not asked to cancel it.
	ClientLeft Reason = "client_left"
	// Unclean: the state of the server's session is unknown.
	Unclean Reason = "unclean"
	// Shutdown: the reservoir is closing.
	Shutdown Reason = "shutdown"
	// Surplus: a dedicated backend needed its slot.
	Surplus Reason = "surplus"
	// Unleased: another sidecar has a claim to its slot, or the lease runs out.
	Unleased Reason = "unleased"
	// Revoked: its slot was lost, and its socket was closed during a loan.
	Revoked Reason = "revoked"
	// Silent: it sent nothing for too long while an answer was due.
	Silent Reason = "silent"
	// ProbeFailed: a probe found it dead on the shelf.
	ProbeFailed Reason = "probe_failed"
)

// Reasons lists all reasons.
var Reasons = []Reason{Aged, Guarded, Broken, PeekFailed, Pinned, Dedicated, Cancelled, ClientGone, ClientLeft, Unclean, Shutdown, Surplus,
	Unleased, Revoked, Silent, ProbeFailed}

const (
	// terminateWait bounds the goodbye to a server. An idle server closes within a round trip; one
	// that executes a statement does not read.
	terminateWait = time.Second
	// closingWait is that bound once the reservoir is closing. The drain has given orderly ends
	// their time, and nearly all servers are nearer than that.
	closingWait = 500 * time.Millisecond
	// terminateRead bounds how much of the server's last output is read meanwhile.
	terminateRead = 64 << 10
)

// Conn is a backend. While it is lent, its exported fields belong to the borrower. The borrower
// ends the loan with exactly one Release or Discard, and does not use the Conn afterwards. A second
// one panics.
type Conn struct {
	// Net is the connection, with TLS, after the startup. It has no unread byte and no deadline.
	Net net.Conn
	// PID and Secret are the server's BackendKeyData. The secret has 4 bytes before protocol 3.2,
	// and up to 256 since.
	PID    uint32
	Secret []byte
	// Params are the ParameterStatus values of the startup. They are shared: do not change them.
	Params map[string]string
	// Notices arrived during the startup.
	Notices []*Notice
	// Attachment belongs to the borrowers. It stays with the backend from loan to loan.
	Attachment any
	// SendCancel asks the server to cancel this backend's statement; see Cancel. The DialFunc sets
	// it.
	SendCancel func(context.Context) error

	owner  *Reservoir
	permit *lease.Permit // released when the socket is closed
	// guarded by owner.mu
	state     connState
	dedicated bool
	severed   bool // its socket was closed during a loan
	replacing bool // counted in shelf.replacing
	hour      int64
	began     time.Duration // when its dial began
	provenAt  time.Duration // when it last answered
	patience  time.Duration // the time after provenAt in which it needs no probe
	retireAt  time.Duration // when the calendar retires it
	guardAt   time.Duration // when it may no longer be lent
	endAt     time.Duration // the end of its lifetime
}

// connState is the state of a backend between its dial and its end.
type connState uint8

const (
	dialed connState = iota
	ready
	lent
	ended
)

// NewConn returns a Conn for a connection after its startup. A DialFunc uses it.
func NewConn(conn net.Conn) *Conn { return &Conn{Net: conn} }

// Release returns the backend. It must be idle, outside a transaction, with nothing unread. It is
// closed instead when it is due or dedicated, or when the reservoir is closing. Release never
// blocks.
func (c *Conn) Release() { c.owner.release(c) }

// Discard closes the backend, and sends Terminate first if that does not block. Discard never
// blocks.
func (c *Conn) Discard(reason Reason) { c.owner.discard(c, reason) }

// Cancel asks the server, on a separate connection, to cancel this backend's statement. It returns
// nil when the server has closed that connection: the request has been handled then. It returns
// ctx's error when ctx ends. Cancel may be called while the borrower uses the backend.
func (c *Conn) Cancel(ctx context.Context) error {
	if c.SendCancel == nil {
		return errors.New("cancel: this backend was dialled without a way to cancel")
	}
	return c.SendCancel(ctx)
}

// sever closes the socket during a loan, without a Terminate.
func (c *Conn) sever() {
	socket := c.Net
	if secured, ok := socket.(interface{ NetConn() net.Conn }); ok {
		socket = secured.NetConn()
	}
	socket.Close() // its borrower sees the error
}

// expire bounds the time of terminate. It also ends a concurrent read.
func (c *Conn) expire(wait time.Duration) {
	_ = c.Net.SetDeadline(time.Now().Add(wait)) // a closed connection needs no bound
}

// terminate ends the connection, within the time that expire gave. If possible it returns after the
// server has closed its end, when the server has one connection less.
func (c *Conn) terminate() {
	_, err := c.Net.Write([]byte{'X', 0, 0, 0, 4})
	if err == nil {
		_, err = io.CopyN(io.Discard, c.Net, terminateRead)
	}
	if err != io.EOF {
		// TLS would wait 5 s for a peer that does not read.
		if secured, ok := c.Net.(interface{ NetConn() net.Conn }); ok {
			secured.NetConn().Close()
		}
	}
	c.Net.Close() // after an error the descriptor is released as well
}
