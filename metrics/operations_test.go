package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// hours is a set whose clock the test moves.
func hours(t *testing.T) (p *Proxy, pass func(time.Duration), labels func() map[string]int) {
	t.Helper()
	set := New(Options{})
	now := time.Now()
	p = set.Proxy
	p.tx.operations.now, p.tx.operations.aged = func() time.Time { return now }, now
	return p, func(d time.Duration) { now = now.Add(d) }, func() map[string]int { return operationLabels(t, set.Registry) }
}

// operationLabels are the values of the label operation at a scrape, with how many series have them.
func operationLabels(t *testing.T, reg prometheus.Gatherer) map[string]int {
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "operation" {
					seen[l.GetValue()]++
				}
			}
		}
	}
	return seen
}

// does has a transaction of a name run; ok says that its statement succeeded.
func (p *Proxy) does(name string, ok bool) {
	r := p.CountTxStart(ActiveTx{}, "")
	r = p.CountTxStart(r, name)
	if ok {
		p.CountOperationSuccess(name)
	}
	p.CountUnsupported(name, "truncate")
	p.CountTxError(name, "conflict")
	p.CountTxConflict(name)
	p.CountTxRetry(name, "OC000", 1)
	p.CountTxEnd(r, name, time.Second, 0)
}

// Names of statements that fail take no place, however many they are.
func TestFailedOperationsHaveNoName(t *testing.T) {
	p, _, labels := hours(t)
	for i := range 3 * maxOperations {
		p.does(fmt.Sprint("select_nosuch", i), false)
	}
	p.does("select_orders", true)
	if got := labels(); len(got) != 2 || got["select_orders"] == 0 {
		t.Errorf("%d names: %v", len(got), got)
	}
}

// A client that has filled all places keeps nobody out, and those in steady use keep theirs while it
// makes up names without end. At no time are there more names than may be, in any metric.
func TestOperationsGiveWay(t *testing.T) {
	p, pass, labels := hours(t)
	for i := range maxOperations {
		p.does(fmt.Sprint("select_fill", i), true)
	}
	running := p.CountTxStart(ActiveTx{}, "select_fill0")
	used := func(n int) {
		for range n {
			for i := range 10 {
				p.does(fmt.Sprint("select_orders", i), true)
			}
		}
	}
	used(3)
	for round := range 20 {
		for i := range 500 {
			p.does(fmt.Sprint("select_flood", round, "_", i), true)
		}
		used(20)
		pass(7 * time.Minute)
		got, orders := labels(), 0
		for name := range got {
			if strings.HasPrefix(name, "select_orders") {
				orders++
			}
		}
		if len(got) > maxOperations+1 || orders != 10 {
			t.Fatalf("round %d: %d names, %d of 10 in steady use", round, len(got), orders)
		}
	}
	p.CountTxEnd(running, "select_fill0", time.Second, 0)
	got := labels()
	if got["select_fill0"] != 0 {
		t.Errorf("a name that gave way has %d series again", got["select_fill0"])
	}
	if n := len(p.tx.operations.waiting); n > maxOperations {
		t.Errorf("%d names wait", n)
	}
	// What is used alike does not take turns: each turn would be new series for whoever scrapes.
	p, _, labels = hours(t)
	for round := range 10 {
		before := labels()
		for i := range 2 * maxOperations {
			p.does(fmt.Sprint("select_even", i), true)
		}
		for name := range labels() {
			if round > 0 && before[name] == 0 {
				t.Fatalf("round %d: %s took a place", round, name)
			}
		}
	}
}

// A name of long ago gives way to one of today after the first use.
func TestOldOperationsGiveWay(t *testing.T) {
	p, pass, labels := hours(t)
	for i := range maxOperations {
		for range 1000 {
			p.CountOperationSuccess(fmt.Sprint("select_old", i))
		}
	}
	p.does("select_new", true)
	if labels()["select_new"] != 0 {
		t.Error("one use outweighs a thousand")
	}
	pass(24 * time.Hour)
	p.does("select_newer", true)
	if labels()["select_newer"] == 0 {
		t.Error("names that nobody has used for a day stay")
	}
}
