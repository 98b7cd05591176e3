package lease

import "context"

// Unlimited replaces a Lease where nothing is shared among sidecars. It admits every dial, and the caller must limit
// its dials. The zero Unlimited is ready for use.
type Unlimited struct{}

// Admit returns a permit without waiting, or an error if ctx has ended.
func (Unlimited) Admit(ctx context.Context, _ int) (*Permit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &Permit{}, nil
}

// LimitsRate returns false, because Admit does not wait for a rate.
func (Unlimited) LimitsRate() bool { return false }

// RecordRefusal does nothing, because an Unlimited ignores refusals by the cluster.
func (Unlimited) RecordRefusal(ConnQuota) {}

// State returns the phase OK, in which no backend must close.
func (Unlimited) State() State { return State{Phase: OK} }
