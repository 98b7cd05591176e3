package proxy

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/proxy/advisory"
	"github.com/sluice-proxy/sluice/proxy/locktable"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file takes and releases a session's advisory locks (rewrite.AdvisoryCall). Each lock is a table row with a
// lease: see package advisory. perform (localstatements.go) calls runAdvisoryLock. lockcall.go has arguments and
// answers, package advisory has the rows and their renewal, lockfence.go what a session with locks may send.
//
// Locks are taken on a separate backend, even if the session has one. A lock therefore needs no pin and survives
// rollbacks, as in PostgreSQL. No lock can be taken in a transaction that the server has begun, which would not see the
// lock's row (lockfence.go). A lock after a BEGIN that Sluice has not sent yet is possible.
//
// As in PostgreSQL, a session counts how often it took a lock, and releases the row with the last unlock. DISCARD ALL
// and the session's end release all locks. An answer about a lock is true when it is sent. lockfence.go guards writes.

// heldAdvisoryLocks has the advisory locks of one session, and state that only the session's goroutine uses.
type heldAdvisoryLocks struct {
	*locktable.Held
	// times has, by a lock's name, how often the session has taken that lock.
	times map[string]int
	// charge is the memory that the session's account is charged for its advisory locks.
	charge account.Charge
	// fence has BEGIN and the queries that precede each write to check the locks. It is empty until they are made.
	fence []*statement.Template
	// hasOpenFence means that the open transaction includes a fence (queries that check the session's locks).
	hasOpenFence bool
}

// removeLocks removes the locks whose names gone accepts from l, and returns their rows, which stay in the table.
func (l *heldAdvisoryLocks) removeLocks(gone func(name string) bool) []advisory.LockHolder {
	l.fence = nil
	return l.Remove(gone)
}

// recordLocksDetached records that the session gives its backend up.
func recordLocksDetached(s *session) {
	if s.advisory != nil {
		s.advisory.RecordBackendGivenUp()
	}
}

// runAdvisoryLock runs a statement on the lock with the given key; nil stands for NULL. ok is the result of a boolean
// function. notices precede the answer. A returned error goes to the client, or ends the session.
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
			Detail: "Its lease is " + s.srv.locks.Terms.Lease.String() + ": a session whose Sluice is silent for longer loses it (" + rewrite.AdvisoryKey + ")."}
		notices = append(notices, notice.AppendNotice(nil, "NOTICE"))
	}
	return ok, notices, err
}

