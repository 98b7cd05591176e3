package dsqlsim

import (
	"errors"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// batchBytes is how much may be on its way to PostgreSQL while its replies are
// unread: less than any socket buffer holds, so that our write never waits for
// PostgreSQL while that waits for our read. A longer frame travels alone:
// PostgreSQL reads a frame to its end before it answers.
const batchBytes = 16 << 10

// ownName is the prepared statement and portal that we use in a session.
const ownName = "dsqlsim"

// maxNamed bounds the prepared statements that are kept track of. Beyond it they
// work, but rules that look at their execution do not see them.
const maxNamed = 10_000

// request passes on one frame of the client's.
func (s *session) request(f *frame) error {
	if s.skipping && f.kind != 'S' {
		return nil
	}
	switch f.kind {
	case 'Q':
		return s.query(f)
	case 'P':
		return s.parse(f)
	case 'B':
		return s.bind(f)
	case 'E':
		return s.execute(f)
	case 'D':
		return s.describe(f)
	case 'C':
		return s.closeName(f)
	case 'H':
		if err := s.settle(); err != nil {
			return err
		}
		if s.atReady != nil {
			return s.atReady
		}
		return s.out.Flush()
	case 'S':
		s.skipping = false
		return s.turn(f, debt{kind: 'S'})
	case 'F':
		return s.turn(f, debt{kind: 'F'})
	case 'd', 'c', 'f':
		return nil // what a client still sends after a COPY that failed
	}
	return protocolViolation("invalid frontend message type " + string(rune(f.kind)))
}

// forward sends one frame, for which d will be owed.
func (s *session) forward(f *frame, d debt) error {
	size := frameHeader + len(f.body)
	if s.owed.bytes+size > batchBytes {
		if err := s.settle(); err != nil {
			return err
		}
		if s.skipping && f.kind != 'S' {
			return nil
		}
	}
	s.owed.push(d, size)
	s.inTurn = true
	if err := writeFrame(s.send, f.kind, f.body); err != nil {
		return upstreamError(err)
	}
	return nil
}

// turn forwards a frame that ends a turn, and settles: what follows is to know
// where the transaction stands.
func (s *session) turn(f *frame, d debt) error {
	if err := s.forward(f, d); err != nil {
		return err
	}
	return s.settle()
}

// settle sends what is pending and reads until no reply is owed.
func (s *session) settle() error {
	last := s.owed.last()
	if last == nil {
		return nil
	}
	if !last.endsTurn() {
		if err := writeFrame(s.send, 'H', nil); err != nil {
			return upstreamError(err)
		}
	}
	if err := s.flush(); err != nil {
		return err
	}
	if err := s.departed(last.endsTurn()); err != nil {
		return err
	}
	for s.owed.first() != nil {
		if err := s.reply(); err != nil {
			return err
		}
	}
	return nil
}

// flush sends what is buffered for PostgreSQL.
func (s *session) flush() error {
	if err := s.send.Flush(); err != nil {
		return upstreamError(err)
	}
	return nil
}

// query passes on a simple Query, cut short in front of a statement that must
// not run.
func (s *session) query(f *frame) error {
	if err := s.settle(); err != nil || s.skipping {
		return err
	}
	sql, _, ok := cString(f.body)
	if !ok {
		return protocolViolation("invalid string in message")
	}
	delete(s.statements, "") // a simple Query destroys the unnamed statement
	delete(s.portals, "")
	text := s.server.dialect.Read(sql)
	d := debt{kind: 'Q', text: text}
	send := text.SQL
	status := s.status
	for i := range text.Statements {
		st := &text.Statements[i]
		failed, err := s.judge(st, status)
		if err != nil {
			return err
		}
		if failed != nil {
			send = text.Before(i) + d.replace(i, st, status, failed)
			break
		}
		if s.interrupt(&d, i) {
			send = text.Before(i+1) + markerSQL
			break
		}
		status = after(status, st.Kind)
	}
	if send != sql {
		f = &frame{'Q', append([]byte(send), 0)}
	}
	return s.turn(f, d)
}

// replace returns the SQL that takes the place of statement i, and notes what
// its answer stands for. A conflict at the end of a transaction ends it; any
// other failure leaves it failed.
func (d *debt) replace(i int, st *dialect.Statement, status byte, by *failure) string {
	if conflictsAtCommit(st, status, by) {
		d.instead = &replaced{i, by}
		return "ROLLBACK"
	}
	d.inPlace = by
	return markerSQL
}

func conflictsAtCommit(st *dialect.Statement, status byte, f *failure) bool {
	return st.Kind == dialect.Commit && status == statusInBlock && f.code == codeConflict
}

// after is the transaction status behind a statement that succeeds.
func after(status byte, kind dialect.Kind) byte {
	switch {
	case kind == dialect.Begin && status == statusIdle:
		return statusInBlock
	case kind == dialect.Commit, kind == dialect.Rollback:
		return statusIdle
	}
	return status
}

// judge tells whether a statement may run: a failure is to be answered instead,
// an error ends the session. In a failed block PostgreSQL answers 25P02 whatever
// we send.
func (s *session) judge(st *dialect.Statement, status byte) (*failure, error) {
	err := s.planned(st, status)
	if f, ok := errors.AsType[*failure](err); ok {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	r := st.Refusal
	if r == nil {
		r = s.tx.Next(st)
	}
	if r == nil {
		return nil, nil
	}
	return refused(r), nil
}

// parse passes on a Parse. A statement that DSQL refuses fails here already.
func (s *session) parse(f *frame) error {
	name, rest, ok := cString(f.body)
	sql, types, ok2 := cString(rest)
	if !ok || !ok2 {
		return protocolViolation("invalid string in message")
	}
	text := s.server.dialect.Read(sql)
	d := debt{kind: 'P', text: text, name: name, previous: s.statements[name]}
	if len(text.Statements) == 1 {
		if r := text.Statements[0].Refusal; r != nil {
			d.inPlace = refused(r)
			return s.forward(parseFrame(name, markerSQL, nil), d)
		}
	}
	if d.previous != nil || len(s.statements) < maxNamed {
		s.statements[name] = text
	}
	if text.SQL == sql {
		return s.forward(f, d)
	}
	return s.forward(parseFrame(name, text.SQL, types), d)
}

// parseFrame makes a Parse; types is the end of the client's, or nil for none.
func parseFrame(name, sql string, types []byte) *frame {
	body := append([]byte(name), 0)
	body = append(append(body, sql...), 0)
	if types == nil {
		types = []byte{0, 0}
	}
	return &frame{'P', append(body, types...)}
}

func (s *session) bind(f *frame) error {
	to, rest, ok := cString(f.body)
	name, _, ok2 := cString(rest)
	if !ok || !ok2 {
		return protocolViolation("invalid string in message")
	}
	if text := s.statements[name]; text != nil && len(s.portals) < maxNamed {
		s.portals[to] = &portal{text: text}
	}
	return s.forward(f, debt{kind: 'B'})
}

// execute passes on an Execute, unless something must happen instead.
func (s *session) execute(f *frame) error {
	name, _, ok := cString(f.body)
	if !ok {
		return protocolViolation("invalid string in message")
	}
	p := s.portals[name]
	if p == nil || len(p.text.Statements) != 1 {
		return s.forward(f, debt{kind: 'E'})
	}
	st := &p.text.Statements[0]
	d := debt{kind: 'E', text: p.text}
	if p.started {
		return s.forward(f, d)
	}
	p.started = true
	if s.server.plan.pending.Load() > 0 {
		// A fault needs to know where the transaction stands.
		if err := s.settle(); err != nil || s.skipping {
			return err
		}
	}
	failed, err := s.judge(st, s.status)
	switch {
	case err != nil:
		return err
	case failed == nil:
		s.status = after(s.status, st.Kind)
		fails := s.interrupt(&d, 0)
		if err := s.forward(f, d); err != nil || !fails {
			return err
		}
		return s.forward(parseFrame(ownName, markerSQL, nil), debt{kind: 'P', silent: true, name: ownName, mid: d.mid})
	case conflictsAtCommit(st, s.status, failed):
		return s.rollback(d, failed)
	}
	d.inPlace = failed
	return s.forward(parseFrame(ownName, markerSQL, nil), d)
}

// rollback runs ROLLBACK in place of the COMMIT that d stands for, and answers
// why. The rest of the client's group is void, as after any error.
func (s *session) rollback(d debt, why *failure) error {
	d.instead = &replaced{0, why}
	steps := []struct {
		message pgproto3.FrontendMessage
		owed    debt
	}{
		{&pgproto3.Parse{Name: ownName, Query: "ROLLBACK"}, debt{kind: 'P', silent: true}},
		{&pgproto3.Bind{DestinationPortal: ownName, PreparedStatement: ownName}, debt{kind: 'B', silent: true}},
		{&pgproto3.Execute{Portal: ownName}, d},
		{&pgproto3.Close{ObjectType: 'S', Name: ownName}, debt{kind: 'C', silent: true}},
	}
	for _, step := range steps {
		packet := encode(step.message)
		if err := s.forward(&frame{packet[0], packet[frameHeader:]}, step.owed); err != nil {
			return err
		}
	}
	if err := s.settle(); err != nil {
		return err
	}
	s.skipping = true
	return nil
}

func (s *session) describe(f *frame) error {
	text, err := s.named(f)
	if err != nil {
		return err
	}
	return s.forward(f, debt{kind: 'D', text: text})
}

func (s *session) closeName(f *frame) error {
	if _, err := s.named(f); err != nil {
		return err
	}
	d := debt{kind: 'C'}
	if name := string(f.body[1 : len(f.body)-1]); f.body[0] == 'S' {
		d.name, d.previous = name, s.statements[name]
		delete(s.statements, name)
	} else {
		delete(s.portals, name)
	}
	return s.forward(f, d)
}

// named finds what a Describe or Close is about; nil when nobody knows.
func (s *session) named(f *frame) (*dialect.Text, error) {
	if len(f.body) < 2 || f.body[len(f.body)-1] != 0 {
		return nil, protocolViolation("invalid message format")
	}
	name := f.body[1 : len(f.body)-1]
	if f.body[0] == 'S' {
		return s.statements[string(name)], nil
	}
	if p := s.portals[string(name)]; p != nil {
		return p.text, nil
	}
	return nil, nil
}
