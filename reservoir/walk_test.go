package reservoir

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
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

// The same with a lease that another process wants slots of, on a table that is
// lossy and may be out of reach: besides, there is never a backend without a
// slot, nothing is lent that has not its time, and in the end every slot is back.
func TestBooksAreRightWhateverTheLeaseDoes(t *testing.T) {
	t.Parallel()
	for range 4 {
		synctest.Test(t, func(t *testing.T) {
			rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) { (&walk{quarter: newQuarter(t)}).run(t) })
		})
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
	quarter *quarter   // nil: nothing is shared
	fault   atomic.Pointer[string]
	mu      sync.Mutex
	places  map[*WaitPlace]bool // of those who wait at one, and whether somebody had them leave; guarded by mu
}

func (w *walk) run(t *rapid.T) {
	w.server = &server{delay: time.Duration(rapid.IntRange(0, 5000).Draw(t, "dial_ms")) * time.Millisecond}
	cfg := Defaults()
	cfg.MaxOpen = rapid.IntRange(1, 12).Draw(t, "max_open")
	cfg.TargetReady = rapid.IntRange(0, cfg.MaxOpen).Draw(t, "target")
	cfg.LifetimeJitter = time.Duration(rapid.IntRange(0, 120).Draw(t, "jitter_s")) * time.Second
	cfg.CheckoutWait = time.Duration(rapid.IntRange(1, 20).Draw(t, "wait_s")) * time.Second
	if q := w.quarter; q != nil {
		cfg.Lease = q.lease
		cfg.RateLimit, cfg.BurstLimit = 1000, 1000
		w.server.others = q.rival.count
		q.rival.seen = w.server.look
	}
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
	w.quarter.run()
	defer w.finish() // a walk that fails must not leave goroutines in the bubble
	synctest.Wait()

	t.Repeat(map[string]func(*rapid.T){
		"lend":      w.lend,
		"wait":      w.wait,
		"place":     w.place,
		"leave":     w.leave,
		"dedicated": w.dedicated,
		"release":   func(t *rapid.T) { w.end(t, (*Conn).Release) },
		"discard":   func(t *rapid.T) { w.end(t, func(c *Conn) { c.Discard(Broken) }) },
		"give up":   func(*rapid.T) { w.cancel(); w.ctx, w.cancel = context.WithCancel(context.Background()) },
		"seconds":   func(t *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond) },
		"minutes":   func(t *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 700).Draw(t, "s")) * time.Second) },
		"hour":      w.hour,
		"outage":    w.outage,
		"cut off":   func(t *rapid.T) { w.quarter.cutOff(rapid.Bool().Draw(t, "away")) },
		"brink":     w.brink,
		"rivalry":   func(t *rapid.T) { w.quarter.rivalry(rapid.IntRange(0, 15).Draw(t, "rival_wants")) },
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
	return errors.Join(err, w.quarter.end())
}

// lent checks, at the moment of a loan, that the lease leaves time for it.
func (w *walk) lent(c *Conn) *Conn {
	if c != nil && w.quarter != nil && w.quarter.timeLeft() < 0 {
		fault := "a backend was lent when the lease left it too little time"
		w.fault.Store(&fault)
	}
	return c
}

func (w *walk) lend(t *rapid.T) {
	var top *Conn
	w.r.mu.Lock()
	if n := len(w.r.shelf.ready); n > 0 {
		top = w.r.shelf.ready[n-1]
	}
	w.r.mu.Unlock()
	c := w.lent(w.r.TryAcquire())
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
			w.served <- w.lent(c)
		}
	}()
}

// place waits at a place that others may have had, and leave ends the wait of somebody.
func (w *walk) place(t *rapid.T) {
	p, left := w.r.NewWaitPlace(), rapid.IntRange(0, 9).Draw(t, "left before") == 0
	if left {
		p.EndWait(errLeft)
	}
	w.mu.Lock()
	if w.places == nil {
		w.places = map[*WaitPlace]bool{}
	}
	w.places[p] = left
	w.mu.Unlock()
	go func() {
		c, err := p.Acquire()
		w.mu.Lock()
		if err == errLeft && !w.places[p] {
			fault := "a wait was ended for what another had been told"
			w.fault.Store(&fault)
		}
		delete(w.places, p)
		w.mu.Unlock()
		p.Recycle()
		if err == nil {
			w.served <- w.lent(c)
		}
	}()
}

var errLeft = errors.New("left")

func (w *walk) leave(*rapid.T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.places { // whoever it is
		w.places[p] = true
		p.EndWait(errLeft)
		break
	}
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
	if now := w.r.elapsed(); next > now {
		time.Sleep(next - now)
	}
}

// brink lets the time pass until the lease leaves a transaction just its time, or
// a little less, if the lease is not renewed until then.
func (w *walk) brink(t *rapid.T) {
	if w.quarter != nil {
		w.quarter.cutOff(true)
		time.Sleep(w.quarter.timeLeft() + time.Duration(rapid.IntRange(-100, 999).Draw(t, "ms"))*time.Millisecond)
		w.check(t)
		w.lend(t)
	}
}

func (w *walk) outage(t *rapid.T) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.failing = !w.failing
	w.server.fail = nil
	if w.failing {
		code := rapid.SampledFrom([]string{"", tooManyConnections, rateExceeded}).Draw(t, "code")
		w.server.fail = func(int) error { return &DialError{Step: StepStartup, SQLState: code, Err: errors.New("down")} }
	}
}

func (w *walk) check(t *rapid.T) {
	synctest.Wait()
	for len(w.served) > 0 {
		w.loans = append(w.loans, <-w.served)
	}
	w.r.verify()
	for _, c := range w.r.shelf.ready {
		if c.guardAt <= w.r.elapsed() {
			t.Fatal("a backend inside its guard window is on the shelf")
		}
	}
	if got := w.r.Stats(); got.InUse != len(w.loans) {
		t.Fatalf("%d in use, want %d", got.InUse, len(w.loans))
	}
	if _, _, most := w.server.counts(); most > w.r.cfg.MaxOpen {
		t.Fatalf("the server saw %d connections, max_open is %d", most, w.r.cfg.MaxOpen)
	}
	if fault := w.fault.Load(); fault != nil {
		t.Fatal(*fault)
	}
	if err := w.quarter.verify(w.server); err != nil {
		t.Fatal(err)
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
