package proxy

import (
	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/copyin"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/rewrite"
)

// handler defines how Sluice handles the statements of one rewrite.Does value. If a function is nil, the server does
// that part. All functions are called during a turn.
type handler struct {
	// server means that the server always runs the statement.
	server bool
	// parses reports whether Sluice answers the Parse itself. It may also do so if Sluice runs the statement only
	// sometimes, since the server accepts every text of this kind. nil: the server parses the text.
	parses func(*session, *rewrite.Statement) bool
	// here reports whether Sluice runs the statement itself in the session's current state. It is not called in a failed
	// block.
	here func(*session, *rewrite.Statement) bool
	// query runs a simple Query that has only this statement, and ends the turn. The error is for the client, and does not
	// end the turn. done is false if the server must get the text.
	query func(s *session, plan *rewrite.Plan, sql []byte) (done bool, err error)
	// early runs a simple Query before the parts of a transaction are (readQuery), if here returns true. It ends the turn.
	early func(s *session, st *rewrite.Statement, sql []byte) error
	// params returns the ParameterDescription. nil: the statement has no parameters. The error is for the client.
	params func(st *rewrite.Statement, oids string) ([]byte, error)
	// execute handles an Execute that needs more than run does. The error is for the client.
	execute func(s *session, st *rewrite.Statement, sql string) error
	// run runs the statement and returns its answer without RowDescription and CommandComplete. several: the statement is
	// part of a multi-statement query. The error is for the client, or ends the session.
	run func(s *session, st *rewrite.Statement, several bool) (frames [][]byte, err error)
	// columns returns the RowDescription of the answer's single row. nil: the answer has no row.
	columns func(*rewrite.Statement) []byte
	// tag returns the command tag, such as "SHOW".
	tag func(*rewrite.Statement) string
	// again returns the tag of a second Execute of the portal. nil or "": a second Execute is an error.
	again func(*rewrite.Statement) string
	// reads means that the statement changes nothing.
	reads bool
	// place decides how a multi-statement query handles the statement. nil: the server runs it.
	place func(*division, *rewrite.Statement) place
}

// handlers maps each rewrite.Does value to its handler. rewrite picks one value for each statement. Rules that answer
// or carry it out come first, then values by its first word, then Executes. Statement.Asks may be set with any value,
// and matters only if the server gets the statement (division.server). These cases precede the table:
//
//	savepoints    emulated savepoints in any text (emulates)
//	failed block  if no server has it, only its end is accepted (failedHere)
//	cursors       UsesCursor, and ClosesAll while a portal is open (runsCursor)
//	early         a Query whose handler runs before the parts of a transaction (doesEarly)
//	after frames of a group: the Query is handled like a multi-statement query, by place (substituted)
var handlers = [rewrite.DoesCount]handler{
	rewrite.ServerOnly:   {server: true, place: (*division).server},
	rewrite.Executes:     {server: true, place: (*division).executes},
	rewrite.ChecksTables: {server: true, place: (*division).checksTables}, // maskedReply hides the rows

	rewrite.Answers: {parses: always, here: always, query: queryHere, run: runTag, tag: result.OwnTag, place: answered},
	rewrite.AnswersVoid: {parses: always, here: always, query: queryHere,
		run: runVoid, columns: result.VoidColumn, tag: result.OwnTag, again: result.Tag("SELECT 0"), place: answered},
	rewrite.ClosesAll: {parses: always, here: always, query: queryHere, run: runCloseAll, tag: result.OwnTag, place: (*division).closesAll},
	rewrite.DiscardsSequences: {parses: always, here: always, query: queryHere,
		run: runDiscardSequences, tag: result.OwnTag, place: answered},

	rewrite.Locks: {parses: always, here: always, query: queryHere, params: lockParams,
		run: carriedOut(runLock), columns: result.LockColumn, tag: result.OwnTag, again: result.Tag("SELECT 0"), place: placeOfLock},
	rewrite.ChangesDatabase: {parses: always, here: always, query: queryHere, execute: executeAlone,
		run: carriedOut((*session).changeDatabase), tag: result.DatabaseTag, place: databaseRefused},
	rewrite.Alters: {parses: always, here: altersHere, query: queryAltering, execute: executeAltering,
		run: carriedOut((*session).alterTable), tag: result.AlteredTag, place: (*division).server},
	rewrite.UsesCursor: {parses: always, here: always, again: result.FetchedTag, place: (*division).server}, // see executeLogged
	rewrite.CopiesIn:   {parses: always, here: copiesHere, early: queryCopy, execute: executeCopy, place: (*division).server},

	rewrite.Shows: {parses: (*session).shows, here: (*session).shows, query: queryHere, reads: true,
		run: runShow, columns: result.ShownColumn, tag: result.Tag("SHOW"), again: result.Tag("SHOW"), place: (*division).show},
	rewrite.ShowsInQuery: {parses: (*session).shows, here: (*session).shows, query: queryHere, reads: true,
		run: runShow, columns: result.QueriedColumn, tag: result.Tag("SELECT 1"), again: result.Tag("SELECT 0"), place: (*division).show},

	rewrite.Sets: {parses: always, here: changesHere, query: queryHere,
		run: (*session).performChanges, tag: result.ChangeTag, place: (*division).sets},
	rewrite.DiscardsAll: {parses: always, here: changesHere, query: queryHere, execute: executeDiscard,
		run: (*session).performChanges, tag: result.ChangeTag, place: (*division).discard},
	rewrite.SetsConfig: {parses: always, here: changesHere, query: queryHere,
		run: (*session).performChanges, columns: result.ConfigColumns, tag: result.Tag("SELECT 1"), again: result.Tag("SELECT 0"), place: (*division).configures},
	rewrite.SetsRow: {parses: always, here: changesHere, query: queryHere,
		run: (*session).performChanges, columns: result.ConfigColumns, tag: result.Tag("SELECT 1"), again: result.Tag("SELECT 0"), place: (*division).configures},
	// bindValues turns a bound statement of this kind into one with constants. A simple Query has no values to bind.
	rewrite.BindsConfig: {parses: always, here: bindsHere, query: queryHere, params: result.ValueParams,
		run: (*session).performChanges, columns: result.ConfigColumns, tag: result.Tag("SELECT 1"), again: result.Tag("SELECT 0"), place: (*division).configures},
	rewrite.Deallocates: {parses: always, here: deallocatesHere, query: queryHere,
		run: runDeallocate, tag: result.Tag("DEALLOCATE"), place: (*division).deallocates},
	rewrite.DeallocatesAll: {parses: always, here: deallocatesHere, query: queryHere,
		run: func(s *session, _ *rewrite.Statement, _ bool) ([][]byte, error) {
			s.forgetStatements()
			return nil, nil
		},
		tag: result.Tag("DEALLOCATE ALL"), place: (*division).deallocatesAll},

	rewrite.Begins: {parses: (*session).holdsBegin, here: beginsHere, query: (*session).controlLocally,
		execute: (*session).executeControl, place: (*division).begins},
	rewrite.SetsModes: {parses: (*session).foldsModes, here: (*session).foldsNow, query: (*session).controlLocally,
		execute: (*session).executeControl, place: (*division).setsModes,
		run: (*session).performChanges, tag: result.Tag("SET")}, // run where it follows a BEGIN in one Query (division.begin)
	rewrite.Saves: {query: (*session).controlLocally, execute: (*session).executeControl, place: (*division).server},
	rewrite.Ends:  {query: (*session).controlLocally, execute: (*session).executeControl, place: (*division).server},
}

