package dsqlsim

import (
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// usage is what a transaction has taken of its limits. The zero value is one that
// has not begun.
type usage struct {
	began time.Time
	rows  int
	bytes int
	// over: PostgreSQL is to fail the transaction yet.
	over bool
}

// begin starts the clock, once for each block.
func (u *usage) begin() {
	if u.began.IsZero() {
		u.began = time.Now()
	}
}

// refuse tells why a statement of an open block may not run. An aged transaction
// learns it at its next statement, a large one at COMMIT; ROLLBACK always may.
func (u *usage) refuse(st *dialect.Statement, l *Limits) *failure {
	if st.Kind == dialect.Rollback || u.began.IsZero() {
		return nil
	}
	if age := time.Since(u.began); age > l.TransactionAge {
		return tooAged(age, l.TransactionAge)
	}
	if st.Kind == dialect.Commit && u.bytes > l.TransactionBytes {
		return tooLarge(u.bytes, l.TransactionBytes)
	}
	return nil
}

// add counts a statement that has run, by its command tag and by the bytes that
// the client has sent for it. What the server makes up by itself is not seen: a
// statement that writes many rows counts its bytes once for each of them, unless
// it lists the rows.
func (u *usage) add(tag string, listed bool, sent int, l *Limits) *failure {
	verb, rows := rowsWritten(tag)
	if rows == 0 {
		return nil
	}
	u.rows += rows
	switch {
	case verb == "DELETE":
	case listed:
		u.bytes += sent
	default:
		u.bytes += sent * rows
	}
	if u.rows > l.TransactionRows {
		return tooManyRows
	}
	return nil
}

// rowsWritten reads a command tag such as "INSERT 0 1".
func rowsWritten(tag string) (verb string, rows int) {
	verb, _, _ = strings.Cut(tag, " ")
	switch verb {
	case "INSERT", "UPDATE", "DELETE":
		rows, _ = strconv.Atoi(tag[strings.LastIndexByte(tag, ' ')+1:])
	}
	return verb, rows
}

// waitInBlock is presumed: that the wait works outside a block only is documented.
var waitInBlock = &failure{code: "25001", message: "CALL sys.wait_for_job cannot run inside a transaction block"}

// refusedByLimits tells which limit forbids the next statement.
func (s *session) refusedByLimits(st *dialect.Statement, status byte) *failure {
	switch {
	case status != statusInBlock:
		return nil
	case st.Waits:
		return waitInBlock
	}
	s.usage.begin()
	return s.usage.refuse(st, &s.server.config.Limits)
}

// countUsage counts a statement that has succeeded, and tells which limit it crosses.
func (s *session) countUsage(r *pendingReply, st *dialect.Statement, tag string) *failure {
	sent, listed := r.bytes, false
	if st != nil {
		listed = st.Listed
		if r.kind == 'Q' {
			sent = len(st.SQL)
		}
		switch st.Kind {
		case dialect.Commit, dialect.Rollback:
			s.usage = usage{}
		}
	}
	return s.usage.add(tag, listed, sent, &s.server.config.Limits)
}

// refuseOverLimit answers a statement that has crossed a limit with an error.
// PostgreSQL does not know yet: it is told in front of the Sync that would commit,
// or behind the turn in a block. Until then its answers are for nobody.
func (s *session) refuseOverLimit(r *pendingReply, why *failure) error {
	err := s.sendError(r, why.response())
	s.usage.over = true
	if r.kind != 'E' {
		s.broken = true
		return err
	}
	s.replies.pop()
	last := s.replies.last()
	s.skipping = last == nil || !last.endsTurn()
	return err
}

// discardReply reads an answer that is for nobody.
func (s *session) discardReply(kind byte, total int) error {
	r := s.replies.first()
	if r == nil || kind == 'S' || kind == 'A' {
		return s.relay(total)
	}
	if kind == 'E' {
		s.noteFailure(r)
	} else if !r.endsTurn() {
		switch kind {
		case '1', '2', '3', 'C', 'I', 's', 'n':
			s.replies.pop()
		case 'T':
			if r.kind == 'D' {
				s.replies.pop()
			}
		}
	}
	return s.upstream.discard(total)
}

// failBlock has PostgreSQL fail the block as well, before the client hears that
// the turn is over.
func (s *session) failBlock() error {
	s.replies.pop()
	f := frame{kind: 'Q', body: append([]byte(markerSQL), 0)}
	if err := s.forwardOwn(&f); err != nil {
		return err
	}
	return s.upstream.flush()
}

// beforeSync sees to it that what the Sync would commit is within the limits.
func (s *session) beforeSync() error {
	if s.status != statusIdle {
		return nil
	}
	if s.replies.mayExceed(&s.server.config.Limits) {
		if err := s.settle(); err != nil {
			return err
		}
	}
	limit := s.server.config.Limits.TransactionBytes
	if !s.usage.over && s.usage.bytes > limit {
		if err := s.respond(tooLarge(s.usage.bytes, limit).response()); err != nil {
			return err
		}
		s.usage.over = true
	}
	if !s.usage.over {
		return nil
	}
	return s.forwardOwn(parseFrame(ownName, markerSQL, nil))
}

// leastRow is the shortest text that VALUES can have for a row.
const leastRow = len("(1)")

// mayExceed tells whether a statement by itself may write too many rows.
func mayExceed(st *dialect.Statement, l *Limits) bool {
	return st.Kind == dialect.DML && !(st.Listed && len(st.Source)/leastRow <= l.TransactionRows)
}

// mayExceed tells whether statements are on their way that may write too much: one
// of them, or several together.
func (q *replyQueue) mayExceed(l *Limits) bool {
	n := 0
	for _, r := range q.rest() {
		st := r.statement()
		if r.kind != 'E' || st == nil || st.Kind != dialect.DML {
			continue
		}
		if n++; n > 1 || mayExceed(st, l) {
			return true
		}
	}
	return false
}

// commitsItself tells whether a Query is a transaction that writes: then PostgreSQL
// would have committed before the rows are counted. A Query with parameters fails.
func (s *session) commitsItself(text *dialect.Text) bool {
	writes := false
	for i := range text.Statements {
		st := &text.Statements[i]
		if st.Parameters {
			return false
		}
		switch st.Kind {
		case dialect.DML:
			writes = writes || len(text.Statements) > 1 || mayExceed(st, &s.server.config.Limits)
		case dialect.Begin, dialect.Commit, dialect.Rollback, dialect.Copy:
			return false
		}
	}
	return writes && s.status == statusIdle
}

// splitQuery puts frames of the extended protocol in the place of a Query: there we
// can look at each statement's tag before the Sync commits. The client does not see
// the difference.
func (s *session) splitQuery(text *dialect.Text) {
	var parts []frame
	add := func(m pgproto3.FrontendMessage, instead int) {
		packet := encode(m)
		parts = append(parts, frame{kind: packet[0], body: packet[frameHeader:], ofQuery: true, queryBytes: instead})
	}
	for i := range text.Statements {
		sql := text.Statements[i].Source
		add(&pgproto3.Parse{Query: sql}, 0)
		add(&pgproto3.Bind{}, len(sql))
		add(&pgproto3.Describe{ObjectType: 'P'}, 0)
		add(&pgproto3.Execute{}, 0)
	}
	add(&pgproto3.Sync{}, 0)
	s.queue.pushFront(parts)
}

// dataBytes is how many bytes of data a Bind brings.
func (f *frame) dataBytes() int { return max(f.queryBytes, len(f.body)) }
