package lease

import (
	"math/rand/v2"
	"testing"
	"time"
)

// watcher is a ledger that holds slots of the only shard and sees others come.
func watcher(t *testing.T, held, limit int) (l *slotLedger, see func(now time.Duration, records map[string]Record)) {
	t.Helper()
	cfg := worldConfig()
	cfg.Limit, cfg.Shards = limit, 1
	l = newSlotLedger(cfg, "me", rand.New(rand.NewPCG(1, 1)))
	l.beginWithSettings(cfg.tableSettings(), 0)
	mine := Record{Seq: 1, Slots: held, Total: held, ReapAfter: cfg.ReapAfter, Home: true, Lasting: true}
	p := &ownRecord{owner: "me.1", text: mine.String(), rec: mine}
	l.parts, l.used = []*ownRecord{p}, held
	return l, func(now time.Duration, records map[string]Record) {
		image := Shard{Limit: limit, Free: limit - held, Owners: map[string]string{"me.1": p.text}}
		for owner, r := range records {
			r.ReapAfter = cfg.ReapAfter
			image.Owners[owner] = r.String()
			image.Free -= r.Slots
		}
		p.renewed = now
		l.handleAnswer(&storeCall{kind: callLook}, storeAnswer{shard: image}, now)
		l.decideReturn(p, now)
	}
}

// Who is silent for two heartbeats waits for nothing and shares nothing, from then
// on; its slots stay its own.
func TestSilentRecordsShareNothing(t *testing.T) {
	t.Parallel()
	l, see := watcher(t, 50, 60)
	beat := l.cfg.Heartbeat
	waits := map[string]Record{"other.1": {Seq: 5, Home: true, Waiting: true, Lasting: true}, "other.2": {Seq: 6, Slots: 10, Total: 10, Home: true}}
	see(0, waits)
	if fair, due := l.fairShare(0), l.lastingShare(0); fair != 20 || due != 30 || l.giving != 20 {
		t.Errorf("among the living: fair %d, due %d, giving %d; want 20, 30 and 20", fair, due, l.giving)
	}
	if n := l.takeableSlots(l.sight[0], 5, 20, 0); n != 0 {
		t.Errorf("%d slots may be taken that somebody waits for", n)
	}
	see(2*beat, waits)
	if l.giving == 0 {
		t.Error("a record that may be late counts as dead")
	}
	see(2*beat+1, waits)
	if fair := l.fairShare(2*beat + 1); fair != 60 || l.giving != 0 {
		t.Errorf("among the dead: fair %d, giving %d; want 60 and 0", fair, l.giving)
	}
	if s := l.sight[0]; s.free != 0 || s.reapAt < l.cfg.ReapAfter {
		t.Errorf("what the dead hold is free, or reaped too early: %+v", s)
	}
	waits["other.1"] = Record{Seq: 7, Home: true, Waiting: true, Lasting: true}
	see(3*beat, waits)
	if l.giving == 0 {
		t.Error("a record that changes again counts as dead")
	}
}

// While this process itself got no answer, nobody's silence counts.
func TestSilenceOfTheTableIsNobodysDeath(t *testing.T) {
	t.Parallel()
	l, see := watcher(t, 50, 60)
	waits := map[string]Record{"other.1": {Seq: 5, Home: true, Waiting: true, Lasting: true}}
	see(0, waits)
	back := 8 * l.cfg.Heartbeat
	see(back, waits)
	if fair := l.fairShare(back); fair != 30 || l.giving == 0 {
		t.Errorf("after an outage: fair %d, giving %d", fair, l.giving)
	}
	for _, at := range []time.Duration{back + l.cfg.Heartbeat, back + 2*l.cfg.Heartbeat + 1} {
		see(at, waits)
	}
	if l.giving != 0 {
		t.Error("a record that is silent after the outage still waits")
	}
}

// A newcomer is owed one block, whatever the fair share, and counts as one among
// whom that is shared.
func TestNewcomersAreOwedABlock(t *testing.T) {
	t.Parallel()
	l, see := watcher(t, 60, 60+block)
	see(0, map[string]Record{"other.1": {Seq: 1, Home: true, Waiting: true}, "other.2": {Seq: 1, Slots: block}})
	if l.giving != block {
		t.Errorf("%d are given, want %d", l.giving, block)
	}
	see(1, map[string]Record{"other.1": {Seq: 1, Slots: block, Total: block, Home: true, Waiting: true}})
	if l.giving != 0 {
		t.Errorf("%d more are given", l.giving)
	}
}

// A version before does not say that it lasts. It is seen to.
func TestOlderVersionsLast(t *testing.T) {
	t.Parallel()
	l, see := watcher(t, 60, 60)
	for i, at := range []time.Duration{0, l.cfg.Heartbeat / 2, l.cfg.Heartbeat} {
		see(at, map[string]Record{"other.1": {Seq: uint64(i), Home: true, Waiting: true}})
		want := block
		if at == l.cfg.Heartbeat {
			want = 30
		}
		if l.giving != want {
			t.Errorf("after %v %d are given, want %d", at, l.giving, want)
		}
		l.giving, l.giveAt = 0, 0
	}
}

// A look that happens on free slots ends the pause between two hunts.
func TestLookThatFindsSlotsIsUsed(t *testing.T) {
	t.Parallel()
	l, see := watcher(t, 10, 60)
	l.demand, l.used, l.hunt.again = 5, 10, time.Hour
	now := 2 * settleTime
	see(now, nil)
	if c, _ := l.acquireMissing(now); c == nil || c.change.Take != 5 {
		t.Errorf("nothing is taken: %+v", c)
	}
}
