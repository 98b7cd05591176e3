package proxy

import (
	"container/list"
	"slices"
	"strconv"

	"github.com/sluice-proxy/sluice/rewrite"
)

// This file has the prepared statements that one backend holds under names of Sluice's own.

// serverStatement is a prepared statement of a backend under a name of Sluice's own. All clients share it, except
// statements made by reuseParsedStatement.
type serverStatement struct {
	name  string
	seq   uint64 // counts the backend's prepared statements
	tmpl  *statementTemplate
	epoch uint64
	elem  *list.Element
	// desc is the statement's description, or nil before the server has described the statement. The server refuses to run
	// the statement if its result columns change.
	desc *statementDescription
}

// serverStatements are the prepared statements of one backend. The least recently bound is evicted first. Only the
// session with the backend uses this table.
type serverStatements struct {
	m    map[*statementTemplate]*serverStatement
	lru  *list.List
	seq  uint64
	cost int // bytes of the texts and descriptions
	long int // number of texts too long for the catalog
	// orphans are the names of prepared statements whose Close the server skipped after an error.
	orphans []string
}

// hasInEpoch reports whether the backend has prepared the template t in the given schema epoch.
func (s *serverStatements) hasInEpoch(t *statementTemplate, epoch uint64) bool {
	st := s.find(t)
	return st != nil && st.epoch == epoch
}

// hasName reports whether Sluice has prepared a statement with the name, orphans included. Clients must not use them.
func (s *serverStatements) hasName(name string) bool {
	for _, st := range s.m {
		if st.name == name {
			return true
		}
	}
	return slices.Contains(s.orphans, name)
}

// remove removes the backend's statement st. If the server has the statement, the caller sends a Close.
func (s *serverStatements) remove(st *serverStatement) {
	if s.m[st.tmpl] == st {
		delete(s.m, st.tmpl)
		s.lru.Remove(st.elem)
		s.cost -= st.tmpl.cost + st.desc.memoryBytes()
		if st.tmpl.isLong() {
			s.long--
		}
	}
}

// dropLongTexts removes statements with long texts when the backend is returned. No other client can use such
// statements, and they must not stay in memory. The next Parse closes their names.
func (s *serverStatements) dropLongTexts() {
	if s.long == 0 {
		return
	}
	for _, st := range s.m {
		if st.tmpl.isLong() {
			s.remove(st)
			s.orphans = append(s.orphans, st.name)
		}
	}
}

// setDescription sets the description that the server returned for st.
func (s *serverStatements) setDescription(st *serverStatement, d *statementDescription) {
	if s.m[st.tmpl] == st {
		s.cost += d.memoryBytes() - st.desc.memoryBytes()
	}
	st.desc = d
}

// rebindTemplate moves st to another template of the same text. Look-ups of the old template no longer find st.
func (s *serverStatements) rebindTemplate(st *serverStatement, t *statementTemplate) {
	if st.tmpl != t {
		delete(s.m, st.tmpl)
		st.tmpl, s.m[t] = t, st
	}
}

// evictionCandidate returns the statement to evict, or nil. One is evicted if there are more than limit statements, or
// several with more than most bytes. The caller closes the statement.
func (s *serverStatements) evictionCandidate(limit, most int) *serverStatement {
	if len(s.m) <= limit && (len(s.m) < 2 || s.cost <= most) {
		return nil
	}
	return s.lru.Back().Value.(*serverStatement)
}

// markOutdated marks statements that were prepared after number seq as outdated, so that they are prepared again before
// use. The schema that they were parsed with was rolled back.
func (s *serverStatements) markOutdated(seq uint64) {
	if s.seq == seq {
		return
	}
	for _, st := range s.m {
		if st.seq > seq {
			st.epoch = txEpochBit
		}
	}
}

// find returns the backend's statement for t, or nil, and marks it as used.
func (s *serverStatements) find(t *statementTemplate) *serverStatement {
	st := s.m[t]
	if st != nil {
		s.lru.MoveToFront(st.elem)
	}
	return st
}

// add registers a statement under a name that this backend has never had: the server may still skip the Close of an
// older statement. The caller sends the Parse.
func (s *serverStatements) add(t *statementTemplate, epoch uint64) *serverStatement {
	if s.m == nil {
		s.m, s.lru = map[*statementTemplate]*serverStatement{}, list.New()
	}
	s.seq++
	st := &serverStatement{name: rewrite.RelayName + strconv.FormatUint(s.seq, 10), seq: s.seq, tmpl: t, epoch: epoch}
	st.elem = s.lru.PushFront(st)
	s.m[t] = st
	s.cost += t.cost
	if t.isLong() {
		s.long++
	}
	return st
}

// clear removes all prepared statements of a backend, because the server has deallocated them.
func (s *serverStatements) clear() {
	s.m, s.lru, s.orphans, s.cost, s.long = nil, nil, nil, 0, 0
}
