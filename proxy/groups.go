package proxy

import (
	"bytes"
	"sync/atomic"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// A question about the server that is asked once: is a Sync group one transaction? borrow
// asks with the first backend that it lends, and resend.go judges replays by the answer.

// groups is what is known of the server's Sync groups: whether several
// statements of one outside a block are one transaction. PostgreSQL says so;
// another server is asked once, before the first backend is used.
type groups struct{ state atomic.Int32 }

const (
	groupsUnknown int32 = iota
	groupsAsked
	groupsOne
)

// one reports whether a Sync group is known to be one transaction. While nobody knows, a
// group is taken for several, which errs towards not running one again.
func (g *groups) one() bool { return g.state.Load() == groupsOne }

// probe asks b, which is idle, if nobody has asked yet. It reports false when b is broken;
// then the next backend is asked. Without replay nobody needs to know.
func (srv *Server) probe(b *backend) bool {
	g := &srv.groups
	if srv.replays == nil || g.state.Load() != groupsUnknown || !g.state.CompareAndSwap(groupsUnknown, groupsAsked) {
		return true
	}
	// now() is the time at which its transaction began.
	ask := wire.AppendParse(nil, "", "SELECT now()", wire.NoOIDs)
	for range 2 {
		ask = appendBindNothing(ask, "")
		ask = append(ask, appendExecuteAll...)
	}
	var times [][]byte
	refusal, err := b.exchangeRows(append(ask, wire.FrameSync...), func(row []byte) { times = append(times, bytes.Clone(row)) })
	switch {
	case err != nil:
		g.state.Store(groupsUnknown)
		return false
	case refusal == nil && len(times) == 2 && bytes.Equal(times[0], times[1]):
		g.state.Store(groupsOne)
	default:
		srv.log.Warn("pipelines of several statements outside a block are not run again: they are more than one transaction here")
	}
	return true
}
