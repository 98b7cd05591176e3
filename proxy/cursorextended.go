package proxy

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Statements about cursors in the extended protocol. A DECLARE is prepared as the cursor's
// query: so the server looks at it at the Parse, and at the parameters at the Bind, under the
// portal's own name. Its Execute binds the query once more, under the cursor's: the snapshot is
// of that moment, and a DECLARE that is never executed opens nothing.
//
// Portals of FETCH, MOVE and CLOSE are Sluice's, as those of other statements that it answers
// (executeLocal). A cursor is bound in text, since DECLARE does not say in which format the rows
// will be wanted; the first Bind of a FETCH does, and then it is bound anew (bindFetch). At the
// end of the file stand the errors.

// declaration is what it takes to carry out the DECLARE that a portal is bound to.
type declaration struct {
	cursor *rewrite.Cursor
	cs     clientStatement // as it was at the Bind
	values []byte          // as in cursor
}

// mayParse is the template of a text that is to be prepared under a name, and what it declares,
// where it is a DECLARE: then the template is that of the cursor's query. An error is for the
// client, and the name is not given.
func (s *session) mayParse(name []byte, tmpl *template, oids []byte) (*template, *rewrite.Cursor, error) {
	if err := s.mayName(name); err != nil {
		return nil, nil, err
	}
	if err := s.mayKeep(name, tmpl); err != nil {
		return nil, nil, err
	}
	if err := s.refusal(tmpl.plan); err != nil {
		return nil, nil, err
	}
	c := declaredBy(tmpl.plan)
	if c == nil {
		return tmpl, nil, nil
	}
	tmpl, err := s.queryTemplate(c, oids)
	return tmpl, c, err
}

// declares notes what the statement of a name, which was prepared by that text, declares; nil:
// it is no DECLARE. A comment in front of the query counts for the replay too.
func (s *session) declares(name []byte, c *rewrite.Cursor, sql []byte) {
	if c != nil {
		cs := s.statement(name)
		cs.declares, cs.optsOut = c, retry.OptsOut(sql)
	}
}

// wantsNoReplay reports whether a comment says that the statement's transaction is not to be run
// again.
func (cs *clientStatement) wantsNoReplay() bool { return cs.tmpl.optsOut || cs.optsOut }

// declaredBy is what a text declares, if it is a DECLARE that Sluice carries out; else nil.
func declaredBy(plan *rewrite.Plan) *rewrite.Cursor {
	if st := plan.Single(); st != nil && st.Refusal == nil && st.Cursor != nil && st.Cursor.Verb == rewrite.DeclareCursor {
		return st.Cursor
	}
	return nil
}

// declaration keeps the Bind of a DECLARE, which was taken whole; nil for any other.
func (b *binding) declaration() *declaration {
	if b.cs.declares == nil {
		return nil
	}
	d := &declaration{cursor: b.cs.declares, cs: *b.cs}
	d.cs.declares, d.cs.listed = nil, false
	if values, _, ok := wire.SplitBind(b.rest); ok { // else the server refuses it
		d.values = bytes.Clone(values)
	}
	return d
}

// executeDeclare is Execute of a DECLARE. An error is for the client; with nil its frame is
// answered, or skipped. The client may have closed the statement since the Bind, or prepared
// another by its name: the copy counts.
func (s *session) executeDeclare(name []byte, p portal) error {
	switch {
	case s.status() == 'E':
		return errAborted
	case p.done:
		return errPortalDone(name)
	case !s.inBlock() && !p.declares.cursor.Hold:
		return errDeclareOutside
	}
	p.done, s.t.ranLocal = true, true
	s.keepPortal(name, p)
	d := p.declares
	cs := d.cs
	if err := s.declare(d.cursor, &cs, d.values, false); err != nil || s.t.skip || s.t.settled {
		return err
	}
	s.increment()
	return nil
}

