package proxy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/proxy/batch"
	"github.com/sluice-proxy/sluice/proxy/ddl"
	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/notice"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/serverfacts"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file runs DDL that Sluice carries out in several transactions of its own. It chooses the work for each kind of
// statement, runs batches, and ends the turn. Such a statement must be alone and outside a block. A portal's
// statement waits for the Sync, since no other statement may precede that Sync.

// errSteppedDDLNotAlone refuses another frame before the Sync of DDL that Sluice carries out in several transactions.
func errSteppedDDLNotAlone(st *rewrite.Statement) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: result.AlterationTag(st) + " cannot be carried out together with other statements",
		Detail: "DSQL refuses the statement as it is, and Sluice would carry it out in several transactions.", Hint: "Send it in a request of its own."}
}

// canRunSteppedDDL reports whether DDL in several transactions may run now: alone, or between two commits of a block.
func canRunSteppedDDL(s *session, st *rewrite.Statement) bool {
	return s.canRunSteppedDDLAlone() || s.portalRunsOutsideBlock(st)
}

// querySteppedDDL runs a Query of DDL in several transactions, if the statement is alone. If it runs between two
// commits of a block, prepareForBlockParts has already run it.
func querySteppedDDL(s *session, plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if !s.canRunSteppedDDLAlone() {
		return false, nil
	}
	return queryLocally(s, plan, sql)
}

// executeSteppedDDL defers DDL that takes several transactions to the Sync, since no other statement may follow.
func executeSteppedDDL(s *session, st *rewrite.Statement, _ string) error {
	s.t.request.altering = st
	return nil
}

// canRunSteppedDDLAlone reports whether DDL in several transactions may run now: on DSQL, outside a block, with no
// frame sent before it.
func (s *session) canRunSteppedDDLAlone() bool {
	return s.srv.cfg.Kind == DSQL && !s.t.touched && s.runsAloneInGroup()
}

// runSteppedDDL carries out DDL in several transactions in an idle session, and returns notices to send before the tag.
// A returned error goes to the client, or ends the session.
func (s *session) runSteppedDDL(st *rewrite.Statement) ([][]byte, error) {
	work, notices := ddl.For(ddlConn{s}, st)
	err := s.runAndSettleDDL(st, work)
	return notices(), err
}

// runAndSettleDDL runs the transactions of a DDL statement on the session's backend, and ends the turn.
func (s *session) runAndSettleDDL(st *rewrite.Statement, c ddl.SteppedDDL) error {
	s.waits.Begin(s.settings.StatementTimeout())
	s.tx.operation, s.tx.writes = st.Operation, true
	if err := s.ensureBackend(); err != nil {
		return err
	}
	err := c.Run()
	if interrupt.EndsTurn(err) && err != errCut {
		s.waits.Consume(err)
	}
	s.srv.pool.templates.BeginEpoch(serverfacts.MayChangeReads(st))
	return s.settleOwnStatements(err, c.WithPartialResult)
}

// ddlConn sends statements of Sluice to a session's backend, as a ddl.Server, constraint.Server and batch.Server.
type ddlConn struct{ s *session }

// Ask sends one statement of Sluice, which commits at once. The function row, or nil, gets the values of each row.
func (a ddlConn) Ask(sql string, row func(values []string)) error {
	return a.s.runOwnTransaction(wire.AppendStrings(nil, wire.Query, sql), valuesTo(row))
}

// valuesTo returns a function that calls row with the values of a DataRow's payload. row may be nil.
func valuesTo(row func(values []string)) func(payload []byte) {
	return func(payload []byte) {
		if row != nil {
			row(textColumns(payload))
		}
	}
}

// Count sends the frames of one statement, and returns the number of rows in its command tag. If the tag does not
// begin with verb, the connection counts as lost, since Sluice cannot know what the server did.
func (a ddlConn) Count(frames []byte, verb string) (rows int, err error) {
	if err := a.s.runOwnTransaction(frames, valuesTo(nil)); err != nil {
		return 0, err
	}
	count, ok := strings.CutPrefix(string(a.s.b.tag), verb+" ")
	if rows, err = strconv.Atoi(count); !ok || err != nil {
		return 0, &lostError{err: fmt.Errorf("a statement of %s is answered %q", verb, a.s.b.tag)}
	}
	return rows, nil
}

// RefusalFrom returns the server's error in err. For a lost backend, or the end of the session, it returns nil.
func (a ddlConn) RefusalFrom(err error) *wire.Error { return refusalFrom(err) }
func (a ddlConn) Pause(d time.Duration) error       { return a.s.sleepUnlessStopped(d) }
func (a ddlConn) CheckMayContinue() error           { return a.s.checkMayContinue() }

// UpdateInBatches updates the rows of a table in batches, which commit one by one, and returns the number of rows.
func (a ddlConn) UpdateInBatches(table string, update func(key []string, rows int) string) (rows int, err error) {
	return batch.Update(a, table, update, a.s.srv.metrics.CountBackfillBatch)
}

// ChangedNothing reports whether the failed statement has changed nothing. A cancel, a timeout or a client that has
// left stops DDL only between two round trips. Server.Close ends even a running round trip.
func (a ddlConn) ChangedNothing(err error) bool {
	return refusalFrom(err) != nil || err == errClientGone || interrupt.EndsTurn(err) && err != errCut
}

// ConsumeCancel marks the cancel or timeout err as handled, since the whole DDL statement ends with it.
func (a ddlConn) ConsumeCancel(err error) { a.s.waits.Consume(err) }

func (a ddlConn) Warnings(st *rewrite.Statement) [][]byte {
	return notice.WarningFrames(&a.s.settings, st)
}
func (a ddlConn) EarlyCommit() { a.s.srv.metrics.CountEarlyCommit() }

// settleOwnStatements ends a turn at the backend after statements of Sluice, and returns the client's error for err.
// partly adds to an error a text about what remains in the database.
//
// Each statement has committed or failed alone, so nothing is replayed as a whole. Only a lost connection leaves the
// outcome of the last statement in doubt.
func (s *session) settleOwnStatements(err error, partly func(error) error) error {
	s.t.rec.logs = false // the log ends with its transaction
	var gone *lostError
	switch {
	case errors.As(err, &gone):
		s.recordLoss(gone, "unknown_outcome")
		err = sqlerror.UnknownOutcome
		if s.pin.IsPinned() {
			err = s.pinLostError()
		}
		s.recordPinLoss()
		s.dropBackend(reservoir.Broken)
	case err == errClientGone:
		return err
	case err == errCut: // the client gets its error now; the session ends after the turn
		err = sqlerror.UnknownOutcome
		s.t.abandonedConn = s.b.conn
		s.recordPinLoss()
		s.dropBackend(reservoir.ClientGone)
	case interrupt.EndsTurn(err) && s.b.isBroken(): // the server may still be running the statement
		s.cancelOnBackend()
		s.releaseOrDropBackend()
	default:
		if merr := s.settleTurn('I'); merr != nil {
			return merr
		}
		return partly(err)
	}
	s.waits.End()
	s.endTransaction(false)
	if merr := s.applyEvent(lost); merr != nil {
		return merr
	}
	return partly(err)
}
