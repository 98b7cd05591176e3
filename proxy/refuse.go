package proxy

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// Errors of Sluice's own in the client's stream: refuse for a turn, refuseFrame and refuseParse for a frame that is
// dropped, skipFrame for the frames after one.

// missingStatementName is the name of a prepared statement that no server has. It is random, so that no client can
// PREPARE it.
var missingStatementName = "sluice_refused_" + rand.Text()

// sendRefusal sends the client Sluice's own error e, after the answers that are still pending. Afterwards the turn has
// ended, or its frames are skipped up to a Sync. A block has failed.
//
// The server's part of the turn must fail too. So Sluice sends a Bind of a statement that does not exist, and replaces
// its error. In this way a block fails at the server, and a group outside a block is rolled back.
func (s *session) sendRefusal(e *wire.Error) error {
	t := s.t
	s.undoWaitingParse()
	// With a savepoint, what the client was sent before counts for a ROLLBACK TO: the logged turn ends before the refusal.
	// If an earlier frame failed, the server would have skipped this one.
	if len(s.tx.marks) > 0 {
		if err := s.cutLogTurn(); err != nil || t.skip || t.settled {
			return err
		}
	}
	e = s.replacePartialConflict(e)
	s.srv.metrics.CountErrorSent(e.Code)
	t.deadline = time.Time{} // the turn has failed already
	if s.state == busy || s.state == inTransaction && s.b.status == 'T' {
		// In a block between two turns the server's block must fail too. A startup value may have failed it already: one error
		// is enough.
		if err := s.ensureBackend(); err != nil && !isRefusal(err) {
			return err
		}
		// A transaction with a failed statement is not replayed.
		if t.logs {
			s.tx.log.RefuseReplay(retry.Failed)
		}
		t.refused = &forcedErrorReply{err: e}
		t.owed.push(wire.Bind).reply = t.refused
		t.outcome.RecordForcedError()
		s.addToBatch(appendBindWithoutParams(nil, missingStatementName))
		if !t.ended {
			t.skip = true
			return nil
		}
		t.owed.push(wire.Sync)
		s.addToBatch(wire.FrameSync)
		return s.finishTurn()
	}
	s.clearWaitAndCancel()
	if s.state == begun {
		if err := s.applyEvent(refusedInBlock); err != nil {
			return err
		}
		// The server has not seen the block, which fails in Sluice alone. Its BEGIN is recorded for AND CHAIN.
		s.failedBegin, s.deferredBegin = s.deferredBegin, nil
		s.tx.log.RefuseReplay(retry.Failed)
	}
	t.errorTold = true
	if err := s.sendOrWithhold(e.Append(nil)); err != nil {
		return err
	}
	if !t.ended {
		t.skip = true
		return nil
	}
	return s.endTurnLocally()
}

// forcedErrorReply is the pending reply to the Bind that makes the server fail; the client gets err.
type forcedErrorReply struct {
	defaultHandler
	err *wire.Error
}

func (r *forcedErrorReply) replaceError(*session, *pendingReply, []byte) *answer.ErrorHandling {
	return &answer.ErrorHandling{Instead: r.err.Append(nil), Forced: true}
}

// sendErrorNow sends the client an error outside the order of pending replies. The caller handles what follows.
func (s *session) sendErrorNow(e *wire.Error) {
	s.srv.metrics.CountErrorSent(e.Code)
	s.sendOrWithhold(e.Append(nil)) // the next write reports a write error again
}

// refuseFrame reads and drops a client's frame, and returns why or the error of the drop. An error of an earlier frame
// may arrive meanwhile: then this frame is only skipped. A lost backend that the transaction survives is replaced here,
// because later code does not know of the frame.
func (s *session) refuseFrame(total int, why *wire.Error) error {
	err := s.discardBytes(total)
	var gone *lostError
	for errors.As(err, &gone) && s.b != nil && s.canReplayAfterLoss() {
		err = s.handleBackendLoss(gone)
	}
	if err != nil || s.t.skip {
		return err
	}
	return why
}

// refuseParse does the same as refuseFrame for a Parse that is not read.
func (s *session) refuseParse(total int, why *wire.Error) error {
	if s.client.Peek(wire.HeaderLen + 1)[wire.HeaderLen] == 0 {
		s.destroyUnnamedStatement()
	}
	return s.refuseFrame(total, why)
}

// skipFrame drops a frame between an error and its Sync. A Flush still sends what Sluice withholds, since the client
// may wait for that.
func (s *session) skipFrame(typ byte, total int) error {
	if err := s.discardBytes(total); err != nil || typ != wire.Flush {
		return err
	}
	return s.handleFlush()
}