// takeAdvisoryLock takes the lock with the given name in the table. If another session holds the lock, takeAdvisoryLock
// waits if waits is set; otherwise ok is false. If the session already holds the lock, only its count increases, even
// in a transaction. A lock that is about to be released after DDL is taken again without the table.
func (s *session) takeAdvisoryLock(name string, waits bool) (ok bool, err error) {
	if s.advisory != nil && s.advisory.times[name] > 0 {
		s.advisory.times[name]++
		return true, nil
	}
	if s.advisory != nil && s.advisory.CancelRelease(name) {
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
		s.advisory = &heldAdvisoryLocks{Held: s.srv.locks.NewHeld(), times: map[string]int{}}
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
	s.advisory.fence = nil
	s.advisory.Add(h)
	s.chargeLockMemory()
	return true, nil
}

// errLockInBlock refuses to take a lock in a transaction that the server has begun.
var errLockInBlock = &wire.Error{Code: retry.StateUnsupported, Message: "an advisory lock cannot be taken within a transaction that has begun",
	Detail: "Sluice keeps the lock as a row (" + rewrite.AdvisoryKey + "), which a transaction that began before would not see.",
	Hint:   "Take the lock before BEGIN, or as the first statement behind it; in a pipeline, in front of all other statements."}

// awaitAdvisoryLock takes a lock. ok is false if another session has it and waits is false. A cancel, timeouts,
// lock_timeout and the client's leaving end the wait. If the lock is taken in the same moment as a cancel, the cancel
// is too late, as may happen in PostgreSQL.
func (s *session) awaitAdvisoryLock(name string, waits bool) (h advisory.LockHolder, ok bool, err error) {
	var limit time.Time
	if d := s.lockTimeout(); d > 0 && waits {
		limit = time.Now().Add(d)
	}
	tick := s.tick.Load()
	ctx, over := s.waitContext(limit, lookInLineEvery)
	w := s.srv.locks.NewAttempt(name, waits)
	h, ok, err = w.PollUntilTaken(ctx)
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
	w.ReleaseIfTaken()
	if ended != nil && err != nil {
		if ended == errWaitedEnough {
			return h, false, errLockTimeout
		}
		return h, false, ended
	}
	return h, false, advisoryLockError(err)
}

// lockTimeout returns the client's lock_timeout, or 0 for none. Clusters do not support the setting, so that the result
// is 0 if only the server knows the value.
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

// errLockGone ends a session that has lost a lock. In PostgreSQL too, a lock is lost only with its connection.
var errLockGone = &wire.Error{Fatal: true, Code: "08006", Message: errLockLost.Message, Detail: "Its lease ran out before Sluice could renew it.", Hint: errLockLost.Hint}

// advisoryLockError turns an error of a statement on the lock table into one for the client. An error of the server,
// such as a missing privilege, retains its SQLSTATE. Any other error becomes errNoBackend.
func advisoryLockError(err error) error {
	if r, ok := errors.AsType[*locktable.RefusedError](err); ok {
		return &wire.Error{Code: r.Code, Message: "the table of advisory locks cannot be used: " + r.Message, Hint: "See " + advisory.Table + "."}
	}
	if _, ok := errors.AsType[*wire.Error](err); ok || err == nil {
		return err
	}
	return errNoBackend(err)
}

// releaseAdvisoryLock releases a lock that was taken once, and otherwise decreases its count. If the session does not
// hold the lock, ok is false, and notices has PostgreSQL's warning.
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

// warnNotOwned is PostgreSQL's warning for an unlock that returns false.
var warnNotOwned = &wire.Error{Code: "01000", Message: "you don't own a lock of type ExclusiveLock"}

// releaseAllAdvisoryLocks releases all locks, however often each was taken.
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

// releaseOrDeferLocks releases locks. After DDL or a fence (check of the locks) the release waits for the transaction's
// end, since another session could otherwise take a lock over and make the COMMIT fail. If DDL may be running
// unobserved, the leases expire. Otherwise the rows are deleted before the client gets its answer, since the client may
// inform other clients. In the middle of the backend's answers, another goroutine deletes the rows.
func (s *session) releaseOrDeferLocks(names []string) {
	l := s.advisory
	l.fence = nil
	ddl, doubt := l.MayRunDDL()
	if (ddl || l.hasOpenFence) && !doubt {
		l.ReleaseLater(names)
		return
	}
	dropped := l.removeLocks(func(name string) bool { return slices.Contains(names, name) })
	if doubt {
		return
	}
	s.releaseLockRows(dropped, s.t != nil && !s.t.owed.empty())
}

// releaseLockRows deletes rows of locks. If later is set, a goroutine does, since the caller cannot wait amid answers.
func (s *session) releaseLockRows(held []advisory.LockHolder, later bool) {
	if len(held) == 0 {
		return
	}
	s.srv.metrics.CountAdvisoryLock(metrics.LockReleased)
	do := func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(s.srv.ctx), locktable.ReleaseTimeout)
		defer stop()
		s.srv.locks.DeleteRows(ctx, held)
	}
	if later {
		s.srv.running.Go(do)
		return
	}
	do()
}

// releaseDeferredLocks releases the locks whose release waited for the end of the transaction. It is called at the end
// of a turn outside a block, before the client gets its answer.
func (s *session) releaseDeferredLocks() {
	if s.advisory != nil {
		s.advisory.hasOpenFence = false
		released := s.advisory.EndDDLAndTakeReleases()
		if len(released) > 0 {
			s.advisory.fence = nil
		}
		s.releaseLockRows(released, false)
	}
}

// releaseLocksAtEnd releases all locks at the session's end, after its backend was given up, so that its transaction
// has ended. After DDL whose end is unknown, the leases expire. If one lock was lost, the others are still released,
// since a release does not affect rows of other owners. In a drain the time for releases is short.
func (s *session) releaseLocksAtEnd() {
	if s.advisory == nil {
		return
	}
	ddl, doubt := s.advisory.MayRunDDL()
	held := s.advisory.removeLocks(func(string) bool { return true })
	if ddl || doubt || len(held) == 0 {
		return
	}
	limit := locktable.ReleaseTimeout
	if s.cutOff.Load() {
		limit = lastRequestWait
	}
	s.srv.metrics.CountAdvisoryLock(metrics.LockReleased)
	ctx, stop := context.WithTimeout(context.WithoutCancel(s.srv.ctx), limit)
	defer stop()
	s.srv.locks.DeleteRows(ctx, held)
}
