package dsqlsim

import (
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// transactionUsage is how much of the limits a transaction has used. The zero value is a transaction that has not
// begun.
type transactionUsage struct {
	began time.Time
	rows  int
	bytes int
	// over means that the transaction has crossed a limit, and that PostgreSQL's transaction must still fail.
	over bool
}

// startClock starts the clock of a block, at its first statement.
func (u *transactionUsage) startClock() {
	if u.began.IsZero() {
		u.began = time.Now()
	}
}

// refusalFor returns the failure of a statement in an open block over its limits. A block that is too old fails at its
// next statement, one that is too large at COMMIT. ROLLBACK always succeeds.
func (u *transactionUsage) refusalFor(st *dialect.Statement, l *Limits) *failure {
	if st.Kind == dialect.Rollback || u.began.IsZero() {
		return nil
	}
	if age := time.Since(u.began); age > l.TransactionAge {
		return tooOldFailure(age, l.TransactionAge)
	}
	if st.Kind == dialect.Commit && u.bytes > l.TransactionBytes {
		return tooLargeFailure(u.bytes, l.TransactionBytes)
	}
	return nil
}

// countStatement counts a statement that has run, by its command tag and by the bytes that the client has sent. A
// statement that does not list its rows counts its bytes once for each row. Data that the server computes is not
// counted.
func (u *transactionUsage) countStatement(tag string, listed bool, sent int, l *Limits) *failure {
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

// rowsWritten parses a command tag such as "INSERT 0 1".
func rowsWritten(tag string) (verb string, rows int) {
	verb, _, _ = strings.Cut(tag, " ")
	switch verb {
	case "INSERT", "UPDATE", "DELETE":
		rows, _ = strconv.Atoi(tag[strings.LastIndexByte(tag, ' ')+1:])
	}
	return verb, rows
}

// waitInBlock is a presumed error. Only the rule is documented: sys.wait_for_job works outside a block only.
var waitInBlock = &failure{code: "25001", message: "CALL sys.wait_for_job cannot run inside a transaction block"}

// limitRefusal returns the failure of a statement that the limits on a transaction forbid, or nil.
func (s *session) limitRefusal(st *dialect.Statement, status byte) *failure {
	switch {
	case status != statusInBlock:
		return nil
	case st.Waits:
		return waitInBlock
	}
	s.usage.startClock()
	return s.usage.refusalFor(st, &s.server.config.Limits)
}

// countUsage counts a statement that has succeeded, and returns the failure if the transaction crosses a limit.
func (s *session) countUsage(r *pendingReply, st *dialect.Statement, tag string) *failure {
	sent, listed := r.bytes, false
	if st != nil {
		listed = st.Listed
		if r.kind == 'Q' {
			sent = len(st.SQL)
		}
		switch st.Kind {
		case dialect.Commit, dialect.Rollback:
			s.usage = transactionUsage{}
		}
	}
	return s.usage.countStatement(tag, listed, sent, &s.server.config.Limits)
}

// refuseOverLimit answers a statement that has crossed a limit: the client gets the error in parameter why.
// PostgreSQL has accepted that statement. The session makes PostgreSQL's transaction fail later: before the Sync that
// would commit, or after the turn of a block. Until that failure the session discards PostgreSQL's answers.
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

// discardReply discards an answer of PostgreSQL that the client does not get, except ParameterStatus and notifications.
func (s *session) discardReply(kind byte, total int) error {
	r := s.replies.first()
	if r == nil || kind == 'S' || kind == 'A' {
		return s.relayReply(total)
	}
	if kind == 'E' {
		s.recordFailure(r)
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
	return s.upstream.discardFrame(total)
}

// failBlock makes PostgreSQL's block fail, as the client's block has failed. The client gets the ReadyForQuery of the
// turn only after that.
func (s *session) failBlock() error {
	s.replies.pop()
	f := frame{kind: 'Q', body: append([]byte(markerSQL), 0)}
	if err := s.forwardOwnFrame(&f); err != nil {
		return err
	}
	return s.upstream.flush()
}

// enforceBeforeSync checks, before a Sync, that the transaction which the Sync would commit is within the limits.
func (s *session) enforceBeforeSync() error {
	if s.status != statusIdle {
		return nil
	}
	if s.replies.mayExceedLimits(&s.server.config.Limits) {
		if err := s.drainReplies(); err != nil {
			return err
		}
	}
	limit := s.server.config.Limits.TransactionBytes
	if !s.usage.over && s.usage.bytes > limit {
		if err := s.sendMessage(tooLargeFailure(s.usage.bytes, limit).response()); err != nil {
			return err
		}
		s.usage.over = true
	}
	if !s.usage.over {
		return nil
	}
	return s.forwardOwnFrame(newParseFrame(ownName, markerSQL, nil))
}

// leastRow is the length of the shortest text for a row in VALUES.
const leastRow = len("(1)")

// mayExceedRows reports whether the statement st alone may write more rows than the limit on a transaction's rows.
func mayExceedRows(st *dialect.Statement, l *Limits) bool {
	return st.Kind == dialect.DML && !(st.Listed && len(st.Source)/leastRow <= l.TransactionRows)
}

// mayExceedLimits reports whether the statements with pending replies may write too many rows, one alone or several
// together.
func (q *replyQueue) mayExceedLimits(l *Limits) bool {
	n := 0
	for _, r := range q.pendingReplies() {
		st := r.currentStatement()
		if r.kind != 'E' || st == nil || st.Kind != dialect.DML {
			continue
		}
		if n++; n > 1 || mayExceedRows(st, l) {
			return true
		}
	}
	return false
}

// mustSplitQuery reports whether a Query is an implicit transaction that may write too many rows. PostgreSQL would
// commit that Query before the session has counted its rows. A Query with parameters fails anyway.
func (s *session) mustSplitQuery(text *dialect.Text) bool {
	writes := false
	for i := range text.Statements {
		st := &text.Statements[i]
		if st.Parameters {
			return false
		}
		switch st.Kind {
		case dialect.DML:
			writes = writes || len(text.Statements) > 1 || mayExceedRows(st, &s.server.config.Limits)
		case dialect.Begin, dialect.Commit, dialect.Rollback, dialect.Copy:
			return false
		}
	}
	return writes && s.status == statusIdle
}

// splitQuery replaces a Query by frames of the extended protocol, so that the session reads each command tag before the
// Sync commits. The client does not notice the difference.
func (s *session) splitQuery(text *dialect.Text) {
	var parts []frame
	add := func(m pgproto3.FrontendMessage, instead int) {
		packet := encodeMessage(m)
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

// dataBytes returns how many bytes of data a Bind contains.
func (f *frame) dataBytes() int { return max(f.queryBytes, len(f.body)) }
