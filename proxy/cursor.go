package proxy

import (
	"encoding/binary"
	"maps"
	"slices"
	"strconv"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/stored"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Cursors in SQL, for a server that has none (rewrite.Cursor): a cursor is a portal of the
// cursor's query, under the cursor's name, which the server knows only as a portal. DECLARE
// becomes a Bind, FETCH and MOVE an Execute with a limit on rows, CLOSE a Close; so clients may
// describe and close a cursor by the protocol too, and the server itself says which names are
// taken. The frames are part of the log like a client's own. What the server answers that a
// client of PostgreSQL would not see is swallowed (silent), and tags become those of cursors
// (cursorEnd).
//
// A statement comes by a simple Query (cursorQuery), or in frames of the extended protocol
// (cursorextended.go). Cursors are among the portals of the session (openPortals), which end
// with their transaction, at the server too. They see the transaction as it was at the DECLARE:
// the server takes the snapshot of a portal at its Bind.
//
// What differs from PostgreSQL's own: rows are sent as they come, as those of a SELECT are, not
// when FETCH has ended well. So there may be rows in front of an error.

// cursor is one that is open. It is immutable: the portal that has it gets another one where
// something changes, so that a copy of a portal stays what it was.
type cursor struct {
	noScroll bool
	// hold: it was declared WITH HOLD, and what is left of its rows is stored in front of the COMMIT
	// (storing.go).
	hold    bool
	cs      *clientStatement // of its query
	values  []byte           // of its Bind, in front of the result formats
	formats []byte           // the result formats, two bytes each; nil: text
	// changes is that of the transaction at its DECLARE: what was written since it does not see.
	changes uint64
	ran     bool   // some of it was read
	seq     uint64 // as in portal, of one that is bound anew
}

// cursorRun is how far FETCH or MOVE goes; limit 0: to the end. into, where it is not nil, gets the
// rows, and nobody is told anything. It is part of the log: each attempt fills it anew.
type cursorRun struct {
	move  bool
	limit uint32
	into  *stored.Cursor
}

// runsCursor reports whether a statement, which may be nil, is about cursors, and Sluice's to
// carry out as things stand. CLOSE ALL is so as long as something is open; without that it is
// answered as what resets a session (local.go). In a failed block the server refuses it.
func (s *session) runsCursor(st *rewrite.Statement) bool {
	switch {
	case st == nil || st.Refusal != nil:
		return false
	case st.Cursor != nil:
		return true
	}
	return st.Does == rewrite.ClosesAll && (len(s.portals) > 0 || len(s.stored) > 0) && s.status() != 'E'
}

// cursorQuery is a simple Query of one such statement. With nil the turn is over. What fails on
// the way fails as in a group, whose Sync is still to come: so the turn is not said to have
// ended before.
func (s *session) cursorQuery(plan *rewrite.Plan, st *rewrite.Statement) error {
	t := s.t
	if t.ownTx.on { // its tag would come in front of the COMMIT of the write
		return errHeldCursor
	}
	t.plan, t.ended = plan, false
	err := s.cursorStatement(st)
	if t.ended = true; err != nil {
		return err
	}
	// Behind an error the server skips to the Sync that endQuery sends. Where the backend was
	// given up over it, nothing is sent, and the turn ends here.
	t.skip = false
	return s.endQuery()
}

// cursorStatement does one statement of a simple Query. An error is for the client; with nil
// the rest of the turn may have to be skipped.
func (s *session) cursorStatement(st *rewrite.Statement) error {
	c := st.Cursor
	switch {
	// The order of errors is PostgreSQL's: that of the block comes first, then those of the
	// query, of the place of the DECLARE, and of the name, which the server finds at the Bind.
	case s.status() == 'E':
		return errAborted
	case c == nil:
		return s.closeCursors()
	case c.Verb != rewrite.DeclareCursor:
		return s.useCursor(c, nil, true)
	}
	tmpl, err := s.queryTemplate(c, wire.NoOIDs)
	if err != nil {
		return err
	}
	cs := s.newStatement(tmpl, 0)
	if !s.inBlock() && !c.Hold {
		return s.declaredInVain(&cs, errDeclareOutside)
	}
	return s.declare(c, &cs, noParameters, true)
}

// declaredInVain is the error of a DECLARE that cannot be; the server's, where it does not take the
// query: it looks at that first.
func (s *session) declaredInVain(cs *clientStatement, why *wire.Error) error {
	if err := s.admit(cs.tmpl.plan); err != nil {
		return err
	}
	if _, err := s.onBackend(cs); err != nil {
		return err
	}
	if err := s.makeAnswer(); err != nil || s.t.skip {
		return err
	}
	return why
}

// noParameters is what a Bind without parameters has behind its names, in front of the result
// formats.
var noParameters = []byte{0, 0, 0, 0}

// declare opens a cursor of a query, in a block, or one WITH HOLD outside of it: cs is its statement,
// values are as in cursor, and simple says that it came by a simple Query. An error is for the
// client; with t.skip the server's was told. Of names that cursors in memory have the server knows
// nothing, and all else that is wrong with a DECLARE comes first.
func (s *session) declare(c *rewrite.Cursor, cs *clientStatement, values []byte, simple bool) error {
	switch {
	case s.stored[c.Name] != nil:
		return s.declaredInVain(cs, errPortalExists([]byte(c.Name)))
	case c.Hold && c.Scroll && s.inBlock():
		return errHoldScrolls
	}
	made := &cursor{noScroll: c.NoScroll, hold: c.Hold, cs: cs, values: values, changes: s.tx.changes}
	if err := s.bindCursor(c.Name, made); err != nil || s.t.skip || s.t.settled {
		return err
	}
	if s.t.logs {
		s.tx.log.Wrote() // a return to a savepoint closes it
	}
	if c.Hold && !s.inBlock() && (simple || !c.NoScroll) {
		return s.declareStored(c, simple)
	}
	return s.tell(frameDeclared)
}

var frameDeclared = wire.AppendCommand(nil, "DECLARE CURSOR")

// bindCursor binds a cursor's portal, which nobody is told. It goes the way of a Bind of the
// client's (bindOnBackend): the gate, the backend, its statement, the log. That its query may
// write, or be sent otherwise by now, is found there.
func (s *session) bindCursor(name string, c *cursor) error {
	rest := binary.BigEndian.AppendUint16(slices.Clone(c.values), uint16(len(c.formats)/2))
	return s.bindOnBackend(&binding{cs: c.cs, portal: []byte(name), rest: append(rest, c.formats...), whole: true, cursor: c})
}

// queryTemplate is the template of a cursor's query. Some queries are not for cursors: those
// whose answer is not the portal's alone.
func (s *session) queryTemplate(c *rewrite.Cursor, oids []byte) (*template, error) {
	tmpl, err := s.template([]byte(c.Query), oids)
	if err == nil {
		err = refusal(tmpl.plan)
	}
	switch {
	case err != nil:
		return nil, err
	case tmpl.plan.Kind == rewrite.Unknown || tmpl.plan.Pin == rewrite.PinUnparsed:
		return nil, errCursorUnread
	case tmpl.inForce().split != nil:
		return nil, errCursorSplit
	case tmpl.plan.Sequence != "":
		return nil, errCursorSequence
	}
	return tmpl, nil
}

// openCursor is the cursor that FETCH, MOVE or CLOSE names. An error is for the client.
func (s *session) openCursor(c *rewrite.Cursor) (portal, error) {
	p := s.portals[c.Name]
	switch {
	case s.status() == 'E':
		return p, errAborted
	case !p.open:
		return p, s.noCursor(c.Name)
	case p.cursor == nil:
		return p, errPortalFetched(c.Name)
	case c.Elsewhere:
		return p, s.fetchElsewhere(c, p)
	}
	return p, nil
}

// fetchElsewhere is the error of a FETCH or MOVE that does not go forward. In PostgreSQL a
// portal that fails can be run no more, also behind the return to a savepoint; here it knows
// nothing of the error, and so the return is refused.
func (s *session) fetchElsewhere(c *rewrite.Cursor, p portal) error {
	if err := s.ensureBackend(); err != nil {
		return err
	}
	if s.notePortal(p); s.t.logs && s.tx.moved == s.tx.log.Turns()+1 {
		s.tx.moved++ // the log's turn is cut in front of the refusal
	}
	if c.Backward && p.cursor.noScroll {
		return errForwardOnly
	}
	return errFetchElsewhere
}

// useCursor is FETCH, MOVE or CLOSE. describe has the rows described, which come in formats (as
// in cursor). An error is for the client; with nil the frames are on their way, or the rest is
// to be skipped.
func (s *session) useCursor(c *rewrite.Cursor, formats []byte, describe bool) error {
	if s.stored[c.Name] != nil {
		return s.useStored(c, formats, describe)
	}
	p, err := s.openCursor(c)
	if err != nil {
		return err
	}
	// Nothing is looked up at the server: a cursor that is known here is one there, unless what
	// is still owed fails, and then all of this is skipped.
	switch c.Verb {
	case rewrite.CloseCursor:
		if err := s.closeCursor(c.Name); err != nil {
			return err
		}
		return s.tell(wire.AppendCommand(nil, "CLOSE CURSOR"))
	case rewrite.FetchCursor: // MOVE sends no rows: any format will do
		if err := s.inFormats(c.Name, formats); err != nil || s.t.skip || s.t.settled {
			return err
		}
		p = s.portals[c.Name]
	}
	if err := s.ensureBackend(); err != nil {
		return err
	}
	if describe && c.Verb == rewrite.FetchCursor {
		s.describeCursor(c.Name, p)
	}
	s.notePortal(p)
	if !p.cursor.ran {
		ran := *p.cursor
		ran.ran = true
		p.cursor = &ran
		s.keepPortal([]byte(c.Name), p)
	}
	// From here on it is the Execute of a portal (execute), with its rows counted.
	frame := wire.AppendHeader(nil, wire.Execute, len(c.Name)+5)
	frame = append(append(frame, c.Name...), 0)
	frame = binary.BigEndian.AppendUint32(frame, c.Rows)
	p.run = &cursorRun{move: c.Verb == rewrite.MoveCursor, limit: c.Rows}
	s.logPlan(p.plan)
	s.tx.notesRun(p.plan)
	o := s.pushRun(wire.Execute, p.plan)
	o.text = p.text
	s.runs(o, p.run)
	s.noteExecute(&p, nil, frame)
	s.add(frame)
	return nil
}

// runs marks the answer to an Execute as that of FETCH or MOVE; run is nil for any other. Rows
// that nobody gets are looked at one by one.
func (s *session) runs(o *owed, run *cursorRun) {
	if run == nil {
		return
	}
	o.reply = chained(o.reply, cursorReply{run: run})
	s.t.looks = s.t.looks || run.move || run.into != nil
}

// describeCursor has the server describe a cursor to the client. It needs the backend.
func (s *session) describeCursor(name string, p portal) {
	frame := wire.AppendNamed(nil, wire.Describe, 'P', name)
	s.logFrame(wire.Describe, logEntry{plan: p.plan}, frame[wire.HeaderLen:])
	s.pushRun(wire.Describe, p.plan)
	s.add(frame)
}

// inFormats has the rows of an open cursor come in these formats. A cursor is bound in text: as
// long as nothing of it was read, and nothing was written that it must not see, it can be bound
// anew. An error is for the client; with t.skip the server's was told.
func (s *session) inFormats(name string, formats []byte) error {
	p := s.portals[name]
	switch c := p.cursor; {
	case slices.Equal(c.formats, formats):
		return nil
	case c.ran || c.changes != s.tx.changes:
		return errCursorFormats
	}
	again := *p.cursor
	again.formats, again.seq = formats, p.seq // for savepoints it is as old as it was
	if err := s.closeCursor(name); err != nil {
		return err
	}
	return s.bindCursor(name, &again)
}

// closeCursor closes the portal of a cursor, which nobody is told. A return to a savepoint
// would open one from before again.
func (s *session) closeCursor(name string) error {
	if err := s.ensureBackend(); err != nil {
		return err
	}
	s.notePortal(s.portals[name])
	s.drop(name)
	frame := wire.AppendNamed(nil, wire.Close, 'P', name)
	s.logFrame(wire.Close, logEntry{silent: true}, frame[wire.HeaderLen:])
	s.t.owed.push(wire.Close).swallow = true
	s.add(frame)
	return nil
}

// closeCursors is CLOSE ALL, where a portal is open. It would close the client's own portals
// too, and is refused where there are some.
func (s *session) closeCursors() error {
	for _, p := range s.portals {
		if p.cursor == nil && !p.local {
			return errPortalsOpen
		}
	}
	if len(s.stored) > 0 && !s.t.owed.empty() { // what went before in the group may fail
		if err := s.makeAnswer(); err != nil || s.t.skip || s.t.settled {
			return err
		}
	}
	s.dropAllStored()
	for _, name := range slices.Sorted(maps.Keys(s.portals)) {
		if s.portals[name].local {
			s.drop(name)
		} else if err := s.closeCursor(name); err != nil {
			return err
		}
	}
	return s.tell(wire.AppendCommand(nil, "CLOSE CURSOR ALL"))
}

// cursorReply is the answer to FETCH or MOVE, or to what stores the rows of a cursor.
type cursorReply struct {
	run *cursorRun
}

// frame takes rows for a stored cursor, drops those that MOVE passes by, and has the tag be that of the
// statement.
func (c cursorReply) frame(s *session, o *owed, f answer.Frame) (verdict, error) {
	row := f.Row()
	switch {
	case c.run.into != nil && (row || f.Type == wire.RowDescription):
		s.storeRow(c.run.into, f)
	case c.run.move && row:
		s.t.rows++
	case f.Means == answer.Completes:
		return swallow, c.end(s, o, f.Type, f.Bytes)
	default:
		return undecided, nil
	}
	return swallow, nil
}

// end is the end of FETCH or MOVE, with the server's frame: the client gets the number of rows. A server
// that sends more than it was asked for has passed by what the client would fetch next.
func (c cursorReply) end(s *session, o *owed, typ byte, frame []byte) error {
	run, rows := c.run, s.t.rows
	if run.limit > 0 && rows > int(run.limit) || typ == wire.PortalSuspended && rows != int(run.limit) {
		s.srv.log.Error("a portal was not suspended where it should be", append(s.logAttrs(), "limit", run.limit, "rows", rows)...)
		return s.desync(typ)
	}
	if typ == wire.PortalSuspended {
		s.srv.suspends.Store(true)
	}
	s.completed(o, typ, frame)
	if s.t.owed.pop(); run.into != nil {
		return nil
	}
	// The log compares the tag that the client gets, in the place of the server's: of rows that
	// were passed by their number is all that a client knows.
	verb := "FETCH "
	if run.move {
		verb = "MOVE "
	}
	tag := wire.AppendCommand(nil, verb+strconv.Itoa(rows))
	if s.noting() && s.noteReply(wire.CommandComplete, tag) > 0 {
		return nil
	}
	return s.passSpan(tag)
}
