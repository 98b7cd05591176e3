package proxy

import (
	"sync"
	"time"

	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/leftover"
	"github.com/sluice-proxy/sluice/proxy/outcome"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/stored"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The state of one turn. session.serve takes a turn from the pool and frees it. A turn
// belongs to the goroutine of its session, except while that one waits (see lookOut), and
// ends with the ReadyForQuery that the client is sent.

// turn is the state of one turn, pooled. Its parts are values: one assignment resets each.
// The embedded parts group what lives and ends together:
//
//	request  what the client has sent of the turn
//	course   how far the turn has come at the server
//	partial  frames that have come or gone in part
//	writing  the way to the backend
//	output   what becomes of the answers
//	clock    the statement timeout
//	parse    settings that texts are parsed under
//	attempt  running the transaction again (replay.go)
//	nested   how a turn within another differs
type turn struct {
	owed    owedQueue
	up      wire.Batch   // to the backend
	down    wire.Batch   // to the client
	capture []byte       // a ParameterDescription that waits for its other half
	desc    *description // the last that the server gave
	scratch []byte

	request
	course
	partial
	writing
	output
	clock
	parseSettings
	attempt
	nested // nested.go

	// orphan is a backend that was dropped at work: its server is asked to stop once the client
	// has been told, who may not have the time to wait for that. nil: none.
	orphan *reservoir.Conn
	// touched: a frame of this turn is at, or on its way to, the backend.
	touched bool
	// settled: the ReadyForQuery that ends the turn was relayed.
	settled bool
	// logs: the turn is part of the session's logged transaction.
	logs bool
	// mode is how the transaction begins that a statement outside of a block is of: readonly.go.
	mode txMode
	// denied is the error of a statement of the turn's string that this keeps from the server; nil: none.
	denied *wire.Error
	// only: the text of the turn has a BEGIN that is sent as another, which says READ ONLY.
	only bool
	// resets: something may have reset settings unseen; putsBack: the turn ends by settlePutBack.
	resets, putsBack bool
	// believed: something ran as a read because the schema said so.
	believed bool
	// unseen: what a suspended portal wrote is not visible yet; see increment.
	unseen bool
	// progress is that of the transaction when the turn began.
	progress settings.Progress
}

// request is what the client has sent of the turn.
type request struct {
	// ended: the frame that ends the turn was read from the client.
	ended bool
	// midClient: what is unread of the client begins in the middle of a frame.
	midClient bool
	// featureReads: a feature reads the client, and a cancel that comes meanwhile ends its statement.
	featureReads bool
	// plan is that of the turn's simple Query, before it is sent.
	plan *rewrite.Plan
	// asks is the text at hand when it asks for numbers of sequences.
	asks string
	// executed: a statement of a Sync group was sent; ranLocal: one was answered locally;
	// executes counts those sent in autocommit.
	executed, ranLocal bool
	executes           int
	// call is the portal that is executed here; nil: a simple Query is.
	call *portal
	// altering is a statement that was executed, and is carried out at the Sync; nil: none.
	altering *rewrite.Statement
	// closing are the Closes that came behind it: nil for one of a portal, and the frame of one of a
	// statement.
	closing [][]byte
	// last is the error of any frame but a Sync behind what was executed; nil: it may be followed.
	last *wire.Error
	// deferred is the rest of a statement that a feature finishes at the Sync; nil: there is none.
	deferred feature.Deferred
	// unheeded is the cancel or timeout that came while a statement could not be stopped; nil
	// for none. Batches that take its place heed it.
	unheeded *wire.Error
	// strung is a string in which Sluice answers something, and atString how the
	// session stood in front of it.
	strung *strung
	// parsed is a Parse that waits for the description of its statement.
	parsed   parsed
	atString *localState
	// pinnedByTurn: the turn's only statement made the session keep its backend, and leaves
	// nothing there if it fails.
	pinnedByTurn bool
	// freshPin: one text made it keep it, in this turn.
	freshPin bool
	// unreadPin: nothing but a text that nobody has read made it keep it, in this turn; left judges
	// what that has left.
	unreadPin bool
	left      leftover.Text
	// unreadRuns: such a text was sent, and the log would have it run again.
	unreadRuns bool
}

// course is how far the turn has come at the server. An attempt to run the transaction
// again starts it anew (rerun).
type course struct {
	outcome outcome.Outcome
	ownTx   ownBlock
	// skip: an error was told; the client's frames are dropped up to Sync.
	skip bool
	// errorTold: an error was told in this turn.
	errorTold bool
	// committing: cursors are stored in front of a COMMIT.
	committing bool
	// copying: the server waits for COPY data.
	copying bool
	// early counts the Syncs that the client has sent behind the last of those data so far.
	early int
	// statement counts the tags of a simple Query, and rows what has come of an answer's rows.
	statement, rows int
}

// partial is what has come or gone of a frame, between a session and its backend. It is
// dropped with the backend.
type partial struct {
	// rest bytes of a backend's frame too large for a buffer are still to come;
	// restSwallow: they are not for the client; restUncounted: the frame is an error's or
	// a notice's, and counts for nothing in the log.
	rest                       int
	restSwallow, restUncounted bool
	// restInto is the stored cursor that they are of; nil for none.
	restInto *stored.Cursor
	// midFrame: a frame of the client's is at the backend in part.
	midFrame bool
}

// writing is about the way to the backend.
type writing struct {
	uplink  *uplink
	flushed int    // bytes written
	read    []byte // what a long Query was read into: see addRead
}

// output is about what becomes of the answers.
type output struct {
	// streams: output is not held back any more; holdEnd is when what is held is let go,
	// zero for nothing.
	streams bool
	holdEnd time.Time
	// masks: some of what is answered is for nobody; job is the one that the statement at hand has begun.
	masks bool
	job   string
	// chunks is a DELETE that is run in batches; nil: there is none.
	chunks *chunks
	// looks: every frame of an answer is looked at, rows too.
	looks bool
	// fenced: a fence, or the question of askTime, was sent in the turn, whose rows are for nobody.
	fenced bool
	// refused is the error that the client gets in the place of the server's, where one was forced.
	refused *forced
	// stop ends the turn as soon as the row on its way to the client is whole.
	stop *wire.Error
}

// clock is the time of the statement timeout, where Sluice keeps that setting: it runs from
// the turn's first wait or frame to its answer, once for the whole turn.
type clock struct {
	deadline time.Time // zero: none
	clocked  bool      // it has begun
	// quiet: since then the backend, which owes something, has sent nothing, as far as the
	// session has looked. Zero: nobody has looked since it sent, or was sent, something.
	quiet time.Time
	// midSince is when the client was first, or last probed, in the middle of a frame.
	midSince time.Time
	// leftAt is when the client's goodbye was seen behind the turn; zero: it was not.
	leftAt time.Time
}

// parseSettings is about settings that texts are parsed under.
type parseSettings struct {
	// rereads: a statement of the turn may have changed how the server reads texts.
	rereads bool
	// reported is what the backend had reported when it was lent or the turn began;
	// parsingChanged: a statement changed what parsing depends on; guessed: a function may
	// have, and txParsingWas is the session's txParsing before.
	reported                *settings.Reports
	parsingChanged, guessed bool
	// movesNames: a statement may have changed what names stand for.
	movesNames   bool
	txParsingWas settings.Parsing
}

// turnPool holds turns between uses: a query takes one and allocates none.
var turnPool = sync.Pool{New: func() any { return new(turn) }}

// free resets the turn and gives it to the pool. Queues and buffers that the turn has grown
// are kept for the next, up to a bound: one long pipeline must not stay in memory for good.
func (t *turn) free() {
	t.up.Reset()
	t.down.Reset()
	t.owed.forgetUndos()
	items, undos, capture, scratch := t.owed.items[:0], t.owed.undos, t.capture[:0], t.scratch[:0]
	if cap(items) > 256 {
		items = nil
	}
	if cap(undos) > 256 {
		undos = nil
	}
	if cap(capture) > 64<<10 {
		capture = nil
	}
	if cap(scratch) > 64<<10 {
		scratch = nil
	}
	*t = turn{} // by itself: a literal with values is made elsewhere, and copied
	t.owed.items, t.owed.undos, t.capture, t.scratch = items, undos, capture, scratch
	turnPool.Put(t)
}
