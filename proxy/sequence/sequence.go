// Package sequence decides whose numbers currval and lastval would return on a backend. A server's session returns the
// numbers that it has drawn itself, to any client. A ClientRecord records on which backend its session has drawn last.
// A BackendRecord records which client has drawn on the backend, and a RunHistory which statements the client's
// transaction has run there.
//
// The values have no locks. A ClientRecord belongs to its session, and a BackendRecord to the session to which the
// backend is lent. The package does no I/O: callers send the SQL that the decisions require.
package sequence

import "sync/atomic"

// manyUsers is the value of BackendRecord.user for a backend on which more than one client may have drawn numbers of
// sequences, or whose numbers are out of date.
const manyUsers = ^uint64(0)

// lastSerial is the serial number of the newest BackendRecord.
var lastSerial atomic.Uint64

// BackendRecord records which client may have drawn numbers of sequences on one backend. A BackendRecord stays with its
// backend when another session gets the backend.
type BackendRecord struct {
	History RunHistory
	// serial is a number that identifies the backend.
	serial uint64
	// user is the id of the client that may have advanced a sequence on this backend. 0 means none, manyUsers several.
	user uint64
}

// NewBackendRecord returns the record of a new connection, on which no client has drawn numbers.
func NewBackendRecord() BackendRecord { return BackendRecord{serial: lastSerial.Add(1)} }

// RecordCleared records that the server has forgotten all numbers that its session has drawn from sequences.
func (b *BackendRecord) RecordCleared() { b.user = 0 }

// MarkOutdated records that the client knows of a newer number than the backend would return. From then on, no
// client may ask the backend for numbers.
func (b *BackendRecord) MarkOutdated() { b.user = manyUsers }

// ClientRecord records where one client has drawn numbers of sequences. Methods take the id of the client's session,
// which is above 0.
type ClientRecord struct {
	// usedOn is the serial number of the backend on which the client may have drawn last, or 0 for none.
	usedOn uint64
	// wantsOwn means that the client has asked for its numbers of sequences on a backend that could not return them.
	wantsOwn bool
}

// RecordUse records that client id may draw numbers on b. The caller calls RecordUse before it sends the statement,
// because no rollback takes a number back.
func (c *ClientRecord) RecordUse(id uint64, b *BackendRecord) {
	switch {
	case b.user == 0:
		b.user = id
	case !c.OwnsNumbers(id, b):
		b.user = manyUsers
	}
	c.usedOn = b.serial
}

// OwnsNumbers reports whether all numbers of sequences on b belong to client id, and are the client's newest ones.
func (c *ClientRecord) OwnsNumbers(id uint64, b *BackendRecord) bool {
	return b.user == id && c.usedOn == b.serial
}

// CanTrust reports whether b returns the right answer to currval and lastval of client id. The answer is right if all
// numbers on b are the client's. If b has no numbers and the client has drawn none, the server's error is the right
// answer.
func (c *ClientRecord) CanTrust(id uint64, b *BackendRecord) bool {
	return c.OwnsNumbers(id, b) || b.user == 0 && c.usedOn == 0
}

// HasForeignNumbers reports whether b has numbers of sequences that client id must not see.
func (c *ClientRecord) HasForeignNumbers(id uint64, b *BackendRecord) bool {
	return b.user != 0 && !c.OwnsNumbers(id, b)
}

// RequestOwnBackend records that the client asked for its numbers of sequences on a backend that could not return them.
// The client's next transaction should have a backend of its own.
func (c *ClientRecord) RequestOwnBackend() { c.wantsOwn = true }

// WantsOwnBackend reports whether RequestOwnBackend was ever called for the client.
func (c *ClientRecord) WantsOwnBackend() bool { return c.wantsOwn }

// RecordOwnBackend records that the session keeps a new backend, on which it has drawn no number yet.
func (c *ClientRecord) RecordOwnBackend() { c.usedOn = 0 }

// DiscardPlace says where a DISCARD SEQUENCES has run.
type DiscardPlace uint8

const (
	// Here means that Sluice has answered the DISCARD SEQUENCES, and that the server still knows the numbers.
	Here DiscardPlace = iota
	// AtServer means that the server has run the DISCARD SEQUENCES, as the last statement of its request.
	AtServer
	// AmidOthers means that the server has run the DISCARD SEQUENCES, and perhaps more statements of the request since.
	// The later statements may have drawn numbers.
	AmidOthers
)

// RecordDiscard records a DISCARD SEQUENCES, or DISCARD ALL, of the client. b is the client's backend, or nil for none,
// which is possible with Here only. remain means that the server may still know numbers that the client has discarded.
func (c *ClientRecord) RecordDiscard(at DiscardPlace, b *BackendRecord) (remain bool) {
	remain = at == AmidOthers || at == Here && c.usedOn != 0
	c.usedOn = 0
	if b == nil {
		return remain
	}
	b.History.Clear()
	switch at {
	case AtServer:
		b.user = 0
	case AmidOthers:
		b.user = manyUsers
	}
	return remain
}
