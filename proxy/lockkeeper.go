package proxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/proxy/advisory"
)

// This file has the table rows of a session's advisory locks, and the goroutine that renews them. The session and that
// goroutine share heldAdvisoryLocks. Only one renewal runs at a time.
//
// A second renewal could arrive late and shorten the lease that protects running DDL. Each renewal is conditional on
// the sequence number of the one before. A renewal whose answer was lost therefore has no effect after the next is
// confirmed. Until then the session sends no DDL (Doubt).
//
// The loss of a lock shows when a renewal changes fewer rows than it should, or when a fence fails (lockfence.go). The
// client then gets an error and its session ends, since in PostgreSQL a lock is lost only with its connection.

// heldAdvisoryLocks holds the advisory locks of one session until the session ends. The goroutine that renews them
// exists only while the session has a row.
type heldAdvisoryLocks struct {
	srv *Server
	// lost is set if another session has taken over one of the locks. The session then ends.
	lost atomic.Bool
	// times counts by name how often each advisory lock was taken. Only the session's goroutine uses it.
	times map[string]int
	// charge is the memory of the locks in the session's account. Only the session's goroutine uses it.
	charge account.Charge
	// fence has BEGIN and the lock checks before each write, or is empty. Only the session's goroutine uses it.
	fence []*statementTemplate
	// hasOpenFence is set if the open transaction includes lock checks (a fence). Only the session's goroutine uses it.
	hasOpenFence bool

	// renewMu is locked during a renewal of the locks. It is locked before mu.
	renewMu sync.Mutex

	mu sync.Mutex
	// held has the table rows of the locks. releaseLater names the locks to release after the transaction. Guarded by mu.
	held         []advisory.LockHolder
	releaseLater map[string]bool
	// ddl is set while DDL is running or about to run. It is guarded by mu. Until doubtUntil, on the table's clock, DDL
	// may be running on a backend that was lost or dropped.
	ddl        bool
	doubtUntil time.Duration
	// stop ends the goroutine that renews the locks. It is nil if there is none.
	stop context.CancelFunc
}

// copyHolders returns a copy of the locks' rows, and the lease for the next renewal.
func (l *heldAdvisoryLocks) copyHolders() (held []advisory.LockHolder, promise time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.srv.locks
	return slices.Clone(l.held), t.terms.LeaseLength(l.ddl || t.clock() < l.doubtUntil)
}

// addLock adds a lock's row and starts the renewing goroutine if there is none. The first renewal follows after a third
// of a lease.
func (l *heldAdvisoryLocks) addLock(h advisory.LockHolder) {
	l.srv.locks.held.Add(1)
	l.fence = nil
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, h)
	if l.stop == nil {
		var ctx context.Context
		ctx, l.stop = context.WithCancel(l.srv.ctx)
		l.srv.running.Go(func() { l.renewPeriodically(ctx) })
	}
}

// removeLocks removes the locks whose names gone accepts, and returns their rows. It does not change the table. With
// the last row the goroutine ends. Only the session's goroutine may call it.
func (l *heldAdvisoryLocks) removeLocks(gone func(name string) bool) (dropped []advisory.LockHolder) {
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
	l.srv.locks.held.Add(int64(-len(dropped)))
	l.fence = nil
	if len(l.held) == 0 && l.stop != nil {
		l.stop()
		l.stop = nil
	}
	return dropped
}

// renewPeriodically renews the session's locks until ctx ends. After a failure it tries again soon, since one renewal
// must succeed per lease.
func (l *heldAdvisoryLocks) renewPeriodically(ctx context.Context) {
	every := l.srv.locks.terms.RenewInterval()
	for pause := every; ; {
		if sleepContext(ctx, pause*9/10+rand.N(pause/10+1)) != nil {
			return
		}
		pause = every
		trip, cancel := context.WithTimeout(ctx, every)
		err := l.renewAll(trip)
		cancel()
		if err != nil && ctx.Err() == nil {
			l.srv.log.Warn("advisory locks could not be renewed", "error", err)
			pause = every / 4
		}
	}
}

// renewAll renews all locks of the session once, with the lease that is needed now. After nil, the rows are the
// session's, or lost is set.
func (l *heldAdvisoryLocks) renewAll(ctx context.Context) error {
	l.renewMu.Lock()
	defer l.renewMu.Unlock()
	return l.renewAllLocked(ctx)
}

// renewAllLocked does the work of renewAll. The caller holds renewMu. One statement renews at most advisory.Batch
// locks. If a renewal changes too few rows, the rows are read. An earlier renewal may have changed them, or another
// session may have a lock.
func (l *heldAdvisoryLocks) renewAllLocked(ctx context.Context) (err error) {
	held, promise := l.copyHolders()
	var errs []error
	for some := range slices.Chunk(held, advisory.Batch) {
		errs = append(errs, l.renewBatch(ctx, some, promise))
	}
	return errors.Join(errs...)
}

