package proxy

import (
	"bytes"
	"cmp"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/request"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// This file asks the server whether several statements before one Sync are one transaction. Sluice asks on a backend
// that it is about to lend. resend.go uses the answer to decide about replays.

// pipelineProbe records whether several statements outside a block, before one Sync, are one transaction. On PostgreSQL
// they are one. Sluice asks other servers, and asks again when the answer is old.
type pipelineProbe struct {
	state atomic.Int32
	pace  question.Schedule
}

const (
	pipelineUnknown int32 = iota
	pipelineSeveral
	pipelineOne
)

// pipelineProbeTries bounds the tries without a pause if pipelineProbeQuery meets a conflict.
const pipelineProbeTries = 3

// isOneTransaction reports whether a Sync group is known to be one transaction. If that is unknown, it returns false,
// and Sluice does not replay groups of several statements.
func (g *pipelineProbe) isOneTransaction() bool { return g.state.Load() == pipelineOne }

// isPipelineProbeDue reports whether Sluice must send pipelineProbeQuery now. Only replays need the query's answer.
func (srv *Server) isPipelineProbeDue(now time.Time) bool {
	return srv.replays != nil && srv.groups.pace.IsDue(now)
}

// probePipeline asks the idle backend b, if that is due, whether a Sync group is one transaction. The error is stop's,
// or means that b is broken. After a fault (question.Groups) the old answer remains, and Sluice asks again later.
func (srv *Server) probePipeline(b *backend, at time.Time, stop func() error) error {
	g := &srv.groups
	if now := time.Now(); !srv.isPipelineProbeDue(now) || !g.pace.Claim(now) {
		return nil
	}
	var times [][]byte
	var refusal []byte
	var err error
	for range pipelineProbeTries {
		times = nil
		refusal, err = b.doExchange(pipelineProbeQuery, func(row []byte) { times = append(times, bytes.Clone(row)) }, b.answerTimeout, at, stop)
		if err != nil || refusal == nil || classifyFault(refusal) != question.Conflict {
			break
		}
	}
	switch {
	case interrupt.EndsTurn(err):
		g.pace.Unclaim()
		return err
	case err != nil, refusal != nil, len(times) != 2:
		pause := g.pace.RecordFault(time.Now())
		srv.log.Warn("whether the statements of a pipeline are one transaction here could not be asked", "error", cmp.Or(err, refusalError(refusal)), "asked_again_in", pause)
		return err
	}
	state := pipelineSeveral
	if bytes.Equal(times[0], times[1]) {
		state = pipelineOne
	}
	if was := g.state.Swap(state); was != state && state == pipelineSeveral {
		srv.log.Warn("pipelines of several statements outside a block are not run again: they are more than one transaction here")
	}
	g.pace.RecordAnswer(time.Now(), question.Age)
	return nil
}

// pipelineProbeQuery selects now(), the transaction's time, twice before one Sync. Equal times mean one transaction.
var pipelineProbeQuery = func() []byte {
	ask := wire.AppendParse(nil, "", "SELECT now()", wire.NoOIDs)
	for range 2 {
		ask = request.AppendBindWithoutParams(ask, "")
		ask = append(ask, wire.FrameExecuteAll...)
	}
	return append(ask, wire.FrameSync...)
}()
