package locktable

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/advisory"
)

// This file counts how often a session took each of its locks, and decides when the rows are released. As in
// PostgreSQL, the last unlock of a lock releases its row. Only the session's goroutine calls these functions.
//
// After DDL or a fence (check of the locks) a release waits for the transaction's end, since another session could
// otherwise take a lock over and make the COMMIT fail. If DDL may be running on a backend that was given up, the rows
// stay until their leases end.

// HoldsAny reports whether the client believes that it holds locks. The result does not include locks that are released
// at the transaction's end. A nil Held has no locks.
func (l *Held) HoldsAny() bool { return l != nil && len(l.times) > 0 }

// Count returns the number of locks that the client believes it holds. A nil Held has none.
func (l *Held) Count() int {
	if l == nil {
		return 0
	}
	return len(l.times)
}

// HasDDL reports whether the session holds locks and a transaction with DDL is open. The DDL takes effect at the
// transaction's end, which may come much later.
func (l *Held) HasDDL() bool {
	if !l.HoldsAny() {
		return false
	}
	ddl, _ := l.mayRunDDL()
	return ddl
}

// TakeAgain takes, without a query of the table, a lock that the session has already, and reports success. A lock
// that is to be released at the transaction's end is still the session's. A nil Held has no lock.
func (l *Held) TakeAgain(name string) bool {
	switch {
	case l == nil:
		return false
	case l.times[name] > 0:
		l.times[name]++
		return true
	case l.cancelRelease(name):
		l.times[name] = 1
		return true
	}
	return false
}

// AddTaken adds the lock of row h, which the session has just taken in the table of locks.
func (l *Held) AddTaken(h advisory.LockHolder) {
	l.times[h.Name] = 1
	l.Add(h)
}

// IsTakenOnce reports whether the session has taken a lock exactly once more than it has released it.
func (l *Held) IsTakenOnce(name string) bool { return l.times[name] == 1 }

// Unlock undoes one taking of a lock. ok is false if the session does not hold the lock. over has the rows that the
// caller must delete. A nil Held has no lock.
func (l *Held) Unlock(name string) (over []advisory.LockHolder, ok bool) {
	if l == nil || l.times[name] == 0 {
		return nil, false
	}
	if l.times[name]--; l.times[name] > 0 {
		return nil, true
	}
	delete(l.times, name)
	return l.releaseOrDefer([]string{name}), true
}

// UnlockAll undoes all takings of all locks. over has the rows that the caller must delete. A nil Held has no locks.
func (l *Held) UnlockAll() (over []advisory.LockHolder) {
	if !l.HoldsAny() {
		return nil
	}
	var names []string
	for name := range l.times {
		names = append(names, name)
	}
	clear(l.times)
	return l.releaseOrDefer(names)
}

// releaseOrDefer releases locks, now or at the end of the transaction. The result is the rows to delete now.
func (l *Held) releaseOrDefer(names []string) (over []advisory.LockHolder) {
	ddl, doubt := l.mayRunDDL()
	if (ddl || l.fenced) && !doubt {
		l.deferReleases(names)
		return nil
	}
	over = l.Remove(func(name string) bool { return slices.Contains(names, name) })
	if doubt {
		return nil
	}
	return over
}

// RecordFence records that the open transaction includes a fence (a check of the locks).
func (l *Held) RecordFence() { l.fenced = true }

// EndTransaction records that the session's backend runs no statement any more. The result is the rows whose release
// waited for that, and the caller deletes them. A nil Held has none.
func (l *Held) EndTransaction() (over []advisory.LockHolder) {
	if l == nil {
		return nil
	}
	l.fenced = false
	return l.endDDLAndTakeReleases()
}

// Close drops all locks at the session's end, after its backend was given up. over has the rows that the caller must
// delete. After DDL whose end is unknown over is empty, since the leases must end first. A nil Held has no locks.
func (l *Held) Close() (over []advisory.LockHolder) {
	if l == nil {
		return nil
	}
	ddl, doubt := l.mayRunDDL()
	over = l.Remove(func(string) bool { return true })
	if ddl || doubt {
		return nil
	}
	return over
}

// Changes returns a number that changes with the set of the session's rows. A fence is valid for one such number.
func (l *Held) Changes() uint64 { return l.changes }
