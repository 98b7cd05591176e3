package account

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// What an account takes those above it take, all of them or none.
func TestAccounts(t *testing.T) {
	process := NewProcess(Limits{Client: 100, Texts: 60, Rows: 50}, 150, 70, "all rows")
	var a, b Client
	a.Open(process, "texts", "rows")
	b.Open(process, "texts", "rows")
	for i, step := range []struct {
		of   *Account
		n    int
		full string
	}{
		{&a.Own, 40, ""},
		{&a.Texts, 61, "texts"},
		{&a.Texts, 60, ""},
		{&a.Own, 1, ClientKey},
		{&a.Texts, -60, ""},
		{&a.Rows, 51, "rows"},
		{&a.Rows, 50, ""},
		{&a.Own, 11, ClientKey},
		{&b.Rows, 21, "all rows"},
		{&b.Own, 100, ""},
		{&a.Own, 10, ""},
		{&b.Rows, 1, ClientKey},
		{&b.Own, -90, ""},
		{&b.Texts, 60, ""},
		{&b.Own, 30, ""},
		{&a.Rows, -50, ""},
		{&a.Own, 51, ClientKey},
	} {
		got := ""
		was := [...]int64{a.All.Used(), b.All.Used(), process.Used(), process.Rows(), step.of.Used()}
		full := step.of.TryTake(step.n)
		if full != nil {
			got = full.Key()
			if is := [...]int64{a.All.Used(), b.All.Used(), process.Used(), process.Rows(), step.of.Used()}; is != was {
				t.Errorf("step %d took some: %v, was %v", i, is, was)
			}
		}
		if got != step.full {
			t.Errorf("step %d: full is %q, want %q", i, got, step.full)
		}
	}
	if full := b.Own.Full(1_000); full == nil || full.Key() != ClientKey || b.Own.Full(-1) != nil {
		t.Errorf("full is %v", full)
	}
	if a.All.Used() != 50 || b.All.Used() != 100 || process.Used() != 90 || process.Rows() != 0 {
		t.Errorf("taken: %d, %d, %d, %d", a.All.Used(), b.All.Used(), process.Used(), process.Rows())
	}
	a.Close()
	b.Close()
	if a.All.Used() != 0 || b.All.Used() != 0 || process.Used() != 0 || process.Rows() != 0 {
		t.Errorf("left behind the end: %d, %d, %d, %d", a.All.Used(), b.All.Used(), process.Used(), process.Rows())
	}
}

// The process's bound holds whoever takes at the same time, and what is given back is there again.
func TestManyClients(t *testing.T) {
	process := NewProcess(Limits{Client: 1 << 20, Texts: 1 << 20}, 1000, 0, "rows")
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 39))
			var c Client
			c.Open(process, "texts", "rows")
			var charges [4]Charge
			for range 10_000 {
				x := &charges[random.IntN(len(charges))]
				n, was := random.IntN(200), x.Bytes()
				if full := x.TrySet(&c.Own, n); full != nil && (full.Key() != TotalKey || n <= was || x.Bytes() != was) {
					t.Errorf("from %d to %d bytes: %s is full", was, n, full.Key())
				}
				if used := process.Used(); used < 0 {
					t.Errorf("%d bytes are taken", used)
				}
			}
			sum := 0
			for j := range charges {
				sum += charges[j].Bytes()
			}
			if int64(sum) != c.Own.Used() || int64(sum) != c.All.Used() {
				t.Errorf("charges of %d bytes have taken %d of the client and %d of all of it", sum, c.Own.Used(), c.All.Used())
			}
			charges[0].Set(&c.Own, 5000) // whatever the bound is
			c.Close()
		})
	}
	clients.Wait()
	if process.Used() != 0 {
		t.Errorf("%d bytes are left", process.Used())
	}
	if !process.total.Take(1000) || process.total.Take(1) {
		t.Error("the bound is another than before")
	}
	process.total.Give(1000)
}
