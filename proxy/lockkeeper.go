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

// The rows of a session's locks, and the goroutine that renews them for as long as there are
// any. The session and the goroutine share sessionLocks; one renewal is under way at a time.
//
// Why one at a time: a renewal says how long others wait, and one with the ordinary lease that
// arrived behind one with the long lease would take the promise back under which DDL runs. Each
// renewal is conditional on the number of the one before, so that one whose answer was lost
// changes nothing once another is confirmed; until then the session promises nothing (Doubt).
//
// A row that is not the session's any more is found by a renewal that changed fewer rows than it
// should, or by a fence that fails (lockfence.go). Then all is over: the client is told, and its
// session ends, since in PostgreSQL a lock is lost only with its connection.

// sessionLocks are the advisory locks of a session that has asked for one. They are the session's
// until it ends, and the goroutine's only while there is a row to renew.
type sessionLocks struct {
	srv *Server
	// lost: one of the locks is another's. The session ends.
	lost atomic.Bool
	// times says how often each lock was taken, by its name; the session's goroutine alone.
	times map[string]int
	// charge is what they have of the session's accounts; the session's goroutine alone.
	charge account.Charge
	// fence are BEGIN and the texts that go in front of what is written; empty: to be made. The
	// session's goroutine alone.
	fence []*template
	// fencing: a fence was sent in the transaction that is open. The session's goroutine alone.
	fencing bool

	// renewing is held for as long as a renewal is under way; before mu.
	renewing sync.Mutex

	mu sync.Mutex
	// held are the rows, guarded by mu; those of leaving are given up when the transaction has ended.
	held    []advisory.Holder
	leaving map[string]bool
	// ddl: a statement of DDL is under way, or about to be; guarded by mu. Until doubt, by the
	// clock of the table, one may be that nobody hears of any more.
	ddl   bool
	doubt time.Duration
	// stop ends the goroutine; nil: there is none.
	stop context.CancelFunc
}

// holders are the rows as they are known now, and the lease that is to be promised with the next
// renewal. The copy is the caller's.
func (l *sessionLocks) holders() (held []advisory.Holder, promise time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.srv.locks
	return slices.Clone(l.held), t.terms.Promise(l.ddl || t.clock() < l.doubt)
}

// keepLock adds a row, and sees to it that it is renewed. The first renewal comes a third of a lease
// later, by a goroutine that is there for as long as the session holds any lock.
func (l *sessionLocks) keepLock(h advisory.Holder) {
	l.srv.locks.held.Add(1)
	l.fence = nil
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, h)
	if l.stop == nil {
		var ctx context.Context
		ctx, l.stop = context.WithCancel(l.srv.ctx)
		l.srv.running.Go(func() { l.renewals(ctx) })
	}
}

