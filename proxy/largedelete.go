package proxy

import (
	"bytes"
	"math/rand/v2"
	"time"

	"github.com/sluice-proxy/sluice/proxy/batch"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// DSQL refuses a DELETE of more rows than a transaction may change. If the statement was alone and its table is
// configured, Sluice withholds the error (deferToBatches). After ReadyForQuery package batch deletes the rows on the
// same backend (settleBatches). Only a lost backend, and the end of a drain, end a running batch.

// maxSavedBind bounds the length of a Bind whose values Sluice saves for batches. Values in comparisons are short.
const maxSavedBind = 64 << 10

// saveDeleteParams reads the whole Bind of a DELETE that may be run in batches, and returns its parameters. It returns
// nil for other statements.
func (s *session) saveDeleteParams(b *pendingBind) (*batch.Params, error) {
	if !b.cs.Template.Plan.MayRunInBatches() || s.srv.cfg.Kind != DSQL || s.inBlock() || b.whole || b.total > min(maxSavedBind, s.srv.cfg.MaxStatementBytes) {
		return nil, nil
	}
	if err := s.readWholeBind(b); err != nil {
		return nil, err
	}
	return &batch.Params{OIDs: b.cs.Template.OIDs, Values: bytes.Clone(b.rest)}, nil
}

// runsAloneInGroup reports whether the current statement is outside a block, and the first of its Sync group.
func (s *session) runsAloneInGroup() bool { return !s.t.executed && !s.t.ranLocal && !s.inBlock() }

// deleteParamsIfAlone returns the saved parameters of a DELETE whose portal is about to run. If other statements run
// with the DELETE, the result is nil.
func (s *session) deleteParamsIfAlone(p *portal) *batch.Params {
	if p.bound == nil || !s.runsAloneInGroup() {
		return nil
	}
	return p.bound
}

// deferToBatches reports whether Sluice will run a statement again in batches, after the server's error for the
// statement. The client then does not get the error. The statement must be alone and its turn read to the end.
func (s *session) deferToBatches(head *pendingReply, payload []byte) bool {
	t := s.t
	if !isRowLimitError(payload) && !isTruncateTooLarge(head.plan, payload) || s.srv.cfg.Kind != DSQL || t.phase != phaseLive || !t.ended || s.inBlock() || head.plan == nil {
		return false
	}
	switch {
	case head.kind == wire.Query && t.owed.len() == 1 && t.script == nil && s.runsAloneInGroup():
	case head.kind == wire.Execute && t.owed.len() == 2 && t.owed.items[len(t.owed.items)-1].kind == wire.Sync &&
		head.bound != nil && !parse.ContainsTimeWord(head.bound.Values):
	default:
		return false
	}
	form := s.srv.planner.BatchedDelete(head.plan)
	if form == nil {
		return false
	}
	t.batches = batch.NewDelete(form, head.bound, decodeErrorResponse(payload))
	s.tx.log.RefuseReplay(retry.Failed)
	t.owed.dropSkipped(s.forgetSkipped)
	s.srv.metrics.CountUnsupported(head.plan.Operation, string(finding.ChunkedDelete))
	return true
}

// isRowLimitError reports whether the server's error says that a transaction changes too many rows.
func isRowLimitError(payload []byte) bool {
	return rewrite.IsRowLimitError(string(retry.ErrorField(payload, 'C')), retry.ErrorField(payload, 'M'))
}

// rowLimitHint returns the hint for the error that a DELETE changes too many rows. It returns "" for other errors.
func (s *session) rowLimitHint(o *pendingReply, plan *rewrite.Plan, st *rewrite.Statement, payload []byte) string {
	switch {
	case st == nil || !st.IsDelete() || !isRowLimitError(payload):
		return ""
	case plan.SingleStatement() == nil:
		return rewrite.ChunkedAloneHint
	case !plan.MayRunInBatches():
		return rewrite.ChunkedUnlistedHint
	case s.srv.planner.BatchedDelete(plan) == nil, o.bound != nil && parse.ContainsTimeWord(o.bound.Values):
		return rewrite.ChunkedOtherHint
	}
	return rewrite.ChunkedAloneHint
}

// settleBatches runs the batches of a DELETE after the server's ReadyForQuery, which the client has not got, and ends
// the turn. An error ends the session or is a loss, which lossError reports.
func (s *session) settleBatches() error {
	err := s.t.batches.Run(ddlConn{s}, s.srv.metrics.CountDeleteBatch)
	if isInterruption(err) && err != errCut {
		s.consumeCancel(err)
	}
	var answer []byte
	switch told, ok := err.(*wire.Error); {
	case err == nil:
		answer = s.t.batches.Done()
	case !ok || told.Fatal:
		return err
	default:
		answer = s.t.batches.Described(told).Append(nil)
		s.t.errorTold = true
		s.srv.metrics.CountErrorSent(string(retry.ErrorField(answer[wire.HeaderLen:], 'C')))
	}
	s.t.batches = nil
	status := s.b.status
	if err := s.settleTurn(status); err != nil {
		return err
	}
	return s.sendOrWithhold(wire.AppendReadyForQuery(s.appendParameterStatus(answer, status), status))
}

// checkMayContinue returns an error if no further batch may begin: a cancel, a timeout, the end of a drain, or a client
// that has left. The cancel may have come during the refused DELETE, which the server could not stop.
func (s *session) checkMayContinue() error {
	if s.t.pendingCancel != nil {
		return s.t.pendingCancel
	}
	if err := s.checkInterruption(); err != nil {
		return err
	}
	if s.hasClientLeft() {
		return errClientGone
	}
	return nil
}

// runOwnTransaction runs one transaction of Sluice itself in one round trip. After a conflict it retries, with the
// limits and pauses of any replay. Only the end of a drain ends a round trip early, so that its outcome is known.
// Cancel and timeout take effect between round trips.
func (s *session) runOwnTransaction(msg []byte, row func([]byte)) error {
	attempts := retry.Attempts{}
	for {
		if err := s.extendLeasesForDDL(); err != nil {
			return err
		}
		var refusal []byte
		err := s.runExchange(func(b *backend) (err error) {
			refusal, err = b.doExchange(msg, row, s.srv.cfg.SilenceTimeout, time.Time{}, s.checkCut)
			return err
		})
		switch {
		case isInterruption(err):
			return err
		case err != nil:
			return &lostError{err: err}
		case refusal == nil:
			return nil
		}
		class, cause := retry.Classify(retry.ErrorField(refusal, 'C'), retry.ErrorField(refusal, 'M'))
		if class != retry.Conflict {
			return decodeErrorResponse(refusal)
		}
		pause, reason := attempts.NextDelay(&s.srv.cfg.Retry.Policy, cause, time.Now(), rand.Float64(), 0)
		if reason != retry.Replayable {
			return decodeErrorResponse(refusal)
		}
		if err := s.sleepUnlessStopped(pause); err != nil {
			return err
		}
	}
}

// checkCut returns errCut at the end of a drain, when Sluice gives up even a running round trip.
func (s *session) checkCut() error {
	if s.cutOff.Load() {
		return errCut
	}
	return nil
}
