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

// The table of advisory locks, as the sessions of a process ask it: each question is a
// transaction of its own, on a backend that is borrowed for it alone. The rules are package
// advisory's; locks.go has the locks of a session, and lockkeeper.go renews them.
//
// A backend of its own, also where the session has one: a lock is none of the transaction that it
// is taken in, it is renewed while that waits for its client, and who waits for a lock holds no
// backend meanwhile. So it takes two backends for a session to do anything under a lock, and where
// a process has one alone, a statement that needs a promise is refused (53300) rather than run.
//
// What a server refuses has changed nothing. A lost connection leaves a statement in doubt, and
// every statement is made so that a look at the row tells what became of it: the owner of a lock
// that is being taken is a word that was never used before, and a renewal has a number.

// lockTable is what the sessions of a Server share about the table.
type lockTable struct {
	terms advisory.Terms
	// clock goes on while the machine sleeps, so that a holder does not take a lease for young
	// that others have seen run out.
	clock func() time.Duration
	held  atomic.Int64 // locks, of all sessions
	queue advisory.Queue

	mu   sync.Mutex
	seen map[string]*advisory.Observer // guarded by mu; of locks that others hold
}

// mostWatched bounds the locks that are remembered to be held by others. Where there are more,
// all are forgotten, and whoever waits for one begins to count anew.
const mostWatched = 10_000

// newLockTable is the table by those terms. Without a clock it is Go's, which stands still while a
// machine sleeps: for tests.
func newLockTable(terms advisory.Terms, clock func() time.Duration) *lockTable {
	if clock == nil {
		began := time.Now()
		clock = func() time.Duration { return time.Since(began) }
	}
	return &lockTable{terms: terms, clock: clock, seen: map[string]*advisory.Observer{}}
}

// saw tells what one who wants a lock does next, and how long its row must stay as it is to be
// taken. All who want it share what was seen: one who asks once finds out as well that its owner
// is gone.
func (t *lockTable) saw(name string, row *advisory.Row, asked time.Duration) (advisory.Step, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.seen[name]
	if o == nil {
		if len(t.seen) >= mostWatched {
			clear(t.seen)
		}
		o = &advisory.Observer{}
		t.seen[name] = o
	}
	now := t.clock()
	step := o.Saw(row, asked, now)
	if step == advisory.Take {
		delete(t.seen, name)
	}
	return step, o.Left(now)
}

// askLocks sends statements about locks on a backend that nobody else has meanwhile, and gives
// the rows to row; tag is that of the last statement. A *refusedError is the server's: nothing is
// changed. A *notAskedError says that nothing was sent. Behind any other error nobody knows.
func (srv *Server) askLocks(ctx context.Context, sql string, row func(columns []string)) (tag string, err error) {
	for range mostCatalogTries {
		var conn *reservoir.Conn
		if conn, err = srv.backends.AcquireAhead(ctx); err != nil {
			break
		}
		b := srv.forQuestion(conn)
		if b == nil {
			err = errClosed
			continue
		}
		patience := b.patience             // such statements touch one row, and a cluster lets none wait for another
		if end, ok := ctx.Deadline(); ok { // what takes longer is of no use; but a connection is worth a second
			patience = min(patience, max(time.Second, time.Until(end)))
		}
		refusal, err := b.exchangeAll(wire.AppendStrings(nil, wire.Query, sql), func(payload []byte) {
			if row != nil {
				row(columnsOf(payload))
			}
		}, patience, time.Time{}, nil)
		if err == nil && b.status != 'I' {
			err = errors.New("a transaction was left open")
		}
		if err != nil {
			b.src.Drop()
			conn.Discard(reservoir.Broken)
			return "", err
		}
		tag = string(b.tag)
		b.release()
		if refusal != nil {
			return "", &refusedError{code: string(retry.Field(refusal, 'C')), message: string(retry.Field(refusal, 'M'))}
		}
		return tag, nil
	}
	return "", &notAskedError{err}
}

// notAskedError says that a statement was not sent, since there was no backend for it: whoever asked
// knows that nothing has changed.
type notAskedError struct{ err error }

// Error is for the log.
func (e *notAskedError) Error() string { return e.err.Error() }

// Unwrap returns why there was none.
func (e *notAskedError) Unwrap() error { return e.err }

// noTable reports whether an error says that the table is not there, or not its schema.
func noTable(err error) bool {
	r, ok := errors.AsType[*refusedError](err)
	return ok && (r.code == "42P01" || r.code == "3F000")
}

// lostRace reports whether an error is that of whoever lost a race: for a row, to another's change of
// it, or to another who made it (class 23); for the making of the table; or for the catalog, to DDL
// which the server ended this transaction for. A look shows what the winner has done.
func lostRace(err error) bool {
	r, ok := errors.AsType[*refusedError](err)
	if !ok {
		return false
	}
	switch r.code {
	case retry.StateConflict, "57P01", "42P06", "42P07":
		return true
	}
	return strings.HasPrefix(r.code, "23")
}

