package proxy

import (
	"maps"
	"slices"

	"github.com/sluice-proxy/sluice/proxy/advisory"
	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/cursor"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// DSQL has no cursors in SQL (rewrite.CursorStatement). Sluice makes one from a portal of the cursor's query, under
// the cursor's name: DECLARE becomes a Bind, FETCH and MOVE an Execute with a row limit, CLOSE a Close. So clients
// can also describe and close cursors by the protocol, and the server checks that names are unique. A replay's log
// has these frames too. Sluice drops replies that PostgreSQL would not send, and rewrites command tags (cursorReply).
//
// A statement arrives by a simple Query (runCursorQuery) or by the extended protocol (cursorextended.go). A cursor is
// one of the session's portals (openPortals), which end with their transaction. It shows the transaction's rows as of
// its DECLARE, since the server takes a portal's snapshot at the Bind.
//
// One difference remains: PostgreSQL sends a FETCH's rows after the FETCH has succeeded, Sluice as the rows arrive.
// So the client may get rows before an error.

// cursorByFrames handles statements about cursors by frames for the server, if Statement.Refusal (an error) is nil.
var cursorByFrames = &framedHandler{applies: func(_ *session, st *rewrite.Statement) bool { return st.Refusal == nil },
	query: (*session).runCursorQuery, execute: (*session).executeCursor}

// closeAllByFrames handles CLOSE ALL by frames for the server while a portal or stored cursor is open. With none
// open, localstatements.go answers CLOSE ALL. In a failed block the server refuses it.
var closeAllByFrames = &framedHandler{applies: func(s *session, st *rewrite.Statement) bool {
	return st.Refusal == nil && (len(s.portals.named) > 0 || !s.stored.IsEmpty()) && s.txStatus() != 'E'
}, query: (*session).runCursorQuery, execute: (*session).executeCursor}

// runCursorQuery runs a simple Query of one statement about cursors. If the result is nil, the turn is over.
// Meanwhile t.request.ended is false (frames may follow). After an error the server skips to endSimpleQuery's Sync.
func (s *session) runCursorQuery(plan *rewrite.Plan, st *rewrite.Statement) error {
	t := s.t
	if t.server.internalTx.on { // the tag would precede the COMMIT of the write
		return advisory.ErrCursor
	}
	t.request.plan, t.request.ended = plan, false
	err := s.runCursorStatement(st)
	if t.request.ended = true; err != nil {
		return err
	}
	// After an error the server skips frames up to the Sync that endSimpleQuery sends, so that the turn need not skip
	// any. If the session lost its backend by the error, endSimpleQuery sends nothing.
	t.server.skip = false
	return s.endSimpleQuery()
}

// runCursorStatement runs one statement about cursors from a simple Query. A returned error goes to the client. After
// nil, the client may have got an error from the server (t.skip).
func (s *session) runCursorStatement(st *rewrite.Statement) error {
	c := st.Cursor
	switch {
	// As in PostgreSQL, the error of a failed block comes before errors of the cursor's query. These come before the
	// error of a DECLARE outside a block. The server reports a duplicate name at the Bind.
	case s.txStatus() == 'E':
		return sqlerror.Aborted
	case c == nil:
		return s.closeAllCursors()
	case c.Verb != rewrite.DeclareCursor:
		return s.runCursorCommand(c, nil, true)
	}
	tmpl, err := s.cursorQueryTemplate(c, wire.NoOIDs)
	if err != nil {
		return err
	}
	cs := s.newClientStatement(tmpl, 0)
	if !s.inBlock() && !c.Hold {
		return s.failDeclare(&cs, cursor.ErrDeclareOutside)
	}
	return s.declareCursor(c, &cs, noParameters, true)
}

// failDeclare makes the server check a DECLARE's query, and returns why if the server does not refuse the query.
func (s *session) failDeclare(cs *statement.Client, why *wire.Error) error {
	if err := s.admitPlan(cs.Template.Plan); err != nil {
		return err
	}
	if _, err := s.prepareForClient(cs); err != nil {
		return err
	}
	if err := s.flushAndRelay(); err != nil || s.t.server.skip {
		return err
	}
	return why
}

// noParameters is the part of a Bind between its names and its result formats if the statement has no parameters.
var noParameters = []byte{0, 0, 0, 0}

// declareCursor opens a cursor in a block, or one WITH HOLD outside. cs is the statement of the cursor's query,
// values are the Bind's parameters, and simple means a simple Query. If t.skip is set, the client already has the
// server's error. Only Sluice has the names of stored cursors, and reports a duplicate last.
func (s *session) declareCursor(c *rewrite.CursorStatement, cs *statement.Client, values []byte, simple bool) error {
	switch {
	case s.stored.Find(c.Name) != nil:
		return s.failDeclare(cs, sqlerror.PortalExists([]byte(c.Name)))
	case c.Hold && c.Scroll && s.inBlock():
		return cursor.ErrHoldScrolls
	}
	made := &cursor.Cursor{NoScroll: c.NoScroll, Hold: c.Hold, Query: cs, Values: values, WritesAtDeclare: s.tx.changes}
	if err := s.bindCursor(c.Name, made); err != nil || s.t.server.skip || s.t.settled {
		return err
	}
	if s.t.rec.logs {
		s.tx.log.RecordWrite() // a return to an earlier savepoint closes the cursor
	}
	if c.Hold && !s.inBlock() && (simple || !c.NoScroll) {
		return s.declareStoredCursor(c, simple)
	}
	return s.queueReply(frameDeclared)
}

var frameDeclared = wire.AppendCommandComplete(nil, "DECLARE CURSOR")

// bindCursor binds a cursor's portal, by bindOnBackend as for a Bind of the client. The client gets no BindComplete.
// bindOnBackend also finds out whether the cursor's query may write.
func (s *session) bindCursor(name string, c *cursor.Cursor) error {
	return s.bindOnBackend(&pendingBind{cs: c.Query, portal: []byte(name), rest: c.BindRest(), whole: true, cursor: c})
}

// cursorQueryTemplate returns the template of a cursor's query. It refuses a query that needs more than one portal.
func (s *session) cursorQueryTemplate(c *rewrite.CursorStatement, oids []byte) (*statement.Template, error) {
	tmpl, err := s.templateFor([]byte(c.Query), oids)
	if err == nil {
		err = planRefusal(tmpl.Plan)
	}
	if err == nil {
		err = cursor.QueryError(tmpl)
	}
	if err != nil {
		return nil, err
	}
	return tmpl, nil
}

// findOpenCursor returns the portal of the cursor that FETCH, MOVE or CLOSE names. A returned error goes to the client.
func (s *session) findOpenCursor(c *rewrite.CursorStatement) (portal, error) {
	p := s.portals.named[c.Name]
	switch {
	case s.txStatus() == 'E':
		return p, sqlerror.Aborted
	case !p.open:
		return p, s.parts.ErrUnknownCursor(c.Name)
	case p.cursor == nil:
		return p, cursor.ErrNotDeclared(c.Name)
	case c.Elsewhere:
		return p, s.failUnsupportedFetch(c, p)
	}
	return p, nil
}

// failUnsupportedFetch returns the error of a FETCH or MOVE that does not go forward. In PostgreSQL the failed portal
// stays unusable even after a return to a savepoint. The server's portal has not failed here, and Sluice therefore
// refuses a return to an earlier savepoint.
func (s *session) failUnsupportedFetch(c *rewrite.CursorStatement, p portal) error {
	if err := s.ensureBackend(); err != nil {
		return err
	}
	if s.t.rec.trackPortalRun(p); s.t.rec.logs && s.tx.moved == s.tx.log.TurnCount()+1 {
		s.tx.moved++ // cut the log's turn before the refusal
	}
	return p.cursor.BackwardError(c)
}

// runCursorCommand runs FETCH, MOVE or CLOSE of a cursor, with result formats. With describe set, the client also gets
// the rows' description. A returned error goes to the client. After nil the frames were sent or skipped (t.skip).
func (s *session) runCursorCommand(c *rewrite.CursorStatement, formats []byte, describe bool) error {
	if s.stored.Find(c.Name) != nil {
		return s.runStoredCursor(c, formats, describe)
	}
	p, err := s.findOpenCursor(c)
	if err != nil {
		return err
	}
	// No round trip is needed. A cursor that Sluice has recorded is open at the server. If a pending reply is an error,
	// the server skips the frames of this FETCH, MOVE or CLOSE too.
	switch c.Verb {
	case rewrite.CloseCursor:
		if err := s.closeCursor(c.Name); err != nil {
			return err
		}
		return s.queueReply(wire.AppendCommandComplete(nil, "CLOSE CURSOR"))
	case rewrite.FetchCursor: // MOVE returns no rows: any format will do
		if err := s.setCursorFormats(c.Name, formats); err != nil || s.t.server.skip || s.t.settled {
			return err
		}
		p = s.portals.named[c.Name]
	}
	if err := s.ensureBackend(); err != nil {
		return err
	}
	if describe && c.Verb == rewrite.FetchCursor {
		s.t.describeCursor(c.Name, p)
	}
	s.t.rec.trackPortalRun(p)
	if !p.cursor.WasFetched {
		p.cursor = p.cursor.Fetched()
		s.portals.update([]byte(c.Name), p)
	}
	// Sluice sends FETCH and MOVE as an Execute of the cursor's portal, and counts the rows.
	frame := cursor.ExecuteFrame(c.Name, c.Rows)
	p.run = &cursor.Fetch{Move: c.Verb == rewrite.MoveCursor, Limit: c.Rows}
	s.logPlan(p.plan)
	s.tx.ran.Record(p.plan)
	o := s.t.pushStatementReply(wire.Execute, p.plan)
	o.text = p.text
	s.t.markFetchReply(o, p.run)
	s.recordPortalRun(&p, nil, frame)
	s.t.addToBatch(frame)
	return nil
}

// markFetchReply records that the pending reply o answers run, a FETCH or MOVE. For any other Execute, run is nil. If
// the client does not get the rows, Sluice reads them one by one.
func (t *turn) markFetchReply(o *pendingReply, run *cursor.Fetch) {
	if run == nil {
		return
	}
	o.reply = chainHandlers(o.reply, cursorReply{run: run})
	t.output.inspectsFrames = t.output.inspectsFrames || run.Move || run.Into != nil
}

// describeCursor makes the server describe a cursor's portal to the client. The session must have its backend.
func (t *turn) describeCursor(name string, p portal) {
	frame := wire.AppendDescribeOrClose(nil, wire.Describe, 'P', name)
	t.rec.logFrame(wire.Describe, logEntry{plan: p.plan}, frame[wire.HeaderLen:])
	t.pushStatementReply(wire.Describe, p.plan)
	t.addToBatch(frame)
}

// setCursorFormats changes the result formats of an open cursor, which was bound for text. It binds the portal
// again. After a FETCH, or a later write of the transaction, it returns cursor.ErrFormats. If t.skip is set, the
// client already has an error of the server.
func (s *session) setCursorFormats(name string, formats []byte) error {
	p := s.portals.named[name]
	if slices.Equal(p.cursor.Formats, formats) {
		return nil
	}
	again, err := p.cursor.WithFormats(formats, p.seq, s.tx.changes)
	if err != nil {
		return err
	}
	if err := s.closeCursor(name); err != nil {
		return err
	}
	return s.bindCursor(name, again)
}

// closeCursor closes a cursor's portal. The client gets no CloseComplete. A return to an earlier savepoint would have
// to reopen the cursor, so closeCursor first records that the cursor's portal was used.
func (s *session) closeCursor(name string) error {
	if err := s.ensureBackend(); err != nil {
		return err
	}
	s.t.rec.trackPortalRun(s.portals.named[name])
	s.portals.drop(name)
	frame := wire.AppendDescribeOrClose(nil, wire.Close, 'P', name)
	s.t.rec.logFrame(wire.Close, logEntry{silent: true}, frame[wire.HeaderLen:])
	s.t.owed.push(wire.Close).swallow = true
	s.t.addToBatch(frame)
	return nil
}

// closeAllCursors runs CLOSE ALL while a portal or stored cursor is open. If the client has bound portals by the
// protocol, closeAllCursors refuses CLOSE ALL, which would close these portals too.
func (s *session) closeAllCursors() error {
	for _, p := range s.portals.named {
		if p.cursor == nil && !p.local {
			return sqlerror.PortalsOpen
		}
	}
	if !s.stored.IsEmpty() && !s.t.owed.empty() { // an earlier frame of the group may fail
		if err := s.flushAndRelay(); err != nil || s.t.server.skip || s.t.settled {
			return err
		}
	}
	s.stored.DropAll()
	for _, name := range slices.Sorted(maps.Keys(s.portals.named)) {
		if s.portals.named[name].local {
			s.portals.drop(name)
		} else if err := s.closeCursor(name); err != nil {
			return err
		}
	}
	return s.queueReply(wire.AppendCommandComplete(nil, "CLOSE CURSOR ALL"))
}

// cursorReply handles the server's answer to a FETCH or MOVE, or to an Execute whose rows Sluice stores.
type cursorReply struct {
	run *cursor.Fetch
}

// handleFrame handles a frame of the answer to FETCH or MOVE. It stores the rows of a stored cursor, drops the rows of
// MOVE, and replaces the command tag at the end.
func (c cursorReply) handleFrame(s *session, o *pendingReply, f answer.Frame) (frameVerdict, error) {
	row := f.IsRow()
	switch {
	case c.run.Into != nil && (row || f.Type == wire.RowDescription):
		s.storeRow(c.run.Into, f)
	case c.run.Move && row:
		s.t.server.rows++
	case f.Means == answer.Completes:
		return swallow, c.completeFetch(s, o, f.Type, f.Bytes)
	default:
		return undecided, nil
	}
	return swallow, nil
}

// completeFetch completes FETCH or MOVE at the server's last frame. The client gets the count of rows. If the server
// sends more rows than the limit, that is an error, since the next FETCH would miss them.
func (c cursorReply) completeFetch(s *session, o *pendingReply, typ byte, frame []byte) error {
	run, rows := c.run, s.t.server.rows
	if !run.FitsEnd(typ, rows) {
		s.srv.log.Error("a portal was not suspended where it should be", append(s.logAttrs(), "limit", run.Limit, "rows", rows)...)
		return s.unexpectedFrameError(typ)
	}
	if typ == wire.PortalSuspended {
		s.srv.pool.suspends.Store(true)
	}
	s.recordCompletion(o, typ, frame)
	if s.t.owed.pop(); run.Into != nil {
		return nil
	}
	// The replay log compares the rewritten command tag. The answer to MOVE gives the client only the number of rows.
	tag := run.Tag(rows)
	if s.t.rec.isRecording() && s.recordReply(wire.CommandComplete, tag) > 0 {
		return nil
	}
	return s.sendOrWithhold(tag)
}
