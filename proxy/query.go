package proxy

import (
	"cmp"
	"errors"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// How a simple Query travels from its text to the frame that the server gets. readQuery plans the text and may answer
// it locally. queryRefused refuses, admitQuery waits and gets a backend, sendQuery sends. handle calls query.

// simple is a client's simple Query while Sluice works on it. Each step may replace the plan and the frame, because
// the server may get other SQL than the client wrote.
type simple struct {
	total int
	// frame is the whole Query message as the server will get it. nil means that the message is too long to read and
	// is forwarded unchanged.
	frame []byte
	plan  *rewrite.Plan
	asked *rewrite.Plan // the plan of all statements of the text, including those that Sluice answers locally
}

// sql returns the SQL text in the frame, which the server gets unless plan.Text replaces it. It returns nil if the
// message was too long to read.
func (q *simple) sql() []byte {
	if q.frame == nil {
		return nil
	}
	return q.frame[wire.HeaderLen : len(q.frame)-1]
}

// query handles a simple Query message of total bytes, header included, and ends the turn. With nil the turn has
// settled, or the client has its error and the complete answer. A message longer than MaxStatementBytes is forwarded
// unread.
func (s *session) query(total int) error {
	q := simple{total: total, plan: unread}
	if total <= s.srv.cfg.MaxStatementBytes && !s.exceeds(total) {
		if why := s.mayHold(total); why != nil {
			s.t.ended = true
			s.dropUnnamed()
			return s.refuseFrame(total, why)
		}
		var err error
		if q.frame, err = s.whole(total); err != nil {
			return err
		}
	}
	s.t.ended = true
	if q.frame != nil {
		m := wire.NewMessage(q.frame[wire.HeaderLen:])
		m.String()
		if err := m.End(); err != nil {
			return err
		}
	}
	// As in PostgreSQL, a well-formed Query destroys the unnamed statement and portal even if the Query fails.
	s.dropUnnamed()
	if s.exceeds(total) {
		return s.refuseFrame(total, errMessageTooLong(total, s.srv.cfg.MaxMessageBytes))
	}
	if q.frame == nil && s.state == failed {
		return s.refuseFrame(total, errAborted)
	}
	if q.frame != nil {
		if done, err := s.readQuery(&q); done || err != nil {
			return err
		}
	}
	return s.runQuery(&q)
}

func (s *session) dropUnnamed() {
	s.unnamed = nil
	s.portal = portal{}
}

// runQuery gets a backend for a planned text and sends the text. Like query, it ends the turn.
func (s *session) runQuery(q *simple) error {
	err := s.queryRefused(q)
	// lasts needs the plan while the session waits for a backend.
	s.t.plan = q.plan
	if err == nil {
		err = s.admitQuery(q)
	}
	if err != nil {
		if q.frame == nil {
			if derr := s.discard(q.total); derr != nil {
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

// readQuery plans the text. done reports that Sluice has answered the Query, so that the turn is over. Otherwise q
// holds the plan of the text to send. An error is for the client. The steps run in this order, each on the text and
// plan that the steps before it left:
//
//	own schema     ofOwnSchema    replaces database names that map to schemas
//	plan           plan           parses the text and applies the rewrite rules
//	end of block   queryBehindEnd ends a failed block before the statements behind its COMMIT or ROLLBACK
//	options        chooses        applies Sluice's own settings, which the plan of later statements depends on
//	time           queryAtTime    fixes now() for a transaction that may be replayed
//	findings       note           counts the findings of the rewrite rules
//	memory         mayRemember    bounds the memory that a replay needs
//	opt-out        optOut         looks for the comment that turns replay off
//	read only      judgesMode     checks a transaction that begins READ ONLY
//	early          doesEarly      calls handlers that must run before inParts
//	parts          inParts        runs a block with DDL in parts; partAtTime fixes now() again
//	cursors        storeRest      stores rows of cursors that a COMMIT would end
//	local answers  answerLocally  calls the handlers of SET, SHOW, BEGIN and the like
//	form           inMode         chooses the SQL that the server gets for a multi-statement query
//
// The steps are calls because a table of functions would allocate q on the heap for each Query.
func (s *session) readQuery(q *simple) (done bool, err error) {
	sql := q.frame[wire.HeaderLen : len(q.frame)-1]
	if own, changed := s.ofOwnSchema(sql); changed {
		q.frame, sql = wire.AppendStrings(nil, wire.Query, string(own)), own
		q.total = len(q.frame)
	}
	if q.plan, err = s.plan(sql); err != nil {
		return false, err
	}
	if sql, err = s.queryBehindEnd(q, sql); err != nil {
		return false, err
	}
	if done, err := s.chooses(q.plan, sql); done || err != nil {
		return done, err
	}
	if sql, err = s.queryAtTime(q, sql); err != nil {
		return false, err
	}
	s.note(q.plan)
	if err := s.mayRemember(q.plan); err != nil {
		return false, err
	}
	// The opt-out comment also counts in a statement that Sluice answers locally, such as BEGIN.
	s.optOut(s.srv.replays != nil && (s.t.optsOut || retry.OptsOut(sql)))
	if err := s.judgesMode(q.plan); err != nil {
		return false, err
	}
	if st := q.plan.Single(); s.doesEarly(st) {
		return true, s.srv.handlers[st.Does].early(s, st, sql)
	}
	if done, err := s.inParts(q.plan, sql); done || err != nil {
		return done, err
	}
	if sql, err = s.partAtTime(q, sql); err != nil {
		return false, err
	}
	if done, err := s.storeRest(q.plan); done || err != nil {
		return done, err
	}
	if done, err := s.answerLocally(q.plan, sql); done || err != nil {
		return done, err
	}
	q.asked = q.plan
	q.plan, err = s.inMode(q.plan, sql)
	return false, err
}

// queryBehindEnd handles a multi-statement query such as "ROLLBACK; SELECT 1" in a failed block. It ends the block
// and returns the rest, which q then holds as a text of its own. Any other text is returned unchanged. An error is
// for the client.
func (s *session) queryBehindEnd(q *simple, sql []byte) ([]byte, error) {
	behind := s.behindEnd(q.plan, sql)
	if behind == nil {
		return sql, nil
	}
	if s.commitsParts() {
		if err := s.tellStays(&q.plan.Statements[0]); err != nil {
			return nil, err
		}
	}
	if err := s.endFailed(&q.plan.Statements[0]); err != nil {
		return nil, err
	}
	q.frame = wire.AppendStrings(nil, wire.Query, string(behind))
	q.total = len(q.frame)
	var err error
	q.plan, err = s.plan(behind)
	return behind, err
}

// queryRefused returns the error for a text that must not reach the server, and nil for any other text. The server
// has seen nothing of the text yet.
func (s *session) queryRefused(q *simple) error {
	var err error
	if s.status() != 'E' { // in a failed block the server itself returns the error 25P02
		if err = s.refusal(q.plan); err == nil {
			err = s.notAsked(q.plan)
		}
		if bad := s.discardFails(q.plan.Single()); err == nil && s.t.ranLocal && bad != nil {
			err = bad
		}
		if err == nil && s.locksOutside(q.plan) {
			err = errLockOutside
		}
		if err == nil && q.frame == nil {
			err = s.judgesMode(q.plan)
		}
		if err == nil && q.frame == nil {
			if err = s.mapsUnread(); err == nil && s.hasToldTime() {
				err = s.refuseTime()
			}
		}
	}
	if err == nil && q.frame != nil {
		err = s.resetsInside(q.plan, s.t.strung, q.sql())
	}
	return err
}

// admitQuery waits at the gate and then gets a backend for the text. A transaction that begins holds no backend while
// it waits at the gate. With an error the text must not be sent; admit lists the errors.
func (s *session) admitQuery(q *simple) error {
	s.nameOperation(q.plan)
	if q.frame != nil && s.srv.replays != nil {
		if err := waitAtGate(s, q.plan, q.sql(), nil); err != nil {
			return err
		}
	}
	if q.plan.Sequence != "" && q.frame != nil {
		s.t.asks = string(q.sql())
	}
	if err := s.admit(q.plan); err != nil {
		return err
	}
	misled := q.frame != nil && q.plan.Pin != rewrite.PinUnparsed && s.b.reading.Misleads(q.sql())
	if !misled && (q.frame == nil || !s.outplanned()) {
		return nil
	}
	if misled {
		if err := s.planAgain(q); err != nil || s.t.settled {
			return err
		}
		if err := s.admitAgain(q.plan); err != nil {
			return err
		}
		return s.pin(q.plan)
	}
	return s.queryAnew(q)
}

// planAgain plans the text again after the session got its backend, because the schema may have changed. If the
// backend is lost while Sluice reads the schema, the client gets an error and the turn has settled. An error is for
// the client, or ends the session.
func (s *session) planAgain(q *simple) (err error) {
	if q.plan, err = s.plan(q.sql()); err == nil {
		return refusal(q.plan)
	}
	if gone, lost := errors.AsType[*lostError](err); lost && !s.dedicated {
		s.noteLost(gone, "transaction")
		err = s.abandon(s.partlyRefused(errSchemaChanged), gone.reason())
	}
	return err
}

// queryAnew plans the text again by the newest schema and gets a backend for the new plan. A table name may now mean
// another table. Errors, and a turn that has settled, are as for planAgain.
func (s *session) queryAnew(q *simple) error {
	if err := s.planAgain(q); err != nil || s.t.settled {
		return err
	}
	q.asked, s.t.strung, s.t.atString = q.plan, nil, nil
	var err error
	if q.plan, err = s.inMode(q.plan, q.sql()); err != nil {
		return err
	}
	return s.admitAgain(q.plan)
}

// judgeQuery returns the plan of the text as judged on its backend. It plans again while the schema on that backend
// is newer than the plan. A text too long to read has no names, so the schema does not matter. Errors, and a turn
// that has settled, are as for planAgain.
func (s *session) judgeQuery(q *simple) (*rewrite.Plan, error) {
	for try := 0; ; try++ {
		plan, err := s.judged(q.plan)
		if err != nil {
			return nil, err
		}
		if err := s.judgedRead(q.plan, plan); err != nil || q.frame == nil {
			return plan, err
		}
		again := s.outplanned() && s.unsent() // a replaced backend may know a newer schema
		if !again {
			if again, err = s.overtaken(try); !again {
				return plan, err
			}
		}
		if err := s.queryAnew(q); err != nil || s.t.settled {
			return nil, err
		}
	}
}

// sendQuery sends the text, rewritten if the plan says so, and relays the answer. With nil the turn has settled. The
// caller has assigned a backend. The pending reply, the log entry and the outcome are recorded before the write. So
// even a failed write leaves a record of what may have happened.
func (s *session) sendQuery(q *simple) error {
	t := s.t
	plan, err := s.judgeQuery(q)
	if err != nil || t.settled {
		return err
	}
	if q.frame != nil && (len(s.tx.marks) > 0 || t.nested.asksTime) {
		s.askTime(string(q.sql()))
	}
	s.logPlan(plan)
	s.noteParsing(plan)
	s.tx.notesRun(cmp.Or(q.asked, plan))
	o := s.pushRun(wire.Query, plan)
	s.strings(o, t.strung)
	o.shift = t.shift
	// After a statement in a block, currval and lastval depend on the block's texts, so that the text is recorded.
	if h := &s.b.sequences.History; q.frame != nil && plan.Kind == rewrite.Write && s.inBlock() {
		h.Query(q.sql())
	} else {
		h.Unrecorded()
	}
	s.followsApart()
	first := s.ofTransaction(plan)
	t.outcome.Query(plan)
	if q.frame == nil {
		if err := s.forward(q.total); err != nil {
			return err
		}
		return s.finish()
	}
	frame := q.frame
	if t.unreadPin {
		t.left.Read(q.sql())
	}
	if split := plan.InSplit(); split != nil {
		frame = s.askInTwo(o, split)
	} else if plan.Text != "" {
		t.scratch = wire.AppendStrings(t.scratch[:0], wire.Query, plan.Text)
		frame = t.scratch
	}
	var kept *keptAnswer
	if (plan.Kind == rewrite.Write || plan.Kind == rewrite.Read) && t.strung == nil && s.keepsAnswers() {
		kept = s.keptOfText(q.sql(), len(plan.Statements))
		o.keeps(kept)
	}
	entry := logEntry{plan: plan, asked: q.asked, names: s.mapped.planned, commits: t.outcome.MayCommit(), kept: kept, first: first}
	if t.strung != nil {
		entry.answered = &answeredHere{strung: t.strung}
	}
	s.logFrame(wire.Query, entry, frame[wire.HeaderLen:])
	s.addRead(frame)
	return s.finish()
}
