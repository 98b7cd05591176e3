package proxy

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Bind: the client's statement, by its own name, becomes a portal at the backend, of the
// backend's statement by Sluice's name. handle calls bind with a frame that may be larger
// than any buffer; resend.go has its own way for a Bind that is sent once more (rebind).

// binding is a Bind of the client's on its way. Until sendBind the frame is unread in the
// client's buffer, unless whole says otherwise.
type binding struct {
	cs *clientStatement
	// total is the frame's length. portal, stmt and rest are its parts, the last as far
	// as it has arrived: they stay valid until more is read.
	total              int
	portal, stmt, rest []byte
	// whole: the frame was taken off the client's stream, because something else is made of it;
	// or there was none, and rest alone counts.
	whole bool
	// cursor is the one that the portal is to be, whose Bind is Sluice's own; nil for any other.
	cursor *cursor
}

// bind opens a portal. Its frame is rewritten in its head only: parameters pass as they
// are, whatever their size. An error is for the client, and the frame may be unread still:
// refuse has the frames up to a Sync skipped, and this one is the first of them. So it is
// with nil where t.skip is set.
func (s *session) bind(total int) error {
	if s.exceeds(total) {
		return s.refuseFrame(total, errMessageTooLong(total, s.srv.cfg.MaxMessageBytes))
	}
	c := &s.client
	b := binding{total: total}
	var ok bool
	b.portal, b.stmt, b.rest, ok = bindNames(c.Peek(min(total, c.Buffered()))[wire.HeaderLen:])
	if !ok {
		return wire.ErrString
	}
	if err := s.findBound(&b); err != nil || s.t.skip {
		return err
	}
	// The statement is answered here, or by the server, as things stand at its Bind.
	plan := b.cs.tmpl.plan
	asks, local := plan.Sequence != "" && s.mayProve(), s.bindsHere(plan)
	// The server must have answered what has run; and behind an error there would be no
	// portal.
	if (asks || local && s.b != nil) && !s.t.owed.empty() {
		if err := s.makeAnswer(); err != nil || s.t.skip {
			return err
		}
		if s.t.owed.empty() {
			return s.bind(total) // the buffer may have moved
		}
	}
	if plan.Sequence != "" {
		s.t.asks = b.cs.tmpl.sql
	}
	if s.status() == 'E' && !s.endsFailed(plan) {
		return s.bindInFailedBlock(&b)
	}
	// The comment counts from the Bind on: a statement that is only prepared runs in no
	// transaction.
	s.optOut(b.cs.wantsNoReplay())
	if local {
		return s.bindHere(&b)
	}
	if err := s.bindsReadOnly(&b); err != nil {
		return err
	}
	return s.bindOnBackend(&b)
}

// findBound finds the statement of a Bind that is unread, as what its names stand for now
// (asNamed), makes room for it in its transaction, and looks whether that transaction takes it.
// A wait for the schema, or for a COMMIT, may move the client's buffer.
func (s *session) findBound(b *binding) error {
	if b.cs = s.statement(b.stmt); b.cs == nil {
		return errNoStatement(b.stmt)
	}
	anew := s.srv.keeper.on || s.outchosen(b.cs.tmpl)
	if !anew && !s.commitsParts() {
		return s.mayBind(b)
	}
	if anew {
		if err := s.asNamed(b.cs); err != nil {
			return err
		}
	}
	if err := s.makeRoom(b.cs.tmpl.plan, b.cs.tmpl.sql, true); err != nil {
		return err
	}
	b.portal, b.stmt, b.rest, _ = bindNames(s.client.Peek(min(b.total, s.client.Buffered()))[wire.HeaderLen:])
	return s.mayBind(b)
}

// mayBind has constants in the place of the values of settings, which settles what the statement is, and
// looks whether its transaction takes it. As bind says, t.skip may be set.
func (s *session) mayBind(b *binding) error {
	if err := s.bindValues(b); err != nil || s.t.skip {
		return err
	}
	if err := s.mayRemember(b.cs.tmpl.plan); err != nil {
		return err
	}
	return s.judgesMode(b.cs.tmpl.plan)
}

