package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/constraint"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// The log of a transaction, and output that is withheld: what a session notes while it relays, so that the transaction
// can be run again. Frames are noted before they are sent (logFrame), answers as they come (noteRows, noteReply,
// synthesize). Package retry holds the log, and says of each answer how much of it the client has already.

// replays is what the replays of all sessions share; a Server without replay has none.
type replays struct {
	cfg    retry.Config
	logs   *retry.Logs[logEntry]
	held   *retry.Quota
	budget *retry.Budget
	gate   *retry.Gate
	alert  *retry.Alert
}

// newReplays is what the sessions of a Server share; nil where replay is off, or has nothing to do.
func newReplays(cfg Config) (*replays, error) {
	if !cfg.Replay || cfg.dedicated() {
		return nil, nil
	}
	logs, err := retry.NewLogs[logEntry](cfg.Retry)
	if err != nil {
		return nil, err
	}
	return &replays{cfg: cfg.Retry, logs: logs, held: retry.NewQuota(cfg.Retry.HeldTotalBytes),
		budget: retry.NewBudget(cfg.Retry, time.Now), gate: retry.NewGate(cfg.Retry),
		alert: retry.NewAlert(cfg.AlertConflictsPerMinute)}, nil
}

// transaction is what a session keeps of the transaction it runs, so that it can be run
// again, and for metrics. endTransaction resets it.
type transaction struct {
	log *retry.Log[logEntry] // nil: no transaction, or replay is off
	// whole is that log while log is one of a discarded part; else nil.
	whole *retry.Log[logEntry]
	// begin is the BEGIN that went in front of its first frame; nil: none did.
	begin     *template
	attempts  retry.Attempts
	pass      *retry.Pass
	key       retry.Key // of its first statement that locks or changes rows that exist
	keyed     bool
	fought    bool   // it has lost to another, for rows
	gated     bool   // it had a pass when it lost last
	operation string // see nameOperation
	running   metrics.Running
	writes    bool // operation is that of a statement that locks or writes
	optedOut  bool // by a comment
	pins      bool // its statement at hand is what has the session keep its backend
	held      bool // the session kept its backend before: it is run again there, and for OC001 only
	began     time.Time
	// unknown: it is to be run again because the server did not know a name; renamed: so it was already.
	unknown, renamed bool
	savepoints
	// at is how its block stood when the last turn ended: where the session is in one, and that was not lost.
	at block.Block
	// changes counts what it has sent that may have changed something.
	changes uint64
	// ran: something but BEGIN was sent. It tells whether how the transaction is committed may still be chosen
	// (choices.go).
	ran bool
	// resets: something in it may have reset settings unseen: putback.go.
	resets  bool
	putBack []string // settings that were put back since
	// job is the one that a CREATE INDEX of it has begun.
	job   constraint.Pending
	names names // given by functions: named.go
	// watched: the end of the transaction is observed (observer.settled).
	watched bool
	// stood are the settings that were in force at the backend when it began.
	stood *settings.Values
}

// logEntry is what it takes, besides its payload, to send a logged frame once more. The
// frames: Q, E, S, and D and C of portals, as they came; B with what follows its two names;
// P and D of statements without payload; and, with type 0, answers that were made up.
type logEntry struct {
	plan      *rewrite.Plan    // Q, E: what runs
	asked     *rewrite.Plan    // Q: what the client asked for, where some is answered here
	text      string           // Q: what is sent in the place of its payload; "" for that
	tmpl      *template        // P, B, D of a statement
	names     *schema.Names    // Q, P, B, D of a statement: by what it was planned
	described *description     // B: what the client was told that it returns
	bound     *boundDelete     // E: what it takes to run it in batches
	stmt      *clientStatement // D: whose client the answer tells
	answered  *answeredHere    // Q: some of what it asks for is answered here; else nil
	kept      *keptAnswer      // Q, B: what its client was answered; nil: that is not kept
	cursor    *cursorRun       // E: of a cursor; else nil
	told      *told            // E: what its client gets in the place of the answer; else nil
	parsed    bool             // D: a ParseComplete goes in front of its answer
	silent    bool             // B, E, C: of a cursor, or of a fence: its answer is for nobody
	fence     bool             // B: of a fence
	own       reply            // E: of Sluice's own: the reply of its entry
	// commits: once it is sent, the turn may have committed.
	commits bool
	// first counts the statements, of a Query from its beginning on, that are of the log's transaction:
	// behind the end of that, others are of the next. Of a Bind it is 1 or 0.
	first uint16
	// undoes: a frame that the server skips leaves prev under the name.
	undoes bool
	name   string // of that statement; B: of the portal
	prev   *clientStatement
}

