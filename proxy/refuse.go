package proxy

import (
	"crypto/rand"
	"errors"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/ddltx"
	"github.com/sluice-proxy/sluice/proxy/request"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// This file sends Sluice's own errors to the client. sendRefusal makes a turn fail. refuseFrame and refuseParse drop a
// frame with an error, and skipFrame drops the frames that follow an error.

// missingStatementName is a statement name that no server has. It is random, so that no client can PREPARE it.
var missingStatementName = "sluice_refused_" + rand.Text()

// sendRefusal sends the client Sluice's own error e, after the answers that are still pending. It ends the turn, or
// makes it skip frames up to a Sync. If the client is in a block, the block fails.
//
// The server's part of the turn must fail too. So Sluice sends a Bind of a statement that does not exist, and
// replaces the server's error by e. A block thus fails, and a Sync group outside a block is rolled back.
func (s *session) sendRefusal(e *wire.Error) error {
	t := s.t
	s.undoWaitingParse()
	// The answers that the client got before this error must stay in the log for a ROLLBACK TO SAVEPOINT. So the logged
	// turn ends here. If an earlier frame failed, the server would have skipped this frame.
	if len(s.tx.marks) > 0 {
		if err := s.cutLogTurn(); err != nil || t.server.skip || t.settled {
			return err
		}
	}
	e = ddltx.ReplaceConflict(e, s.committedStatements())
	s.srv.metrics.CountErrorSent(e.Code)
	t.clock.Stop() // the turn has failed already
	if s.state == busy || s.state == inTransaction && s.b.status == 'T' {
		// A block that the server has must fail too, even before the turn has sent anything. If ensureBackend cannot set a
		// startup value, the block has already failed.
		if err := s.ensureBackend(); err != nil && !isRefusal(err) {
			return err
		}
		// The transaction cannot be replayed any more, since one of its statements has failed.
		if t.rec.logs {
			s.tx.log.RefuseReplay(retry.Failed)
		}
		t.output.refused = &forcedErrorReply{err: e}
		t.owed.push(wire.Bind).reply = t.output.refused
		t.server.outcome.RecordForcedError()
		s.t.addToBatch(request.AppendBindWithoutParams(nil, missingStatementName))
		if !t.request.ended {
			t.server.skip = true
			return nil
		}
		t.owed.push(wire.Sync)
		s.t.addToBatch(wire.FrameSync)
		return s.finishTurn()
	}
	s.waits.Abandon()
	if s.state == begun {
		if err := s.applyEvent(refusedInBlock); err != nil {
			return err
		}
		// The block fails in Sluice alone, since the server has not got its BEGIN. The BEGIN is stored for AND CHAIN.
		s.failedBegin, s.deferredBegin = s.deferredBegin, nil
		s.tx.log.RefuseReplay(retry.Failed)
	}
	t.server.errorTold = true
	if err := s.sendOrWithhold(e.Append(nil)); err != nil {
		return err
	}
	if !t.request.ended {
		t.server.skip = true
		return nil
	}
	return s.endTurnLocally()
}

// forcedErrorReply is the pending reply to the Bind that makes the server's part of the turn fail. The client gets err
// instead of the server's error.
type forcedErrorReply struct {
	defaultHandler
	err *wire.Error
}

func (r *forcedErrorReply) replaceError(*session, *pendingReply, []byte) *answer.ErrorHandling {
	return &answer.ErrorHandling{Instead: r.err.Append(nil), Forced: true}
}

// sendErrorNow sends the client an error before the pending replies. The caller ends the turn or skips its frames.
func (s *session) sendErrorNow(e *wire.Error) {
	s.srv.metrics.CountErrorSent(e.Code)
	s.sendOrWithhold(e.Append(nil)) // the next write reports a write error again
}

// refuseFrame reads and drops a client's frame, and returns why, or the error of reading. It returns nil if an
// earlier frame's error arrives meanwhile, since the server would have skipped this frame. A lost backend that the
// transaction survives is replaced here, because later code does not know of the frame.
func (s *session) refuseFrame(total int, why *wire.Error) error {
	err := s.discardBytes(total)
	var gone *lostError
	for errors.As(err, &gone) && s.b != nil && s.t.canReplayAfterLoss() {
		err = s.handleBackendLoss(gone)
	}
	if err != nil || s.t.server.skip {
		return err
	}
	return why
}

// refuseParse drops a Parse without reading its text, and returns why, as refuseFrame does.
func (s *session) refuseParse(total int, why *wire.Error) error {
	if s.client.Peek(wire.HeaderLen + 1)[wire.HeaderLen] == 0 {
		s.destroyUnnamedStatement()
	}
	return s.refuseFrame(total, why)
}

// skipFrame drops a frame of the client between an error and its Sync. A Flush still sends the output that Sluice
// withholds, since the client may wait for that output.
func (s *session) skipFrame(typ byte, total int) error {
	if err := s.discardBytes(total); err != nil || typ != wire.Flush {
		return err
	}
	return s.handleFlush()
}
