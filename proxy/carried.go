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

// Statements of DDL that Sluice carries out in several transactions of its own: the work that each kind is, the
// backend that it has, batches of rows, and what becomes of the turn at its end. They stand alone, outside of a
// block. perform (local.go) calls alterTable; of a portal it does so at the Sync, since nothing else may be in
// the group.

// errAlteredAlone is told where a frame other than Sync follows the Execute.
func errAlteredAlone(st *rewrite.Statement) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: result.AlteredTag(st) + " cannot be carried out together with other statements",
		Detail: "DSQL refuses the statement as it is, and Sluice would carry it out in several transactions.", Hint: "Send it in a request of its own."}
}

// altersHere reports whether a statement may be carried out as things stand, alone or outside of its block.
func altersHere(s *session, st *rewrite.Statement) bool {
	return s.altersAlone() || s.altersOutside(st)
}

// queryAltering does a Query of such a statement. Outside of a block inParts has done it.
func queryAltering(s *session, plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if !s.altersAlone() {
		return false, nil
	}
	return queryHere(s, plan, sql)
}

// executeAltering puts the statement off until the Sync shows that nothing else is in its group.
func executeAltering(s *session, st *rewrite.Statement, _ string) error {
	s.t.altering = st
	return nil
}

// altersAlone reports whether an Alteration may be carried out as things stand.
func (s *session) altersAlone() bool {
	return s.srv.cfg.Kind == DSQL && !s.t.touched && s.executesAlone()
}

// carried is a statement that is carried out: Run does so, or has an error, and Partly adds to
// one what stands all the same. The errors are as those of schemaDDL.
type carried interface {
	Run() error
	Partly(err error) error
}

// alterTable carries a statement out in a session that is idle, and returns the notices that go
// in front of the tag. An error is for the client, or the session's end.
func (s *session) alterTable(st *rewrite.Statement) ([][]byte, error) {
	work, notices := s.alters(st)
	err := s.carry(st, work)
	return notices(), err
}

// alters is the work of a statement that is carried out, and what there is to tell when it is done.
// Which it is the plan says: each such statement has one of the six, and an Alteration without a
// default is a change of type.
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

// carry carries a statement out on a backend of its own.
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

// asked is the backend of a session, for work that others do (constraint.Server).
type asked struct{ s *session }

// Ask sends one statement, which commits at once.
func (a asked) Ask(sql string, row func(values []string)) error {
	return a.s.askWhole(wire.AppendStrings(nil, wire.Query, sql), func(payload []byte) {
		if row != nil {
			row(columnsOf(payload))
		}
	})
}

// Refused is the server's own error in one that asking for a step has met; nil for a lost backend,
// and for the end of the session.
func (a asked) Refused(err error) *wire.Error { return refused(err) }
func (a asked) Pause(d time.Duration) error   { return a.s.pause(d) }
func (a asked) More() error                   { return a.s.wantsMore() }

// Batches sets values in a table, in batches.
func (a asked) Batches(table string, update func(key []string, rows int) string) (rows int, err error) {
	return a.s.updateBatches(table, update)
}

// Undone: a cancel, a timeout and the client's end are found between two round trips only. A cut
// ends even one that runs.
func (a asked) Undone(err error) bool {
	return refused(err) != nil || err == errClientGone || stops(err) && err != errCut
}

// Heed has a cancel or a timeout that has stopped a step hold for the statement as a whole.
func (a asked) Heed(err error) { a.s.heeded(err) }

// updateBatches sends UPDATEs of a table, each a transaction of its own, until one finds fewer rows
// than it may take, and returns how many there were: update makes one, for so many rows in the
// order of the table's key. A batch that the server refuses for its rows or bytes is halved, and
// one that meets the writes of others again and again is made small for a while. A table without a
// key is one batch, since nothing tells its rows apart. Between two batches a cancel, a timeout and
// the client's end are heeded.
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

// settleOwn ends the part of a turn at the backend whose statements were Sluice's own,
// whatever err is, and returns what the client is told of err: partly adds what stands.
//
// Each of the statements has committed by itself, or failed by itself, so that nothing here is
// run again as a whole. Only a lost connection leaves its last statement in doubt.
func (s *session) settleOwn(err error, partly func(error) error) error {
	s.t.logs = false // the log ends here with its transaction
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
	case err == errCut: // the client is told now, and the session ends behind the turn
		err = errUnknownOutcome
		s.t.orphan = s.b.conn
		s.losePin()
		s.dropBackend(reservoir.ClientGone)
	case stops(err) && s.b.broken(): // it may be at work still
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

// countOf is the number of rows in the tag of the last answer to Sluice itself. Any other tag
// is a server that cannot be followed: its connection counts as lost.
func (s *session) countOf(verb string) (rows int, err error) {
	count, ok := strings.CutPrefix(string(s.b.tag), verb)
	if rows, err = strconv.Atoi(count); !ok || err != nil {
		return 0, &lostError{err: fmt.Errorf("a statement of %sis answered %q", verb, s.b.tag)}
	}
	return rows, nil
}
