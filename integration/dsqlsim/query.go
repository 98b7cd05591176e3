package dsqlsim

import (
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// savepointSQL marks the place to which a transaction's effects can be undone
// while its snapshot stays, and rewindSQL undoes them.
const (
	savepointSQL = "SAVEPOINT dsqlsim"
	rewindSQL    = "ROLLBACK TO SAVEPOINT dsqlsim"
)

// query passes on a simple Query. The statements of one that opens a block, or
// runs in one, travel one by one, so that each can be run again.
func (s *session) query(f *frame) error {
	if err := s.settle(); err != nil || s.skipping {
		return err
	}
	sql, _, ok := cString(f.body)
	if !ok {
		return protocolViolation("invalid string in message")
	}
	if f.next == 0 {
		delete(s.statements, "") // a simple Query destroys the unnamed statement
		delete(s.portals, "")
	}
	text := s.server.dialect.Read(sql)
	if len(text.Statements) == 0 {
		if err := s.open(); err != nil {
			return err
		}
		s.work.lost = s.work.lost || text.Unread
		return s.turn(f, debt{kind: 'Q', from: *f, text: text, status: s.status, rules: s.tx, mayWait: text.Unread})
	}
	if f.next == 0 && s.byItself(text) {
		s.byParts(text)
		return nil
	}
	s.broken = false
	for i := f.next; i < len(text.Statements) && !s.broken; {
		n := len(text.Statements) - i
		if s.status == statusInBlock || text.Statements[i].Kind == dialect.Begin {
			n = 1
		}
		part := *f
		part.next, part.again = i, f.again && i == f.next
		var err error
		if n == 1 {
			err = s.one(&part, sql, text)
		} else {
			err = s.several(&part, text)
		}
		if err != nil {
			return err
		}
		i += n
	}
	return nil
}

// several passes on the rest of a Query that is an implicit transaction, cut
// short in front of a statement that must not run.
func (s *session) several(f *frame, text *dialect.Text) error {
	d := debt{kind: 'Q', from: *f, text: text, index: f.next, status: s.status, rules: s.tx, mayWait: true}
	var send strings.Builder
	asItIs := f.next == 0
	status := s.status
	for i := f.next; i < len(text.Statements); i++ {
		st := &text.Statements[i]
		failed, err := s.judge(f, st, status)
		if err == nil && failed == nil {
			failed = s.outdated(st, status)
		}
		if err != nil {
			return err
		}
		if failed != nil {
			send.WriteString(d.replace(i, st, status, failed))
			asItIs = false
			break
		}
		spelling := s.server.plans.spelling(st)
		asItIs = asItIs && spelling == st.SQL
		send.WriteString(spelling)
		send.WriteString("\n;") // it may end in a comment
		if s.interrupt(&d, i) {
			send.WriteString(markerSQL)
			asItIs = false
			break
		}
		status = after(status, st.Kind)
	}
	sql := send.String()
	if asItIs {
		sql = text.SQL // positions in it are the client's
	}
	if err := s.turn(&frame{kind: 'Q', body: append([]byte(sql), 0)}, d); err != nil {
		return err
	}
	s.work.lost = s.status == statusInBlock // there is no savepoint in front of it
	return nil
}

// one passes on one statement of a Query.
func (s *session) one(f *frame, sql string, text *dialect.Text) error {
	st := &text.Statements[f.next]
	d := debt{
		kind: 'Q', from: *f, text: text, index: f.next, status: s.status, rules: s.tx,
		more: f.next+1 < len(text.Statements), mayWait: waits(st), alone: len(text.Statements) == 1,
	}
	failed, err := s.judge(f, st, s.status)
	if err != nil {
		return err
	}
	if failed == nil && d.alone && st.Kind == dialect.Begin && s.status == statusIdle {
		return s.begin(st)
	}
	if err := s.open(); err != nil {
		return err
	}
	if failed == nil {
		failed, err = s.prepare(st, capture{plan: s.server.plans.of(st), values: noValues})
		if err != nil {
			return err
		}
	}
	send, err := s.inQuery(&d, st, failed)
	if err != nil {
		return err
	}
	if f.next > 0 {
		d.offset = offsetOf(sql, text, f.next)
	}
	return s.turn(&frame{kind: 'Q', body: append([]byte(send), 0)}, d)
}

// inQuery is what PostgreSQL gets for one statement of a Query, or in its place
// if it has failed. d is told what the answer will stand for.
func (s *session) inQuery(d *debt, st *dialect.Statement, failed *failure) (string, error) {
	if failed == nil && s.work.guessing {
		if guess := d.guessed(st); d.guess != nil {
			return guess, nil
		}
		failed = dataConflict
	}
	if failed != nil {
		return d.replace(d.index, st, s.status, failed), nil
	}
	sql := s.server.plans.spelling(st)
	if s.status == statusInBlock && hasEffect(st) {
		d.effect = newEffect(st, sql, nil, noValues)
		if !s.work.savepoint {
			if err := s.savepoint(); err != nil {
				return "", err
			}
		}
	}
	if s.interrupt(d, d.index) {
		sql += "\n;" + markerSQL
	}
	return sql, nil
}

// begin answers a BEGIN, which PostgreSQL gets with the first statement.
func (s *session) begin(st *dialect.Statement) error {
	s.status = statusInBlock
	s.work = work{begin: st.SQL, deferred: true}
	tag := "BEGIN"
	if st.Verb == "START" {
		tag = "START TRANSACTION"
	}
	s.record(st, tag)
	s.server.metrics.statements.WithLabelValues(kindLabel(st)).Inc()
	if err := s.completed(&debt{kind: 'Q'}, st, &tag); err != nil {
		return err
	}
	if s.atReady != nil {
		return s.atReady
	}
	if err := s.say(&pgproto3.CommandComplete{CommandTag: []byte(tag)}); err != nil {
		return err
	}
	if err := s.say(&pgproto3.ReadyForQuery{TxStatus: s.status}); err != nil {
		return err
	}
	return s.out.Flush()
}

// offsetOf counts the characters in front of a statement.
func offsetOf(sql string, text *dialect.Text, index int) int32 {
	at := 0
	for i := 0; ; i++ {
		// One that is spelled differently for PostgreSQL is not found: near enough.
		found := max(strings.Index(sql[at:], text.Statements[i].SQL), 0)
		at += found
		if i == index {
			return int32(utf8.RuneCountInString(sql[:at]))
		}
		if found >= 0 {
			at += min(len(text.Statements[i].SQL), len(sql)-at)
		}
	}
}
