package proxy

import (
	"errors"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/proxy/advisory"
	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/locktable"
	"github.com/sluice-proxy/sluice/proxy/notice"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file takes and releases a session's advisory locks (rewrite.AdvisoryCall). Each lock is a table row with a
// lease: see package advisory. lockcall.go has arguments and answers, and calls runAdvisoryLock. Package advisory
// has the rows and their renewal, lockfence.go what a session with locks may send.
//
// Sluice takes locks on a separate backend, even if the session has one. A lock therefore needs no pin and survives
// rollbacks, as in PostgreSQL. No lock can be taken in a transaction that the server has begun, which would not see
// the lock's row (lockfence.go). A lock after a BEGIN that Sluice has not sent yet is possible.
//
// Package locktable counts how often a session took a lock, and decides when a lock's row is released. DISCARD ALL and
// the session's end release all locks. An answer about a lock is true when it is sent. lockfence.go guards writes.

// sessionLocks has the advisory locks of one session.
type sessionLocks struct {
	*locktable.Held
	// charge is the number of bytes that Sluice charges to the session's memory account for these locks.
	charge account.Charge
	// fence has BEGIN and the queries that precede each write to check the locks. It is empty before the first of these
	// writes, and valid while Held.Changes returns fenceOf.
	fence   []*statement.Template
	fenceOf uint64
}

// heldLocks returns the session's advisory locks, or nil if the client has never asked for a lock.
func (s *session) heldLocks() *locktable.Held {
	if s.advisory == nil {
		return nil
	}
	return s.advisory.Held
}

// recordLocksDetached records in the session's locks that the session gives up its backend.
func recordLocksDetached(s *session) {
	if l := s.heldLocks(); l != nil {
		l.RecordBackendGivenUp()
	}
}

// releaseAllLocks releases all advisory locks of the session, however often the session took each.
func releaseAllLocks(s *session) { s.releaseLockRows(s.heldLocks().UnlockAll()) }

// runAdvisoryLock runs a statement on the lock with the given key; nil stands for NULL. ok is the result of a boolean
// function. notices precede the answer. A returned error goes to the client, or ends the session.
func (s *session) runAdvisoryLock(a *rewrite.AdvisoryCall, key []int64) (ok bool, notices [][]byte, err error) {
	switch {
	case a.Verb == rewrite.UnlockAllAdvisory:
		releaseAllLocks(s)
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
	if ok && s.advisory.IsTakenOnce(name) && notice.Wanted(&s.settings) {
		row := wire.Error{Code: notice.Code, Message: "the advisory lock is a row of " + advisory.Table,
			Detail: "Its lease is " + s.srv.pool.locks.Terms.Lease.String() + ": a session whose Sluice is silent for longer loses it (" + rewrite.AdvisoryKey + ")."}
		notices = append(notices, row.AppendNotice(nil, "NOTICE"))
	}
	return ok, notices, err
}

// takeAdvisoryLock takes the lock with the given name in the lock table. If another session holds it,
// takeAdvisoryLock waits if waits is set; otherwise ok is false. If this session already holds it, only its count
// increases, even in a transaction. A lock whose release waits for the end of DDL is also taken without the table.
func (s *session) takeAdvisoryLock(name string, waits bool) (ok bool, err error) {
	if s.heldLocks().TakeAgain(name) {
		return true, nil
	}
	if s.t.touched || s.state != idle && s.state != begun && !(s.state == inTransaction && s.b.status == 'I') {
		return false, advisory.ErrInBlock
	}
	if full := s.memory.account.ExceededBound(account.Own, lockBytes); full != nil {
		return false, errOutOfMemory(full)
	}
	if s.advisory == nil {
		s.advisory = &sessionLocks{Held: s.srv.pool.locks.NewHeld()}
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
	s.advisory.AddTaken(h)
	chargeLockMemory(s)
	return true, nil
}

// awaitAdvisoryLock takes a lock. ok is false if another session has it and waits is false. A cancel, timeouts,
// lock_timeout and the client's leaving end the wait. If the lock is taken in the same moment as a cancel, the cancel
// is too late, as may happen in PostgreSQL.
func (s *session) awaitAdvisoryLock(name string, waits bool) (h advisory.LockHolder, ok bool, err error) {
	var limit time.Time
	if d := lockTimeout(&s.settings); d > 0 && waits {
		limit = time.Now().Add(d)
	}
	tick := s.waits.Tick()
	ctx, over := s.waitContext(limit, lookInLineEvery)
	w := s.srv.pool.locks.NewAttempt(name, waits)
	h, ok, err = w.PollUntilTaken(ctx)
	var ended error
	if !ok {
		ended = s.waits.Error(ctx)
	}
	over()
	s.waits.EndSince(tick)
	if ok {
		return h, true, nil
	}
	w.ReleaseIfTaken()
	if ended != nil && err != nil {
		if ended == interrupt.ErrLimit {
			return h, false, errLockTimeout
		}
		return h, false, ended
	}
	return h, false, advisoryLockError(err)
}

// lockTimeout returns a client's lock_timeout, or 0 for none. Clusters do not support the setting, so that the result
// is 0 if only the server knows the value.
func lockTimeout(c *settings.Client) time.Duration {
	const name = "lock_timeout"
	if !c.AnswersShow(name) {
		return 0
	}
	d, refused := settings.ParseTimeout(name, c.ShownValue(name))
	if refused != nil {
		return 0
	}
	return d
}

// errLockTimeout ends the wait for an advisory lock after lock_timeout.
var errLockTimeout = &wire.Error{Code: "55P03", Message: "canceling statement due to lock timeout"}

// advisoryLockError turns an error of a statement on the lock table into one for the client. An error of the server,
// such as a missing privilege, retains its SQLSTATE. Any other error becomes sqlerror.NoBackend.
func advisoryLockError(err error) error {
	if r, ok := errors.AsType[*locktable.RefusedError](err); ok {
		return &wire.Error{Code: r.Code, Message: "the table of advisory locks cannot be used: " + r.Message, Hint: "See " + advisory.Table + "."}
	}
	if _, ok := errors.AsType[*wire.Error](err); ok || err == nil {
		return err
	}
	return sqlerror.NoBackend(err)
}

// releaseAdvisoryLock undoes one taking of a lock. If the session does not hold the lock, ok is false, and notices
// has PostgreSQL's warning. The last release of a lock deletes its row before the client gets its answer, since the
// client may inform other clients.
func (s *session) releaseAdvisoryLock(name string) (ok bool, notices [][]byte) {
	over, ok := s.heldLocks().Unlock(name)
	s.releaseLockRows(over)
	if !ok && notice.WarningsWanted(&s.settings) {
		notices = [][]byte{advisory.WarningNotOwned()}
	}
	return ok, notices
}

// releaseLockRows deletes the rows of the released locks in over. While replies of the backend are pending, a
// goroutine deletes them, since the caller cannot wait.
func (s *session) releaseLockRows(over []advisory.LockHolder) {
	s.srv.pool.locks.Release(over, locktable.ReleaseTimeout, s.t != nil && !s.t.owed.empty())
}

// releaseDeferredLocks releases the locks whose release waited for the end of the transaction. The session calls it
// at the end of a turn, outside a block, before the client gets the turn's answer.
func releaseDeferredLocks(s *session) {
	s.srv.pool.locks.Release(s.heldLocks().EndTransaction(), locktable.ReleaseTimeout, false)
}

// releaseLocksAtEnd releases all locks at the session's end. The session has already given up its backend, so that
// its transaction has ended. If one lock was lost, the others are still released, since a release does not affect
// rows of other owners. In a drain (shutdown) the time for releases is short.
func releaseLocksAtEnd(s *session) {
	limit := locktable.ReleaseTimeout
	if s.waits.IsCut() {
		limit = lastRequestWait
	}
	s.srv.pool.locks.Release(s.heldLocks().Close(), limit, false)
}
