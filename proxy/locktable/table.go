// Package locktable holds the advisory locks of sessions as rows of a table (package advisory has the rules).
//
// A Table belongs to a process. Attempt takes a lock for a session. Held has the locks of a session, and renews them in
// a goroutine until the session has released the last one. The process implements Database.
package locktable

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/proxy/advisory"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// This file queries the table of advisory locks. Each query is a transaction, on a backend that is borrowed for it.
// held.go has the locks of a session and their renewal, attempt.go takes a lock.
//
// The backend is separate for three reasons. A lock is independent of the session's transaction. It is renewed while
// that transaction waits. A session that waits must not hold a backend. Work under a lock thus needs two backends. If a
// process has only one, a statement that needs a longer lease is refused (53300).
//
// A refused statement has changed nothing. After a lost connection the row shows whether the statement ran. Each
// attempt to take a lock has a unique owner, and each renewal a sequence number.

// Database is the process to which the table of locks belongs. A Database queries the table, and has the process's
// goroutines, log and counters. Several goroutines may call its methods at the same time.
type Database interface {
	// Query sends statements in one round trip on a borrowed backend. Query calls row with each row of the result and
	// returns the tag of the last statement. row may be nil. A *RefusedError means that nothing has changed, and a
	// *NotSentError that nothing was sent. After any other error the outcome is unknown.
	Query(ctx context.Context, sql string, row func(columns []string)) (tag string, err error)
	// RecordSchemaChange records that the table of locks was created, since a cluster reports the change to every
	// session.
	RecordSchemaChange()
	// Context returns the context of the process's work, which ends with that work.
	Context() context.Context
	// Go runs f in a goroutine that the process awaits at its end.
	Go(f func())
	// Warn logs a warning with attributes.
	Warn(message string, attrs ...any)
	// RecordTakeover counts a lock that a session of this process took after its owner's lease had ended. RecordLoss
	// counts a lock that a session of this process lost that way.
	RecordTakeover()
	RecordLoss()
	// RecordRelease counts a release of locks.
	RecordRelease()
}

// RefusedError is the server's error for a statement about locks, which has changed nothing.
type RefusedError struct{ Code, Message string }

// Error returns the text of the error for the log.
func (e *RefusedError) Error() string { return "the server said " + e.Code + ": " + e.Message }

// NotSentError means that a statement was not sent, because no backend was available. Nothing has changed.
type NotSentError struct{ Err error }

// Error returns the text of the error for the log.
func (e *NotSentError) Error() string { return e.Err.Error() }

// Unwrap returns why no backend was available.
func (e *NotSentError) Unwrap() error { return e.Err }

const (
	// maxTries bounds how often a statement about locks is sent, after conflicts or because another process was faster.
	maxTries = 10
	// retryPause is the pause before a statement about locks is sent again.
	retryPause = 20 * time.Millisecond
	// ReleaseTimeout bounds the time of the release of locks, for which a client's unlock waits, and the wait for a
	// longer lease.
	ReleaseTimeout = 5 * time.Second
)

// Table is the state about the table of advisory locks that the sessions of a process share.
type Table struct {
	Terms advisory.LeaseTerms
	// clock is a clock that continues while the machine sleeps. Otherwise a holder could rely on a lease that other
	// processes have seen end.
	clock    func() time.Duration
	database Database
	held     atomic.Int64 // number of locks of all sessions
	queue    advisory.WaitQueue

	mu   sync.Mutex
	seen map[string]*advisory.LockObserver // guarded by mu; what was seen of locks that other sessions hold
}

// maxObservedLocks bounds the entries of Table.seen, the observed locks. At the limit all entries are dropped, and
// waiting sessions begin to observe again.
const maxObservedLocks = 10_000

// New returns a Table. With a nil clock, as in tests, the Table uses Go's clock, which stops while a machine sleeps.
func New(database Database, terms advisory.LeaseTerms, clock func() time.Duration) *Table {
	if clock == nil {
		began := time.Now()
		clock = func() time.Duration { return time.Since(began) }
	}
	return &Table{Terms: terms, clock: clock, database: database, seen: map[string]*advisory.LockObserver{}}
}

// Held returns the number of locks that all sessions of the process hold.
func (t *Table) Held() int { return int(t.held.Load()) }

// observeRow records the row of a lock as seen at the time asked. observeRow returns the next step for a session that
// wants the lock. It also returns how long the row must remain unchanged before the session may take the lock. All
// sessions of the process share the observations.
func (t *Table) observeRow(name string, row *advisory.LockRow, asked time.Duration) (advisory.NextStep, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.seen[name]
	if o == nil {
		if len(t.seen) >= maxObservedLocks {
			clear(t.seen)
		}
		o = &advisory.LockObserver{}
		t.seen[name] = o
	}
	now := t.clock()
	step := o.RecordRow(row, asked, now)
	if step == advisory.Take {
		delete(t.seen, name)
	}
	return step, o.TimeLeft(now)
}

// isMissingTable reports whether an error means that the table or its schema does not exist.
func isMissingTable(err error) bool {
	r, ok := errors.AsType[*RefusedError](err)
	return ok && (r.Code == "42P01" || r.Code == "3F000")
}

