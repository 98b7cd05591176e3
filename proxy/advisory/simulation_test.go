package advisory

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// The protocol in virtual time: some processes on one database want one lock, hold it for a
// while, write and send DDL under it, crash, and are stopped for any length of time between any
// two steps. The database is a table of one row with its history: whatever is committed under a
// lock must be committed while the row is that holder's.

// fault is what a run does wrong on purpose, to show that the test sees it.
type fault string

const (
	none      fault = ""
	unfenced  fault = "writes without a fence"
	bare      fault = "writes outside of a block without one of its own"
	hasty     fault = "takes a lock after half of its lease"
	unpledged fault = "sends DDL without a promise"
	crossed   fault = "renews twice at once"
	sure      fault = "takes a renewal without an answer for none"
)

var simTerms = LeaseTerms{Lease: 10 * time.Second, LongestDDL: 60 * time.Second}

type event struct {
	at time.Duration
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any          { l := *e; x := l[len(l)-1]; *e = l[:len(l)-1]; return x }

// world is the database and the time.
type world struct {
	rnd   *rand.Rand
	fault fault
	now   time.Duration
	queue events
	row   *LockRow
	ddl   []ddl // under way or done
	// outside: lock clauses conflict outside of a block too. Nobody knows that of a cluster.
	outside bool
	broken  []string

	takes, takeovers, commits, conflicts, statements int
	forms                                            [len(formNames)]int // commits of each
}

type ddl struct {
	owner string
	end   time.Duration
}

func (w *world) after(d time.Duration, do func()) { heap.Push(&w.queue, event{w.now + d, do}) }

func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rnd.Int64N(int64(most-least)))
}

func (w *world) report(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf("%v: ", w.now)+fmt.Sprintf(format, args...))
}

// take is the transaction of Taking at the server.
func (w *world) take(seen *LockRow, owner string, lease time.Duration) (LockRow, bool) {
	if (seen == nil) != (w.row == nil) || seen != nil && (seen.Epoch != w.row.Epoch || seen.Owner != w.row.Owner || seen.Seq != w.row.Seq) {
		return LockRow{}, false
	}
	_, made := TakeSQL("l", seen, owner, lease)
	if w.row != nil && w.row.Owner != "" {
		w.takeovers++
	}
	for _, d := range w.ddl {
		if d.owner != owner && d.end > w.now {
			w.report("%s takes the lock while DDL of %s runs to %v", owner, d.owner, d.end)
		}
	}
	w.row = &made
	w.takes++
	return made, true
}

// isOf reports whether the row is that of a holder.
func (w *world) isOf(h LockHolder) bool {
	return w.row != nil && w.row.Epoch == h.Row.Epoch && w.row.Owner == h.Row.Owner
}

// process is one sidecar with one client.
type process struct {
	w       *world
	id      int
	rate    float64
	offset  time.Duration
	crashed bool
	lives   int
	watch   LockObserver
	held    *LockHolder
	dosDDL  bool // between its promise and its end
	// renewing: a renewal is under way.
	renewing bool
}

// clock is the process's own.
func (p *process) clock() time.Duration {
	return p.offset + time.Duration(float64(p.w.now)*p.rate)
}

// then is the next step of the process, which may be stopped before it, or crash.
func (p *process) then(d time.Duration, do func()) {
	w := p.w
	switch w.rnd.IntN(60) {
	case 0:
		d += w.between(0, 3*simTerms.Lease)
	case 1:
		d += w.between(0, 2*simTerms.LeaseLength(true))
	case 2:
		if p.held != nil && w.rnd.IntN(3) == 0 { // another process starts in its place
			p.crashed = true
			w.after(w.between(0, simTerms.Lease), newProcess(w, p.id, p.lives+1).start)
			return
		}
	}
	w.after(d, do)
}

// trip is a round trip: do runs at the server, and then the process goes on.
func (p *process) trip(do, then func()) {
	w := p.w
	w.after(w.between(time.Millisecond, 300*time.Millisecond), func() {
		do()
		p.then(w.between(time.Millisecond, 300*time.Millisecond), then)
	})
}

func newProcess(w *world, id, lives int) *process {
	return &process{w: w, id: id, lives: lives, rate: 1 + (w.rnd.Float64()-0.5)/1000, offset: w.between(0, time.Hour)}
}

