package dsqlsim

import (
	"bytes"
	"encoding/binary"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// parse passes on a Parse. A statement that DSQL refuses already fails here.
func (s *session) parse(f *frame) error {
	name, rest, ok := cString(f.body)
	sql, types, ok2 := cString(rest)
	if !ok || !ok2 {
		return protocolViolation("invalid string in message")
	}
	text := s.server.dialect.Read(sql)
	made := &prepared{text: text, types: types}
	r := s.replyTo(f)
	r.text, r.name, r.previous = text, name, s.names.statements[name]
	send := text.SQL
	if st := made.statement(); st != nil {
		if st.Refusal != nil {
			r.marked = refused(st.Refusal)
			return s.forward(parseFrame(name, markerSQL, nil), r)
		}
		if made.plan = s.server.plans.of(st); made.plan != nil {
			send = made.plan.SQL
		}
	}
	s.names.prepare(name, made)
	if send == sql {
		return s.forward(f, r)
	}
	return s.forward(parseFrame(name, send, types), r)
}

func (s *session) bind(f *frame) error {
	to, rest, ok := cString(f.body)
	name, _, ok2 := cString(rest)
	if !ok || !ok2 {
		return protocolViolation("invalid string in message")
	}
	r := s.replyTo(f)
	r.name, r.portal = to, s.names.portals[to]
	if of := s.names.statements[name]; of != nil {
		s.names.bind(to, &portal{of: of, bind: f.body, bytes: f.dataBytes()})
	}
	if f.again {
		if err := s.closePortal(to); err != nil {
			return err
		}
	}
	return s.forward(f, r)
}

// rebind binds a portal of the client again, after PostgreSQL has dropped it.
func (s *session) rebind(name string, p *portal) error {
	p.epoch = s.names.epoch
	if err := s.closePortal(name); err != nil {
		return err
	}
	return s.forwardOwn(&frame{kind: 'B', body: p.bind})
}

// closePortal closes a named portal in PostgreSQL before the session binds it again. A portal that was bound before the
// savepoint survives a return to the savepoint.
func (s *session) closePortal(name string) error {
	if name == "" {
		return nil
	}
	return s.forwardOwn(closeFrame('P', name))
}

// execute passes on an Execute, or fails it where a cluster would.
func (s *session) execute(f *frame) error {
	name, rest, ok := cString(f.body)
	if !ok || len(rest) != 4 {
		return protocolViolation("invalid string in message")
	}
	p := s.names.portals[name]
	r := s.replyTo(f)
	s.turn.busy = true
	if s.server.config.WithoutSuspension && int32(binary.BigEndian.Uint32(rest)) > 0 {
		return s.fail(r, noSuspension)
	}
	if p == nil || p.of.statement() == nil {
		s.block.log.incomplete = s.block.log.incomplete || p == nil
		return s.forward(f, r)
	}
	r.text, r.bytes = p.of.text, p.bytes
	switch {
	case !p.started:
		return s.startPortal(f, name, p, r)
	case s.names.gone(p) && s.status == statusInBlock:
		return s.fail(r, dataConflict) // where it stood nobody knows any more
	}
	return s.forward(f, r)
}

// startPortal passes on the first Execute of a portal.
func (s *session) startPortal(f *frame, name string, p *portal, r pendingReply) error {
	st := p.of.statement()
	if s.mustSettle(st, p) {
		if err := s.settle(); err != nil || s.skipping {
			return err
		}
		r.status = s.status
	}
	p.started, r.portal = true, p
	failed, err := s.check(f, st, s.status)
	if err == nil && failed == nil {
		failed, err = s.setUp(st, capture{plan: p.of.plan, types: p.of.types, values: p.values()})
	}
	switch {
	case err != nil:
		return err
	case failed == nil && s.block.attempt.guessing:
		return s.runGuess(st, p, r)
	case failed == nil:
		whole := int32(binary.BigEndian.Uint32(f.body[len(name)+1:])) <= 0
		return s.runPortal(f, name, whole, st, p, r)
	case conflictsAtCommit(st, s.status, failed):
		return s.rollbackInstead(r, failed)
	}
	return s.fail(r, failed)
}

// mustSettle reports whether the session must read all earlier replies before it can decide how to run a statement.
func (s *session) mustSettle(st *dialect.Statement, p *portal) bool {
	b, commits := &s.block, st.Kind == dialect.Commit
	switch {
	case s.server.plan.pending.Load() > 0, commits && s.replies.mayExceed(&s.server.config.Limits):
		return true
	case s.status != statusInBlock:
		return false
	case b.log.parked, b.attempt.guessing, p.of.plan != nil:
		return true
	}
	return commits && (s.needsCertifying() || s.server.certifier.Keys() > 0)
}

// runPortal forwards an Execute. The savepoint precedes the block's first effect. If PostgreSQL has dropped the portal,
// runPortal binds it again. whole reports that the Execute has no limit on rows.
func (s *session) runPortal(f *frame, name string, whole bool, st *dialect.Statement, p *portal, r pendingReply) error {
	r.mayWait = waits(st)
	if whole && s.locksOutside(st, s.status) {
		r.mayWait = true
		return s.runOwn(st.SQL, p.of.types, p.values(), r)
	}
	inBlock := s.status == statusInBlock
	if inBlock && hasEffect(st) {
		r.effect = newEffect(st, s.server.plans.spelling(st), p.of.types, p.values())
		if !s.block.log.savepointSet && !s.block.log.savepointSent {
			if err := s.setSavepoint(); err != nil {
				return err
			}
		}
	}
	if s.names.gone(p) {
		if err := s.rebind(name, p); err != nil {
			return err
		}
	}
	s.status = after(s.status, st.Kind)
	fails := s.interrupt(&r, 0)
	if err := s.forward(f, r); err != nil || !fails {
		return err
	}
	return s.forward(parseFrame(ownName, markerSQL, nil), pendingReply{kind: 'P', silent: true, name: ownName, interruption: r.interruption})
}

// beginName and savepointName are the names of the stand-in's own statements that stay prepared in a session.
const (
	beginName     = ownName + " begin"
	savepointName = ownName + " savepoint"
)

// openBlock sends the deferred BEGIN of the client's block to PostgreSQL. The BEGIN travels with the block's first
// statement, which saves most blocks a round trip.
func (s *session) openBlock() error {
	if !s.block.deferred {
		return nil
	}
	s.block.deferred = false
	return s.runStanding(beginName, s.block.beginSQL, pendingReply{kind: 'E', silent: true, begin: true})
}

// setSavepoint sends the statement that sets the savepoint, without waiting for the reply.
func (s *session) setSavepoint() error {
	s.block.log.savepointSent = true
	return s.runStanding(savepointName, savepointSQL, pendingReply{kind: 'E', silent: true, savepoint: true})
}

// runStanding runs one of the stand-in's statements that stay prepared. r is the pending reply to its Execute.
func (s *session) runStanding(name, sql string, r pendingReply) error {
	if s.names.standing[name] != sql {
		for _, f := range []*frame{closeFrame('S', name), parseFrame(name, sql, nil)} {
			if err := s.forward(f, pendingReply{kind: f.kind, silent: true, name: name}); err != nil {
				return err
			}
		}
		s.names.standing[name] = sql
	}
	if err := s.forwardOwn(bindFrame(name, noValues)); err != nil {
		return err
	}
	return s.forward(executeFrame(name), r)
}

// runOwn runs a statement of the stand-in. types are parameter types as in a Parse, values as in a Bind's body. r is
// the pending reply to its Execute.
func (s *session) runOwn(sql string, types, values []byte, r pendingReply) error {
	frames := ownFrames(sql, types, values)
	last := len(frames) - 1
	for _, f := range frames[:last] {
		if err := s.forwardOwn(f); err != nil {
			return err
		}
	}
	return s.forward(frames[last], r)
}

// rollbackInstead runs ROLLBACK instead of a COMMIT, whose pending reply is r, and answers the client with the error
// why. The session then skips the client's frames up to Sync, as after any error.
func (s *session) rollbackInstead(r pendingReply, why *failure) error {
	r.replaced = &replacement{0, why}
	if err := s.runOwn("ROLLBACK", nil, noValues, r); err != nil {
		return err
	}
	if err := s.settle(); err != nil {
		return err
	}
	s.skipping = true
	return nil
}

// runGuess runs a query that guesses the outcome of a statement, instead of the statement's Execute.
func (s *session) runGuess(st *dialect.Statement, p *portal, r pendingReply) error {
	sql := r.makeGuess(st)
	if r.guess == nil {
		return s.fail(r, dataConflict)
	}
	s.block.lose(st.SQL)
	types, err := s.parameterTypes(s.server.plans.spelling(st), p.of.types)
	if err != nil {
		return err
	}
	return s.runOwn(sql, types, p.values(), r)
}

// parameterTypes returns the types that PostgreSQL infers for a statement's parameters, encoded as in a Parse. The
// query that replaces the statement may not use all parameters.
func (s *session) parameterTypes(sql string, types []byte) ([]byte, error) {
	answer, err := s.exchange(closeFrame('S', ownName), parseFrame(ownName, sql, types),
		&frame{kind: 'D', body: []byte("S" + ownName + "\x00")})
	if err != nil || answer.failed != nil {
		return types, err
	}
	out := binary.BigEndian.AppendUint16(nil, uint16(len(answer.parameters)))
	for _, oid := range answer.parameters {
		out = binary.BigEndian.AppendUint32(out, oid)
	}
	return out, nil
}

func (s *session) describe(f *frame) error {
	kind, name, err := target(f)
	if err != nil {
		return err
	}
	of, portal := s.names.find(kind, name)
	r := s.replyTo(f)
	if of != nil {
		r.text = of.text
	}
	if portal != nil && s.names.gone(portal) && s.status == statusInBlock {
		if portal.started { // as its Execute would: PostgreSQL does not know the portal any more
			return s.fail(r, dataConflict)
		}
		if err := s.rebind(name, portal); err != nil {
			return err
		}
	}
	return s.forward(f, r)
}

func (s *session) closeName(f *frame) error {
	kind, name, err := target(f)
	if err != nil {
		return err
	}
	r := s.replyTo(f)
	r.name = name
	if kind == 'S' {
		r.previous = s.names.statements[name]
		delete(s.names.statements, name)
	} else {
		r.portal = s.names.portals[name]
		delete(s.names.portals, name)
	}
	return s.forward(f, r)
}

// target returns the kind (S or P) and the name in a Describe or Close.
func target(f *frame) (kind byte, name string, err error) {
	if len(f.body) < 2 || bytes.IndexByte(f.body, 0) != len(f.body)-1 {
		return 0, "", protocolViolation("invalid message format")
	}
	return f.body[0], string(f.body[1 : len(f.body)-1]), nil
}
