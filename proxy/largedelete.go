package proxy

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/proxy/batch"
	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/notice"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// DSQL refuses a DELETE of more rows than a transaction may change. If no other statement ran with the DELETE, and
// its table is configured, Sluice withholds the error (deferToBatches). After ReadyForQuery package batch deletes
// the rows on the same backend (settleBatches). Only a lost backend, and the end of a drain, end a running batch.

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

// runsAloneInGroup reports whether the current statement is outside a block, and the first since the last Sync.
func (p *pairing) runsAloneInGroup() bool {
	return !p.t.request.executed && !p.t.request.ranLocal && !p.inBlock()
}

// deleteParamsIfAlone returns the saved parameters of a DELETE whose portal is about to run. If other statements run
// in its transaction, the result is nil.
func (s *pairing) deleteParamsIfAlone(p *portal) *batch.Params {
	if p.bound == nil || !s.runsAloneInGroup() {
		return nil
	}
	return p.bound
}

// deferToBatches reports whether Sluice will run a statement in batches, after the server's error for it. If so, the
// client does not get the error. The turn must have no other statement, and its last frame must be read.
func (s *session) deferToBatches(head *pendingReply, payload []byte) bool {
	t := s.t
	if !batch.IsRowLimitError(payload) && !batch.IsTruncateTooLarge(head.plan, payload) || s.srv.cfg.Kind != DSQL || t.rec.phase != phaseLive || !t.request.ended || s.inBlock() || head.plan == nil {
		return false
	}
	switch {
	case head.kind == wire.Query && t.owed.len() == 1 && t.request.script == nil && s.runsAloneInGroup():
	case head.kind == wire.Execute && t.owed.hasOnlyClosesBehind() && head.bound != nil && !parse.ContainsTimeWord(head.bound.Values):
	default:
		return false
	}
	form := s.srv.pool.planner.BatchedDelete(head.plan)
	if form == nil {
		return false
	}
	t.output.batches = batch.NewDelete(form, head.bound, decodeErrorResponse(payload))
	s.tx.log.RefuseReplay(retry.Failed)
	t.attempt.undos = t.owed.dropSkipped(func(o *pendingReply) {
		if s.b.forgetSkipped(o); o.isCloseComplete() {
			t.output.batches.AddClose()
		}
	})
	s.srv.metrics.CountUnsupported(head.plan.Operation, string(finding.ChunkedDelete))
	return true
}

// hasOnlyClosesBehind reports whether a Sync follows the first pending reply, and between them only Closes, which
// change nothing before the Sync.
func (q *pendingQueue) hasOnlyClosesBehind() bool {
	for i := range q.items[q.head+1:] {
		o := &q.items[q.head+1+i]
		if !o.isCloseComplete() && !(o.swallow && o.kind == wire.Close) {
			return o.kind == wire.Sync
		}
	}
	return false
}

// isCloseComplete reports whether o is a CloseComplete that the client gets.
func (o *pendingReply) isCloseComplete() bool {
	return o.kind == wire.Close && !o.swallow || o.kind == 0 && bytes.Equal(o.bytes, wire.FrameCloseComplete)
}

// isFlushOfBatches reports whether a DELETE that may run in batches is pending, and the next frame is a Sync, which
// has arrived. If so, Sluice ignores the client's Flush before the Sync, which would prevent batches.
func isFlushOfBatches(s *session) bool {
	typ, total, err := s.client.NextHeader()
	return err == nil && total > 0 && typ == wire.Sync && slices.ContainsFunc(s.t.owed.items[s.t.owed.head:], func(o pendingReply) bool { return o.bound != nil })
}

// refusedHere returns PostgreSQL's error for LOCK TABLE outside a block, and for TRUNCATE of a table that an open
// cursor may read. For other queries it returns nil. Portals count as cursors, stored cursors do not.
func (s *session) refusedHere(plan *rewrite.Plan) error {
	if st := plan.SingleStatement(); st != nil && st.Does == rewrite.ChecksTables && !s.isInTransaction() && !s.t.server.outcome.InBlock() && s.txStatus() != 'E' {
		return sqlerror.LockOutside
	}
	for i := range plan.Statements {
		st := &plan.Statements[i]
		if st.Tx.Verb.EndsBlock() {
			break
		}
		if st.Truncation == nil || s.isInReadOnlyBlock() {
			continue
		}
		for _, p := range append(slices.Collect(maps.Values(s.portals.named)), s.portals.unnamed) {
			if !p.open || p.local || p.work != nil {
				continue
			}
			if e := batch.InUse(s.srv.pool.planner, st, p.plan.SingleStatement(), p.text, s.isKnownTable); e != nil {
				return e
			}
		}
	}
	return nil
}

// isKnownTable reports whether a name of rewrite.Statement.Tables certainly means a table, and not a view.
func (s *session) isKnownTable(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	r := s.mapped.Planned().Relation(name[:max(dot, 0)], name[dot+1:])
	return r != nil && !r.View
}

// settleBatches runs the batches of a DELETE after the server's ReadyForQuery, which the client does not get, and
// ends the turn. An error ends the session, or is a lostError.
func (s *session) settleBatches() error {
	err := s.t.output.batches.Run(ddlConn{s}, s.srv.metrics.CountDeleteBatch)
	if interrupt.EndsTurn(err) && err != errCut {
		s.waits.Consume(err)
	}
	var answer []byte
	switch told, ok := err.(*wire.Error); {
	case err == nil:
		answer = s.t.output.batches.Done()
	case !ok || told.Fatal:
		return err
	default:
		answer = s.t.output.batches.Described(told).Append(nil)
		s.undoStatementNames(s.t.attempt.undos)
		s.t.server.errorTold = true
		s.srv.metrics.CountErrorSent(string(retry.ErrorField(answer[wire.HeaderLen:], 'C')))
	}
	s.t.output.batches = nil
	status := s.b.status
	if err := s.settleTurn(status); err != nil {
		return err
	}
	return s.sendOrWithhold(wire.AppendReadyForQuery(notice.AppendReports(&s.settings, answer, status), status))
}

// checkMayContinue returns an error if no further batch may begin: after a cancel, a timeout, a shutdown's end, or if
// the client has left. The client may have sent the cancel during the DELETE that the server refused.
func (l *link) checkMayContinue() error {
	if l.t.request.pendingCancel != nil {
		return l.t.request.pendingCancel
	}
	if err := l.waits.CheckInterruption(); err != nil {
		return err
	}
	if l.hasClientLeft() {
		return errClientGone
	}
	return nil
}

// runOwnTransaction runs one transaction of Sluice itself in one round trip. After a conflict it retries, with the
// limits and pauses of any replay. Only the end of a drain ends a round trip early. A cancel or timeout takes effect
// between round trips, so that each outcome is known.
func (s *session) runOwnTransaction(msg []byte, row func([]byte)) error {
	attempts := retry.Attempts{}
	for {
		if err := s.srv.observers.ownWork.notify(s); err != nil {
			return err
		}
		var refusal []byte
		err := s.runExchange(func(b *backend) (err error) {
			refusal, err = b.doExchange(msg, row, s.srv.cfg.SilenceTimeout, time.Time{}, s.waits.CheckCut)
			return err
		})
		switch {
		case interrupt.EndsTurn(err):
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
