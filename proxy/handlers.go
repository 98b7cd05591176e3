package proxy

import (
	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/copyin"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/script"
	"github.com/sluice-proxy/sluice/rewrite"
)

// statementHandler has the functions by which Sluice handles one kind of statement (a rewrite.LocalWork value). For a
// nil function, the server does the work. All functions are called during a turn.
type statementHandler struct {
	// server means that the server always runs the handler's statement.
	server bool
	// parsesLocally reports whether Sluice answers the Parse of the statement, without the server. It may, even if the
	// server later runs the statement. If parsesLocally is nil, the server parses the statement.
	parsesLocally func(*session, *rewrite.Statement) bool
	// runsLocally reports whether Sluice itself runs the statement in the session's current state. No caller uses it in
	// a failed block.
	runsLocally func(*session, *rewrite.Statement) bool
	// query runs a simple Query that has only this statement, and ends the turn. done is false if the server must get the
	// query. The caller sends an error to the client, and the turn goes on.
	query func(s *session, plan *rewrite.Plan, sql []byte) (done bool, err error)
	// earlyQuery runs a simple Query, if runsLocally returns true, before Sluice decides whether to commit the
	// transaction's earlier statements separately (package ddltx). It ends the turn.
	earlyQuery func(s *session, st *rewrite.Statement, sql []byte) error
	// params returns the statement's ParameterDescription, or nil if the statement has no parameters. The caller sends an
	// error to the client.
	params func(st *rewrite.Statement, oids string) ([]byte, error)
	// bind returns the new portal p with what the Bind b says of the statement, which Sluice runs. b is read whole. If bind
	// is nil, the values of the Bind do not matter. The caller sends an error to the client.
	bind func(s *session, p portal, b pendingBind) (portal, error)
	// describe answers a Describe of the portal p, or of the statement if p has the plan only. It overrides columns.
	describe func(s *session, p portal) error
	// execute handles an Execute of the statement in place of run, if the extended protocol needs other steps. The caller
	// sends an error to the client.
	execute func(s *session, st *rewrite.Statement, sql string) error
	// framed handles the statement by frames that Sluice sends to the server, in place of the functions query, execute and
	// run. A replay repeats these frames, and a rollback undoes their effect. If framed is nil, there are no such frames.
	framed *framedHandler
	// run runs the statement and returns its answer without RowDescription and CommandComplete. several means that the
	// statement is part of a multi-statement query. The caller sends an error to the client, or ends the session.
	run func(s *session, st *rewrite.Statement, several bool) (frames [][]byte, err error)
	// columns returns the RowDescription of the answer's single row. If columns is nil, the answer has no row.
	columns func(*rewrite.Statement) []byte
	// tag returns the statement's command tag, such as "SHOW".
	tag func(*rewrite.Statement) string
	// againTag returns the command tag of a second Execute of the portal. If againTag is nil or returns "", the second
	// Execute is an error.
	againTag func(*rewrite.Statement) string
	// changesNothing means that the statement changes neither data nor the session.
	changesNothing bool
	// planInScript decides how Sluice handles the statement in a multi-statement query. If nil, the server runs it.
	planInScript script.Planned
}

// framedHandler has the functions by which Sluice handles a statement by frames that it sends to the server.
type framedHandler struct {
	// applies reports whether Sluice uses this framedHandler for the statement in the session's current state.
	applies func(*session, *rewrite.Statement) bool
	// query runs a simple Query that has only this statement, and ends the turn. The caller sends an error to the client.
	query func(*session, *rewrite.Plan, *rewrite.Statement) error
	// execute runs a portal of the statement, with the result formats and the row limit of the Execute.
	execute func(s *session, st *rewrite.Statement, formats []byte, limit uint32) error
}

