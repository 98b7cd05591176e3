package lease

import "context"

// Static stands in for a Lease where nothing is shared: every dial is admitted.
// The caller limits its dials itself. The zero Static is ready for use.
type Static struct{}

// Admit admits at once.
func (Static) Admit(ctx context.Context, _ int) (*Permit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &Permit{}, nil
}

// Paced is false: Admit does not wait for a rate.
func (Static) Paced() bool { return false }

// Refused does nothing.
func (Static) Refused(Quota) {}

// State is OK, with nothing to be done.
func (Static) State() State { return State{Phase: OK} }
