package mapping

import (
	"cmp"
	"errors"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
)

// This file decides who reads the schema, and when a reading may begin. At most two readings run at a time: one on a
// borrowed backend, and one on a session's own.

// These durations bound readings of the schema. After the server refused a reading, no change of the schema is read for
// schemaRest. Two readings because of unknown names are at least missingRest apart.
const (
	schemaRest  = time.Second
	missingRest = 250 * time.Millisecond
)

// Load is one reading of the schema, shared by all sessions that wait for it.
type Load struct {
	done chan struct{}
	err  error
}

// Done returns a channel that is closed when the reading has ended.
func (l *Load) Done() <-chan struct{} { return l.done }

// Err returns why the reading failed, or nil. The caller must not call Err before the reading has ended.
func (l *Load) Err() error { return l.err }

// wasAbandoned reports whether a reading ended with its session or backend, so that another session must read.
func (l *Load) wasAbandoned() bool {
	select {
	case <-l.done:
		return l.err == errReaderLeft
	default:
		return false
	}
}

// Start starts a reading of the schema on a backend of no session, and returns it as l. If another caller's reading
// is running, l is that reading, and mine is false. If a reading for the same cause has just ended, l is nil, and the
// caller uses the Keeper's snapshot.
func (k *Keeper) Start(cause string) (l *Load, mine bool) {
	l, mine, rest := k.begin(cause)
	if mine {
		k.server.Go(func() {
			if rest > 0 {
				select {
				case <-time.After(rest):
				case <-k.server.Context().Done():
				}
			}
			k.finish(l, cause, k.readBorrowed)
		})
	}
	return l, mine
}

// readBorrowed reads the schema by a backend of no session.
func (k *Keeper) readBorrowed() (read reading, err error) {
	err = k.server.Borrow(func(ask Query) (err error) {
		read, err = k.read(ask)
		return err
	})
	return read, err
}

// begin begins a reading, which finish ends. It returns l and mine as Start does, and rest, the pause before reading.
func (k *Keeper) begin(cause string) (l *Load, mine bool, rest time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sharedLoad != nil {
		return k.sharedLoad, false, 0
	}
	switch {
	case cause == metrics.LoadError && !k.mayLoadForNamesLocked(), (cause == metrics.LoadStart || cause == metrics.LoadChange) && k.wasRefusedLocked():
		return nil, false, 0
	case cause == metrics.LoadMissing:
		rest = max(0, missingRest-time.Since(k.loadEndedAt))
	}
	k.sharedLoad = &Load{done: make(chan struct{})}
	return k.sharedLoad, true, rest
}

// finish reads the schema by calling ask, and wakes all that wait for l.
func (k *Keeper) finish(l *Load, cause string, ask func() (reading, error)) {
	l.err = k.replaceSnapshot(cause, ask)
	k.mu.Lock()
	k.sharedLoad, k.loadError = nil, l.err
	k.recordLoadEndLocked(cause)
	k.mu.Unlock()
	k.wakeWaiters(l)
}

// LoadOn reads the schema by ask, on a session's own idle backend. It does not wait for a reading by Start, since that
// reading may itself wait for this session's backend. If several sessions call LoadOn, one reads for all.
//
// The others wait by calling wait, and get mine false, since their backends may know a newer schema. mine is also false
// if no reading is possible now. The error is a NotRead error, an error of wait, or a *NoAnswerError.
func (k *Keeper) LoadOn(cause string, ask Query, wait func(*Load) error) (mine bool, err error) {
	l, mine := k.beginOwn(cause)
	for range maxTries {
		if l == nil || mine {
			break
		}
		if err := wait(l); !l.wasAbandoned() {
			return false, err
		}
		l, mine = k.beginOwn(cause)
	}
	switch {
	case l == nil:
		return false, nil
	case !mine:
		return false, NotRead(errReaderLeft)
	}
	err = k.replaceSnapshot(cause, func() (reading, error) { return k.read(ask) })
	var refused *RefusedError
	answered := err == nil || errors.As(err, &refused)
	if l.err = err; !answered { // the session or its backend ended, which proves nothing about the server
		l.err = errReaderLeft
	}
	k.endOwn(l, cause)
	switch {
	case err == nil:
		return true, nil
	case !answered:
		return true, &NoAnswerError{err}
	}
	return true, NotRead(err)
}

// beginOwn begins a reading on a session's own backend, which endOwn ends. If another session reads, mine is false.
func (k *Keeper) beginOwn(cause string) (l *Load, mine bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.ownLoad != nil:
		return k.ownLoad, false
	case cause == metrics.LoadError && !k.mayLoadForNamesLocked(), cause == metrics.LoadStart && k.wasRefusedLocked():
		return nil, false
	}
	k.ownLoad = &Load{done: make(chan struct{})}
	return k.ownLoad, true
}

// endOwn ends a reading that beginOwn began, and wakes the waiting sessions.
func (k *Keeper) endOwn(l *Load, cause string) {
	k.mu.Lock()
	k.ownLoad = nil
	if l.err != errReaderLeft { // errReaderLeft: nothing was read
		k.loadError = l.err
		k.recordLoadEndLocked(cause)
	}
	k.mu.Unlock()
	k.wakeWaiters(l)
}

// wakeWaiters wakes all sessions that wait for a reading. It reduces pendingLoads last, so that a session that sees 0
// also sees the result.
func (k *Keeper) wakeWaiters(l *Load) {
	close(l.done)
	if l.err == nil {
		k.pendingLoads.Add(-1)
	}
}

// IsQuerying reports whether a backend is being queried for a reading. After the last query has succeeded, the result
// is true until the reading's waiters are woken.
func (k *Keeper) IsQuerying() bool { return k.pendingLoads.Load() > 0 }

// MayLoadForNames reports whether Sluice may read the schema again now because of an unknown name.
func (k *Keeper) MayLoadForNames() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mayLoadForNamesLocked()
}

// mayLoadForNamesLocked reports whether the last reading because of an unknown name ended at least missingRest ago.
func (k *Keeper) mayLoadForNamesLocked() bool {
	return time.Since(k.nameErrorLoadAt) >= missingRest
}

// wasRefusedLocked reports whether the server refused the last reading less than schemaRest ago.
func (k *Keeper) wasRefusedLocked() bool {
	return isRefusal(k.loadError) && time.Since(k.loadEndedAt) < schemaRest
}

// recordLoadEndLocked records when a reading with the given cause ended.
func (k *Keeper) recordLoadEndLocked(cause string) {
	k.loadEndedAt = time.Now()
	if cause == metrics.LoadError {
		k.nameErrorLoadAt = k.loadEndedAt
	}
}

// LastError returns the error of the last reading of the schema, or nil. NotRead makes the client's error of it.
func (k *Keeper) LastError() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.loadError
}

// MissingError returns the client's error, with the reason, if no snapshot exists. MissingError returns nil if a
// snapshot exists.
func (k *Keeper) MissingError() error {
	if k.current.Load() != nil {
		return nil
	}
	return NotRead(cmp.Or(k.LastError(), ErrLate))
}
