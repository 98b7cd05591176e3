package dsqlsim_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

// With WithoutSuspension an Execute with a limit on rows fails, and its block with it.
func TestWithoutSuspension(t *testing.T) {
	t.Parallel()
	for _, without := range []bool{false, true} {
		c := start(t, func(config *dsqlsim.Config) { config.WithoutSuspension = without })
		for _, limit := range []uint32{0, 1, 9, 1 << 31} { // the last is none: it is negative
			got := c.raw(t).ask(2, simple("BEGIN"), &pgproto3.Parse{Query: "SELECT 1"}, &pgproto3.Bind{},
				&pgproto3.Execute{MaxRows: limit}, &pgproto3.Sync{})
			if refused := slices.Contains(got, "E 0A000") && got[len(got)-1] == "Z E"; refused != (without && (limit == 1 || limit == 9)) {
				t.Errorf("without %v, limit %d: %q", without, limit, got)
			}
		}
	}
}
