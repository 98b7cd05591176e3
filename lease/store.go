package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Store is the table. A call that fails may have happened, may happen later, and
// may happen twice; it returns in bounded time. Change.Apply and
// Reservation.Apply define the rest.
type Store interface {
	// Settings reads what the table was initialised with; ErrNoSettings when it
	// was not.
	Settings(ctx context.Context) (Settings, Stamp, error)
	// Look reads a shard, perhaps not its newest state. A shard that does not
	// exist is empty.
	Look(ctx context.Context, shard int) (Shard, error)
	// Change returns the shard after the change, or, when its condition did not
	// hold, as it was found.
	Change(ctx context.Context, c Change) (after Shard, done bool, err error)
	// Reserve returns the next-ticket time after the reservation, or, when it was
	// refused, as it was found.
	Reserve(ctx context.Context, r Reservation) (next int64, done bool, at Stamp, err error)
	// Follows reports whether this process finds shards whose items are moved, as of
	// the last Settings. It makes no call.
	Follows() bool
}

// Stamp is the table's clock as an answer showed it: the whole second in which
// it was given. The zero Stamp is none.
type Stamp time.Time

// Settings are the truth about a cluster, kept in the table: they hold for all
// sidecars, however these are configured.
type Settings struct {
	Format int // of the items, at most Format
	Shards int
	Limit  int // slots of the whole cluster
	Rate   int // tickets per second
	Burst  int // tickets that may be saved up
}

// ErrNoSettings is returned by a Store whose table was not initialised for the
// cluster.
var ErrNoSettings = errors.New("not initialised for this cluster: run sluice lease init")

// A MismatchError says that this process cannot work by the table's settings.
type MismatchError struct {
	Key               string
	Table, Configured int
}

func (e *MismatchError) Error() string {
	if e.Key == keyFormat {
		return fmt.Sprintf("lease: the table is of format %d, which this version does not know, only formats up to %d: upgrade Sluice", e.Table, e.Configured)
	}
	return fmt.Sprintf("lease: %s: the table has %d, this process %d: change the configuration or run sluice lease init",
		e.Key, e.Table, e.Configured)
}

// shardLimit is a shard's part of the limit; the first ones have the remainder.
func (s Settings) shardLimit(shard int) int {
	limit := s.Limit / s.Shards
	if shard < s.Limit%s.Shards {
		limit++
	}
	return limit
}

// ErrThrottled marks a call that the table refused for its load.
var ErrThrottled = errors.New("throttled")
