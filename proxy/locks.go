package proxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/proxy/advisory"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file takes and releases a session's advisory locks (runAdvisoryLock). Each lock is a table row with a lease
// (package advisory). lockcall.go has arguments and answers, lockkeeper.go the rows, lockfence.go what a session with
// locks may send.
//
// Locks are taken on a separate backend, even if the session has one. A lock therefore needs no pin and survives
// rollbacks, as in PostgreSQL. No lock can be taken in a transaction that the server has begun, which would not see the
// lock's row (lockfence.go). A lock after a BEGIN that Sluice has not sent yet is possible.
//
// As in PostgreSQL, a session counts how often it took a lock, and releases the row with the last unlock. DISCARD ALL
// and the session's end release all locks. An answer about a lock is true when it is sent. lockfence.go protects later
// writes.
//
// Waiting sessions poll the row at irregular intervals, since a cluster cannot wake them. In one process only the first
// of the waiting sessions polls.

// lockPause is the pause after a poll of an advisory lock failed or another session was faster. While another session
// holds the lock, advisory.PollPacer sets the pause.
const lockPause = 50 * time.Millisecond

// runAdvisoryLock runs a call of an advisory lock function with the given key. A nil key stands for NULL. ok is the
// result of a boolean function. notices precede the answer. The error is for the client, or ends the session.
func (s *session) runAdvisoryLock(a *rewrite.AdvisoryCall, key []int64) (ok bool, notices [][]byte, err error) {
	switch {
	case a.Verb == rewrite.UnlockAllAdvisory:
		s.releaseAllAdvisoryLocks()
		return true, nil, nil
	case key == nil:
		return false, nil, nil // the functions return NULL for NULL
	}
	name := advisory.LockName(s.inSchema, key)
	if a.Verb == rewrite.UnlockAdvisory {
		ok, notices = s.releaseAdvisoryLock(name)
		return ok, notices, nil
	}
	ok, err = s.takeAdvisoryLock(name, a.Verb == rewrite.LockAdvisory)
	if ok && s.advisory.times[name] == 1 && s.wantsNotices() {
		notice := wire.Error{Code: codeNotice, Message: "the advisory lock is a row of " + advisory.Table,
			Detail: "Its lease is " + s.srv.locks.terms.Lease.String() + ": a session whose Sluice is silent for longer loses it (" + rewrite.AdvisoryKey + ")."}
		notices = append(notices, notice.AppendNotice(nil, "NOTICE"))
	}
	return ok, notices, err
}

// takeAdvisoryLock takes the lock with the given name in the table. If another session holds it, takeAdvisoryLock waits
// if waits is set. Otherwise ok is false. A lock that the session already holds is only counted, even in a transaction.
// A lock that is about to be released after DDL is taken again without the table.
func (s *session) takeAdvisoryLock(name string, waits bool) (ok bool, err error) {
	if s.advisory != nil && s.advisory.times[name] > 0 {
		s.advisory.times[name]++
		return true, nil
	}
	if s.advisory != nil && s.advisory.cancelRelease(name) {
		s.advisory.times[name] = 1
		return true, nil
	}
	if s.t.touched || s.state != idle && s.state != begun && !(s.state == inTransaction && s.b.status == 'I') {
		return false, errLockInBlock
	}
	if full := s.account.ExceededBound(account.Own, lockBytes); full != nil {
		return false, errOutOfMemory(full)
	}
	if s.advisory == nil {
		s.advisory = &heldAdvisoryLocks{srv: s.srv, times: map[string]int{}, releaseLater: map[string]bool{}}
	}
	h, ok, err := s.awaitAdvisoryLock(name, waits)
	switch {
	case err != nil:
		return false, err
	case !ok:
		s.srv.metrics.CountAdvisoryLock(metrics.LockRefused)
		return false, nil
	}
	s.srv.metrics.CountAdvisoryLock(metrics.LockTaken)
	s.advisory.times[name] = 1
	s.advisory.addLock(h)
	s.chargeLockMemory()
	return true, nil
}

// errLockInBlock refuses to take an advisory lock in a transaction that the server has begun.
var errLockInBlock = &wire.Error{Code: retry.StateUnsupported, Message: "an advisory lock cannot be taken within a transaction that has begun",
	Detail: "Sluice keeps the lock as a row (" + rewrite.AdvisoryKey + "), which a transaction that began before would not see.",
	Hint:   "Take the lock before BEGIN, or as the first statement behind it; in a pipeline, in front of all other statements."}