// bindsHere reports whether a portal of that plan is Sluice's to run, as things stand.
func (s *session) bindsHere(plan *rewrite.Plan) bool {
	return (s.status() != 'E' || s.endsFailed(plan)) && (s.state == failed || s.localNow(plan) || s.emulates(plan))
}

// bindInFailedBlock is the error of a Bind that no failed block takes. As at the server, a
// wrong number of parameters is found out first, where the number is known.
func (s *session) bindInFailedBlock(b *binding) error {
	n, err := bindCount(b.rest)
	if err != nil {
		return err
	}
	if d := b.cs.tmpl.desc.Load(); d != nil && n != d.params() {
		return errParameterCount(n, d.params(), b.stmt)
	}
	return s.errInFailed(b.cs.tmpl.plan)
}

// bindHere opens a portal of a statement that Sluice answers, which has no parameters but where it
// is about an advisory lock. No server hears of the portal.
func (s *session) bindHere(b *binding) error {
	p := portal{plan: b.cs.tmpl.plan, local: true, open: true, text: b.cs.tmpl.sql}
	lock := p.plan.Single().Advisory
	if lock != nil || s.client.Buffered() < b.total {
		if err := s.takeWhole(b); err != nil {
			return err
		}
		b.portal = bytes.Clone(b.portal)
	}
	if lock != nil {
		if err := p.bindLock(lock, b.cs.tmpl.oids, b.stmt, b.rest); err != nil {
			return err
		}
	} else if err := checkBind(b.rest, declaredParams(b.cs.tmpl), b.stmt); err != nil {
		return err
	}
	if p.plan.Single().Cursor != nil {
		if err := s.takeWhole(b); err != nil {
			return err
		}
		b.portal = bytes.Clone(b.portal)
		if err := s.bindFetch(&p, b.rest); err != nil || s.t.skip || s.t.settled {
			return err
		}
	}
	if err := s.setPortal(b.portal, p); err != nil {
		return err
	}
	if !b.whole {
		if err := s.discard(b.total); err != nil {
			return err
		}
	}
	return s.tell(wire.FrameBindComplete)
}

// takeWhole takes the frame off the client's stream, where its parameters are needed. A
// frame beyond the bound of a text is refused, and stays unread.
func (s *session) takeWhole(b *binding) error {
	if b.whole {
		return nil
	}
	if b.total > s.srv.cfg.MaxStatementBytes {
		return errStatementTooLong(b.total, s.srv.cfg.MaxStatementBytes)
	}
	if why := s.mayHold(b.total); why != nil {
		return why
	}
	frame, err := s.whole(b.total)
	if err != nil {
		return err
	}
	b.portal, b.stmt, b.rest, b.whole = bindNames(frame[wire.HeaderLen:])
	return nil
}

// takeNeeded takes the frame of a statement that goes out in two parts, or is a DECLARE. The
// query of a cursor cannot go out in two parts: the cursor is one portal.
func (s *session) takeNeeded(b *binding) error {
	if b.cs.tmpl.split != nil && (b.cs.declares != nil || b.cursor != nil) {
		return errCursorSplit
	}
	return s.takeWhole(b)
}

