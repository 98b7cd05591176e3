package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// This file asks the server for the transaction's time, which a return to a savepoint must repeat. Usually Sluice takes
// it from rows with now(). It cannot if the client's rows have only an expression of it (now()::date), may be missing,
// or were stored and read back. After an error the server answers no question. So after a savepoint Sluice asks before
// the first statement that hides the time (rewrite.Planner.HidesTime, values.StoredTimes), or after one before the
// savepoint. The question is sent with that statement, as extended frames without a Sync, and costs no round trip. It
// is not in the log. Without a savepoint Sluice asks only before the COMMIT of a part (parttime.go).

// askedTime is the question for the transaction's time and its answer. A replay with another time resets it.
type askedTime struct {
	sent    bool
	instant timeValue // no bytes: the server has not answered yet
	looked  int       // number of the log's turns that were searched and hide no time
	// stored records where the searched texts have stored the time. A return to a savepoint removes nothing from it: at
	// worst Sluice asks once too often.
	stored values.StoredTimes
}

// askPortal is the portal of the question, and askText its statement. Clients' names may not have this prefix.
const (
	askPortal = rewrite.RelayName + "time"
	askText   = "SELECT pg_catalog.now()"
)

// askBound is the Bind of the question after its names: no parameters, and a binary result, which does not depend on
// settings.
var askBound = []byte{0, 0, 0, 0, 0, 1, 0, 1}

// askTime asks the server for the transaction's time, if it is needed: the client may return to a savepoint, and sql,
// the next text ("" for none), or an earlier one hides the time. The session must have its backend. A transaction that
// repeats an earlier time (hasToldTime) is not asked.
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
	s.t.scratch = append(wire.AppendBindHead(s.t.scratch[:0], []byte(askPortal), st.name, len(askBound)), askBound...)
	s.add(s.t.scratch)
	o := s.t.owed.push(wire.Execute)
	o.swallow, o.reply = true, asksTime{expectSelect}
	run := wire.AppendHeader(s.t.scratch[:0], wire.Execute, len(askPortal)+1+4)
	s.t.scratch = append(append(run, askPortal...), 0, 0, 0, 0, 0)
	s.add(s.t.scratch)
	s.t.owed.push(wire.Close).swallow = true
	s.add(wire.AppendNamed(s.t.scratch[:0], wire.Close, 'P', askPortal))
}

// hidTime reports whether a settled turn of the log that was not searched yet hides the time.
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

// hidesTime reports whether a text hides the time that it returns, given what earlier texts have stored. It records
// what the text itself stores. Most texts contain no word for the time, and are not parsed.
func (s *session) hidesTime(text string, names *schema.Names, stored *values.StoredTimes) bool {
	hides := stored.Read(s.srv.planner, text, names)
	if !values.MayUseTime([]byte(text)) {
		return hides
	}
	stored.Note(s.srv.planner, text, names)
	return hides || values.HidesTime(s.srv.planner, text, names)
}

// asksTime handles the answer to the question.
type asksTime struct{ *expected }

// frame records the time in the row, unless the attempt has failed.
func (r asksTime) frame(s *session, o *owed, f answer.Frame) (verdict, error) {
	if part := s.t.nested.asksTime; f.Row() && len(wire.First(f.Bytes)) > 0 && (s.noting() || part && s.t.phase != aborting) {
		s.noteAsked(f.Bytes, part)
	}
	return r.expected.frame(s, o, f)
}

// noteAsked records the time in a row. part is set for a part of the transaction.
func (s *session) noteAsked(row []byte, part bool) {
	if rows := wire.Rows(row, 1); len(rows) == 1 && len(rows[0][0]) == 8 {
		s.tx.asked.instant = timeValue{format: 1, bytes: bytes.Clone(rows[0][0]), instant: true}
		if part {
			s.parts.asked = s.tx.asked.instant
		}
	}
}
