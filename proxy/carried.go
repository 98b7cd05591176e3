package proxy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/proxy/constraint"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file runs statements of DDL that Sluice carries out in several transactions of its own. It chooses the work for
// each kind of statement, runs batches, and ends the turn. Such a statement must be alone and outside a block. perform
// (local.go) calls alterTable; for a portal it waits for the Sync, since the group may have no other statement.

// errAlteredAlone refuses another frame in the group of DDL that Sluice carries out in steps.
func errAlteredAlone(st *rewrite.Statement) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: result.AlteredTag(st) + " cannot be carried out together with other statements",
		Detail: "DSQL refuses the statement as it is, and Sluice would carry it out in several transactions.", Hint: "Send it in a request of its own."}
}

// altersHere reports whether Sluice may now carry out DDL in steps, alone or between the parts of a block.
func altersHere(s *session, st *rewrite.Statement) bool {
	return s.altersAlone() || s.altersOutside(st)
}

// queryAltering runs a Query of DDL in steps, if it is alone. Between the parts of a block, inParts has run it.
func queryAltering(s *session, plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if !s.altersAlone() {
		return false, nil
	}
	return queryHere(s, plan, sql)
}

// executeAltering defers DDL in steps to the Sync, which shows that the group has no other statement.
func executeAltering(s *session, st *rewrite.Statement, _ string) error {
	s.t.altering = st
	return nil
}

// altersAlone reports whether DDL in steps may run now: on DSQL, outside a block, with no frame sent before it.
func (s *session) altersAlone() bool {
	return s.srv.cfg.Kind == DSQL && !s.t.touched && s.executesAlone()
}

// carried is a statement that Sluice carries out in steps. Run runs them. Partly adds to Run's error what remains in
// the database. Errors are as in schemaDDL.
type carried interface {
	Run() error
	Partly(err error) error
}

// alterTable carries out a statement in an idle session, and returns the notices to send before the tag. An error is
// for the client, or ends the session.
func (s *session) alterTable(st *rewrite.Statement) ([][]byte, error) {
	work, notices := s.alters(st)
	err := s.carry(st, work)
	return notices(), err
}

// alters returns the work of a statement, and a function that returns its notices once it is done. The plan sets
// exactly one of the six fields. An Alteration without a default is a change of type.
func (s *session) alters(st *rewrite.Statement) (work carried, notices func() [][]byte) {
	switch {
	case st.Commands != nil:
		c := &commands{s: s, Commands: st.Commands}
		return c, func() [][]byte { return c.notices }
	case st.Guarded != nil:
		g := &guarded{s: s, Guarded: st.Guarded}
		return g, func() [][]byte { return g.notices }
	case st.EnumValue != nil:
		e := constraint.NewEnumValue(asked{s}, st.EnumValue)
		return e, func() [][]byte { return e.Notices }
	case st.Numbered != nil:
		n := constraint.NewNumbered(asked{s}, st.Numbered)
		return n, func() [][]byte { return n.Notices }
	case st.Constraints != nil:
		c := constraint.New(asked{s}, st.Constraints)
		return c, func() [][]byte { return c.Notices }
	case st.Alteration.Default == "":
		r := constraint.NewRetype(asked{s}, st.Alteration)
		return r, func() [][]byte { return r.Notices }
	}
	a := &alteration{s: s, Alteration: st.Alteration}
	return a, func() [][]byte { return a.notices }
}

// carry runs a statement's work on the session's backend, and settles the turn.
func (s *session) carry(st *rewrite.Statement, c carried) error {
	s.startWaiting()
	s.tx.operation, s.tx.writes = st.Operation, true
	if err := s.ensureBackend(); err != nil {
		return err
	}
	err := c.Run()
	if stops(err) && err != errCut {
		s.heeded(err)
	}
	s.srv.catalog.flush()
	return s.settleOwn(err, c.Partly)
}

// asked sends statements of Sluice to a session's backend. It implements constraint.Server for other packages.
type asked struct{ s *session }

// Ask sends one statement, which commits at once.
func (a asked) Ask(sql string, row func(values []string)) error {
	return a.s.askWhole(wire.AppendStrings(nil, wire.Query, sql), func(payload []byte) {
		if row != nil {
			row(columnsOf(payload))
		}
	})
}