// bindOnBackend opens a portal of the server's. The order is that of what may go wrong:
// first what is known here, then the wait at the gate, which needs no backend, then the
// backend, and then its statement, of which the server may have to be asked.
func (s *session) bindOnBackend(b *binding) error {
	cs := b.cs
	plan := cs.tmpl.plan
	if cs.tmpl = cs.tmpl.inForce(); cs.tmpl.split != nil || cs.declares != nil {
		if err := s.takeNeeded(b); err != nil {
			return err
		}
	}
	kept, err := s.keepBound(b)
	if err != nil {
		return err
	}
	bound := portal{plan: plan, open: true, split: cs.tmpl.split, text: cs.tmpl.sql, stmt: cs, bound: kept, cursor: b.cursor, declares: b.declaration()}
	if err := s.setPortal(b.portal, bound); err != nil {
		return err
	}
	if err := s.notAsked(plan); err != nil {
		return err
	}
	s.nameOperation(plan)
	if err := waitAtGate(s, plan, cs.tmpl.sql, b.rest); err != nil {
		return err
	}
	if err := s.admit(plan); err != nil {
		return err
	}
	if s.t.unreadPin && plan.Pin == rewrite.PinUnparsed {
		s.t.left.Read([]byte(cs.tmpl.sql))
	}
	if plan, err = s.judgeBind(b, bound); err != nil {
		return err
	}
	// Without a statement and without an error the server has refused the text, and the
	// rest is skipped.
	st, err := s.onBackend(cs)
	if err != nil || st == nil {
		return err
	}
	if st, err = s.bindAtTime(b, st); err != nil || st == nil {
		return err
	}
	if s.mapped.planned != nil && !s.planStays(cs.tmpl.plan) {
		if _, err := s.overtaken(mostCatalogTries); err != nil {
			return err
		}
	}
	s.askTime(cs.tmpl.sql)
	s.logPlan(plan)
	if cs.tmpl.split != nil {
		s.lock(cs.tmpl, s.t.desc, b.rest)
	}
	return s.sendBind(b, st)
}

// judgeBind is the plan of a Bind's statement by the schema as its backend, which is lent, knows it, and as
// what it turns out to be there (judged). bound is its portal, which gets that plan. Errors are those of bindAnew.
func (s *session) judgeBind(b *binding, bound portal) (*rewrite.Plan, error) {
	again := s.outplanned() && !s.planStays(bound.plan)
	for try := 0; ; try++ {
		var err error
		if again {
			if bound.plan, err = s.bindAnew(b, bound); err != nil {
				return nil, err
			}
			if err := s.admitAgain(bound.plan); err != nil {
				return nil, err
			}
		}
		plan, err := s.judged(bound.plan)
		if err != nil {
			return nil, err
		}
		if err := s.judgedRead(bound.plan, plan); err != nil {
			return nil, err
		}
		if s.mapped.planned != nil && !s.planStays(bound.plan) {
			if again = s.outplanned() && s.unsent(); again { // by a backend that has replaced the first
				continue
			}
			if again, err = s.overtaken(try); again {
				continue
			}
		}
		if plan != bound.plan {
			s.planPortal(b.portal, plan)
		}
		return plan, err
	}
}

// bindAnew has the statement of a Bind mean what its names stand for by the schema as it was
// read when the backend was lent, and its portal, which is bound, run that plan.
func (s *session) bindAnew(b *binding, bound portal) (*rewrite.Plan, error) {
	if err := s.asNamed(b.cs); err != nil {
		return nil, err
	}
	if !b.whole {
		b.portal, b.stmt, b.rest, _ = bindNames(s.client.Peek(min(b.total, s.client.Buffered()))[wire.HeaderLen:])
	}
	if b.cs.since == s.heard+1 { // its client has not heard of the Parse
		s.asNow(b.cs)
	}
	plan := b.cs.tmpl.plan
	if plan != bound.plan {
		if bound.split != nil || bound.bound != nil || plan.InSplit() != nil {
			return nil, errSchemaChanged // it went to pieces by the plan that it had
		}
		s.planPortal(b.portal, plan)
	}
	return plan, nil
}

