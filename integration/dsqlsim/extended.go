package dsqlsim

import (
	"bytes"
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// parse passes on a Parse. A statement that DSQL refuses fails here already.
func (s *session) parse(f *frame) error {
	name, rest, ok := cString(f.body)
	sql, types, ok2 := cString(rest)
	if !ok || !ok2 {
		return protocolViolation("invalid string in message")
	}
	text := s.server.dialect.Read(sql)
	made := &prepared{text: text, types: types}
	r := pendingReply{kind: 'P', from: *f, silent: f.ofQuery, text: text, status: s.status, rules: s.rules, name: name, previous: s.statements[name], alone: !s.busy}
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
	if r.previous != nil || len(s.statements) < maxNamed {
		s.statements[name] = made
	}
	if send == sql {
		return s.forward(f, r)
	}
	return s.forward(parseFrame(name, send, types), r)
}

// parseFrame makes a Parse; types is the end of the client's, or nil for none.
func parseFrame(name, sql string, types []byte) *frame {
	body := append([]byte(name), 0)
	body = append(append(body, sql...), 0)
	if types == nil {
		types = []byte{0, 0}
	}
	return &frame{kind: 'P', body: append(body, types...)}
}

func (s *session) bind(f *frame) error {
	to, rest, ok := cString(f.body)
	name, _, ok2 := cString(rest)
	if !ok || !ok2 {
		return protocolViolation("invalid string in message")
	}
	r := pendingReply{kind: 'B', from: *f, silent: f.ofQuery, status: s.status, rules: s.rules, alone: !s.busy, name: to, portal: s.portals[to]}
	if of := s.statements[name]; of != nil && len(s.portals) < maxNamed {
		s.portals[to] = &portal{of: of, bind: f.body, epoch: s.epoch, bytes: f.dataBytes()}
	}
	if f.again {
		if err := s.closePortal(to); err != nil {
			return err
		}
	}
	return s.forward(f, r)
}

// rebind binds a portal once more.
func (s *session) rebind(name string, p *portal) error {
	p.epoch = s.epoch
	if err := s.closePortal(name); err != nil {
		return err
	}
	return s.forward(&frame{kind: 'B', body: p.bind}, pendingReply{kind: 'B', silent: true})
}

// closePortal makes room for a named portal: what was bound in front of the
// savepoint outlives a return to it.
func (s *session) closePortal(name string) error {
	if name == "" {
		return nil
	}
	return s.forward(&frame{kind: 'C', body: []byte("P" + name + "\x00")}, pendingReply{kind: 'C', silent: true})
}

// values is the part of a Bind's body behind its names.
func (p *portal) values() []byte {
	_, rest, _ := cString(p.bind)
	_, rest, _ = cString(rest)
	return rest
}

// execute passes on an Execute, unless something must happen instead.
func (s *session) execute(f *frame) error {
	name, _, ok := cString(f.body)
	if !ok {
		return protocolViolation("invalid string in message")
	}
	p := s.portals[name]
	r := pendingReply{kind: 'E', from: *f, status: s.status, rules: s.rules, alone: !s.busy}
	s.busy = true
	if p == nil || p.of.statement() == nil {
		s.block.incomplete = s.block.incomplete || p == nil
		return s.forward(f, r)
	}
	r.text, r.bytes = p.of.text, p.bytes
	switch {
	case !p.started:
		return s.startPortal(f, name, p, r)
	case p.epoch != s.epoch && s.status == statusInBlock:
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
	case failed == nil && s.block.guessing:
		return s.runGuess(f, st, p, r)
	case failed == nil:
		return s.runPortal(f, name, st, p, r)
	case conflictsAtCommit(st, s.status, failed):
		return s.rollbackInstead(r, failed)
	}
	return s.fail(r, failed)
}

// mustSettle tells whether everything in front of a statement must have been
// answered before it is known how to run it.
func (s *session) mustSettle(st *dialect.Statement, p *portal) bool {
	b, commits := &s.block, st.Kind == dialect.Commit
	switch {
	case s.server.plan.pending.Load() > 0, commits && s.replies.mayExceed(&s.server.config.Limits):
		return true
	case s.status != statusInBlock:
		return false
	case b.parked, b.guessing, p.of.plan != nil:
		return true
	}
	return commits && (s.needsCertifying() || s.server.certifier.Keys() > 0)
}

// runPortal forwards an Execute, with the savepoint in front of the first
// effect, and the portal bound anew if it is gone.
func (s *session) runPortal(f *frame, name string, st *dialect.Statement, p *portal, r pendingReply) error {
	r.mayWait = waits(st)
	inBlock := s.status == statusInBlock
	if inBlock && hasEffect(st) {
		r.effect = newEffect(st, s.server.plans.spelling(st), p.of.types, p.values())
		if !s.block.savepointSet && !s.block.savepointSent {
			if err := s.setSavepoint(); err != nil {
				return err
			}
		}
	}
	if p.epoch != s.epoch {
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

// beginName and savepointName are the standing statements: ours, and kept prepared.
const (
	beginName     = ownName + " begin"
	savepointName = ownName + " savepoint"
)

// openBlock begins the block that the client believes to be in. The BEGIN travels
// with the first statement: most blocks take one round trip less.
func (s *session) openBlock() error {
	if !s.block.deferred {
		return nil
	}
	s.block.deferred = false
	return s.runStanding(beginName, s.block.beginSQL, pendingReply{kind: 'E', silent: true, begin: true})
}

// setSavepoint sets the savepoint behind what is on its way.
func (s *session) setSavepoint() error {
	s.block.savepointSent = true
	return s.runStanding(savepointName, savepointSQL, pendingReply{kind: 'E', silent: true, savepoint: true})
}

// runStanding runs a statement that stays prepared; r is the reply to its Execute.
func (s *session) runStanding(name, sql string, r pendingReply) error {
	if s.prepared[name] != sql {
		frames := []*frame{{kind: 'C', body: []byte("S" + name + "\x00")}, parseFrame(name, sql, nil)}
		for _, f := range frames {
			if err := s.forward(f, pendingReply{kind: f.kind, silent: true, name: name}); err != nil {
				return err
			}
		}
		s.prepared[name] = sql
	}
	bind := append([]byte(name+"\x00"+name+"\x00"), noValues...)
	if err := s.forward(&frame{kind: 'B', body: bind}, pendingReply{kind: 'B', silent: true}); err != nil {
		return err
	}
	return s.forward(&frame{kind: 'E', body: []byte(name + "\x00\x00\x00\x00\x00")}, r)
}

// runOwn runs a statement of ours with parameter types, and values as in a Bind's
// body; r is the reply to its Execute.
func (s *session) runOwn(sql string, types, values []byte, r pendingReply) error {
	bind := append([]byte(ownName+"\x00"+ownName+"\x00"), values...)
	statement, portal := []byte("S"+ownName+"\x00"), []byte("P"+ownName+"\x00")
	for _, step := range []struct {
		frame *frame
		reply pendingReply
	}{
		{&frame{kind: 'C', body: statement}, pendingReply{kind: 'C', silent: true}},
		{&frame{kind: 'C', body: portal}, pendingReply{kind: 'C', silent: true}},
		{parseFrame(ownName, sql, types), pendingReply{kind: 'P', silent: true}},
		{&frame{kind: 'B', body: bind}, pendingReply{kind: 'B', silent: true}},
		{&frame{kind: 'E', body: []byte(ownName + "\x00\x00\x00\x00\x00")}, r},
	} {
		if err := s.forward(step.frame, step.reply); err != nil {
			return err
		}
	}
	return nil
}

// noValues is the end of a Bind's body without parameters.
var noValues = make([]byte, 6)

// rollbackInstead runs ROLLBACK in place of the COMMIT that r stands for, and answers
// why. The rest of the client's group is void, as after any error.
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

// runGuess runs, in place of an Execute, the query that tells what would have come
// of it.
func (s *session) runGuess(f *frame, st *dialect.Statement, p *portal, r pendingReply) error {
	sql := r.makeGuess(st)
	if r.guess == nil {
		return s.fail(r, dataConflict)
	}
	types, err := s.parameterTypes(s.server.plans.spelling(st), p.of.types)
	if err != nil {
		return err
	}
	return s.runOwn(sql, types, p.values(), r)
}

// parameterTypes are those that PostgreSQL gives a statement's parameters, as
// they stand in a Parse: the query in its place may not show them all.
func (s *session) parameterTypes(sql string, types []byte) ([]byte, error) {
	told, err := s.exchange(
		encode(&pgproto3.Close{ObjectType: 'S', Name: ownName}),
		parseFrame(ownName, sql, types).packet(),
		encode(&pgproto3.Describe{ObjectType: 'S', Name: ownName}),
		encode(&pgproto3.Sync{}))
	if err != nil || told.failed != nil {
		return types, err
	}
	out := binary.BigEndian.AppendUint16(nil, uint16(len(told.parameters)))
	for _, oid := range told.parameters {
		out = binary.BigEndian.AppendUint32(out, oid)
	}
	return out, nil
}

func (s *session) describe(f *frame) error {
	of, portal, err := s.named(f)
	if err != nil {
		return err
	}
	if portal != nil && portal.epoch != s.epoch && !portal.started && s.status == statusInBlock {
		if err := s.rebind(string(f.body[1:len(f.body)-1]), portal); err != nil {
			return err
		}
	}
	r := pendingReply{kind: 'D', from: *f, silent: f.ofQuery, status: s.status, rules: s.rules, alone: !s.busy}
	if of != nil {
		r.text = of.text
	}
	return s.forward(f, r)
}

func (s *session) closeName(f *frame) error {
	if _, _, err := s.named(f); err != nil {
		return err
	}
	r := pendingReply{kind: 'C', from: *f, status: s.status, rules: s.rules, alone: !s.busy}
	if name := string(f.body[1 : len(f.body)-1]); f.body[0] == 'S' {
		r.name, r.previous = name, s.statements[name]
		delete(s.statements, name)
	} else {
		r.name, r.portal = name, s.portals[name]
		delete(s.portals, name)
	}
	return s.forward(f, r)
}

// named finds what a Describe or Close is about; nil when nobody knows.
func (s *session) named(f *frame) (*prepared, *portal, error) {
	if len(f.body) < 2 || bytes.IndexByte(f.body, 0) != len(f.body)-1 {
		return nil, nil, protocolViolation("invalid message format")
	}
	name := f.body[1 : len(f.body)-1]
	if f.body[0] == 'S' {
		return s.statements[string(name)], nil, nil
	}
	if p := s.portals[string(name)]; p != nil {
		return p.of, p, nil
	}
	return nil, nil, nil
}
