package oracle

import (
	"maps"
	"slices"
	"strings"
)

// indexWrites indexes the transactions of the history, and their writes by key and number.
func (c *historyChecker) indexWrites() {
	for i, each := range c.history.Txns {
		t := &checkedTxn{Txn: each, number: i, applied: each.Outcome == Committed, undone: each.undoneOps()}
		c.txns = append(c.txns, t)
		for i, op := range each.Ops {
			switch op.Kind {
			case Append, Missed:
				p := listElement{op.Key, op.Write}
				if c.writes[p] != nil {
					panic("two writes have one name")
				}
				c.writes[p] = &listWrite{by: t, missed: op.Kind == Missed || t.undone[i]}
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

// checkFinalLists records for each write its indexes in the final lists (the database's lists after the test). It
// reports elements that no client wrote, and writes that are in a list twice or although they were undone.
func (c *historyChecker) checkFinalLists() {
	for _, key := range slices.Sorted(maps.Keys(c.history.Lists)) {
		for at, id := range c.history.Lists[key] {
			w := c.writes[listElement{key, id}]
			if w == nil {
				c.addViolation(Alien, nil, "%d in the list of %d", id, key)
				continue
			}
			w.at = append(w.at, at)
			switch {
			case len(w.at) == 2:
				c.addViolation(Twice, []*checkedTxn{w.by}, "%d in the list of %d, at %v", id, key, w.at)
			case w.missed, w.by.Outcome == Aborted:
				c.addViolation(Undead, []*checkedTxn{w.by}, "%d in the list of %d, at %d", id, key, at)
			}
		}
	}
}

// settleOutcomes decides whether transactions of unknown outcome were applied. It checks that the final content of
// the database has all writes of a transaction or none.
func (c *historyChecker) settleOutcomes() {
	for _, t := range c.txns {
		there, last := 0, make(map[int]int)
		for _, p := range t.writes {
			w := c.writes[p]
			if len(w.at) == 0 {
				continue
			}
			there++
			if before, ok := last[p.key]; ok && w.at[0] != before+1 {
				c.addViolation(LostUpdate, []*checkedTxn{t}, "its writes of %d stand at %d and %d: another's are between them", p.key, before, w.at[0])
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
			c.addViolation(Lost, []*checkedTxn{t}, "%d of %d writes of T%d are there", there, total, t.ID)
		case t.Outcome == Unknown && there > 0 && there < total:
			c.addViolation(Partial, []*checkedTxn{t}, "%d of %d writes of T%d are there", there, total, t.ID)
		case t.Outcome == Unknown:
			t.applied = there > 0
		}
	}
}

// checkMarks compares values that the server made, such as generated keys, with the values that clients got for them.
func (c *historyChecker) checkMarks() {
	by, undone := make(map[int]*checkedTxn), make(map[int]bool)
	drawn := make(map[string]*checkedTxn)
	for _, t := range c.txns {
		var now string
		for _, op := range t.Ops {
			switch {
			case op.Kind == Drawn:
				if other := drawn[op.Value]; other != nil {
					c.addViolation(NotUnique, []*checkedTxn{other, t}, "number %s", op.Value)
				}
				drawn[op.Value] = t
			case op.Kind == Now && t.applied:
				if now != "" && now != op.Value {
					c.addViolation(Untrue, []*checkedTxn{t}, "now() is %s and %s", now, op.Value)
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
				c.checkMark(t, op, t.undone[i], now)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.history.Marks)) {
		switch t := by[id]; {
		case t == nil:
			c.addViolation(Alien, nil, "row %d", id)
		case t.Outcome == Aborted, undone[id]:
			c.addViolation(Undead, []*checkedTxn{t}, "row %d", id)
		}
	}
}

// checkMark compares a row with the values that its transaction t got when it inserted the row. now is what t got
// from now(), or "".
func (c *historyChecker) checkMark(t *checkedTxn, op Op, undone bool, now string) {
	got, ok := c.history.Marks[op.Write]
	if ok && op.Value != "" && op.Value != got && !strings.HasPrefix(got, op.Value+" ") {
		c.addViolation(Untrue, []*checkedTxn{t}, "row %d holds %s, told was %s", op.Write, got, op.Value)
	}
	if stored := c.history.Times[op.Write]; !undone && now != "" && stored != "" && stored != now {
		c.addViolation(Untrue, []*checkedTxn{t}, "row %d was made at %s, now() is %s", op.Write, stored, now)
	}
}

// checkReads checks the reads of a transaction against the final lists (the database's lists after the test). It adds
// to the graph the edges that follow from the reads.
func (c *historyChecker) checkReads(t *checkedTxn) {
	own := make(map[int][]int)
	first := make(map[int]int) // where its writes of a key begin
	for _, p := range t.writes {
		at := c.writes[p].at
		if _, ok := first[p.key]; ok || !t.applied || len(at) == 0 {
			continue
		}
		first[p.key] = at[0]
		c.addWriteEdge(t, p.key, at[0])
		end := at[0] + 1
		for c.writerAt(p.key, end) == t {
			end++
		}
		c.addOverwriteEdge(t, p.key, end, true)
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
			// If a transaction did not commit, its reads after its first write prove nothing. Dsqlsim may have rolled the
			// transaction back before these reads, so that they saw a new snapshot without its writes.
			if !t.applied && wrote {
				continue
			}
			if t.undone[i] {
				op.Kind = Read // its lock is undone
			}
			c.checkRead(t, op, own[op.Key], first)
		}
	}
}

func (c *historyChecker) checkRead(t *checkedTxn, op Op, own []int, first map[int]int) {
	list := c.history.Lists[op.Key]
	at := len(op.Seen) - len(own)
	if at < 0 || !slices.Equal(op.Seen[at:], own) {
		c.addViolation(Phantom, []*checkedTxn{t}, "%v, and its own writes are %v", op, own)
		return
	}
	if at > len(list) || !slices.Equal(op.Seen[:at], list[:at]) {
		for _, id := range op.Seen[:at] {
			if w := c.writes[listElement{op.Key, id}]; w == nil || w.missed || !w.by.applied {
				c.addViolation(Phantom, []*checkedTxn{t, writerOf(w)}, "%v, and %d was never committed", op, id)
				return
			}
		}
		c.addViolation(Phantom, []*checkedTxn{t}, "%v, and the list never was so: %v", op, list)
		return
	}
	if begins, ok := first[op.Key]; ok && begins != at {
		c.addViolation(LostUpdate, []*checkedTxn{t, c.writerAt(op.Key, min(at, begins))}, "%v, and what it wrote stands at %d", op, begins)
		return
	}
	if at > 0 {
		before := c.writerAt(op.Key, at-1)
		if at < len(list) && before != nil && before != t && c.writerAt(op.Key, at) == before {
			c.addViolation(Torn, []*checkedTxn{t, before}, "%v, and T%d wrote more there", op, before.ID)
			return
		}
		if before != nil && before != t {
			c.addEdge(commitNode(before), startNode(t), "T%d read %d with what T%d committed", t.ID, op.Key, before.ID)
		}
	}
	if _, wrote := first[op.Key]; !wrote {
		c.addOverwriteEdge(t, op.Key, at, op.Kind == Lock && t.applied)
	}
}

func writerOf(w *listWrite) *checkedTxn {
	if w == nil {
		return nil
	}
	return w.by
}

// writerAt returns the transaction that wrote one element of a key's final list (the list after the test). Parameter
// at is the element's index. If the list is shorter, writerAt returns nil.
func (c *historyChecker) writerAt(key, at int) *checkedTxn {
	list := c.history.Lists[key]
	if at >= len(list) {
		return nil
	}
	return writerOf(c.writes[listElement{key, list[at]}])
}

// addWriteEdge adds the edge that follows from a write of t. Parameter at is the index of the written element in the
// key's list. The transaction that wrote the preceding element committed before t took its snapshot.
func (c *historyChecker) addWriteEdge(t *checkedTxn, key, at int) {
	if at == 0 {
		return
	}
	if before := c.writerAt(key, at-1); before != nil && before != t {
		c.addEdge(commitNode(before), startNode(t), "T%d wrote %d on top of what T%d committed", t.ID, key, before.ID)
	}
}

// addOverwriteEdge adds the edge for another transaction's write to a key's list. Parameter at is the index of the
// written element, before which the list ended in t's snapshot. held means that t wrote or locked the key, so that t
// must commit before the other transaction.
func (c *historyChecker) addOverwriteEdge(t *checkedTxn, key, at int, held bool) {
	next := c.writerAt(key, at)
	switch {
	case next == nil || next == t:
	case held:
		c.addEdge(commitNode(t), startNode(next), "T%d wrote %d after T%d, which wrote or locked it", next.ID, key, t.ID)
	default:
		c.addEdge(startNode(t), commitNode(next), "T%d read %d without what T%d committed", t.ID, key, next.ID)
	}
}
