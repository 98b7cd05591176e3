package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/proxy/batch"
	"github.com/sluice-proxy/sluice/proxy/cursor"
	"github.com/sluice-proxy/sluice/proxy/recorded"
	"github.com/sluice-proxy/sluice/proxy/request"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file records the portals of the current transaction and handles Close. Bind opens portals (bind.go), Execute and
// Describe use them. The server has its own portals, under the same names.

// portal is Sluice's record of a client's portal. The zero value means that Sluice knows no portal.
type portal struct {
	plan  *rewrite.Plan
	local bool
	open  bool
	done  bool                // it has run, and Sluice answered
	split *rewrite.SplitQuery // the two-statement form that was bound, or nil
	stmt  *statement.Client   // the statement it was bound to; nil: closed or replaced since
	bind  *statement.Server   // the backend's statement that its Bind named; nil: no Bind was sent
	seq   uint64              // its number among the transaction's Binds
	text  string              // of the statement
	bound *batch.Params       // for running it in batches; nil: not possible
	kept  *recorded.Answer    // the answer that Sluice stores for a replay; nil: none
	// cursor is set if DECLARE opened the portal, and nil if Bind did (cursor.go). work is the feature that handles the
	// portal's frames, or nil.
	cursor  *cursor.Cursor
	work    portalWork
	run     *cursor.Fetch   // of the copy that is about to run: the range of the FETCH or MOVE
	formats []byte          // of FETCH: the result formats
	key     []int64         // of an advisory lock function that Sluice runs: its argument; nil: NULL
	binary  bool            // the answer's format is binary
	told    *setConfigReply // of the copy that is about to run: as in owed
}

// portalWork handles the frames for one portal in place of the server. Features implement portalWork. Errors of its
// methods go to the client.
type portalWork interface {
	// describe answers a Describe of the portal.
	describe(s *session, name []byte) error
	// execute answers an Execute of the portal p. The last four bytes of frame are the row limit.
	execute(s *session, name []byte, p portal, frame []byte) error
	// close answers a Close of the portal. done is false if Sluice must close the portal like any other.
	close(s *session, name []byte) (done bool, err error)
	// bytes returns the approximate memory of the work in bytes.
	bytes() int
}

// findPortal returns the client's portal with the name: the session's record, or a portal whose work a feature has
// (observer.portalWork). The zero value means that Sluice knows none.
func (s *session) findPortal(name []byte) portal {
	p := s.portals.find(name)
	if !p.open {
		p.work = s.srv.observers.portalWork(s, name)
	}
	return p
}

// openPortals has the current transaction's portals that Sluice must know. A Bind may replace the unnamed portal at any
// time, but a named portal only after its Close.
type openPortals struct {
	unnamed portal // the unnamed one
	named   map[string]portal
	bytes   int // cost of the named portals
}

// longText is the length in bytes from which a portal is charged for its text, since the client may close the statement
// while the portal still holds the text.
const longText = 8 << 10

// memoryBytes returns the approximate memory in bytes of a portal with the given name.
func (p *portal) memoryBytes(name string) int {
	n := 2*statement.NameBytes + len(name) + len(p.formats)
	if p.work != nil {
		n += p.work.bytes()
	}
	if p.bound != nil {
		n += len(p.bound.Values)
	}
	if p.cursor != nil {
		n += p.cursor.Bytes()
	}
	if len(p.text) > longText {
		n += 2 * len(p.text)
	}
	return n
}

// put stores the portal p under name, and replaces another portal of that name.
func (o *openPortals) put(name string, p portal) {
	o.drop(name)
	if o.named == nil {
		o.named = map[string]portal{}
	}
	o.named[name] = p
	o.bytes += p.memoryBytes(name)
}

// recordBind records the backend's statement that the Bind of a named portal names. again means that a replay sends
// the Bind to another backend. Otherwise the server refuses a second Bind of an open portal.
func (o *openPortals) recordBind(name []byte, st *statement.Server, again bool) {
	if p, ok := o.named[string(name)]; ok && (again || p.bind == nil) {
		p.bind = st
		o.named[string(name)] = p
	}
}

// statementsInUse returns the backend's statements to which open named portals were bound.
func (o *openPortals) statementsInUse() (all map[*statement.Server]bool) {
	if len(o.named) == 0 {
		return nil
	}
	all = map[*statement.Server]bool{}
	for _, p := range o.named {
		all[p.bind] = true
	}
	return all
}

// drop removes the named portal, if there is one.
func (o *openPortals) drop(name string) {
	if p, ok := o.named[name]; ok {
		o.bytes -= p.memoryBytes(name)
		delete(o.named, name)
	}
}

// closePortals removes all portals of the session at the end of their transaction.
func closePortals(s *session) { s.portals = openPortals{} }

// recordPortal records a portal before its Bind is sent. The portal lives until the transaction ends. Returned errors
// go to the client. If the name is in use, and Sluice itself answers one of the two portals, recordPortal refuses the
// second. Portals are also limited in number and memory.
func (s *session) recordPortal(name []byte, p portal) error {
	s.tx.binds++
	p.seq = s.tx.binds
	if p.cursor != nil && p.cursor.Seq > 0 {
		p.seq = p.cursor.Seq
	}
	if len(name) == 0 {
		s.portals.unnamed = p
		return nil
	}
	switch old := s.portals.named[string(name)]; {
	case s.srv.observers.portalWork(s, name) != nil:
		return sqlerror.PortalExists(name)
	case old.open && (old.local || p.local): // if neither is local, the server detects the conflict
		return sqlerror.PortalExists(name)
	case old.open && (old.cursor != nil || p.cursor != nil):
		return nil // the server refuses the second
	}
	if len(s.portals.named) >= s.srv.cfg.PreparedPerClient {
		return &wire.Error{Code: "54000", Message: "too many open portals in one transaction"}
	}
	if full := s.charge.portals.TrySet(&s.memory.account, s.portals.bytes+p.memoryBytes(string(name))); full != nil {
		return errOutOfMemory(full)
	}
	s.portals.put(string(name), p)
	return nil
}

