package proxy

import (
	"cmp"
	"errors"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The simple Query of a client, from its text to the frame that the server gets: plan,
// answer it here or refuse it (readQuery, queryRefused), wait and get a backend
// (admitQuery), send (sendQuery). handle calls query.

// simple is a Query of the client's on its way. The plan and the frame change on it: what
// the server gets may be another form.
type simple struct {
	total int
	// frame is the whole of it as the server will get it; nil: it is too long to be
	// read, and passes as it is.
	frame []byte
	plan  *rewrite.Plan
	asked *rewrite.Plan // of all its statements, also of those that are answered here
}

// sql is the text as the server will get it, unless its plan has another form; nil when it
// is not known.
func (q *simple) sql() []byte {
	if q.frame == nil {
		return nil
	}
	return q.frame[wire.HeaderLen : len(q.frame)-1]
}

// query is a simple Query of total bytes with its header. It ends a turn: with nil the turn
// has settled, or its error has been told and the answer is complete. A frame too long to
// be held is forwarded unread.
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
	// As at the server, a Query that is well-formed destroys the unnamed statement and portal, also where it
	// fails.
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

// dropUnnamed forgets the unnamed statement and portal.
func (s *session) dropUnnamed() {
	s.unnamed = nil
	s.portal = portal{}
}

// runQuery has a server run a text that was read; it ends the turn as query does.
func (s *session) runQuery(q *simple) error {
	err := s.queryRefused(q)
	// lasts asks for the plan while the session waits for a backend.
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

// readQuery plans the text. It is done when Sluice has answered it: then the turn is over, save for an error for
// the client. Else q has the plan of the text to send. Each step sees the text and plan that those before it left:
//
//	own schema     ofOwnSchema    names of databases that stand for schemas
//	plan           plan
//	end of block   queryBehindEnd ends a failed block in front of the other statements
//	options        chooses        settings of Sluice's own, which plan what is behind them
//	time           queryAtTime    the time of a transaction that may be replayed
//	findings       note           counts what the rules say of the text
//	memory         mayRemember    bounds what a replay has to hold
//	opt-out        optOut         the comment that turns replay off, also of a statement that is answered here
//	read only      judgesMode     a transaction that begins READ ONLY
//	early          doesEarly      what the table of handlers has in front of parts
//	parts          inParts        a block with DDL, and partAtTime
//	cursors        storeRest      rows that a COMMIT would end
//	local answers  answerLocally  the table of handlers
//	form           inMode         what the server gets of several statements
//
// The steps are calls: a table of functions would move q to the heap, for each Query.
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
	// The comment counts also in a statement that is answered here, a BEGIN for one.
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

// queryBehindEnd has a string that begins with the end of a failed block, and goes on behind it, end
// the block first: what is behind is a text of its own then, which q has and which is returned. Any other
// text stays as it is. An error is for the client.
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

// queryRefused is the error of a text that the server must not see as it is; nil for any
// other. Nothing has been sent of it.
func (s *session) queryRefused(q *simple) error {
	var err error
	if s.status() != 'E' { // else the server says what a failed block says
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

// admitQuery waits for what the text must wait for, and then gets a backend: a transaction
// that begins holds none while it waits at the gate. With an error the text must not be
// sent: see admit.
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

// planAgain plans a text that was planned before its backend was lent. Where that backend is lost while the
// schema is read by it, nothing of the text was sent, and the client is told so: the turn has settled. An
// error is for the client, or the session's end.
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

// queryAnew has a text mean what its names stand for by the schema as it was read when the backend was
// lent, or is read now. Errors, and a turn that has settled, are those of planAgain.
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

// judgeQuery is what the text turns out to be on its backend (judged), planned by the schema as that backend
// knows it. A text that was not read has no names. Errors, and a turn that has settled, are those of planAgain.
func (s *session) judgeQuery(q *simple) (*rewrite.Plan, error) {
	for try := 0; ; try++ {
		plan, err := s.judged(q.plan)
		if err != nil {
			return nil, err
		}
		if err := s.judgedRead(q.plan, plan); err != nil || q.frame == nil {
			return plan, err
		}
		again := s.outplanned() && s.unsent() // by a backend that has replaced the first
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

// sendQuery sends the text, as it is or in another form, and relays the answer: with nil
// the turn has settled. The backend is lent. The entry is owed and logged, and the outcome
// told, before anything is written: whatever becomes of the write, what may have happened
// is known.
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
	// In a block the text is recorded for currval and lastval after it.
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
