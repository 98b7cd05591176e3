package reservoir

import (
	"context"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// fullShelf runs a Reservoir of n ready backends until the benchmark ends.
func fullShelf(b *testing.B, n int) *Reservoir {
	b.Helper()
	cfg := small(n)
	cfg.RateLimit, cfg.BurstLimit = 10*n, 10*n
	r, err := New(cfg, new(server).dial, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	finished := make(chan error, 1)
	go func() { finished <- r.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-finished; err != nil {
			b.Error(err)
		}
	})
	for r.Stats().Ready < n {
		time.Sleep(time.Millisecond)
	}
	b.ReportAllocs()
	return r
}

// BenchmarkLoan is one loan from a full shelf, by 64 contenders a CPU.
func BenchmarkLoan(b *testing.B) {
	r := fullShelf(b, 100)
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if c := r.TryAcquire(); c != nil {
				c.Release()
			}
		}
	})
}

// BenchmarkCheckoutOf64 is how long each of 64 borrowers waits for a backend of a
// full shelf: the median, and what one in a thousand exceeds.
func BenchmarkCheckoutOf64(b *testing.B) {
	const borrowers = 64
	r := fullShelf(b, 100)
	waits := make([]time.Duration, b.N/borrowers*borrowers+borrowers)
	b.ResetTimer()
	var all sync.WaitGroup
	for i := range borrowers {
		mine := waits[i*len(waits)/borrowers : (i+1)*len(waits)/borrowers]
		all.Go(func() {
			for j := range mine {
				began := time.Now()
				c := r.TryAcquire()
				mine[j] = time.Since(began)
				runtime.Gosched() // a turn, in which others run
				c.Release()
			}
		})
	}
	all.Wait()
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)/2].Nanoseconds()), "median-ns")
	b.ReportMetric(float64(waits[len(waits)-1-len(waits)/1000].Nanoseconds()), "p99.9-ns")
}

// BenchmarkWait is a loan for which its borrower waits in line: 64 take turns with 2 backends, and
// each gives its own back to who waits.
func BenchmarkWait(b *testing.B) {
	const borrowers = 64
	r := fullShelf(b, 2)
	b.ResetTimer()
	var all sync.WaitGroup
	for i := range borrowers {
		all.Go(func() {
			for range b.N/borrowers + i%2 {
				p := r.NewWaitPlace()
				c, err := p.Acquire()
				p.Recycle()
				if err != nil {
					b.Error(err)
					return
				}
				runtime.Gosched() // a turn, in which others run
				c.Release()
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(r.Stats().Empty)/float64(b.N), "waits/op")
}

// BenchmarkScan is a scan of 1,000 ready backends, none of which is due.
func BenchmarkScan(b *testing.B) {
	r := fullShelf(b, 1000)
	for b.Loop() {
		r.retireDue()
	}
}

// gone is a socket whose peer has closed its end.
type gone struct{ net.Conn }

func (gone) SetDeadline(time.Time) error { return nil }
func (gone) Write(b []byte) (int, error) { return len(b), nil }
func (gone) Read([]byte) (int, error)    { return 0, io.EOF }
func (gone) Close() error                { return nil }

// BenchmarkScanAllDue are scans of 1,000 ready backends, all of which are due at
// once: replaced by tenths, ended because none may be lent any more, or put off
// because they cannot be replaced, for the first time and for the last.
func BenchmarkScanAllDue(b *testing.B) {
	const n = 1000
	for _, bench := range []struct {
		name     string
		age      time.Duration
		postpone bool
		left     int // on the shelf
	}{
		{"replaced", DefaultBaseLifetime - DefaultGuardWindow - 3*time.Second, false, n * 9 / 10},
		{"guarded", DefaultBaseLifetime - DefaultGuardWindow + time.Second, false, 0},
		{"put off", DefaultBaseLifetime - DefaultGuardWindow - 3*time.Second, true, n},
		{"put off for the last time", maxLifetime - DefaultGuardWindow - retireMargin - 2*scanEvery, true, n},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				r := aged(b, n, bench.age)
				r.lease.(*share).state.Postpone = bench.postpone
				b.StartTimer()
				r.retireDue()
				b.StopTimer()
				if got := len(r.shelf.ready); got != bench.left {
					b.Fatalf("%d are left, want %d", got, bench.left)
				}
				r.work.Wait()
				b.StartTimer()
			}
		})
	}
}

// aged is a Reservoir, not running, of n ready backends of that age.
func aged(b *testing.B, n int, age time.Duration) *Reservoir {
	b.Helper()
	cfg := sharing(n, newShare(n))
	cfg.RateLimit, cfg.BurstLimit = 10*n, 10*n
	r, err := New(cfg, new(server).dial, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	permits := &share{slots: n}
	for range n {
		c := NewConn(gone{})
		if c.permit, err = permits.Admit(b.Context(), 1); err != nil {
			b.Fatal(err)
		}
		r.shelveNewLocked(c, 0)
	}
	r.born = r.born.Add(-age)
	return r
}
