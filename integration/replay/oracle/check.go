package oracle

import (
	"maps"
	"slices"
	"strings"
)

// gather indexes the transactions of the history and their writes.
func (c *checker) gather() {
	for i, each := range c.history.Txns {
		t := &txn{Txn: each, number: i, applied: each.Outcome == Committed, undone: each.undone()}
		c.txns = append(c.txns, t)
		for i, op := range each.Ops {
			switch op.Kind {
			case Append, Missed:
				p := place{op.Key, op.Write}
				if c.writes[p] != nil {
					panic("two writes have one name")
				}
				c.writes[p] = &write{by: t, missed: op.Kind == Missed || t.undone[i]}
				if op.Kind == Append && !t.undone[i] {
					t.writes = append(t.writes, p)
				}
			case Mark:
				if !t.undone[i] {
					t.marks = append(t.marks, op.Write)
				}
			}
		}
	}
}

// final records where in the final lists each write is.
func (c *checker) final() {
	for _, key := range slices.Sorted(maps.Keys(c.history.Lists)) {
		for at, id := range c.history.Lists[key] {
			w := c.writes[place{key, id}]
			if w == nil {
				c.violate(Alien, nil, "%d in the list of %d", id, key)
				continue
			}
			w.at = append(w.at, at)
			switch {
			case len(w.at) == 2:
				c.violate(Twice, []*txn{w.by}, "%d in the list of %d, at %v", id, key, w.at)
			case w.missed, w.by.Outcome == Aborted:
				c.violate(Undead, []*txn{w.by}, "%d in the list of %d, at %d", id, key, at)
			}
		}
	}
}

// settle decides whether transactions of unknown outcome were applied, and checks that each transaction is applied as a
// whole.
func (c *checker) settle() {
	for _, t := range c.txns {
		there, last := 0, make(map[int]int)
		for _, p := range t.writes {
			w := c.writes[p]
			if len(w.at) == 0 {
				continue
			}
			there++
			if before, ok := last[p.key]; ok && w.at[0] != before+1 {
				c.violate(LostUpdate, []*txn{t}, "its writes of %d stand at %d and %d: another's are between them", p.key, before, w.at[0])
			}
			last[p.key] = w.at[0]
		}
		for _, id := range t.marks {
			if _, ok := c.history.Marks[id]; ok {
				there++
			}
		}
		total := len(t.writes) + len(t.marks)
		switch {
		case t.Outcome == Committed && there < total:
			c.violate(Lost, []*txn{t}, "%d of %d writes of T%d are there", there, total, t.ID)
		case t.Outcome == Unknown && there > 0 && there < total:
			c.violate(Partial, []*txn{t}, "%d of %d writes of T%d are there", there, total, t.ID)
		case t.Outcome == Unknown:
			t.applied = there > 0
		}
	}
}