func (p *process) start() { p.want() }

// want looks at the row, and takes the lock or waits.
func (p *process) want() {
	asked := p.clock()
	var seen *LockRow
	p.trip(func() {
		if p.w.row != nil {
			row := *p.w.row
			seen = &row
		}
	}, func() {
		shown := seen
		if p.w.fault == hasty && seen != nil {
			short := *seen
			short.Lease /= 2
			shown = &short
		}
		if p.watch.RecordRow(shown, asked, p.clock()) == Wait {
			p.then(p.w.between(100*time.Millisecond, time.Second), p.want)
			return
		}
		owner, sent := fmt.Sprintf("p%d.%d.%d", p.id, p.lives, p.w.now), p.clock()
		var made LockRow
		var ok bool
		p.trip(func() { made, ok = p.w.take(seen, owner, simTerms.Lease) }, func() {
			if !ok {
				p.want()
				return
			}
			p.held = &LockHolder{Name: "l", Row: made, Confirmed: sent}
			p.renewals(*p.held)
			p.work(p.w.rnd.IntN(8))
		})
	})
}

// renewals renews the lock until it is given up or lost.
func (p *process) renewals(of LockHolder) {
	p.then(p.w.between(simTerms.RenewInterval()/2, simTerms.RenewInterval()), func() {
		if p.held == nil || p.held.Row.Owner != of.Row.Owner || p.crashed {
			return
		}
		p.renew(p.dosDDL, func() { p.renewals(of) })
	})
}

// renew renews once, behind another renewal of this process that is under way. The answer of one
// in ten is lost, and its request may come late.
func (p *process) renew(long bool, then func()) {
	switch {
	case p.crashed || p.held == nil:
		then()
		return
	case p.renewing && p.w.fault != crossed:
		p.then(50*time.Millisecond, func() { p.renew(long || p.dosDDL, then) })
		return
	}
	p.renewing = true
	h, sent, ok := *p.held, p.clock(), false
	lease := simTerms.LeaseLength(long)
	apply := func() {
		if ok = p.w.isOf(h) && p.w.row.Seq == h.Row.Seq; ok {
			p.w.row = &LockRow{Epoch: h.Row.Epoch, Owner: h.Row.Owner, Seq: h.Row.Seq + 1, Lease: lease}
		}
	}
	done := func(held *LockHolder) {
		p.renewing = false
		if p.held != nil && p.held.Row.Owner == h.Row.Owner {
			p.held = held
		}
		if !p.crashed {
			then()
		}
	}
	if p.w.rnd.IntN(10) == 0 {
		p.w.after(p.w.between(time.Millisecond, simTerms.Lease), apply)
		doubted := h.WithDoubt()
		if p.w.fault == sure {
			doubted = h
		}
		p.then(2*time.Second, func() { done(&doubted) })
		return
	}
	p.trip(apply, func() {
		if ok {
			renewed := h.WithRenewal(lease, sent)
			done(&renewed)
			return
		}
		p.look(h, done)
	})
}

// look reads the row of a lock that was not renewed.
func (p *process) look(h LockHolder, done func(*LockHolder)) {
	var row *LockRow
	p.trip(func() {
		if p.w.row != nil {
			seen := *p.w.row
			row = &seen
		}
	}, func() {
		found, ok := h.WithRow(row)
		if !ok {
			done(nil) // taken over
			return
		}
		done(&found)
	})
}

// work does so many things under the lock, and gives it up.
func (p *process) work(left int) {
	switch {
	case p.crashed:
	case p.held == nil:
		p.then(p.w.between(0, time.Second), p.want)
	case left == 0:
		h := *p.held
		p.held = nil
		p.trip(func() {
			if p.w.isOf(h) {
				p.w.row = &LockRow{Epoch: h.Row.Epoch, Seq: p.w.row.Seq + 1}
			}
		}, p.want)
	case p.w.rnd.IntN(3) == 0:
		p.define(func() { p.work(left - 1) })
	default:
		p.write(func() { p.work(left - 1) })
	}
}

// form is how a client sends what it writes.
type form int

const (
	inBlock form = iota
	autocommit
	text     // a multi-statement string
	pipeline // several statements and a Sync
)

var formNames = [...]string{"block", "autocommit", "multi-statement string", "pipeline"}