// renewBatch renews some of the session's locks by one statement.
func (l *heldAdvisoryLocks) renewBatch(ctx context.Context, some []advisory.LockHolder, promise time.Duration) (err error) {
	for range mostCatalogTries {
		held := l.stillHeld(some)
		if len(held) == 0 || l.lost.Load() {
			return nil
		}
		sent := l.srv.locks.clock()
		var tag string
		tag, err = l.srv.queryLockTable(ctx, advisory.RenewSQL(held, promise), nil)
		_, unsent := errors.AsType[*notSentError](err)
		_, unchanged := errors.AsType[*serverRefusal](err)
		switch {
		case err == nil && updatedRowCount(tag) == len(held):
			l.updateRows(held, func(h advisory.LockHolder) (advisory.LockHolder, bool) { return h.WithRenewal(promise, sent), true })
			return nil
		case isMissingTable(err):
			l.markLost()
			return err
		case err == nil:
			if err = l.rereadRows(ctx, held); err != nil {
				return err
			}
		case isLostRace(err): // the next reading shows which session won
		case unsent, unchanged:
			return err
		default:
			l.updateRows(held, func(h advisory.LockHolder) (advisory.LockHolder, bool) { return h.WithDoubt(), true })
			return err
		}
	}
	return err
}

// stillHeld returns those of some locks that the session still holds, with their latest rows.
func (l *heldAdvisoryLocks) stillHeld(some []advisory.LockHolder) (held []advisory.LockHolder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range some {
		if at := l.indexOfHolder(h); at >= 0 {
			held = append(held, l.held[at])
		}
	}
	return held
}

// indexOfHolder returns the index in l.held of a lock with the same name and owner, or -1. A lock that was taken again
// has a new owner. The caller holds mu.
func (l *heldAdvisoryLocks) indexOfHolder(h advisory.LockHolder) int {
	return slices.IndexFunc(l.held, func(o advisory.LockHolder) bool { return o.Name == h.Name && o.Row.Owner == h.Row.Owner })
}

// rereadRows reads the table rows of locks. If a row is no longer the session's, its lock is lost. Otherwise the row's
// number is used from now on, with the lease as last confirmed.
func (l *heldAdvisoryLocks) rereadRows(ctx context.Context, held []advisory.LockHolder) error {
	names := make([]string, len(held))
	for i, h := range held {
		names[i] = h.Name
	}
	rows := map[string]*advisory.LockRow{}
	var unreadable error
	_, err := l.srv.queryLockTable(ctx, advisory.SelectRowsSQL(names...), func(columns []string) {
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

// updateRows updates the rows of locks by found's result for each. It skips locks that were released meanwhile, even if
// the session has taken them again with a new owner.
func (l *heldAdvisoryLocks) updateRows(of []advisory.LockHolder, found func(advisory.LockHolder) (advisory.LockHolder, bool)) {
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

// markLost records that another session has taken over a lock of this session. This is final, since the client may have
// relied on any of its locks. The client gets the error at the end of the turn, or at its next request.
func (l *heldAdvisoryLocks) markLost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.markLostLocked()
}

// markLostLocked does the work of markLost. The caller holds mu. It counts and logs the loss once a session.
func (l *heldAdvisoryLocks) markLostLocked() {
	if !l.lost.Swap(true) {
		l.srv.metrics.CountAdvisoryLock(metrics.LockLost)
		l.srv.log.Warn("an advisory lock was taken over by another session", "lease", l.srv.locks.terms.Lease)
	}
}

// hasLongLeases reports whether DDL may be sent now. Every lock must have the long lease, confirmed recently, with no
// renewal in doubt. The caller holds renewMu.
func (l *heldAdvisoryLocks) hasLongLeases() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.srv.locks
	return !slices.ContainsFunc(l.held, func(h advisory.LockHolder) bool { return !h.CoversDDL(t.terms, t.clock()) })
}

// extendForDDL renews the locks with a lease that is long enough for DDL, and reports success. The end of the
// transaction ends the long lease.
func (l *heldAdvisoryLocks) extendForDDL(ctx context.Context) (ok bool, err error) {
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

// recordLocksDetached records for the session's advisory locks that the session gives its backend up.
func recordLocksDetached(s *session) {
	if s.advisory != nil {
		s.advisory.recordBackendGivenUp()
	}
}

// recordBackendGivenUp records that the session gave up a backend that may still run DDL. A cluster continues a
// statement whose client is gone. Until the longest possible end, the locks are not released and have the long lease.
func (l *heldAdvisoryLocks) recordBackendGivenUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ddl {
		l.doubtUntil = l.srv.locks.clock() + l.srv.locks.terms.LongestDDL
	}
}

// endDDLAndTakeReleases records that the session's backend runs no statement any more. It returns the locks whose
// release waited for that. The next renewal has the ordinary lease, so that a crash between two statements of a
// migration blocks other sessions only briefly.
func (l *heldAdvisoryLocks) endDDLAndTakeReleases() (over []advisory.LockHolder) {
	l.mu.Lock()
	l.ddl = false
	none := len(l.releaseLater) == 0
	l.mu.Unlock()
	if none {
		return nil
	}
	return l.removeLocks(func(name string) bool { return l.releaseLater[name] })
}

// cancelRelease reports whether the release of a lock waited for the transaction's end, and cancels the release. No
// other session has had the lock.
func (l *heldAdvisoryLocks) cancelRelease(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	stays := l.releaseLater[name]
	delete(l.releaseLater, name)
	return stays
}

// Only the session's goroutine changes ddl (DDL is running). The goroutine that renews locks reads it.

// mayRunDDL returns ddl if DDL may be running on the session's backend or in its open transaction. It returns doubt if
// DDL may be running on a backend that was given up.
func (l *heldAdvisoryLocks) mayRunDDL() (ddl, doubt bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ddl, l.srv.locks.clock() < l.doubtUntil
}
