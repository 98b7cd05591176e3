package proxy

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"unsafe"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// This file stores values that the server made and the client received: keys of INSERT ... RETURNING, and numbers of
// sequences. A replay does not generate them again. It inserts the values of the first answer (resendvalues.go), and
// skips a query that only drew a number. The new answers are compared as usual, so that the client sees no difference.
//
// The result is correct because a rollback does not return a drawn number or random value: no other transaction gets
// it. So a replay may use what the first attempt drew. There are two exceptions. A transaction that creates or sets
// back the sequence would draw the number again. Time differs between two attempts: transactiontime.go.

// Sluice records a multi-statement query's answer by statement (SplitStatements). A replay puts the recorded values
// into each statement, and sends one query. If Sluice answers one of the statements, nothing is stored, since the
// server's answer then belongs to another text.

// maxRecordedAnswer limits the stored answer of one statement in bytes. A row takes some bytes, and answers of more
// than a thousand rows are rare.
const maxRecordedAnswer = 64 << 10

// maxRecordedFirstRow limits, in bytes, the first row of an answer, in which Sluice looks for the transaction's time.
const maxRecordedFirstRow = 1 << 10

// recordedAnswer stores the DataRow frames that answer an INSERT ... RETURNING in a block. For other statements that
// return the transaction's time (now(), say) it stores the first row. The log entry of the Query or Bind and its
// pending reply share it. Of several attempts, only the first whose answer the client gets fills it.
type recordedAnswer struct {
	defaultHandler
	rows []byte
	// reports are the server's parameters (ParameterStatus) at the end of the recorded answer.
	reports *settings.Reports
	// whole is set if the recorded answer is complete. unusable is set if a replay cannot use the answer.
	whole, unusable bool
	// first is set if only the first row of the answer is stored. The field whole is then never set.
	first bool
	// several is the number of statements in a multi-statement query, or 0 for a single statement. answers has the answers
	// of the statements that have ended. nextOffset is the offset in rows where the next answer begins.
	several    int
	answers    []recordedAnswer
	nextOffset int
}

// recordAnswerInto makes the pending reply record the server's answer in k. If k is nil, nothing is recorded.
func (o *pendingReply) recordAnswerInto(k *recordedAnswer) {
	if k != nil {
		o.reply = chainHandlers(k, o.reply)
	}
}

// handleFrame records a statement's end. A frame in pieces makes the answer unusable, since the rest looks like rows.
func (k *recordedAnswer) handleFrame(s *session, _ *pendingReply, f answer.Frame) (frameVerdict, error) {
	if k.unusable = k.unusable || f.IsCut(); f.EndsStatement() {
		k.endAnswer(f.Type, f.Bytes, s.b.reported)
	}
	return undecided, nil
}

func (k *recordedAnswer) handleRows(s *session, span []byte) { k.addRows(s.tx.log, span) }

// recordsAnswers reports whether a replay needs the values that the server generates now. Outside a block, and after
// the block's end in the same turn, the result is false: there the statement commits before the client gets the answer.
func (s *session) recordsAnswers() bool {
	return s.srv.keeper.enabled && s.t.logs && s.tx.log.Replayable() && s.inBlock() && !s.hasFirstTxEnded()
}

// newRecordedAnswer returns a recordedAnswer for one statement, or nil if none is needed. inserts is the result of
// rewrite.IsInsertReturning for the statement, and tells that of values.MayReturnTxTime.
func newRecordedAnswer(inserts, tells bool) *recordedAnswer {
	if inserts || tells {
		return &recordedAnswer{first: !inserts}
	}
	return nil
}

// answerCost is how many bytes of the replay log's limit a statement's answer takes, without its rows.
const answerCost = int(unsafe.Sizeof(recordedAnswer{}))

// newTextAnswer returns a recordedAnswer for a query, or nil. For a multi-statement query it stores all rows, since it
// is not known yet which statements are INSERTs. It returns nil if the replay log has no room.
func (s *session) newTextAnswer(sql []byte, statements int) *recordedAnswer {
	switch {
	case statements < 2:
		return newRecordedAnswer(rewrite.IsInsertReturning(sql), values.MayReturnTxTime(sql))
	case values.MayReturnTimeOrRows(sql) && s.tx.log.ReserveBytes(statements*answerCost):
		return &recordedAnswer{several: statements}
	}
	return nil
}

// statementAnswer returns the recorded answer of the statement at index i, or nil if that answer was not stored.
func (k *recordedAnswer) statementAnswer(i, statements int) *recordedAnswer {
	switch {
	case k == nil || k.unusable:
		return nil
	case k.several == 0 && statements == 1:
		return k
	case k.several == statements && len(k.answers) == statements:
		return &k.answers[i]
	}
	return nil
}