// handlers maps each rewrite.LocalWork value, which package rewrite picks for each statement, to its handler.
// Statement.Asks may be set beside any of these values, and matters only if the server gets the statement. Before
// Sluice uses the table, it checks these cases:
//
//	savepoints    emulated savepoints in any query (hasEmulatedSavepoint)
//	failed block  if no server has the block, Sluice accepts only its end (mustAnswerInFailedBlock)
//	framed        statements by frames for the server (framedHandler), such as cursors
//	early         a Query that runs before Sluice may commit a part of the transaction (hasEarlyQuery)
//	open group    after frames since the last Sync, a Query is handled like a multi-statement query
var handlers = [rewrite.LocalWorkCount]statementHandler{
	rewrite.ServerOnly:   {server: true, planInScript: (*script.Planner).PlanOnServer},
	rewrite.Executes:     {server: true, planInScript: (*script.Planner).PlanExecute},
	rewrite.ChecksTables: {server: true, planInScript: (*script.Planner).PlanLockTable}, // maskedReply hides the rows

	rewrite.Answers: {parsesLocally: alwaysLocal, runsLocally: alwaysLocal, query: queryLocally, run: runTagOnly, tag: result.RuleTag, planInScript: (*script.Planner).PlanLocalAnswer},
	rewrite.AnswersVoid: {parsesLocally: alwaysLocal, runsLocally: alwaysLocal, query: queryLocally,
		run: runVoidQuery, columns: result.DescribeVoid, tag: result.RuleTag, againTag: result.ConstantTag("SELECT 0"), planInScript: (*script.Planner).PlanLocalAnswer},
	rewrite.ClosesAll: {parsesLocally: alwaysLocal, runsLocally: alwaysLocal, query: queryLocally, framed: closeAllByFrames, run: runCloseAll, tag: result.RuleTag, planInScript: (*script.Planner).PlanCloseAll},
	rewrite.DiscardsSequences: {parsesLocally: alwaysLocal, runsLocally: alwaysLocal, query: queryLocally,
		run: runDiscardSequences, tag: result.RuleTag, planInScript: (*script.Planner).PlanLocalAnswer},

	rewrite.Locks: {parsesLocally: alwaysLocal, runsLocally: alwaysLocal, query: queryLocally, params: lockParamsFrame, bind: bindLockKey, describe: describeLock,
		run: withStatementCount(runAdvisoryStatement), columns: result.DescribeLock, tag: result.RuleTag, againTag: result.ConstantTag("SELECT 0"), planInScript: planAdvisoryLock},
	rewrite.ChangesDatabase: {parsesLocally: alwaysLocal, runsLocally: alwaysLocal, query: queryLocally, execute: executeUncounted,
		run: withStatementCount((*session).createOrDropDatabase), tag: result.DatabaseTag, planInScript: refuseDatabaseInScript},
	rewrite.Alters: {parsesLocally: alwaysLocal, runsLocally: canRunSteppedDDL, query: querySteppedDDL, execute: executeSteppedDDL,
		run: withStatementCount((*session).runSteppedDDL), tag: result.AlterationTag, planInScript: (*script.Planner).PlanOnServer},
	rewrite.UsesCursor: {parsesLocally: alwaysLocal, runsLocally: alwaysLocal, framed: cursorByFrames, bind: bindFetch, describe: describeFetch, againTag: result.RepeatedFetchTag, planInScript: (*script.Planner).PlanOnServer},
	rewrite.CopiesIn:   {parsesLocally: alwaysLocal, runsLocally: emulatesCopyIn, earlyQuery: queryCopyIn, execute: executeCopyIn, planInScript: (*script.Planner).PlanOnServer},

	rewrite.Shows: {parsesLocally: (*session).canShowLocally, runsLocally: (*session).canShowLocally, query: queryLocally, changesNothing: true,
		run: runShow, columns: result.DescribeShow, tag: result.ConstantTag("SHOW"), againTag: result.ConstantTag("SHOW"), planInScript: (*script.Planner).PlanShow},
	rewrite.ShowsInQuery: {parsesLocally: (*session).canShowLocally, runsLocally: (*session).canShowLocally, query: queryLocally, changesNothing: true,
		run: runShow, columns: result.DescribeTextColumn, tag: result.ConstantTag("SELECT 1"), againTag: result.ConstantTag("SELECT 0"), planInScript: (*script.Planner).PlanShow},

	rewrite.Sets: {parsesLocally: alwaysLocal, runsLocally: changesSettingsLocally, query: queryLocally,
		run: (*session).runSettingChanges, tag: result.SettingTag, planInScript: (*script.Planner).PlanSet},
	rewrite.DiscardsAll: {parsesLocally: alwaysLocal, runsLocally: changesSettingsLocally, query: queryLocally, execute: executeDiscardAll,
		run: (*session).runSettingChanges, tag: result.SettingTag, planInScript: (*script.Planner).PlanDiscardAll},
	rewrite.SetsConfig: {parsesLocally: alwaysLocal, runsLocally: changesSettingsLocally, query: queryLocally,
		run: (*session).runSettingChanges, columns: result.DescribeConfig, tag: result.ConstantTag("SELECT 1"), againTag: result.ConstantTag("SELECT 0"), planInScript: (*script.Planner).PlanSetConfig},
	rewrite.SetsRow: {parsesLocally: alwaysLocal, runsLocally: changesSettingsLocally, query: queryLocally,
		run: (*session).runSettingChanges, columns: result.DescribeConfig, tag: result.ConstantTag("SELECT 1"), againTag: result.ConstantTag("SELECT 0"), planInScript: (*script.Planner).PlanSetConfig},
	// bindConfigValues replaces the parameters of a bound set_config by constants. A simple Query has none.
	rewrite.BindsConfig: {parsesLocally: alwaysLocal, runsLocally: bindsConfigLocally, query: queryLocally, params: result.DescribeConfigParams,
		run: (*session).runSettingChanges, columns: result.DescribeConfig, tag: result.ConstantTag("SELECT 1"), againTag: result.ConstantTag("SELECT 0"), planInScript: (*script.Planner).PlanSetConfig},
	rewrite.Deallocates: {parsesLocally: alwaysLocal, runsLocally: deallocatesLocally, query: queryLocally,
		run: runDeallocate, tag: result.ConstantTag("DEALLOCATE"), planInScript: (*script.Planner).PlanDeallocate},
	rewrite.DeallocatesAll: {parsesLocally: alwaysLocal, runsLocally: deallocatesLocally, query: queryLocally,
		run: func(s *session, _ *rewrite.Statement, _ bool) ([][]byte, error) {
			forgetStatements(s)
			return nil, nil
		},
		tag: result.ConstantTag("DEALLOCATE ALL"), planInScript: (*script.Planner).PlanDeallocateAll},

	rewrite.Begins: {parsesLocally: (*session).mustDelayBegin, runsLocally: mustDelayBeginNow, query: (*session).answerTxControl,
		execute: (*session).executeTxControl, planInScript: (*script.Planner).PlanBegin},
	rewrite.SetsModes: {parsesLocally: (*session).canFoldModes, runsLocally: (*session).canFoldModesNow, query: (*session).answerTxControl,
		execute: (*session).executeTxControl, planInScript: (*script.Planner).PlanSetTransaction,
		run: (*session).runSettingChanges, tag: result.ConstantTag("SET")}, // run where it follows a BEGIN in one Query (planBlockBegin)
	rewrite.Saves: {query: (*session).answerTxControl, execute: (*session).executeTxControl, planInScript: (*script.Planner).PlanOnServer},
	rewrite.Ends:  {query: (*session).answerTxControl, execute: (*session).executeTxControl, planInScript: (*script.Planner).PlanOnServer},
}

