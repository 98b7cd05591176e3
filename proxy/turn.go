package proxy

import (
	"sync"
	"time"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// turn is the state of one turn, pooled.
type turn struct {
	owed owedQueue
	up   wire.Batch // to the backend
	down wire.Batch // to the client
	// plan is that of the turn's simple Query, before it is sent.
	plan *rewrite.Plan
	// asks is the text at hand when it asks for numbers of sequences.
	asks string
	// touched: a frame of this turn is at, or on its way to, the backend.
	touched bool
	// executed: a statement of a Sync group was sent; ranLocal: one was answered locally.
	executed, ranLocal bool
	// masks: some of what is answered is for nobody; job is the one that an answer waits for.
	masks bool
	job   job
	// looks: every frame of an answer is looked at, rows too.
	looks bool
	// strung is a string in which Sluice answers something, and atString how the
	// session stood in front of it.
	strung   *strung
	atString *localState
	// ended: the frame that ends the turn was read from the client.
	ended bool
	// skip: an error was told; the client's frames are dropped up to Sync.
	skip bool
	// failed: an error was told in this turn.
	failed bool
	// settled: the ReadyForQuery that ends the turn was relayed.
	settled bool
	outcome outcome
	// believed: something ran as a read because the schema said so.
	believed bool
	// pinned: the turn's only statement made the session keep its backend, and
	// leaves nothing there if it fails.
	pinned bool
	// unreadPin: nothing but a text that nobody has read made it keep it, in this turn.
	unreadPin bool
	// copying: the server waits for COPY data.
	copying bool
	// rereads: a statement of the turn may have changed how the server reads texts.
	rereads bool
	// statement counts the tags of a simple Query.
	statement int
	// upErr is a failed write that has not been reported yet.
	upErr error
	// midFrame: a frame of the client's is at the backend in part.
	midFrame bool
	// midClient: what is unread of the client begins in the middle of a frame.
	midClient bool
	flushed   int // bytes written to the backend
	// rest bytes of a frame too large for a buffer are still to come.
	rest        int
	restSwallow bool
	// refused is what the client is told in the place of the server's error about a poison.
	refused *wire.Error
	// stop ends the turn as soon as the row on its way to the client is whole.
	stop     *wire.Error
	capture  []byte       // a ParameterDescription that waits for its other half
	desc     *description // the last that the server gave
	scratch  []byte
	uplink   *uplink
	deadline time.Time // of the statement timeout; zero: none
	clocked  bool      // the time of the statement timeout has begun
	holdEnd  time.Time // when what is held is let go; zero: nothing is
	// logs: the turn is part of the session's logged transaction.
	logs bool
	// streams: output is not held back any more.
	streams bool
	// restUncounted: the rest of the frame is an error's or a notice's, and
	// counts for nothing in the log.
	restUncounted bool
	progress      settings.Progress // of the transaction when the turn began
	executes      int               // in autocommit
	unseen        bool              // what a suspended portal wrote is not visible yet: see increment
	// reported is what the backend had reported when it was lent or the turn began;
	// parsingChanged: a statement changed what parsing depends on; guessed: a function may
	// have, and txParsingWas is the session's txParsing before.
	reported                *settings.Reports
	parsingChanged, guessed bool
	txParsingWas            settings.Parsing
	replay
}

var turnPool = sync.Pool{New: func() any { return new(turn) }}

func (t *turn) free() {
	t.up.Reset()
	t.down.Reset()
	items, undos, capture, scratch := t.owed.items[:0], t.owed.undos[:0], t.capture[:0], t.scratch[:0]
	if cap(items) > 256 {
		items = nil
	}
	if cap(scratch) > 64<<10 {
		scratch = nil
	}
	*t = turn{owed: owedQueue{items: items, undos: undos}, capture: capture, scratch: scratch}
	turnPool.Put(t)
}
