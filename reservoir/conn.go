package reservoir

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/sluice-proxy/sluice/lease"
)

// Reason says why a backend was closed. The constants below are all there are.
type Reason string

const (
	// Aged: its hour of retirement has come.
	Aged Reason = "aged"
	// Guarded: found inside the guard window before its end.
	Guarded Reason = "guarded"
	// Broken: its socket failed, or the server ended it.
	Broken Reason = "broken"
	// PeekFailed: found dead on the shelf, by its next borrower.
	PeekFailed Reason = "peek_failed"
	// Pinned: it carries a session's state, and that session has ended.
	Pinned Reason = "pinned"
	// Dedicated: it was dialled for one session, which has ended.
	Dedicated Reason = "dedicated"
	// Cancelled: given up to end a statement that was cancelled or timed out.
	Cancelled Reason = "cancelled"
	// ClientGone: the client left in the middle of a turn or a transaction.
	ClientGone Reason = "client_gone"
	// ClientLeft: the client said goodbye, and what it had asked for before, which may
	// commit, has not ended in time. The server has not been asked to stop it.
	ClientLeft Reason = "client_left"
	// Unclean: nobody can say what state the server's session is in.
	Unclean Reason = "unclean"
	// Shutdown: the reservoir is closing.
	Shutdown Reason = "shutdown"
	// Surplus: its slot was needed for a dedicated backend.
	Surplus Reason = "surplus"
	// Unleased: its slot is owed to another sidecar, or the lease runs out.
	Unleased Reason = "unleased"
	// Revoked: its slot was lost, and it was cut while it was lent.
	Revoked Reason = "revoked"
	// Silent: it owed an answer and sent nothing for too long.
	Silent Reason = "silent"
	// ProbeFailed: found dead on the shelf, before any borrower did.
	ProbeFailed Reason = "probe_failed"
)

// Reasons are all of them.
var Reasons = []Reason{Aged, Guarded, Broken, PeekFailed, Pinned, Dedicated, Cancelled, ClientGone, ClientLeft, Unclean, Shutdown, Surplus,
	Unleased, Revoked, Silent, ProbeFailed}

const (
	// terminateWait bounds the good-bye to a server: an idle one closes within
	// a round trip, one that is busy with a statement does not listen.
	terminateWait = time.Second
	// closingWait bounds it once the reservoir is closing: by then whatever may end in
	// order has had the time of the drain. Nearly all servers are nearer than that.
	closingWait = 500 * time.Millisecond
	// terminateRead is how much of what it still sends is read meanwhile.
	terminateRead = 64 << 10
)

// Conn is a backend. While it is lent its exported fields belong to the
// borrower, who ends the loan by exactly one Release or Discard and does not
// touch it afterwards. A second one panics.
type Conn struct {
	// Net is the connection, TLS included, behind the startup: nothing unread,
	// no deadline.
	Net net.Conn
	// PID and Secret are the server's BackendKeyData. The secret has 4 bytes
	// before protocol 3.2, and may have up to 256 since.
	PID    uint32
	Secret []byte
	// Params are the ParameterStatus values of the startup. Shared: not to be changed.
	Params map[string]string
	// Notices arrived during the startup.
	Notices []*Notice
	// Attachment is the borrowers' own, kept from loan to loan.
	Attachment any
	// SendCancel asks the server to cancel what this backend runs; see Cancel.
	// Whoever dials sets it.
	SendCancel func(context.Context) error

	owner  *Reservoir
	permit *lease.Permit // released when the socket is closed
	// guarded by owner.mu
	state     connState
	dedicated bool
	severed   bool // cut while lent
	replacing bool // counted in shelf.replacing
	hour      int64
	began     time.Duration // when its dial began
	provenAt  time.Duration // when it was last known to answer
	patience  time.Duration // for how long that is enough
	retireAt  time.Duration // when the calendar wants it replaced
	guardAt   time.Duration // when it may no longer be lent
	endAt     time.Duration // the end of its lifetime
}

// connState is where a backend is between its dial and its end.
type connState uint8

const (
	dialed connState = iota
	ready
	lent
	ended
)

// NewConn makes a Conn of a connection whose startup is done, for a DialFunc.
func NewConn(conn net.Conn) *Conn { return &Conn{Net: conn} }

// Release gives the backend back. It must be idle, outside a transaction, with
// nothing unread. It is closed instead when its time has come, when it is
// dedicated, or when the reservoir is closing. Never blocks.
func (c *Conn) Release() { c.owner.release(c) }

// Discard closes the backend, telling the server first if that takes no time.
// Never blocks.
func (c *Conn) Discard(reason Reason) { c.owner.discard(c, reason) }

// Cancel asks the server, on a connection of its own, to cancel the statement
// that this backend runs. It returns nil when the server has closed that
// connection, after which no such request is on its way any more, or ctx's
// error. May be called while the borrower uses the backend.
func (c *Conn) Cancel(ctx context.Context) error {
	if c.SendCancel == nil {
		return errors.New("cancel: this backend was dialled without a way to cancel")
	}
	return c.SendCancel(ctx)
}

// sever closes the socket under whoever uses it, without a word to the server.
func (c *Conn) sever() {
	socket := c.Net
	if secured, ok := socket.(interface{ NetConn() net.Conn }); ok {
		socket = secured.NetConn()
	}
	socket.Close() // its borrower sees the error
}

// expire bounds how long terminate takes. It also ends a read that somebody else may be in.
func (c *Conn) expire(wait time.Duration) {
	_ = c.Net.SetDeadline(time.Now().Add(wait)) // a connection that is closed takes no time
}

// terminate ends the connection, in the time that expire gave. It returns, if possible,
// after the server has closed its end: only then has the server one connection less.
func (c *Conn) terminate() {
	_, err := c.Net.Write([]byte{'X', 0, 0, 0, 4})
	if err == nil {
		_, err = io.CopyN(io.Discard, c.Net, terminateRead)
	}
	if err != io.EOF {
		// TLS would wait 5 s to say good-bye to a peer that does not listen.
		if secured, ok := c.Net.(interface{ NetConn() net.Conn }); ok {
			secured.NetConn().Close()
		}
	}
	c.Net.Close() // an error changes nothing: the descriptor is gone
}
