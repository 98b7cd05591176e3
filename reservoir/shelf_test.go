package reservoir

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Whatever borrowers, dials and the clock do, the books are right after every
// step, the server never sees more than max_open connections, nothing expired
// is lent, loans come from the top of the shelf, and in the end all is closed.
func TestBooksAreRightWhateverHappens(t *testing.T) {
	t.Parallel()
	for range 4 { // in one bubble rapid stops after a day of its clock
		synctest.Test(t, func(t *testing.T) {
			// Not t itself: rapid would ask for a deadline that a bubble does not have.
			rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) { new(walk).run(t) })
		})
	}
}

func TestWhatIsDue(t *testing.T) {
	t.Parallel()
	// Due from 100 on, guarded from 110 on, at its end at 150.
	tests := []struct {
		name    string
		now     time.Duration
		ready   int // c included
		target  int
		dialing int
		marked  int // others that wait for their replacement
		reason  Reason
		marks   bool
	}{
		{name: "young", now: 99, ready: 10, target: 10},
		{name: "young and surplus", now: 99, ready: 12, target: 10},
		{name: "all slots taken", now: 100, ready: 20, target: 20, reason: Aged},
		{name: "all slots taken, one missing", now: 100, ready: 19, target: 20, dialing: 1, reason: Aged},
		{name: "all slots taken, a batch missing", now: 100, ready: 18, target: 20, dialing: 2},
		{name: "slots left", now: 100, ready: 10, target: 10, marks: true},
		{name: "slots left, one is being replaced", now: 100, ready: 10, target: 10, dialing: 1, marked: 1, marks: true},
		{name: "slots left, a batch is being replaced", now: 100, ready: 10, target: 10, dialing: 2, marked: 2},
		{name: "its replacement is there", now: 100, ready: 11, target: 10, reason: Aged},
		{name: "dials fail", now: 109, ready: 8, target: 10},
		{name: "guarded", now: 110, ready: 8, target: 10, reason: Guarded},
		{name: "at its end", now: 150, ready: 8, target: 10, reason: Aged},
	}
	for _, tt := range tests {
		s := shelf{maxOpen: 20, target: tt.target, batch: 2, dialing: tt.dialing, replacing: tt.marked, horizon: tt.now}
		c := &Conn{retireAt: 100, guardAt: 110, endAt: 150}
		s.put(c)
		for range tt.ready - 1 {
			s.put(&Conn{})
		}
		reason, due := s.due(c)
		if reason != tt.reason || due != (tt.reason != "") || c.replacing != tt.marks {
			t.Errorf("%s: %q, due %v, marked %v, want %q, marked %v", tt.name, reason, due, c.replacing, tt.reason, tt.marks)
		}
	}
}

// walk is one random walk of a reservoir.
type walk struct {
	r       *Reservoir
	server  *server
	loans   []*Conn
	served  chan *Conn      // what those who wait have got
	ctx     context.Context // ends those who wait
	cancel  context.CancelFunc
	failing bool
	stop    context.CancelFunc
	ended   chan error // what Run returned; then closed
}

func (w *walk) run(t *rapid.T) {
	w.server = &server{delay: time.Duration(rapid.IntRange(0, 5000).Draw(t, "dial_ms")) * time.Millisecond}
	cfg := Defaults()
	cfg.MaxOpen = rapid.IntRange(1, 12).Draw(t, "max_open")
	cfg.TargetReady = rapid.IntRange(0, cfg.MaxOpen).Draw(t, "target")
	cfg.LifetimeJitter = time.Duration(rapid.IntRange(0, 120).Draw(t, "jitter_s")) * time.Second
	cfg.CheckoutWait = time.Duration(rapid.IntRange(1, 20).Draw(t, "wait_s")) * time.Second
	r, err := New(cfg, w.server.dial, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w.r, w.served = r, make(chan *Conn, 1000)
	running, stop := context.WithCancel(context.Background())
	w.ended = make(chan error, 1)
	go func() { w.ended <- r.Run(running) }()
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.stop = stop
	defer w.finish() // a walk that fails must not leave goroutines in the bubble
	synctest.Wait()

	t.Repeat(map[string]func(*rapid.T){
		"lend":      w.lend,
		"wait":      w.wait,
		"dedicated": w.dedicated,
		"release":   func(t *rapid.T) { w.end(t, (*Conn).Release) },
		"discard":   func(t *rapid.T) { w.end(t, func(c *Conn) { c.Discard(Broken) }) },
		"give up":   func(*rapid.T) { w.cancel(); w.ctx, w.cancel = context.WithCancel(context.Background()) },
		"seconds":   func(t *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond) },
		"minutes":   func(t *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 700).Draw(t, "s")) * time.Second) },
		"hour":      w.hour,
		"outage":    w.outage,
		"":          w.check,
	})

	if err := w.finish(); err != nil {
		t.Fatal(err)
	}
	w.check(t)
	if _, open, _ := w.server.counts(); open != 0 || r.Stats().InUse != 0 || len(r.calendar.taken) != 0 {
		t.Fatalf("in the end %d open, %d hours taken, stats %+v", open, len(r.calendar.taken), r.Stats())
	}
}