// lookAtLock reads the row of a lock, nil for none, and makes the table where it is not there.
func (srv *Server) lookAtLock(ctx context.Context, name string) (row *advisory.Row, err error) {
	for range mostCatalogTries {
		row = nil
		var unreadable error
		_, err = srv.askLocks(ctx, advisory.Look(name), func(columns []string) {
			_, r, err := advisory.Read(columns)
			row, unreadable = &r, errors.Join(unreadable, err)
		})
		switch {
		case err == nil && unreadable != nil:
			return nil, unreadable
		case err == nil:
			return row, nil
		case noTable(err):
			if err = srv.makeLockTable(ctx); err != nil {
				return nil, err
			}
		case !lostRace(err):
			return nil, err
		}
	}
	return nil, err
}

// makeLockTable makes the table. Others may do so at the same time: who loses that race looks again,
// and finds what the winner has made. Clients' descriptions are flushed behind it, since a cluster
// tells every session once that the schema has changed.
func (srv *Server) makeLockTable(ctx context.Context) (err error) {
	defer srv.catalog.flush()
	for _, sql := range advisory.Make {
		for range mostCatalogTries {
			if _, err = srv.askLocks(ctx, sql, nil); !lostRace(err) {
				break
			}
			if err := sleep(ctx, jobPauseFirst); err != nil {
				return err
			}
		}
		if err != nil && !lostRace(err) {
			if r, ok := errors.AsType[*refusedError](err); ok {
				return errNoLockTable(r)
			}
			return err
		}
	}
	return nil
}

// errNoLockTable is told where the table is not there and cannot be made: with the statements to have
// somebody else send, since clusters let few roles make a schema.
func errNoLockTable(why *refusedError) *wire.Error {
	return &wire.Error{Code: why.code, Message: "the table of advisory locks, " + advisory.Table + ", is not there and cannot be made", Detail: why.Error(),
		Hint: "Have a role that may do so send: " + strings.Join(advisory.Make, "; ") + ". The role that Sluice connects as needs USAGE of the schema, and SELECT, INSERT, UPDATE and DELETE."}
}

// takenLock takes a lock whose row is as it was seen; ok is false where another was faster. The
// holder counts its lease from before the question: no observer has seen the row earlier.
func (srv *Server) takenLock(ctx context.Context, name string, seen *advisory.Row, owner string) (h advisory.Holder, ok bool, err error) {
	sql, made := advisory.Taking(name, seen, owner, srv.locks.terms.Promise(false))
	sent := srv.locks.clock()
	tag, err := srv.askLocks(ctx, sql, nil)
	switch {
	case lostRace(err):
		return h, false, nil
	case err != nil:
		return h, false, err
	}
	return advisory.Holder{Name: name, Row: made, Confirmed: sent}, tag == advisory.TakeTag, nil
}

// lockEnd bounds the release of locks that are given up, and the wait for a promise. A client waits
// for the former behind its unlock, and nobody else behind the end of its session.
const lockEnd = 5 * time.Second

// releaseLocks leaves locks to others. Where that fails their leases run out: the caller has told
// its client that they are given up, and nobody renews them any more. The release names the epoch
// and the owner, but no sequence number: a renewal that is still on its way may come in between,
// and behind the release it finds no row of its owner.
func (srv *Server) releaseLocks(ctx context.Context, held []advisory.Holder) {
	if len(held) == 0 {
		return
	}
	for some := range slices.Chunk(held, advisory.Batch) {
		var err error
		for range mostCatalogTries {
			if _, err = srv.askLocks(ctx, advisory.Release(some), nil); err == nil || noTable(err) || sleep(ctx, jobPauseFirst) != nil {
				break
			}
		}
		if err != nil && !noTable(err) {
			srv.log.Warn("advisory locks are not released, and their leases run out", "locks", len(some), "error", err)
		}
	}
}

// newOwner is an owner that nobody else is, and no other lock of the same session: by it a row is
// known for the one that was just made, and an old holder's fence fails even where somebody has
// deleted the row by hand, and its epochs began anew.
func newOwner() string { return rand.Text() }

// sleep waits for a time, or for the end of ctx, whose cause it returns: a cancel, a timeout, the
// client's end, or the end of the session's locks.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// countedRows is the number in the tag of an UPDATE; -1 for any other tag, which is then not the
// number of locks either.
func countedRows(tag string) int {
	count, ok := strings.CutPrefix(tag, "UPDATE ")
	if n, err := strconv.Atoi(count); ok && err == nil {
		return n
	}
	return -1
}