// addRows records bytes of rows before the client gets them, in pieces of any length. If they are too long, or the
// replay log has no room, the answer becomes unusable.
func (k *recordedAnswer) addRows(log *retry.ReplayLog[logEntry], span []byte) {
	if k.unusable || len(span) == 0 || k.first && k.hasFirstRow() {
		return
	}
	if k.first {
		span = span[:min(len(span), maxRecordedFirstRow-len(k.rows))]
	}
	if len(k.rows)+len(span) > maxRecordedAnswer || !log.ReserveBytes(len(span)) {
		k.rows, k.unusable = nil, true
		return
	}
	if k.rows = append(k.rows, span...); k.first && !k.hasFirstRow() && len(k.rows) == maxRecordedFirstRow {
		k.rows, k.unusable = nil, true
	}
}

// hasFirstRow reports whether the whole first row of the answer is stored.
func (k *recordedAnswer) hasFirstRow() bool { return len(wire.FirstRow(k.rows)) > 0 }

// endAnswer records the last frame of an answer. The answer is usable only if the tag's row count matches the stored
// rows. An answer of a suspended portal is not usable. In a multi-statement query, statements end separately.
func (k *recordedAnswer) endAnswer(typ byte, frame []byte, reports *settings.Reports) {
	if k.several > 0 {
		if k.unusable = k.unusable || typ != wire.CommandComplete; k.unusable {
			return
		}
		one := recordedAnswer{rows: k.rows[k.nextOffset:len(k.rows):len(k.rows)]}
		// The first row may contain the transaction's time if the statement is no INSERT, or returned no row.
		if one.endAnswer(typ, frame, reports); !one.whole {
			one.first, one.unusable = true, false
		}
		k.answers, k.nextOffset = append(k.answers, one), len(k.rows)
		k.whole = len(k.answers) == k.several
		return
	}
	if k.first {
		k.reports = reports
		return
	}
	tag, _ := bytes.CutSuffix(frame[wire.HeaderLen:], []byte{0})
	k.unusable = k.unusable || k.whole || typ != wire.CommandComplete ||
		string(tag) != "INSERT 0 "+strconv.Itoa(wire.CountRows(k.rows))
	k.whole, k.reports = !k.unusable, reports
}

// resetAnswer clears the recorded answer, before the statement is sent again unchanged. k may be nil.
func (k *recordedAnswer) resetAnswer() {
	if k != nil {
		*k = recordedAnswer{first: k.first, several: k.several}
	}
}

// repeatableValues says which of the server's values (sequence numbers, times) a replay can repeat.
type repeatableValues struct {
	drawnValues bool // drawn values
	clock       bool // the time too: nothing else in the transaction reads the clock
	tells       bool // the client has received the time
	time        *txtime.Time
	now         *schema.Schema
	was         *schema.Schema // the last schema found to have the same sequences as now
}

// surveyRepeatable decides which values the coming replay can repeat. If a sequence was created or may be set back, it
// repeats none, since other sessions could draw the same number. This holds for a sequence in no schema snapshot too,
// since a statement may have drawn from it before a snapshot had it.
func (s *session) surveyRepeatable() (k repeatableValues) {
	l := s.tx.log
	if !s.srv.keeper.enabled || l.TurnCount() == 0 && !l.HasDeliveredPart() && len(s.tx.parts) == 0 || !s.hasRepeatableValues() {
		return k
	}
	k = repeatableValues{drawnValues: true, clock: true, now: s.srv.keeper.current.Load().Schema}
	if k.tells, k.time = s.t.keepingWhole.tells, s.t.keepingWhole.time; s.tx.whole == nil {
		k.time, k.tells = s.collectTxTime(k.now)
	}
	ends := false // the unfinished turn ends the block; if not, a later statement may read the clock
	for turn := range l.TurnCount() + 1 {
		frames := l.TurnFrames(turn)
		for i := range frames {
			f := &frames[i]
			ends = turn == l.TurnCount() && (ends || f.Note.commitsBlock())
			// A statement that the server did not accept had no effect, and needs no survey (forbidReplayOfUnparsed).
			if !(turn < l.TurnCount() && isUnparsedFrame(f)) && !k.surveyFrame(s, f) {
				return repeatableValues{}
			}
		}
	}
	// The log is that of a discarded part (after ROLLBACK TO), which has stored no values. Only answers are compared.
	if s.tx.whole != nil {
		k.clock = s.t.keepingWhole.clock
		return k
	}
	// A replay after ROLLBACK TO SAVEPOINT refuses statements that read the clock. DSQL has no triggers that could read it.
	ends = ends || s.t.returnSavepoint != "" || s.tx.earlierTime != nil
	k.clock = k.clock && ends && s.srv.cfg.Kind != Postgres
	return k
}

