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

// turn is the state of one turn, which the pool reuses. Its structs are values, so that one assignment resets all.
// Fields that are reset together are in one struct.
type turn struct {
	owed    pendingQueue
	up      wire.Batch             // frames for the backend
	down    wire.Batch             // frames for the client
	capture []byte                 // a ParameterDescription, until its RowDescription has arrived
	desc    *statement.Description // the last statement description from the server
	scratch []byte

	request  clientRequest  // what the client has sent in this turn
	server   serverProgress // what the server has done in this turn
	partial  partialFrames  // frames of which only a part was received or sent
	sent     upstream       // output to the backend
	output   clientOutput   // how answers are passed to the client
	observed observedTimes  // when the session found the backend or client silent
	parsing  parseSettings  // how the turn has changed the parsing of SQL
	rec      recorder       // records the turn in its transaction's log (replaylog.go)
	attempt  replayAttempt  // a replay of the transaction (replay.go)
	nested   nestedTurn     // how this turn differs if it is a nested turn (nested.go)

	// clock has the deadlines of the statement timeout and of hold_time (the longest time for which output is withheld).
	clock interrupt.Clock
	// abandonedConn is a backend's connection that the session dropped while a statement was running, or nil. Sluice
	// cancels that statement only after the client has its error, so that the client does not wait for the cancel.
	abandonedConn *reservoir.Conn
	// touched means that the server has got a frame of this turn, or that one is queued for it.
	touched bool
	// settled means that the client's turn is over, because its ReadyForQuery was relayed.
	settled bool
	// access is the access mode, such as READ ONLY, of statements outside a block.
	access access.Turn
	// resets means that a statement may have reset settings, for example by a function. restoresSettings means that Sluice
	// restores them before the turn ends (settleRestoringSettings).
	resets, restoresSettings bool
	// readBySchema means that Sluice took a statement for a read because of facts about the schema, not only its SQL.
	readBySchema bool
	// unseen means that the writes of a suspended portal may not be visible yet. sendEmptyParse makes them visible.
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
	// featureReads means that a feature, such as COPY, is reading the client's frames. A cancel then ends its statement.
	featureReads bool
	// plan is the plan of the turn's simple Query, set before the Query is sent.
	plan *rewrite.Plan
	// sequenceText is the text of the current statement if it calls currval, lastval or nextval, and otherwise "".
	sequenceText string
	// executed means that Sluice sent a statement of the Sync group. ranLocal means that Sluice itself answered a
	// statement. executes is the number of statements that Sluice sent outside a block.
	executed, ranLocal bool
	executes           int
	// call is the portal that Sluice itself is executing, or nil for a simple Query.
	call *portal
	// altering is an ALTER TABLE whose Execute the client sent, and which Sluice runs at the Sync, or nil.
	altering *rewrite.Statement
	// closing has one element for each Close that follows the Execute of altering. The element is the frame for a
	// statement, and nil for a portal.
	closing [][]byte
	// last is nil, or the error for any frame but a Sync. It is set by an Execute that must be the last of its group.
	last *wire.Error
	// deferred is the rest of a statement, which a feature finishes at the Sync, or nil.
	deferred feature.Deferred
	// pendingCancel is a cancel or timeout that arrived while the statement could not be stopped, or nil. It later stops
	// a DELETE that runs in batches.
	pendingCancel *wire.Error
	// script is the plan of a multi-statement query of which Sluice itself answers some statements, or nil.
	// stateBeforeScript is a copy of the session's state before that query.
	script *script.Plan
	// parsed is a Parse whose ParseComplete Sluice withholds until the answer to the next Describe.
	parsed            waitingParse
	stateBeforeScript *localStateCopy
	// pin is the pin that this turn has made: the session must stay on its backend.
	pin pin.Turn
	// unreadRuns means that Sluice sent text that it could not parse. A replay would send this text again.
	unreadRuns bool
}

// serverProgress is what the server has done in this turn. A replay resets it (rerunTransaction).
type serverProgress struct {
	outcome    outcome.Outcome
	internalTx internalBlock
	// skip means that the client got an error, and that Sluice drops the client's frames up to the Sync.
	skip bool
	// errorTold means that the client got an error in this turn.
	errorTold bool
	// committing means that Sluice is storing rows of cursors WITH HOLD before a COMMIT.
	committing bool
	// copying means that the server waits for COPY data.
	copying bool
	// earlySyncs is the number of Syncs that the client has sent after its last COPY data.
	earlySyncs int
	// statement is how many CommandComplete frames a simple Query has got, and rows how many rows the current answer has.
	statement, rows int
}

// partialFrames is the state of frames that the session has partly received from, or sent to, its backend. It is reset
// when the session drops the backend.
type partialFrames struct {
	// rest is how many bytes of a large frame the backend still has to send. restSwallow means that the client must not
	// get these bytes. restUncounted means that the frame is an error or notice, which the log's digest omits.
	rest                       int
	restSwallow, restUncounted bool
	// restInto is the stored cursor (WITH HOLD) that takes the rest of a large frame, or nil.
	restInto *stored.Cursor
	// midFrame means that the backend has received only a part of a client's frame.
	midFrame bool
}

// upstream is the state of the turn's output to the backend.
type upstream struct {
	uplink  *backendWriter
	flushed int    // number of bytes written in the turn
	read    []byte // the buffer of a long Query (addQueryFrame), or nil
}

// clientOutput says how the client gets the answers of the turn.
type clientOutput struct {
	// hidesAnswers means that Sluice hides some answers from the client. job is the id of the index job that the current
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
	// refused is the error that replaces the server's, if Sluice made the server fail on purpose, and otherwise nil.
	refused *forcedErrorReply
	// stop is the error that ends the turn as soon as the client has the whole of the current row, or nil.
	stop *wire.Error
}

// observedTimes has the times at which the session observed that the backend or the client was silent.
type observedTimes struct {
	// silentSince is the time since which the backend has sent nothing although a reply is pending. Zero means that no
	// check was made after the last frame from or to the backend.
	silentSince time.Time
	// midSince is when Sluice found that the client had stopped within a frame, or last probed it there, or zero.
	midSince time.Time
	// leftAt is when the session found the client's Terminate after this turn's frames, or zero.
	leftAt time.Time
}

// parseSettings says how the turn has changed settings that affect how SQL is parsed.
type parseSettings struct {
	// rereads means that a statement of the turn may have changed how the server parses later SQL.
	rereads bool
	// changes records how the turn's statements have changed the parsing of SQL.
	changes serversettings.TurnParsing
	// movesNames means that a statement may have changed which tables names refer to.
	movesNames bool
}

// turnPool holds unused turns, which saves an allocation per query.
var turnPool = sync.Pool{New: func() any { return new(turn) }}

// newTurn returns a turn of the session's transaction, from the pool. The caller returns it to the pool.
func (s *session) newTurn() *turn {
	t := turnPool.Get().(*turn)
	t.rec.tx, t.rec.planner = &s.tx, s.srv.pool.planner
	return t
}

// returnToPool resets the turn and returns it to the pool. Queues and buffers stay with the turn unless they have grown
// above a limit. So one long pipeline does not hold memory for good.
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
	*t = turn{} // a separate assignment, since the compiler would build and copy a literal with values
	t.owed.items, t.owed.undos, t.capture, t.scratch, t.rec.scratch = items, undos, capture, scratch, logged
	turnPool.Put(t)
}
