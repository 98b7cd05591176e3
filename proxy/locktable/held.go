package locktable

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/proxy/advisory"
)

// This file has the rows of a session's locks, and the goroutine that renews them. The session and that goroutine share
// Held. Only one renewal runs at a time.
//
// A second renewal could arrive late and shorten the lease that protects running DDL. Each renewal is conditional on
// the sequence number of the one before. A renewal whose answer was lost therefore has no effect after the next is
// confirmed. Until then the session sends no DDL (Doubt).
//
// The loss of a lock shows when a renewal changes fewer rows than it should, or when a fence fails. A fence is a
// query before each write, which fails if a lock was taken over. After a loss the client gets an error and its
// session ends. In PostgreSQL too, a lock is lost only with its connection.

// Held holds the advisory locks of one session until the session ends. The goroutine that renews the locks exists only
// while the session has a lock.
type Held struct {
	table *Table
	// lost means that another session has taken over one of the locks, so that this session must end.
	lost atomic.Bool

	// renewMu is locked during a renewal of the locks. renewMu is locked before mu.
	renewMu sync.Mutex

	mu sync.Mutex
	// held has the rows of the session's locks. releaseLater has the names of locks to release after the transaction.
	// mu guards both fields.
	held         []advisory.LockHolder
	releaseLater map[string]bool
	// ddl means that DDL is running or about to run. mu guards ddl. Until doubtUntil, on the table's clock, DDL may be
	// running on a backend that was lost or dropped.
	ddl        bool
	doubtUntil time.Duration
	// stop ends the goroutine that renews the locks, or is nil without a goroutine.
	stop context.CancelFunc

	// These fields belong to the session's goroutine. times has, by a lock's name, how often the session has taken that
	// lock. fenced means that the open transaction checks the locks. changes counts the changes of the set of rows.
	times   map[string]int
	fenced  bool
	changes uint64
}

// NewHeld returns the locks of a session that holds none.
func (t *Table) NewHeld() *Held {
	return &Held{table: t, releaseLater: map[string]bool{}, times: map[string]int{}}
}

// IsLost reports whether another session has taken over one of the locks.
func (l *Held) IsLost() bool { return l.lost.Load() }

// CopyHolders returns a copy of the rows of the session's locks, and in promise the lease for the next renewal.
func (l *Held) CopyHolders() (held []advisory.LockHolder, promise time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.table
	return slices.Clone(l.held), t.Terms.LeaseLength(l.ddl || t.clock() < l.doubtUntil)
}

// Add adds the row of a lock, and starts the goroutine that renews the locks if there is none. The first renewal is due
// after a third of a lease.
func (l *Held) Add(h advisory.LockHolder) {
	l.table.held.Add(1)
	l.changes++
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, h)
	if l.stop == nil {
		var ctx context.Context
		ctx, l.stop = context.WithCancel(l.table.database.Context())
		l.table.database.Go(func() { l.renewPeriodically(ctx) })
	}
}

// Remove removes the rows of the locks whose names gone accepts, and returns the rows. Remove does not change the
// table. If no row is left, the goroutine that renews the locks ends. Only the session's goroutine may call Remove.
func (l *Held) Remove(gone func(name string) bool) (dropped []advisory.LockHolder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = slices.DeleteFunc(l.held, func(h advisory.LockHolder) bool {
		if gone(h.Name) {
			dropped = append(dropped, h)
			delete(l.releaseLater, h.Name)
			return true
		}
		return false
	})
	l.changes += uint64(len(dropped))
	l.table.held.Add(int64(-len(dropped)))
	if len(l.held) == 0 && l.stop != nil {
		l.stop()
		l.stop = nil
	}
	return dropped
}

