// Package sequence decides whose numbers currval and lastval would return. A server's session returns what it has
// drawn itself, to any client. A Client records on which backend its session has drawn last, a Backend which
// client has drawn there, and a History which statements the client's transaction has run there.
//
// The values have no locks. A Client belongs to its session, a Backend to the session that the backend is lent to.
// The package does no I/O: callers send the SQL that the decisions ask for.
package sequence

import "sync/atomic"

// several is the user of a backend if more than one client may have drawn there, or if its numbers are out of date.
const several = ^uint64(0)

// backends is the serial number of the last backend.
var backends atomic.Uint64

// Backend is what clients may have drawn on one backend. It stays with the connection from lend to lend.
type Backend struct {
	History History
	// serial tells backends apart.
	serial uint64
	// user is the client that may have advanced a sequence there: 0 for none, or several.
	user uint64
}

// NewBackend returns the record of a new connection, without numbers.
func NewBackend() Backend { return Backend{serial: backends.Add(1)} }

// Cleared records that the server has forgotten all numbers.
func (b *Backend) Cleared() { b.user = 0 }

// Outdate records that the client believes in a newer number than the backend would return: no client may ask there.
func (b *Backend) Outdate() { b.user = several }

// Client is what one client has drawn. Methods take the id of its session, which is above 0.
type Client struct {
	// usedOn is the serial number of the backend on which the client may have drawn last; 0 for none.
	usedOn uint64
	// wantsOwn: the client has asked in vain.
	wantsOwn bool
	// own: the session keeps a backend for its numbers alone. void: it must give that backend up.
	own, void bool
}

// Use records that client id may draw on b. It is called before the statement is sent, because no rollback takes a
// draw back.
func (c *Client) Use(id uint64, b *Backend) {
	switch {
	case b.user == 0:
		b.user = id
	case !c.Owns(id, b):
		b.user = several
	}
	c.usedOn = b.serial
}

// Owns reports whether all numbers of b are those of client id, and its newest.
func (c *Client) Owns(id uint64, b *Backend) bool { return b.user == id && c.usedOn == b.serial }

// Believes reports whether b returns the right answer to client id. That is so if all numbers there are the client's.
// It is also so if b has no numbers and the client has drawn none: the server returns its error.
func (c *Client) Believes(id uint64, b *Backend) bool {
	return c.Owns(id, b) || b.user == 0 && c.usedOn == 0
}

// Others reports whether b has numbers that client id must not see.
func (c *Client) Others(id uint64, b *Backend) bool { return b.user != 0 && !c.Owns(id, b) }

// WantOwn records that the client has asked in vain: its next transaction should have a backend of its own.
func (c *Client) WantOwn() { c.wantsOwn = true }

// WantsOwn reports whether the client has ever asked in vain.
func (c *Client) WantsOwn() bool { return c.wantsOwn }

// GotOwn records that the session keeps a new backend for its numbers alone.
func (c *Client) GotOwn() { c.own, c.usedOn = true, 0 }

// ClearOwn records that the session keeps no backend, or keeps it for more than its numbers.
func (c *Client) ClearOwn() { c.own, c.void = false, false }

// Place is where a DISCARD SEQUENCES has run.
type Place uint8

const (
	// Here: Sluice has answered it, and the server still knows the numbers.
	Here Place = iota
	// AtServer: the server has run it, as the last statement of its request.
	AtServer
	// AmidOthers: the server has run it, and may have run more statements of the request since. They may have drawn.
	AmidOthers
)

// Discard records a DISCARD SEQUENCES, or DISCARD ALL, of the client. b is its backend; nil for none, which is
// possible Here alone.
func (c *Client) Discard(at Place, b *Backend) {
	c.void = at == Here && c.own && c.usedOn != 0
	c.usedOn = 0
	if b == nil {
		return
	}
	b.History.Forget()
	switch at {
	case AtServer:
		b.user = 0
	case AmidOthers:
		b.user = several
	}
}

// Void records that the session gives its backend up, for more than its numbers, at the end of its transaction.
func (c *Client) Void() { c.void = true }

// IsVoid reports whether the session must give up the backend that it keeps at the end of its transaction, because the
// client has discarded what the server still knows there.
func (c *Client) IsVoid() bool { return c.void }