// finish ends the reservoir, then the loans. A second time it does nothing.
func (w *walk) finish() error {
	w.cancel()
	w.stop()
	err, first := <-w.ended
	if first {
		close(w.ended)
	}
	synctest.Wait()
	for len(w.served) > 0 {
		w.loans = append(w.loans, <-w.served)
	}
	for _, c := range w.loans {
		c.Release()
	}
	w.loans = nil
	synctest.Wait()
	return err
}

func (w *walk) lend(t *rapid.T) {
	var top *Conn
	w.r.mu.Lock()
	if n := len(w.r.shelf.ready); n > 0 {
		top = w.r.shelf.ready[n-1]
	}
	w.r.mu.Unlock()
	c := w.r.TryAcquire()
	if c != top {
		t.Fatalf("lent %v, want the top of the shelf, %v", c, top)
	}
	if c != nil {
		w.loans = append(w.loans, c)
	}
}

func (w *walk) wait(*rapid.T) {
	ctx := w.ctx
	go func() {
		if c, err := w.r.Acquire(ctx); err == nil {
			w.served <- c
		}
	}()
}

func (w *walk) dedicated(*rapid.T) {
	ctx := w.ctx
	go func() {
		if c, err := w.r.DialDedicated(ctx, Startup{}); err == nil {
			w.served <- c
		}
	}()
}

func (w *walk) end(t *rapid.T, end func(*Conn)) {
	if len(w.loans) == 0 {
		return // a step without effect
	}
	i := rapid.IntRange(0, len(w.loans)-1).Draw(t, "loan")
	c := w.loans[i]
	w.loans = append(w.loans[:i], w.loans[i+1:]...)
	end(c)
}

// hour lets the time pass until a ready backend is due, if one will be.
func (w *walk) hour(*rapid.T) {
	w.r.mu.Lock()
	next := time.Duration(-1)
	for _, c := range w.r.shelf.ready {
		if next < 0 || c.retireAt < next {
			next = c.retireAt
		}
	}
	w.r.mu.Unlock()
	if now := w.r.age(); next > now {
		time.Sleep(next - now)
	}
}

func (w *walk) outage(*rapid.T) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.failing = !w.failing
	w.server.fail = nil
	if w.failing {
		w.server.fail = func(int) error { return errors.New("down") }
	}
}

func (w *walk) check(t *rapid.T) {
	synctest.Wait()
	for len(w.served) > 0 {
		w.loans = append(w.loans, <-w.served)
	}
	w.r.verify()
	for _, c := range w.r.shelf.ready {
		if c.guardAt <= w.r.age() {
			t.Fatal("a backend inside its guard window is on the shelf")
		}
	}
	if got := w.r.Stats(); got.InUse != len(w.loans) {
		t.Fatalf("%d in use, want %d", got.InUse, len(w.loans))
	}
	if _, _, most := w.server.counts(); most > w.r.cfg.MaxOpen {
		t.Fatalf("the server saw %d connections, max_open is %d", most, w.r.cfg.MaxOpen)
	}
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	marked := 0
	for _, c := range w.r.shelf.ready {
		if c.replacing {
			marked++
		}
	}
	if marked != w.r.shelf.replacing {
		t.Fatalf("%d marked for replacement, %d counted", marked, w.r.shelf.replacing)
	}
}
