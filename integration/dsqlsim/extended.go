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
	d := debt{kind: 'P', from: *f, silent: f.plain, text: text, status: s.status, rules: s.tx, name: name, previous: s.statements[name], alone: !s.busy}
	send := text.SQL
	if st := made.statement(); st != nil {
		if r := st.Refusal; r != nil {
			d.inPlace = refused(r)
			return s.forward(parseFrame(name, markerSQL, nil), d)
		}
		if made.plan = s.server.plans.of(st); made.plan != nil {
			send = made.plan.SQL
		}
	}
	if d.previous != nil || len(s.statements) < maxNamed {
		s.statements[name] = made
	}
	if send == sql {
		return s.forward(f, d)
	}
	return s.forward(parseFrame(name, send, types), d)
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
	d := debt{kind: 'B', from: *f, silent: f.plain, status: s.status, rules: s.tx, alone: !s.busy, name: to, portal: s.portals[to]}
	if of := s.statements[name]; of != nil && len(s.portals) < maxNamed {
		s.portals[to] = &portal{of: of, bind: f.body, epoch: s.epoch, sent: f.sent()}
	}
	if f.again {
		if err := s.closePortal(to); err != nil {
			return err
		}
	}
	return s.forward(f, d)
}

// rebind binds a portal once more.
func (s *session) rebind(name string, p *portal) error {
	p.epoch = s.epoch
	if err := s.closePortal(name); err != nil {
		return err
	}
	return s.forward(&frame{kind: 'B', body: p.bind}, debt{kind: 'B', silent: true})
}

// closePortal makes room for a named portal: what was bound in front of the
// savepoint outlives a return to it.
func (s *session) closePortal(name string) error {
	if name == "" {
		return nil
	}
	return s.forward(&frame{kind: 'C', body: []byte("P" + name + "\x00")}, debt{kind: 'C', silent: true})
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
	d := debt{kind: 'E', from: *f, status: s.status, rules: s.tx, alone: !s.busy}
	s.busy = true
	if p == nil || p.of.statement() == nil {
		s.work.lost = s.work.lost || p == nil
		return s.forward(f, d)
	}
	d.text, d.sent = p.of.text, p.sent
	switch {
	case !p.started:
		return s.startPortal(f, name, p, d)
	case p.epoch != s.epoch && s.status == statusInBlock:
		return s.fail(d, dataConflict) // where it stood nobody knows any more
	}
	return s.forward(f, d)
}

// startPortal passes on the first Execute of a portal.
func (s *session) startPortal(f *frame, name string, p *portal, d debt) error {
	st := p.of.statement()
	if s.delicate(st, p) {
		if err := s.settle(); err != nil || s.skipping {
			return err
		}
		d.status = s.status
	}
	p.started, d.portal = true, p
	failed, err := s.judge(f, st, s.status)
	if err == nil && failed == nil {
		failed, err = s.prepare(st, capture{plan: p.of.plan, types: p.of.types, values: p.values()})
	}
	switch {
	case err != nil:
		return err
	case failed == nil && s.work.guessing:
		return s.guess(f, st, p, d)
	case failed == nil:
		return s.executeNow(f, name, st, p, d)
	case conflictsAtCommit(st, s.status, failed):
		return s.rollback(d, failed)
	}
	return s.fail(d, failed)
}

// delicate tells whether everything in front of a statement must have been
// answered before it is known how to run it.
func (s *session) delicate(st *dialect.Statement, p *portal) bool {
	w, commits := &s.work, st.Kind == dialect.Commit
	switch {
	case s.server.plan.pending.Load() > 0, commits && s.owed.writes(&s.server.config.Limits):
		return true
	case s.status != statusInBlock:
		return false
	case w.parked, w.guessing, p.of.plan != nil:
		return true
	}
	return commits && (s.contended() || s.server.certifier.Keys() > 0)
}

