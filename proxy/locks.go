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

// Advisory locks of a session (rewrite.Advisory), which are rows of a table with a lease, as
// package advisory has it. perform (local.go) calls runAdvisory; lockcall.go has the arguments
// and the answers, lockkeeper.go the rows, lockfence.go what a session that holds some may send.
//
// A lock is taken on a backend of its own, also where the session has one: so it needs no pin,
// and stays through rollbacks, as in PostgreSQL. It is not taken within a transaction that the
// server has begun: that one would not see the row of the lock (lockfence.go). A BEGIN that is
// held back is no such transaction, and a lock behind it is fine.
//
// A session counts how often it has taken a lock, and gives it up with the last: as PostgreSQL
// does, and without a word to the server for the others. DISCARD ALL and the session's end give
// all up. What a client is told of a lock is true at that moment; what is promised of it is the
// business of lockfence.go.
//
// Whoever waits looks at the row again and again, not in step with others: there is nothing that a
// cluster would wake a waiting session by. Of those of one process the first in the line looks.

// lockPause is the pause in front of another look where the last one has failed, or another was
// faster. Of a lock that somebody holds advisory.Patience says how long it is.
const lockPause = 50 * time.Millisecond

// runAdvisory does what a statement says of the lock of a key, nil for NULL; ok is what a function
// of type boolean returns. notices go in front of the answer. An error is for the client, or the
// session's end.
func (s *session) runAdvisory(a *rewrite.Advisory, key []int64) (ok bool, notices [][]byte, err error) {
	switch {
	case a.Verb == rewrite.UnlockAllAdvisory:
		s.unlockAll()
		return true, nil, nil
	case key == nil:
		return false, nil, nil // the functions are strict
	}
	name := advisory.NameOf(s.inSchema, key)
	if a.Verb == rewrite.UnlockAdvisory {
		ok, notices = s.unlock(name)
		return ok, notices, nil
	}
	ok, err = s.lockAdvisory(name, a.Verb == rewrite.LockAdvisory)
	if ok && s.advisory.times[name] == 1 && s.hearsNotices() {
		notice := wire.Error{Code: codeNotice, Message: "the advisory lock is a row of " + advisory.Table,
			Detail: "Its lease is " + s.srv.locks.terms.Lease.String() + ": a session whose Sluice is silent for longer loses it (" + rewrite.AdvisoryKey + ")."}
		notices = append(notices, notice.AppendNotice(nil, "NOTICE"))
	}
	return ok, notices, err
}

// lockAdvisory takes a lock by its name in the table. One that others hold is waited for where waits
// says so; else ok is false.
// One that the session holds already is counted once more, also inside a transaction. One that was
// given up inside a transaction with DDL, and is therefore still there, is kept.
func (s *session) lockAdvisory(name string, waits bool) (ok bool, err error) {
	if s.advisory != nil && s.advisory.times[name] > 0 {
		s.advisory.times[name]++
		return true, nil
	}
	if s.advisory != nil && s.advisory.staysLocked(name) {
		s.advisory.times[name] = 1
		return true, nil
	}
	if s.t.touched || s.state != idle && s.state != begun && !(s.state == inTransaction && s.b.status == 'I') {
		return false, errLockInBlock
	}
	if full := s.account.Full(account.Own, lockBytes); full != nil {
		return false, errMemory(full)
	}
	if s.advisory == nil {
		s.advisory = &sessionLocks{srv: s.srv, times: map[string]int{}, leaving: map[string]bool{}}
	}
	h, ok, err := s.awaitLock(name, waits)
	switch {
	case err != nil:
		return false, err
	case !ok:
		s.srv.metrics.AdvisoryLock(metrics.LockRefused)
		return false, nil
	}
	s.srv.metrics.AdvisoryLock(metrics.LockTaken)
	s.advisory.times[name] = 1
	s.advisory.keepLock(h)
	s.chargeLocks()
	return true, nil
}

// errLockInBlock refuses a lock within a transaction that the server has begun.
var errLockInBlock = &wire.Error{Code: retry.StateUnsupported, Message: "an advisory lock cannot be taken within a transaction that has begun",
	Detail: "Sluice keeps the lock as a row (" + rewrite.AdvisoryKey + "), which a transaction that began before would not see.",
	Hint:   "Take the lock before BEGIN, or as the first statement behind it; in a pipeline, in front of all other statements."}

