package proxy

import (
	"sync"
	"time"

	"github.com/sluice-proxy/sluice/proxy/access"
	"github.com/sluice-proxy/sluice/proxy/batch"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/outcome"
	"github.com/sluice-proxy/sluice/proxy/pin"
	"github.com/sluice-proxy/sluice/proxy/script"
	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/stored"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file has the state of one turn. session.serve takes a turn from the pool and frees it after the ReadyForQuery.
// Only the session's goroutine uses a turn. While that goroutine waits, a check of the client may use the turn too.

// turn is the state of one turn, pooled. Its structs are values, so that one assignment resets all. Fields that are
// reset together are in one struct.
type turn struct {
	owed    pendingQueue
	up      wire.Batch             // to the backend
	down    wire.Batch             // to the client
	capture []byte                 // a ParameterDescription; the RowDescription that completes it is still to come
	desc    *statement.Description // the last description from the server
	scratch []byte

	request  clientRequest  // what the client has sent in this turn
	server   serverProgress // what the server has done in this turn
	partial  partialFrames  // frames that were received or sent in part
	sent     upstream       // output to the backend
	output   clientOutput   // how answers are passed to the client
	observed observedTimes  // since when the backend or the client is silent
	parsing  parseSettings  // settings that change how SQL is parsed
	rec      recorder       // the turn's part in the log of its transaction (replaylog.go)
	attempt  replayAttempt  // a replay of the transaction (replay.go)
	nested   nestedTurn     // how a nested turn differs (nested.go)

	// clock has the deadlines of the statement timeout and of hold_time.
	clock interrupt.Clock
	// abandonedConn is a backend's connection that the session dropped while a statement was running, or nil. Sluice
	// cancels that statement after the client has its error, so that the client does not wait for the cancel.
	abandonedConn *reservoir.Conn
	// touched means that a frame of this turn was sent, or is queued, to the backend.
	touched bool
	// settled means that the client's turn is over, since the ReadyForQuery that ends the turn was relayed.
	settled bool
	// access is the access mode of statements outside a block, such as READ ONLY.
	access access.Turn
	// resets means that a statement may have reset settings, for example by a function. restoresSettings means that
	// settleRestoringSettings ends the turn.
	resets, restoresSettings bool
	// readBySchema means that Sluice treated a statement as a read because of facts about the schema, not only its SQL.
	readBySchema bool
	// unseen means that a suspended portal's writes may not be visible yet. sendEmptyParse makes them visible.
	unseen bool
	// progress is the state of the transaction's settings at the start of the turn, for a replay.
	progress settings.TxProgress
}

// clientRequest is what the client has sent in this turn.
type clientRequest struct {
	// ended means that Sluice has read the last frame that the client sends in the turn.
	ended bool
	// midClient means that the next unread byte from the client is in the middle of a frame.
	midClient bool
	// featureReads means that a feature, such as COPY, is reading the client's frames, and a cancel ends its statement.
	featureReads bool
	// plan is the plan of the turn's simple Query, set before the Query is sent.
	plan *rewrite.Plan
	// sequenceText is the text of the current statement if it calls currval, lastval or nextval.
	sequenceText string
	// executed means that a statement of the Sync group was sent. ranLocal means that Sluice itself answered a
	// statement. executes is the number of statements that were sent outside a block.
	executed, ranLocal bool
	executes           int
	// call is the portal that Sluice itself executes, or nil for a simple Query.
	call *portal
	// altering is an ALTER TABLE of an Execute that Sluice runs at the Sync, or nil.
	altering *rewrite.Statement
	// closing has one element for each Close after the Execute of altering. The element is the frame for a statement, and
	// nil for a portal.
	closing [][]byte
	// last is the error for any further frame but a Sync, after an Execute that must be the last. Otherwise it is nil.
	last *wire.Error
	// deferred is the rest of a statement that a feature finishes at the Sync, or nil.
	deferred feature.Deferred
	// pendingCancel is a cancel or timeout that arrived while the statement could not be stopped, or nil. It later stops
	// a DELETE that runs in batches.
	pendingCancel *wire.Error
	// script is a multi-statement query of which Sluice itself answers some statements. stateBeforeScript is a copy of
	// the session's state before that query.
	script *script.Plan
	// parsed is a Parse whose ParseComplete Sluice withholds until the next Describe is answered.
	parsed            waitingParse
	stateBeforeScript *localStateCopy
	// pin is the pin that the turn has made.
	pin pin.Turn
	// unreadRuns means that unparsed text was sent, which a replay would send again.
	unreadRuns bool
}

// serverProgress is what the server has done in this turn. A replay resets it (rerunTransaction).
type serverProgress struct {
	outcome    outcome.Outcome
	internalTx internalBlock
	// skip means that the client got an error, and that its frames up to the Sync are dropped.
	skip bool
	// errorTold means that the client got an error in this turn.
	errorTold bool
	// committing means that rows of cursors WITH HOLD are being stored before a COMMIT.
	committing bool
	// copying means that the server waits for COPY data.
	copying bool
	// earlySyncs is the number of Syncs that the client has sent after its last COPY data.
	earlySyncs int
	// statement is the number of CommandComplete frames of a simple Query, and rows the number of rows in the answer.
	statement, rows int
}

// partialFrames is the state of frames that the session has partly received from, or sent to, its backend. It is reset
// when the session drops the backend.
type partialFrames struct {
	// rest is how many bytes of a large frame the backend still has to send. restSwallow means that the client must not
	// get these bytes. restUncounted means that the frame is an error or notice, which the log's digest omits.
	rest                       int
	restSwallow, restUncounted bool
	// restInto is the stored cursor that takes the rest of a large frame, or nil.
	restInto *stored.Cursor
	// midFrame means that the backend has received only a part of a client's frame.
	midFrame bool
}

// upstream is the state of output to the backend.
type upstream struct {
	uplink  *backendWriter
	flushed int    // bytes written
	read    []byte // the buffer of a long Query; see addQueryFrame
}

// clientOutput says how the client gets answers.
type clientOutput struct {
	// hidesAnswers means that some answers are hidden from the client. job is the id of the index job that the current
	// statement has started.
	hidesAnswers bool
	job          string
	// batches is a client's DELETE that Sluice runs in several transactions (batches), or nil.
	batches *batch.Delete
	// inspectsFrames means that Sluice inspects every frame of an answer, rows too.
	inspectsFrames bool
	// fenced means that Sluice sent a fence (queries that check the session's locks) or a query for the time
	// (queryTxTime). The client does not get the rows of these queries.
	fenced bool
	// refused is the error that replaces the server's error if Sluice made the server fail on purpose, and otherwise nil.
	refused *forcedErrorReply
	// stop is the error that ends the turn once the client has the whole of the current row.
	stop *wire.Error
}

// observedTimes has the times at which the session observed that the backend or the client was silent.
type observedTimes struct {
	// silentSince is the time since which the backend has sent nothing although a reply is pending. Zero means that no
	// check was made after the last frame from or to the backend.
	silentSince time.Time
	// midSince is when the client stopped in the middle of a frame, or was last probed while it had stopped there.
	midSince time.Time
	// leftAt is when the session found the client's Terminate after this turn's frames, or zero.
	leftAt time.Time
}

// parseSettings is the state of settings that change how SQL is parsed.
type parseSettings struct {
	// rereads means that a statement of the turn may have changed how the server parses later SQL.
	rereads bool
	// changes records how the turn's statements have changed the parsing of SQL.
	changes serversettings.TurnParsing
	// movesNames means that a statement may have changed to which tables names refer.
	movesNames bool
}

// turnPool holds unused turns, which saves an allocation per query.
var turnPool = sync.Pool{New: func() any { return new(turn) }}

// newTurn returns a turn of the session's transaction. The caller returns it to the pool.
func (s *session) newTurn() *turn {
	t := turnPool.Get().(*turn)
	t.rec.tx, t.rec.planner = &s.tx, s.srv.pool.planner
	return t
}

// returnToPool resets the turn and returns it to the pool. Queues and buffers stay with the turn unless they have grown
// above a limit, so that one long pipeline does not hold memory for good.
func (t *turn) returnToPool() {
	t.up.Reset()
	t.down.Reset()
	t.owed.clearNameUndos()
	items, undos, capture, scratch, logged := t.owed.items[:0], t.owed.undos, t.capture[:0], t.scratch[:0], t.rec.scratch[:0]
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
	if cap(logged) > 64<<10 {
		logged = nil
	}
	*t = turn{} // an assignment of its own: the compiler would build a literal with values elsewhere and copy it
	t.owed.items, t.owed.undos, t.capture, t.scratch, t.rec.scratch = items, undos, capture, scratch, logged
	turnPool.Put(t)
}
