package statement

import (
	"container/list"
	"slices"
	"strconv"

	"github.com/sluice-proxy/sluice/rewrite"
)

// Server is a prepared statement of a backend under a name of Sluice's own. All clients share it, except statements
// that reuseParsedStatement has reserved for one client.
type Server struct {
	Name     string
	seq      uint64 // the statement's number on its backend
	Template *Template
	Epoch    uint64
	elem     *list.Element
	// Description is the statement's description, or nil before the server has described the statement. The server refuses
	// to run the statement if its result columns change.
	Description *Description
}

// ServerSet are the prepared statements of one backend. The least recently bound is evicted first. Only the session
// with the backend uses it.
type ServerSet struct {
	m    map[*Template]*Server
	lru  *list.List
	seq  uint64 // number of the last statement
	cost int    // bytes of the texts and descriptions
	long int    // number of texts too long for the cache of templates
	// orphans are the names of prepared statements whose Close the server skipped after an error.
	orphans []string
}

// HasInEpoch reports whether the backend has prepared the template t in the given schema epoch.
func (s *ServerSet) HasInEpoch(t *Template, epoch uint64) bool {
	st := s.Find(t)
	return st != nil && st.Epoch == epoch
}

// HasName reports whether Sluice has used the name for a statement, even an orphan. Clients must not use such names.
func (s *ServerSet) HasName(name string) bool {
	for _, st := range s.m {
		if st.Name == name {
			return true
		}
	}
	return slices.Contains(s.orphans, name)
}

// Remove removes the backend's statement st. If the server has the statement, the caller sends a Close.
func (s *ServerSet) Remove(st *Server) {
	if s.m[st.Template] == st {
		delete(s.m, st.Template)
		s.lru.Remove(st.elem)
		s.cost -= st.Template.Cost + st.Description.MemoryBytes()
		if st.Template.isLong() {
			s.long--
		}
	}
}

// Trim removes statements when the backend is returned: those with long texts, which no other client can use and which
// must not stay in memory, and those above the limits of EvictionCandidate. The next Parse closes their names.
func (s *ServerSet) Trim(limit, most int) {
	if s.long > 0 {
		for _, st := range s.m {
			if st.Template.isLong() {
				s.Remove(st)
				s.orphans = append(s.orphans, st.Name)
			}
		}
	}
	for st := s.EvictionCandidate(limit, most, nil); st != nil; st = s.EvictionCandidate(limit, most, nil) {
		s.Remove(st)
		s.orphans = append(s.orphans, st.Name)
	}
}

// SetDescription sets the description that the server returned for st.
func (s *ServerSet) SetDescription(st *Server, d *Description) {
	if s.m[st.Template] == st {
		s.cost += d.MemoryBytes() - st.Description.MemoryBytes()
	}
	st.Description = d
}

// RebindTemplate moves st to another template of the same text. Look-ups of the old template no longer find st.
func (s *ServerSet) RebindTemplate(st *Server, t *Template) {
	if st.Template != t {
		delete(s.m, st.Template)
		st.Template, s.m[t] = t, st
	}
}

// LastNumber returns the number of the statement that was added last, for MarkOutdated.
func (s *ServerSet) LastNumber() uint64 { return s.seq }

// AddOrphan records the name of a statement whose Close the server skipped. The caller of TakeOrphans closes the name.
func (s *ServerSet) AddOrphan(name string) { s.orphans = append(s.orphans, name) }

// TakeOrphans returns and forgets the names of statements whose Close the server skipped. The caller sends each Close.
func (s *ServerSet) TakeOrphans() []string {
	names := s.orphans
	s.orphans = nil
	return names
}

// EvictionCandidate returns the statement to evict, or nil. One is evicted if there are more than limit statements, or
// several with more than most bytes. A statement in inUse is not evicted. The caller closes the statement.
func (s *ServerSet) EvictionCandidate(limit, most int, inUse map[*Server]bool) *Server {
	if len(s.m) <= limit && (len(s.m) < 2 || s.cost <= most) {
		return nil
	}
	for e := s.lru.Back(); e != nil; e = e.Prev() {
		if st := e.Value.(*Server); !inUse[st] {
			return st
		}
	}
	return nil
}

// MarkOutdated marks the statements prepared after number seq as outdated: Sluice prepares them again before use. The
// schema with which the server parsed them was rolled back.
func (s *ServerSet) MarkOutdated(seq uint64) {
	if s.seq == seq {
		return
	}
	for _, st := range s.m {
		if st.seq > seq {
			st.Epoch = TxEpochBit
		}
	}
}

// Find returns the backend's statement for t, or nil, and marks it as used.
func (s *ServerSet) Find(t *Template) *Server {
	st := s.m[t]
	if st != nil {
		s.lru.MoveToFront(st.elem)
	}
	return st
}

// Add registers a statement for t under a name that this backend has never had. The server may skip an older one's
// Close. The caller sends the Parse.
func (s *ServerSet) Add(t *Template, epoch uint64) *Server {
	if s.m == nil {
		s.m, s.lru = map[*Template]*Server{}, list.New()
	}
	s.seq++
	st := &Server{Name: rewrite.RelayName + strconv.FormatUint(s.seq, 10), seq: s.seq, Template: t, Epoch: epoch}
	st.elem = s.lru.PushFront(st)
	s.m[t] = st
	s.cost += t.Cost
	if t.isLong() {
		s.long++
	}
	return st
}

// Clear removes all prepared statements of a backend, because the server has deallocated them.
func (s *ServerSet) Clear() {
	s.m, s.lru, s.orphans, s.cost, s.long = nil, nil, nil, 0, 0
}
