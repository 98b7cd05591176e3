package mapping

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
)

// A snapshot is read first, after a change of the schema, and after an error about names; and for a backend that may
// know a newer schema, at once after an error too.
func TestCauses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p, k := newProcess(t, Use{Maps: true}, one().query)
		want := func(when, cause, behind, ahead string) {
			t.Helper()
			if got := k.Cause(p.Epoch()); got != cause {
				t.Errorf("%s: %q, want %q", when, got, cause)
			}
			if k.Snapshot() == nil {
				return
			}
			at := k.Snapshot().readAt
			if got := k.CauseOnBackend(p.Epoch(), at.Add(-1)); got != behind {
				t.Errorf("%s, on an older backend: %q, want %q", when, got, behind)
			}
			for _, after := range []time.Duration{0, 1} {
				if got := k.CauseOnBackend(p.Epoch(), at.Add(after)); got != ahead {
					t.Errorf("%s, on a newer backend: %q, want %q", when, got, ahead)
				}
			}
		}
		want("at the start", metrics.LoadStart, "", "")
		if got := k.CauseOnBackend(p.Epoch(), time.Now()); got != metrics.LoadStart {
			t.Errorf("at the start, on a backend: %q", got)
		}
		mustLoad(t, k, metrics.LoadStart)
		want("behind a reading", "", "", metrics.LoadBackend)
		k.RecordNameError()
		want("behind an error of names", metrics.LoadError, metrics.LoadError, metrics.LoadBackend)
		p.BeginEpoch()
		want("behind a change", metrics.LoadChange, metrics.LoadChange, metrics.LoadChange)
		mustLoad(t, k, metrics.LoadChange)
		want("behind a second reading", "", "", metrics.LoadBackend)
		if want := []string{metrics.LoadStart, metrics.LoadChange}; !slices.Equal(p.loads, want) || len(p.warned) != 0 {
			t.Errorf("counted %q, warned %q", p.loads, p.warned)
		}
	})
}

// A change during a reading makes the snapshot old from its start.
func TestChangeDuringAReading(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p, k := newProcess(t, Use{Maps: true}, nil)
		d := one()
		p.database = func(sql string, row func([]string)) error {
			p.BeginEpoch()
			return d.query(sql, row)
		}
		mustLoad(t, k, metrics.LoadStart)
		if got := k.Snapshot().Epoch(); got != 7 || k.Cause(p.Epoch()) != metrics.LoadChange {
			t.Errorf("epoch %d, cause %q", got, k.Cause(p.Epoch()))
		}
	})
}

// An equal schema stays the same object. A change that the process had not noticed begins an epoch, in which the
// snapshot is current; a noticed one begins none.
func TestReplacedSnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := one()
		p, k := newProcess(t, Use{Maps: true}, d.query)
		mustLoad(t, k, metrics.LoadStart)
		first := k.Snapshot()
		if first.Epoch() != 7 || first.Relation("s", "t") == nil || first.Relation("pg_catalog", "pg_class") == nil {
			t.Fatalf("epoch %d", first.Epoch())
		}
		p.BeginEpoch()
		mustLoad(t, k, metrics.LoadChange)
		second := k.Snapshot()
		if second == first || second.Schema != first.Schema || second.Epoch() != 8 || p.epoch != 8 {
			t.Errorf("an equal schema: epoch %d of %d, same object %v", second.Epoch(), p.epoch, second.Schema == first.Schema)
		}
		d.columns = append(d.columns, "s|u|a|1||")
		mustLoad(t, k, metrics.LoadMissing)
		third := k.Snapshot()
		if third.Schema == first.Schema || third.Epoch() != 9 || p.epoch != 9 || k.Cause(p.epoch) != "" {
			t.Errorf("an unnoticed change: epoch %d of %d, cause %q", third.Epoch(), p.epoch, k.Cause(p.epoch))
		}
		p.BeginEpoch()
		d.columns = d.columns[:2]
		mustLoad(t, k, metrics.LoadChange)
		if got := k.Snapshot(); got.Epoch() != 10 || p.epoch != 10 || got.Relation("s", "u") != nil {
			t.Errorf("a noticed change: epoch %d of %d", got.Epoch(), p.epoch)
		}
	})
}

