package reservoir

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-proxy/sluice/lease"
)

// share is a Lease of so many slots. Its permits are a Static's, so that one
// that is released twice panics; how many are out is what the server counts.
type share struct {
	mu      sync.Mutex
	slots   int
	state   lease.State
	paced   bool
	granted int
	wanted  []int
	refused []lease.ConnQuota
	changed chan struct{}
}

func newShare(slots int) *share {
	return &share{slots: slots, state: lease.State{Phase: lease.OK, Limit: slots, Held: slots}, changed: make(chan struct{})}
}

func (s *share) Admit(ctx context.Context, wanted int) (*lease.Permit, error) {
	for {
		s.mu.Lock()
		if s.granted < s.slots {
			s.granted++
			s.state.InUse++
			s.wanted = append(s.wanted, wanted)
			s.mu.Unlock()
			return lease.Unlimited{}.Admit(ctx, wanted)
		}
		s.state.Waiting = wanted
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
	}
}

func (s *share) LimitsRate() bool { return s.paced }

func (s *share) RecordRefusal(q lease.ConnQuota) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = append(s.refused, q)
}

func (s *share) State() lease.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// set changes what the lease says.
func (s *share) set(change func(*lease.State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.state)
}

func sharing(n int, l Lease) Config {
	cfg := small(n)
	cfg.Lease = l
	return cfg
}

func TestNoDialWithoutASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l := &server{}, newShare(3)
		r := running(t, sharing(10, l), s.dial)
		sleep(time.Minute)
		if attempts, open, _ := s.counts(); attempts != 3 || open != 3 {
			t.Errorf("%d dials, %d open, want 3 each", attempts, open)
		}
		if l.wanted[0] != 10 || l.wanted[2] != 8 {
			t.Errorf("asked for %v slots, want 10, 9, 8", l.wanted)
		}
		for range 3 {
			mustAcquire(t, r)
		}
		_, err := r.Acquire(t.Context())
		if want := "no backend within 10s: 3 of 10 in use, waiting for slots"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		l.set(func(s *lease.State) { s.Waiting, s.Unticketed = 0, 1 })
		_, err = r.Acquire(t.Context())
		if want := "no backend within 10s: 3 of 10 in use, waiting for rate"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		away := errors.New("the table does not answer")
		l.set(func(s *lease.State) { s.Phase, s.Reason = lease.Starting, away })
		_, err = r.Acquire(t.Context())
		if want := "no backend within 10s: 3 of 10 in use, waiting for rate; lease starting: the table does not answer"; err == nil ||
			err.Error() != want || !errors.Is(err, away) {
			t.Errorf("got %v, want %s", err, want)
		}
		denied := &lease.Problem{Step: "renewing the lease", Cause: "access_denied", Code: "AccessDeniedException", Table: "t", Region: "r", Remedy: "give it", Err: away}
		l.set(func(s *lease.State) { s.Phase, s.Reason, s.Problem, s.Local = lease.OK, nil, denied, true })
		_, err = r.Acquire(t.Context())
		if want := "no backend within 10s: 3 of 10 in use, waiting for rate: renewing the lease failed: AccessDeniedException, table t in r: give it"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		l.set(func(s *lease.State) { s.Local = false })
		for phase, want := range map[lease.Phase]string{
			lease.Lost: "no backend within 10s: 3 of 10 in use, waiting for rate; lease lost: renewing the lease failed: AccessDeniedException, table t in r: give it",
			lease.OK:   "no backend within 10s: 3 of 10 in use, waiting for rate",
		} {
			l.set(func(s *lease.State) { s.Phase, s.Reason, s.Problem = phase, nil, denied })
			if _, err = r.Acquire(t.Context()); err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	})
}

func TestPacedLeaseReplacesTheRateLimit(t *testing.T) {
	t.Parallel()
	for _, paced := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, l := &server{}, newShare(50)
			l.paced = paced
			cfg := sharing(50, l)
			cfg.BurstLimit = 10
			running(t, cfg, s.dial)
			want := 10
			if paced {
				want = 50
			}
			if _, open, _ := s.counts(); open != want {
				t.Errorf("paced %v: %d open at once, want %d", paced, open, want)
			}
		})
	}
}