func always(*session, *rewrite.Statement) bool { return true }

// queryHere runs a simple Query in Sluice if the session's state allows. If not, resetLocally may replace a RESET by
// another statement for the server.
func queryHere(s *session, plan *rewrite.Plan, _ []byte) (done bool, err error) {
	if !s.localStatement(plan.Single()) {
		return s.resetLocally(plan)
	}
	if err := s.runLocal(plan.Single(), true, false); err != nil {
		return true, err
	}
	return true, s.ready()
}

// carriedOut wraps do so that metrics count the statements that do runs.
func carriedOut(do func(*session, *rewrite.Statement) ([][]byte, error)) func(*session, *rewrite.Statement, bool) ([][]byte, error) {
	return func(s *session, st *rewrite.Statement, _ bool) ([][]byte, error) {
		s.srv.metrics.LocalAnswer(metrics.LocalStatement)
		frames, err := do(s, st)
		if err != nil {
			return nil, err
		}
		s.srv.metrics.OperationSucceeded(st.Operation)
		return frames, nil
	}
}

// executeAlone runs a statement by runLocal, without counting it as a statement of the client's pipeline.
func executeAlone(s *session, st *rewrite.Statement, _ string) error {
	return s.runLocal(st, false, false)
}

// doesEarly reports whether st has an early handler that may run now. st may be nil.
func (s *session) doesEarly(st *rewrite.Statement) bool {
	return st != nil && s.srv.handlers[st.Does].early != nil && s.localStatement(st)
}

// copiesHere reports whether Sluice replaces COPY FROM STDIN by INSERTs, which it does for DSQL.
func copiesHere(s *session, _ *rewrite.Statement) bool { return s.srv.cfg.Kind == DSQL }

func copyConfig(srv *Server) copyin.Config {
	return copyin.Config{MaxStatementBytes: srv.cfg.MaxStatementBytes, MaxMessageBytes: srv.cfg.MaxMessageBytes, Retry: &srv.cfg.Retry.Policy, Committed: srv.metrics.CopyBatch}
}

// queryCopy runs a COPY FROM STDIN that came in a simple Query.
func queryCopy(s *session, st *rewrite.Statement, sql []byte) error {
	if err := copyin.Run(featureSession{s}, st, sql, copyConfig(s.srv)); err != nil {
		return err
	}
	return s.ready()
}

// executeCopy receives the data of a COPY FROM STDIN that a portal runs. The INSERTs finish at the Sync.
func executeCopy(s *session, st *rewrite.Statement, sql string) error {
	c, err := copyin.Receive(featureSession{s}, st, []byte(sql), copyConfig(s.srv))
	if err == nil {
		s.t.deferred = c
	}
	return err
}