// A reading that began before another, and ends after it, leaves the newer snapshot in place.
func TestReadingsOutOfOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		slow, fast := one(), one()
		slow.took = 10 * time.Millisecond
		fast.columns = append(fast.columns, "s|u|a|1||")
		p, k := newProcess(t, Use{Maps: true}, slow.query)
		mustLoad(t, k, metrics.LoadStart)
		p.BeginEpoch()
		l, _ := k.Start(metrics.LoadChange)
		time.Sleep(time.Millisecond)
		if mine, err := k.LoadOn(metrics.LoadChange, fast.query, nil); !mine || err != nil {
			t.Fatal(mine, err)
		}
		newer := k.Snapshot()
		<-l.Done()
		if l.Err() != nil || k.Snapshot() != newer || newer.Relation("s", "u") == nil || newer.Epoch() != 8 || k.Cause(p.epoch) != "" {
			t.Errorf("%v, the older reading is in place: %v", l.Err(), k.Snapshot() != newer)
		}
		if len(slow.sent) != 7 { // five of the first reading
			t.Errorf("sent %q", slow.sent)
		}
	})
}

// A failed reading leaves the older snapshot in place, and says so in the log.
func TestFailedReading(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := one()
		p, k := newProcess(t, Use{Maps: true}, d.query)
		mustLoad(t, k, metrics.LoadStart)
		was := k.Snapshot()
		p.database = nil
		k.RecordNameError()
		if err := load(t, k, metrics.LoadError); err == nil || k.Snapshot() != was || k.LastError() != err || k.MissingError() != nil {
			t.Errorf("%v, last %v, missing %v", err, k.LastError(), k.MissingError())
		}
		if k.Cause(p.epoch) != "" || !slices.Equal(p.warned, []string{notReadMessage}) {
			t.Errorf("cause %q, warned %q", k.Cause(p.epoch), p.warned)
		}
	})
}

// A process that refuses mapped tables reads these only, and names the first of them once for each schema.
func TestUnmappedTables(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := one()
		p, k := newProcess(t, Use{Refuses: true}, d.query)
		if tables, first := k.UnmappedTables(); tables != 0 || first != "" || k.Maps() || !k.Refuses() {
			t.Error(tables, first)
		}
		d.columns = append([]string{"s|u|k__byteahex|2|checked|"}, d.columns...)
		for range 2 {
			mustLoad(t, k, metrics.LoadStart)
		}
		if tables, first := k.UnmappedTables(); tables != 2 || first != "s.t" || len(p.warned) != 1 || !slices.Equal(d.sent, []string{"mapped", "mapped"}) {
			t.Errorf("%d, %q, warned %q, sent %q", tables, first, p.warned, d.sent)
		}
		d.columns = nil
		mustLoad(t, k, metrics.LoadStart)
		if tables, first := k.UnmappedTables(); tables != 0 || first != "" || len(p.warned) != 1 {
			t.Errorf("%d, %q, warned %q", tables, first, p.warned)
		}
		mapper, maps := newProcess(t, Use{Maps: true}, one().query)
		mustLoad(t, maps, metrics.LoadStart)
		if tables, _ := maps.UnmappedTables(); tables != 0 || len(mapper.warned) != 0 {
			t.Errorf("one that maps: %d, warned %q", tables, mapper.warned)
		}
	})
}

// The snapshot of a transaction with DDL has that of other sessions as its Outside, and is the same schema if equal.
func TestReadInBlock(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := one()
		_, k := newProcess(t, Use{Maps: true}, d.query)
		mustLoad(t, k, metrics.LoadStart)
		outside := k.Snapshot()
		same, err := k.ReadInBlock(d.query, 99)
		if err != nil || same.Schema != outside.Schema || same.Epoch() != 99 || same.readAt != outside.readAt || same.base != outside.base {
			t.Errorf("%v, %+v", err, same)
		}
		d.columns = append(d.columns, "s|u|a|1||")
		own, err := k.ReadInBlock(d.query, 100)
		if err != nil || own.Outside != outside.Schema || own.Relation("s", "u") == nil || k.Snapshot() != outside {
			t.Errorf("%v, %+v", err, own)
		}
		refused := &RefusedError{"42501", "no"}
		d.faults = map[string][]error{"columns": {refused, errLost}}
		for _, want := range []error{refused, errLost} {
			if got, err := k.ReadInBlock(d.query, 101); got != nil || err != want {
				t.Errorf("%v, want %v", err, want)
			}
		}
		if k.IsQuerying() || k.LastError() != nil {
			t.Error("a reading in a block counts for other sessions")
		}
		synctest.Wait()
	})
}
