package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// observer holds the functions that one feature runs at fixed points of a session's life. A nil function does
// nothing. The session's goroutine calls these functions in the order of the table observers. It calls onAttached
// only if Server.watched is set, and onSettled only if transaction.watched is set.
type observer struct {
	name string
	// onAdmitting is called before a plan is sent, when the session may not have its backend yet. onAdmitted is called
	// when the session has its backend, onSending when it also has a pin that the plan needs. An error goes to the
	// client, and the plan must not be sent.
	onAdmitting, onAdmitted, onSending func(s *session, plan *rewrite.Plan) error
	// dials is called before the session borrows a backend. It returns a connection that only this session uses, or nil.
	dials func(s *session) *reservoir.Conn
	// onAttached is called before a transaction begins on an idle backend, if Server.watched is set. An error means that
	// the backend is lost.
	onAttached func(s *session) error
	// onDetaching is called before the backend is closed. It is not called if the backend returns to the reservoir.
	onDetaching func(s *session)
	// onRan is called after the server ran the statement of the pending reply o, or returned a part of its rows. tag is
	// nil if the portal has more rows. st is nil if the statement is unknown. onRan is not called for a plan that only
	// reads. It is called for a plan of a single write only if ranWrites is set, since most plans are such writes.
	onRan     func(s *session, o *pendingReply, st *rewrite.Statement, tag []byte)
	ranWrites bool
	// portalWork returns the feature's work for a portal name that the session has not recorded, or nil.
	portalWork func(s *session, name []byte) portalWork
	// onCommitting is called before the server gets a plan that may commit. done means that the plan must not be sent:
	// the client has its answer, or gets err. If done is false, err is nil.
	onCommitting func(s *session, plan *rewrite.Plan) (done bool, err error)
	// onGroupEnding is called before a Sync, Query or FunctionCall ends a group for which the server has frames. An error
	// goes to the client.
	onGroupEnding func(s *session) error
	// onOwnWork is called before Sluice sends a transaction or DDL of its own, and onSyncing before the Sync of a group.
	// After an error, which goes to the client, Sluice must not send it.
	onOwnWork, onSyncing func(s *session) error
	// onReplaying returns retry.Replayable, or why the session's transaction must not be replayed. It is called before the
	// replay has a backend.
	onReplaying func(s *session) retry.RefusalReason
	// loss returns the errors of a session that has lost state of the feature, and nil if nothing is lost.
	loss func(s *session) *lossErrors
	// onEnded is called when a block ends, by the server's answer, or by Sluice's answer if no server has seen the block.
	// Another transaction may follow in the same request.
	onEnded func(s *session, committed bool)
	// onSettled is called when the session has left its transaction, if transaction.watched is set. committed is false if a
	// lost backend ended the transaction.
	onSettled func(s *session, committed bool)
	// onReturned is called after a turn outside a block, when the reservoir has the backend again, before the client gets
	// the turn's answer. onTurnEnd is called after each turn, to charge the feature's memory.
	onReturned, onTurnEnd func(s *session)
	// onDiscarded is called when Sluice itself answers a DISCARD ALL.
	onDiscarded func(s *session)
	// onClosed is called at the end of the session, after its transaction has ended and its backend was given up.
	onClosed func(s *session)
}

// lossErrors are the errors for a client whose session has lost state of a feature. statement is the error of a
// transaction that can no longer be replayed, and session ends the session after the turn.
type lossErrors struct{ statement, session *wire.Error }

