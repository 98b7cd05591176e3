package dsqlsim

import (
	"errors"
	"time"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// batchBytes bounds the bytes that are on their way to PostgreSQL while their replies are unread. It is less than any
// socket buffer holds, so the session's write never waits for PostgreSQL. A longer frame travels alone, because
// PostgreSQL reads a frame to its end before it answers.
const batchBytes = 16 << 10

// ownName is the name of the prepared statement and portal that dsqlsim uses for its own statements.
const ownName = "dsqlsim"

// handleFrame passes one frame of the client on to PostgreSQL, or answers it.
func (s *session) handleFrame(f *frame) error {
	switch {
	case s.skipping && f.kind == 'H':
		return s.injection.atReady
	case s.skipping && f.kind != 'S':
		return nil
	}
	switch f.kind {
	case 'P', 'B', 'E', 'D', 'S', 'F':
		if err := s.openDeferredBlock(); err != nil {
			return err
		}
	}
	switch f.kind {
	case 'Q':
		return s.handleQuery(f)
	case 'P':
		return s.handleParse(f)
	case 'B':
		return s.handleBind(f)
	case 'E':
		if err := s.handleExecute(f); err != nil || !f.ofQuery {
			return err
		}
		return s.drainReplies()
	case 'D':
		return s.handleDescribe(f)
	case 'C':
		return s.handleClose(f)
	case 'H':
		return s.handleFlush()
	case 'S':
		return s.handleSync(f)
	case 'F':
		s.block.log.incomplete = true // it may do anything
		return s.forwardAndDrain(f, pendingReply{kind: 'F', from: *f})
	case 'd', 'c', 'f':
		return nil // what a client still sends after a COPY that failed
	}
	return protocolViolation("invalid frontend message type " + string(rune(f.kind)))
}

// handleFlush handles the client's Flush: it reads all pending replies and sends the output to the client.
func (s *session) handleFlush() error {
	if err := s.drainReplies(); err != nil {
		return err
	}
	if s.injection.atReady != nil {
		return s.injection.atReady
	}
	return s.toClient.Flush()
}

// handleSync passes a client's Sync on to PostgreSQL.
func (s *session) handleSync(f *frame) error {
	if err := s.enforceBeforeSync(); err != nil {
		return err
	}
	s.skipping = false
	if f.ofQuery {
		delete(s.names.statements, "")
	}
	return s.forwardAndDrain(f, pendingReply{kind: 'S', from: *f})
}

// forwardFrame sends one frame to PostgreSQL and queues r, the reply to that frame.
func (s *session) forwardFrame(f *frame, r pendingReply) error {
	size := frameHeader + len(f.body)
	if s.replies.bytes+size > batchBytes {
		if err := s.drainReplies(); err != nil {
			return err
		}
		if s.skipping && f.kind != 'S' {
			return nil
		}
	}
	s.replies.push(r, size)
	s.turn.begun = true
	s.current.sent = s.current.sent || !r.silent
	return s.upstream.write(f.kind, f.body)
}

// forwardOwnFrame sends a frame whose reply the client does not see.
func (s *session) forwardOwnFrame(f *frame) error {
	return s.forwardFrame(f, pendingReply{kind: f.kind, silent: true})
}

// newReplyTo returns the pending reply to a frame of the extended protocol. Among the frames that replace a Query, only
// the Execute has a reply that the client sees.
func (s *session) newReplyTo(f *frame) pendingReply {
	return pendingReply{
		kind: f.kind, from: *f, silent: f.ofQuery && f.kind != 'E',
		status: s.status, rules: s.rules, alone: !s.turn.busy,
	}
}

// forwardAndDrain forwards a frame that ends a turn, and reads all pending replies, because the next frame needs the
// transaction status.
func (s *session) forwardAndDrain(f *frame, r pendingReply) error {
	if err := s.forwardFrame(f, r); err != nil {
		return err
	}
	return s.drainReplies()
}

// drainReplies sends all buffered frames and reads until no reply is pending.
func (s *session) drainReplies() error {
	last := s.replies.last()
	if last == nil {
		return nil
	}
	if !last.endsTurn() {
		if err := s.upstream.write('H', nil); err != nil {
			return err
		}
	}
	if s.replies.waits > 0 {
		s.markWaiting(true)
		defer s.markWaiting(false)
	}
	if err := s.upstream.flush(); err != nil {
		return err
	}
	if err := s.injectInTransit(last.endsTurn()); err != nil {
		return err
	}
	for s.replies.first() != nil {
		if err := s.handleReply(); err != nil {
			return err
		}
	}
	return nil
}

// markWaiting records for the lockArbiter whether PostgreSQL may now wait for another transaction for this session.
func (s *session) markWaiting(may bool) {
	if !may {
		s.waitingSince.Store(0)
		return
	}
	s.waitingSince.Store(time.Now().UnixNano())
	notify(s.server.arbiter.wake)
}

// failUpstream sends PostgreSQL a failing statement instead of the frame of r. The client gets the error in parameter
// why.
func (s *session) failUpstream(r pendingReply, why *failure) error {
	r.marked = why
	return s.forwardFrame(newParseFrame(ownName, markerSQL, nil), r)
}

// replacementSQL returns the SQL that PostgreSQL gets instead of statement i. It notes in r that the client gets the
// error in parameter by, and not the answer to that SQL. A conflict at COMMIT ends the transaction; any other failure
// leaves it failed.
func (r *pendingReply) replacementSQL(i int, st *dialect.Statement, status byte, by *failure) string {
	if conflictsAtCommit(st, status, by) {
		r.replaced = &failedCommit{i, by}
		return "ROLLBACK"
	}
	r.marked = by
	return markerSQL
}

func conflictsAtCommit(st *dialect.Statement, status byte, f *failure) bool {
	return st.Kind == dialect.Commit && status == statusInBlock && (f.code == codeConflict || f.code == codeLimit)
}

// statusAfter returns the transaction status after a statement that succeeds.
func statusAfter(status byte, kind dialect.Kind) byte {
	switch {
	case kind == dialect.Begin && status == statusIdle:
		return statusInBlock
	case kind == dialect.Commit, kind == dialect.Rollback:
		return statusIdle
	}
	return status
}

// checkStatement returns a failure if a statement must not run; the client gets the failure instead. An error ends the
// session. In a failed block PostgreSQL answers 25P02 to any frame.
func (s *session) checkStatement(f *frame, st *dialect.Statement, status byte) (*failure, error) {
	s.current.checked = true
	if !f.replayed { // a fault happens once
		err := s.injectBeforeStatement(st, status)
		if f, ok := errors.AsType[*failure](err); ok {
			return f, nil
		}
		if err != nil {
			return nil, err
		}
	}
	if f := s.limitRefusal(st, status); f != nil {
		return f, nil
	}
	r := st.Refusal
	if r == nil {
		r = s.rules.AddStatement(st)
	}
	switch {
	case r != nil:
		return failureOf(r), nil
	case len(st.Locked) > 0 && status != statusFailed:
		return s.checkWholeKeys(st)
	}
	return nil, nil
}
