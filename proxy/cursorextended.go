package proxy

import (
	"bytes"
	"encoding/binary"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/cursor"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file has statements about cursors in the extended protocol. Sluice prepares a DECLARE as the cursor's query:
// the server checks the query at the Parse, and parameters at the Bind. The Execute binds the query again, under the
// cursor's name. So the snapshot is that of the Execute, and a DECLARE that is only bound opens no cursor.
//
// Sluice runs portals of FETCH, MOVE and CLOSE itself (executeLocalPortal). DECLARE does not say in which format the
// client wants the rows, so that a cursor is first bound for text. The Bind of the first FETCH says the format, and the
// cursor is bound again (bindFetch). The errors are at the end of the file.

// boundDeclare handles the portal of a DECLARE that the client has bound. The portal's Execute carries the DECLARE out.
type boundDeclare struct{ cursor.Declared }

// checkParse checks whether the client may prepare a query under a name. For a DECLARE it returns the template of
// the cursor's query, and the cursor. The caller sends an error to the client, and does not use the name.
func (s *session) checkParse(name []byte, tmpl *statement.Template, oids []byte) (*statement.Template, *rewrite.CursorStatement, error) {
	if err := s.checkStatementName(name); err != nil {
		return nil, nil, err
	}
	if err := s.checkTextFits(name, tmpl); err != nil {
		return nil, nil, err
	}
	if err := s.currentPlanRefusal(tmpl.Plan); err != nil {
		return nil, nil, err
	}
	c := s.declaredCursor(tmpl.Plan)
	if c == nil {
		return tmpl, nil, nil
	}
	tmpl, err := s.cursorQueryTemplate(c, oids)
	return tmpl, c, err
}

// recordDeclare records that the prepared statement with this name and text sql is a DECLARE. c is nil for other
// statements. A comment in sql that forbids replays counts for the cursor's query too.
func (s *session) recordDeclare(name []byte, c *rewrite.CursorStatement, sql []byte) {
	if c != nil {
		cs := s.statements.Find(name)
		cs.Declares, cs.OptsOut = c, retry.HasNoRetryComment(sql)
	}
}

// declaredCursor returns the cursor of a plan that is a DECLARE which Sluice carries out, or nil.
func (s *session) declaredCursor(plan *rewrite.Plan) *rewrite.CursorStatement {
	if st := plan.SingleStatement(); s.framedHandlerFor(st) != nil && st.Cursor != nil && st.Cursor.Verb == rewrite.DeclareCursor {
		return st.Cursor
	}
	return nil
}

// saveDeclare returns a copy of the statement and the parameters of a DECLARE's Bind, and nil for other statements.
func (b *pendingBind) saveDeclare() portalWork {
	if b.cs.Declares == nil {
		return nil
	}
	d := &boundDeclare{cursor.Declared{Cursor: b.cs.Declares, Query: *b.cs}}
	d.Query.Declares, d.Query.Listed = nil, false
	if values, _, ok := wire.SplitBind(b.rest); ok { // else the server refuses the Bind
		d.Values = bytes.Clone(values)
	}
	return d
}

func (*boundDeclare) describe(s *session, _ []byte) error { return s.queueReply(wire.FrameNoData) }

// close has Sluice close the portal like any other, since the server has the portal of a DECLARE's query.
func (*boundDeclare) close(*session, []byte) (done bool, err error) { return false, nil }

func (d *boundDeclare) bytes() int { return len(d.Values) }

// execute runs the Execute of a DECLARE. A returned error goes to the client. After nil the frame is answered or
// skipped. It uses the copy in d, since the client may since have closed or replaced the prepared statement.
func (d *boundDeclare) execute(s *session, name []byte, p portal, _ []byte) error {
	switch {
	case s.txStatus() == 'E':
		return sqlerror.Aborted
	case p.done:
		return cursor.ErrPortalDone(name)
	case !s.inBlock() && !d.Cursor.Hold:
		return cursor.ErrDeclareOutside
	}
	p.done, s.t.request.ranLocal = true, true
	s.portals.update(name, p)
	cs := d.Query
	if err := s.declareCursor(d.Cursor, &cs, d.Values, false); err != nil || s.t.server.skip || s.t.settled {
		return err
	}
	s.bumpCommandCounter()
	return nil
}

// executeCursor runs the Execute of FETCH, MOVE, CLOSE or CLOSE ALL with a row limit (0: none). A FETCH with a limit
// is refused. PostgreSQL would move the cursor by the whole FETCH, and return the rest at the next Execute.
func (s *session) executeCursor(st *rewrite.Statement, formats []byte, limit uint32) error {
	c := st.Cursor
	switch {
	case c == nil:
		return s.closeAllCursors()
	case c.Verb == rewrite.FetchCursor && int32(limit) > 0:
		return cursor.ErrFetchLimited
	}
	stored := s.stored.Find(c.Name) != nil
	if err := s.runCursorCommand(c, formats, false); err != nil || s.t.server.skip || s.t.settled || stored {
		return err
	}
	s.bumpCommandCounter() // as after any statement: the portal is suspended
	return nil
}

// bindFetch records in p the result formats of a FETCH's Bind, and at once changes the cursor to them. The client may
// describe the portal before its Execute. If t.skip is set, the client already has an error of the server.
func bindFetch(s *session, p portal, b pendingBind) (portal, error) {
	if p, err := validateBind(s, p, b); err != nil {
		return p, err
	}
	c := p.plan.SingleStatement().Cursor
	if c.Verb != rewrite.FetchCursor {
		return p, nil
	}
	values, formats, ok := wire.SplitBind(b.rest)
	if !ok {
		return p, wire.ErrFormat
	}
	if p.formats = bytes.Clone(formats); s.portals.named[c.Name].cursor == nil {
		return p, s.stored.CheckFormats(c.Name, int(binary.BigEndian.Uint16(b.rest[len(values):])))
	}
	return p, s.setCursorFormats(c.Name, p.formats)
}

// describeFetch describes a statement about a cursor, in the formats of its portal. Sluice describes the rows of a
// stored cursor, the server those of any other cursor. FETCH from an unknown cursor returns no rows, as in PostgreSQL,
// where only its Execute fails.
func describeFetch(s *session, p portal) error {
	c := p.plan.SingleStatement().Cursor
	if c.Verb == rewrite.FetchCursor && s.stored.Find(c.Name) != nil {
		return s.queueReply(s.stored.Find(c.Name).RowDescription(p.formats))
	}
	if c.Verb != rewrite.FetchCursor || s.portals.named[c.Name].cursor == nil || s.b == nil {
		return s.queueReply(wire.FrameNoData)
	}
	if err := s.ensureBackend(); err != nil {
		return err
	}
	s.t.describeCursor(c.Name, s.portals.named[c.Name])
	return nil
}

// describeDeclare describes a prepared DECLARE, which has the query's parameters and returns no rows. The client
// does not get the server's description of the query. So the query's columns may change later
// (statement.Client.Described).
func (s *session) describeDeclare(cs *statement.Client) error {
	cs.Template = cs.Template.CurrentForm()
	if err := s.ensureBackend(); err != nil {
		return err
	}
	// If earlier frames before the Sync cause a replay, it does not repeat Sluice's Describe, but this loop does.
	for attempts := -1; attempts != s.tx.attempts.Count(); {
		attempts = s.tx.attempts.Count()
		st, err := s.prepareForClient(cs)
		if err != nil || st == nil {
			return err
		}
		s.describeSilently(st)
		if err := s.flushAndRelay(); err != nil || s.t.server.skip || s.t.settled {
			return err
		}
	}
	if s.t.desc == nil {
		return cursor.ErrDeclareLong
	}
	params, _ := s.t.desc.SplitFrames()
	return s.queueReply(bytes.Clone(params), wire.FrameNoData)
}

// replaceError adds a hint to the error 0A000 of an Execute with a row limit. It adds none if the cluster has
// suspended a portal before, since in that case the query itself causes the error.
func (c cursorReply) replaceError(s *session, o *pendingReply, payload []byte) *answer.ErrorHandling {
	if o.plan == nil || c.run.Limit == 0 || s.srv.pool.suspends.Load() || string(retry.ErrorField(payload, 'C')) != "0A000" {
		return nil
	}
	s.srv.log.Warn("a FETCH was refused: this cluster may not suspend portals", append(s.logAttrs(), "message", string(retry.ErrorField(payload, 'M')))...)
	return &answer.ErrorHandling{Hint: "Sluice carries FETCH out by a portal that is read in parts, which this cluster may not support: then FETCH ALL, or do without a cursor and page by key."}
}