// commitsBlock reports whether a logged Query or Execute commits the transaction of the replay log.
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
func (k *repeatableValues) surveyFrame(s *session, f *retry.LoggedFrame[logEntry]) bool {
	n := &f.Note
	switch {
	case n.changesCatalog():
		return false
	case f.Type != wire.Query && f.Type != wire.Bind, n.fence, n.first == 0: // a fence of advisory locks draws nothing and reads no clock
		return true
	case n.names == nil: // it is unknown what the names in its text mean
		return false
	case n.names.Schema() != k.was: // a sequence that was created again repeats its numbers
		if k.was = n.names.Schema(); !k.now.SameSequences(k.was) {
			return false
		}
	}
	// A parameter may be the word "now", which makes the server read the clock. The unfinished turn's statements are
	// surveyed too, since they may read repeated values.
	k.clock = k.clock && (f.Type != wire.Bind || !parse.MayReadAsNow(s.loggedPayload(f)))
	text := s.clientText(f)
	if s.drawnValueKind(text) != schema.Settled {
		return true // its answer is repeated, or drawn again
	}
	survey := k.surveyText(s, f, text)
	k.clock = k.clock && !survey.Time
	// Recorded numbers are not repeated if a view may call a function that sets a sequence back.
	return !survey.Numbers && !(survey.Views && !s.srv.readsArePure())
}

// hasRepeatableValues reports whether the client received any value that a replay could repeat. Most transactions have
// none, so that Sluice need not examine their logs.
func (s *session) hasRepeatableValues() bool {
	if s.tx.asked.instant.Bytes != nil {
		return true
	}
	for f := range s.loggedFrames() {
		if k := f.Note.kept; k != nil && (k.whole || k.first && k.hasFirstRow()) {
			return true
		}
		if (f.Type == wire.Query || f.Type == wire.Bind) && s.drawnValueKind(s.clientText(f)) != schema.Settled {
			return true
		}
	}
	return false
}

// A replay gives an INSERT the recorded values, or the recorded time, for some columns. For these columns the INSERT
// does not read the clock. If the replay cannot give the values, the answer differs, and the replay is refused.

// surveyText returns the effects, such as reads of the clock, of a logged text that gets recorded values in a replay.
func (k *repeatableValues) surveyText(s *session, f *retry.LoggedFrame[logEntry], text string) (does values.Effects) {
	names := f.Note.names.ForSnapshot(k.now)
	pieces := s.srv.planner.SplitStatements(text)
	for i, sql := range pieces[:min(int(f.Note.first), len(pieces))] {
		if k.tells {
			ok := true
			sql = cmp.Or(k.time.ReplaceNow(s.srv.planner, sql, &ok, func(txtime.Value) string { return "'T'" }), sql)
		}
		in := values.ParseTimed(s.srv.planner, sql, names)
		if in == nil {
			does = does.Union(values.EffectsOf(s.srv.planner, sql, names))
			continue
		}
		var g values.FirstRunValues
		if k.tells {
			g.Knows = k.time.Knows
		}
		if kept := f.Note.kept.statementAnswer(i, len(pieces)); kept != nil && kept.whole {
			g.Value = func(values.AnswerCell) string { return "told" }
		}
		does = does.Union(in.EffectsWith(g))
	}
	return does
}

// clientText returns the text of a logged Query or Bind as the client sent it.
func (s *session) clientText(f *retry.LoggedFrame[logEntry]) string {
	n := &f.Note
	switch {
	case n.tmpl != nil:
		return n.tmpl.SQL
	case n.asked != nil && n.asked.Text != "":
		return n.asked.ClientText()
	case n.text != "":
		return n.text
	}
	payload := s.loggedPayload(f)
	return string(payload[:max(0, len(payload)-1)])
}

// drawnValueKind returns the kind of value that a statement draws if the statement does nothing else, such as SELECT
// nextval('s'). A replay may skip the statement and repeat its answer. For all other statements the result is Settled.
func (s *session) drawnValueKind(text string) schema.DefaultKind {
	if !rewrite.MayGenerateValues([]byte(text)) {
		return schema.Settled
	}
	return values.ClassifyGenerated(s.srv.planner, text)
}

// canSkipTurn reports whether a replay can skip a turn in its log: every statement in the turn only drew values (from
// sequences, say) that the client received.
func (s *session) canSkipTurn(turn int) bool {
	k := s.t.keeping
	if !k.drawnValues {
		return false
	}
	// A turn that ran no statement, such as one with only a Parse, is sent again, which costs little.
	ran := false
	frames := s.tx.log.TurnFrames(turn)
	for i := range frames {
		switch f := &frames[i]; f.Type {
		case wire.Query, wire.Bind:
			if f.Note.fence { // of a statement that is skipped
				continue
			}
			fill := s.drawnValueKind(s.clientText(f))
			if fill == schema.Settled || fill == schema.Clock && !k.clock || f.Type == wire.Bind && f.Note.name != "" {
				return false
			}
			ran = true
		// A statement that the skipped turn prepared is prepared when a later turn binds it.
		case 0, wire.Parse, wire.Describe, wire.Execute, wire.Close, wire.Sync:
		default:
			return false
		}
	}
	return ran
}
