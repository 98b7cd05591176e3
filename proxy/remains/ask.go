package remains

import "github.com/sluice-proxy/sluice/rewrite"

// Backend sends queries of Sluice itself to an idle backend.
type Backend interface {
	// Ask sends statements in one round trip, and returns the values of the rows that have one column. refused means that
	// the server has reported an error.
	Ask(sql string) (values []string, refused bool, err error)
}

// Settings are SQL texts for the settings of a backend. Each is empty or ends with "; ".
type Settings struct {
	// Reset resets the backend's settings, and Apply applies those of the client.
	Reset, Apply string
	// HasStartupRole means that the client's startup packet sets a role.
	HasStartupRole bool
}

// Left is the state that functions have left on a backend.
type Left struct {
	// Reason says why the session must keep its backend, or is NoPin.
	Reason rewrite.PinReason
	// Role is the role that a function has set, or "".
	Role string
}

// Ask returns the state that functions have left on a backend. Ask also gives the backend the client's settings, and
// the role of the client's startup. ok is false if the server did not answer as expected.
func Ask(b Backend, with Settings) (left Left, ok bool) {
	all := roleQuery + "; " + with.Reset + stateQuery + "; " + with.Apply + roleQuery
	values, refused, err := b.Ask(all)
	if err == nil && refused { // such as a timeout of the client's, which the reset removes
		before, again, broken := b.Ask(roleQuery + "; " + with.Reset)
		if broken != nil || again || len(before) != 1 {
			return Left{}, false
		}
		if values, refused, err = b.Ask(all); len(values) > 0 {
			values[0] = before[0]
		}
	}
	if err != nil || refused || len(values) != 3 { // the answers to roleQuery, stateQuery and roleQuery
		return Left{}, false
	}
	// The role "none" may be the result of RESET ROLE, which returns to the startup's role.
	if values[0] != values[2] && (values[0] != "none" || !with.HasStartupRole) {
		left.Role = values[0]
	}
	left.Reason, ok = PinReason(values[1])
	return left, ok
}
