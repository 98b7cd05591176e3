package reservoir

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// answeringDial is a dial of backends that answer each Sync, and those that it has made.
func answeringDial(s *server) (dial DialFunc, dialled func() []*answering) {
	var mu sync.Mutex
	var all []*answering
	dial = func(ctx context.Context, st *Startup) (*Conn, error) {
		c, err := s.dial(ctx, st)
		if err == nil {
			a := &answering{Conn: c.Net}
			a.says(string(readyFrame))
			mu.Lock()
			all = append(all, a)
			mu.Unlock()
			c.Net = a
		}
		return c, err
	}
	return dial, func() []*answering {
		mu.Lock()
		defer mu.Unlock()
		return append([]*answering(nil), all...)
	}
}

// Each backend that is not used is asked about once in an interval, and one that does not
// answer is replaced, before anybody borrows it.
func TestProbeFindsTheDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		cfg := small(3)
		cfg.ProbeInterval = 10 * time.Second
		dial, dialled := answeringDial(s)
		r := running(t, cfg, dial)
		sleep(100 * time.Second)
		for i, a := range dialled() {
			if n := a.asked.Load(); n < 7 || n > 13 {
				t.Errorf("backend %d was asked %d times in 100 s, want 7 to 13", i, n)
			}
		}
		if attempts, _, _ := s.counts(); attempts != 3 || r.Stats().Checkouts != 0 {
			t.Errorf("%d dials, %d checkouts, want 3 and 0", attempts, r.Stats().Checkouts)
		}
		dialled()[0].says("")
		dialled()[1].says("Z\x00\x00\x00\x05T")
		sleep(15 * time.Second)
		if attempts, open, _ := s.counts(); attempts != 5 || open != 3 || r.Stats().Ready != 3 {
			t.Errorf("%d dials, %d open, %d ready, want 5, 3, 3", attempts, open, r.Stats().Ready)
		}
	})
}

// A backend that was used is known to answer, and is not asked.
func TestProbeSparesTheUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := small(1)
		cfg.ProbeInterval = 10 * time.Second
		dial, dialled := answeringDial(&server{})
		r := running(t, cfg, dial)
		sleep(time.Second)
		for range 30 {
			c := r.TryAcquire()
			if c == nil {
				t.Fatal("no backend is ready")
			}
			c.Release()
			sleep(time.Second)
		}
		if n := dialled()[0].asked.Load(); n != 0 {
			t.Errorf("it was asked %d times", n)
		}
	})
}

// Behind a suspicion all ready backends are asked at once, the only one too: none is lent
// before it has answered, and those that do not are replaced within one wait, however many
// they are.
func TestSuspicion(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 5} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{}
			dial, dialled := answeringDial(s)
			r := running(t, small(n), dial)
			sleep(2 * time.Second)
			for _, a := range dialled()[:(n+1)/2] {
				a.says("silence")
			}
			r.ProbeAllReady()
			if r.TryAcquire() != nil {
				t.Errorf("of %d, one is lent that has given no sign of life", n)
			}
			r.ProbeAllReady()
			synctest.Wait()
			if got, want := r.Stats().Ready, n-(n+1)/2; got != want {
				t.Errorf("of %d, %d are ready while the others are asked, want %d", n, got, want)
			}
			sleep(probeWait + time.Second)
			if attempts, open, _ := s.counts(); attempts != n+(n+1)/2 || open != n || r.Stats().Ready != n {
				t.Errorf("of %d: %d dials, %d open, %d ready", n, attempts, open, r.Stats().Ready)
			}
			for i, a := range dialled()[:n] {
				if asked := a.asked.Load(); asked != 1 {
					t.Errorf("backend %d was asked %d times", i, asked)
				}
			}
		})
	}
}

// A suspicion does not wait for a backend that is being asked in its turn and is silent.
func TestSuspicionBesideAProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := small(3)
		cfg.ProbeInterval = 10 * time.Second
		dial, dialled := answeringDial(&server{})
		r := running(t, cfg, dial)
		sleep(2 * time.Second)
		silent, others := dialled()[0], dialled()[1:]
		silent.says("silence")
		for silent.asked.Load() == 0 {
			sleep(100 * time.Millisecond)
		}
		before := []int32{others[0].asked.Load(), others[1].asked.Load()}
		r.ProbeAllReady()
		synctest.Wait()
		for i, a := range others {
			if n := a.asked.Load() - before[i]; n != 1 {
				t.Errorf("backend %d was asked %d times at once, want 1", i+1, n)
			}
		}
	})
}

// The end of Run does not wait for servers that are asked and do not answer, and closes those
// that were about to be asked.
func TestProbeEndsWithRun(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			srv := &server{}
			r := made(t, small(3), srv.dial) // they take a Sync and say nothing
			ctx, end := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				r.Run(ctx)
				close(ended)
			}()
			sleep(2 * time.Second)
			r.ProbeAllReady()
			if s := r.Stats(); s.Ready != 0 || s.InUse != 3 {
				t.Fatalf("%d ready, %d suspected, want 0 and 3", s.Ready, s.InUse)
			}
			if asked {
				synctest.Wait()
			}
			began := time.Now()
			end()
			<-ended
			if took := time.Since(began); took > closingWait {
				t.Errorf("it took %v, want %v at most", took, closingWait)
			}
			synctest.Wait() // the server sees it
			if _, open, _ := srv.counts(); open != 0 || r.Stats().InUse != 0 {
				t.Errorf("%d are open, %d lent", open, r.Stats().InUse)
			}
		})
	}
}

// Unanswered is a dial that failed without a word of the server, until a backend that is
// used shows that the server answers.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"silence", &DialError{Step: StepTCP, Err: context.DeadlineExceeded}, true},
		{"refusal", &DialError{Step: StepStartup, SQLState: tooManyConnections, Err: errors.New("no room")}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{fail: func(attempt int) error {
				if attempt > 1 {
					return tt.err
				}
				return nil
			}}
			cfg := small(2)
			cfg.LowWatermark = 1 // the second dial comes a second later
			r := running(t, cfg, s.dial)
			c := mustAcquire(t, r)
			sleep(5 * time.Second)
			if s := r.Stats(); s.LastDialErr == nil || s.Unanswered != tt.want {
				t.Errorf("%s: unanswered %v, want %v; last error %v", tt.name, s.Unanswered, tt.want, s.LastDialErr)
			}
			c.Release()
			if r.Stats().Unanswered {
				t.Errorf("%s: unanswered behind an answer", tt.name)
			}
		})
	}
}

// answering answers each Sync, for the server behind it.
type answering struct {
	net.Conn
	answer atomic.Pointer[string]
	asked  atomic.Int32
	until  atomic.Pointer[time.Time]
}

func (a *answering) SetDeadline(t time.Time) error {
	a.until.Store(&t)
	return a.Conn.SetDeadline(t)
}

func (a *answering) says(answer string) { a.answer.Store(&answer) }

func (a *answering) Write(b []byte) (int, error) {
	if b[0] == 'S' {
		a.asked.Add(1)
		return len(b), nil
	}
	return a.Conn.Write(b)
}

func (a *answering) Read(b []byte) (int, error) {
	switch answer := *a.answer.Load(); {
	case len(b) != len(readyFrame): // the good-bye
		return a.Conn.Read(b)
	case answer == "":
		return 0, io.EOF
	case answer == "silence":
		time.Sleep(time.Until(*a.until.Load()))
		return 0, os.ErrDeadlineExceeded
	default:
		return copy(b, answer), nil
	}
}
