package stopping

import "testing"

// A statement is given up only if it cannot have committed, and in the middle of a row only after that row.
func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		st   Statement
		want Action
	}{
		"a statement without answer":                {Statement{}, Discard},
		"rows to be read":                           {Statement{Readable: true}, Discard},
		"a forwarded cancel":                        {Statement{Forwarded: true}, Discard},
		"a forwarded cancel beside rows to be read": {Statement{Forwarded: true, Readable: true, MayCommit: true}, AwaitServer},
		"a statement that may commit":               {Statement{MayCommit: true, MidRow: true}, LetRun},
		"a backend that is kept":                    {Statement{KeepsBackend: true, MidRow: true}, LetRun},
		"half a row":                                {Statement{MidRow: true}, EndAfterRow},
		"half a row after a forwarded cancel":       {Statement{MidRow: true, Forwarded: true}, EndAfterRow},
		"half a row whose rest arrives":             {Statement{MidRow: true, EndsAfterRow: true, Readable: true}, EndAfterRow},
		"half a row whose rest does not arrive":     {Statement{MidRow: true, EndsAfterRow: true}, Discard},
		"a whole row, where the turn ends after it": {Statement{EndsAfterRow: true, Readable: true}, Discard},
	} {
		if got := c.st.Decide(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
