package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/recorded"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// This file stores values that the server generated and the client received: keys of INSERT ... RETURNING, and
// numbers of sequences. A replay inserts these values (resendvalues.go), and skips a query that only drew a number.
// The new answers are compared as usual, so that the client sees no difference.
//
// The result is correct because a rollback does not return a drawn number or random value: no other transaction gets
// it. So a replay may use what the first attempt drew. There are two exceptions. A transaction that creates or sets
// back the sequence would draw the number again. now() differs between two attempts (transactiontime.go).

// Sluice records a multi-statement query's answer by statement (SplitStatements). A replay puts the recorded values
// into each statement, and sends one query. If Sluice itself answers one of the statements, it records nothing, since
// the server answers another text.

// answerRecorder is the reply handler that records the server's answer.
type answerRecorder struct{ *recorded.Answer }

// recordAnswerInto makes the pending reply record the server's answer in k, unless k is nil.
func (o *pendingReply) recordAnswerInto(k *recorded.Answer) {
	if k != nil {
		o.reply = chainHandlers(answerRecorder{k}, o.reply)
	}
}

// handleFrame records a statement's end. It discards the record if a frame is cut, since its rest looks like rows.
func (k answerRecorder) handleFrame(s *session, _ *pendingReply, f answer.Frame) (frameVerdict, error) {
	if f.IsCut() {
		k.Discard()
	}
	if f.EndsStatement() {
		k.End(f.Type, f.Bytes, s.b.settings.Reported())
	}
	return undecided, nil
}

func (k answerRecorder) handleRows(s *session, span []byte) { k.AddRows(s.tx.log, span) }

func (answerRecorder) replaceError(*session, *pendingReply, []byte) *answer.ErrorHandling { return nil }

// recordsAnswers reports whether a replay needs the values that the server generates now. Outside a block, and after
// the block's end in the same turn, the result is false: the statement commits before the client gets the answer.
func (s *session) recordsAnswers() bool {
	return s.srv.pool.keeper.Maps() && s.t.rec.logs && s.tx.log.Replayable() && s.inBlock() && !s.t.hasFirstTxEnded()
}

// newTextAnswer returns a recorded.Answer for a query, or nil. For a multi-statement query it stores all rows, since it
// is not known yet which statements are INSERTs. It returns nil if the replay log has no room.
func (tx *transaction) newTextAnswer(sql []byte, statements int) *recorded.Answer {
	switch {
	case statements < 2:
		return recorded.New(parse.IsInsertReturning(sql), values.MayReturnTxTime(sql))
	case values.MayReturnTimeOrRows(sql) && tx.log.ReserveBytes(statements*recorded.Cost):
		return recorded.NewSeveral(statements)
	}
	return nil
}

// surveyRepeatable decides which values the coming replay can repeat. If the transaction creates a sequence or may
// set one back, it repeats none, since other sessions could draw the same number. A sequence in no schema snapshot
// counts too, since a statement may have drawn from it.
func (s *session) surveyRepeatable() (k recorded.Repeatable) {
	l := s.tx.log
	if !s.srv.pool.keeper.Maps() || l.TurnCount() == 0 && !l.HasDeliveredPart() && len(s.tx.parts) == 0 || !s.t.rec.hasRepeatableValues() {
		return k
	}
	k = recorded.Repeatable{DrawnValues: true, Clock: true, Now: s.srv.pool.keeper.Snapshot().Schema}
	if k.Tells, k.Time = s.t.attempt.keepingWhole.Tells, s.t.attempt.keepingWhole.Time; s.tx.whole == nil {
		k.Time, k.Tells = s.t.rec.collectTxTime(k.Now)
	}
	ends := false // the unfinished turn ends the block; if not, a later statement may read the clock
	for turn := range l.TurnCount() + 1 {
		frames := l.TurnFrames(turn)
		for i := range frames {
			f := &frames[i]
			ends = turn == l.TurnCount() && (ends || f.Note.commitsBlock())
			// An unparsed text of an earlier turn had no effect, since the server refused it (forbidReplayOfUnparsed).
			if !(turn < l.TurnCount() && isUnparsedFrame(f)) && !s.surveyFrame(&k, f) {
				return recorded.Repeatable{}
			}
		}
	}
	// In this case the log is that of a part discarded by ROLLBACK TO. It has no stored values, only answers to compare.
	if s.tx.whole != nil {
		k.Clock = s.t.attempt.keepingWhole.Clock
		return k
	}
	// After a replay for ROLLBACK TO SAVEPOINT, Sluice refuses texts that read the clock, and DSQL has no triggers.
	ends = ends || s.t.attempt.returnSavepoint != "" || s.tx.earlierTime != nil
	k.Clock = k.Clock && ends && s.srv.cfg.Kind != Postgres
	return k
}

