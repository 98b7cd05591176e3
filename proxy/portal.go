package proxy

import (
	"bytes"
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Portals of the transaction in progress, as far as more than forwarding is to be known of
// them, and Close. Bind opens portals (bind.go), Execute and Describe look them up. The
// server keeps its own; names are the client's at both.

// portal is what is known of a bound portal. The zero value is one that Sluice knows
// nothing of: for the server it may exist.
type portal struct {
	plan  *rewrite.Plan
	local bool
	open  bool
	done  bool             // one that has run, where its answer is Sluice's
	split *rewrite.Split   // the form that it was bound in
	stmt  *clientStatement // that it was bound to; nil: no client can bind that again
	seq   uint64           // in the transaction
	text  string           // of its statement
	bound *boundDelete     // nil: it cannot be run in batches
	kept  *keptAnswer      // nil: its answer is not kept
	// cursor is the DECLARE that opened it; nil: a Bind of the client's did. declares is what
	// it takes to carry one out, of a portal that is bound to it. See cursor.go.
	cursor   *cursor
	declares *declaration
	run      *cursorRun // of a copy that is about to be run: how far it goes
	formats  []byte     // of FETCH: in which its rows are to come
	key      []int64    // of an advisory lock that a local one is about; nil: NULL
	binary   bool       // its answer is to come so
	told     *told      // of a copy that is about to be run: as in owed
}

// openPortals are those of the current transaction that need more than forwarding. The
// unnamed one may be replaced at any time, a named one only behind its Close.
type openPortals struct {
	portal  portal // the unnamed one
	portals map[string]portal
	bytes   int // of the named ones
}

// longText is the length from which a portal bears the text of its statement, which its client may
// have given up.
const longText = 8 << 10

// cost is about what a portal of that name takes in memory.
func (p *portal) cost(name string) int {
	n := 2*nameBytes + len(name) + len(p.formats)
	if p.declares != nil {
		n += len(p.declares.values)
	}
	if p.bound != nil {
		n += len(p.bound.values)
	}
	if p.cursor != nil {
		n += len(p.cursor.values) + len(p.cursor.formats)
	}
	if len(p.text) > longText {
		n += 2 * len(p.text)
	}
	return n
}

// put gives a name its portal.
func (o *openPortals) put(name string, p portal) {
	o.drop(name)
	if o.portals == nil {
		o.portals = map[string]portal{}
	}
	o.portals[name] = p
	o.bytes += p.cost(name)
}

// drop takes a portal from its name, which may be nobody's.
func (o *openPortals) drop(name string) {
	if p, ok := o.portals[name]; ok {
		o.bytes -= p.cost(name)
		delete(o.portals, name)
	}
}

// closePortals forgets all portals: their transaction has ended.
func (s *session) closePortals() { s.openPortals = openPortals{} }

// setPortal notes a portal, before its Bind is sent; the portal lives until its transaction
// ends. The error, for the client, is that of a name which is taken, where one of the two
// portals is answered here: the server, which knows of one at most, would not complain.
// Their number is bounded as that of statements.
func (s *session) setPortal(name []byte, p portal) error {
	s.tx.binds++
	p.seq = s.tx.binds
	if p.cursor != nil && p.cursor.seq > 0 {
		p.seq = p.cursor.seq
	}
	if len(name) == 0 {
		s.portal = p
		return nil
	}
	switch old := s.portals[string(name)]; {
	case s.stored[string(name)] != nil:
		return errPortalExists(name)
	case old.open && (old.local || p.local): // else the server sees both
		return errPortalExists(name)
	case old.open && (old.cursor != nil || p.cursor != nil):
		return nil // the server refuses the second
	}
	if len(s.portals) >= s.srv.cfg.PreparedPerClient {
		return &wire.Error{Code: "54000", Message: "too many open portals in one transaction"}
	}
	if full := s.charge.ports.TrySet(&s.account, s.openPortals.bytes+p.cost(string(name))); full != nil {
		return errMemory(full)
	}
	s.put(string(name), p)
	return nil
}

// keepPortal notes what has become of a portal that setPortal has noted.
func (s *session) keepPortal(name []byte, p portal) {
	if len(name) == 0 {
		s.portal = p
	} else {
		s.put(string(name), p)
	}
}

// planPortal has a portal that setPortal has noted run another plan.
func (s *session) planPortal(name []byte, plan *rewrite.Plan) {
	p := s.portalOf(name)
	p.plan = plan
	s.keepPortal(name, p)
}

// forgetSpare is told that spare will be another statement: portals of the one before stay,
// and no description of them is about the new one.
func (s *session) forgetSpare() {
	if s.portal.stmt == &s.spare {
		s.portal.stmt = nil
	}
	for name, p := range s.portals {
		if p.stmt == &s.spare {
			p.stmt = nil
			s.put(name, p)
		}
	}
}

// freeSpare lets the text of an unnamed statement go that was destroyed. It is called between
// two turns: within one the statement may come back.
func (s *session) freeSpare() {
	if s.spare.tmpl != nil && s.unnamed != &s.spare {
		s.forgetSpare()
		s.spare = clientStatement{}
	}
}

// portalOf is the portal of that name; the zero value for one that Sluice does not know.
func (s *session) portalOf(name []byte) portal {
	if len(name) == 0 {
		return s.portal
	}
	return s.portals[string(name)]
}

// namedTarget splits the payload of a Describe or Close: 'S' for a statement or 'P' for a
// portal, and the name. message is which of them it is, for the error.
func namedTarget(frame []byte, message string) (what byte, name []byte, err error) {
	m := wire.NewMessage(frame[wire.HeaderLen:])
	what, name = m.Byte(), m.String()
	if err := m.End(); err != nil {
		return 0, nil, err
	}
	if what != 'S' && what != 'P' {
		return 0, nil, &wire.Error{Code: "08P01", Message: fmt.Sprintf("invalid %s message subtype %d", message, what)}
	}
	return what, name, nil
}

// mostClosing bounds the Closes behind a statement that is put off.
const mostClosing = 100

// closeAltering is a Close behind the Execute of a statement that is put off to the Sync: drivers close the
// portal that they have run in the same group (sqlx), or the statement (Postgrex). It is done behind
// that statement, if that does not fail. Only a portal that no server knows may be closed there.
func (s *session) closeAltering(total int) error {
	t := s.t
	st := t.altering
	if why := s.mayPutOff(total); why != nil {
		t.altering = nil
		return s.refuseFrame(total, why)
	}
	frame, err := s.whole(total)
	if err != nil {
		return err
	}
	what, name, err := namedTarget(frame, "CLOSE")
	switch {
	case err != nil:
		t.altering = nil
		return err
	case what != 'S' && !s.portalOf(name).local, len(t.closing) == mostClosing:
		t.altering = nil
		return errAlteredAlone(st)
	case what == 'S':
		t.closing = append(t.closing, bytes.Clone(frame))
		return nil
	}
	s.forgetPortal(name)
	t.closing = append(t.closing, nil)
	return nil
}

// runAltering carries out what was put off to the Sync, and the Closes behind it.
func (s *session) runAltering(st *rewrite.Statement, closing [][]byte) error {
	if err := s.runLocal(st, false, false); err != nil {
		return err
	}
	for _, frame := range closing {
		err := error(nil)
		if frame == nil { // the group's portals are gone
			err = s.tell(wire.FrameCloseComplete)
		} else {
			err = s.closeNamed(frame)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forgetPortal is told that a portal is closed.
func (s *session) forgetPortal(name []byte) {
	if len(name) == 0 {
		s.portal = portal{}
		return
	}
	s.drop(string(name))
}

// closeNamed closes a statement, here only, or a portal. The backend keeps its statement:
// other clients, or the same one again, may prepare the text. An error in front of a Close
// gives the name back (undoable). To close what does not exist is no error, as in
// PostgreSQL.
func (s *session) closeNamed(frame []byte) error {
	what, name, err := namedTarget(frame, "CLOSE")
	if err != nil {
		return err
	}
	if what == 'S' {
		prev := s.statement(name)
		if err := s.tell(wire.FrameCloseComplete); err != nil {
			return err
		}
		if prev != nil {
			s.logUndo(string(name), prev)
			if !s.t.owed.empty() {
				s.t.owed.undoable(string(name), prev)
			}
			s.setStatement(string(name), nil)
		}
		return nil
	}
	p := s.portalOf(name)
	if !p.open && s.stored[string(name)] != nil {
		return s.closeStored(string(name))
	}
	s.forgetPortal(name)
	if p.local || s.b == nil {
		return s.tell(wire.FrameCloseComplete)
	}
	if err := s.ensureBackend(); err != nil {
		return err
	}
	if p.cursor != nil {
		s.notePortal(p) // a return to a savepoint would open it again
	}
	s.logFrame(wire.Close, logEntry{}, frame[wire.HeaderLen:])
	s.t.owed.push(wire.Close)
	s.add(frame)
	return nil
}
