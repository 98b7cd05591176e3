package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/mapping"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// This file asks the server for the time of the transaction, now(), which a replay from a savepoint must repeat.
// Usually Sluice takes that time from rows with now(). That fails if the client's rows have only an expression of
// now() (now()::date), may be missing, or were stored and read back. After an error the server answers no query.
// After a savepoint, Sluice queries the time before the first statement that hides it, or if an earlier one hid it.
// Sluice sends this query with that statement, as extended frames without a Sync, which costs no round trip. The
// query is not in the log. Without a savepoint Sluice sends it only before a COMMIT in parts (parttime.go).

// queriedTxTime says whether Sluice has queried the transaction's time, and has its value. A replay resets it.
type queriedTxTime struct {
	sent          bool
	instant       txtime.Value // no bytes: the server has not answered yet
	searchedTurns int          // number of the log's turns that were searched and hide no time
	// stored records where searched texts have stored the transaction's time, for example a table's column. A return to
	// a savepoint removes nothing from it, so that Sluice may ask for the time once too often.
	stored values.StoredTxTimes
}

// timePortal is the portal of timeQuery, which asks for the transaction's time. Clients' names may not have its prefix.
const (
	timePortal = rewrite.RelayName + "time"
	timeQuery  = "SELECT pg_catalog.now()"
)

// timeBindTail is the end of the Bind that asks for the transaction's time: no parameters, and a binary result, which
// does not depend on settings.
var timeBindTail = []byte{0, 0, 0, 0, 0, 1, 0, 1}

// queryTxTime asks the server for the transaction's time if the client may return to a savepoint and a text computes
// with now(). sql is the next text, or "" for none. The session must have its backend. In a transaction that repeats
// an earlier time (fixedTxTime), Sluice does not ask.
func (s *session) queryTxTime(sql string) {
	a := &s.tx.asked
	part := s.t.nested.asksTime
	if a.sent || s.tx.earlierTime != nil || s.b.status == 'E' || s.srv.cfg.Kind == Postgres || !part && (len(s.tx.marks) == 0 || !s.recordsAnswers()) {
		return
	}
	if !part && !s.t.rec.earlierTurnHidesTime() && !a.stored.HidesTime(s.srv.pool.planner, sql, s.mapped.Planned()) {
		a.searchedTurns = s.tx.log.TurnCount() + 1
		return
	}
	plan := s.srv.pool.planner.PlanWithNames([]byte(timeQuery), mapping.NoNames())
	st := s.prepareOnBackend(s.srv.pool.templates.Template(&s.t.scratch, []byte(timeQuery), wire.NoOIDs, s.parsingKey(), mapping.NoNames().ID(), 0, plan), false)
	a.sent, s.t.output.fenced = true, true
	s.t.owed.push(wire.Bind).swallow = true
	s.t.scratch = append(wire.AppendBindHead(s.t.scratch[:0], []byte(timePortal), st.Name, len(timeBindTail)), timeBindTail...)
	s.t.addToBatch(s.t.scratch)
	o := s.t.owed.push(wire.Execute)
	o.swallow, o.reply = true, txTimeReply{expectSelect}
	run := wire.AppendHeader(s.t.scratch[:0], wire.Execute, len(timePortal)+1+4)
	s.t.scratch = append(append(run, timePortal...), 0, 0, 0, 0, 0)
	s.t.addToBatch(s.t.scratch)
	s.t.owed.push(wire.Close).swallow = true
	s.t.addToBatch(wire.AppendDescribeOrClose(s.t.scratch[:0], wire.Close, 'P', timePortal))
}

// earlierTurnHidesTime reports whether a turn of the log not searched yet uses now() without returning its value.
func (r *recorder) earlierTurnHidesTime() bool {
	for a := &r.tx.asked; a.searchedTurns < r.tx.log.TurnCount(); a.searchedTurns++ {
		frames := r.tx.log.TurnFrames(a.searchedTurns)
		for i := range frames {
			f := &frames[i]
			if (f.Type == wire.Query || f.Type == wire.Bind) && !f.Note.fence && a.stored.HidesTime(r.planner, r.clientText(f), f.Note.names) {
				return true
			}
		}
	}
	return false
}

// txTimeReply handles the server's answer to the question for the transaction's time.
type txTimeReply struct{ *expectedTagReply }

// handleFrame records the transaction's time from the row in f, unless the attempt has failed.
func (r txTimeReply) handleFrame(s *session, o *pendingReply, f answer.Frame) (frameVerdict, error) {
	if part := s.t.nested.asksTime; f.IsRow() && len(wire.FirstRow(f.Bytes)) > 0 && (s.t.rec.isRecording() || part && s.t.rec.phase != phaseAborting) {
		s.recordTxTime(f.Bytes, part)
	}
	return r.expectedTagReply.handleFrame(s, o, f)
}

// recordTxTime records the transaction's time from a row. part means a transaction that is committed in parts.
func (s *session) recordTxTime(row []byte, part bool) {
	if rows := wire.SplitRows(row, 1); len(rows) == 1 && len(rows[0][0]) == 8 {
		s.tx.asked.instant = txtime.Value{Format: 1, Bytes: bytes.Clone(rows[0][0]), IsInstant: true}
		if part {
			s.parts.SetAskedTime(s.tx.asked.instant)
		}
	}
}
