package retry

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// clock is a time that a test moves.
type clock struct{ nanos atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.nanos.Load()) }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

// The budget agrees with a bucket of floating-point tokens.
func TestBudgetIsATokenBucket(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := Defaults()
		c.BudgetBurst = rapid.IntRange(1, 20).Draw(t, "burst")
		c.BudgetPerCommit = float64(rapid.IntRange(0, 8).Draw(t, "per commit")) / 4
		c.BudgetPerSecond = float64(rapid.IntRange(1, 20).Draw(t, "per second"))
		var clock clock
		b := NewBudget(c, clock.now)
		burst := float64(c.BudgetBurst)
		tokens := burst
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				d := time.Duration(rapid.IntRange(1, 1000).Draw(t, "ms")) * time.Millisecond
				clock.advance(d)
				tokens = min(burst, tokens+d.Seconds()*c.BudgetPerSecond)
			case 1:
				b.RecordCommit()
				tokens = min(burst, tokens+c.BudgetPerCommit)
			default:
				got := b.Take()
				if math.Abs(tokens-1) > 1e-5 && got != (tokens > 1) {
					t.Fatalf("took %v of %v tokens", got, tokens)
				}
				if got {
					tokens--
				}
			}
		}
	})
}

func TestBudgetInParallel(t *testing.T) {
	t.Parallel()
	var clock clock
	clock.advance(time.Hour)
	c := Defaults()
	c.BudgetBurst = 100_000
	b := NewBudget(c, clock.now)
	var taken atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20_000 {
				if b.Take() {
					taken.Add(1)
				}
			}
		})
	}
	all.Wait()
	if got := taken.Load(); got != int64(c.BudgetBurst) {
		t.Fatalf("%d tokens taken of %d", got, c.BudgetBurst)
	}
	for range 2 * c.BudgetBurst {
		b.RecordCommit()
	}
	for range c.BudgetBurst {
		if !b.Take() {
			t.Fatal("commits did not fill the bucket")
		}
	}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	q := NewByteQuota(100)
	if !q.Take(60) || q.Take(41) || !q.Take(40) || q.Used() != 100 {
		t.Fatalf("%d of 100 used", q.Used())
	}
	if q.Give(100); q.Used() != 0 {
		t.Fatalf("%d used", q.Used())
	}
}

func TestHeld(t *testing.T) {
	t.Parallel()
	q := NewByteQuota(3 * chunkSize)
	a, b := NewHeldOutput(2*chunkSize, q), NewHeldOutput(2*chunkSize, q)
	var want []byte
	for i := range 2*chunkSize - 1 {
		want = append(want, byte(i))
	}
	if !a.Add(want[:10]) || !a.Add(want[10:]) || a.Add([]byte("xy")) || a.Len() != len(want) {
		t.Fatalf("%d bytes held, want %d", a.Len(), len(want))
	}
	var got []byte
	a.Each(func(piece []byte) error { got = append(got, piece...); return nil })
	if string(got) != string(want) {
		t.Fatal("not what was added")
	}
	if !b.Add(want[:chunkSize]) || b.Add(want[:1]) {
		t.Fatal("the quota of all does not bind")
	}
	a.Drop()
	if a.Len() != 0 || !b.Add(want[:1]) || q.Used() != 2*chunkSize {
		t.Fatalf("%d bytes used", q.Used())
	}
	b.Drop()
	if b.Drop(); q.Used() != 0 {
		t.Fatalf("%d bytes leaked", q.Used())
	}
}
