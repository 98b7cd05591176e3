package lease

import (
	"log/slog"
	"slices"
	"time"
)

// predecessorPause is the time between getting the lock of the lease file and the first removal of an ended process's
// record. The kernel closes the ended process's descriptors one by one, so its lock may end before its last socket.
const predecessorPause = time.Second

// setPredecessors records graves, the places where records of ended processes may be. It is called before the first
// call of the Store.
func (l *slotLedger) setPredecessors(graves []recordPlace, now time.Duration) {
	l.predecessorPlaces, l.predecessorsAt = graves, now+predecessorPause
}

// removePredecessors returns calls that remove the records of ended processes and free their slots.
// removePredecessors never takes over a record, because a late request of the ended process may still change it. If
// an even later request creates the record again, other processes take its slots after ReapAfter.
func (l *slotLedger) removePredecessors(now time.Duration) (*storeCall, time.Duration) {
	if len(l.predecessorPlaces) == 0 || l.leaving {
		return nil, never
	}
	if now < l.predecessorsAt {
		return nil, l.predecessorsAt
	}
	for len(l.predecessorPlaces) > 0 {
		g := l.predecessorPlaces[0]
		if g.shard < l.settings.Shards {
			s := l.sight[g.shard]
			if !s.isFresh(now) {
				return &storeCall{kind: callLook, look: g.shard}, now
			}
			if p := s.peers[g.owner]; p != nil {
				return &storeCall{kind: callChange, predecessor: true, change: ShardChange{Shard: g.shard, Owner: g.owner, Old: p.text, Take: -p.rec.Slots}}, now
			}
		}
		l.predecessorPlaces = slices.Delete(l.predecessorPlaces, 0, 1) // gone, or in another table
	}
	return nil, never
}

// recordPlaces returns the places where records of this process and of ended processes may be.
func (l *slotLedger) recordPlaces() []recordPlace {
	places := slices.Clone(l.predecessorPlaces)
	for _, p := range l.parts {
		places = append(places, recordPlace{p.shard, p.owner})
	}
	return places
}

// UseLockFile sets the lock file that proves this process's end to the next process. It is called before Run.
func (l *Lease) UseLockFile(f *LockFile) { l.file = f }

// acquireLockFile locks the lease file until this process ends, and reads the places of ended processes' records.
func (l *Lease) acquireLockFile() {
	if l.file == nil || !l.cfg.Slots {
		return
	}
	graves, err := l.file.lock()
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
	l.core.ledger.setPredecessors(graves, l.clock())
	l.placesWritten = true
	l.mu.Unlock()
}

// writeRemainingPlaces writes, at the end of Run, the places of records that could not be removed. Mostly there is no
// such record.
func (l *Lease) writeRemainingPlaces() {
	if !l.file.isLocked() {
		return
	}
	l.mu.Lock()
	places := l.core.ledger.recordPlaces()
	l.mu.Unlock()
	_ = l.file.writePlaces(places) // on failure the file keeps its earlier content, which is harmless
}

// writeNewPlace writes the place of a new record to the lease file before the record is created.
func (l *Lease) writeNewPlace(c *storeCall) {
	if !l.file.isLocked() || c.kind != callChange || c.part == nil || c.change.Old != "" {
		return
	}
	l.mu.Lock()
	places := l.core.ledger.recordPlaces()
	before := l.placesWritten
	l.mu.Unlock()
	err := l.file.writePlaces(places)
	l.mu.Lock()
	l.placesWritten = err == nil
	l.mu.Unlock()
	if err != nil && before {
		l.log.Error("distributed.conn_lease_file: should this process be killed, some of its slots stay blocked for distributed.reap_after",
			"file", l.file.path, "error", err)
	}
}
