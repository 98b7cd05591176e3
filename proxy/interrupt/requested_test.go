package interrupt

import (
	"testing"
	"testing/synctest"
	"time"
)

// What stops a statement later is returned once, and a cancel also within its grace.
func TestTakeRequested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			cancel bool
			after  time.Duration
			want   error
		}{
			"neither": {false, 0, nil},
			"cancel":  {true, 0, ErrCanceled},
			"timeout": {false, time.Minute, ErrTimedOut},
			"both":    {true, time.Minute, ErrTimedOut},
		} {
			w, conn := withBackend()
			w.Begin(time.Minute)
			w.Arm()
			if c.cancel {
				request(w)
			}
			time.Sleep(c.after)
			end := w.clock.Deadline()
			if e := w.TakeRequested(time.Now()); e == nil && c.want != nil || e != nil && e != c.want {
				t.Errorf("%s: %v, want %v", name, e, c.want)
			} else if e != nil {
				end = time.Time{}
			}
			if e := w.TakeRequested(time.Now()); e != nil {
				t.Errorf("%s: %v again", name, e)
			}
			if !conn.deadline().Equal(end) {
				t.Errorf("%s: the read ends at %v, want %v", name, conn.deadline(), end)
			}
		}
	})
}
