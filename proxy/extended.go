package proxy

import (
	"bytes"
	"encoding/binary"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Frames of the extended protocol: Parse and Execute; Bind is in bind.go, Describe in
// describe.go, Close in portal.go. handle calls parse and execute. What a text is prepared as is in
// templates.go.

// parse prepares a statement under a name of the client's, and answers ParseComplete. The
// server is asked only where nobody knows whether it would take the text: a text that a
// backend has accepted in this epoch of the schema, and one that Sluice answers, are named
// here alone. With an error, which is for the client, the name is not given.
func (s *session) parse(frame []byte) error {
	name, sql, oids, err := parseParts(frame)
	if err != nil {
		return err
	}
	sql, _ = s.ofOwnSchema(sql)
	err = s.parseStatement(name, sql, oids)
	if err != nil && len(name) == 0 && isRefusal(err) {
		s.destroyUnnamed()
	}
	return err
}

// isRefusal reports whether an error is for a client whose session goes on.
func isRefusal(err error) bool { return feature.IsRefusal(err) }

// parseStatement is parse for a frame that was taken apart.
func (s *session) parseStatement(name, sql, oids []byte) error {
	tmpl, err := s.parsedTemplate(name, sql, oids)
	if err != nil {
		return err
	}
	s.note(tmpl.plan)
	if err := s.mayPrepare(tmpl); err != nil {
		return err
	}
	// A failed block takes nothing but what ends it. An empty text it takes.
	refused := s.status() == 'E' && !s.endsFailed(tmpl.plan) && tmpl.plan.Kind != rewrite.Empty
	if refused && (s.state == failed || s.chainsInFailed(tmpl.plan)) {
		return s.errInFailed(tmpl.plan)
	}
	var declared *rewrite.Cursor
	if !refused {
		if tmpl, declared, err = s.mayParse(name, tmpl, oids); err != nil {
			return err
		}
	}
	// A text that the failed block at a server refuses is sent there all the same: the
	// error is the server's.
	prev, since := s.statement(name), uint64(0)
	if s.state == failed || !refused && s.emulates(tmpl.plan) || s.status() != 'E' && (s.maybeLocal(tmpl.plan) || s.known(tmpl)) {
		s.srv.metrics.LocalAnswer(metrics.LocalParse)
		since = s.heard + 1
		// A Parse at the server would have made visible what went before.
		s.increment()
		if s.describedNext(name) {
			s.t.parsed = parsed{on: true, name: string(name), prev: prev}
		} else if err := s.tell(wire.FrameParseComplete); err != nil {
			return err
		}
	} else {
		if tmpl, err = s.parseDescribed(name, tmpl, declared, prev); err != nil {
			return err
		}
	}
	s.nameStatement(name, tmpl, prev, since)
	s.declares(name, declared, sql)
	return nil
}

// mayPrepare makes room for a text, or returns the error of one that no statement can be prepared of, wherever
// that is sent. So every prepared statement has one statement, or none (rewrite.Plan.Single).
func (s *session) mayPrepare(t *template) error {
	if len(t.plan.Statements) > 1 { // as in PostgreSQL it comes first
		return errSeveral
	}
	if st := t.plan.Single(); st != nil && s.srv.handlers[st.Does].params != nil {
		if _, err := s.srv.handlers[st.Does].params(st, t.oids); err != nil {
			return err
		}
	}
	return s.makeRoom(t.plan, t.sql, false)
}

// parseParts takes a Parse frame apart: the name, the text, and the parameter types with
// their count. The error is that of a frame that no server would take.
func parseParts(frame []byte) (name, sql, oids []byte, err error) {
	m := wire.NewMessage(frame[wire.HeaderLen:])
	name, sql = m.String(), m.String()
	oids = m.Rest()
	m.Bytes(4 * m.Uint16())
	return name, sql, oids, m.End()
}

// mayName is the error of a Parse whose name is taken, or is one too many; nil for any
// other. The server could not tell: names of clients do not reach it.
func (s *session) mayName(name []byte) error {
	switch {
	case len(name) == 0:
	case s.stmts[string(name)] != nil:
		return errStatementExists(name)
	case len(s.stmts) >= s.srv.cfg.PreparedPerClient:
		return errTooManyStatements(s.srv.cfg.PreparedPerClient)
	default:
		if full := s.account.Full(account.Own, nameBytes+len(name)); full != nil {
			return errMemory(full)
		}
	}
	return nil
}

// parseDescribed is parseThere for a name, which prev has had: where the Describe of the statement has
// come too, ParseComplete waits for the description.
func (s *session) parseDescribed(name []byte, tmpl *template, declared *rewrite.Cursor, prev *clientStatement) (*template, error) {
	waits := declared == nil && s.describedNext(name)
	tmpl, err := s.parseThere(tmpl, declared, waits)
	if err == nil && waits {
		s.t.parsed = parsed{on: true, name: string(name), prev: prev}
	}
	return tmpl, err
}

// parseThere has the server parse the text of a template, and returns the template that it is then
// of. declared is the cursor whose query the text is, nil for any other. It gets a backend. The
// answer is still owed when it returns: an error of the server's takes the client's name back
// (undoable). waits: its ParseComplete is for nobody, since one goes in front of the description
// (parsed); then the Describe is what an attempt to run the transaction again prepares it by.
func (s *session) parseThere(tmpl *template, declared *rewrite.Cursor, waits bool) (*template, error) {
	if err := s.ensureBackend(); err != nil {
		return nil, err
	}
	tmpl, err := s.plannedThere(tmpl, declared)
	if err != nil {
		return nil, err
	}
	if st := s.b.prepared.find(tmpl); st != nil {
		s.closeOnBackend(st) // of an older schema
	}
	s.srv.metrics.Prepared(metrics.PreparedPrepared)
	s.askTime("") // behind a text that fails there is no answer
	switch {
	case !waits:
		s.logFrame(wire.Parse, logEntry{tmpl: tmpl, names: s.mapped.planned}, nil)
		s.logLong(tmpl, tmpl.cost)
	case s.t.unseen:
		s.logFrame(incremented, logEntry{}, nil)
	}
	s.parseOnBackend(tmpl, waits)
	return tmpl, nil
}

// plannedThere is the template of a text once its backend is lent: by the schema that the backend
// knows, and as the backend reads texts. Arguments and results are those of parseThere.
func (s *session) plannedThere(tmpl *template, declared *rewrite.Cursor) (*template, error) {
	misleads := s.b.reading != 0 && tmpl.plan.Pin != rewrite.PinUnparsed && s.b.reading.Misleads([]byte(tmpl.sql)) // nobody knew before it was lent
	if !misleads && !s.outplanned() {
		return tmpl, nil
	}
	sql, oids := []byte(tmpl.sql), []byte(tmpl.oids)
	switch {
	case declared != nil:
		return s.queryTemplate(declared, oids)
	case misleads:
		return s.unreadTemplate(sql, oids)
	}
	tmpl, err := s.template(sql, oids)
	if err == nil {
		err = refusal(tmpl.plan)
	}
	return tmpl, err
}

// nameStatement gives a client's name to a template; prev had it before. since is as in
// clientStatement. Where answers are owed, an error before the Parse, or its own, gives
// prev its name back.
func (s *session) nameStatement(name []byte, tmpl *template, prev *clientStatement, since uint64) {
	if !s.t.parsed.on {
		s.logUndo(string(name), prev)
	}
	if s.t.owed.empty() {
		if len(name) == 0 && !s.t.touched { // nobody refers to the one before
			s.forgetSpare()
			s.spare = s.newStatement(tmpl, since)
			s.unnamed = &s.spare
			return
		}
	} else {
		s.t.owed.undoable(string(name), prev)
	}
	st := s.newStatement(tmpl, since)
	s.setStatement(string(name), &st)
}

// execute runs a portal: here, where Sluice answers its statement, else at the server. The
// answer of the server is awaited only behind statements after which the session must know
// how things stand: the end of a failed block, DEALLOCATE ALL, a RESET to be followed by
// the client's startup values.
func (s *session) execute(frame []byte) error {
	// Behind a text that nobody here has read nothing is sent before the server has answered: where that is a
	// typing mistake, the server skips the rest of the group, and a return to the savepoint stays possible.
	if s.t.unreadRuns && len(s.tx.marks) > 0 && !s.t.owed.empty() {
		frame = bytes.Clone(frame) // the buffer may move
		if err := s.makeAnswer(); err != nil || s.t.skip {
			return err
		}
	}
	m := wire.NewMessage(frame[wire.HeaderLen:])
	name, limit := m.String(), m.Int32()
	if err := m.End(); err != nil {
		return err
	}
	p := s.portalOf(name)
	switch {
	case p.local:
		return s.executeLocal(name, p, uint32(limit))
	case p.declares != nil:
		return s.executeDeclare(name, p)
	case !p.open && s.stored[string(name)] != nil:
		return s.executeStored(string(name), frame)
	case s.b == nil, len(name) == 0 && !p.open: // a backend may have one left of ours
		return errNoPortal(name)
	case p.done:
		return s.executeAgain(name, p.plan.Single())
	}
	if p.plan == nil {
		p.plan = functionPlan // a cursor made in SQL
	}
	if err := s.readyFor(p.plan); err != nil {
		return err
	}
	if err := s.mayRemember(p.plan); err != nil { // many may have been bound before the first is executed
		return err
	}
	if err := s.answersInPlace(name, &p); err != nil {
		return err
	}
	if done, err := s.storeRest(p.plan); done || err != nil {
		return err
	}
	return s.executeThere(p, frame)
}

// executeThere has the server run a portal, which frame executes; the backend is lent. Behind what
// moves the session elsewhere the answer is awaited (execute).
func (s *session) executeThere(p portal, frame []byte) error {
	if bad := s.discardFails(p.plan.Single()); s.t.ranLocal && bad != nil {
		return bad
	}
	s.notePortal(p)
	// The entry is owed before the frame is added, as everywhere: an answer may come as
	// soon as a buffer is full.
	s.tx.notesRun(p.plan)
	o := s.pushRun(wire.Execute, p.plan)
	s.t.owed.weigh(owedSettings(p.plan))
	o.split, o.text, o.bound = p.split, p.text, s.boundAlone(&p)
	p.told = o.told().limited(binary.BigEndian.Uint32(frame[len(frame)-4:]))
	o.keeps(p.kept)
	s.noteExecute(&p, o.bound, frame)
	revives := s.b.status == 'E' && s.endsFailed(p.plan)
	s.add(frame)
	if s.resetsStartup(p.plan.Single()) {
		if err := s.restoreInGroup(); err != nil || s.t.skip {
			return err
		}
	}
	if !revives && !deallocatesAll(p.plan) && !takesData(p.plan) {
		return nil
	}
	return s.awaitExecuted(&p, revives)
}

// awaitExecuted has the server answer an Execute behind which the session must know how things
// stand: statements that the client prepares next must not be forgotten with the rest, nor refused
// for a failure that is over. revives: the statement ends a failed block, in whole or in part.
func (s *session) awaitExecuted(p *portal, revives bool) error {
	if err := s.makeAnswer(); err != nil || !revives || s.t.skip {
		return err
	}
	// No ReadyForQuery tells it before the Sync, and the frames until then are judged by
	// the status.
	s.b.status = 'I'
	if tx := p.plan.Single().Tx; tx.Chain || tx.Verb == rewrite.RollbackTo {
		s.b.status = 'T'
	}
	return nil
}

// noteExecute notes what a portal that is about to be executed will have done: how later
// texts are parsed, what may be committed, what a replay sends. frame is the client's
// Execute; its last four bytes are the limit on rows. bound may be nil.
func (s *session) noteExecute(p *portal, bound *boundDelete, frame []byte) {
	t, plan := s.t, p.plan
	t.ran(plan.Kind, binary.BigEndian.Uint32(frame[len(frame)-4:]))
	if plan.Kind != rewrite.Read {
		s.noteParsing(plan)
		t.rereads = t.rereads || plan.Rereads()
	}
	first := s.ofTransaction(plan)
	s.countExecute(plan)
	s.logFrame(wire.Execute, logEntry{plan: plan, bound: bound, commits: t.outcome.MayCommit(), kept: p.kept, cursor: p.run, told: p.told, first: first}, frame[wire.HeaderLen:])
	st := plan.Single()
	if st == nil {
		return
	}
	ends := st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.Rollback
	if ends {
		s.closePortals() // they end with their transaction
	}
	if endsBlock(st.Tx.Verb) || discardsAll(st) {
		s.startsAnew()
	}
	if ends || discardsAll(st) { // which commits at once
		t.executed, t.ranLocal = false, false
	}
}

// deallocatesAll reports whether a statement drops all that are prepared: those of the
// backend, which serve other clients too, included.
func deallocatesAll(plan *rewrite.Plan) bool {
	st := plan.Single()
	return st != nil && (st.Does == rewrite.DeallocatesAll || discardsAll(st))
}

// discardsAll reports whether a statement is DISCARD ALL.
func discardsAll(st *rewrite.Statement) bool { return st.Does == rewrite.DiscardsAll }
