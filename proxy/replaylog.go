package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/batch"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/constraint"
	"github.com/sluice-proxy/sluice/proxy/cursor"
	"github.com/sluice-proxy/sluice/proxy/options"
	"github.com/sluice-proxy/sluice/proxy/pin"
	"github.com/sluice-proxy/sluice/proxy/recorded"
	"github.com/sluice-proxy/sluice/proxy/script"
	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// This file has the log of a transaction, and output withheld from the client. A session records frames before it
// sends them (logFrame), and answers as they arrive (recordRows, recordReply, sendSynthetic), so that the transaction
// can be replayed. Package retry implements the log and counts how much of each answer the client has.

// replayShared holds the state that the replays of all sessions share. In a Server without replay it is nil.
type replayShared struct {
	cfg    retry.Config
	logs   *retry.ReplayLogPool[logEntry]
	held   *retry.ByteQuota
	budget *retry.Budget
	gate   *retry.ConflictGate
	alert  *retry.ConflictAlert
}

// newReplayShared returns the state that the replays of a Server share, or nil if it makes no replays.
func newReplayShared(cfg Config) (*replayShared, error) {
	if !cfg.Replay || cfg.hasDedicatedBackends() {
		return nil, nil
	}
	logs, err := retry.NewReplayLogPool[logEntry](cfg.Retry)
	if err != nil {
		return nil, err
	}
	return &replayShared{cfg: cfg.Retry, logs: logs, held: retry.NewByteQuota(cfg.Retry.HeldTotalBytes),
		budget: retry.NewBudget(cfg.Retry, time.Now), gate: retry.NewConflictGate(cfg.Retry),
		alert: retry.NewConflictAlert(cfg.AlertConflictsPerMinute)}, nil
}

// transaction records the session's current transaction, for a replay and for metrics. endTransaction resets it.
type transaction struct {
	log *retry.ReplayLog[logEntry] // nil: no transaction, or replay is off
	// whole is the whole transaction's log while log is that of a discarded part (after ROLLBACK TO), and otherwise nil.
	whole *retry.ReplayLog[logEntry]
	// begin is the deferred BEGIN that preceded the transaction's first frame, or nil.
	begin          *statement.Template
	attempts       retry.Attempts
	pass           *retry.GatePass
	key            retry.ContentionKey // of its first statement that locks or changes existing rows
	keyed          bool
	hadRowConflict bool   // it lost a conflict over rows
	gated          bool   // it had a pass at its last conflict
	operation      string // see trackOperationName
	running        metrics.ActiveTx
	writes         bool // operation names a statement that locks or writes
	optedOut       bool // by a comment in the SQL
	pin            pin.Tx
	began          time.Time
	// unknown means that the replay's cause is a name unknown to the server. renamed means that such a replay was made.
	unknown, renamed bool
	savepointState
	// at is the state of the block after the last turn. It is valid in a block whose backend is not lost.
	at block.Block
	// changes is the number of texts sent in the transaction that may have changed something.
	changes uint64
	// ran means that Sluice has sent more than the BEGIN. From then on ddl.in_transactions is fixed (options.go).
	ran options.Ran
	// resets has the settings of the startup that functions may have reset (restoresettings.go).
	resets serversettings.TxResets
	// job is the index job that a CREATE INDEX of the transaction started.
	job   constraint.PendingJob
	names serversettings.AppNames // application names that functions have set
	// watched means that observers (features) are notified at the end of the transaction (observer.onSettled).
	watched bool
	// settingsAtBegin are the backend's settings when the transaction began.
	settingsAtBegin *settings.Values
}

// recorder is a turn's part in the log of its transaction. A recorder records frames, and reads recorded texts for a
// replay. In a turn that is not logged it records nothing.
type recorder struct {
	tx      *transaction     // the session's
	planner *rewrite.Planner // the configuration's, which reads recorded texts
	scratch []byte           // the buffer of loggedPayload
	// logs means that the turn's frames are in the log of the transaction, for a replay.
	logs bool
	// streams means that the client gets answers at once, and Sluice withholds none for a replay.
	streams bool
	// phase says who gets the backend's answers.
	phase attemptPhase
}

