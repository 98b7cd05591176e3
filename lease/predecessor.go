package lease

import (
	"log/slog"
	"slices"
	"time"
)

// gravePause is the time between getting the lock of the lease file and the first removal of an ended process's record.
// The kernel closes the descriptors of an ended process one by one, so the lock may end before the last socket.
const gravePause = time.Second

// inherit sets the places where records of ended processes may be. inherit is called before the first call of the
// Store.
func (l *ledger) inherit(graves []place, now time.Duration) {
	l.graves, l.graveAt = graves, now+gravePause
}

// bury returns calls that remove the records of ended processes and free their slots. bury never takes over a record,
// because a late request of the ended process may still change it. If an even later request creates the record again,
// the record is reaped by time.
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
		l.graves = slices.Delete(l.graves, 0, 1) // gone, or in another table
	}
	return nil, never
}

// estate returns the places where records of this process and of ended processes may be.
func (l *ledger) estate() []place {
	places := slices.Clone(l.graves)
	for _, p := range l.parts {
		places = append(places, place{p.shard, p.owner})
	}
	return places
}

// Hold sets the lock file that proves the end of this process to the next one. Hold is called before Run.
func (l *Lease) Hold(f *File) { l.file = f }

// takeFile locks the lease file until this process ends, and reads the places of ended processes' records.
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

// bequeath writes, at the end of Run, the places of records that could not be removed. Mostly there are none.
func (l *Lease) bequeath() {
	if !l.file.held() {
		return
	}
	l.mu.Lock()
	places := l.core.ledger.estate()
	l.mu.Unlock()
	_ = l.file.write(places) // on failure the file keeps its earlier content, which is harmless
}

// testify writes the place of a new record to the lease file before the record is created.
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