// answeredHere says how a Query is answered that is not the server's alone.
type answeredHere struct {
	tag    []byte  // of a RESET that went as a SET
	strung *strung // of a string
}

// startLogging attaches the turn to the log of its transaction. It is called when the turn first needs its backend.
// Answers that the client was given before stay outside: they are delivered, and nothing of the server's went before
// them. A block whose log is gone goes on without one.
func (s *session) startLogging() {
	if s.srv.replays == nil || s.dedicated {
		return
	}
	if s.tx.log == nil {
		if s.b.status != 'I' {
			return
		}
		s.openLog()
	}
	s.t.logs = true
	s.t.progress = s.settings.Progress()
}

// openLog begins the log of a transaction. A transaction that has opted out has one too,
// which is refused from the start.
func (s *session) openLog() {
	s.tx.log, s.tx.begin = s.srv.replays.logs.Open(), s.deferredBegin
	s.tx.began = time.Now()
	s.tx.running = s.srv.metrics.TxBegan(s.tx.running, s.tx.operation)
	switch {
	case s.optedOut, s.tx.optedOut:
		s.tx.log.Refuse(retry.OptedOut)
	case s.pinned:
		s.tx.held = true
	}
}

// optOut turns replay off for the transaction in progress, or the one that the
// statement at hand begins, also where no server sees that statement.
func (s *session) optOut(asked bool) {
	if asked {
		s.tx.optedOut = true
		s.tx.log.Refuse(retry.OptedOut)
	}
}

// endTransaction frees what was kept of a transaction, and gives its pass back; others may be waiting for that.
// committed says that the client was told so, which pays into the budget.
func (s *session) endTransaction(committed bool) {
	if s.tx.watched {
		s.srv.observers.settled(s, committed)
	}
	s.tx.pass.Release()
	if s.tx.log == nil {
		s.tx = transaction{}
		return
	}
	if s.tx.whole != nil {
		s.tx.log = s.tx.whole
	}
	s.tx.closeParts()
	s.tx.log.Close()
	if committed {
		s.srv.replays.budget.Committed()
	}
	s.srv.metrics.TxEnded(s.tx.running, s.tx.operation, time.Since(s.tx.began), s.tx.attempts.Count())
	s.tx = transaction{}
}

// logFrame notes a frame of the client's before it is sent: a log that has no room for it
// is refused, and the frame is sent all the same.
func (s *session) logFrame(typ byte, n logEntry, payload []byte) {
	if s.t.logs && s.tx.log.Sent(typ, n, len(payload)) {
		s.tx.log.Write(payload)
	}
}

// logLong books what the log holds of a text that nobody else may hold: the catalog has no long ones.
func (s *session) logLong(tmpl *template, cost int) {
	if s.t.logs && tmpl.long() && !s.tx.log.Keep(cost) {
		s.tx.log.Refuse(retry.LogFull)
	}
}

// logUndo notes that the frame logged last changed what a name means: prev had it before.
func (s *session) logUndo(name string, prev *clientStatement) {
	l := s.tx.log
	if !s.t.logs || !l.Replayable() {
		return
	}
	if frames := l.Frames(l.Turns()); len(frames) > 0 {
		n := &frames[len(frames)-1].Note
		n.undoes, n.name, n.prev = true, name, prev
		if !l.Keep(len(name)) {
			l.Refuse(retry.LogFull)
		} else if prev != nil {
			s.logLong(prev.tmpl, int(prev.cost))
		}
	}
}

// logPlan judges a text that the transaction is about to run: some make it unreplayable,
// others are noted as writes, which a return to a savepoint forgets.
func (s *session) logPlan(plan *rewrite.Plan) {
	l := s.tx.log
	if !s.t.logs || !l.Replayable() {
		return
	}
	switch {
	case plan == unread: // too long: the log has no copy
		l.Refuse(retry.Unread)
	case plan.Kind == rewrite.Unknown, plan.Pin == rewrite.PinUnparsed:
		s.t.unreadRuns = true // see refuseUnread
	case plan.Sequence == "" && s.pinsAlone(plan):
		s.tx.pins = true // for a change of the schema it may be run again: see unpinForReplay
		l.Wrote()
	case plan.Pin != rewrite.NoPin, plan.Sequence != "":
		l.Refuse(retry.Pinned)
	case masks(plan) && !s.masksAlone(plan):
		l.Refuse(retry.Masked)
	case plan.Kind > rewrite.Read:
		l.Wrote()
		for i := range plan.Statements {
			if st := &plan.Statements[i]; st.Does == rewrite.DeallocatesAll || discardsAll(st) {
				l.Refuse(retry.Pinned) // the session's statements go with it
			}
		}
	}
}