// observers lists the features whose functions a session calls, in the order of the calls.
var observers = []observer{
	{name: "advisory locks", onAdmitting: checkLocksBefore, onSending: sendFenceBefore, onDetaching: recordLocksDetached, onOwnWork: extendLeasesForDDL, onSyncing: extendLeasesAtSync,
		onReplaying: lockReplayReason, loss: lockLoss, onReturned: releaseDeferredLocks, onTurnEnd: chargeLockMemory, onDiscarded: releaseAllLocks, onClosed: releaseLocksAtEnd},
	{name: "sequences", onAdmitted: admitSequenceUse, dials: acquireForSequences, onAttached: discardForeignSequences,
		onRan: recordSequenceUse, ranWrites: true, onDiscarded: recordLocalDiscard},
	{name: "index jobs", onRan: recordIndexTxStatement, ranWrites: true, onEnded: recordIndexTxEnd},
	{name: "unparsed texts", onRan: recordUnparsedTag},
	{name: "settings", onRan: recordSettings},
	{name: "options", onRan: recordOptionsReset},
	{name: "parts", onEnded: forgetCommittedParts},
	{name: "statements", onRan: recordDeallocateAll, onDiscarded: forgetStatements},
	{name: "portals", onDiscarded: closePortals},
	{name: "schema", onRan: invalidateAfterDDL, onEnded: publishSchemaChange},
	{name: "stored cursors", portalWork: storedPortalOf, onCommitting: storeBeforeCommit, onGroupEnding: storeBeforeGroupEnd, onEnded: endStoredCursors, onSettled: endStoredCursors, onDiscarded: dropStoredCursors, onClosed: dropStoredCursors},
	{name: "mapping", onSettled: clearPathDoubt},
}

// needsRunObservers reports whether a session calls the observers' functions onRan for the statements of a plan.
func needsRunObservers(plan *rewrite.Plan) bool {
	return plan.Kind > rewrite.Read && (plan.Kind != rewrite.Write || len(plan.Statements) != 1)
}

// observerTable is a list of observers. Each method calls one function of all observers, at one point of a session.
// Functions that are called for each plan or turn are in separate lists.
type observerTable struct {
	rows                          []observer
	admitting, admitted, sending  planObservers
	groupEnding, ownWork, syncing workObservers
	committing                    []func(*session, *rewrite.Plan) (bool, error)
	ran, ranWrites                ranObservers
	returned, turnEnd             sessionObservers
	losses                        []func(*session) *lossErrors
	portals                       []func(*session, []byte) portalWork
}

// workObservers are functions of features that a session calls before the server gets work. ranObservers are those that
// it calls after a statement, and sessionObservers those that it calls after a turn.
type (
	workObservers    []func(s *session) error
	ranObservers     []func(s *session, o *pendingReply, st *rewrite.Statement, tag []byte)
	sessionObservers []func(s *session)
)

// planObservers are functions of features (observers) that a session calls with a plan.
type planObservers []func(s *session, plan *rewrite.Plan) error

// newObserverTable returns the table of the observers in rows.
func newObserverTable(rows []observer) *observerTable {
	table := &observerTable{rows: rows}
	for i := range rows {
		o := &rows[i]
		addFunction(&table.admitting, o.onAdmitting, o.onAdmitting != nil)
		addFunction(&table.admitted, o.onAdmitted, o.onAdmitted != nil)
		addFunction(&table.sending, o.onSending, o.onSending != nil)
		addFunction(&table.ran, o.onRan, o.onRan != nil)
		addFunction(&table.ranWrites, o.onRan, o.ranWrites)
		addFunction(&table.committing, o.onCommitting, o.onCommitting != nil)
		addFunction(&table.groupEnding, o.onGroupEnding, o.onGroupEnding != nil)
		addFunction(&table.ownWork, o.onOwnWork, o.onOwnWork != nil)
		addFunction(&table.syncing, o.onSyncing, o.onSyncing != nil)
		addFunction(&table.portals, o.portalWork, o.portalWork != nil)
		addFunction(&table.losses, o.loss, o.loss != nil)
		addFunction(&table.returned, o.onReturned, o.onReturned != nil)
		addFunction(&table.turnEnd, o.onTurnEnd, o.onTurnEnd != nil)
	}
	return table
}

// addFunction appends f to a list of functions, if the feature has the function.
func addFunction[L ~[]F, F any](list *L, f F, has bool) {
	if has {
		*list = append(*list, f)
	}
}

