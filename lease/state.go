package lease

import (
	"time"

	"github.com/sluice-proxy/sluice/metrics"
)

// Phase is how well a lease stands.
type Phase int

const (
	// Starting: no slot was granted yet.
	Starting Phase = iota
	// OK: renewed in time.
	OK
	// Degraded: it was not renewed lately. What is open stays open, nothing
	// grows, a backend that ended may be replaced, none is retired for its age.
	Degraded
	// Draining: it must be renewed soon. Idle backends close, a few at a time,
	// and none is replaced.
	Draining
	// Lost: nothing is held any more.
	Lost
)

func (p Phase) String() string {
	return [...]string{"starting", "ok", "degraded", "draining", "lost"}[p]
}

// Quota is one of the cluster's two.
type Quota int

const (
	Count Quota = iota // of connections, SQLSTATE 53300
	Rate               // of new connections, SQLSTATE 53400
)

// State is a snapshot of a Lease. The zero State is Starting.
type State struct {
	Phase Phase
	// Held slots, and the permits that are out.
	Held, InUse int
	// Waiting dials, for a slot; Unticketed ones have it and wait for the rate.
	Waiting, Unticketed int
	// Excess is how many backends must close, idle ones at once and others when
	// they come back, and none of them is to be lent. Others are owed their
	// slots, or the lease runs out.
	Excess int
	// Revoked of them must close now, lent or not: their slots are lost.
	Revoked int
	// Postpone: do not retire backends for their age as long as the server's own
	// limit allows; they could not be replaced.
	Postpone bool
	// Local: dials go by the share that is reserved for sidecars that cannot
	// reach the table.
	Local bool
	// Age is the time since the lease was last renewed.
	Age time.Duration
	// Queue is how far ahead the cluster's tickets were given out, when last seen.
	Queue time.Duration
	// Limit of the cluster and this process's fair share of it; 0 if unknown.
	Limit, Fair int
	// Reason is why nothing can be granted, nil if nothing is wrong.
	Reason error
	// Differences of the table's settings, which hold, from the configured ones.
	Differences []Difference
	// Unusable is why this process goes on by settings that are not the newest, nil
	// if it does not.
	Unusable error
	// Problem is why calls of the table fail just now, nil if they do not; and in the
	// phase Lost that none was made, since this process did not run. In the phase OK it
	// may pass without anybody's notice.
	Problem *Problem
}

// Trouble is why the lease stands as it does, to be told to whoever suffers from
// it: nil while it is well, and where no call of the table fails.
func (s State) Trouble() error {
	switch {
	case s.Reason != nil:
		return s.Reason
	case s.Problem != nil && (s.Phase != OK || s.Waiting > 0 && s.Unticketed == 0):
		return s.Problem
	}
	return nil
}

// Gauges is the snapshot that metrics shows.
func (l *Lease) Gauges() metrics.LeaseGauges {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, c, t := l.core.state(l.clock()), l.core.ledger.stats, l.core.tickets.stats
	cause := ""
	if s.Problem != nil {
		cause = s.Problem.Cause
	}
	differs := map[string]bool{metrics.SettingUnusable: s.Unusable != nil}
	for _, d := range s.Differences {
		differs[d.Setting] = true
	}
	return metrics.LeaseGauges{
		Problem: cause, Differs: differs,
		Phase: s.Phase.String(), Held: s.Held, InUse: s.InUse, Waiting: s.Waiting, Excess: s.Excess,
		Limit: s.Limit, Fair: s.Fair, Age: s.Age, Queue: s.Queue, Local: s.Local,
		Granted: c.Granted, Returned: c.Returned, Refused: c.Refused, Resolved: c.Resolved,
		Buried: c.Buried, Testified: l.testified,
		Reaped: c.Reaped, ReapsLost: c.ReapsLost, ReapedSelf: c.ReapedSelf, Lapsed: c.Lapsed,
		GivenBack: c.GivenBack, Drifts: c.Drifts,
		Tickets: t.Reserved, Stale: t.Stale, LocalDials: t.Local, Resets: t.Resets,
	}
}
