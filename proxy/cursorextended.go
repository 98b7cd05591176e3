package proxy

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/result"
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

// boundDeclare is a DECLARE that the client has bound to a portal. The portal's Execute carries it out.
type boundDeclare struct {
	cursor *rewrite.CursorStatement
	cs     statement.Client // a copy from the time of the Bind
	values []byte           // as in cursor
}

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

// saveDeclare returns a copy of a DECLARE's statement and Bind parameters. It returns nil for other statements.
func (b *pendingBind) saveDeclare() *boundDeclare {
	if b.cs.Declares == nil {
		return nil
	}
	d := &boundDeclare{cursor: b.cs.Declares, cs: *b.cs}
	d.cs.Declares, d.cs.Listed = nil, false
	if values, _, ok := wire.SplitBind(b.rest); ok { // else the server refuses the Bind
		d.values = bytes.Clone(values)
	}
	return d
}

// executeDeclare runs the Execute of a DECLARE. A returned error goes to the client. After nil the frame is answered or
// skipped. It uses the copy in p.declares, since the client may since have closed or replaced the prepared statement.
func (s *session) executeDeclare(name []byte, p portal) error {
	switch {
	case s.txStatus() == 'E':
		return errAborted
	case p.done:
		return errPortalDone(name)
	case !s.inBlock() && !p.declares.cursor.Hold:
		return errDeclareOutside
	}
	p.done, s.t.request.ranLocal = true, true
	s.portals.update(name, p)
	d := p.declares
	cs := d.cs
	if err := s.declareCursor(d.cursor, &cs, d.values, false); err != nil || s.t.server.skip || s.t.settled {
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
		return errFetchLimited
	}
	stored := s.stored.byName[c.Name] != nil
	if err := s.runCursorCommand(c, formats, false); err != nil || s.t.server.skip || s.t.settled || stored {
		return err
	}
	s.bumpCommandCounter() // as after any statement: the portal is suspended
	return nil
}

// bindFetch records in p the result formats of a FETCH's Bind, and at once changes the cursor to them. The client may
// describe the portal before its Execute. rest is the Bind after its names. If t.skip is set, the client already has
// an error of the server.
func (s *session) bindFetch(p *portal, rest []byte) error {
	c := p.plan.SingleStatement().Cursor
	if c == nil || c.Verb != rewrite.FetchCursor {
		return nil
	}
	values, formats, ok := wire.SplitBind(rest)
	if !ok {
		return wire.ErrFormat
	}
	if p.formats = bytes.Clone(formats); s.portals.named[c.Name].cursor == nil {
		return s.stored.checkFormats(c.Name, int(binary.BigEndian.Uint16(rest[len(values):])))
	}
	return s.setCursorFormats(c.Name, p.formats)
}

// describeLocally describes a statement or portal that Sluice answers, with result formats. Sluice describes the
// rows of a stored cursor, the server those of any other cursor. FETCH from an unknown cursor returns no rows, as in
// PostgreSQL, where only its Execute fails.
func (s *session) describeLocally(plan *rewrite.Plan, formats []byte) error {
	c := plan.SingleStatement().Cursor
	if c != nil && c.Verb == rewrite.FetchCursor && s.stored.byName[c.Name] != nil {
		return s.queueReply(s.stored.byName[c.Name].RowDescription(formats))
	}
	if c == nil || c.Verb != rewrite.FetchCursor || s.portals.named[c.Name].cursor == nil || s.b == nil {
		return s.queueReply(result.DescribeOrNoData(s.srv.handlers[plan.SingleStatement().Does].columns, plan.SingleStatement()))
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
		return errDeclareLong
	}
	params, _ := s.t.desc.SplitFrames()
	return s.queueReply(bytes.Clone(params), wire.FrameNoData)
}

