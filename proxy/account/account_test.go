package account

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// bounds are small ones.
var bounds = Bounds{Client: Bound{ClientKey, 100}, Texts: Bound{"texts", 60}, Rows: Bound{"rows", 50}, Total: Bound{TotalKey, 150}, TotalRows: Bound{"all rows", 70}}

// What a client takes counts for it and for all, or nothing of it does.
func TestAccounts(t *testing.T) {
	p := NewProcess(bounds)
	a, b := p.NewClient(), p.NewClient()
	for i, step := range []struct {
		of   *Client
		kind Kind
		n    int
		full string
	}{
		{&a, Own, 40, ""},
		{&a, Texts, 61, "texts"},
		{&a, Texts, 60, ""},
		{&a, Own, 1, ClientKey},
		{&a, Texts, -60, ""},
		{&a, Rows, 51, "rows"},
		{&a, Rows, 50, ""},
		{&a, Own, 11, ClientKey},
		{&b, Rows, 21, "all rows"},
		{&b, Own, 100, ""},
		{&a, Own, 10, ""},
		{&b, Rows, 1, ClientKey},
		{&b, Own, -90, ""},
		{&b, Texts, 60, ""},
		{&b, Own, 30, ""},
		{&a, Rows, -50, ""},
		{&a, Own, 51, ClientKey},
		{&a, Own, 50, ""},
		{&b, Texts, -60, ""},
		{&b, Own, 11, TotalKey},
		{&a, Own, -50, ""},
	} {
		stands := func() [6]int64 {
			return [...]int64{int64(step.of.used[Own]), int64(step.of.used[Texts]), int64(step.of.used[Rows]), p.Used(), p.UsedRows(), 0}
		}
		was, got, can := stands(), "", ""
		if full := step.of.ExceededBound(step.kind, step.n); full != nil {
			can = full.Key
		}
		if full := step.of.TryTake(step.kind, step.n); full != nil {
			got = full.Key
			if is := stands(); is != was {
				t.Errorf("step %d took some: %v, was %v", i, is, was)
			}
		}
		if got != step.full || can != step.full {
			t.Errorf("step %d: full is %q and would be %q, want %q", i, got, can, step.full)
		}
	}
	if a.used != [kinds]int32{50, 0, 0} || b.used != [kinds]int32{40, 0, 0} || p.Used() != 90 || p.UsedRows() != 0 {
		t.Errorf("taken: %v, %v, %d, %d", a.used, b.used, p.Used(), p.UsedRows())
	}
	rows := RowsAccount{&b}
	if !rows.Take(50) || rows.Take(1) || p.UsedRows() != 50 {
		t.Errorf("rows have %d bytes", p.UsedRows())
	}
	rows.Give(20)
	a.Close()
	b.Close()
	if a.used != [kinds]int32{} || b.used != [kinds]int32{} || p.Used() != 0 || p.UsedRows() != 0 {
		t.Errorf("left behind the end: %v, %v, %d, %d", a.used, b.used, p.Used(), p.UsedRows())
	}
}

// The bound of all holds whoever takes at the same time, and what is given back is there again.
func TestManyClients(t *testing.T) {
	large := bounds
	large.Client.Limit, large.Total.Limit = 1<<20, 1000
	p := NewProcess(large)
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 39))
			c := p.NewClient()
			var charges [4]Charge
			for range 10_000 {
				x := &charges[random.IntN(len(charges))]
				n, was := random.IntN(200), x.Bytes()
				if full := x.TrySet(&c, n); full != nil && (full.Key != TotalKey || n <= was || x.Bytes() != was) {
					t.Errorf("from %d to %d bytes: %s is full", was, n, full.Key)
				}
				if used := p.Used(); used < 0 {
					t.Errorf("%d bytes are taken", used)
				}
			}
			sum := 0
			for j := range charges {
				sum += charges[j].Bytes()
			}
			if sum != c.Used(Own) {
				t.Errorf("charges of %d bytes have taken %d", sum, c.Used(Own))
			}
			charges[0].Set(&c, 5000) // whatever the bound is
			c.Close()
		})
	}
	clients.Wait()
	if p.Used() != 0 {
		t.Errorf("%d bytes are left", p.Used())
	}
}
