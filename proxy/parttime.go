package proxy

import (
	"encoding/binary"
	"strconv"

	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// The time of a transaction that is committed in parts (parts.go). PostgreSQL has one now() in a transaction, and
// each part is a transaction of the server's, with its own.
//
// So the parts behind the first that reads the clock get that one's time, in the way that toldtime.go describes.
// The server is asked for it with that part's COMMIT; a replay of the part asks again. Where it is not known,
// later parts that read the clock are refused. What a function, a view or the default of a column that is added
// reads is its own part's time. A string without a block has the time at which its first group begins.

// commitTimed commits the part that is open. Where that has read the clock, parts.timed is its time.
func (s *session) commitTimed() (feature.Result, error) {
	p := s.parts
	if s.tx.timed != nil {
		p.timed = s.tx.timed
	}
	asks := p.timed == nil && s.partReadsClock()
	p.asked = s.tx.asked.instant
	s.startClock()
	end, err := s.nest("COMMIT", nested{own: silent.New(silent.Commit), outside: true, asksTime: asks})
	if asks {
		p.timed = &toldTime{instant: p.asked, ofParts: true}
	}
	return end, err
}

// partReadsClock reports whether the part that is open has read the clock, or may have, where nobody has noted what
// it has run.
func (s *session) partReadsClock() bool {
	switch {
	case !s.srv.keeper.on, s.b == nil && s.tx.log == nil:
		return false
	case !s.tx.log.Replayable():
		return true
	}
	for f := range s.loggedFrames() {
		if f.Type != wire.Query && f.Type != wire.Bind || f.Note.fence {
			continue
		}
		if f.Type == wire.Bind && parse.TimeText(s.payload(f)) || values.NamesTime(s.srv.planner, s.clientText(f), f.Note.names, nil) {
			return true
		}
	}
	return false
}

// forgetAsked is told that the transaction is run again, and has another time.
func (s *session) forgetAsked() {
	s.tx.asked = askedTime{}
	if s.t.nested.asksTime {
		s.parts.asked = timeValue{}
	}
}

// partAtTime is queryAtTime for a text in front of which a part was committed, or may have been.
func (s *session) partAtTime(q *simple, sql []byte) ([]byte, error) {
	if !s.commitsParts() {
		return sql, nil
	}
	return s.queryAtTime(q, sql)
}

// takesTime gives a block that a multi-statement query has begun the time of the statements in front of it.
func (s *session) takesTime(timed *toldTime) {
	if timed != nil && s.inBlock() {
		s.parts.timed, s.tx.timed = timed, timed
	}
}

// askInstant is the time in microseconds since 2000, which is its binary format.
const askInstant = "SELECT ((extract(epoch FROM pg_catalog.now()) - 946684800) * 1000000)::bigint"

// timeOfGroups asks the server for the one time that the groups of a multi-statement query share up to the end of their
// transaction. It returns nil in a block, and where fewer than two groups may store or return the time. An
// error is for the client, or the session's end.
func (s *session) timeOfGroups(plan *rewrite.Plan, groups [][2]int) (*toldTime, error) {
	if s.inBlock() || !s.srv.keeper.on {
		return nil, nil
	}
	readers := 0
	for _, g := range groups {
		st := &plan.Statements[g[0]]
		if endsBlock(st.Tx.Verb) {
			break
		}
		if st.Tx.Verb == rewrite.Begin || !st.Demand().DDL { // what comes behind the string may read it too
			readers++
		}
	}
	if readers < 2 {
		return nil, nil
	}
	asked, err := s.command(askInstant, silent.Select)
	if why := asked.Why(); err != nil || why != nil {
		if err == nil {
			err = why
		}
		return nil, err
	}
	of := &toldTime{ofParts: true}
	for row := range asked.Answer.Rows() { // one column: their number, and the length of the first
		if n, err := strconv.ParseInt(string(row[min(6, len(row)):]), 10, 64); err == nil {
			of.instant = timeValue{format: 1, bytes: binary.BigEndian.AppendUint64(nil, uint64(n)), instant: true}
		}
	}
	return of, nil
}