// awaitAdvisoryLock takes an advisory lock. ok is false if another session has it and waits is false. A cancel,
// timeouts, lock_timeout and the client's leaving end the wait. If the lock is taken in the same moment as a cancel,
// the cancel is too late, as may happen in PostgreSQL.
func (s *session) awaitAdvisoryLock(name string, waits bool) (h advisory.LockHolder, ok bool, err error) {
	var limit time.Time
	if d := s.lockTimeout(); d > 0 && waits {
		limit = time.Now().Add(d)
	}
	tick := s.tick.Load()
	ctx, over := s.waitContext(limit, lookInLineEvery)
	w := lockAttempt{srv: s.srv, name: name, owner: newLockOwner(), waits: waits}
	h, ok, err = w.pollUntilTaken(ctx)
	var ended error
	if !ok {
		ended = s.waitError(ctx)
	}
	over()
	if tick&1 == 0 { // the turn may end without borrowing a backend
		s.tick.Store((tick | 1) + 1)
	}
	if ok {
		return h, true, nil
	}
	w.releaseIfTaken()
	if ended != nil && err != nil {
		if ended == errWaitedEnough {
			return h, false, errLockTimeout
		}
		return h, false, ended
	}
	return h, false, advisoryLockError(err)
}

// lockTimeout returns the client's lock_timeout, or 0 for none. Clusters do not support that setting. It returns 0 if
// only the server knows the value.
func (s *session) lockTimeout() time.Duration {
	const name = "lock_timeout"
	if !s.settings.AnswersShow(name) {
		return 0
	}
	d, refused := settings.ParseTimeout(name, s.settings.ShownValue(name))
	if refused != nil {
		return 0
	}
	return d
}

var (
	errLockTimeout = &wire.Error{Code: "55P03", Message: "canceling statement due to lock timeout"}
	errLockLost    = &wire.Error{Code: retry.StateConflict, Message: "an advisory lock of this session was taken over by another session",
		Detail: "Its lease ran out before Sluice could renew it, and nothing that this transaction wrote is kept.",
		Hint:   "Connect again and take the lock; look at what was done meanwhile. The time is " + rewrite.AdvisoryKey + "_lease."}
)

// errLockGone ends a session that has lost an advisory lock. PostgreSQL too loses locks only with the connection.
var errLockGone = &wire.Error{Fatal: true, Code: "08006", Message: errLockLost.Message, Detail: "Its lease ran out before Sluice could renew it.", Hint: errLockLost.Hint}

// advisoryLockError turns an error of a statement on the lock table into one for the client. An error of the server,
// such as a missing privilege, retains its SQLSTATE. Any other error becomes errNoBackend.
func advisoryLockError(err error) error {
	if r, ok := errors.AsType[*serverRefusal](err); ok {
		return &wire.Error{Code: r.code, Message: "the table of advisory locks cannot be used: " + r.message, Hint: "See " + advisory.Table + "."}
	}
	if _, ok := errors.AsType[*wire.Error](err); ok || err == nil {
		return err
	}
	return errNoBackend(err)
}

// lockAttempt is one attempt to take an advisory lock. It has no pointer to its session, which other goroutines use.
type lockAttempt struct {
	srv         *Server
	name, owner string
	waits       bool
	// mayHaveTaken: a statement without an answer may have taken the lock. The first was sent at firstUnansweredAt.
	mayHaveTaken      bool
	firstUnansweredAt time.Duration
}

