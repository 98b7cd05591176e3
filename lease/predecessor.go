package lease

import (
	"log/slog"
	"slices"
	"time"
)

// gravePause is how long after the lock was had nothing of a predecessor is removed.
// The kernel ends a process's descriptors one after the other: the lock's may be the
// first and a socket's the last.
const gravePause = time.Second

// inherit is told, before the first call, where processes that are gone may have left
// records.
func (l *ledger) inherit(graves []place, now time.Duration) {
	l.graves, l.graveAt = graves, now+gravePause
}

// bury leaves for predecessors: it removes exactly the record that is found and frees
// its slots, as the predecessor would have done. It never continues one: a request
// that is still on its way may write it until it is gone. One that arrives later
// still, and makes a record anew, is reaped by time.
func (l *ledger) bury(now time.Duration) (*call, time.Duration) {
	if len(l.graves) == 0 || l.leaving {
		return nil, never
	}
	if now < l.graveAt {
		return nil, l.graveAt
	}
	for len(l.graves) > 0 {
		g := l.graves[0]
		if g.shard < l.settings.Shards {
			s := l.sight[g.shard]
			if !s.fresh(now) {
				return &call{kind: callLook, look: g.shard}, now
			}
			if p := s.peers[g.owner]; p != nil {
				return &call{kind: callChange, grave: true, change: Change{Shard: g.shard, Owner: g.owner, Old: p.text, Take: -p.rec.Slots}}, now
			}
		}
		l.graves = slices.Delete(l.graves, 0, 1) // gone, or of another table
	}
	return nil, never
}

// estate is where this process may leave records: its predecessors' and its own.
func (l *ledger) estate() []place {
	places := slices.Clone(l.graves)
	for _, p := range l.parts {
		places = append(places, place{p.shard, p.owner})
	}
	return places
}

// Hold makes the lease keep a file that proves to whoever starts after this process
// that it is gone. It is called before Run.
func (l *Lease) Hold(f *File) { l.file = f }

// takeFile takes the file's lock, which ends with the process.
func (l *Lease) takeFile() {
	if l.file == nil || !l.cfg.Slots {
		return
	}
	graves, err := l.file.take()
	if err != nil {
		l.log.Error("distributed.conn_lease_file: should this process be killed, its slots stay blocked for distributed.reap_after",
			"file", l.file.path, "error", err)
		return
	}
	if len(graves) > 0 {
		l.log.Info("a predecessor of this process is gone without a word: what it held is given back",
			"file", l.file.path, slog.Int("records", len(graves)))
	}
	l.mu.Lock()
	l.core.ledger.inherit(graves, l.clock())
	l.testified = true
	l.mu.Unlock()
}

// bequeath writes down, at the end, what could not be given back: mostly nothing.
func (l *Lease) bequeath() {
	if !l.file.held() {
		return
	}
	l.mu.Lock()
	places := l.core.ledger.estate()
	l.mu.Unlock()
	_ = l.file.write(places) // what it says already is true as well, and does no harm
}

// testify writes down where records may stand, before one is made.
func (l *Lease) testify(c *call) {
	if !l.file.held() || c.kind != callChange || c.part == nil || c.change.Old != "" {
		return
	}
	l.mu.Lock()
	places := l.core.ledger.estate()
	before := l.testified
	l.mu.Unlock()
	err := l.file.write(places)
	l.mu.Lock()
	l.testified = err == nil
	l.mu.Unlock()
	if err != nil && before {
		l.log.Error("distributed.conn_lease_file: should this process be killed, some of its slots stay blocked for distributed.reap_after",
			"file", l.file.path, "error", err)
	}
}