// executeNow forwards an Execute, with the savepoint in front of the first
// effect, and the portal bound anew if it is gone.
func (s *session) executeNow(f *frame, name string, st *dialect.Statement, p *portal, d debt) error {
	d.mayWait = waits(st)
	inBlock := s.status == statusInBlock
	if inBlock && hasEffect(st) {
		d.effect = newEffect(st, s.server.plans.spelling(st), p.of.types, p.values())
		if !s.work.savepoint && !s.work.asked {
			if err := s.savepoint(); err != nil {
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
	fails := s.interrupt(&d, 0)
	if err := s.forward(f, d); err != nil || !fails {
		return err
	}
	return s.forward(parseFrame(ownName, markerSQL, nil), debt{kind: 'P', silent: true, name: ownName, mid: d.mid})
}

// standing are statements that a session of ours keeps prepared, by their names.
const (
	beginName     = ownName + " begin"
	savepointName = ownName + " savepoint"
)

// open begins the block that the client believes to be in. The BEGIN travels
// with the first statement: most blocks take one round trip less.
func (s *session) open() error {
	if !s.work.deferred {
		return nil
	}
	s.work.deferred = false
	return s.standing(beginName, s.work.begin, debt{kind: 'E', silent: true, quiet: true})
}

// savepoint sets the savepoint behind what is on its way.
func (s *session) savepoint() error {
	s.work.asked = true
	return s.standing(savepointName, savepointSQL, debt{kind: 'E', silent: true, preamble: true})
}

// standing runs a statement that stays prepared; d is owed for its Execute.
func (s *session) standing(name, sql string, d debt) error {
	if s.prepared[name] != sql {
		frames := []*frame{{kind: 'C', body: []byte("S" + name + "\x00")}, parseFrame(name, sql, nil)}
		for _, f := range frames {
			if err := s.forward(f, debt{kind: f.kind, silent: true, name: name}); err != nil {
				return err
			}
		}
		s.prepared[name] = sql
	}
	bind := append([]byte(name+"\x00"+name+"\x00"), noValues...)
	if err := s.forward(&frame{kind: 'B', body: bind}, debt{kind: 'B', silent: true}); err != nil {
		return err
	}
	return s.forward(&frame{kind: 'E', body: []byte(name + "\x00\x00\x00\x00\x00")}, d)
}

// own runs a statement of ours with parameter types, and values as in a Bind's
// body; d is owed for its Execute.
func (s *session) own(sql string, types, values []byte, d debt) error {
	bind := append([]byte(ownName+"\x00"+ownName+"\x00"), values...)
	statement, portal := []byte("S"+ownName+"\x00"), []byte("P"+ownName+"\x00")
	for _, step := range []struct {
		frame *frame
		owed  debt
	}{
		{&frame{kind: 'C', body: statement}, debt{kind: 'C', silent: true}},
		{&frame{kind: 'C', body: portal}, debt{kind: 'C', silent: true}},
		{parseFrame(ownName, sql, types), debt{kind: 'P', silent: true}},
		{&frame{kind: 'B', body: bind}, debt{kind: 'B', silent: true}},
		{&frame{kind: 'E', body: []byte(ownName + "\x00\x00\x00\x00\x00")}, d},
	} {
		if err := s.forward(step.frame, step.owed); err != nil {
			return err
		}
	}
	return nil
}

// noValues is the end of a Bind's body without parameters.
var noValues = make([]byte, 6)

// rollback runs ROLLBACK in place of the COMMIT that d stands for, and answers
// why. The rest of the client's group is void, as after any error.
func (s *session) rollback(d debt, why *failure) error {
	d.instead = &replaced{0, why}
	if err := s.own("ROLLBACK", nil, noValues, d); err != nil {
		return err
	}
	if err := s.settle(); err != nil {
		return err
	}
	s.skipping = true
	return nil
}

// guess runs, in place of an Execute, the query that tells what would have come
// of it.
func (s *session) guess(f *frame, st *dialect.Statement, p *portal, d debt) error {
	sql := d.guessed(st)
	if d.guess == nil {
		return s.fail(d, dataConflict)
	}
	types, err := s.parameterTypes(s.server.plans.spelling(st), p.of.types)
	if err != nil {
		return err
	}
	return s.own(sql, types, p.values(), d)
}

// parameterTypes are those that PostgreSQL gives a statement's parameters, as
// they stand in a Parse: the query in its place may not show them all.
func (s *session) parameterTypes(sql string, types []byte) ([]byte, error) {
	told, err := s.aside(
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
	d := debt{kind: 'D', from: *f, silent: f.plain, status: s.status, rules: s.tx, alone: !s.busy}
	if of != nil {
		d.text = of.text
	}
	return s.forward(f, d)
}

func (s *session) closeName(f *frame) error {
	if _, _, err := s.named(f); err != nil {
		return err
	}
	d := debt{kind: 'C', from: *f, status: s.status, rules: s.tx, alone: !s.busy}
	if name := string(f.body[1 : len(f.body)-1]); f.body[0] == 'S' {
		d.name, d.previous = name, s.statements[name]
		delete(s.statements, name)
	} else {
		d.name, d.portal = name, s.portals[name]
		delete(s.portals, name)
	}
	return s.forward(f, d)
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
