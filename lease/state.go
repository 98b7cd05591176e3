package lease

import (
	"time"

	"github.com/sluice-proxy/sluice/metrics"
)

// Phase is the condition of a lease, from Starting to Lost.
type Phase int

const (
	// Starting is the phase before the first slot is granted.
	Starting Phase = iota
	// OK is the phase while the lease is renewed in time.
	OK
	// Degraded is the phase when the lease was not renewed lately. Open backends stay open, but the process takes no
	// slots. An ended backend may be replaced, and no backend is retired for its age.
	Degraded
	// Draining is the phase when the lease is about to run out. Idle backends close, a few at a time, and none is
	// replaced.
	Draining
	// Lost is the phase after the lease has run out, when no slot is held.
	Lost
)

func (p Phase) String() string {
	return [...]string{"starting", "ok", "degraded", "draining", "lost"}[p]
}

// ConnQuota is one of the cluster's two quotas of connections.
type ConnQuota int

const (
	Count ConnQuota = iota // number of connections, SQLSTATE 53300
	Rate                   // rate of new connections, SQLSTATE 53400
)

// State is a snapshot of a Lease. The zero State is Starting.
type State struct {
	Phase Phase
	// Held is the number of slots, and InUse the number of permits in use.
	Held, InUse int
	// Waiting is the number of dials that wait for a slot. Unticketed is the number of dials that have a slot and wait for
	// the connection rate.
	Waiting, Unticketed int
	// Excess is the number of backends that must close. Idle ones close at once, and others when they are returned. None
	// of these backends may be lent. Excess results from claims of other processes, or from a lease that runs out.
	Excess int
	// Revoked is the number of backends that must close now, even if lent, because their slots are lost. Excess includes
	// Revoked.
	Revoked int
	// Postpone means that backends should not be retired for their age as long as the server's age limit allows, because
	// they could not be replaced.
	Postpone bool
	// Local means that dials use the part of the connection rate that is reserved for sidecars without access to the
	// DynamoDB table.
	Local bool
	// Age is the time since the lease was last renewed.
	Age time.Duration
	// Queue is how far ahead of now the cluster's tickets (rights to dial once) are reserved, by DynamoDB's last answer.
	Queue time.Duration
	// Limit is the cluster's number of slots, and Fair this process's share of them. Each is 0 if unknown.
	Limit, Fair int
	// Reason is the error because of which no slot can be granted, or nil.
	Reason error
	// Differences are the settings whose values in DynamoDB, which apply, differ from the configured ones.
	Differences []SettingDifference
	// Unusable says why this process cannot use the newest settings in DynamoDB and works with earlier ones. If it can
	// use the newest settings, Unusable is nil.
	Unusable error
	// Problem says why calls of DynamoDB fail, or is nil. In the phase Lost, Problem may say that this process was
	// suspended. In the phase OK, Problem may be harmless.
	Problem *Problem
}

// ShortfallReason returns the error that explains to a client why the lease grants less than it should. It returns
// nil while the lease grants enough, or if no call of DynamoDB fails.
func (s State) ShortfallReason() error {
	switch {
	case s.Reason != nil:
		return s.Reason
	case s.Problem != nil && (s.Phase != OK || s.Waiting > 0 && s.Unticketed == 0):
		return s.Problem
	}
	return nil
}

// Gauges returns a snapshot of the lease for metrics.
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
		PredecessorsRemoved: c.PredecessorsRemoved, PlacesWritten: l.placesWritten,
		Reaped: c.Reaped, ReapsLost: c.ReapsLost, ReapedSelf: c.ReapedSelf, Lapsed: c.Lapsed,
		GivenBack: c.GivenBack, Drifts: c.Drifts,
		Tickets: t.Reserved, Stale: t.Stale, LocalDials: t.Local, Resets: t.Resets,
	}
}