// replaceError adds a hint to the error 0A000 of an Execute with a row limit. It adds none if the cluster has
// suspended a portal before, since in that case the query itself causes the error.
func (c cursorReply) replaceError(s *session, o *pendingReply, payload []byte) *answer.ErrorHandling {
	if o.plan == nil || c.run.limit == 0 || s.srv.pool.suspends.Load() || string(retry.ErrorField(payload, 'C')) != "0A000" {
		return nil
	}
	s.srv.log.Warn("a FETCH was refused: this cluster may not suspend portals", append(s.logAttrs(), "message", string(retry.ErrorField(payload, 'M')))...)
	return &answer.ErrorHandling{Hint: "Sluice carries FETCH out by a portal that is read in parts, which this cluster may not support: then FETCH ALL, or do without a cursor and page by key."}
}

var (
	errDeclareOutside = &wire.Error{Code: "25P01", Message: "DECLARE CURSOR can only be used in transaction blocks"}
	errForwardOnly    = &wire.Error{Code: "55000", Message: "cursor can only scan forward",
		Hint: "Declare it with SCROLL option to enable backward scan."}
	errFetchElsewhere = &wire.Error{Code: retry.StateUnsupported, Message: "cursors go forward only, by a number of rows or to the end",
		Detail: "DSQL has no cursors: Sluice carries them out over portals of the protocol.",
		Hint:   "FETCH FORWARD n, FETCH NEXT or FETCH ALL; to go back, run the query again."}
	errFetchLimited = &wire.Error{Code: retry.StateUnsupported, Message: "FETCH cannot be executed with a limit on rows",
		Hint: "Give the number of rows in FETCH alone, and set no fetch size."}
	errCursorFormats = &wire.Error{Code: retry.StateUnsupported, Message: "this cursor can no longer be read in another format",
		Detail: "The format of a cursor's rows is settled by the first FETCH, which must come before anything is written.",
		Hint:   "Fetch from the cursor in one format, text or binary; and FETCH once before the transaction writes, if it is to be binary."}
	errHoldInString = &wire.Error{Code: retry.StateUnsupported, Message: "the COMMIT of a transaction with a cursor WITH HOLD must not share a string with other statements",
		Detail: "What is left of the cursor's rows is read in front of the COMMIT.", Hint: "Send COMMIT by itself."}
	errHoldScrolls = &wire.Error{Code: retry.StateUnsupported, Message: "a cursor WITH HOLD that scrolls cannot be declared inside a transaction",
		Detail: "Until the COMMIT Sluice carries it out over a portal of the protocol, which goes forward only.",
		Hint:   "Declare it outside of the transaction, or NO SCROLL."}
	errCursorUnparsed = &wire.Error{Code: retry.StateUnsupported, Message: "the query of this cursor cannot be read as it stands",
		Hint: "Leave standard_conforming_strings on and the client's encoding at UTF8."}
	errCursorSplit = &wire.Error{Code: retry.StateUnsupported, Message: "this cluster takes FOR UPDATE in a cursor on one table only",
		Hint: "Lock the rows in a statement of their own, and declare the cursor without the clause."}
	errCursorSequence = &wire.Error{Code: retry.StateUnsupported, Message: "currval and lastval are not supported in the query of a cursor",
		Hint: "Ask for the number by a SELECT of its own."}
	errDeclareLong = &wire.Error{Code: retry.StateUnsupported, Message: "the query of this cursor has too many columns to be described",
		Hint: "Name fewer columns."}
)

// errNotDeclaredCursor refuses FETCH, MOVE and CLOSE of a portal that the client has bound by the protocol. Sluice does
// not know that portal's result formats.
func errNotDeclaredCursor(name string) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("portal \"%s\" is no cursor of DECLARE", name),
		Hint: "Execute and close it by the protocol."}
}

// errPortalDone returns PostgreSQL's error for the Execute of a portal that has already run.
func errPortalDone(name []byte) *wire.Error {
	return &wire.Error{Code: "55000", Message: fmt.Sprintf("portal \"%s\" cannot be run", name)}
}
