package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// This file gives all parts of a transaction committed in parts (parts.go) the same now(). For that time see package
// ddltx and transactiontime.go. If it is unknown, Sluice refuses later parts that read the clock.

// partReadsClock reports whether a statement in the block's uncommitted part has read the clock. If the part's replay
// log is incomplete, the result is true, to be safe.
func (s *session) partReadsClock() bool {
	switch {
	case !s.srv.pool.keeper.Maps(), s.b == nil && s.tx.log == nil:
		return false
	case !s.tx.log.Replayable():
		return true
	}
	for f := range s.tx.loggedFrames() {
		if f.Type != wire.Query && f.Type != wire.Bind || f.Note.fence {
			continue
		}
		if f.Type == wire.Bind && parse.MayReadAsNow(s.t.rec.loggedPayload(f)) || values.PlainlyReadsTxTime(s.srv.pool.planner, s.t.rec.clientText(f), f.Note.names, nil) {
			return true
		}
	}
	return false
}

// forgetAskedTime drops the transaction's time that Sluice got from the server, because a replay has another time.
func (s *session) forgetAskedTime() {
	s.tx.asked = queriedTxTime{}
	if s.t.nested.asksTime {
		s.parts.SetAskedTime(txtime.Value{})
	}
}

// fixQueryTimeInParts calls fixQueryTime to fix now() in sql if transactions may be committed in parts. If Sluice
// committed a part just before q, it plans q again, because the part's DDL may change what names mean.
func (s *session) fixQueryTimeInParts(q *simpleQuery, sql []byte) (_ []byte, err error) {
	if !s.parts.IsOn() {
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
