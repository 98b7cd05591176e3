package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/reservoir"
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
	// reads or is a single write, since most plans are. recordCompletion calls the two features that need these plans.
	onRan func(s *session, o *pendingReply, st *rewrite.Statement, tag []byte)
	// onEnded is called when a block ends, by the server's answer, or by Sluice's answer if no server has seen the block.
	// Another transaction may follow in the same request.
	onEnded func(s *session, committed bool)
	// onSettled is called when the session has left its transaction, if transaction.watched is set. committed is false if a
	// lost backend ended the transaction.
	onSettled func(s *session, committed bool)
	// onDiscarded is called when Sluice itself answers a DISCARD ALL.
	onDiscarded func(s *session)
	// onClosed is called at the end of the session, after its transaction has ended and its backend was given up.
	onClosed func(s *session)
}

// observers lists the features whose functions a session calls, in the order of the calls.
var observers = []observer{
	{name: "advisory locks", onAdmitting: checkLocksBefore, onSending: sendFenceBefore, onDetaching: recordLocksDetached, onDiscarded: releaseAllLocks, onClosed: releaseLocksAtEnd},
	{name: "sequences", onAdmitted: admitSequenceUse, dials: acquireForSequences, onAttached: discardForeignSequences,
		onRan: recordSequenceUse, onDiscarded: (*session).recordLocalDiscard},
	{name: "index jobs", onRan: recordIndexTxStatement, onEnded: recordIndexTxEnd},
	{name: "unparsed texts", onRan: recordUnparsedTag},
	{name: "settings", onRan: recordSettings},
	{name: "options", onRan: recordOptionsReset},
	{name: "parts", onEnded: forgetCommittedParts},
	{name: "statements", onRan: recordDeallocateAll, onDiscarded: forgetStatements},
	{name: "portals", onDiscarded: closePortals},
	{name: "schema", onRan: invalidateAfterDDL, onEnded: publishSchemaChange},
	{name: "stored cursors", onEnded: endStoredCursors, onSettled: endStoredCursors, onDiscarded: dropStoredCursors, onClosed: dropStoredCursors},
	{name: "mapping", onSettled: clearPathDoubt},
}

// needsRunObservers reports whether a session calls the observers' functions onRan for the statements of a plan.
func needsRunObservers(plan *rewrite.Plan) bool {
	return plan.Kind > rewrite.Read && (plan.Kind != rewrite.Write || len(plan.Statements) != 1)
}

// observerTable is a list of observers. Each method calls one function of all observers, at one point of a session.
// Functions that are called for each plan are in separate lists.
type observerTable struct {
	rows                         []observer
	admitting, admitted, sending planObservers
}

// planObservers are functions of features (observers) that a session calls with a plan.
type planObservers []func(s *session, plan *rewrite.Plan) error

// newObserverTable returns the table of the observers in rows.
func newObserverTable(rows []observer) *observerTable {
	table := &observerTable{rows: rows}
	for i := range rows {
		table.admitting = table.admitting.with(rows[i].onAdmitting)
		table.admitted = table.admitted.with(rows[i].onAdmitted)
		table.sending = table.sending.with(rows[i].onSending)
	}
	return table
}

func (list planObservers) with(f func(*session, *rewrite.Plan) error) planObservers {
	if f == nil {
		return list
	}
	return append(list, f)
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

func (table *observerTable) notifyRan(s *session, o *pendingReply, st *rewrite.Statement, tag []byte) {
	for i := range table.rows {
		if f := table.rows[i].onRan; f != nil {
			f(s, o, st, tag)
		}
	}
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
