package proxy

import (
	"errors"
	"log/slog"
	"runtime"
	"testing"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/statement"
)

// Whoever waits for a reading whose session was stopped makes the next one at once, as if
// none had been tried.
func TestReaderThatWasStopped(t *testing.T) {
	k := &schemaCache{}
	first, mine := k.beginOwnLoad(metrics.LoadError)
	if other, both := k.beginOwnLoad(metrics.LoadError); !mine || both || other != first || first.wasAbandoned() {
		t.Fatal("two read at once")
	}
	first.err = errReaderLeft
	k.endOwnLoad(first, metrics.LoadError)
	if !first.wasAbandoned() || k.lastLoadError() != nil {
		t.Errorf("left %v, failure %v", first.wasAbandoned(), k.lastLoadError())
	}
	second, mine := k.beginOwnLoad(metrics.LoadError)
	if !mine {
		t.Fatal("nobody reads in its place")
	}
	second.err = errors.New("refused")
	k.endOwnLoad(second, metrics.LoadError)
	if third, _ := k.beginOwnLoad(metrics.LoadError); second.wasAbandoned() || k.lastLoadError() != second.err || third != nil {
		t.Errorf("left %v, failure %v, and another reading %v", second.wasAbandoned(), k.lastLoadError(), third != nil)
	}
}

// Who finds that no server is asked any more finds the end of the reading, too: a session in a block
// would be refused else, in the moment in which the answer that has come is made a snapshot.
func TestNobodyAsksBehindTheEnd(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{nil, errors.New("the backend is lost")} {
		srv := &Server{templates: statement.NewCache(10, 1<<20, statement.NewBudget(0), nil), metrics: metrics.New(metrics.Options{Version: "test"}).Proxy, log: slog.New(slog.DiscardHandler)}
		srv.keeper.refusesMapped = true
		for range 2000 {
			r := &pendingSchemaLoad{done: make(chan struct{})}
			asks, answer := make(chan struct{}), make(chan struct{})
			go srv.finishSchemaLoad(r, metrics.LoadStart, func() (schemaLoad, error) {
				return srv.loadSchemaWith(func(string, func([]byte)) ([]byte, error) {
					close(asks)
					<-answer
					return nil, failure
				})
			})
			<-asks
			if srv.keeper.pendingLoads.Load() != 1 {
				t.Fatal("nobody counts as asked")
			}
			close(answer)
			for srv.keeper.pendingLoads.Load() != 0 {
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
