package dsqlsim

import (
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// oidText is the type of a job_id.
const oidText = 25

// reply reads one frame of PostgreSQL's and passes on what the client is to see
// of it.
func (s *session) reply() error {
	kind, total, err := s.header()
	if err != nil {
		return err
	}
	if s.over && kind != 'Z' {
		return s.swallow(kind, total)
	}
	switch kind {
	case 'D':
		return s.row(total)
	case 'd', 'H', 'V', 'S', 'A': // what changes nothing here
		return s.relay(total)
	case 'N':
		return s.notice(total)
	case 'E':
		return s.error(total)
	case 'C':
		return s.complete(total)
	case 'Z':
		return s.ready()
	case 'G':
		return s.copyIn(total)
	case 'T', 'n', 't':
		return s.described(kind, total)
	case 's':
		return s.suspended(total)
	}
	return s.acknowledged(kind, total)
}

// header tells type and length of PostgreSQL's next frame, which stays unread.
func (s *session) header() (kind byte, total int, err error) {
	header, err := s.up.Peek(frameHeader)
	if err != nil {
		return 0, 0, upstreamError(err)
	}
	if _, err := bodyLength(header); err != nil {
		return 0, 0, upstreamError(err)
	}
	return header[0], lengthOf(header), nil
}

// suspended is PortalSuspended: the client has read a part of the result.
func (s *session) suspended(total int) error {
	if d := s.owed.first(); d != nil && d.effect != nil {
		s.work.lost = true // its tag and the rest of its rows are unknown
	}
	if gone, err := s.breakOff(total); gone || err != nil {
		s.owed.pop()
		return err
	}
	return s.acknowledged('s', total)
}

// acknowledged is an answer without a content: ParseComplete (1), BindComplete (2),
// CloseComplete (3), EmptyQueryResponse (I), PortalSuspended (s), CopyDone (c).
func (s *session) acknowledged(kind byte, total int) error {
	d := s.owed.first()
	if d != nil && d.silent {
		s.owed.pop()
		_, err := s.up.Discard(total)
		return err
	}
	if d != nil && kind != 'c' && !d.endsTurn() {
		s.owed.pop()
	}
	return s.relay(total)
}

func (s *session) relay(total int) error { return relayFrame(s.out, s.up, total) }

// row is a row of a result. Those of an effect are added up, to know them
// again; those of a guess are the client's only if it asked for rows.
func (s *session) row(total int) error {
	if gone, err := s.beforeRow(total); gone || err != nil {
		return err
	}
	d := s.owed.first()
	switch {
	case d == nil:
	case d.guess != nil && !d.guess.Returning:
		_, err := s.up.Discard(total)
		return err
	case d.effect != nil && total <= s.up.Size():
		b, err := s.up.Peek(total)
		if err != nil {
			return upstreamError(err)
		}
		d.effect.sum += sumOf(b[frameHeader:])
	}
	return s.relay(total)
}

// take reads a frame of this length, header included, and returns its body.
func (s *session) take(total int) ([]byte, error) {
	b := make([]byte, total)
	if _, err := io.ReadFull(s.up, b); err != nil {
		return nil, upstreamError(err)
	}
	return b[frameHeader:], nil
}

// described is the answer, or half of it, to a Describe; or the columns of a
// Query's result.
func (s *session) described(kind byte, total int) error {
	d := s.owed.first()
	if d != nil && d.guess != nil && !d.guess.Returning {
		_, err := s.up.Discard(total)
		return err
	}
	if d == nil || d.kind != 'D' || kind == 't' {
		return s.relay(total)
	}
	st := d.statement()
	job := kind == 'n' && st != nil && st.Job
	unasked := d.silent && kind == 'n'
	s.owed.pop()
	if !job && !unasked {
		return s.relay(total)
	}
	if _, err := s.up.Discard(total); err != nil {
		return upstreamError(err)
	}
	if !job {
		return nil
	}
	return s.say(jobColumns)
}

// complete is the end of a statement that did not fail.
func (s *session) complete(total int) error {
	d := s.owed.first()
	if d == nil || d.kind == 'F' {
		return s.relay(total)
	}
	if gone, err := s.breakOff(total); gone || err != nil {
		if d.kind == 'E' {
			s.owed.pop()
		}
		return err
	}
	body, err := s.take(total)
	if err != nil {
		return err
	}
	tag := strings.TrimSuffix(string(body), "\x00")
	if d.preamble || d.quiet {
		s.work.savepoint = s.work.savepoint || d.preamble
		s.owed.pop()
		return nil
	}
	if d.guess != nil {
		tag = d.guess.Tag(tag)
	}
	if d.instead != nil && d.instead.at == d.index {
		s.broken = true
		err := s.answer(d, d.instead.by.response())
		if d.kind == 'E' {
			s.owed.pop()
		}
		return err
	}
	st := d.statement()
	if over := s.spend(d, st, tag); over != nil {
		return s.overrun(d, over)
	}
	if err := s.await(); err != nil {
		return err
	}
	s.succeeded(d, st, tag)
	if st != nil {
		if err := s.completed(d, st, &tag); err != nil {
			return err
		}
	}
	s.record(st, tag)
	s.server.metrics.statements.WithLabelValues(kindLabel(st)).Inc()
	if d.index++; d.kind == 'E' {
		s.owed.pop()
	}
	return s.say(&pgproto3.CommandComplete{CommandTag: []byte(tag)})
}

// succeeded enters a statement that did not fail into the transaction's books.
func (s *session) succeeded(d *debt, st *dialect.Statement, tag string) {
	w := &s.work
	w.settled()
	if d.effect != nil {
		d.effect.tag = tag
		w.remember(*d.effect)
		d.effect = nil
	}
	switch {
	case st == nil:
		w.lost = w.lost || d.kind == 'E'
	case st.Kind == dialect.DDL:
		s.ddl = true
	case st.Verb == "UPDATE", st.Verb == "DELETE", st.Verb == "WITH":
		w.changed = true
	case st.Kind == dialect.Commit:
		w.committed = tag == "COMMIT"
	case st.Kind == dialect.Begin:
		w.begin = st.SQL
	case st.Verb == "DEALLOCATE":
		clear(s.prepared)
	}
}

// completed does what is special about a statement.
func (s *session) completed(d *debt, st *dialect.Statement, tag *string) error {
	if st.Tag != "" {
		*tag = st.Tag
	}
	s.answered(st, *tag)
	if !st.Job {
		return nil
	}
	if d.kind == 'Q' {
		if err := s.say(jobColumns); err != nil {
			return err
		}
	}
	return s.submitted()
}

// error is an ErrorResponse: it ends the statement, and in the extended protocol
// everything up to Sync.
func (s *session) error(total int) error {
	d := s.owed.first()
	if d.struck() {
		_, err := s.up.Discard(total)
		s.failed(d)
		return err
	}
	if total > maxReply {
		if err := s.relay(total); err != nil {
			return err
		}
		s.failed(d)
		return nil
	}
	body, err := s.take(total)
	if err != nil {
		return err
	}
	var e pgproto3.ErrorResponse
	if err := e.Decode(body); err != nil {
		return upstreamError(err)
	}
	if d == nil {
		return s.say(&e)
	}
	if s.canRetrace(d, &e) {
		return s.retrace(d, &e)
	}
	if e.Position > 0 {
		e.Position += d.offset
	}
	told := translate(&e, d.inPlace)
	if d.guess != nil {
		told = dataConflict.response()
	}
	err = s.answer(d, told)
	s.failed(d)
	return err
}

// answer tells the client that the statement d stands for failed.
func (s *session) answer(d *debt, e *pgproto3.ErrorResponse) error {
	s.recordFailure(d.statement(), e.Code)
	s.server.metrics.errors.WithLabelValues(errorLabel(d, e)).Inc()
	if err := s.say(e); err != nil {
		return err
	}
	return s.out.Flush()
}

// failed brings the books in line with PostgreSQL, which skips to Sync.
func (s *session) failed(d *debt) {
	w := &s.work
	w.settled()
	s.ddl, s.broken = false, true
	if d == nil || d.endsTurn() {
		return
	}
	hasSync := s.owed.skip(s.undo)
	s.skipping = !hasSync
}

// ready is the end of a turn.
func (s *session) ready() error {
	body, err := s.take(frameHeader + 1)
	if err != nil {
		return err
	}
	s.status, s.inTurn, s.busy = body[0], false, false
	if s.over && s.status == statusInBlock {
		return s.failBlock()
	}
	s.over = false
	s.turned()
	if s.status == statusIdle {
		s.usage = usage{}
		s.ended()
	}
	more := false
	if d := s.owed.first(); d != nil {
		more = d.more && !s.broken
		s.owed.pop()
	}
	if s.atReady != nil {
		return s.atReady
	}
	if more {
		return nil
	}
	if err := s.say(&pgproto3.ReadyForQuery{TxStatus: s.status}); err != nil {
		return err
	}
	return s.out.Flush()
}

// ended closes the books of a transaction.
func (s *session) ended() {
	if s.ddl && (s.work.committed || s.work.begin == "") {
		s.changedSchema()
	}
	s.ddl = false
	if s.work.begun {
		s.server.certifier.Close(s.work.snapshot, s.work.committed)
	}
	// The statement that is in others' way keeps its count.
	s.work = work{}
	s.tx = dialect.Transaction{}
	clear(s.portals)
}

// say writes a message of ours to the client's buffer.
func (s *session) say(m pgproto3.Message) error {
	_, err := s.out.Write(encode(m))
	return err
}

// jobColumns are what CREATE INDEX ASYNC answers (recorded).
var jobColumns = &pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{
	Name: []byte("job_id"), DataTypeOID: oidText, DataTypeSize: -1, TypeModifier: -1,
}}}

func kindLabel(st *dialect.Statement) string {
	if st == nil {
		return "other"
	}
	switch st.Kind {
	case dialect.DML:
		return "dml"
	case dialect.DDL:
		return "ddl"
	case dialect.Begin, dialect.Commit, dialect.Rollback:
		return "transaction"
	}
	return "other"
}

func errorLabel(d *debt, e *pgproto3.ErrorResponse) string {
	switch {
	case e.Code == codeConflict:
		return "conflict"
	case d.inPlace != nil && e.Message == d.inPlace.message:
		return "refused"
	}
	return "postgresql"
}