// Idle backends go at once, others when they come back, and no more than asked.
func TestExcessCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l := &server{}, newShare(10)
		r := running(t, sharing(10, l), s.dial)
		sleep(5 * time.Second)
		var loans []*Conn
		for range 6 {
			loans = append(loans, mustAcquire(t, r))
		}
		l.set(func(s *lease.State) { s.Excess = 6 })
		r.retireDue()
		if got := r.Stats(); got.Ready != 0 || got.InUse != 6 || r.TryAcquire() != nil {
			t.Fatalf("%d ready, %d in use, want 0 and 6", got.Ready, got.InUse)
		}
		l.set(func(s *lease.State) { s.Excess = 2 }) // their four permits have come back
		for _, c := range loans {
			c.Release()
		}
		synctest.Wait()
		l.set(func(s *lease.State) { s.Excess = 0 })
		if _, open, _ := s.counts(); open != 4 || r.Stats().Ready != 4 {
			t.Errorf("%d open, want 4", open)
		}
		r.verify()
	})
}

// What is lost is cut, lent or not, and its borrower finds a broken socket.
func TestRevokedIsCutWhileItIsLent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l := &server{}, newShare(4)
		r := running(t, sharing(4, l), s.dial)
		sleep(5 * time.Second)
		a, b := mustAcquire(t, r), mustAcquire(t, r)
		l.set(func(s *lease.State) { s.Phase, s.Held, s.Excess, s.Revoked = lease.Lost, 0, 4, 4 })
		sleep(scanEvery)
		if _, open, _ := s.counts(); open != 0 {
			t.Errorf("%d open", open)
		}
		if _, err := a.Net.Write([]byte{1}); err == nil {
			t.Error("the borrower can still write")
		}
		a.Discard(Broken)
		b.Release() // it did not notice
		synctest.Wait()
		if got := r.Stats(); got.InUse+got.Ready+got.Closing != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// Until the borrowers of cut backends notice, every scan finds them lent: the
// others stay.
func TestNoMoreIsCutThanWasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l := &server{}, newShare(8)
		r := running(t, sharing(8, l), s.dial)
		sleep(5 * time.Second)
		for range 8 {
			mustAcquire(t, r)
		}
		l.set(func(s *lease.State) { s.Held, s.Excess, s.Revoked = 6, 2, 2 })
		sleep(10 * scanEvery)
		if _, open, _ := s.counts(); open != 6 {
			t.Errorf("%d open, want the 6 that slots are held for", open)
		}
	})
}

// While the lease asks for it nothing is retired, up to the server's own limit,
// and the time after that is no mass retirement.
func TestRecyclingIsPostponed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l := &server{delay: 100 * time.Millisecond}, newShare(50)
		cfg := sharing(50, l)
		cfg.BurstLimit = 50
		r := running(t, cfg, s.dial)
		sleep(10 * time.Second)
		l.mu.Lock()
		l.slots = 0 // nothing new is admitted
		l.state.Phase, l.state.Postpone = lease.Degraded, true
		l.mu.Unlock()
		sleep(40 * time.Minute)
		if attempts, open, _ := s.counts(); attempts != 50 || open != 50 || r.Stats().Ready != 50 {
			t.Fatalf("%d dials, %d open after 40 minutes, want 50 each", attempts, open)
		}
		l.mu.Lock()
		l.slots = 1 << 30
		l.state.Phase, l.state.Postpone = lease.OK, false
		close(l.changed)
		l.mu.Unlock()
		for range 15 * 60 {
			sleep(time.Second)
			if got := r.Stats(); got.Ready < 45 {
				t.Fatalf("at %v only %d of 50 are ready", r.elapsed(), got.Ready)
			}
		}
		if attempts, _, _ := s.counts(); attempts < 95 {
			t.Errorf("%d dials, want all of 50 replaced", attempts)
		}
		sleep(30 * time.Minute)
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, c := range r.shelf.ready {
			if c.endAt > c.began+maxLifetime {
				t.Errorf("ends at the age of %v", c.endAt-c.began)
			}
		}
		if hours, backends := len(r.calendar.taken), len(r.alive); hours != backends {
			t.Errorf("%d hours for %d backends", hours, backends)
		}
	})
}

// pastTheirAge returns eight backends that are lent and have reached their age, while the
// lease has just begun to put retirements off.
func pastTheirAge(t *testing.T) (*Reservoir, []*Conn) {
	s, l := &server{delay: 100 * time.Millisecond}, newShare(8)
	r := running(t, sharing(8, l), s.dial)
	var lent []*Conn
	for range 8 {
		lent = append(lent, mustAcquire(t, r))
	}
	sleep(14 * time.Minute)
	l.set(func(s *lease.State) { s.Phase, s.Postpone = lease.Degraded, true })
	return r, lent
}

