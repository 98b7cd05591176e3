package lease

import "context"

// Static replaces a Lease where nothing is shared: every dial is admitted. The caller must limit
// its dials. The zero Static is ready for use.
type Static struct{}

// Admit returns a permit at once.
func (Static) Admit(ctx context.Context, _ int) (*Permit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &Permit{}, nil
}

// Paced returns false: Admit does not wait for a rate.
func (Static) Paced() bool { return false }

// Refused does nothing.
func (Static) Refused(Quota) {}

// State returns the phase OK, with nothing to do.
func (Static) State() State { return State{Phase: OK} }