// sendBind sends a Bind of the backend's statement in the place of the client's. A frame
// that was not taken whole is forwarded as it arrives; the log is told its length first,
// and its bytes as they pass.
func (s *session) sendBind(b *binding, st *serverStatement) error {
	t := s.t
	head := len(b.portal) + 1 + len(b.stmt) + 1
	params := b.total - wire.HeaderLen - head
	if b.whole {
		params = len(b.rest)
	}
	if t.logs {
		var kept *keptAnswer
		if s.keepsAnswers() {
			kept = keptOf(b.cs.tmpl.inserts, b.cs.tmpl.tells)
		}
		if kept != nil {
			p := s.portalOf(b.portal)
			p.kept = kept
			s.keepPortal(b.portal, p)
		}
		s.tx.log.Sent(wire.Bind, logEntry{tmpl: b.cs.tmpl, names: s.mapped.planned, described: b.cs.described, name: string(b.portal), kept: kept, silent: b.cursor != nil, first: s.ofTransaction(b.cs.tmpl.plan)}, params+len(b.portal))
	}
	o := t.owed.push(wire.Bind)
	o.tmpl, o.clientStmt, o.swallow, o.apart = b.cs.tmpl, b.cs, b.cursor != nil, s.apart()
	t.scratch = appendBindHead(t.scratch[:0], b.portal, st.name, params)
	if b.whole && t.logs {
		s.tx.log.Write(b.rest)
	}
	s.add(t.scratch)
	if b.whole {
		s.add(b.rest)
		return nil
	}
	s.client.Advance(wire.HeaderLen + head) // sent above, under the server's name

	return s.forward(params)
}

// bindNames splits a Bind's payload after its two names. The payload may be cut short
// behind them; ok is false when a name has no end.
func bindNames(payload []byte) (portalName, statement, rest []byte, ok bool) {
	portalName, rest, ok = wire.CString(payload)
	if !ok {
		return nil, nil, nil, false
	}
	statement, rest, ok = wire.CString(rest)
	return portalName, statement, rest, ok
}

// bindCount is how many parameters a Bind has, from what follows its names. The error is PostgreSQL's.
func bindCount(rest []byte) (n int, err error) {
	m := wire.NewMessage(rest)
	return countOf(&m)
}

// countOf reads the format codes of a Bind and the number of its parameters.
func countOf(m *wire.Message) (n int, err error) {
	codes := m.Uint16()
	m.Bytes(2 * codes)
	if n = m.Uint16(); m.Err == nil && codes > 1 && codes != n {
		return n, &wire.Error{Code: "08P01", Message: fmt.Sprintf("bind message has %d parameter formats but %d parameters", codes, n)}
	}
	return n, m.Failed()
}

// declaredParams is how many types of parameters the client has named for a text that has none: to PostgreSQL it takes as
// many.
func declaredParams(tmpl *template) int { return max(0, len(tmpl.oids)-2) / 4 }

// checkBind is PostgreSQL's error of what follows the names of a Bind, all of it, whose statement takes n parameters;
// nil for none.
func checkBind(rest []byte, n int, statement []byte) error {
	m := wire.NewMessage(rest)
	given, err := countOf(&m)
	if err == nil && given != n {
		err = errParameterCount(given, n, statement)
	}
	if err != nil {
		return err
	}
	codes := wire.NewMessage(rest)
	formats := codes.Uint16()
	format := 0
	for i := range n {
		if i < formats {
			format = codes.Uint16()
		}
		if size := m.Int32(); size != -1 {
			m.Bytes(size)
		}
		if m.Err == nil && format > 1 {
			return &wire.Error{Code: "22023", Message: fmt.Sprintf("unsupported format code: %d", int16(format))}
		}
	}
	m.Bytes(2 * m.Uint16())
	return m.End()
}

// appendBindHead starts a Bind with a statement's name replaced; n is the length of what
// follows the names, which the caller appends or forwards.
func appendBindHead(dst, portalName []byte, statement string, n int) []byte {
	dst = append(dst, wire.Bind)
	dst = binary.BigEndian.AppendUint32(dst, uint32(4+len(portalName)+1+len(statement)+1+n))
	dst = append(dst, portalName...)
	dst = append(dst, 0)
	dst = append(dst, statement...)
	return append(dst, 0)
}
