package proxy

import (
	"cmp"
	"errors"

	"github.com/sluice-proxy/sluice/proxy/ddltx"
	"github.com/sluice-proxy/sluice/proxy/recorded"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file takes a simple Query from its text to the frame that the server gets. planQuery plans the text and may
// answer it locally. queryRefusal refuses texts, admitQuery gets a backend, and sendQuery sends.

// simpleQuery is a client's simple Query while Sluice works on it. Each step may replace the plan and the frame,
// because the server may get other SQL than the client wrote.
type simpleQuery struct {
	total int
	// frame is the whole Query message as the server will get it. nil: it is too long to read, and passes unchanged.
	frame    []byte
	plan     *rewrite.Plan
	fullPlan *rewrite.Plan // the plan of all statements of the text, including those that Sluice answers locally
	text     []byte        // the client's text, before the transaction's time was written into it
	commits  int           // CommitCount of the block before the text
}

// sql returns the SQL text in the frame, which the server gets unless plan.Text replaces it. If the message was too
// long to read, the result is nil.
func (q *simpleQuery) sql() []byte {
	if q.frame == nil {
		return nil
	}
	return q.frame[wire.HeaderLen : len(q.frame)-1]
}

// handleQuery handles a simple Query message of total bytes, header included, and ends the turn. After nil the turn
// is over, or the client has its error and the complete answer. A message above MaxStatementBytes stays unread.
func (s *session) handleQuery(total int) error {
	q := simpleQuery{total: total, plan: unreadPlan}
	if total <= s.srv.cfg.MaxStatementBytes && !s.exceedsServerLimit(total) {
		if why := s.reserveFrameMemory(total); why != nil {
			s.t.request.ended = true
			s.dropUnnamedStatement()
			return s.refuseFrame(total, why)
		}
		var err error
		if q.frame, err = s.readWholeFrame(total); err != nil {
			return err
		}
	}
	s.t.request.ended = true
	if q.frame != nil {
		m := wire.NewBodyReader(q.frame[wire.HeaderLen:])
		m.String()
		if err := m.CheckEnd(); err != nil {
			return err
		}
	}
	// As in PostgreSQL, a well-formed Query destroys the unnamed statement and portal even if the Query fails.
	s.dropUnnamedStatement()
	if s.exceedsServerLimit(total) {
		return s.refuseFrame(total, sqlerror.MessageTooLong(total, s.srv.cfg.MaxMessageBytes))
	}
	if q.frame == nil && s.state == failed {
		return s.refuseFrame(total, sqlerror.Aborted)
	}
	if q.frame != nil {
		if done, err := s.planQuery(&q); done || err != nil {
			return err
		}
	}
	return s.runQuery(&q)
}

func (s *session) dropUnnamedStatement() {
	s.statements.RemoveUnnamed()
	s.portals.unnamed = portal{}
}

// runQuery gets a backend for a planned text and sends the text. Like handleQuery, it ends the turn.
func (s *session) runQuery(q *simpleQuery) error {
	err := s.queryRefusal(q)
	// mayCommitWithoutClient needs the plan while the session waits for a backend.
	s.t.request.plan = q.plan
	if err == nil {
		err = s.admitQuery(q)
	}
	if err != nil {
		if q.frame == nil {
			if derr := s.discardBytes(q.total); derr != nil {
				return derr
			}
		}
		return err
	}
	if s.t.settled {
		return nil
	}
	return s.sendQuery(q)
}

// planQuery plans the text. done reports that Sluice has answered the Query, so that the turn is over. Otherwise q
// holds the plan of the text to send. A returned error goes to the client. The steps run in this order, each on the
// text and plan that the earlier steps left:
//
//	own schema     replacePublicSchema   replaces public by the schema that is the session's database
//	plan           planNextText          parses the text and applies the rewrite rules
//	end of block   endFailedBlockFirst   ends a failed block before the statements after its COMMIT or ROLLBACK
//	options        queryWithOptions      applies Sluice's own settings, which the plan of later statements depends on
//	time           fixQueryTime          fixes now() for a transaction that may be replayed
//	findings       countFindings         counts the findings of the rewrite rules
//	memory         checkSettingsMemory   limits the memory that a replay needs
//	opt-out        optOutOfReplay        looks for the comment that turns replay off
//	read only      checkReadOnly         checks a transaction that begins READ ONLY
//	early          hasEarlyQuery         calls handlers that must run before prepareForBlockParts
//	parts          prepareForBlockParts  runs a block with DDL in parts; fixQueryTimeInParts fixes now() again
//	cursors        storeBeforeCommit     stores rows of cursors that a COMMIT would end
//	local answers  answerLocally         calls the handlers of SET, SHOW, BEGIN and the like
//	form           planForServer         chooses the SQL that the server gets for a multi-statement query
//
// The steps are calls because a table of functions would allocate q on the heap for each Query.
func (s *session) planQuery(q *simpleQuery) (done bool, err error) {
	sql := q.frame[wire.HeaderLen : len(q.frame)-1]
	if own, changed := s.replacePublicSchema(sql); changed {
		q.frame, sql = wire.AppendStrings(nil, wire.Query, string(own)), own
		q.total = len(q.frame)
	}
	if q.plan, err = s.planNextText(sql); err != nil {
		return false, err
	}
	if sql, err = s.endFailedBlockFirst(q, sql); err != nil {
		return false, err
	}
	if done, err := s.queryWithOptions(q.plan, sql); done || err != nil {
		return done, err
	}
	q.text, q.fullPlan, q.commits = sql, q.plan, s.parts.CommitCount()
	if sql, err = s.fixQueryTime(q, sql); err != nil {
		return false, err
	}
	s.countFindings(q.plan)
	if err := s.checkSettingsMemory(q.plan); err != nil {
		return false, err
	}
	// The comment that turns replay off also applies in a statement that Sluice answers, such as BEGIN.
	s.tx.optOutOfReplay(s.srv.pool.replays != nil && (s.t.nested.optsOut || retry.HasNoRetryComment(sql)))
	if err := s.checkReadOnly(q.plan); err != nil {
		return false, err
	}
	if st := q.plan.SingleStatement(); s.hasEarlyQuery(st) {
		if err := s.commitPartIfNeeded(q.plan, string(sql), true); err != nil {
			return false, err
		}
		return true, s.srv.handlers[st.Does].earlyQuery(s, st, sql)
	}
	if done, err := s.prepareForBlockParts(q.fullPlan, q.text); done || err != nil {
		return done, err
	}
	if sql, err = s.fixQueryTimeInParts(q, sql); err != nil {
		return false, err
	}
	if done, err := s.srv.observers.notifyCommitting(s, q.plan); done || err != nil {
		return done, err
	}
	if done, err := s.answerLocally(q.plan, sql); done || err != nil {
		return done, err
	}
	q.fullPlan = q.plan
	q.plan, err = s.planForServer(q.plan, sql)
	return false, err
}

// endFailedBlockFirst ends a failed block for a multi-statement query such as "ROLLBACK; SELECT 1". It returns the
// rest of the query, and stores that in q. It returns other texts unchanged. A returned error goes to the client.
func (s *session) endFailedBlockFirst(q *simpleQuery, sql []byte) ([]byte, error) {
	behind := s.textAfterEnd(q.plan, sql)
	if behind == nil {
		return sql, nil
	}
	if s.parts.IsOn() {
		if err := s.warnPartsRemain(&q.plan.Statements[0]); err != nil {
			return nil, err
		}
	}
	if err := s.endFailedBlock(&q.plan.Statements[0]); err != nil {
		return nil, err
	}
	q.frame = wire.AppendStrings(nil, wire.Query, string(behind))
	q.total = len(q.frame)
	var err error
	q.plan, err = s.planNextText(behind)
	return behind, err
}

// queryRefusal returns an error for a text that must not reach the server, and nil for any other text. Sluice has
// sent the server nothing of the text yet.
func (s *session) queryRefusal(q *simpleQuery) error {
	var err error
	if s.txStatus() != 'E' { // in a failed block the server itself returns the error 25P02
		if err = s.currentPlanRefusal(q.plan); err == nil {
			err = s.refuseLocalSettingQuery(q.plan)
		}
		if bad := s.discardAllError(q.plan.SingleStatement()); err == nil && s.t.request.ranLocal && bad != nil {
			err = bad
		}
		if err == nil {
			err = s.refusedHere(q.plan)
		}
		if err == nil && q.frame == nil {
			err = s.checkReadOnly(q.plan)
		}
		if err == nil && q.frame == nil {
			if err = s.refuseUnparsedMapped(); err == nil && s.fixedTxTime() != nil {
				err = s.refuseClockRead()
			}
		}
	}
	if err == nil && q.frame != nil {
		err = s.checkStatementsAfterReset(q.plan, s.t.request.script, q.sql())
	}
	return err
}

// admitQuery waits at the gate (the queue for contended rows) and then gets a backend for the text. A new transaction
// holds no backend while it waits there. After an error (admitPlan) the text must not be sent.
func (s *session) admitQuery(q *simpleQuery) error {
	s.trackOperationName(q.plan)
	if q.frame != nil && s.srv.pool.replays != nil {
		if err := waitAtGate(s, q.plan, q.sql(), nil); err != nil {
			return err
		}
	}
	if q.plan.Sequence != "" && q.frame != nil {
		s.t.request.sequenceText = string(q.sql())
	}
	if err := s.admitPlan(q.plan); err != nil {
		return err
	}
	misled := q.frame != nil && q.plan.Pin != rewrite.PinUnparsed && s.b.settings.Reading().MayMislead(q.sql())
	if !misled && (q.frame == nil || !s.isPlanStale()) {
		return nil
	}
	if misled {
		if err := s.replanQuery(q); err != nil || s.t.settled {
			return err
		}
		if err := s.admitReplanned(q.plan); err != nil {
			return err
		}
		return s.pinBackend(q.plan)
	}
	return s.replanAndAdmit(q)
}

// replanQuery plans the text again after the session got its backend, because the schema may have changed. If the
// backend is lost while Sluice reads the schema, the client gets an error and the turn is over. An error is for the
// client, or ends the session.
func (s *session) replanQuery(q *simpleQuery) (err error) {
	if q.plan, err = s.planNextText(q.sql()); err == nil {
		return planRefusal(q.plan)
	}
	if gone, lost := errors.AsType[*lostError](err); lost && !s.dedicated {
		s.recordLoss(gone, "transaction")
		err = s.abandonTurn(ddltx.ReplaceConflict(sqlerror.SchemaChanged, s.committedStatements()), gone.discardReason())
	}
	return err
}

// replanAndAdmit plans the text again by the newest schema and gets a backend for the new plan. A table name may now
// mean another table. Errors are the same as for replanQuery, which may also have ended the turn.
func (s *session) replanAndAdmit(q *simpleQuery) error {
	if err := s.replanQuery(q); err != nil || s.t.settled {
		return err
	}
	q.fullPlan, s.t.request.script, s.t.request.stateBeforeScript = q.plan, nil, nil
	var err error
	if q.plan, err = s.planForServer(q.plan, q.sql()); err != nil {
		return err
	}
	return s.admitReplanned(q.plan)
}

// classifyQuery returns the plan of the text, as a write if the text may write (classifyRead). It plans again while
// the backend's schema is newer than the plan, but not a text that was too long to read. Errors are the same as for
// replanQuery, which may also have ended the turn.
func (s *session) classifyQuery(q *simpleQuery) (*rewrite.Plan, error) {
	for try := 0; ; try++ {
		plan, err := s.classifyRead(q.plan)
		if err != nil {
			return nil, err
		}
		if err := s.hiddenWriteError(q.plan, plan); err != nil || q.frame == nil {
			return plan, err
		}
		again := s.isPlanStale() && s.canQueryBackend() // a replaced backend may know a newer schema
		if !again {
			if again, err = s.mustReplan(try); !again {
				return plan, err
			}
		}
		if err := s.replanAndAdmit(q); err != nil || s.t.settled {
			return nil, err
		}
	}
}

// sendQuery sends the text of a Query, rewritten if the plan says so, and relays the answer. After nil the turn is
// over. The session must have a backend. Sluice records the pending reply, log entry and outcome before the write,
// since even a failed write may have an effect.
func (s *session) sendQuery(q *simpleQuery) error {
	t := s.t
	plan, err := s.classifyQuery(q)
	if err != nil || t.settled {
		return err
	}
	if q.frame != nil && (len(s.tx.marks) > 0 || t.nested.asksTime) {
		s.queryTxTime(string(q.sql()))
	}
	s.logPlan(plan)
	s.recordParsingChange(plan)
	s.tx.ran.Record(cmp.Or(q.fullPlan, plan))
	o := s.t.pushStatementReply(wire.Query, plan)
	s.t.setScriptReply(o, t.request.script)
	o.shift = t.nested.shift
	// Sluice records the text, since currval and lastval depend on the earlier texts of a block.
	if h := &s.b.sequences.History; q.frame != nil && plan.Kind == rewrite.Write && s.inBlock() {
		h.RecordQuery(q.sql())
	} else {
		h.SkipQuery()
	}
	s.t.forbidReplayAfterCommit()
	first := s.countInFirstTx(plan)
	t.server.outcome.RecordQuery(plan)
	if q.frame == nil {
		if err := s.forwardBytes(q.total); err != nil {
			return err
		}
		return s.finishTurn()
	}
	frame := q.frame
	if t.request.pin.IsUnread() {
		t.request.pin.Scan(q.sql())
	}
	if split := plan.ActiveSplit(); split != nil {
		frame = s.t.markSplitQuery(o, split)
	} else if plan.Text != "" {
		t.scratch = wire.AppendStrings(t.scratch[:0], wire.Query, plan.Text)
		frame = t.scratch
	}
	var kept *recorded.Answer
	if (plan.Kind == rewrite.Write || plan.Kind == rewrite.Read) && t.request.script == nil && s.recordsAnswers() {
		kept = s.tx.newTextAnswer(q.sql(), len(plan.Statements))
		o.recordAnswerInto(kept)
	}
	entry := logEntry{plan: plan, asked: q.fullPlan, names: s.mapped.Planned(), commits: t.server.outcome.MayCommit(), kept: kept, first: first}
	if t.request.script != nil {
		entry.answered = &localAnswers{strung: t.request.script}
	}
	s.t.rec.logFrame(wire.Query, entry, frame[wire.HeaderLen:])
	s.addQueryFrame(frame)
	return s.finishTurn()
}