// notify calls the functions of the list in order, up to the first error, which notify returns.
func (list workObservers) notify(s *session) error {
	for _, f := range list {
		if err := f(s); err != nil {
			return err
		}
	}
	return nil
}

func (list sessionObservers) notify(s *session) {
	for _, f := range list {
		f(s)
	}
}

func (list ranObservers) notify(s *session, o *pendingReply, st *rewrite.Statement, tag []byte) {
	for _, f := range list {
		f(s, o, st, tag)
	}
}

// notifyCommitting calls the features' functions onCommitting in order, up to the first that says done.
func (table *observerTable) notifyCommitting(s *session, plan *rewrite.Plan) (done bool, err error) {
	for _, f := range table.committing {
		if done, err = f(s, plan); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// portalWork returns the first feature's work for a portal name that the session has not recorded, or nil.
func (table *observerTable) portalWork(s *session, name []byte) portalWork {
	for _, f := range table.portals {
		if work := f(s, name); work != nil {
			return work
		}
	}
	return nil
}

// replayReason returns retry.Replayable, or the first reason of a feature against a replay.
func (table *observerTable) replayReason(s *session) retry.RefusalReason {
	for i := range table.rows {
		if f := table.rows[i].onReplaying; f != nil {
			if reason := f(s); reason != retry.Replayable {
				return reason
			}
		}
	}
	return retry.Replayable
}

// loss returns the errors of a session that has lost state of a feature, or nil.
func (table *observerTable) loss(s *session) *lossErrors {
	for _, f := range table.losses {
		if errs := f(s); errs != nil {
			return errs
		}
	}
	return nil
}

// notify calls the functions of the list in order, up to the first error, which notify returns.
func (list planObservers) notify(s *session, plan *rewrite.Plan) error {
	for _, f := range list {
		if err := f(s, plan); err != nil {
			return err
		}
	}
	return nil
}

// dial calls the features' functions dials in order. It returns the first connection that one returns, or nil.
func (table *observerTable) dial(s *session) *reservoir.Conn {
	for i := range table.rows {
		if f := table.rows[i].dials; f != nil {
			if conn := f(s); conn != nil {
				return conn
			}
		}
	}
	return nil
}

func (table *observerTable) notifyAttached(s *session) (err error) {
	for i := 0; i < len(table.rows) && err == nil; i++ {
		if f := table.rows[i].onAttached; f != nil {
			err = f(s)
		}
	}
	return err
}

func (table *observerTable) notifyDetaching(s *session) {
	table.notifyEach(s, func(o *observer) func(*session) { return o.onDetaching })
}

func (table *observerTable) notifyDiscarded(s *session) {
	table.notifyEach(s, func(o *observer) func(*session) { return o.onDiscarded })
}

func (table *observerTable) notifyClosed(s *session) {
	table.notifyEach(s, func(o *observer) func(*session) { return o.onClosed })
}

func (table *observerTable) notifyEnded(s *session, committed bool) {
	table.notifyEachEnd(s, committed, func(o *observer) func(*session, bool) { return o.onEnded })
}

func (table *observerTable) notifySettled(s *session, committed bool) {
	table.notifyEachEnd(s, committed, func(o *observer) func(*session, bool) { return o.onSettled })
}

func (table *observerTable) notifyEach(s *session, point func(*observer) func(*session)) {
	for i := range table.rows {
		if f := point(&table.rows[i]); f != nil {
			f(s)
		}
	}
}

func (table *observerTable) notifyEachEnd(s *session, committed bool, point func(*observer) func(*session, bool)) {
	for i := range table.rows {
		if f := point(&table.rows[i]); f != nil {
			f(s, committed)
		}
	}
}

// hasChange reports whether a statement changes a setting by one of the actions in kinds, such as rewrite.ResetAll.
func hasChange(st *rewrite.Statement, kinds ...rewrite.SettingAction) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.SettingChange) bool { return slices.Contains(kinds, c.Action) })
}
