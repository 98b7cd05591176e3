// Package trip follows the round trips that Sluice makes with a server on its own account.
//
// The server answers in order. What it has not answered to Sluice, the next reader of the
// connection would take for its own answer, and every reader behind it gets the answer of the
// one before. So a connection carries nothing as long as a round trip on it has not ended, and
// one that was broken off never carries anything again.
package trip

import "errors"

// ErrUnended says that a connection cannot be used: a round trip of Sluice's own has begun on it
// and has not ended.
var ErrUnended = errors.New("an answer to Sluice itself has not come to its end on this connection")

// Trips are the round trips of one connection. The zero value is that of a connection on which
// none has begun. The owner of the connection calls the methods, one at a time.
type Trips struct{ under bool }

// Begin claims the connection in front of the first byte of a round trip. With ErrUnended another
// one has not ended, and the connection must be given up.
func (t *Trips) Begin() error {
	if t.under {
		return ErrUnended
	}
	t.under = true
	return nil
}

// End says that the ReadyForQuery of the round trip was read, and nothing of it is left.
func (t *Trips) End() { t.under = false }

// Err returns nil where the connection may carry something, and ErrUnended where it must be given
// up.
func (t *Trips) Err() error {
	if t.under {
		return ErrUnended
	}
	return nil
}