// executeCursor is Execute of FETCH, MOVE, CLOSE or CLOSE ALL up to that many rows; 0 is all. A
// FETCH that is itself read in parts is refused: PostgreSQL has the cursor at its end then, and
// keeps the rows that nobody has asked for yet.
func (s *session) executeCursor(st *rewrite.Statement, formats []byte, limit uint32) error {
	c := st.Cursor
	switch {
	case c == nil:
		return s.closeCursors()
	case c.Verb == rewrite.FetchCursor && int32(limit) > 0:
		return errFetchLimited
	}
	stored := s.stored[c.Name] != nil
	if err := s.useCursor(c, formats, false); err != nil || s.t.skip || s.t.settled || stored {
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
	values, formats, ok := wire.SplitBind(rest)
	if !ok {
		return wire.ErrFormat
	}
	if p.formats = bytes.Clone(formats); s.portals[c.Name].cursor == nil {
		return s.mayBindFetch(c.Name, int(binary.BigEndian.Uint16(rest[len(values):])))
	}
	return s.inFormats(c.Name, p.formats)
}

// describeLocal answers what a statement or portal that Sluice answers returns, in these formats.
// The rows of a cursor that is stored are described here, those of another described by the server;
// where there is none, FETCH returns nothing, as PostgreSQL says: that the name is nobody's is an
// error of its Execute.
func (s *session) describeLocal(plan *rewrite.Plan, formats []byte) error {
	c := plan.Single().Cursor
	if c != nil && c.Verb == rewrite.FetchCursor && s.stored[c.Name] != nil {
		return s.tell(s.stored[c.Name].Describe(formats))
	}
	if c == nil || c.Verb != rewrite.FetchCursor || s.portals[c.Name].cursor == nil || s.b == nil {
		return s.tell(result.Described(s.srv.handlers[plan.Single().Does].columns, plan.Single()))
	}
	if err := s.ensureBackend(); err != nil {
		return err
	}
	s.describeCursor(c.Name, s.portals[c.Name])
	return nil
}

// describeDeclared answers Describe of a statement that is a DECLARE: it has the parameters of
// the query, and returns nothing. The server is asked for the query, for nobody. What it says is
// no promise to the client (clientStatement.described), who was told nothing of columns.
func (s *session) describeDeclared(cs *clientStatement) error {
	cs.tmpl = cs.tmpl.inForce()
	if err := s.ensureBackend(); err != nil {
		return err
	}
	// What went before in the group may have the transaction run again, which asks for nothing
	// that nobody is told: then it is asked once more.
	for attempts := -1; attempts != s.tx.attempts.Count(); {
		attempts = s.tx.attempts.Count()
		st, err := s.onBackend(cs)
		if err != nil || st == nil {
			return err
		}
		s.describeSilently(st)
		if err := s.makeAnswer(); err != nil || s.t.skip || s.t.settled {
			return err
		}
	}
	if s.t.desc == nil {
		return errDeclareLong
	}
	params, _ := s.t.desc.parts()
	return s.tell(bytes.Clone(params), wire.FrameNoData)
}

// fails gives a hint with the refusal of a limited Execute, as long as nobody knows whether the cluster
// suspends portals. Once one was suspended, such an error is the query's own.
func (c cursorReply) fails(s *session, o *owed, payload []byte) *answer.Error {
	if o.plan == nil || c.run.limit == 0 || s.srv.suspends.Load() || string(retry.Field(payload, 'C')) != "0A000" {
		return nil
	}
	s.srv.log.Warn("a FETCH was refused: this cluster may not suspend portals", append(s.logAttrs(), "message", string(retry.Field(payload, 'M')))...)
	return &answer.Error{Hint: "Sluice carries FETCH out by a portal that is read in parts, which this cluster may not support: then FETCH ALL, or do without a cursor and page by key."}
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
	errCursorUnread = &wire.Error{Code: retry.StateUnsupported, Message: "the query of this cursor cannot be read as it stands",
		Hint: "Leave standard_conforming_strings on and the client's encoding at UTF8."}
	errCursorSplit = &wire.Error{Code: retry.StateUnsupported, Message: "this cluster takes FOR UPDATE in a cursor on one table only",
		Hint: "Lock the rows in a statement of their own, and declare the cursor without the clause."}
	errCursorSequence = &wire.Error{Code: retry.StateUnsupported, Message: "currval and lastval are not supported in the query of a cursor",
		Hint: "Ask for the number by a SELECT of its own."}
	errDeclareLong = &wire.Error{Code: retry.StateUnsupported, Message: "the query of this cursor has too many columns to be described",
		Hint: "Name fewer columns."}
)

// noCursor is PostgreSQL's error of a name that no cursor has. It may have been one's of a part of the
// transaction that is committed.
func (s *session) noCursor(name string) *wire.Error {
	e := &wire.Error{Code: "34000", Message: fmt.Sprintf("cursor \"%s\" does not exist", name)}
	if s.partlyDone() {
		e.Detail = "A part of the transaction is committed (" + rewrite.InTransactionsKey + "), and its cursors have ended with it."
		e.Hint = "Declare the cursor WITH HOLD, or read it before the next statement of DDL."
	}
	return e
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