// update stores p in place of a portal with the given name, which recordPortal has recorded.
func (o *openPortals) update(name []byte, p portal) {
	if len(name) == 0 {
		o.unnamed = p
	} else {
		o.put(string(name), p)
	}
}

// setPlan changes the plan of the named portal, which recordPortal has recorded.
func (o *openPortals) setPlan(name []byte, plan *rewrite.Plan) {
	p := o.find(name)
	p.plan = plan
	o.update(name, p)
}

// detachUnnamedPortals detaches the portals that are bound to the unnamed statement from it, before it is
// overwritten. The new statement's description must not be used for these portals.
func (s *session) detachUnnamedPortals() {
	if s.statements.UsesSlot(s.portals.unnamed.stmt) {
		s.portals.unnamed.stmt = nil
	}
	for name, p := range s.portals.named {
		if s.statements.UsesSlot(p.stmt) {
			p.stmt = nil
			s.portals.put(name, p)
		}
	}
}

// freeUnnamed releases the memory of an unnamed statement that was closed. It must be called between turns, since an
// error within a turn may restore the statement.
func (s *session) freeUnnamed() {
	if s.statements.HasUnusedSlot() {
		s.detachUnnamedPortals()
		s.statements.ClearSlot()
	}
}

// find returns the client's portal with the name, or the zero value if Sluice knows none.
func (o *openPortals) find(name []byte) portal {
	if len(name) == 0 {
		return o.unnamed
	}
	return o.named[string(name)]
}

// maxDeferredCloses limits the Close frames that wait for a statement deferred to the Sync (deferClose).
const maxDeferredCloses = 100

// deferClose defers a Close after the Execute of DDL that runs at the Sync. Before the Sync, sqlx closes the portal
// that ran, and Postgrex the statement. The client gets the Close's answer after the DDL, if the DDL succeeds. A
// Close of a portal that the server has is refused.
func (s *session) deferClose(total int) error {
	t := s.t
	st := t.request.altering
	if why := s.reserveDeferredMemory(total); why != nil {
		t.request.altering = nil
		return s.refuseFrame(total, why)
	}
	frame, err := s.readWholeFrame(total)
	if err != nil {
		return err
	}
	what, name, err := request.ParseTarget(frame, "CLOSE")
	switch {
	case err != nil:
		t.request.altering = nil
		return err
	case what != 'S' && !s.portals.find(name).local, len(t.request.closing) == maxDeferredCloses:
		t.request.altering = nil
		return errSteppedDDLNotAlone(st)
	case what == 'S':
		t.request.closing = append(t.request.closing, bytes.Clone(frame))
		return nil
	}
	s.portals.remove(name)
	t.request.closing = append(t.request.closing, nil)
	return nil
}

// runDeferredAlter runs the DDL that was deferred to the Sync, then answers the Close frames that followed the Execute.
func (s *session) runDeferredAlter(st *rewrite.Statement, closing [][]byte) error {
	if err := s.answerLocalStatement(st, false, false); err != nil {
		return err
	}
	for _, frame := range closing {
		err := error(nil)
		if frame == nil { // the portal is already removed
			err = s.queueReply(wire.FrameCloseComplete)
		} else {
			err = s.handleClose(frame)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remove removes a portal that the client has closed.
func (o *openPortals) remove(name []byte) {
	if len(name) == 0 {
		o.unnamed = portal{}
		return
	}
	o.drop(string(name))
}

// handleClose closes a statement in Sluice alone, or a portal in both Sluice and the server. The backend keeps the
// prepared statement for later Parses of the same text. If an earlier frame fails, the statement's name is restored. As
// in PostgreSQL, closing a name that does not exist is no error.
func (s *session) handleClose(frame []byte) error {
	what, name, err := request.ParseTarget(frame, "CLOSE")
	if err != nil {
		return err
	}
	if what == 'S' {
		prev := s.statements.Find(name)
		if err := s.queueReply(wire.FrameCloseComplete); err != nil {
			return err
		}
		if prev != nil {
			s.t.rec.logUndo(string(name), prev)
			if !s.t.owed.empty() {
				s.t.owed.addNameUndo(string(name), prev)
			}
			s.statements.Set(&s.memory.account, string(name), nil)
		}
		return nil
	}
	p := s.findPortal(name)
	if p.work != nil {
		if done, err := p.work.close(s, name); done || err != nil {
			return err
		}
	}
	s.portals.remove(name)
	if p.local || s.b == nil {
		return s.queueReply(wire.FrameCloseComplete)
	}
	if err := s.ensureBackend(); err != nil {
		return err
	}
	if p.cursor != nil {
		s.t.rec.trackPortalRun(p) // ROLLBACK TO SAVEPOINT would open the cursor again
	}
	s.t.rec.logFrame(wire.Close, logEntry{}, frame[wire.HeaderLen:])
	s.t.owed.push(wire.Close)
	s.t.addToBatch(frame)
	return nil
}