// logEntry is what a replay needs of a logged frame besides its payload. Q (Query), E, S, and D and C of portals have
// their payload as sent. B has the payload after its two names. P, and D of statements, have none. Type 0 is an answer
// of Sluice itself. Each field's comment names the frames that have the field.
type logEntry struct {
	plan      *rewrite.Plan          // Q, E: the statement
	asked     *rewrite.Plan          // Q: the client's text, if Sluice answers part of it
	text      string                 // Q: sent instead of the payload; "" sends the payload
	tmpl      *statement.Template    // P, B, D of a statement
	names     *schema.NameResolver   // Q, P, B, D of a statement: the names that it was planned with
	described *statement.Description // B: the description that the client was sent
	bound     *batch.Params          // E: runs as batches
	stmt      *statement.Client      // D: the client's statement that the answer describes
	answered  *localAnswers          // Q: the parts that Sluice answers, or nil
	kept      *recorded.Answer       // Q, B: the recorded answer of the client, or nil
	cursor    *cursor.Fetch          // E: reads a cursor, or nil
	told      *setConfigReply        // E: replaces the server's answer, or nil
	parsed    bool                   // D: a ParseComplete precedes its answer
	silent    bool                   // B, E, C: of a cursor or fence, whose answer no client gets
	fence     bool                   // B: of a fence
	own       replyHandler           // E: the reply to a statement of Sluice's own
	// commits means that, once Sluice has sent this frame, the turn may have committed.
	commits bool
	// first is the number of a Query's statements that belong to the log's transaction. Later statements of the Query
	// follow that transaction's end. For a Bind or Execute, first is 1 or 0.
	first uint16
	// undoes means that, if the server skips the frame, the statement name means prev again.
	undoes bool
	name   string // of the prepared statement; B: of the portal
	prev   *statement.Client
}

// localAnswers says which part of the answer to a Query comes from Sluice, not from the server.
type localAnswers struct {
	tag    []byte       // of a RESET that was sent as a SET
	strung *script.Plan // of a multi-statement query
}

// startLogging attaches the turn to its transaction's log, when the turn first needs a backend. The log lacks
// Sluice's earlier answers, which the client already has. In a block startLogging starts no log.
func (s *session) startLogging() {
	if s.srv.pool.replays == nil || s.dedicated {
		return
	}
	if s.tx.log == nil {
		if s.b.status != 'I' {
			return
		}
		s.openLog()
	}
	s.t.rec.logs = true
	s.t.progress = s.settings.TxProgress()
}

// openLog starts the log of a transaction. After an opt-out of replays, the log refuses every replay.
func (s *session) openLog() {
	s.tx.log, s.tx.begin = s.srv.pool.replays.logs.Open(), s.deferredBegin
	s.tx.began = time.Now()
	s.tx.running = s.srv.metrics.CountTxStart(s.tx.running, s.tx.operation)
	switch {
	case s.optedOut, s.tx.optedOut:
		s.tx.log.RefuseReplay(retry.OptedOut)
	case s.pin.IsPinned():
		s.tx.pin.RecordPinned()
	}
}

// optOutOfReplay turns replay off, if asked is set, for the current transaction, or for the one that the current
// statement begins. That holds even if Sluice answers the statement.
func (tx *transaction) optOutOfReplay(asked bool) {
	if asked {
		tx.optedOut = true
		tx.log.RefuseReplay(retry.OptedOut)
	}
}

