package proxy

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Statements about cursors in the extended protocol. A DECLARE is prepared as the cursor's
// query: so the server looks at it at the Parse, and at the parameters at the Bind, under the
// portal's own name. Its Execute binds the query once more, under the cursor's. Portals of
// FETCH, MOVE and CLOSE are Sluice's (executeLocal). At the end stand the errors.

// declaration is what it takes to carry out the DECLARE that a portal is bound to.
type declaration struct {
	cursor *rewrite.Cursor
	cs     clientStatement // as it was at the Bind
	values []byte          // as in cursor
}

// declaredBy is what a text declares, if it is a DECLARE that Sluice carries out; else nil.
func declaredBy(plan *rewrite.Plan) *rewrite.Cursor {
	if st := plan.Single(); st != nil && st.Refusal == nil && st.Cursor != nil && st.Cursor.Verb == rewrite.DeclareCursor {
		return st.Cursor
	}
	return nil
}

// declarationOf keeps the Bind of a DECLARE; rest is what follows its names.
func declarationOf(cs *clientStatement, rest []byte) *declaration {
	d := &declaration{cursor: cs.declares, cs: *cs}
	d.cs.declares = nil
	if values, _, ok := splitBind(rest); ok { // else the server refuses it
		d.values = bytes.Clone(values)
	}
	return d
}

// executeDeclare is Execute of a DECLARE. An error is for the client.
func (s *session) executeDeclare(name []byte, p portal) error {
	switch {
	case s.status() == 'E':
		return errAborted
	case p.done:
		return errPortalDone(name)
	case !s.inBlock():
		return errDeclareOutside
	}
	p.done = true
	s.keepPortal(name, p)
	d := p.declares
	cs := d.cs
	if err := s.declare(d.cursor, &cs, d.values); err != nil || s.t.skip || s.t.settled {
		return err
	}
	s.increment()
	return nil
}

// executeCursor is Execute of FETCH, MOVE, CLOSE or CLOSE ALL up to that many rows; 0 is all.
func (s *session) executeCursor(st *rewrite.Statement, formats []byte, limit uint32) error {
	c := st.Cursor
	switch {
	case c == nil:
		return s.closeCursors()
	case c.Verb == rewrite.FetchCursor && int32(limit) > 0:
		return errFetchLimited
	}
	if err := s.useCursor(c, formats, false); err != nil || s.t.skip || s.t.settled {
		return err
	}
	s.increment() // as at the end of any statement: the portal is suspended
	return nil
}

// bindFetch notes the formats that a Bind of FETCH asks for, and has its cursor come in these:
// the client may have it described before it is run. rest is what follows the names of the
// Bind. An error is for the client; with t.skip the server's was told.
func (s *session) bindFetch(p *portal, rest []byte) error {
	c := p.plan.Single().Cursor
	if c == nil || c.Verb != rewrite.FetchCursor {
		return nil
	}
	_, formats, ok := splitBind(rest)
	if !ok {
		return wire.ProtocolViolation("invalid message format")
	}
	if p.formats = bytes.Clone(formats); s.portals[c.Name].cursor == nil {
		return nil
	}
	return s.inFormats(c.Name, p.formats)
}

// splitBind splits what follows the names of a Bind: the parameters, and the result formats, nil
// where all are text. ok is false where it is not well-formed.
func splitBind(rest []byte) (values, formats []byte, ok bool) {
	at := 0
	count := func() int {
		if len(rest) < at+2 {
			ok = false
			return 0
		}
		at += 2
		return int(binary.BigEndian.Uint16(rest[at-2:]))
	}
	ok = true
	at += 2 * count()
	for n := count(); n > 0 && ok; n-- {
		if ok = len(rest) >= at+4; ok {
			at += 4 + max(int(int32(binary.BigEndian.Uint32(rest[at:]))), 0)
		}
	}
	if !ok || len(rest) < at {
		return nil, nil, false
	}
	values = rest[:at]
	if n := count(); !ok || len(rest) != at+2*n {
		return nil, nil, false
	}
	if bytes.Count(rest[at:], []byte{0}) == len(rest)-at {
		return values, nil, true
	}
	return values, rest[at:], true
}

// describeLocal answers what a statement or portal that Sluice answers returns. The rows of a
// cursor are described by the server; where there is none, FETCH returns nothing.
func (s *session) describeLocal(plan *rewrite.Plan) error {
	c := plan.Single().Cursor
	if c == nil || c.Verb != rewrite.FetchCursor || s.portals[c.Name].cursor == nil || s.b == nil {
		return s.tell(localDescription(plan)...)
	}
	if err := s.ensureBackend(); err != nil {
		return err
	}
	s.describeCursor(c.Name, s.portals[c.Name])
	return nil
}

// describeDeclared answers Describe of a statement that is a DECLARE: it has the parameters of
// the query, and returns nothing. The server is asked for the query, for nobody.
func (s *session) describeDeclared(cs *clientStatement) error {
	cs.tmpl = cs.tmpl.inForce()
	if err := s.ensureBackend(); err != nil {
		return err
	}
	st, err := s.onBackend(cs)
	if err != nil || st == nil {
		return err
	}
	s.describeSilently(st)
	if err := s.makeAnswer(); err != nil || s.t.skip {
		return err
	}
	if s.b == nil || s.t.desc == nil {
		return errDeclareLong
	}
	params, _ := s.t.desc.parts()
	return s.tell(bytes.Clone(params), wire.FrameNoData)
}

// hintOfCursor is the hint for the first error of a limited Execute, where nobody knows whether
// the cluster suspends portals; "" for any other.
func (s *session) hintOfCursor(o *owed, payload []byte) string {
	if o.cursor == nil || o.cursor.limit == 0 || s.srv.suspends.Load() || string(retry.Field(payload, 'C')) != "0A000" {
		return ""
	}
	s.srv.log.Warn("a FETCH was refused: this cluster may not suspend portals", append(s.logAttrs(), "message", string(retry.Field(payload, 'M')))...)
	return "Sluice carries FETCH out by a portal that is read in parts, which this cluster may not support: then FETCH ALL, or do without a cursor and page by key."
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
	errCursorUnread = &wire.Error{Code: retry.StateUnsupported, Message: "the query of this cursor cannot be read as it stands",
		Hint: "Leave standard_conforming_strings on and the client's encoding at UTF8."}
	errCursorSplit = &wire.Error{Code: retry.StateUnsupported, Message: "this cluster takes FOR UPDATE in a cursor on one table only",
		Hint: "Lock the rows in a statement of their own, and declare the cursor without the clause."}
	errCursorSequence = &wire.Error{Code: retry.StateUnsupported, Message: "currval and lastval are not supported in the query of a cursor",
		Hint: "Ask for the number by a SELECT of its own."}
	errDeclareLong = &wire.Error{Code: retry.StateUnsupported, Message: "the query of this cursor has too many columns to be described",
		Hint: "Name fewer columns."}
)

// errNoCursor is PostgreSQL's error of a name that no cursor has.
func errNoCursor(name string) *wire.Error {
	return &wire.Error{Code: "34000", Message: fmt.Sprintf("cursor \"%s\" does not exist", name)}
}

// errPortalFetched refuses statements about a portal that the client has bound: the formats of
// its rows are not known.
func errPortalFetched(name string) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("portal \"%s\" is no cursor of DECLARE", name),
		Hint: "Execute and close it by the protocol."}
}

// errPortalDone is PostgreSQL's error of a portal that has run.
func errPortalDone(name []byte) *wire.Error {
	return &wire.Error{Code: "55000", Message: fmt.Sprintf("portal \"%s\" cannot be run", name)}
}