// commitsBlock reports whether the logged Query or Execute n commits the transaction of the replay log.
func (n *logEntry) commitsBlock() bool {
	return n.plan != nil && n.first > 0 && int(n.first) <= len(n.plan.Statements) && n.plan.Statements[n.first-1].Tx.Verb == rewrite.Commit
}

// changesCatalog reports whether a logged Query or Execute of the replayed transaction has DDL, or an unparsed text.
func (n *logEntry) changesCatalog() bool {
	if n.plan == nil || n.plan.Kind < rewrite.DDL {
		return false
	}
	if len(n.plan.Statements) == 0 {
		return true
	}
	own := n.plan.Statements[:min(int(n.first), len(n.plan.Statements))]
	return slices.ContainsFunc(own, func(st rewrite.Statement) bool { return st.Kind >= rewrite.DDL })
}

// surveyFrame checks whether a logged frame prevents a replay from repeating values, and reports whether any value can
// still be repeated.
func (s *session) surveyFrame(k *recorded.Repeatable, f *retry.LoggedFrame[logEntry]) bool {
	n := &f.Note
	switch {
	case n.changesCatalog():
		return false
	case f.Type != wire.Query && f.Type != wire.Bind, n.fence, n.first == 0: // a fence of advisory locks draws nothing and reads no clock
		return true
	case n.names == nil: // it is unknown what the names in its text mean
		return false
	case !k.SameSequences(n.names.Schema()):
		return false
	}
	// A parameter may be the word "now", which makes the server read the clock. The survey includes the unfinished
	// turn's statements, since they may read repeated values.
	k.Clock = k.Clock && (f.Type != wire.Bind || !parse.MayReadAsNow(s.t.rec.loggedPayload(f)))
	text := s.t.rec.clientText(f)
	if values.ClassifyGenerated(s.srv.pool.planner, text) != schema.Settled {
		return true // its answer is repeated, or drawn again
	}
	survey := k.SurveyText(s.srv.pool.planner, text, int(n.first), n.names, n.kept)
	k.Clock = k.Clock && !survey.Time
	// Recorded numbers are not repeated if a view may call a function that sets a sequence back.
	return !survey.Numbers && !(survey.Views && !s.srv.pool.readsArePure())
}

// hasRepeatableValues reports whether the client received any value that a replay could repeat. Most transactions have
// none, so that Sluice need not examine their logs.
func (r *recorder) hasRepeatableValues() bool {
	if r.tx.asked.instant.Bytes != nil {
		return true
	}
	for f := range r.tx.loggedFrames() {
		if k := f.Note.kept; k != nil && (k.Whole || k.First && k.HasFirstRow()) {
			return true
		}
		if (f.Type == wire.Query || f.Type == wire.Bind) && values.ClassifyGenerated(r.planner, r.clientText(f)) != schema.Settled {
			return true
		}
	}
	return false
}

// clientText returns the text of a logged Query or Bind as the client sent it.
func (r *recorder) clientText(f *retry.LoggedFrame[logEntry]) string {
	n := &f.Note
	switch {
	case n.tmpl != nil:
		return n.tmpl.SQL
	case n.asked != nil && n.asked.Text != "":
		return n.asked.ClientText()
	case n.text != "":
		return n.text
	}
	payload := r.loggedPayload(f)
	return string(payload[:max(0, len(payload)-1)])
}

// canSkipTurn reports whether a replay can skip a turn in its log. It can if each statement only generates values,
// such as sequence numbers.
func (r *recorder) canSkipTurn(turn int, k *recorded.Repeatable) bool {
	if !k.DrawnValues {
		return false
	}
	// A turn that ran no statement, such as one with only a Parse, is sent again, which costs little.
	ran := false
	frames := r.tx.log.TurnFrames(turn)
	for i := range frames {
		switch f := &frames[i]; f.Type {
		case wire.Query, wire.Bind:
			if f.Note.fence { // of a statement that is skipped
				continue
			}
			fill := values.ClassifyGenerated(r.planner, r.clientText(f))
			if fill == schema.Settled || fill == schema.Clock && !k.Clock || f.Type == wire.Bind && f.Note.name != "" {
				return false
			}
			ran = true
		// The turn can be skipped. If it prepared a statement, Sluice prepares that one when a later turn binds it.
		case 0, wire.Parse, wire.Describe, wire.Execute, wire.Close, wire.Sync:
		default:
			return false
		}
	}
	return ran
}