// awaitLock takes a lock; ok is false where it is another's and nobody waits. Cancel, timeouts,
// lock_timeout and the client's end end a wait. A lock that was taken at the same moment is kept:
// the client is told that it has it, and its cancel comes late, as it may in PostgreSQL.
func (s *session) awaitLock(name string, waits bool) (h advisory.Holder, ok bool, err error) {
	var limit time.Time
	if d := s.lockTimeout(); d > 0 && waits {
		limit = time.Now().Add(d)
	}
	tick := s.tick.Load()
	ctx, over := s.wait(limit, lookInLineEvery)
	w := lockWait{srv: s.srv, name: name, owner: newOwner(), waits: waits}
	h, ok, err = w.run(ctx)
	var ended error
	if !ok {
		ended = s.waited(ctx)
	}
	over()
	if tick&1 == 0 { // the turn may be answered without a backend
		s.tick.Store((tick | 1) + 1)
	}
	if ok {
		return h, true, nil
	}
	w.giveUp()
	if ended != nil && err != nil {
		if ended == errWaitedEnough {
			return h, false, errLockTimeout
		}
		return h, false, ended
	}
	return h, false, lockError(err)
}

// lockTimeout is the client's lock_timeout; 0: none. Where the server keeps that setting, nobody here
// knows it: a cluster takes none.
func (s *session) lockTimeout() time.Duration {
	const name = "lock_timeout"
	if !s.settings.Shows(name) {
		return 0
	}
	d, refused := settings.Timeout(name, s.settings.Shown(name))
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

// errLockGone ends a session that has lost a lock: as in PostgreSQL, that goes with its connection.
var errLockGone = &wire.Error{Fatal: true, Code: "08006", Message: errLockLost.Message, Detail: "Its lease ran out before Sluice could renew it.", Hint: errLockLost.Hint}

// lockError is what a client is told of an error that the table's statements had: the server's, such
// as a right that is missing, with its own SQLSTATE, and else that there is no backend.
func lockError(err error) error {
	if r, ok := errors.AsType[*refusedError](err); ok {
		return &wire.Error{Code: r.code, Message: "the table of advisory locks cannot be used: " + r.message, Hint: "See " + advisory.Table + "."}
	}
	if _, ok := errors.AsType[*wire.Error](err); ok || err == nil {
		return err
	}
	return errNoBackend(err)
}

// lockWait is an attempt to have a lock, from the client's statement to its answer. It does not know
// its session, so that nothing of it is touched while others look for its client.
type lockWait struct {
	srv         *Server
	name, owner string
	waits       bool
	// doubted: the lock may be taken, and sent is when that was asked for first.
	doubted bool
	sent    time.Duration
}

// run looks at the lock until it is taken, or until ctx ends. A statement without an answer is
// followed by a look: its row has an owner that is nobody else's. Such a lock counts from the
// moment before the first statement that may have taken it, and is in doubt until it is renewed.
// Whoever does not wait has one look at a lock that is another's, and as many as it takes at one
// that is nobody's.
//
// A look that has no backend, or loses it, tells nothing, and there is another: the wait ends with
// such an error only where looks have failed for lockEnd.
func (w *lockWait) run(ctx context.Context) (h advisory.Holder, ok bool, err error) {
	if w.waits {
		leave, err := w.srv.locks.queue.Join(ctx, w.name)
		if err != nil {
			return h, false, err
		}
		defer leave()
	}
	var pace advisory.Patience
	var failing time.Time // since when looks fail; zero: the last one did not
	for {
		h, ok, pause, err := w.look(ctx, &pace)
		switch {
		case ok:
			return h, true, nil
		case err == nil:
			failing = time.Time{}
		case !unheard(err) && !lostRace(err) || ctx.Err() != nil:
			return h, false, err
		case failing.IsZero():
			failing = time.Now()
		case time.Since(failing) > lockEnd:
			return h, false, err
		}
		if err == nil && pause < 0 {
			return h, false, nil
		}
		if err != nil {
			pause = lockPause
		}
		if err := sleep(ctx, jittered(pause)); err != nil {
			return h, false, err
		}
	}
}

// look looks at the lock once, and takes it where it is nobody's, or its owner's lease has run out.
// Where neither took place, pause is how long the next look has to wait; below zero there is none.
func (w *lockWait) look(ctx context.Context, pace *advisory.Patience) (h advisory.Holder, ok bool, pause time.Duration, err error) {
	asked := w.srv.locks.clock()
	row, err := w.srv.lookAtLock(ctx, w.name)
	if err != nil {
		return h, false, 0, err
	}
	if row != nil && row.Owner == w.owner {
		return advisory.Holder{Name: w.name, Row: *row, Confirmed: w.sent, Doubt: true}, true, 0, nil
	}
	step, left := w.srv.locks.saw(w.name, row, asked)
	if step != advisory.Take {
		if !w.waits {
			return h, false, -1, nil
		}
		return h, false, min(pace.Pause(row.Epoch), max(left, lockPause/10)), nil
	}
	sent := w.srv.locks.clock()
	h, ok, err = w.srv.takenLock(ctx, w.name, row, w.owner)
	if ok && row != nil && row.Owner != "" {
		w.srv.metrics.AdvisoryLock(metrics.LockTakenOver)
	}
	_, unsent := errors.AsType[*notAskedError](err)
	if unheard(err) && !unsent && !w.doubted {
		w.doubted, w.sent = true, sent
	}
	return h, ok, lockPause, err
}

// unheard reports whether an error is none of the server's: what was asked may be asked again. A
// refusal is for the client.
func unheard(err error) bool {
	_, refused := errors.AsType[*refusedError](err)
	_, told := errors.AsType[*wire.Error](err)
	return err != nil && !refused && !told
}

// jittered is a pause that varies by a quarter, so that those who wait do not ask at once, and a
// lock that was given up does not have all of them fight for its row.
func jittered(d time.Duration) time.Duration { return d*3/4 + rand.N(d/2+1) }

// giveUp leaves a lock to others that may have been taken all the same, where the answer to that was
// lost and the client is told something else. Where even this comes to nothing, nobody renews the
// row, and others have to wait for a lease.
func (w *lockWait) giveUp() {
	if !w.doubted {
		return
	}
	w.srv.running.Go(func() {
		ctx, stop := context.WithTimeout(w.srv.ctx, lockEnd)
		defer stop()
		if row, err := w.srv.lookAtLock(ctx, w.name); err == nil && row != nil && row.Owner == w.owner {
			w.srv.releaseLocks(ctx, []advisory.Holder{{Name: w.name, Row: *row}})
		}
	})
}

// unlock gives a lock up that was taken once, or counts one less; ok is false, with PostgreSQL's
// warning, where the session does not hold it.
func (s *session) unlock(name string) (ok bool, notices [][]byte) {
	l := s.advisory
	if l == nil || l.times[name] == 0 {
		if !s.hearsWarnings() {
			return false, nil
		}
		return false, [][]byte{warnNotOwned.AppendNotice(nil, "WARNING")}
	}
	if l.times[name]--; l.times[name] > 0 {
		return true, nil
	}
	delete(l.times, name)
	s.giveUpLocks([]string{name})
	return true, nil
}

// warnNotOwned is PostgreSQL's warning, word for word: it stands in front of the answer false.
var warnNotOwned = &wire.Error{Code: "01000", Message: "you don't own a lock of type ExclusiveLock"}

// unlockAll gives all locks up, however often they were taken.
func (s *session) unlockAll() {
	if s.advisory == nil || len(s.advisory.times) == 0 {
		return
	}
	var names []string
	for name := range s.advisory.times {
		names = append(names, name)
	}
	clear(s.advisory.times)
	s.giveUpLocks(names)
}

// giveUpLocks leaves locks to others: at once, or where a transaction is open that has DDL or was
// checked against the locks, when that has ended: a COMMIT behind the takeover of a row that it has
// read would fail. Where DDL may run that nobody hears of, their leases run out. Whoever is told that a
// lock is given up may tell another at once, and so the row is changed first; but not in the
// middle of answers of the session's backend, which nobody would read meanwhile.
func (s *session) giveUpLocks(names []string) {
	l := s.advisory
	l.fence = nil
	ddl, doubt := l.runsDDL()
	if (ddl || l.fencing) && !doubt {
		l.mu.Lock()
		for _, name := range names {
			l.leaving[name] = true
		}
		l.mu.Unlock()
		return
	}
	dropped := l.dropLocks(func(name string) bool { return slices.Contains(names, name) })
	if doubt {
		return
	}
	s.release(dropped, s.t != nil && !s.t.owed.empty())
}

// release gives rows to others, or has that done where the caller cannot wait: in the middle of
// answers, and at the end of a turn whose client waits for no such thing.
func (s *session) release(held []advisory.Holder, later bool) {
	if len(held) == 0 {
		return
	}
	s.srv.metrics.AdvisoryLock(metrics.LockReleased)
	do := func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(s.srv.ctx), lockEnd)
		defer stop()
		s.srv.releaseLocks(ctx, held)
	}
	if later {
		s.srv.running.Go(do)
		return
	}
	do()
}

// locksSettled is told that no statement of the session runs any more, at the end of a turn outside
// of a block. Locks that were given up in its transaction go now, in front of the client's answer:
// it may tell another.
func (s *session) locksSettled() {
	if s.advisory != nil {
		s.advisory.fencing = false
		s.release(s.advisory.settled(), false)
	}
}

// leaveLocks gives all locks up at the session's end: behind its backend, on which the transaction
// that was open has ended or was told to, so that nobody who gets the lock meets what it holds.
// Behind DDL whose end nobody has heard of their leases run out. Where one is another's, the others are given up as
// well: a release changes no row of another owner. A session that is cut has little time.
func (s *session) leaveLocks() {
	if s.advisory == nil {
		return
	}
	ddl, doubt := s.advisory.runsDDL()
	held := s.advisory.dropLocks(func(string) bool { return true })
	if ddl || doubt || len(held) == 0 {
		return
	}
	limit := lockEnd
	if s.cutOff.Load() {
		limit = lastRequestWait
	}
	s.srv.metrics.AdvisoryLock(metrics.LockReleased)
	ctx, stop := context.WithTimeout(context.WithoutCancel(s.srv.ctx), limit)
	defer stop()
	s.srv.releaseLocks(ctx, held)
}
