package proxy

import (
	"errors"
	"log/slog"
	"runtime"
	"testing"

	"github.com/sluice-proxy/sluice/metrics"
)

// Whoever waits for a reading whose session was stopped makes the next one at once, as if
// none had been tried.
func TestReaderThatWasStopped(t *testing.T) {
	k := &keeper{}
	first, mine := k.fit(metrics.LoadError)
	if other, both := k.fit(metrics.LoadError); !mine || both || other != first || first.left() {
		t.Fatal("two read at once")
	}
	first.err = errReaderLeft
	k.fitted(first, metrics.LoadError)
	if !first.left() || k.failure() != nil {
		t.Errorf("left %v, failure %v", first.left(), k.failure())
	}
	second, mine := k.fit(metrics.LoadError)
	if !mine {
		t.Fatal("nobody reads in its place")
	}
	second.err = errors.New("refused")
	k.fitted(second, metrics.LoadError)
	if third, _ := k.fit(metrics.LoadError); second.left() || k.failure() != second.err || third != nil {
		t.Errorf("left %v, failure %v, and another reading %v", second.left(), k.failure(), third != nil)
	}
}

// Who finds that no server is asked any more finds the end of the reading, too: a session in a block
// would be refused else, in the moment in which the answer that has come is made a snapshot.
func TestNobodyAsksBehindTheEnd(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{nil, errors.New("the backend is lost")} {
		srv := &Server{catalog: newCatalog(10, 1<<20), metrics: metrics.New(metrics.Options{Version: "test"}).Proxy, log: slog.New(slog.DiscardHandler)}
		srv.keeper.watch = true
		for range 2000 {
			r := &schemaRead{done: make(chan struct{})}
			asks, answer := make(chan struct{}), make(chan struct{})
			go srv.finishRead(r, metrics.LoadStart, func() (reading, error) {
				return srv.schemaBy(func(string, func([]byte)) ([]byte, error) {
					close(asks)
					<-answer
					return nil, failure
				})
			})
			<-asks
			if srv.keeper.asked.Load() != 1 {
				t.Fatal("nobody counts as asked")
			}
			close(answer)
			for srv.keeper.asked.Load() != 0 {
				runtime.Gosched()
			}
			if failure == nil {
				select {
				case <-r.done:
				default:
					t.Fatal("nobody is asked, and the reading has not ended")
				}
			}
			<-r.done
		}
	}
}