// renewPeriodically renews the locks until ctx ends. After a failure renewPeriodically tries again soon, since one
// renewal must succeed per lease.
func (l *Held) renewPeriodically(ctx context.Context) {
	every := l.table.Terms.RenewInterval()
	for pause := every; ; {
		if sleepContext(ctx, pause*9/10+rand.N(pause/10+1)) != nil {
			return
		}
		pause = every
		trip, cancel := context.WithTimeout(ctx, every)
		err := l.renewAll(trip)
		cancel()
		if err != nil && ctx.Err() == nil {
			l.table.database.Warn("advisory locks could not be renewed", "error", err)
			pause = every / 4
		}
	}
}

// renewAll renews all locks once, with the lease that is needed now. After a nil error, the session still has all its
// locks, or lost is set.
func (l *Held) renewAll(ctx context.Context) error {
	l.renewMu.Lock()
	defer l.renewMu.Unlock()
	return l.renewAllLocked(ctx)
}

// renewAllLocked does the work of renewAll. The caller holds renewMu. One statement renews at most advisory.Batch
// locks. If a renewal changes too few rows, the rows are read. An earlier renewal may have changed them, or another
// session may have taken a lock.
func (l *Held) renewAllLocked(ctx context.Context) (err error) {
	held, promise := l.CopyHolders()
	var errs []error
	for some := range slices.Chunk(held, advisory.Batch) {
		errs = append(errs, l.renewBatch(ctx, some, promise))
	}
	return errors.Join(errs...)
}

// renewBatch renews some of the locks by one statement.
func (l *Held) renewBatch(ctx context.Context, some []advisory.LockHolder, promise time.Duration) (err error) {
	for range maxTries {
		held := l.stillHeld(some)
		if len(held) == 0 || l.lost.Load() {
			return nil
		}
		sent := l.table.clock()
		var tag string
		tag, err = l.table.database.Query(ctx, advisory.RenewSQL(held, promise), nil)
		_, unsent := errors.AsType[*NotSentError](err)
		_, unchanged := errors.AsType[*RefusedError](err)
		switch {
		case err == nil && updatedRowCount(tag) == len(held):
			l.updateRows(held, func(h advisory.LockHolder) (advisory.LockHolder, bool) { return h.WithRenewal(promise, sent), true })
			return nil
		case isMissingTable(err):
			l.MarkLost()
			return err
		case err == nil:
			if err = l.rereadRows(ctx, held); err != nil {
				return err
			}
		case isLostRace(err): // the next look shows which session won
		case unsent, unchanged:
			return err
		default:
			l.updateRows(held, func(h advisory.LockHolder) (advisory.LockHolder, bool) { return h.WithDoubt(), true })
			return err
		}
	}
	return err
}

// stillHeld returns the locks among some that the session still holds, with their latest rows.
func (l *Held) stillHeld(some []advisory.LockHolder) (held []advisory.LockHolder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range some {
		if at := l.indexOfHolder(h); at >= 0 {
			held = append(held, l.held[at])
		}
	}
	return held
}

// indexOfHolder returns the index of a lock with the same name and owner, or -1. A lock that was taken again has a new
// owner. The caller holds mu.
func (l *Held) indexOfHolder(h advisory.LockHolder) int {
	return slices.IndexFunc(l.held, func(o advisory.LockHolder) bool { return o.Name == h.Name && o.Row.Owner == h.Row.Owner })
}

// rereadRows reads the rows of locks. If a row is no longer the session's, its lock is lost. Otherwise the row's
// sequence number is used from now on, with the lease as last confirmed.
func (l *Held) rereadRows(ctx context.Context, held []advisory.LockHolder) error {
	names := make([]string, len(held))
	for i, h := range held {
		names[i] = h.Name
	}
	rows := map[string]*advisory.LockRow{}
	var unreadable error
	_, err := l.table.database.Query(ctx, advisory.SelectRowsSQL(names...), func(columns []string) {
		name, row, err := advisory.ParseRow(columns)
		if rows[name] = &row; err != nil {
			unreadable = err
		}
	})
	if err == nil {
		err = unreadable
	}
	if err != nil {
		return err
	}
	l.updateRows(held, func(h advisory.LockHolder) (advisory.LockHolder, bool) { return h.WithRow(rows[h.Name]) })
	return nil
}