func alwaysLocal(*session, *rewrite.Statement) bool { return true }

// queryLocally runs a simple Query in Sluice if the session's state allows that. If not, a RESET may be replaced by
// another statement for the server (sendResetAsSet).
func queryLocally(s *session, plan *rewrite.Plan, _ []byte) (done bool, err error) {
	if !s.canAnswerStatement(plan.SingleStatement()) {
		return s.sendResetAsSet(plan)
	}
	if err := s.answerLocalStatement(plan.SingleStatement(), true, false); err != nil {
		return true, err
	}
	return true, s.endTurnLocally()
}

// withStatementCount wraps do so that metrics count the statements that do runs.
func withStatementCount(do func(*session, *rewrite.Statement) ([][]byte, error)) func(*session, *rewrite.Statement, bool) ([][]byte, error) {
	return func(s *session, st *rewrite.Statement, _ bool) ([][]byte, error) {
		s.srv.metrics.CountLocalAnswer(metrics.LocalStatement)
		frames, err := do(s, st)
		if err != nil {
			return nil, err
		}
		s.srv.metrics.CountOperationSuccess(st.Operation)
		return frames, nil
	}
}

// executeUncounted runs a statement in Sluice, without counting it as a statement of the client's pipeline.
func executeUncounted(s *session, st *rewrite.Statement, _ string) error {
	return s.answerLocalStatement(st, false, false)
}

// hasEarlyQuery reports whether st has an earlyQuery handler, and Sluice may run st now. st may be nil.
func (s *session) hasEarlyQuery(st *rewrite.Statement) bool {
	return st != nil && s.srv.handlers[st.Does].earlyQuery != nil && s.canAnswerStatement(st)
}

// emulatesCopyIn reports whether Sluice replaces COPY FROM STDIN by INSERTs. Sluice does so for DSQL, which lacks COPY.
func emulatesCopyIn(s *session, _ *rewrite.Statement) bool { return s.srv.cfg.Kind == DSQL }

func newCopyInConfig(srv *Server) copyin.Config {
	return copyin.Config{MaxStatementBytes: srv.cfg.MaxStatementBytes, MaxMessageBytes: srv.cfg.MaxMessageBytes, Retry: &srv.cfg.Retry.Policy, Committed: srv.metrics.CountCopyBatch}
}

// queryCopyIn runs a COPY FROM STDIN that came in a simple Query.
func queryCopyIn(s *session, st *rewrite.Statement, sql []byte) error {
	if err := copyin.Run(featureSession{s}, st, sql, newCopyInConfig(s.srv)); err != nil {
		return err
	}
	return s.endTurnLocally()
}

// executeCopyIn receives the data of a COPY FROM STDIN that a portal runs. The INSERTs of the data finish at the Sync.
func executeCopyIn(s *session, st *rewrite.Statement, sql string) error {
	c, err := copyin.Receive(featureSession{s}, st, []byte(sql), newCopyInConfig(s.srv))
	if err == nil {
		s.t.request.deferred = c
	}
	return err
}