// endTransaction frees the record of a transaction and releases its pass (its place in the queue for contended
// rows). committed means that the client got the COMMIT, which adds to the process's budget of replays.
func (s *session) endTransaction(committed bool) {
	if s.tx.watched {
		s.srv.observers.notifySettled(s, committed)
	}
	s.tx.pass.Release()
	if s.tx.log == nil {
		s.tx = transaction{}
		return
	}
	if s.tx.whole != nil {
		s.tx.log = s.tx.whole
	}
	s.tx.closeDiscardedParts()
	s.tx.log.Close()
	if committed {
		s.srv.pool.replays.budget.RecordCommit()
	}
	s.srv.metrics.CountTxEnd(s.tx.running, s.tx.operation, time.Since(s.tx.began), s.tx.attempts.Count())
	s.tx = transaction{}
}

// logFrame records a client's frame for a replay before the frame is sent. If the log is full, no replay is possible,
// and Sluice sends the frame nevertheless.
func (r *recorder) logFrame(typ byte, n logEntry, payload []byte) {
	beside := 0
	if r.logs && n.plan != nil && (len(n.plan.Statements) > 1 || len(payload) > uncountedText) {
		if beside = n.plan.Bytes(); n.asked != nil && n.asked != n.plan {
			beside += n.asked.Bytes()
		}
	}
	if r.logs && r.tx.log.RecordFrame(typ, n, len(payload), beside) {
		r.tx.log.AppendPayload(payload)
	}
}

// uncountedText is the length in bytes up to which a text in the log is not charged, since its template is shared.
const uncountedText = 4 << 10

// chargeLongText charges the log for a long text, whose template only the log may hold in memory.
func (r *recorder) chargeLongText(tmpl *statement.Template, cost int) {
	if r.logs && len(tmpl.SQL) > uncountedText && !r.tx.log.ReserveBytes(cost) {
		r.tx.log.RefuseReplay(retry.LogFull)
	}
}

// logUndo records that the last logged frame changed the meaning of a statement name. prev is the earlier meaning.
func (r *recorder) logUndo(name string, prev *statement.Client) {
	l := r.tx.log
	if !r.logs || !l.Replayable() {
		return
	}
	if frames := l.TurnFrames(l.TurnCount()); len(frames) > 0 {
		n := &frames[len(frames)-1].Note
		n.undoes, n.name, n.prev = true, name, prev
		if !l.ReserveBytes(len(name)) {
			l.RefuseReplay(retry.LogFull)
		} else if prev != nil {
			r.chargeLongText(prev.Template, int(prev.Cost))
		}
	}
}

// logPlan records the effect of a text on the replay log before the text runs. Some texts forbid a replay. Others
// count as writes, so that a ROLLBACK TO must undo them.
func (s *session) logPlan(plan *rewrite.Plan) {
	l := s.tx.log
	if !s.t.rec.logs || !l.Replayable() {
		return
	}
	switch {
	case plan == unreadPlan: // too long: the log has no copy
		l.RefuseReplay(retry.Unread)
	case plan.Kind == rewrite.Unknown, plan.Pin == rewrite.PinUnparsed:
		s.t.request.unreadRuns = true // see forbidReplayOfUnparsed
	case plan.Sequence == "" && s.pin.IsSole(&s.t.request.pin, &s.tx.pin, plan):
		s.tx.pin.RecordSole() // it may be replayed after a schema change: see pin.State.UnpinForReplay
		l.RecordWrite()
	case plan.Pin != rewrite.NoPin, plan.Sequence != "":
		l.RefuseReplay(retry.Pinned)
	// The log lacks rows that are hidden from the client. For one statement in autocommit the client has no answer yet.
	case hasMaskedAnswer(plan) && (plan.SingleStatement() == nil || s.inBlock()):
		l.RefuseReplay(retry.Masked)
	case plan.Kind > rewrite.Read:
		l.RecordWrite()
		for i := range plan.Statements {
			if st := &plan.Statements[i]; st.Does == rewrite.DeallocatesAll || isDiscardAll(st) {
				l.RefuseReplay(retry.Pinned) // it drops the session's prepared statements
			}
		}
	}
}

