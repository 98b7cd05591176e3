package proxy

import (
	"bytes"
	"cmp"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// A question about the server: is a Sync group one transaction? borrow asks with a backend that it
// lends, and resend.go judges replays by the answer.

// groups is what is known of the server's Sync groups: whether several
// statements of one outside a block are one transaction. PostgreSQL says so;
// another server is asked, and asked again when the answer is old.
type groups struct {
	state atomic.Int32
	pace  question.Pace
}

const (
	groupsUnknown int32 = iota
	groupsSeveral
	groupsOne
)

// groupsTries is how often the question is asked at once, where the server is told of a conflict.
const groupsTries = 3

// one reports whether a Sync group is known to be one transaction. While nobody knows, a
// group is taken for several, which errs towards not running one again.
func (g *groups) one() bool { return g.state.Load() == groupsOne }

// groupsDue reports whether the server is to be asked. Without replay nobody needs to know.
func (srv *Server) groupsDue(now time.Time) bool {
	return srv.replays != nil && srv.groups.pace.Due(now)
}

// askGroups asks b, which is idle, where that is due. An error is stop's, or says that b is broken.
// Behind a fault (question.Groups) what is known stays, and the question is asked again.
func (srv *Server) askGroups(b *backend, at time.Time, stop func() error) error {
	g := &srv.groups
	if now := time.Now(); !srv.groupsDue(now) || !g.pace.Claim(now) {
		return nil
	}
	var times [][]byte
	var refusal []byte
	var err error
	for range groupsTries {
		times = nil
		refusal, err = b.exchangeAll(groupsQuestion, func(row []byte) { times = append(times, bytes.Clone(row)) }, b.patience, at, stop)
		if err != nil || refusal == nil || faultOf(refusal) != question.Conflict {
			break
		}
	}
	switch {
	case stops(err):
		g.pace.Unasked()
		return err
	case err != nil, refusal != nil, len(times) != 2:
		pause := g.pace.Failed(time.Now())
		srv.log.Warn("whether the statements of a pipeline are one transaction here could not be asked", "error", cmp.Or(err, refusedBy(refusal)), "asked_again_in", pause)
		return err
	}
	state := groupsSeveral
	if bytes.Equal(times[0], times[1]) {
		state = groupsOne
	}
	if was := g.state.Swap(state); was != state && state == groupsSeveral {
		srv.log.Warn("pipelines of several statements outside a block are not run again: they are more than one transaction here")
	}
	g.pace.Answered(time.Now(), question.Age)
	return nil
}

// groupsQuestion asks for now() twice in one group: the time at which its transaction began.
var groupsQuestion = func() []byte {
	ask := wire.AppendParse(nil, "", "SELECT now()", wire.NoOIDs)
	for range 2 {
		ask = appendBindNothing(ask, "")
		ask = append(ask, appendExecuteAll...)
	}
	return append(ask, wire.FrameSync...)
}()
