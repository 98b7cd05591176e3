package proxy

import (
	"bytes"
	"sync/atomic"
	"time"

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

// groupsDue reports whether nobody has asked yet. Without replay nobody needs to know.
func (srv *Server) groupsDue() bool {
	return srv.replays != nil && srv.groups.state.Load() == groupsUnknown
}

// askGroups asks b, which is idle, if nobody has asked yet. An error is stop's, or says that
// b is broken; then the next backend is asked.
func (srv *Server) askGroups(b *backend, at time.Time, stop func() error) error {
	g := &srv.groups
	if !srv.groupsDue() || !g.state.CompareAndSwap(groupsUnknown, groupsAsked) {
		return nil
	}
	// now() is the time at which its transaction began.
	ask := wire.AppendParse(nil, "", "SELECT now()", wire.NoOIDs)
	for range 2 {
		ask = appendBindNothing(ask, "")
		ask = append(ask, appendExecuteAll...)
	}
	var times [][]byte
	refusal, err := b.exchangeAll(append(ask, wire.FrameSync...), func(row []byte) { times = append(times, bytes.Clone(row)) }, exchangeTimeout, at, stop)
	switch {
	case err != nil:
		g.state.Store(groupsUnknown)
		return err
	case refusal == nil && len(times) == 2 && bytes.Equal(times[0], times[1]):
		g.state.Store(groupsOne)
	default:
		srv.log.Warn("pipelines of several statements outside a block are not run again: they are more than one transaction here")
	}
	return nil
}