// marks checks values that the server made, such as generated keys, against the values that clients got.
func (c *checker) marks() {
	by, undone := make(map[int]*txn), make(map[int]bool)
	drawn := make(map[string]*txn)
	for _, t := range c.txns {
		var now string
		for _, op := range t.Ops {
			switch {
			case op.Kind == Drawn:
				if other := drawn[op.Value]; other != nil {
					c.violate(NotUnique, []*txn{other, t}, "number %s", op.Value)
				}
				drawn[op.Value] = t
			case op.Kind == Now && t.applied:
				if now != "" && now != op.Value {
					c.violate(Untrue, []*txn{t}, "now() is %s and %s", now, op.Value)
				}
				now = op.Value
			}
		}
		for i, op := range t.Ops {
			if op.Kind != Mark {
				continue
			}
			by[op.Write], undone[op.Write] = t, t.undone[i]
			if t.applied {
				c.mark(t, op, t.undone[i], now)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.history.Marks)) {
		switch t := by[id]; {
		case t == nil:
			c.violate(Alien, nil, "row %d", id)
		case t.Outcome == Aborted, undone[id]:
			c.violate(Undead, []*txn{t}, "row %d", id)
		}
	}
}

// mark checks a row against the values that its transaction got. now is the time that the transaction got from now().
func (c *checker) mark(t *txn, op Op, undone bool, now string) {
	got, ok := c.history.Marks[op.Write]
	if ok && op.Value != "" && op.Value != got && !strings.HasPrefix(got, op.Value+" ") {
		c.violate(Untrue, []*txn{t}, "row %d holds %s, told was %s", op.Write, got, op.Value)
	}
	if stored := c.history.Times[op.Write]; !undone && now != "" && stored != "" && stored != now {
		c.violate(Untrue, []*txn{t}, "row %d was made at %s, now() is %s", op.Write, stored, now)
	}
}

// reads checks the reads of a transaction against the final lists, and adds the edges that follow from them.
func (c *checker) reads(t *txn) {
	own := make(map[int][]int)
	first := make(map[int]int) // where its writes of a key begin
	for _, p := range t.writes {
		at := c.writes[p].at
		if _, ok := first[p.key]; ok || !t.applied || len(at) == 0 {
			continue
		}
		first[p.key] = at[0]
		c.wrote(t, p.key, at[0])
		end := at[0] + 1
		for c.by(p.key, end) == t {
			end++
		}
		c.overwritten(t, p.key, end, true)
	}
	wrote := false
	saved := make(map[int]map[int][]int)
	for i, op := range t.Ops {
		switch op.Kind {
		case Save:
			saved[op.Write] = maps.Clone(own)
		case Back:
			own = maps.Clone(saved[op.Write])
		case Append:
			own[op.Key] = append(own[op.Key], op.Write)
			wrote = true
		case Missed, Mark:
			wrote = true
		case Read, Lock:
			// Reads after the first write of a transaction that did not commit prove nothing. The stand-in may have rolled the
			// transaction back by then, into a new snapshot without its writes.
			if !t.applied && wrote {
				continue
			}
			if t.undone[i] {
				op.Kind = Read // its lock is undone
			}
			c.read(t, op, own[op.Key], first)
		}
	}
}

func (c *checker) read(t *txn, op Op, own []int, first map[int]int) {
	list := c.history.Lists[op.Key]
	at := len(op.Seen) - len(own)
	if at < 0 || !slices.Equal(op.Seen[at:], own) {
		c.violate(Phantom, []*txn{t}, "%v, and its own writes are %v", op, own)
		return
	}
	if at > len(list) || !slices.Equal(op.Seen[:at], list[:at]) {
		for _, id := range op.Seen[:at] {
			if w := c.writes[place{op.Key, id}]; w == nil || w.missed || !w.by.applied {
				c.violate(Phantom, []*txn{t, byOf(w)}, "%v, and %d was never committed", op, id)
				return
			}
		}
		c.violate(Phantom, []*txn{t}, "%v, and the list never was so: %v", op, list)
		return
	}
	if begins, ok := first[op.Key]; ok && begins != at {
		c.violate(LostUpdate, []*txn{t, c.by(op.Key, min(at, begins))}, "%v, and what it wrote stands at %d", op, begins)
		return
	}
	if at > 0 {
		before := c.by(op.Key, at-1)
		if at < len(list) && before != nil && before != t && c.by(op.Key, at) == before {
			c.violate(Torn, []*txn{t, before}, "%v, and T%d wrote more there", op, before.ID)
			return
		}
		if before != nil && before != t {
			c.edge(commit(before), start(t), "T%d read %d with what T%d committed", t.ID, op.Key, before.ID)
		}
	}
	if _, wrote := first[op.Key]; !wrote {
		c.overwritten(t, op.Key, at, op.Kind == Lock && t.applied)
	}
}

func byOf(w *write) *txn {
	if w == nil {
		return nil
	}
	return w.by
}

// by returns the transaction that wrote an element of a final list.
func (c *checker) by(key, at int) *txn {
	list := c.history.Lists[key]
	if at >= len(list) {
		return nil
	}
	return byOf(c.writes[place{key, list[at]}])
}

// wrote adds the edge that follows when t wrote a key after the element before at.
func (c *checker) wrote(t *txn, key, at int) {
	if at == 0 {
		return
	}
	if before := c.by(key, at-1); before != nil && before != t {
		c.edge(commit(before), start(t), "T%d wrote %d on top of what T%d committed", t.ID, key, before.ID)
	}
}

// overwritten adds the edge that follows when another transaction wrote at index at, where the list ended in t's
// snapshot. held reports that t wrote or locked the key, so that t must commit before the other transaction.
func (c *checker) overwritten(t *txn, key, at int, held bool) {
	next := c.by(key, at)
	switch {
	case next == nil || next == t:
	case held:
		c.edge(commit(t), start(next), "T%d wrote %d after T%d, which wrote or locked it", next.ID, key, t.ID)
	default:
		c.edge(start(t), commit(next), "T%d read %d without what T%d committed", t.ID, key, next.ID)
	}
}
