package proxy

import (
	"container/list"
	"slices"
	"strconv"

	"github.com/sluice-proxy/sluice/rewrite"
)

// The statements that one backend holds under names of Sluice's.

// serverStatement is one statement that a backend holds under a name of ours. Clients of
// every kind share it, save those of asParsed.
type serverStatement struct {
	name  string
	seq   uint64 // of those that the backend prepared
	tmpl  *template
	epoch uint64
	elem  *list.Element
	// desc is what it returns; nil until the server has described it. The server
	// refuses to run it when it would return anything else.
	desc *description
}

// serverStatements is what one backend holds, least recently bound evicted. It is as much
// the session's as the backend is.
type serverStatements struct {
	m    map[*template]*serverStatement
	lru  *list.List
	seq  uint64
	cost int // of their texts and descriptions
	long int // how many have texts that the catalog does not keep
	// orphans are names whose Close was skipped by the server after an error.
	orphans []string
}

// holdsOf reports whether there is a statement of t that was prepared in that epoch.
func (s *serverStatements) holdsOf(t *template, epoch uint64) bool {
	st := s.find(t)
	return st != nil && st.epoch == epoch
}

// holds reports whether a name is that of a statement of ours, orphans included. To a
// client such a name is that of nothing.
func (s *serverStatements) holds(name string) bool {
	for _, st := range s.m {
		if st.name == name {
			return true
		}
	}
	return slices.Contains(s.orphans, name)
}

// remove forgets st; the caller sends its Close where the server has it.
func (s *serverStatements) remove(st *serverStatement) {
	if s.m[st.tmpl] == st {
		delete(s.m, st.tmpl)
		s.lru.Remove(st.elem)
		s.cost -= st.tmpl.cost + st.desc.cost()
		if st.tmpl.long() {
			s.long--
		}
	}
}

// forgetLong forgets the statements of long texts, when the backend is given back: no other client finds
// them, and they are not to stay in memory when theirs has left. Their names are closed with the next
// Parse.
func (s *serverStatements) forgetLong() {
	if s.long == 0 {
		return
	}
	for _, st := range s.m {
		if st.tmpl.long() {
			s.remove(st)
			s.orphans = append(s.orphans, st.name)
		}
	}
}

// describe gives st what the server said that it returns.
func (s *serverStatements) describe(st *serverStatement, d *description) {
	if s.m[st.tmpl] == st {
		s.cost += d.cost() - st.desc.cost()
	}
	st.desc = d
}

// rename has st be the statement of another template, of the same text: nobody else finds
// it.
func (s *serverStatements) rename(st *serverStatement, t *template) {
	if st.tmpl != t {
		delete(s.m, st.tmpl)
		st.tmpl, s.m[t] = t, st
	}
}

// oldest returns the statement to evict once more than limit are held, or several that
// cost more than most; else nil. The caller closes it.
func (s *serverStatements) oldest(limit, most int) *serverStatement {
	if len(s.m) <= limit && (len(s.m) < 2 || s.cost <= most) {
		return nil
	}
	return s.lru.Back().Value.(*serverStatement)
}

// distrust has what was prepared after the first seq statements prepared anew before it is
// used again: what they were parsed against was rolled back.
func (s *serverStatements) distrust(seq uint64) {
	if s.seq == seq {
		return
	}
	for _, st := range s.m {
		if st.seq > seq {
			st.epoch = private
		}
	}
}

// find returns the backend's statement for t and marks it used; nil when there is none.
func (s *serverStatements) find(t *template) *serverStatement {
	st := s.m[t]
	if st != nil {
		s.lru.MoveToFront(st.elem)
	}
	return st
}

// add registers a statement under a new name that was never used before on this backend:
// the Close of an older one may still be skipped by the server. The caller sends its Parse.
func (s *serverStatements) add(t *template, epoch uint64) *serverStatement {
	if s.m == nil {
		s.m, s.lru = map[*template]*serverStatement{}, list.New()
	}
	s.seq++
	st := &serverStatement{name: rewrite.RelayName + strconv.FormatUint(s.seq, 10), seq: s.seq, tmpl: t, epoch: epoch}
	st.elem = s.lru.PushFront(st)
	s.m[t] = st
	s.cost += t.cost
	if t.long() {
		s.long++
	}
	return st
}

// clear forgets everything: the server deallocated it all.
func (s *serverStatements) clear() {
	s.m, s.lru, s.orphans, s.cost, s.long = nil, nil, nil, 0, 0
}
