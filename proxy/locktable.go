package proxy

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
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
)

// This file queries the table of advisory locks. Each query is a separate transaction, on a backend that is borrowed
// for it. Package advisory has the rules, locks.go the locks of a session, lockkeeper.go the renewals.
//
// The backend is separate for three reasons. A lock is independent of the session's transaction. It is renewed while
// that transaction waits. A session that waits must not hold a backend. Work under a lock thus needs two backends. If a
// process has only one, a statement that needs a longer lease is refused (53300).
//
// A refused statement has changed nothing. After a lost connection the row shows whether the statement ran. Each
// attempt to take a lock has a unique owner, and each renewal a sequence number.

// advisoryLockTable is the state that a Server's sessions share about the table of advisory locks.
type advisoryLockTable struct {
	terms advisory.LeaseTerms
	// clock runs on while the machine sleeps. Otherwise a holder could rely on a lease that other processes have seen end.
	clock func() time.Duration
	held  atomic.Int64 // number of locks of all sessions
	queue advisory.WaitQueue

	mu   sync.Mutex
	seen map[string]*advisory.LockObserver // guarded by mu; what was seen of locks that other sessions hold
}

// maxObservedLocks limits how many locks of other sessions Sluice observes. At the limit all are dropped, and waiting
// sessions begin to observe again.
const maxObservedLocks = 10_000

// newAdvisoryLockTable returns an advisoryLockTable. Without a clock (in tests) it uses Go's, which stops in sleep.
func newAdvisoryLockTable(terms advisory.LeaseTerms, clock func() time.Duration) *advisoryLockTable {
	if clock == nil {
		began := time.Now()
		clock = func() time.Duration { return time.Since(began) }
	}
	return &advisoryLockTable{terms: terms, clock: clock, seen: map[string]*advisory.LockObserver{}}
}

