package rawconn

import (
	"testing"
	"time"
)

// A path is dead once an acknowledgement has been missing for the limit, since the check that first missed it.
func TestPath(t *testing.T) {
	const limit = 10 * time.Second
	type check struct {
		at   int // seconds
		owed bool
		last int // age of the latest acknowledgement, in seconds
		dead bool
	}
	for name, c := range map[string]struct {
		limit  time.Duration
		checks []check
	}{
		"nothing was sent":              {limit, []check{{0, false, 99, false}, {60, false, 159, false}}},
		"no limit":                      {0, []check{{0, true, 99, false}, {600, true, 699, false}}},
		"silent for the limit":          {limit, []check{{0, true, 99, false}, {9, true, 108, false}, {10, true, 109, true}}},
		"an acknowledgement in between": {limit, []check{{0, true, 5, false}, {9, true, 1, false}, {18, true, 10, false}, {19, true, 11, true}}},
		"all acknowledged in between":   {limit, []check{{0, true, 5, false}, {9, false, 1, false}, {11, true, 3, false}, {20, true, 12, false}, {21, true, 13, true}}},
	} {
		p, began := Path{Limit: c.limit}, time.Now()
		for _, k := range c.checks {
			if got := p.exceeds(began.Add(time.Duration(k.at)*time.Second), k.owed, time.Duration(k.last)*time.Second); got != k.dead {
				t.Errorf("%s: after %d seconds dead is %v", name, k.at, got)
			}
		}
	}
}
