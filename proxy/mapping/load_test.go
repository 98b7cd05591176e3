package mapping

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// Whoever waits for a reading whose session was stopped makes the next one at once, as if
// none had been tried.
func TestReaderThatWasStopped(t *testing.T) {
	k := &Keeper{}
	first, mine := k.beginOwn(metrics.LoadError)
	if other, both := k.beginOwn(metrics.LoadError); !mine || both || other != first || first.wasAbandoned() {
		t.Fatal("two read at once")
	}
	first.err = errReaderLeft
	k.endOwn(first, metrics.LoadError)
	if !first.wasAbandoned() || k.LastError() != nil {
		t.Errorf("left %v, failure %v", first.wasAbandoned(), k.LastError())
	}
	second, mine := k.beginOwn(metrics.LoadError)
	if !mine {
		t.Fatal("nobody reads in its place")
	}
	second.err = errors.New("refused")
	k.endOwn(second, metrics.LoadError)
	if third, _ := k.beginOwn(metrics.LoadError); second.wasAbandoned() || k.LastError() != second.err || third != nil {
		t.Errorf("left %v, failure %v, and another reading %v", second.wasAbandoned(), k.LastError(), third != nil)
	}
}

// Who finds that no server is asked any more finds the end of the reading, too: a session in a block
// would be refused else, in the moment in which the answer that has come is made a snapshot.
func TestNobodyAsksBehindTheEnd(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{nil, errors.New("the backend is lost")} {
		p, k := newProcess(t, Use{Refuses: true}, nil)
		for range 2000 {
			asks, answer := make(chan struct{}), make(chan struct{})
			p.database = func(string, func([]string)) error {
				close(asks)
				<-answer
				return failure
			}
			l, mine := k.Start(metrics.LoadStart)
			if !mine {
				t.Fatal("no reading begins")
			}
			<-asks
			if !k.IsQuerying() {
				t.Fatal("nobody counts as asked")
			}
			close(answer)
			for k.IsQuerying() {
				runtime.Gosched()
			}
			if failure == nil {
				select {
				case <-l.Done():
				default:
					t.Fatal("nobody is asked, and the reading has not ended")
				}
			}
			<-l.Done()
		}
	}
}

// Sessions that ask for a reading on a borrowed backend at once get the same one.
func TestOneReadingForAll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := one()
		d.took = time.Millisecond
		p, k := newProcess(t, Use{Maps: true}, d.query)
		first, mine := k.Start(metrics.LoadStart)
		for _, cause := range []string{metrics.LoadStart, metrics.LoadMissing, metrics.LoadError} {
			if other, both := k.Start(cause); !mine || both || other != first {
				t.Errorf("%s: a second reading", cause)
			}
		}
		if err := k.MissingError(); !IsNotRead(err) || err.(*wire.Error).Detail != ErrLate.Error() {
			t.Errorf("while the first reading runs: %v", err)
		}
		<-first.Done()
		if first.Err() != nil || p.borrowed != 1 || k.MissingError() != nil {
			t.Errorf("%v, %d backends", first.Err(), p.borrowed)
		}
	})
}

// A reading for a missing relation begins 250 ms after the last one ended, and at once if the process ends.
func TestMissingRelationsRest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p, k := newProcess(t, Use{Maps: true}, one().query)
		mustLoad(t, k, metrics.LoadStart)
		began := time.Now()
		time.Sleep(50 * time.Millisecond)
		mustLoad(t, k, metrics.LoadMissing)
		if took := time.Since(began); took != missingRest {
			t.Errorf("the second reading ended after %v", took)
		}
		began = time.Now()
		time.Sleep(time.Second)
		mustLoad(t, k, metrics.LoadMissing)
		if took := time.Since(began); took != time.Second {
			t.Errorf("the third reading ended after %v", took)
		}
		ended, stopped := newProcess(t, Use{Maps: true}, one().query)
		mustLoad(t, stopped, metrics.LoadStart)
		began = time.Now()
		l, _ := stopped.Start(metrics.LoadMissing)
		synctest.Wait()
		if ended.borrowed != 1 || p.borrowed != 3 {
			t.Errorf("%d backends before the rest is over", ended.borrowed)
		}
		ended.stop()
		<-l.Done()
		if took := time.Since(began); took != 0 {
			t.Errorf("a reading rests for %v at the end of the process", took)
		}
	})
}

// After a refusal by the server the schema is not asked for in the next second, at the start and after changes. A lost
// backend is no such reason.
func TestRestAfterARefusal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := one()
		_, k := newProcess(t, Use{Maps: true}, d.query)
		for _, fault := range []error{&RefusedError{"42501", "permission denied"}, errLost} {
			d.faults = map[string][]error{"columns": {fault}}
			if err := load(t, k, metrics.LoadStart); err != fault {
				t.Fatal(err)
			}
			refused := fault != errLost
			if err := k.MissingError(); isRefused(err) != refused || !IsNotRead(err) {
				t.Errorf("%v: %v", fault, err)
			}
			time.Sleep(schemaRest - 1)
			for cause, rests := range map[string]bool{metrics.LoadStart: refused, metrics.LoadChange: refused, metrics.LoadMissing: false, metrics.LoadBackend: false} {
				if l, mine := k.Start(cause); mine == rests || rests && l != nil {
					t.Errorf("%v, %s: begins %v", fault, cause, mine)
				} else if mine {
					<-l.Done()
					if l.Err() != nil {
						t.Fatal(l.Err())
					}
				}
				// The next cause finds what the fault has left.
				k.current.Store(nil)
				k.loadError, k.loadEndedAt = fault, time.Now().Add(1-schemaRest)
			}
			if l, mine := k.beginOwn(metrics.LoadStart); mine == refused || refused && l != nil {
				t.Errorf("%v: a session reads by its own backend: %v", fault, mine)
			}
			k.ownLoad = nil
			if l, mine := k.beginOwn(metrics.LoadChange); !mine {
				t.Errorf("%v: no session reads a change by its own backend: %v", fault, l)
			}
			k.ownLoad = nil
			time.Sleep(time.Nanosecond)
		}
		d.faults = nil
		mustLoad(t, k, metrics.LoadStart)
	})
}