// updateRows replaces each row of some locks by the row that the function found returns. updateRows skips locks that
// were released meanwhile, even if the session has taken them again with a new owner.
func (l *Held) updateRows(of []advisory.LockHolder, found func(advisory.LockHolder) (advisory.LockHolder, bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range of {
		at := l.indexOfHolder(h)
		if at < 0 {
			continue
		}
		now, ok := found(l.held[at])
		if l.held[at] = now; !ok {
			l.markLostLocked()
		}
	}
}

// MarkLost records that another session has taken one of the session's locks. The loss is final, since the client may
// have relied on any of its locks. The client gets the error at the end of the turn, or at its next request.
func (l *Held) MarkLost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.markLostLocked()
}

// markLostLocked does the work of MarkLost. The caller holds mu. markLostLocked counts and logs the loss once a
// session.
func (l *Held) markLostLocked() {
	if !l.lost.Swap(true) {
		l.table.database.RecordLoss()
		l.table.database.Warn("an advisory lock was taken over by another session", "lease", l.table.Terms.Lease)
	}
}

// hasLongLeases reports whether DDL may be sent now. Every lock's row must have the long lease, confirmed recently,
// with no renewal in doubt. The caller holds renewMu.
func (l *Held) hasLongLeases() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.table
	return !slices.ContainsFunc(l.held, func(h advisory.LockHolder) bool { return !h.CoversDDL(t.Terms, t.clock()) })
}

// ExtendForDDL renews the locks with a lease that is long enough for DDL, and reports success. endDDLAndTakeReleases
// ends the long lease.
func (l *Held) ExtendForDDL(ctx context.Context) (ok bool, err error) {
	l.renewMu.Lock()
	defer l.renewMu.Unlock()
	l.mu.Lock()
	l.ddl = true
	l.mu.Unlock()
	if l.hasLongLeases() {
		return true, nil
	}
	err = l.renewAllLocked(ctx)
	return err == nil && !l.lost.Load() && l.hasLongLeases(), err
}

// RecordBackendGivenUp records that the session gave up a backend that may still run DDL. A cluster continues a
// statement whose client is gone. Until the DDL has certainly ended, the locks are not released and retain the long
// lease.
func (l *Held) RecordBackendGivenUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ddl {
		l.doubtUntil = l.table.clock() + l.table.Terms.LongestDDL
	}
}

// endDDLAndTakeReleases records that the session's backend runs no statement any more. The result is the locks to
// release now. The next renewal has the ordinary lease, so that a crash between two statements of a migration blocks
// other sessions only briefly.
func (l *Held) endDDLAndTakeReleases() (over []advisory.LockHolder) {
	l.mu.Lock()
	l.ddl = false
	none := len(l.releaseLater) == 0
	l.mu.Unlock()
	if none {
		return nil
	}
	return l.Remove(func(name string) bool { return l.releaseLater[name] })
}

// cancelRelease reports whether a lock was to be released after the transaction, and cancels the release. No other
// session has had the lock.
func (l *Held) cancelRelease(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	stays := l.releaseLater[name]
	delete(l.releaseLater, name)
	return stays
}

// Only the session's goroutine changes the field ddl. The goroutine that renews the locks reads it.

// mayRunDDL returns two flags. ddl means that DDL may be running on the session's backend or in its open transaction.
// doubt means that DDL may be running on a backend that was given up, and that its end is unknown.
func (l *Held) mayRunDDL() (ddl, doubt bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ddl, l.table.clock() < l.doubtUntil
}

// deferReleases marks locks, by their names, that the session releases after its transaction.
func (l *Held) deferReleases(names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		l.releaseLater[name] = true
	}
}
