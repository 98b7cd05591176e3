// Package trip tracks the round trips that Sluice itself makes on a server's connection.
//
// The server answers in order. If an answer to Sluice were not read, the next reader would take it for the answer to
// its own request, and so would each later reader. So Sluice sends nothing else on a connection during a round trip.
// It never uses a connection again whose round trip was interrupted.
package trip

import "errors"

// ErrUnended says that a connection cannot be used, because a round trip that Sluice itself made has not ended.
var ErrUnended = errors.New("an answer to Sluice itself has not come to its end on this connection")

// RoundTrips tracks the round trips that Sluice makes on one connection. The zero RoundTrips has none in progress. Only
// the connection's owner calls its methods.
type RoundTrips struct{ inProgress bool }

// Begin claims the connection before the first byte of a round trip. If Begin returns ErrUnended, the connection must
// be closed.
func (t *RoundTrips) Begin() error {
	if t.inProgress {
		return ErrUnended
	}
	t.inProgress = true
	return nil
}

// End records that the ReadyForQuery of the round trip was read, and that nothing else is to be read.
func (t *RoundTrips) End() { t.inProgress = false }

// Err returns nil if the connection may be used. Err returns ErrUnended if the connection must be closed.
func (t *RoundTrips) Err() error {
	if t.inProgress {
		return ErrUnended
	}
	return nil
}
