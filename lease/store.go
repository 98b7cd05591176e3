package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Store is the lease's shared table. A failed call may have taken effect, may take effect later, and may take effect
// twice. Each call returns in bounded time. ShardChange.Apply and Reservation.Apply define the effects of calls.
type Store interface {
	// Settings returns the cluster's settings from the table, or ErrNoSettings if the table has none.
	Settings(ctx context.Context) (Settings, TableTime, error)
	// Look returns a shard, perhaps not in its newest state. Look returns a missing shard as an empty one.
	Look(ctx context.Context, shard int) (Shard, error)
	// Change makes a conditional write of a shard. Change returns the shard after the write, or as it was found when the
	// condition was not met.
	Change(ctx context.Context, c ShardChange) (after Shard, done bool, err error)
	// Reserve reserves tickets, rights to dial once. Reserve returns the time of the next ticket after the reservation, or
	// as it was found when the reservation was refused.
	Reserve(ctx context.Context, r Reservation) (next int64, done bool, at TableTime, err error)
	// FindsMovedShards reports whether this process can use shards that were moved to their own keys, as of the last
	// Settings. FindsMovedShards makes no call of DynamoDB.
	FindsMovedShards() bool
}

// TableTime is the time of DynamoDB's clock in an answer, in whole seconds. The zero TableTime means that the answer
// had no time.
type TableTime time.Time

// Settings are a cluster's limits. The DynamoDB table holds them. They apply to all sidecars, whatever their
// configuration.
type Settings struct {
	Format int // of the items, at most Format
	Shards int
	Limit  int // slots of the whole cluster
	Rate   int // tickets per second
	Burst  int // unused tickets that may accumulate
}

// ErrNoSettings is the error of a Store whose table was not initialised for the cluster.
var ErrNoSettings = errors.New("not initialised for this cluster: run sluice lease init")

// A MismatchError says that this process cannot work with a setting in the DynamoDB table.
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

// shardLimit returns a shard's part of the cluster's limit. The first shards get the remainder of the division.
func (s Settings) shardLimit(shard int) int {
	limit := s.Limit / s.Shards
	if shard < s.Limit%s.Shards {
		limit++
	}
	return limit
}

// ErrThrottled marks the error of a call that DynamoDB refused because of its load.
var ErrThrottled = errors.New("throttled")
