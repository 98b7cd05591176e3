package interrupt

import "time"

// Clock has the times at which a turn must be interrupted. One is the end of the statement timeout, if Sluice enforces
// that setting itself. The other is the end of hold_time, at which the client gets withheld answers. The zero Clock has
// no such times. Only the session's goroutine uses a Clock.
type Clock struct {
	deadline time.Time // the end of the statement timeout; zero: none
	holdEnd  time.Time // the end of hold_time; zero: no answer is withheld
	started  bool      // the statement timeout was started in this turn
}

// Start starts the statement timeout when the turn's first statement is about to wait or to be sent. Later calls change
// nothing, since a pipeline or multi-statement query has one timeout as a whole (docs/compatibility.md). A timeout of 0
// means none.
func (c *Clock) Start(timeout time.Duration) {
	if timeout > 0 && !c.started {
		c.started = true
		c.deadline = time.Now().Add(timeout)
	}
}

// Restart replaces the statement timeout by one that begins now. A timeout of 0 means none.
func (c *Clock) Restart(timeout time.Duration) {
	c.deadline = time.Time{}
	if timeout > 0 {
		c.deadline = time.Now().Add(timeout)
	}
}

// Stop ends the statement timeout. Start does not start another one in this turn.
func (c *Clock) Stop() { c.deadline = time.Time{} }

// Deadline returns when the statement timeout ends. The zero time means never.
func (c *Clock) Deadline() time.Time { return c.deadline }

// SetDeadline changes the end of the statement timeout. The zero time means never.
func (c *Clock) SetDeadline(end time.Time) { c.deadline = end }

// hasExpired reports whether the statement timeout has ended by now.
func (c *Clock) hasExpired(now time.Time) bool {
	return !c.deadline.IsZero() && !now.Before(c.deadline)
}

// Hold limits how long answers are withheld from the client. The time begins at the first call, which returns true.
func (c *Clock) Hold(limit time.Duration) (began bool) {
	if !c.holdEnd.IsZero() {
		return false
	}
	c.holdEnd = time.Now().Add(limit)
	return true
}

// EndHold reports whether the limit of Hold has passed by now. If so, it removes the limit.
func (c *Clock) EndHold(now time.Time) bool {
	if c.holdEnd.IsZero() || now.Before(c.holdEnd) {
		return false
	}
	c.holdEnd = time.Time{}
	return true
}

// Nested returns the Clock of a nested turn that runs under the same statement timeout. The nested turn withholds its
// own answers.
func (c *Clock) Nested() Clock { return Clock{deadline: c.deadline, started: c.started} }

// Earlier returns the earlier of two times. The zero time means never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
