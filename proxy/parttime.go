package proxy

import (
	"encoding/binary"
	"strconv"

	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// This file gives a transaction that is committed in parts (parts.go) one time. In PostgreSQL, now() does not change in
// a transaction. At the server each part is a transaction with a time of its own.
//
// Later parts get the time of the first part that read the clock, as transactiontime.go describes. Sluice asks the
// server for that time at the part's COMMIT, and again in a replay of the part. If the time is unknown, Sluice refuses
// later parts that read the clock. Functions, views and defaults of added columns read the time of their own part. A
// multi-statement query outside a block has the time at which its first group begins.

// commitPartWithTime commits the open part of a block. If that part read the clock, parts.timed is set to its time.
func (s *session) commitPartWithTime() (feature.NestedResult, error) {
	p := s.parts
	if s.tx.earlierTime != nil {
		p.timed = s.tx.earlierTime
	}
	asks := p.timed == nil && s.partReadsClock()
	p.asked = s.tx.asked.instant
	s.startStatementTimeout()
	end, err := s.runNestedQuery("COMMIT", nestedTurn{hiddenAnswer: silent.NewAnswer(silent.ExpectCommit), outsideBlock: true, asksTime: asks})
	if asks {
		p.timed = &txtime.Time{Instant: p.asked, Committed: true}
	}
	return end, err
}

// partReadsClock reports whether the block's open part has read the clock. With an incomplete log it is true.
func (s *session) partReadsClock() bool {
	switch {
	case !s.srv.keeper.Maps(), s.b == nil && s.tx.log == nil:
		return false
	case !s.tx.log.Replayable():
		return true
	}
	for f := range s.loggedFrames() {
		if f.Type != wire.Query && f.Type != wire.Bind || f.Note.fence {
			continue
		}
		if f.Type == wire.Bind && parse.MayReadAsNow(s.loggedPayload(f)) || values.PlainlyReadsTxTime(s.srv.planner, s.clientText(f), f.Note.names, nil) {
			return true
		}
	}
	return false
}

// forgetAskedTime drops the transaction's time that Sluice got from the server, because a replay has another time.
func (s *session) forgetAskedTime() {
	s.tx.asked = queriedTxTime{}
	if s.t.nestedTurn.asksTime {
		s.parts.asked = txtime.Value{}
	}
}

// fixQueryTimeInParts calls fixQueryTime if transactions may be committed in parts. Otherwise it returns sql. If a part
// was committed before the text, its DDL may have changed the meaning of names, and the text is planned again.
func (s *session) fixQueryTimeInParts(q *simpleQuery, sql []byte) (_ []byte, err error) {
	if !s.mayCommitInParts() {
		return sql, nil
	}
	if s.parts.commits != q.commits {
		sql, q.frame = q.text, wire.AppendStrings(nil, wire.Query, string(q.text))
		q.total = len(q.frame)
		if q.plan, err = s.planNextText(sql); err != nil {
			return nil, err
		}
	}
	return s.fixQueryTime(q, sql)
}

// adoptQueryTime gives a block the transaction time of the statements before its BEGIN in the multi-statement query.
func (s *session) adoptQueryTime(timed *txtime.Time) {
	if timed != nil && s.inBlock() {
		s.parts.timed, s.tx.earlierTime = timed, timed
	}
}

// selectTxMicroseconds selects the transaction's time in microseconds since 2000, as in PostgreSQL's binary format.
const selectTxMicroseconds = "SELECT ((extract(epoch FROM pg_catalog.now()) - 946684800) * 1000000)::bigint"

// askTimeForGroups asks the server for the time that a multi-statement query's groups share up to the end of their
// transaction. It returns nil in a block, and if fewer than two groups may store or return the time. A returned error
// goes to the client, or ends the session.
func (s *session) askTimeForGroups(plan *rewrite.Plan, groups [][2]int) (*txtime.Time, error) {
	if s.inBlock() || !s.srv.keeper.Maps() {
		return nil, nil
	}
	readers := 0
	for _, g := range groups {
		st := &plan.Statements[g[0]]
		if st.Tx.Verb.EndsBlock() {
			break
		}
		if st.Tx.Verb == rewrite.Begin || !st.Demand().DDL { // statements after the query may read the time too
			readers++
		}
	}
	if readers < 2 {
		return nil, nil
	}
	asked, err := s.runSilentCommand(selectTxMicroseconds, silent.ExpectSelect)
	if why := asked.Cause(); err != nil || why != nil {
		if err == nil {
			err = why
		}
		return nil, err
	}
	of := &txtime.Time{Committed: true}
	for row := range asked.Answer.Rows() { // a DataRow's payload: column count (2 bytes), length (4), value
		if n, err := strconv.ParseInt(string(row[min(6, len(row)):]), 10, 64); err == nil {
			of.Instant = txtime.Value{Format: 1, Bytes: binary.BigEndian.AppendUint64(nil, uint64(n)), IsInstant: true}
		}
	}
	return of, nil
}
