package locktable

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sluice-proxy/sluice/proxy/advisory"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// Waiting sessions poll the row of a lock at irregular intervals, since a cluster cannot wake them. In one process only
// the first of the sessions that wait for a lock polls.

// lockPause is the pause before a session polls a lock's row again, after a failed attempt or after another session was
// faster. While another session holds the lock, advisory.PollPacer sets the pause.
const lockPause = 50 * time.Millisecond

// Attempt is one attempt to take a lock. An Attempt has no reference to its session, which other goroutines use
// meanwhile.
type Attempt struct {
	table       *Table
	name, owner string
	waits       bool
	// mayHaveTaken means that an unanswered statement may have taken the lock. firstUnansweredAt is the time when the
	// first unanswered statement was sent.
	mayHaveTaken      bool
	firstUnansweredAt time.Duration
}

// NewAttempt returns an attempt to take the lock with the given name. If waits is set, the attempt waits while another
// session holds the lock.
func (t *Table) NewAttempt(name string, waits bool) *Attempt {
	return &Attempt{table: t, name: name, owner: newLockOwner(), waits: waits}
}

// PollUntilTaken polls the lock until it is taken or ctx ends. After an unanswered statement, PollUntilTaken reads the
// lock's row, whose owner is unique to this attempt. The lease then counts from before that statement, and is in doubt
// until renewed. If w.waits is false, PollUntilTaken stops when another session has the lock, but tries again while no
// session has it.
//
// An attempt that got no backend is repeated. Its error ends the wait only if attempts have failed for ReleaseTimeout.
func (w *Attempt) PollUntilTaken(ctx context.Context) (h advisory.LockHolder, ok bool, err error) {
	if w.waits {
		leave, err := w.table.queue.Join(ctx, w.name)
		if err != nil {
			return h, false, err
		}
		defer leave()
	}
	var pace advisory.PollPacer
	var failing time.Time // when looks began to fail; zero: the last one succeeded
	for {
		h, ok, pause, err := w.tryOnce(ctx, &pace)
		switch {
		case ok:
			return h, true, nil
		case err == nil:
			failing = time.Time{}
		case !isUnanswered(err) && !isLostRace(err) || ctx.Err() != nil:
			return h, false, err
		case failing.IsZero():
			failing = time.Now()
		case time.Since(failing) > ReleaseTimeout:
			return h, false, err
		}
		if err == nil && pause < 0 {
			return h, false, nil
		}
		if err != nil {
			pause = lockPause
		}
		if err := sleepContext(ctx, withJitter(pause)); err != nil {
			return h, false, err
		}
	}
}

// tryOnce reads the lock's row once. tryOnce takes the lock if no session has it or its owner's lease is over.
// Otherwise pause is the time before the next attempt, or negative if none should follow.
func (w *Attempt) tryOnce(ctx context.Context, pace *advisory.PollPacer) (h advisory.LockHolder, ok bool, pause time.Duration, err error) {
	asked := w.table.clock()
	row, err := w.table.readRow(ctx, w.name)
	if err != nil {
		return h, false, 0, err
	}
	if row != nil && row.Owner == w.owner {
		return advisory.LockHolder{Name: w.name, Row: *row, Confirmed: w.firstUnansweredAt, Doubt: true}, true, 0, nil
	}
	step, left := w.table.observeRow(w.name, row, asked)
	if step != advisory.Take {
		if !w.waits {
			return h, false, -1, nil
		}
		return h, false, min(pace.NextPause(row.Epoch), max(left, lockPause/10)), nil
	}
	sent := w.table.clock()
	h, ok, err = w.table.takeRow(ctx, w.name, row, w.owner)
	if ok && row != nil && row.Owner != "" {
		w.table.database.RecordTakeover()
	}
	_, unsent := errors.AsType[*NotSentError](err)
	if isUnanswered(err) && !unsent && !w.mayHaveTaken {
		w.mayHaveTaken, w.firstUnansweredAt = true, sent
	}
	return h, ok, lockPause, err
}

// isUnanswered reports whether err is not an answer of the server, so that Sluice may send the statement again.
func isUnanswered(err error) bool {
	_, refused := errors.AsType[*RefusedError](err)
	_, told := errors.AsType[*wire.Error](err)
	return err != nil && !refused && !told
}

// withJitter varies a pause by a quarter, so that waiting sessions do not all ask at the same time.
func withJitter(d time.Duration) time.Duration { return d*3/4 + rand.N(d/2+1) }

// ReleaseIfTaken releases a lock that an unanswered statement may have taken, although the client's answer does not
// say so. If the release fails, no process renews the row, and other sessions wait until the lease ends.
func (w *Attempt) ReleaseIfTaken() {
	if !w.mayHaveTaken {
		return
	}
	w.table.database.Go(func() {
		ctx, stop := context.WithTimeout(w.table.database.Context(), ReleaseTimeout)
		defer stop()
		if row, err := w.table.readRow(ctx, w.name); err == nil && row != nil && row.Owner == w.owner {
			w.table.deleteRows(ctx, []advisory.LockHolder{{Name: w.name, Row: *row}})
		}
	})
}
