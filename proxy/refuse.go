package proxy

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// Errors of Sluice's own, where they are in the client's stream: refuse for a turn, refuseFrame and refuseParse for a frame
// that is dropped, skipFrame for what follows one.

// nobodysName is that of a statement that no server has. It is another one in each process,
// so that no client can PREPARE it.
var nobodysName = "sluice_refused_" + rand.Text()

// refuse tells the client an error of ours, e, where it stands in the stream: behind the
// answers that are still owed. Afterwards the turn has ended, or its frames are skipped up
// to a Sync; a block has failed.
//
// The server's part of the turn must fail too: the server is sent something that does (a
// Bind of a statement that does not exist), and its error is replaced. So a block at the
// server fails, and a group outside one is undone.
func (s *session) refuse(e *wire.Error) error {
	t := s.t
	s.dropParsed()
	// What its group was told before counts for a return to a savepoint: the log's turn ends in
	// front of the refusal. Where something has failed there, the server would have skipped this.
	if len(s.tx.marks) > 0 {
		if err := s.cutTurn(); err != nil || t.skip || t.settled {
			return err
		}
	}
	e = s.partlyRefused(e)
	s.srv.metrics.ErrorSent(e.Code)
	t.deadline = time.Time{} // it has failed as it is
	if s.state == busy || s.state == inTransaction && s.b.status == 'T' {
		// In a block between two turns the server has to be told as well. It may have
		// failed the block already, over a startup value: one error is enough.
		if err := s.ensureBackend(); err != nil && !isRefusal(err) {
			return err
		}
		// A transaction with a failed statement is not run again.
		if t.logs {
			s.tx.log.Refuse(retry.Failed)
		}
		t.refused = &forced{err: e}
		t.owed.push(wire.Bind).reply = t.refused
		t.outcome.ForceError()
		s.add(appendBindNothing(nil, nobodysName))
		if !t.ended {
			t.skip = true
			return nil
		}
		t.owed.push(wire.Sync)
		s.add(wire.FrameSync)
		return s.finish()
	}
	s.nothingRuns()
	if s.state == begun {
		if err := s.move(refusedInBlock); err != nil {
			return err
		}
		// The server knows nothing of the block: it fails here alone, and its BEGIN is kept
		// for AND CHAIN.
		s.unserved, s.deferredBegin = s.deferredBegin, nil
		s.tx.log.Refuse(retry.Failed)
	}
	t.errorTold = true
	if err := s.passSpan(e.Append(nil)); err != nil {
		return err
	}
	if !t.ended {
		t.skip = true
		return nil
	}
	return s.ready()
}

// forced is the answer to what was sent only to make the server fail.
type forced struct {
	asSent
	err *wire.Error
}

func (r *forced) fails(*session, *owed, []byte) *answer.Error {
	return &answer.Error{Instead: r.err.Append(nil), Forced: true}
}

// say tells an error that stands outside the owed queue. The caller sees to what follows.
func (s *session) say(e *wire.Error) {
	s.srv.metrics.ErrorSent(e.Code)
	s.passSpan(e.Append(nil)) // a write error shows again at the next write
}

// refuseFrame drops a frame of the client's and returns why, or the error that dropping it
// met. While the frame comes, an error of what was before it may come too: then the frame is
// skipped like the rest. A loss that the transaction survives is mended here: who mends it
// later knows nothing of the frame.
func (s *session) refuseFrame(total int, why *wire.Error) error {
	err := s.discard(total)
	var gone *lostError
	for errors.As(err, &gone) && s.b != nil && s.survives() {
		err = s.backendLost(gone)
	}
	if err != nil || s.t.skip {
		return err
	}
	return why
}

// refuseParse is refuseFrame for a Parse that is not looked at.
func (s *session) refuseParse(total int, why *wire.Error) error {
	if s.client.Peek(wire.HeaderLen + 1)[wire.HeaderLen] == 0 {
		s.destroyUnnamed()
	}
	return s.refuseFrame(total, why)
}

// skipFrame drops a frame behind an error, up to a Sync. A Flush has no effect at a server
// that skips, but the client may wait for what Sluice has not sent yet.
func (s *session) skipFrame(typ byte, total int) error {
	if err := s.discard(total); err != nil || typ != wire.Flush {
		return err
	}
	return s.flush()
}