// refuseUnread refuses the replay of a transaction whose text at hand nobody here has read, where
// the server has run it, or may have: it may have done anything. A text that the server's grammar
// does not take either (notParsed) has done nothing, and is run again: a typing mistake behind a
// savepoint (psql's ON_ERROR_ROLLBACK) does not stop the return to that. In a pipeline behind a savepoint
// the session waits for the answer to such a text before it sends more (execute). Without a savepoint what is
// sent behind it is refused as partial_group: at that time the server has not said what it thinks of the text.
func (s *session) refuseUnread() {
	if s.t.unreadRuns {
		s.tx.log.Refuse(retry.Unread)
	}
}

// noting reports whether what the backend says is told to the log: not in an attempt that has failed.
func (s *session) noting() bool { return s.t.logs && s.t.phase != aborting }

// holding reports whether output for the client is held back: as long as a replay may
// replace it, and not too much of it has come.
func (s *session) holding() bool {
	return s.t.logs && !s.t.streams && s.tx.log.Replayable()
}

// noteRows tells the log of the rows up to the read position, and takes out of the span what the client has already. It
// passes what comes before those. A difference ends the attempt (differs).
func (s *session) noteRows(r *stretch) error {
	src := &s.b.src
	if r.noted == src.Pos() {
		return nil
	}
	if s.noting() {
		if q := &s.t.owed; !q.empty() && q.first().reply != nil {
			if taker, ok := q.first().reply.(rowReply); ok {
				taker.span(s, src.Since(r.noted))
			}
		}
		drop, ok := s.tx.log.Rows(src.Since(r.noted))
		if !ok {
			s.differs()
		}
		if drop > 0 {
			if err := s.passSpan(src.Between(r.span, r.noted)); err != nil {
				return err
			}
			r.span = r.noted + drop
		}
	}
	r.noted = src.Pos()
	return nil
}

// noteReply tells the log of a frame that is not a row, and returns how many of its leading bytes the client has
// already: all or none of an error or notice. A difference ends the attempt, and the frame is for nobody.
func (s *session) noteReply(typ byte, frame []byte) int {
	l := s.tx.log
	if typ == wire.ReadyForQuery && s.b.status == 'I' && s.t.phase != repeating && !l.Behind() {
		return 0 // the transaction is over: nobody will ask what it was
	}
	drop, ok := l.Reply(typ, frame)
	if !ok {
		s.differs()
		return len(frame)
	}
	// Behind an error that the client is told nothing but a rollback can follow.
	if typ == wire.ErrorResponse && drop == 0 && s.t.phase != repeating {
		l.Refuse(retry.Failed)
	}
	return drop
}

// synthesize sends the client an answer that was made up, unless it has that answer already.
func (s *session) synthesize(b []byte) error {
	if s.noting() && s.tx.log.Made(len(b)) > 0 {
		return nil
	}
	return s.passSpan(b)
}

// releaseWithheld sends the client what was held back for it. A replay has to answer that
// again, once the log is told (Delivered).
func (s *session) releaseWithheld() error {
	if s.withheld.Len() == 0 {
		return nil
	}
	err := s.withheld.Each(s.sinkDown)
	s.withheld.Drop()
	return err
}

// flushToClient sends the client all that is there for it; the turn goes on. The client has
// heard of all answers so far: see asNow.
func (s *session) flushToClient() error {
	s.heard++
	if err := s.releaseWithheld(); err != nil {
		return err
	}
	if err := s.flushDown(); err != nil {
		return err
	}
	if s.noting() {
		s.tx.log.Delivered()
	}
	return nil
}

// limitHold bounds how long output that has come in part is held back: from its first part on, hold_time.
func (s *session) limitHold() {
	t := s.t
	if t.holdEnd.IsZero() && s.withheld.Len() > 0 {
		t.holdEnd = time.Now().Add(s.srv.replays.cfg.HoldTime)
		s.alarmRead()
	}
}