// forbidReplayOfUnparsed forbids the replay of a transaction after the server ran unparsed text, which may have done
// anything. A text with a syntax error has done nothing and may be replayed. This allows a ROLLBACK TO after a typing
// mistake, as with psql's ON_ERROR_ROLLBACK. In a pipeline with a savepoint the session therefore waits for the
// answer to unparsed text. Without a savepoint, later frames forbid a replay (partial_group).
func (t *turn) forbidReplayOfUnparsed() {
	if t.request.unreadRuns {
		t.rec.tx.log.RefuseReplay(retry.Unread)
	}
}

// isRecording reports whether the log records the backend's answers. The answers of a failed attempt are not recorded.
func (r *recorder) isRecording() bool { return r.logs && r.phase != phaseAborting }

// isWithholding reports whether output is withheld from the client, because a replay may still replace it.
func (r *recorder) isWithholding() bool {
	return r.logs && !r.streams && r.tx.log.Replayable()
}

// recordRows records in the log the rows that the server has sent up to the read position. It does not send rows that
// the client has from an earlier attempt. If they differ from the client's, the attempt ends.
func (s *session) recordRows(r *relaySpan) error {
	src := &s.b.src
	if r.noted == src.Pos() {
		return nil
	}
	if s.t.rec.isRecording() {
		if q := &s.t.owed; !q.empty() && q.first().reply != nil {
			if taker, ok := q.first().reply.(rowHandler); ok {
				taker.handleRows(s, src.BytesSince(r.noted))
			}
		}
		drop, ok := s.tx.log.RecordRows(src.BytesSince(r.noted))
		if !ok {
			s.failOnDifference()
		}
		if drop > 0 {
			if err := s.sendOrWithhold(src.BytesBetween(r.span, r.noted)); err != nil {
				return err
			}
			r.span = r.noted + drop
		}
	}
	r.noted = src.Pos()
	return nil
}

// recordReply records a frame that is not a row. It returns how many of the frame's first bytes the client already
// has (of an error or notice, all or none). If the frame differs from the client's, the attempt fails, and the result
// is the whole length.
func (l *link) recordReply(typ byte, frame []byte) int {
	log := l.tx.log
	if typ == wire.ReadyForQuery && l.b.status == 'I' && l.t.rec.phase != phaseRepeating && !log.IsReplayBehind() {
		return 0 // the transaction has ended: no replay will compare this
	}
	drop, ok := log.RecordReply(typ, frame)
	if !ok {
		l.failOnDifference()
		return len(frame)
	}
	// Only a ROLLBACK can follow an error that the client got.
	if typ == wire.ErrorResponse && drop == 0 && l.t.rec.phase != phaseRepeating {
		log.RefuseReplay(retry.Failed)
	}
	return drop
}

// sendSynthetic sends the client an answer of Sluice's own, unless the client got that answer in an earlier attempt.
func (l *link) sendSynthetic(b []byte) error {
	if l.t.rec.isRecording() && l.tx.log.RecordLocalReply(len(b)) > 0 {
		return nil
	}
	return l.sendOrWithhold(b)
}

// releaseWithheld sends the client the output that was withheld for a replay. Once the log records the output as
// delivered, a replay must give the same answers.
func (l *link) releaseWithheld() error {
	if l.withheld.Len() == 0 {
		return nil
	}
	err := l.withheld.Each(l.bufferOutputFunc)
	l.withheld.Drop()
	return err
}

// flushToClient sends the client all output so far, thus the answer to each earlier Parse (revalidateStatement). The
// turn continues.
func (l *link) flushToClient() error {
	l.deliveries++
	if err := l.releaseWithheld(); err != nil {
		return err
	}
	if err := l.flushBuffered(); err != nil {
		return err
	}
	if l.t.rec.isRecording() {
		l.tx.log.RecordDelivered()
	}
	return nil
}

// limitWithholding limits how long partial output is withheld from the client, to hold_time after its first part.
func (s *session) limitWithholding() {
	if s.withheld.Len() > 0 && s.t.clock.Hold(s.srv.pool.replays.cfg.HoldTime) {
		s.waits.Arm()
	}
}
