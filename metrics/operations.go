package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Names of operations are made of the names of tables in statements, which clients choose. So they are
// told apart only where a statement of theirs has succeeded, and at most maxOperations of them; the
// others are Other. Where there are more, one that is used more takes the place of the one that is
// used least, whose series are deleted.

const (
	// maxOperations bounds the names that are told apart, beside Other.
	maxOperations = 250
	// halfLife is the time in which uses count half.
	halfLife = 10 * time.Minute
)

// operation holds the series that every transaction of that name touches.
type operation struct {
	name      string
	uses      atomic.Uint64 // statements that have succeeded, those of old counted less
	active    prometheus.Gauge
	attempts  prometheus.Observer
	durations prometheus.Observer
}

// operations are those told apart. Finding one takes no lock and allocates
// nothing; there are few, so that a change may copy them all.
type operations struct {
	known atomic.Pointer[map[string]*operation]
	make  func(name string) *operation
	// vectors have the label operation.
	vectors []vector
	now     func() time.Time

	// mu also keeps series from being made for a name that gives way.
	mu sync.RWMutex
	// waiting are names that have no place, with their uses: no more than maxOperations.
	waiting map[string]uint64
	// least is what no known name has fewer uses than; aged is when uses were halved last.
	least uint64
	aged  time.Time
}

// vector is a metric with the label operation.
type vector interface {
	DeletePartialMatch(labels prometheus.Labels) int
}

func (o *operations) init(now func() time.Time, makes func(name string) *operation, vectors ...vector) {
	o.make, o.vectors, o.now, o.aged, o.waiting = makes, vectors, now, now(), map[string]uint64{}
	o.known.Store(&map[string]*operation{Other: makes(Other)})
}

// of finds an operation's series; for a name that is not told apart they are those of Other.
func (o *operations) of(name string) *operation {
	known := *o.known.Load()
	if found := known[name]; found != nil {
		return found
	}
	return known[Other]
}

// count has f count under the label of a name, whose series are not deleted meanwhile.
func (o *operations) count(name string, f func(label string)) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	f(o.of(name).name)
}

// used is told of each statement of that name that has succeeded.
func (o *operations) used(name string) {
	if found := (*o.known.Load())[name]; found != nil {
		found.uses.Add(1)
	} else if name != "" {
		o.admit(name)
	}
}

// admit tells a name apart where there is room, or where it is used more than twice as much as the
// name that is used least: two that are used alike do not take turns.
func (o *operations) admit(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := *o.known.Load()
	if found := known[name]; found != nil {
		found.uses.Add(1)
		return
	}
	if len(known) <= maxOperations {
		o.add(name, 1)
		return
	}
	o.age()
	if len(o.waiting) >= maxOperations && o.waiting[name] == 0 {
		halve(o.waiting, 1)
	}
	if len(o.waiting) >= maxOperations && o.waiting[name] == 0 {
		return
	}
	o.waiting[name]++
	uses := o.waiting[name]
	if uses <= 2*o.least {
		return
	}
	last := o.last()
	if o.least = last.uses.Load(); uses > 2*o.least {
		o.remove(last.name)
		o.add(name, uses)
		delete(o.waiting, name)
	}
}

// last is the operation that is used least, but for Other.
func (o *operations) last() (last *operation) {
	for name, each := range *o.known.Load() {
		if name != Other && (last == nil || each.uses.Load() < last.uses.Load()) {
			last = each
		}
	}
	return last
}

// age has uses count half for each halfLife that has passed. Uses that come in between may be lost.
func (o *operations) age() {
	times := o.now().Sub(o.aged) / halfLife
	if times == 0 {
		return
	}
	o.aged = o.aged.Add(times * halfLife)
	for _, each := range *o.known.Load() {
		each.uses.Store(each.uses.Load() >> times)
	}
	halve(o.waiting, uint(times))
	o.least >>= times
}

func halve(uses map[string]uint64, times uint) {
	for name := range uses {
		uses[name] >>= times
	}
	maps.DeleteFunc(uses, func(_ string, n uint64) bool { return n == 0 })
}

func (o *operations) add(name string, uses uint64) {
	grown := maps.Clone(*o.known.Load())
	grown[name] = o.make(name)
	grown[name].uses.Store(uses)
	o.known.Store(&grown)
}

// remove deletes a name with all of its series. Who still holds its gauge counts in what nobody sees.
func (o *operations) remove(name string) {
	left := maps.Clone(*o.known.Load())
	delete(left, name)
	o.known.Store(&left)
	for _, v := range o.vectors {
		v.DeletePartialMatch(prometheus.Labels{"operation": name})
	}
}

// Running is a transaction that is counted as active; the zero value is none.
type Running struct{ active prometheus.Gauge }

// TxBegan counts a transaction that can be run again, or says what it is once
// that is known: was is what it was counted as before.
func (p *Proxy) TxBegan(was Running, operation string) Running {
	if p == nil {
		return Running{}
	}
	is := Running{p.tx.operations.of(operation).active}
	is.active.Inc()
	was.end()
	return is
}

func (r Running) end() {
	if r.active != nil {
		r.active.Dec()
	}
}

// TxEnded counts its end, after that many replays.
func (p *Proxy) TxEnded(r Running, operation string, took time.Duration, replays int) {
	if p != nil {
		r.end()
		o := p.tx.operations.of(operation)
		o.durations.Observe(took.Seconds())
		o.attempts.Observe(float64(replays))
	}
}

// OperationSucceeded is told of each statement that has, by its name.
func (p *Proxy) OperationSucceeded(operation string) {
	if p != nil {
		p.tx.operations.used(operation)
	}
}