// observeRow records the row of an advisory lock as seen at the time asked. It returns the next step for a session that
// wants the lock, and how long the row must stay unchanged before. The process's sessions share these observations.
func (t *advisoryLockTable) observeRow(name string, row *advisory.LockRow, asked time.Duration) (advisory.NextStep, time.Duration) {
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

// queryLockTable sends statements about advisory locks on a backend borrowed for them. It calls row for each row, and
// returns the tag of the last statement. A *serverRefusal means that nothing has changed, a *notSentError that nothing
// was sent. After any other error the outcome is unknown.
func (srv *Server) queryLockTable(ctx context.Context, sql string, row func(columns []string)) (tag string, err error) {
	for range mostCatalogTries {
		var conn *reservoir.Conn
		if conn, err = srv.backends.AcquireAhead(ctx); err != nil {
			break
		}
		b := srv.usableBackend(conn)
		if b == nil {
			err = errClosed
			continue
		}
		patience := b.answerTimeout        // such statements touch one row, and a cluster lets none wait for another
		if end, ok := ctx.Deadline(); ok { // what takes longer is of no use; but a connection is worth a second
			patience = min(patience, max(time.Second, time.Until(end)))
		}
		refusal, err := b.doExchange(wire.AppendStrings(nil, wire.Query, sql), func(payload []byte) {
			if row != nil {
				row(textColumns(payload))
			}
		}, patience, time.Time{}, nil)
		if err == nil && b.status != 'I' {
			err = errors.New("a transaction was left open")
		}
		if err != nil {
			b.src.DropBuffer()
			conn.Discard(reservoir.Broken)
			return "", err
		}
		tag = string(b.tag)
		b.release()
		if refusal != nil {
			return "", &serverRefusal{code: string(retry.ErrorField(refusal, 'C')), message: string(retry.ErrorField(refusal, 'M'))}
		}
		return tag, nil
	}
	return "", &notSentError{err}
}

// notSentError means that a statement about locks was not sent, because no backend was available. Nothing has changed.
type notSentError struct{ err error }

// Error returns the reason why a statement was not sent, as text for the process's log.
func (e *notSentError) Error() string { return e.err.Error() }

// Unwrap returns the error because of which no backend was available.
func (e *notSentError) Unwrap() error { return e.err }

// isMissingTable reports whether an error means that the table of advisory locks or its schema does not exist.
func isMissingTable(err error) bool {
	r, ok := errors.AsType[*serverRefusal](err)
	return ok && (r.code == "42P01" || r.code == "3F000")
}

// isLostRace reports whether a statement about a lock failed because another session was faster. That session may have
// changed or inserted the row, created the table, or changed the schema. The row then shows its work.
func isLostRace(err error) bool {
	r, ok := errors.AsType[*serverRefusal](err)
	if !ok {
		return false
	}
	switch r.code {
	case retry.StateConflict, "57P01", "42P06", "42P07":
		return true
	}
	return strings.HasPrefix(r.code, "23")
}

// readLockRow reads the table row of an advisory lock, or returns nil for none. It creates the table if necessary.
func (srv *Server) readLockRow(ctx context.Context, name string) (row *advisory.LockRow, err error) {
	for range mostCatalogTries {
		row = nil
		var unreadable error
		_, err = srv.queryLockTable(ctx, advisory.SelectRowsSQL(name), func(columns []string) {
			_, r, err := advisory.ParseRow(columns)
			row, unreadable = &r, errors.Join(unreadable, err)
		})
		switch {
		case err == nil && unreadable != nil:
			return nil, unreadable
		case err == nil:
			return row, nil
		case isMissingTable(err):
			if err = srv.createLockTable(ctx); err != nil {
				return nil, err
			}
		case !isLostRace(err):
			return nil, err
		}
	}
	return nil, err
}

// createLockTable creates the table of advisory locks. If another process is faster, the caller finds that table.
// Cached descriptions are dropped afterwards, since a cluster reports the schema change to every session.
func (srv *Server) createLockTable(ctx context.Context) (err error) {
	defer srv.catalog.beginEpoch()
	for _, sql := range advisory.CreateStatements {
		for range mostCatalogTries {
			if _, err = srv.queryLockTable(ctx, sql, nil); !isLostRace(err) {
				break
			}
			if err := sleepContext(ctx, jobPauseFirst); err != nil {
				return err
			}
		}
		if err != nil && !isLostRace(err) {
			if r, ok := errors.AsType[*serverRefusal](err); ok {
				return errNoLockTable(r)
			}
			return err
		}
	}
	return nil
}

// errNoLockTable returns the error that the table of advisory locks neither exists nor can be created. It has the
// statements for an administrator, since few roles of a cluster may create a schema.
func errNoLockTable(why *serverRefusal) *wire.Error {
	return &wire.Error{Code: why.code, Message: "the table of advisory locks, " + advisory.Table + ", is not there and cannot be made", Detail: why.Error(),
		Hint: "Have a role that may do so send: " + strings.Join(advisory.CreateStatements, "; ") + ". The role that Sluice connects as needs USAGE of the schema, and SELECT, INSERT, UPDATE and DELETE."}
}

// takeLockRow takes an advisory lock whose row is still as seen. ok is false if another session was faster. The lease
// counts from before the statement is sent, so that no observer sees it end later than the holder.
func (srv *Server) takeLockRow(ctx context.Context, name string, seen *advisory.LockRow, owner string) (h advisory.LockHolder, ok bool, err error) {
	sql, made := advisory.TakeSQL(name, seen, owner, srv.locks.terms.LeaseLength(false))
	sent := srv.locks.clock()
	tag, err := srv.queryLockTable(ctx, sql, nil)
	switch {
	case isLostRace(err):
		return h, false, nil
	case err != nil:
		return h, false, err
	}
	return advisory.LockHolder{Name: name, Row: made, Confirmed: sent}, tag == advisory.TakeTag, nil
}

// lockReleaseTimeout limits the release of advisory locks, for which an unlock waits, and the wait for a longer lease.
const lockReleaseTimeout = 5 * time.Second

// deleteLockRows deletes rows of advisory locks. If that fails, their leases end, since no session renews them. The
// statement names epoch and owner but no sequence number, so that a late renewal does not prevent it. A renewal after
// it finds no row.
func (srv *Server) deleteLockRows(ctx context.Context, held []advisory.LockHolder) {
	if len(held) == 0 {
		return
	}
	for some := range slices.Chunk(held, advisory.Batch) {
		var err error
		for range mostCatalogTries {
			if _, err = srv.queryLockTable(ctx, advisory.ReleaseSQL(some), nil); err == nil || isMissingTable(err) || sleepContext(ctx, jobPauseFirst) != nil {
				break
			}
		}
		if err != nil && !isMissingTable(err) {
			srv.log.Warn("advisory locks are not released, and their leases run out", "locks", len(some), "error", err)
		}
	}
}

// newLockOwner returns an owner that is unique to one attempt to take a lock. Because of it an old holder's lock check
// fails even after an administrator has deleted the row by hand and epochs began again.
func newLockOwner() string { return rand.Text() }

// sleepContext waits for d. If ctx ends first, it returns the cause: a cancel, a timeout, the client's leaving, or the
// end of the session's locks.
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