// write is a transaction with a fence: its snapshot, its statements, some time, its commit. Sluice has
// it in a block, whatever the client sent; the fault is to leave that out.
func (p *process) write(then func()) {
	h, w, of := *p.held, p.w, form(p.w.rnd.IntN(len(formNames)))
	statements, snapshot := 1, false
	if of != autocommit {
		statements += w.rnd.IntN(3)
	}
	conflicts := of == inBlock || w.fault != bare || w.outside
	commit := func() {
		checked := snapshot && (w.isOf(h) || !conflicts)
		switch {
		case !checked && w.fault != unfenced:
			w.conflicts++
		case !w.isOf(h):
			w.report("%s commits by a %s while the lock is another's", h.Row.Owner, formNames[of])
		default:
			w.commits++
			w.forms[of]++
		}
	}
	var statement func()
	statement = func() {
		if statements--; p.crashed {
			return
		}
		switch {
		case statements > 0 && of != pipeline:
			p.trip(func() {}, statement)
		case statements > 0: // no round trip between them, but time at the server
			w.after(w.between(0, 300*time.Millisecond), statement)
		case of == inBlock || w.fault != bare:
			p.trip(commit, then)
		default: // the commit is part of the last statement, which may take long
			w.after(w.between(0, simTerms.Lease), func() { commit(); p.then(time.Millisecond, then) })
		}
	}
	p.trip(func() { snapshot = w.isOf(h) }, statement)
}

// define is a statement of DDL: the promise, and the statement.
func (p *process) define(then func()) {
	if p.held == nil {
		then()
		return
	}
	p.dosDDL = true
	send := func() {
		h, w := *p.held, p.w
		w.statements++
		w.after(w.between(time.Millisecond, 300*time.Millisecond), func() {
			takes := w.between(time.Millisecond, simTerms.LongestDDL)
			if !w.isOf(h) {
				w.report("DDL of %s begins while the lock is another's", h.Row.Owner)
			}
			w.ddl = append(w.ddl, ddl{h.Row.Owner, w.now + takes})
			p.then(takes, func() {
				p.dosDDL = false
				then()
			})
		})
	}
	if p.renewing && p.w.fault != crossed {
		p.then(50*time.Millisecond, func() { p.define(then) })
		return
	}
	if p.held.CoversDDL(simTerms, p.clock()) || p.w.fault == unpledged {
		send()
		return
	}
	p.renew(true, func() {
		if p.held != nil && !p.renewing && p.held.CoversDDL(simTerms, p.clock()) {
			send()
			return
		}
		p.dosDDL = false
		then()
	})
}

// simulate runs one world for two hours.
func simulate(seed uint64, f fault) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 9)), fault: f, outside: seed%4 == 3}
	for id := range 2 + int(seed%3) {
		newProcess(w, id, 0).start()
	}
	for w.queue.Len() > 0 && w.now < 2*time.Hour {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
	return w
}

func TestNoTwoHolders(t *testing.T) {
	t.Parallel()
	var sum world
	for seed := range uint64(150) {
		w := simulate(seed, none)
		for _, what := range w.broken {
			t.Errorf("seed %d: %s", seed, what)
		}
		if t.Failed() {
			return
		}
		sum.takes += w.takes
		sum.takeovers += w.takeovers
		sum.commits += w.commits
		sum.conflicts += w.conflicts
		sum.statements += w.statements
		for i, n := range w.forms {
			sum.forms[i] += n
		}
	}
	t.Logf("%d locks taken, %d of them over; %d commits, %d refused; %d statements of DDL", sum.takes, sum.takeovers, sum.commits, sum.conflicts, sum.statements)
	for i, n := range sum.forms {
		if n < 1000 {
			t.Errorf("only %d commits by a %s", n, formNames[i])
		}
	}
	if sum.takeovers < 400 || sum.conflicts < 100 || sum.commits < 10_000 || sum.statements < 5_000 {
		t.Error("the worlds are too quiet to show anything")
	}
}

// Each fault is seen.
func TestFaultsAreSeen(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{unfenced, bare, hasty, unpledged, crossed, sure} {
		seen := false
		for seed := uint64(0); seed < 1000 && !seen; seed++ {
			seen = len(simulate(seed, f).broken) > 0
		}
		if !seen {
			t.Errorf("a world that %s breaks nothing", f)
		}
	}
}