// dropLocks forgets the rows of those locks that gone names, and returns them; the server is told
// nothing. With the last one the goroutine ends. The session's goroutine alone calls it.
func (l *sessionLocks) dropLocks(gone func(name string) bool) (dropped []advisory.Holder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = slices.DeleteFunc(l.held, func(h advisory.Holder) bool {
		if gone(h.Name) {
			dropped = append(dropped, h)
			delete(l.leaving, h.Name)
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

// renewals renews the locks until ctx ends. A renewal that fails is tried again soon: what counts
// is that the server hears of one within a lease.
func (l *sessionLocks) renewals(ctx context.Context) {
	every := l.srv.locks.terms.RenewEvery()
	for pause := every; ; {
		if sleep(ctx, pause*9/10+rand.N(pause/10+1)) != nil {
			return
		}
		pause = every
		trip, cancel := context.WithTimeout(ctx, every)
		err := l.renew(trip)
		cancel()
		if err != nil && ctx.Err() == nil {
			l.srv.log.Warn("advisory locks could not be renewed", "error", err)
			pause = every / 4
		}
	}
}

// renew renews all locks once, with the lease that is to be promised now. With nil the rows are the
// session's, or are known not to be (lost).
func (l *sessionLocks) renew(ctx context.Context) error {
	l.renewing.Lock()
	defer l.renewing.Unlock()
	return l.renewAlone(ctx)
}

// renewAlone is renew for whoever holds renewing. It renews so many locks by one statement as a
// cluster surely takes. Of a renewal that changed fewer rows than there are locks the rows are read:
// one that had no answer may have changed them before, or another has taken a lock over.
func (l *sessionLocks) renewAlone(ctx context.Context) (err error) {
	held, promise := l.holders()
	var errs []error
	for some := range slices.Chunk(held, advisory.Batch) {
		errs = append(errs, l.renewSome(ctx, some, promise))
	}
	return errors.Join(errs...)
}

// renewSome is renewAlone for some of the locks, which one statement renews.
func (l *sessionLocks) renewSome(ctx context.Context, some []advisory.Holder, promise time.Duration) (err error) {
	for range mostCatalogTries {
		held := l.current(some)
		if len(held) == 0 || l.lost.Load() {
			return nil
		}
		sent := l.srv.locks.clock()
		var tag string
		tag, err = l.srv.askLocks(ctx, advisory.Renew(held, promise), nil)
		_, unsent := errors.AsType[*notAskedError](err)
		_, unchanged := errors.AsType[*refusedError](err)
		switch {
		case err == nil && countedRows(tag) == len(held):
			l.know(held, func(h advisory.Holder) (advisory.Holder, bool) { return h.Renewed(promise, sent), true })
			return nil
		case noTable(err):
			l.lose()
			return err
		case err == nil:
			if err = l.lookAgain(ctx, held); err != nil {
				return err
			}
		case lostRace(err): // the next one tells by whom
		case unsent, unchanged:
			return err
		default:
			l.know(held, func(h advisory.Holder) (advisory.Holder, bool) { return h.Doubted(), true })
			return err
		}
	}
	return err
}

// current are those of some locks that are held still, as their rows are known now.
func (l *sessionLocks) current(some []advisory.Holder) (held []advisory.Holder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range some {
		if at := l.find(h); at >= 0 {
			held = append(held, l.held[at])
		}
	}
	return held
}

// find is the place of a lock by its name and owner, or -1: one that was taken again has another
// owner. The caller has mu.
func (l *sessionLocks) find(h advisory.Holder) int {
	return slices.IndexFunc(l.held, func(o advisory.Holder) bool { return o.Name == h.Name && o.Row.Owner == h.Row.Owner })
}

// lookAgain reads the rows of locks. One that is not the session's any more is lost; of the others the
// numbers count that are found, and the lease as it was confirmed last.
func (l *sessionLocks) lookAgain(ctx context.Context, held []advisory.Holder) error {
	names := make([]string, len(held))
	for i, h := range held {
		names[i] = h.Name
	}
	rows := map[string]*advisory.Row{}
	var unreadable error
	_, err := l.srv.askLocks(ctx, advisory.Look(names...), func(columns []string) {
		name, row, err := advisory.Read(columns)
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
	l.know(held, func(h advisory.Holder) (advisory.Holder, bool) { return h.Found(rows[h.Name]) })
	return nil
}

// know takes note of what was found out of rows. Those that were given up meanwhile are no more
// to be known of, be it that the session has taken the lock again: the owner tells the two apart.
func (l *sessionLocks) know(of []advisory.Holder, found func(advisory.Holder) (advisory.Holder, bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range of {
		at := l.find(h)
		if at < 0 {
			continue
		}
		now, ok := found(l.held[at])
		if l.held[at] = now; !ok {
			l.loseLocked()
		}
	}
}

// lose notes that a lock is another's. It is for good: the client may have acted on any of its locks,
// and is told at the end of the turn, or at its next request.
func (l *sessionLocks) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loseLocked()
}

// loseLocked is lose for whoever has mu. It is counted and logged once a session, however many of its locks are gone.
func (l *sessionLocks) loseLocked() {
	if !l.lost.Swap(true) {
		l.srv.metrics.AdvisoryLock(metrics.LockLost)
		l.srv.log.Warn("an advisory lock was taken over by another session", "lease", l.srv.locks.terms.Lease)
	}
}

// promised reports whether DDL may be sent now: each of the rows has the long lease, was confirmed
// with it a moment ago, and has no renewal in doubt. The caller holds renewing.
func (l *sessionLocks) promised() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.srv.locks
	return !slices.ContainsFunc(l.held, func(h advisory.Holder) bool { return !h.Promises(t.terms, t.clock()) })
}

// promise has others leave the locks alone for as long as a statement of DDL can take, and
// reports whether that is so. settled takes it back.
func (l *sessionLocks) promise(ctx context.Context) (ok bool, err error) {
	l.renewing.Lock()
	defer l.renewing.Unlock()
	l.mu.Lock()
	l.ddl = true
	l.mu.Unlock()
	if l.promised() {
		return true, nil
	}
	err = l.renewAlone(ctx)
	return err == nil && !l.lost.Load() && l.promised(), err
}

// locksDetaching records that the session's backend is given up.
func locksDetaching(s *session) {
	if s.advisory != nil {
		s.advisory.forsaken()
	}
}

// forsaken is told that a backend was given up. What it may still be running is over at some time,
// and nobody hears when: a cluster goes on with a statement whose client is gone. Until then the
// locks are neither released nor renewed with the ordinary lease.
func (l *sessionLocks) forsaken() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ddl {
		l.doubt = l.srv.locks.clock() + l.srv.locks.terms.Longest
	}
}

// settled is told that no statement of the session runs any more, as far as its backend goes, and
// returns the locks that were to be given up then. The next renewal has the ordinary lease again:
// a migration that crashes between two statements keeps the next one waiting no longer than that.
func (l *sessionLocks) settled() (over []advisory.Holder) {
	l.mu.Lock()
	l.ddl = false
	none := len(l.leaving) == 0
	l.mu.Unlock()
	if none {
		return nil
	}
	return l.dropLocks(func(name string) bool { return l.leaving[name] })
}

// staysLocked reports whether a lock was to be given up and is not so far: now it is kept. Its client
// was told that it is given up, and nobody else has been let in.
func (l *sessionLocks) staysLocked(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	stays := l.leaving[name]
	delete(l.leaving, name)
	return stays
}

// Of DDL the session's goroutine alone makes notes, and the other one reads them.

// runsDDL reports whether DDL may be under way on the session's backend, or in a transaction that is
// open there; and whether some may be on a backend that was given up, whose end nobody hears of.
func (l *sessionLocks) runsDDL() (ddl, doubt bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ddl, l.srv.locks.clock() < l.doubt
}
