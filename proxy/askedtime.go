package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// The time of a transaction that the client is told in a form of which it cannot be taken: by an expression
// (now()::date), in rows of which there may be none, or by a row that was stored with it and is read back. A
// return to a savepoint needs the time itself, and an error has the server answer nothing more. So behind a
// savepoint the server is asked for it, in front of the first statement that hides it so
// (rewrite.Planner.HidesTime, values.StoredTimes), or behind one that did before the savepoint. The question
// goes with that statement, as frames of the extended protocol without a Sync: it costs no round trip.
// It is no frame of the log. Where there is no savepoint, nothing is asked, but in front of the COMMIT of a part
// (parttime.go).

// askedTime is what the server was asked of the time that the transaction has there. A replay that does not
// keep that time forgets it.
type askedTime struct {
	sent    bool
	instant timeValue // without bytes: the server has not answered
	looked  int       // the turns of the log up to this one hide no time
	// stored says where the texts that were looked at have stored the time. What a return undoes stays in it: a
	// question more is asked then.
	stored values.StoredTimes
}

// askPortal is the portal of the question, and askText its statement. Names that begin so are no client's.
const (
	askPortal = rewrite.RelayName + "time"
	askText   = "SELECT pg_catalog.now()"
)

// askBound is what follows the names in the Bind of the question: no parameter, and the answer in binary, which
// no setting changes.
var askBound = []byte{0, 0, 0, 0, 0, 1, 0, 1}

// askTime asks the server for the time of its transaction, where the text that is sent next, which is the
// client's ("" for none), or one before it hides that from Sluice, and the client may return to a savepoint.
// The backend is lent. A transaction that has the time of an earlier one (hasToldTime) is not asked.
func (s *session) askTime(sql string) {
	a := &s.tx.asked
	part := s.t.nested.asksTime
	if a.sent || s.tx.timed != nil || s.b.status == 'E' || s.srv.cfg.Kind == Postgres || !part && (len(s.tx.marks) == 0 || !s.keepsAnswers()) {
		return
	}
	if !part && !s.hidTime() && !s.hidesTime(sql, s.mapped.planned, &a.stored) {
		a.looked = s.tx.log.Turns() + 1
		return
	}
	plan := s.srv.planner.PlanIn([]byte(askText), noNames)
	st := s.prepare(s.srv.template(&s.t.scratch, []byte(askText), wire.NoOIDs, s.parsing(), noNames.ID(), 0, plan), false)
	a.sent, s.t.fenced = true, true
	s.t.owed.push(wire.Bind).swallow = true
	s.t.scratch = append(appendBindHead(s.t.scratch[:0], []byte(askPortal), st.name, len(askBound)), askBound...)
	s.add(s.t.scratch)
	o := s.t.owed.push(wire.Execute)
	o.swallow, o.reply = true, asksTime{expectSelect}
	run := wire.AppendHeader(s.t.scratch[:0], wire.Execute, len(askPortal)+1+4)
	s.t.scratch = append(append(run, askPortal...), 0, 0, 0, 0, 0)
	s.add(s.t.scratch)
	s.t.owed.push(wire.Close).swallow = true
	s.add(wire.AppendNamed(s.t.scratch[:0], wire.Close, 'P', askPortal))
}

// hidTime reports whether a turn of the log that has settled, and that nobody has looked at, hides the time.
func (s *session) hidTime() bool {
	for a := &s.tx.asked; a.looked < s.tx.log.Turns(); a.looked++ {
		frames := s.tx.log.Frames(a.looked)
		for i := range frames {
			f := &frames[i]
			if (f.Type == wire.Query || f.Type == wire.Bind) && !f.Note.fence && s.hidesTime(s.clientText(f), f.Note.names, &a.stored) {
				return true
			}
		}
	}
	return false
}

// hidesTime reports whether a text, behind what was stored by those in front of it, hides the time that it
// tells. What it stores is noted. Most are known by their words.
func (s *session) hidesTime(text string, names *schema.Names, stored *values.StoredTimes) bool {
	hides := stored.Read(s.srv.planner, text, names)
	if !values.MayUseTime([]byte(text)) {
		return hides
	}
	stored.Note(s.srv.planner, text, names)
	return hides || values.HidesTime(s.srv.planner, text, names)
}

// asksTime is the answer to the question.
type asksTime struct{ *expected }

// frame takes the row. What an attempt that has failed was answered is of no use.
func (r asksTime) frame(s *session, o *owed, f answer.Frame) (verdict, error) {
	if part := s.t.nested.asksTime; f.Row() && len(wire.First(f.Bytes)) > 0 && (s.noting() || part && s.t.phase != aborting) {
		s.noteAsked(f.Bytes, part)
	}
	return r.expected.frame(s, o, f)
}

// noteAsked notes the time of that row; part: of a part of the transaction.
func (s *session) noteAsked(row []byte, part bool) {
	if rows := wire.Rows(row, 1); len(rows) == 1 && len(rows[0][0]) == 8 {
		s.tx.asked.instant = timeValue{format: 1, bytes: bytes.Clone(rows[0][0]), instant: true}
		if part {
			s.parts.asked = s.tx.asked.instant
		}
	}
}