// pollUntilTaken polls the lock until it is taken or ctx ends. After a statement without an answer it reads the row,
// whose owner is unique to this attempt. The lease then counts from before that statement, and is in doubt until
// renewed. If waits is false, it stops when another session has the lock, but tries again while none has it.
//
// A poll without a backend is repeated. Its error ends the wait only if polls have failed for lockReleaseTimeout.
func (w *lockAttempt) pollUntilTaken(ctx context.Context) (h advisory.LockHolder, ok bool, err error) {
	if w.waits {
		leave, err := w.srv.locks.queue.Join(ctx, w.name)
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
		case time.Since(failing) > lockReleaseTimeout:
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

// tryOnce reads the lock's row once, and takes the lock if no session has it or its owner's lease is over. If it does
// neither, pause is the time before the next poll, or below zero if none should follow.
func (w *lockAttempt) tryOnce(ctx context.Context, pace *advisory.PollPacer) (h advisory.LockHolder, ok bool, pause time.Duration, err error) {
	asked := w.srv.locks.clock()
	row, err := w.srv.readLockRow(ctx, w.name)
	if err != nil {
		return h, false, 0, err
	}
	if row != nil && row.Owner == w.owner {
		return advisory.LockHolder{Name: w.name, Row: *row, Confirmed: w.firstUnansweredAt, Doubt: true}, true, 0, nil
	}
	step, left := w.srv.locks.observeRow(w.name, row, asked)
	if step != advisory.Take {
		if !w.waits {
			return h, false, -1, nil
		}
		return h, false, min(pace.NextPause(row.Epoch), max(left, lockPause/10)), nil
	}
	sent := w.srv.locks.clock()
	h, ok, err = w.srv.takeLockRow(ctx, w.name, row, w.owner)
	if ok && row != nil && row.Owner != "" {
		w.srv.metrics.CountAdvisoryLock(metrics.LockTakenOver)
	}
	_, unsent := errors.AsType[*notSentError](err)
	if isUnanswered(err) && !unsent && !w.mayHaveTaken {
		w.mayHaveTaken, w.firstUnansweredAt = true, sent
	}
	return h, ok, lockPause, err
}

// isUnanswered reports whether an error is not an answer of the server, so that the statement may be sent again.
func isUnanswered(err error) bool {
	_, refused := errors.AsType[*serverRefusal](err)
	_, told := errors.AsType[*wire.Error](err)
	return err != nil && !refused && !told
}

// withJitter varies a pause by a quarter, so that waiting sessions do not all poll at the same time.
func withJitter(d time.Duration) time.Duration { return d*3/4 + rand.N(d/2+1) }

// releaseIfTaken releases a lock that an unanswered statement may have taken, when the client gets another answer. If
// even that fails, the row is not renewed, and other sessions wait until the lease ends.
func (w *lockAttempt) releaseIfTaken() {
	if !w.mayHaveTaken {
		return
	}
	w.srv.running.Go(func() {
		ctx, stop := context.WithTimeout(w.srv.ctx, lockReleaseTimeout)
		defer stop()
		if row, err := w.srv.readLockRow(ctx, w.name); err == nil && row != nil && row.Owner == w.owner {
			w.srv.deleteLockRows(ctx, []advisory.LockHolder{{Name: w.name, Row: *row}})
		}
	})
}

// releaseAdvisoryLock releases a lock that was taken once, or decreases its count. If the session does not hold the
// lock, ok is false, and notices has PostgreSQL's warning.
func (s *session) releaseAdvisoryLock(name string) (ok bool, notices [][]byte) {
	l := s.advisory
	if l == nil || l.times[name] == 0 {
		if !s.wantsWarnings() {
			return false, nil
		}
		return false, [][]byte{warnNotOwned.AppendNotice(nil, "WARNING")}
	}
	if l.times[name]--; l.times[name] > 0 {
		return true, nil
	}
	delete(l.times, name)
	s.releaseOrDeferLocks([]string{name})
	return true, nil
}

// warnNotOwned is PostgreSQL's warning for an unlock of an advisory lock that the session does not hold.
var warnNotOwned = &wire.Error{Code: "01000", Message: "you don't own a lock of type ExclusiveLock"}

// releaseAllAdvisoryLocks releases all advisory locks of the session, however often each was taken.
func (s *session) releaseAllAdvisoryLocks() {
	if s.advisory == nil || len(s.advisory.times) == 0 {
		return
	}
	var names []string
	for name := range s.advisory.times {
		names = append(names, name)
	}
	clear(s.advisory.times)
	s.releaseOrDeferLocks(names)
}

// releaseOrDeferLocks releases advisory locks. After DDL or a lock check (fence) it waits for the transaction's end,
// whose COMMIT would fail if a lock was taken over before. If DDL may be running unobserved, the leases just end.
// Otherwise the rows are deleted before the client gets its answer, since it may tell other clients. Only in the middle
// of the backend's answers does another goroutine delete them.
func (s *session) releaseOrDeferLocks(names []string) {
	l := s.advisory
	l.fence = nil
	ddl, doubt := l.mayRunDDL()
	if (ddl || l.hasOpenFence) && !doubt {
		l.mu.Lock()
		for _, name := range names {
			l.releaseLater[name] = true
		}
		l.mu.Unlock()
		return
	}
	dropped := l.removeLocks(func(name string) bool { return slices.Contains(names, name) })
	if doubt {
		return
	}
	s.releaseLockRows(dropped, s.t != nil && !s.t.owed.empty())
}

// releaseLockRows deletes table rows of advisory locks. With later, a goroutine does so, because the caller is in the
// middle of answers and cannot wait.
func (s *session) releaseLockRows(held []advisory.LockHolder, later bool) {
	if len(held) == 0 {
		return
	}
	s.srv.metrics.CountAdvisoryLock(metrics.LockReleased)
	do := func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(s.srv.ctx), lockReleaseTimeout)
		defer stop()
		s.srv.deleteLockRows(ctx, held)
	}
	if later {
		s.srv.running.Go(do)
		return
	}
	do()
}

// releaseDeferredLocks releases the advisory locks whose release waited for the end of the transaction. It is called at
// the end of a turn outside a block, before the client gets its answer.
func (s *session) releaseDeferredLocks() {
	if s.advisory != nil {
		s.advisory.hasOpenFence = false
		s.releaseLockRows(s.advisory.endDDLAndTakeReleases(), false)
	}
}

// releaseLocksAtEnd releases all advisory locks at the session's end, after its backend was given up, so that its
// transaction has ended. After DDL whose end is unknown, the leases just end. If one lock was lost, the others are
// still released: a release does not affect rows of other owners. In a drain the time for this is short.
func (s *session) releaseLocksAtEnd() {
	if s.advisory == nil {
		return
	}
	ddl, doubt := s.advisory.mayRunDDL()
	held := s.advisory.removeLocks(func(string) bool { return true })
	if ddl || doubt || len(held) == 0 {
		return
	}
	limit := lockReleaseTimeout
	if s.cutOff.Load() {
		limit = lastRequestWait
	}
	s.srv.metrics.CountAdvisoryLock(metrics.LockReleased)
	ctx, stop := context.WithTimeout(context.WithoutCancel(s.srv.ctx), limit)
	defer stop()
	s.srv.deleteLockRows(ctx, held)
}
