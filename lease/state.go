package lease

import (
	"time"

	"github.com/sluice-proxy/sluice/metrics"
)

// Phase is the condition of a lease.
type Phase int

const (
	// Starting: no slot has been granted yet.
	Starting Phase = iota
	// OK: the lease was renewed in time.
	OK
	// Degraded: the lease was not renewed lately. Open backends stay open. Nothing grows, an ended
	// backend may be replaced, and none is retired for its age.
	Degraded
	// Draining: the lease is about to run out. Idle backends close, a few at a time, and none is
	// replaced.
	Draining
	// Lost: the lease has run out, and no slot is held.
	Lost
)

func (p Phase) String() string {
	return [...]string{"starting", "ok", "degraded", "draining", "lost"}[p]
}

// Quota is one of the cluster's two quotas of connections.
type Quota int

const (
	Count Quota = iota // number of connections, SQLSTATE 53300
	Rate               // rate of new connections, SQLSTATE 53400
)

// State is a snapshot of a Lease. The zero State is Starting.
type State struct {
	Phase Phase
	// Held is the number of slots, InUse that of permits in use.
	Held, InUse int
	// Waiting is the number of dials that wait for a slot. Unticketed ones have a slot and wait for
	// the rate.
	Waiting, Unticketed int
	// Excess is the number of backends that must close: idle ones at once, and others when they are
	// returned. None of them may be lent. The reason is a claim of other processes, or a lease that
	// runs out.
	Excess int
	// Revoked of Excess must close now, even if lent: their slots are lost.
	Revoked int
	// Postpone means that backends should not retire for their age while the server's limit allows,
	// because they could not be replaced.
	Postpone bool
	// Local means that dials use the share that is reserved for sidecars that cannot reach the
	// table.
	Local bool
	// Age is the time since the lease was last renewed.
	Age time.Duration
	// Queue is how far ahead the cluster's tickets are reserved, as of the last answer.
	Queue time.Duration
	// Limit is the cluster's number of slots, Fair this process's share of it; 0 if unknown.
	Limit, Fair int
	// Reason is why nothing can be granted, nil if nothing is wrong.
	Reason error
	// Differences between the table's settings, which apply, and the configured ones.
	Differences []Difference
	// Unusable is why this process works with earlier settings than the newest, nil if it does not.
	Unusable error
	// Problem is why calls of the table fail now, nil if they do not. In the phase Lost it may say
	// that this process did not run. In the phase OK it may pass unnoticed.
	Problem *Problem
}

// Trouble returns why the lease grants less than it should, for an error to a client. It is nil
// while the lease is well, or where no call of the table fails.
func (s State) Trouble() error {
	switch {
	case s.Reason != nil:
		return s.Reason
	case s.Problem != nil && (s.Phase != OK || s.Waiting > 0 && s.Unticketed == 0):
		return s.Problem
	}
	return nil
}

// Gauges returns a snapshot for metrics.
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