// A backend that comes back in the moment in which the lease begins to ask for it is not
// retired either: the lease is asked then, and not only once a second.
func TestReturnedBackendsArePostponedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, lent := pastTheirAge(t)
		for _, c := range lent {
			c.Release()
		}
		if got := r.Stats(); got.Ready != 8 {
			t.Errorf("%d backends are ready, want the 8 that came back", got.Ready)
		}
	})
}

// A backend that was put off stays, however soon its new hour is: also one that is not
// needed any more, or whose replacement is there.
func TestPostponedBackendsStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, lent := pastTheirAge(t)
		r.mu.Lock()
		r.shelf.target = 4
		r.cfg.BaseLifetime = 1 // each hour is the next one
		r.mu.Unlock()
		for _, c := range lent {
			c.Release()
		}
		sleep(time.Minute)
		if got := r.Stats(); got.Ready != 8 {
			t.Errorf("%d backends are ready, want the 8 that came back", got.Ready)
		}
	})
}

// Where the lease gives less than max_open, its slots bound the replacement: a
// crowd is replaced in place, a tenth at a time.
func TestCrowdIsReplacedInTheLeasesSlots(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{5, 40} {
		synctest.Test(t, func(t *testing.T) {
			s, l := &server{delay: 300 * time.Millisecond}, newShare(slots)
			l.slots = 1 << 30 // permits that come back are not seen here
			cfg := sharing(100, l)
			cfg.BurstLimit = 100
			cfg.TargetReady = slots
			r := running(t, cfg, s.dial)
			sleep(10 * time.Second)
			for range 60 * 60 {
				sleep(time.Second)
				if got := r.Stats(); got.Ready < slots-max(1, slots/10) {
					t.Fatalf("at %v only %d of %d are ready", r.elapsed(), got.Ready, slots)
				}
			}
			// That a dial waits until the old socket is closed is the lease's part.
			if attempts, _, most := s.counts(); attempts < 5*slots || most > slots+max(1, slots/10) {
				t.Errorf("%d slots: %d dials, %d at most open", slots, attempts, most)
			}
		})
	}
}

func TestRefusalsReachTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newShare(1)
		s := &server{fail: func(attempt int) error {
			switch attempt {
			case 1:
				return &DialError{Step: StepStartup, SQLState: "53300", Err: errors.New("too many")}
			case 2:
				return &DialError{Step: StepStartup, SQLState: "53400", Err: errors.New("too fast")}
			}
			return nil
		}}
		l.slots = 10
		running(t, sharing(1, l), s.dial)
		sleep(time.Minute)
		if len(l.refused) != 2 || l.refused[0] != lease.Count || l.refused[1] != lease.Rate {
			t.Errorf("refusals %v", l.refused)
		}
	})
}

// A dedicated backend needs a slot as well, and gives it back.
func TestDedicatedDialIsAdmitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l := &server{}, newShare(1)
		cfg := sharing(5, l)
		cfg.TargetReady = 0
		r := running(t, cfg, s.dial)
		c, err := r.DialDedicated(t.Context(), Startup{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.DialDedicated(t.Context(), Startup{})
		if empty, ok := errors.AsType[*NoBackendError](err); !ok || !empty.Unleased {
			t.Errorf("got %v", err)
		}
		permit := c.permit
		c.Release()
		sleep(time.Second)
		defer func() {
			if recover() == nil {
				t.Error("the permit was not released")
			}
		}()
		permit.Release()
	})
}

// A failed credential chain costs neither slots nor rate.
func TestPrecheckSavesTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := &DialError{Step: StepCredentials, Err: errors.New("no role")}
		began := time.Now()
		check := func(context.Context) error {
			if time.Since(began) < time.Minute {
				return down
			}
			return nil
		}
		s := &server{fail: func(int) error { return check(nil) }}
		l := newShare(1000)
		cfg := sharing(5, l)
		cfg.Precheck = check
		r := running(t, cfg, s.dial)
		sleep(50 * time.Second)
		if attempts, _, _ := s.counts(); attempts != len(l.wanted) || attempts > 5 {
			t.Errorf("%d dials, %d admissions", attempts, len(l.wanted))
		}
		if err := r.Stats().LastDialErr; !errors.Is(err, down) {
			t.Errorf("last error %v", err)
		}
		sleep(time.Minute)
		if got := r.Stats(); got.Ready != 5 {
			t.Errorf("%d ready, want 5", got.Ready)
		}
	})
}
