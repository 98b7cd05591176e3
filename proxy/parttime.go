package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/ddltx"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// This file gives a transaction that is committed in parts (parts.go) one time. Package ddltx describes which time that
// is, and transactiontime.go how statements get it. If the time is unknown, Sluice refuses later parts that read the
// clock.

// commitPartWithTime commits the open part of a block. If that part is the first that read the clock, later parts get
// its time.
func (s *session) commitPartWithTime() (feature.NestedResult, error) {
	asks := !s.parts.PrepareTime(s.tx.earlierTime, s.tx.asked.instant) && s.partReadsClock()
	s.t.clock.Start(s.settings.StatementTimeout())
	end, err := s.runNestedQuery("COMMIT", nestedTurn{hiddenAnswer: silent.NewAnswer(silent.ExpectCommit), outsideBlock: true, asksTime: asks})
	if asks {
		s.parts.FixTime()
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
		s.parts.SetAskedTime(txtime.Value{})
	}
}

// fixQueryTimeInParts calls fixQueryTime if transactions may be committed in parts. Otherwise it returns sql. If a part
// was committed before the text, its DDL may have changed the meaning of names, and the text is planned again.
func (s *session) fixQueryTimeInParts(q *simpleQuery, sql []byte) (_ []byte, err error) {
	if !s.mayCommitInParts() {
		return sql, nil
	}
	if s.parts.CommitCount() != q.commits {
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
		s.parts.AdoptTime(timed)
		s.tx.earlierTime = timed
	}
}

// askTimeForGroups asks the server for the time that a multi-statement query's groups share up to the end of their
// transaction. It returns nil in a block, and if the groups need no common time. A returned error goes to the client,
// or ends the session.
func (s *session) askTimeForGroups(groups *ddltx.Groups) (*txtime.Time, error) {
	if s.inBlock() || !s.srv.keeper.Maps() || !groups.ShareTime() {
		return nil, nil
	}
	asked, err := s.runSilentCommand(ddltx.TimeQuery, silent.ExpectSelect)
	if why := asked.Cause(); err != nil || why != nil {
		if err == nil {
			err = why
		}
		return nil, err
	}
	of := &txtime.Time{Committed: true}
	for row := range asked.Answer.Rows() {
		if v, ok := ddltx.TimeOfRow(row); ok {
			of.Instant = v
		}
	}
	return of, nil
}
