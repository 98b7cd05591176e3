package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Names of operations contain names of tables, which clients choose. So a name has its own series only after one of
// its statements has succeeded. At most maxOperations names have their own series, and the other names count under
// Other. If another name is used more often, it gets its own series, and the series of the least used name are
// deleted.

const (
	// maxOperations bounds the names of operations that have their own series, without Other.
	maxOperations = 250
	// halfLife is the time after which earlier uses of an operation count half.
	halfLife = 10 * time.Minute
)

// operationSeries holds the series of all transactions with one operation name (verb and table, as select_shards).
type operationSeries struct {
	name      string
	uses      atomic.Uint64 // successful statements; older ones count less
	active    prometheus.Gauge
	attempts  prometheus.Observer
	durations prometheus.Observer
}

// operationTable holds the operation names with their own series. Finding a name takes no lock and allocates nothing.
// The names are few, so a change may copy the whole map.
type operationTable struct {
	known atomic.Pointer[map[string]*operationSeries]
	make  func(name string) *operationSeries
	// vectors are all metrics with the label operation.
	vectors []labelDeleter
	now     func() time.Time

	// mu guards the fields that follow. mu also prevents that a name which is being removed gets new series.
	mu sync.RWMutex
	// waiting counts the uses of names without their own series. waiting has at most maxOperations names.
	waiting map[string]uint64
	// least is a lower bound of the uses of every name in known. aged is the time when uses were last halved.
	least uint64
	aged  time.Time
}

// labelDeleter is a Prometheus metric with the label operation.
type labelDeleter interface {
	DeletePartialMatch(labels prometheus.Labels) int
}

func (o *operationTable) init(now func() time.Time, makes func(name string) *operationSeries, vectors ...labelDeleter) {
	o.make, o.vectors, o.now, o.aged, o.waiting = makes, vectors, now, now(), map[string]uint64{}
	o.known.Store(&map[string]*operationSeries{Other: makes(Other)})
}

// seriesOf returns the series of an operation (verb and table), or those of Other if the operation has none.
func (o *operationTable) seriesOf(name string) *operationSeries {
	known := *o.known.Load()
	if found := known[name]; found != nil {
		return found
	}
	return known[Other]
}

// withLabel calls f with the label value of an operation. The label's series are not deleted during the call.
func (o *operationTable) withLabel(name string, f func(label string)) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	f(o.seriesOf(name).name)
}

// countUse counts a successful statement of an operation (verb and table, as select_shards).
func (o *operationTable) countUse(name string) {
	if found := (*o.known.Load())[name]; found != nil {
		found.uses.Add(1)
	} else if name != "" {
		o.admitName(name)
	}
}

// admitName gives an operation (verb and table) its own series if there is room. Otherwise the operation must be used
// more than twice as much as the least used one. So two operations with equal use do not alternate.
func (o *operationTable) admitName(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := *o.known.Load()
	if found := known[name]; found != nil {
		found.uses.Add(1)
		return
	}
	if len(known) <= maxOperations {
		o.addName(name, 1)
		return
	}
	o.decayUses()
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
	last := o.leastUsed()
	if o.least = last.uses.Load(); uses > 2*o.least {
		o.removeName(last.name)
		o.addName(name, uses)
		delete(o.waiting, name)
	}
}

// leastUsed returns the series of the operation (verb and table) that is used least, except Other.
func (o *operationTable) leastUsed() (last *operationSeries) {
	for name, each := range *o.known.Load() {
		if name != Other && (last == nil || each.uses.Load() < last.uses.Load()) {
			last = each
		}
	}
	return last
}

// decayUses halves the uses of all operations for each halfLife that has passed. It may lose concurrent uses.
func (o *operationTable) decayUses() {
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

func (o *operationTable) addName(name string, uses uint64) {
	grown := maps.Clone(*o.known.Load())
	grown[name] = o.make(name)
	grown[name].uses.Store(uses)
	o.known.Store(&grown)
}

// removeName deletes an operation with all its series. A transaction that still has the operation's gauge then
// changes a deleted series.
func (o *operationTable) removeName(name string) {
	left := maps.Clone(*o.known.Load())
	delete(left, name)
	o.known.Store(&left)
	for _, v := range o.vectors {
		v.DeletePartialMatch(prometheus.Labels{"operation": name})
	}
}

// ActiveTx is a transaction that is counted as active. The zero ActiveTx counts no transaction.
type ActiveTx struct{ active prometheus.Gauge }

// CountTxStart counts a replayable transaction as active under an operation (verb and table), and returns that count.
// was is the transaction's earlier count, under another operation, or the zero ActiveTx.
func (p *Proxy) CountTxStart(was ActiveTx, operation string) ActiveTx {
	if p == nil {
		return ActiveTx{}
	}
	is := ActiveTx{p.tx.operations.seriesOf(operation).active}
	is.active.Inc()
	was.decrement()
	return is
}

func (r ActiveTx) decrement() {
	if r.active != nil {
		r.active.Dec()
	}
}

// CountTxEnd counts the end of the transaction r under an operation, with its duration and number of replays.
func (p *Proxy) CountTxEnd(r ActiveTx, operation string, took time.Duration, replays int) {
	if p != nil {
		r.decrement()
		o := p.tx.operations.seriesOf(operation)
		o.durations.Observe(took.Seconds())
		o.attempts.Observe(float64(replays))
	}
}

// CountOperationSuccess counts a successful statement of an operation (verb and table, as select_shards).
func (p *Proxy) CountOperationSuccess(operation string) {
	if p != nil {
		p.tx.operations.countUse(operation)
	}
}
