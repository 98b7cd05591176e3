package proxy

import (
	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/copyin"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/rewrite"
)

// handler is what Sluice does about the statements of one value of rewrite.Does. The server does each part
// whose function is nil. All functions are called in a turn.
type handler struct {
	// server says that the server runs the statement in any case.
	server bool
	// parses reports whether Sluice answers the Parse. It may where it does the statement at some times only:
	// the server accepts any such text. nil: the server parses the text.
	parses func(*session, *rewrite.Statement) bool
	// here reports whether Sluice does the statement by itself, as the session stands now. No failed block asks.
	here func(*session, *rewrite.Statement) bool
	// query does a simple Query of the statement alone and ends the turn, save for an error for the client. done
	// is false where the server gets the text.
	query func(s *session, plan *rewrite.Plan, sql []byte) (done bool, err error)
	// early does what query does, in front of the parts of a transaction (readQuery). It ends the turn where here
	// allows it.
	early func(s *session, st *rewrite.Statement, sql []byte) error
	// params is the ParameterDescription; nil: the statement has no parameters. The error is for the client.
	params func(st *rewrite.Statement, oids string) ([]byte, error)
	// execute is the Execute of a portal, where that is more than run. The error is for the client.
	execute func(s *session, st *rewrite.Statement, sql string) error
	// run does the statement, and returns its answer without columns and tag. several: it is one of a
	// multi-statement query. The error is for the client, or the session's end.
	run func(s *session, st *rewrite.Statement, several bool) (frames [][]byte, err error)
	// columns is the RowDescription of the one row of the answer; nil: the answer has no row.
	columns func(*rewrite.Statement) []byte
	// tag is the command tag of the answer.
	tag func(*rewrite.Statement) string
	// again is the tag of a second Execute of the portal; nil or "": that is an error.
	again func(*rewrite.Statement) string
	// reads says that the statement changes nothing.
	reads bool
	// place says what becomes of the statement in a multi-statement query; nil: the server does it.
	place func(*division, *rewrite.Statement) place
}

// handlers is what becomes of a statement, by what it does. A text may have the features of two values, and
// rewrite gives it one: what a rule answers or carries out comes before what the statement is by its first
// word, and that before Executes. Any value may have Statement.Asks, which counts where the server gets the
// statement (division.server). Beside the table, in front of it:
//
//	savepoints    emulated ones, in any text (emulates)
//	failed block  without a server nothing but its end is taken (failedHere)
//	cursors       UsesCursor, and ClosesAll where something is open (runsCursor)
//	early         a Query whose handler does it in front of parts (doesEarly)
//	behind frames of a group a Query is one of several statements: place decides (substituted)
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
	// Bind makes a statement of constants of this one (bindValues); a Query has no values.
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
		run: (*session).performChanges, tag: result.Tag("SET")}, // at its place behind a BEGIN (division.begin)
	rewrite.Saves: {query: (*session).controlLocally, execute: (*session).executeControl, place: (*division).server},
	rewrite.Ends:  {query: (*session).controlLocally, execute: (*session).executeControl, place: (*division).server},
}

func always(*session, *rewrite.Statement) bool { return true }

// queryHere does a Query of a statement that Sluice does as the session stands; where it does not, a RESET may
// still go to the server as another statement.
func queryHere(s *session, plan *rewrite.Plan, _ []byte) (done bool, err error) {
	if !s.localStatement(plan.Single()) {
		return s.resetLocally(plan)
	}
	if err := s.runLocal(plan.Single(), true, false); err != nil {
		return true, err
	}
	return true, s.ready()
}

// carriedOut counts the statements that do carries out.
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

// executeAlone runs a statement whose Execute the pipeline does not see as one of its own.
func executeAlone(s *session, st *rewrite.Statement, _ string) error {
	return s.runLocal(st, false, false)
}

// doesEarly reports whether Sluice does a statement by itself, in front of the parts of a transaction; nil is none.
func (s *session) doesEarly(st *rewrite.Statement) bool {
	return st != nil && s.srv.handlers[st.Does].early != nil && s.localStatement(st)
}

// copiesHere reports whether INSERTs carry out a COPY FROM STDIN.
func copiesHere(s *session, _ *rewrite.Statement) bool { return s.srv.cfg.Kind == DSQL }

func copyConfig(srv *Server) copyin.Config {
	return copyin.Config{MaxStatementBytes: srv.cfg.MaxStatementBytes, MaxMessageBytes: srv.cfg.MaxMessageBytes, Retry: &srv.cfg.Retry.Policy, Committed: srv.metrics.CopyBatch}
}

// queryCopy carries out a COPY of a simple Query.
func queryCopy(s *session, st *rewrite.Statement, sql []byte) error {
	if err := copyin.Run(featureSession{s}, st, sql, copyConfig(s.srv)); err != nil {
		return err
	}
	return s.ready()
}

// executeCopy takes the data of a COPY that a portal runs. The Sync finishes it.
func executeCopy(s *session, st *rewrite.Statement, sql string) error {
	c, err := copyin.Receive(featureSession{s}, st, []byte(sql), copyConfig(s.srv))
	if err == nil {
		s.t.deferred = c
	}
	return err
}
