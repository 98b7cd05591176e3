package serverfacts

import (
	"bytes"
	"cmp"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/request"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// Pipeline is the server's answer to whether several statements outside a block, before one Sync, are one transaction.
// On PostgreSQL they are one. The zero value has no answer. Several goroutines may use it.
type Pipeline struct {
	state atomic.Int32
	pace  question.Schedule
}

const (
	pipelineUnknown int32 = iota
	pipelineSeveral
	pipelineOne
)

// pipelineTries is how often Sluice sends pipelineQuery without a pause if it meets a conflict (SQLSTATE 40001).
const pipelineTries = 3

// IsOneTransaction reports whether the statements before one Sync are known to be one transaction. If that is
// unknown, it returns false, and Sluice does not replay several such statements.
func (g *Pipeline) IsOneTransaction() bool { return g.state.Load() == pipelineOne }

// IsDue reports whether Sluice must ask the server again at the time now.
func (g *Pipeline) IsDue(now time.Time) bool { return g.pace.IsDue(now) }

// Ask asks an idle backend, if that is due, whether the statements before one Sync are one transaction. It returns
// the error of exchange. Without an answer (question.Groups) the old answer remains, and Sluice asks again later.
func (g *Pipeline) Ask(exchange Exchange, log *slog.Logger) error {
	if now := time.Now(); !g.IsDue(now) || !g.pace.Claim(now) {
		return nil
	}
	var times [][]byte
	var refusal []byte
	var err error
	for range pipelineTries {
		times = nil
		refusal, err = exchange(pipelineQuery, func(row []byte) { times = append(times, bytes.Clone(row)) })
		if err != nil || refusal == nil || FaultOf(refusal) != question.Conflict {
			break
		}
	}
	switch {
	case interrupt.EndsTurn(err):
		g.pace.Unclaim()
		return err
	case err != nil, refusal != nil, len(times) != 2:
		pause := g.pace.RecordFault(time.Now())
		log.Warn("whether the statements of a pipeline are one transaction here could not be asked", "error", cmp.Or(err, RefusalError(refusal)), "asked_again_in", pause)
		return err
	}
	state := pipelineSeveral
	if bytes.Equal(times[0], times[1]) {
		state = pipelineOne
	}
	if was := g.state.Swap(state); was != state && state == pipelineSeveral {
		log.Warn("pipelines of several statements outside a block are not run again: they are more than one transaction here")
	}
	g.pace.RecordAnswer(time.Now(), question.Age)
	return nil
}

// pipelineQuery selects now(), the transaction's time, twice before one Sync. Equal times mean one transaction.
var pipelineQuery = func() []byte {
	ask := wire.AppendParse(nil, "", "SELECT now()", wire.NoOIDs)
	for range 2 {
		ask = request.AppendBindWithoutParams(ask, "")
		ask = append(ask, wire.FrameExecuteAll...)
	}
	return append(ask, wire.FrameSync...)
}()
