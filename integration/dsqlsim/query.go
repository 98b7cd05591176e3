package dsqlsim

import (
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// savepointSQL sets dsqlsim's savepoint before a transaction's first effect. rewindSQL returns to that savepoint:
// PostgreSQL undoes the effects, and the transaction's snapshot remains.
const (
	savepointSQL = "SAVEPOINT dsqlsim"
	rewindSQL    = "ROLLBACK TO SAVEPOINT dsqlsim"
)

// handleQuery passes a client's simple Query on to PostgreSQL. If the Query opens a block, or runs in one, the
// session sends its statements separately, so that each can run again.
func (s *session) handleQuery(f *frame) error {
	if err := s.drainReplies(); err != nil || s.skipping {
		return err
	}
	sql, _, ok := cutCString(f.body)
	if !ok {
		return protocolViolation("invalid string in message")
	}
	if f.nextStatement == 0 {
		delete(s.names.statements, "") // a simple Query destroys the unnamed statement
		delete(s.names.portals, "")
	}
	text := s.server.dialect.Analyze(sql)
	if len(text.Statements) == 0 {
		if err := s.openDeferredBlock(); err != nil {
			return err
		}
		s.block.log.incomplete = s.block.log.incomplete || text.Unread
		return s.forwardAndDrain(f, pendingReply{kind: 'Q', from: *f, text: text, status: s.status, rules: s.rules, mayWait: text.Unread})
	}
	if f.nextStatement == 0 && s.mustSplitQuery(text) {
		s.splitQuery(text)
		return nil
	}
	s.broken = false
	for i := f.nextStatement; i < len(text.Statements) && !s.broken; {
		n := len(text.Statements) - i
		if s.status == statusInBlock || text.Statements[i].Kind == dialect.Begin {
			n = 1
		}
		part := *f
		part.nextStatement, part.replayed = i, f.replayed && i == f.nextStatement
		var err error
		if n == 1 {
			err = s.forwardQueryStatement(&part, sql, text)
		} else {
			err = s.forwardQueryRest(&part, text)
		}
		if err != nil {
			return err
		}
		i += n
	}
	return nil
}

// forwardQueryRest passes the remaining statements of a Query, which is an implicit transaction, on to PostgreSQL as
// one text. If a statement must not run, that text ends before the statement.
func (s *session) forwardQueryRest(f *frame, text *dialect.Text) error {
	r := pendingReply{kind: 'Q', from: *f, text: text, index: f.nextStatement, status: s.status, rules: s.rules, mayWait: true}
	var send strings.Builder
	asItIs := f.nextStatement == 0
	status := s.status
	for i := f.nextStatement; i < len(text.Statements); i++ {
		st := &text.Statements[i]
		failed, err := s.checkStatement(f, st, status)
		if err != nil {
			return err
		}
		if failed == nil {
			failed = s.schemaConflictFor(st, status)
		}
		if failed != nil {
			send.WriteString(r.replacementSQL(i, st, status, failed))
			asItIs = false
			break
		}
		spelling := s.upstreamSpelling(st, status)
		asItIs = asItIs && spelling == st.SQL
		send.WriteString(spelling)
		send.WriteString("\n;") // it may end in a comment
		if s.armInterruption(&r, i) {
			send.WriteString(markerSQL)
			asItIs = false
			break
		}
		status = statusAfter(status, st.Kind)
	}
	sql := send.String()
	if asItIs {
		sql = text.SQL // positions in it are the client's
	}
	if err := s.forwardAndDrain(&frame{kind: 'Q', body: append([]byte(sql), 0)}, r); err != nil {
		return err
	}
	s.block.log.incomplete = s.status == statusInBlock // there is no savepoint in front of it
	return nil
}

// forwardQueryStatement passes one statement of a Query on to PostgreSQL.
func (s *session) forwardQueryStatement(f *frame, sql string, text *dialect.Text) error {
	st := &text.Statements[f.nextStatement]
	r := pendingReply{
		kind: 'Q', from: *f, text: text, index: f.nextStatement, status: s.status, rules: s.rules,
		more: f.nextStatement+1 < len(text.Statements), mayWait: mayWaitForLock(st) || s.locksOutsideBlock(st, s.status), alone: len(text.Statements) == 1,
	}
	failed, err := s.checkStatement(f, st, s.status)
	if err != nil {
		return err
	}
	if failed == nil && r.alone && st.Kind == dialect.Begin && s.status == statusIdle {
		return s.answerBegin(st)
	}
	if err := s.openDeferredBlock(); err != nil {
		return err
	}
	if failed == nil && !st.Parameters {
		failed, err = s.prepareTransaction(st, rowCapture{plan: s.server.plans.planFor(st), values: noValues})
		if err != nil {
			return err
		}
	}
	send, err := s.upstreamText(&r, st, failed)
	if err != nil {
		return err
	}
	if f.nextStatement > 0 {
		r.offset = characterOffset(sql, text, f.nextStatement)
	}
	return s.forwardAndDrain(&frame{kind: 'Q', body: append([]byte(send), 0)}, r)
}

// upstreamText returns the text that PostgreSQL gets for one statement of a Query. If failed is not nil, the
// statement must not run, and another text replaces it. upstreamText notes in r how to treat PostgreSQL's answer.
func (s *session) upstreamText(r *pendingReply, st *dialect.Statement, failed *failure) (string, error) {
	if failed == nil && s.block.attempt.guessing {
		if guess := r.guessOutcome(st); r.guess != nil {
			s.block.recordLostWrite(st.SQL)
			return guess, nil
		}
		failed = dataConflict
	}
	if failed != nil {
		return r.replacementSQL(r.index, st, s.status, failed), nil
	}
	sql := s.upstreamSpelling(st, s.status)
	if s.status == statusInBlock && hasEffect(st) {
		r.effect = newLoggedEffect(st, sql, nil, noValues)
		if !s.block.log.savepointSet {
			if err := s.setSavepoint(); err != nil {
				return "", err
			}
		}
	}
	if s.armInterruption(r, r.index) {
		sql += "\n;" + markerSQL
	}
	return sql, nil
}

// locksOutsideBlock reports whether a statement's locking clause locks rows outside of a block
// (Config.LocksOutsideBlocks). status is the transaction status before the statement.
func (s *session) locksOutsideBlock(st *dialect.Statement, status byte) bool {
	return s.server.config.LocksOutsideBlocks && status == statusIdle && s.server.plans.planFor(st) != nil
}

// upstreamSpelling returns a statement's text for PostgreSQL. status is the transaction status before the statement.
func (s *session) upstreamSpelling(st *dialect.Statement, status byte) string {
	if s.locksOutsideBlock(st, status) {
		return st.SQL
	}
	return s.server.plans.upstreamSpelling(st)
}

// answerBegin answers a BEGIN. PostgreSQL gets the BEGIN with the block's first statement.
func (s *session) answerBegin(st *dialect.Statement) error {
	s.status = statusInBlock
	s.block = transactionBlock{beginSQL: st.SQL, deferred: true}
	tag := "BEGIN"
	if st.Verb == "START" {
		tag = "START TRANSACTION"
	}
	s.journal.recordSuccess(st, tag)
	if err := s.finishStatement(&pendingReply{kind: 'Q'}, st, &tag); err != nil {
		return err
	}
	if s.injection.atReady != nil {
		return s.injection.atReady
	}
	if err := s.sendMessage(&pgproto3.CommandComplete{CommandTag: []byte(tag)}); err != nil {
		return err
	}
	if err := s.sendMessage(&pgproto3.ReadyForQuery{TxStatus: s.status}); err != nil {
		return err
	}
	return s.toClient.Flush()
}

// characterOffset returns the number of characters before a statement of a Query.
func characterOffset(sql string, text *dialect.Text, index int) int32 {
	at := 0
	for i := 0; ; i++ {
		// The offset is inexact for a statement that the dialect respells for PostgreSQL, since such a statement is not
		// found.
		at += max(strings.Index(sql[at:], text.Statements[i].SQL), 0)
		if i == index {
			return int32(utf8.RuneCountInString(sql[:at]))
		}
		at += min(len(text.Statements[i].SQL), len(sql)-at)
	}
}