// Refused returns the server's error in err; nil for a lost backend or the end of the session.
func (a asked) Refused(err error) *wire.Error { return refused(err) }
func (a asked) Pause(d time.Duration) error   { return a.s.pause(d) }
func (a asked) More() error                   { return a.s.wantsMore() }

// Batches runs updateBatches.
func (a asked) Batches(table string, update func(key []string, rows int) string) (rows int, err error) {
	return a.s.updateBatches(table, update)
}

// Undone reports whether the failed statement has changed nothing. Cancel, timeout and a client that has left take
// effect only between two round trips. A cut ends even a running one.
func (a asked) Undone(err error) bool {
	return refused(err) != nil || err == errClientGone || stops(err) && err != errCut
}

// Heed marks a cancel or timeout as handled: it has stopped a step, and ends the whole statement.
func (a asked) Heed(err error) { a.s.heeded(err) }

// updateBatches runs UPDATEs of a table, each a transaction, until one finds fewer rows than it may change. It returns
// the number of rows. update returns the statement for so many rows in the order of the table's key. A batch that the
// server refuses as too large is halved. After repeated conflicts the next batches are small. A table without a key is
// one batch. Cancel, timeout and a client that has left take effect between batches.
func (s *session) updateBatches(table string, update func(key []string, rows int) string) (done int, err error) {
	key, err := s.keyOf(table)
	if err != nil {
		return 0, err
	}
	for rows, most := batchRows, batchRows; ; {
		if err := s.wantsMore(); err != nil {
			return done, err
		}
		err := s.askWhole(wire.AppendStrings(nil, wire.Query, update(key, rows)), func([]byte) {})
		told := refused(err)
		switch smaller := told != nil && rows > 1 && len(key) > 0; {
		case smaller && rewrite.LimitsSize(told.Code, []byte(told.Message)):
			rows /= 2
			most = rows
			continue
		case smaller && told.Code == retry.StateConflict:
			rows = max(rows/16, 1)
			continue
		case err != nil:
			return done, err
		}
		n, err := s.countOf("UPDATE ")
		if err != nil {
			return done, err
		}
		done += n
		s.srv.metrics.BackfillBatch()
		if len(key) == 0 || n < rows {
			return done, nil
		}
		rows = min(2*rows, most)
	}
}

// settleOwn ends a turn at the backend after statements of Sluice, and returns the client's error for err. partly adds
// what remains in the database.
//
// Each statement has committed or failed alone, so nothing is replayed as a whole. Only a lost connection leaves the
// last one in doubt.
func (s *session) settleOwn(err error, partly func(error) error) error {
	s.t.logs = false // the log ends with its transaction
	var gone *lostError
	switch {
	case errors.As(err, &gone):
		s.noteLost(gone, "unknown_outcome")
		err = errUnknownOutcome
		if s.pinned {
			err = s.pinGone()
		}
		s.losePin()
		s.dropBackend(reservoir.Broken)
	case err == errClientGone:
		return err
	case err == errCut: // the client gets its error now; the session ends after the turn
		err = errUnknownOutcome
		s.t.orphan = s.b.conn
		s.losePin()
		s.dropBackend(reservoir.ClientGone)
	case stops(err) && s.b.broken(): // the server may still be running the statement
		s.stopBackend()
		s.giveBack()
	default:
		if merr := s.settle('I'); merr != nil {
			return merr
		}
		return partly(err)
	}
	s.stopWaiting()
	s.endTransaction(false)
	if merr := s.move(lost); merr != nil {
		return merr
	}
	return partly(err)
}

// countOf returns the number of rows in the last command tag to Sluice itself. Another tag counts as a lost connection,
// since Sluice cannot tell what the server did.
func (s *session) countOf(verb string) (rows int, err error) {
	count, ok := strings.CutPrefix(string(s.b.tag), verb)
	if rows, err = strconv.Atoi(count); !ok || err != nil {
		return 0, &lostError{err: fmt.Errorf("a statement of %sis answered %q", verb, s.b.tag)}
	}
	return rows, nil
}
