package lease

import "context"

// Static replaces a Lease where nothing is shared among sidecars: every dial is admitted. The caller must limit its
// dials. The zero Static is ready for use.
type Static struct{}

// Admit returns a permit without waiting, or an error if ctx has ended.
func (Static) Admit(ctx context.Context, _ int) (*Permit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &Permit{}, nil
}

// Paced returns false: Admit does not wait for a rate.
func (Static) Paced() bool { return false }

// Refused does nothing: a Static ignores refusals by the cluster.
func (Static) Refused(Quota) {}

// State returns the phase OK, in which no backend must close.
func (Static) State() State { return State{Phase: OK} }