// isLostRace reports whether a statement failed because another statement was faster. The faster statement may have
// changed or inserted the row, created the table, or changed the schema. The row shows the result.
func isLostRace(err error) bool {
	r, ok := errors.AsType[*RefusedError](err)
	if !ok {
		return false
	}
	switch r.Code {
	case retry.StateConflict, "57P01", "42P06", "42P07":
		return true
	}
	return strings.HasPrefix(r.Code, "23")
}

// readRow reads the row of a lock, or returns nil for none. readRow creates the table if necessary.
func (t *Table) readRow(ctx context.Context, name string) (row *advisory.LockRow, err error) {
	for range maxTries {
		row = nil
		var unreadable error
		_, err = t.database.Query(ctx, advisory.SelectRowsSQL(name), func(columns []string) {
			_, r, err := advisory.ParseRow(columns)
			row, unreadable = &r, errors.Join(unreadable, err)
		})
		switch {
		case err == nil && unreadable != nil:
			return nil, unreadable
		case err == nil:
			return row, nil
		case isMissingTable(err):
			if err = t.create(ctx); err != nil {
				return nil, err
			}
		case !isLostRace(err):
			return nil, err
		}
	}
	return nil, err
}

// create creates the table of locks. If another process creates the table first, the caller finds that table. Stored
// descriptions are dropped afterwards, since a cluster reports the schema change to every session.
func (t *Table) create(ctx context.Context) (err error) {
	defer t.database.RecordSchemaChange()
	for _, sql := range advisory.CreateStatements {
		for range maxTries {
			if _, err = t.database.Query(ctx, sql, nil); !isLostRace(err) {
				break
			}
			if err := sleepContext(ctx, retryPause); err != nil {
				return err
			}
		}
		if err != nil && !isLostRace(err) {
			if r, ok := errors.AsType[*RefusedError](err); ok {
				return errNoLockTable(r)
			}
			return err
		}
	}
	return nil
}

// errNoLockTable returns the error for a table of locks that neither exists nor can be created. The error has the
// statements for an administrator, since few roles of a cluster may create a schema.
func errNoLockTable(why *RefusedError) *wire.Error {
	return &wire.Error{Code: why.Code, Message: "the table of advisory locks, " + advisory.Table + ", is not there and cannot be made", Detail: why.Error(),
		Hint: "Have a role that may do so send: " + strings.Join(advisory.CreateStatements, "; ") + ". The role that Sluice connects as needs USAGE of the schema, and SELECT, INSERT, UPDATE and DELETE."}
}

// takeRow takes a lock whose row is still the same as seen. ok is false if another session was faster. The lease
// counts from before the statement is sent, so that no observer sees the lease end earlier than the holder.
func (t *Table) takeRow(ctx context.Context, name string, seen *advisory.LockRow, owner string) (h advisory.LockHolder, ok bool, err error) {
	sql, made := advisory.TakeSQL(name, seen, owner, t.Terms.LeaseLength(false))
	sent := t.clock()
	tag, err := t.database.Query(ctx, sql, nil)
	switch {
	case isLostRace(err):
		return h, false, nil
	case err != nil:
		return h, false, err
	}
	return advisory.LockHolder{Name: name, Row: made, Confirmed: sent}, tag == advisory.TakeTag, nil
}

// Release deletes the rows in over, of released locks, within timeout. If later is set, a goroutine does so.
func (t *Table) Release(over []advisory.LockHolder, timeout time.Duration, later bool) {
	if len(over) == 0 {
		return
	}
	t.database.RecordRelease()
	do := func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(t.database.Context()), timeout)
		defer stop()
		t.deleteRows(ctx, over)
	}
	if later {
		t.database.Go(do)
		return
	}
	do()
}

// deleteRows deletes rows of locks. If the deletion fails, the leases of the locks end, since no process renews them.
// The statement names epoch and owner but no sequence number, so that a late renewal does not prevent the deletion. A
// renewal after the deletion finds no row.
func (t *Table) deleteRows(ctx context.Context, held []advisory.LockHolder) {
	if len(held) == 0 {
		return
	}
	for some := range slices.Chunk(held, advisory.Batch) {
		var err error
		for range maxTries {
			if _, err = t.database.Query(ctx, advisory.ReleaseSQL(some), nil); err == nil || isMissingTable(err) || sleepContext(ctx, retryPause) != nil {
				break
			}
		}
		if err != nil && !isMissingTable(err) {
			t.database.Warn("advisory locks are not released, and their leases run out", "locks", len(some), "error", err)
		}
	}
}

// newLockOwner returns an owner that is unique to one attempt to take a lock. So an old holder's fence, the query
// before its writes, fails even after somebody deleted the row by hand and epochs began again.
func newLockOwner() string { return rand.Text() }

// sleepContext waits for d. If ctx ends first, sleepContext returns the cause: a cancel, a timeout, the client's
// leaving, or the end of the session's locks.
func sleepContext(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// updatedRowCount returns the number in the tag of an UPDATE, or -1 for any other tag.
func updatedRowCount(tag string) int {
	count, ok := strings.CutPrefix(tag, "UPDATE ")
	if n, err := strconv.Atoi(count); ok && err == nil {
		return n
	}
	return -1
}
