package retry_test

import (
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/retry"
)

// The alert is raised once for each minute that has more than the threshold.
func TestAlert(t *testing.T) {
	t.Parallel()
	began := time.Now()
	a, raised := retry.NewConflictAlert(2), []int(nil)
	for i, after := range []time.Duration{0, 1, 2, 3, 59, 60, 61, 62, 63, 200} {
		if n, over := a.RecordConflict(began.Add(after * time.Second)); over {
			raised = append(raised, i)
			if n != 3 {
				t.Errorf("raised at %d conflicts", n)
			}
		}
	}
	if len(raised) != 2 || raised[0] != 2 || raised[1] != 7 {
		t.Errorf("raised at conflicts %v, want 2 and 7", raised)
	}
	off := retry.NewConflictAlert(0)
	for range 10 {
		if _, over := off.RecordConflict(began); over {
			t.Error("raised, though it is off")
		}
	}
}