// Between two readings because of unknown names 250 ms pass, on whatever backend. Other readings do not count.
func TestUnknownNamesRest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, k := newProcess(t, Use{Maps: true}, one().query)
		mustLoad(t, k, metrics.LoadStart)
		if !k.MayLoadForNames() {
			t.Error("the first reading counts as one because of names")
		}
		mustLoad(t, k, metrics.LoadError)
		time.Sleep(missingRest - 1)
		l, mine := k.Start(metrics.LoadError)
		own, err := k.LoadOn(metrics.LoadError, nil, nil)
		if k.MayLoadForNames() || l != nil || mine || own || err != nil {
			t.Errorf("begins %v, on its own backend %v (%v)", mine, own, err)
		}
		time.Sleep(time.Nanosecond)
		if !k.MayLoadForNames() {
			t.Error("no reading is possible after the rest")
		}
		mustLoad(t, k, metrics.LoadError)
	})
}

// Of several sessions that read by their own backends one does so, and the others wait. A reading on a borrowed backend
// is not waited for.
func TestOwnBackends(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		blocked := make(chan struct{})
		p, k := newProcess(t, Use{Maps: true}, func(string, func([]string)) error { <-blocked; return errLost })
		shared, _ := k.Start(metrics.LoadStart)
		d := one()
		d.took = time.Millisecond
		var all sync.WaitGroup
		read := make(chan bool, 3)
		for range 3 {
			all.Go(func() {
				mine, err := k.LoadOn(metrics.LoadStart, d.query, func(l *Load) error { <-l.Done(); return l.Err() })
				if read <- mine; err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		readers := 0
		for range 3 {
			if <-read {
				readers++
			}
		}
		if readers != 1 || len(d.sent) != 5 || k.Snapshot() == nil || !k.IsQuerying() {
			t.Errorf("%d sessions read, and sent %q", readers, d.sent)
		}
		close(blocked)
		if <-shared.Done(); shared.Err() != errLost || k.IsQuerying() || p.borrowed != 1 {
			t.Error(shared.Err())
		}
	})
}

// If the session that reads is stopped, one that waits reads in its place. An answer of the server is for all.
func TestAbandonedReading(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, k := newProcess(t, Use{Maps: true}, nil)
		refused := &RefusedError{"42501", "no"}
		wait := func(l *Load) error {
			if <-l.Done(); l.Err() != nil {
				return NotRead(l.Err())
			}
			return nil
		}
		for _, test := range []struct {
			fault    error
			takeover bool
		}{{errLost, true}, {refused, false}} {
			d := one()
			d.took, d.faults = time.Millisecond, map[string][]error{"columns": {test.fault}}
			type result struct {
				mine bool
				err  error
			}
			results := make(chan result, 1)
			go func() {
				mine, err := k.LoadOn(metrics.LoadChange, d.query, wait)
				results <- result{mine, err}
			}()
			synctest.Wait()
			mine, err := k.LoadOn(metrics.LoadChange, d.query, wait)
			first := <-results
			var lost *NoAnswerError
			if !first.mine || errors.As(first.err, &lost) != test.takeover || isRefused(first.err) == test.takeover || test.takeover && lost.Err != errLost {
				t.Errorf("%v: the first session reads: %v, %v", test.fault, first.mine, first.err)
			}
			if mine != test.takeover || isRefused(err) == test.takeover || k.IsQuerying() {
				t.Errorf("%v: the second session reads: %v, %v", test.fault, mine, err)
			}
			if last := k.LastError(); test.takeover && last != nil || !test.takeover && last != test.fault {
				t.Errorf("%v: %v is left", test.fault, last)
			}
		}
	})
}

// A session that always finds a reading of another session, which is then abandoned, gets an error at last.
func TestAlwaysAbandoned(t *testing.T) {
	t.Parallel()
	_, k := newProcess(t, Use{Maps: true}, nil)
	other, _ := k.beginOwn(metrics.LoadStart)
	waits := 0
	mine, err := k.LoadOn(metrics.LoadStart, nil, func(l *Load) error {
		waits++
		l.err = errReaderLeft
		k.endOwn(l, metrics.LoadStart)
		other, _ = k.beginOwn(metrics.LoadStart)
		return NotRead(errReaderLeft)
	})
	if mine || !IsNotRead(err) || isRefused(err) || waits != maxTries || other.wasAbandoned() {
		t.Errorf("reads %v, %v, after %d waits", mine, err, waits)
	}
	stopped := errors.New("canceled")
	if mine, err := k.LoadOn(metrics.LoadStart, nil, func(*Load) error { return stopped }); mine || err != stopped {
		t.Errorf("a wait that is stopped: %v, %v", mine, err)
	}
}
