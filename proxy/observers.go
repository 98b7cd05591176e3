package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// observer holds the functions that one feature runs at fixed points of a session's life. A nil function does nothing.
// The session's goroutine calls them in the order of the table observers. Points that every transaction passes call
// observers only if the server's or the transaction's field watched is set.
type observer struct {
	name string
	// attached is called before a transaction begins on an idle backend, if Server.watched is set. An error means that the
	// backend is lost.
	attached func(s *session) error
	// detaching is called before the backend is closed. It is not called for a backend that returns to the reservoir.
	detaching func(s *session)
	// ran is called after the server ran a statement for o, or returned a part of its rows. tag is nil if the portal has
	// more rows. st is nil if the statement is unknown. ran is not called for plans that only read or are a single write,
	// since most are. completed calls the two features that need these plans.
	ran func(s *session, o *owed, st *rewrite.Statement, tag []byte)
	// ended is called when a block ends, by the server's answer or by Sluice's own if no server has seen the block.
	// Another transaction may follow in the same request.
	ended func(s *session, committed bool)
	// settled is called when the session has left its transaction, if transaction.watched is set. committed is false if a
	// lost backend ended the transaction.
	settled func(s *session, committed bool)
	// discarded is called for a DISCARD ALL that Sluice answers itself.
	discarded func(s *session)
}

// observers lists the features in the order in which each point calls them.
var observers = observerTable{
	{name: "advisory locks", detaching: locksDetaching, discarded: (*session).unlockAll},
	{name: "sequences", attached: sequencesAttached, ran: sequencesRan, discarded: (*session).discardHere},
	{name: "index jobs", ran: indexJobRan, ended: indexJobEnded},
	{name: "unparsed texts", ran: unparsedRan},
	{name: "settings", ran: settingsRan},
	{name: "options", ran: optionsRan},
	{name: "parts", ended: partsEnded},
	{name: "statements", ran: statementsRan, discarded: (*session).forgetStatements},
	{name: "portals", discarded: (*session).closePortals},
	{name: "schema", ran: schemaRan, ended: schemaEnded},
	{name: "stored cursors", ended: storedEnded, settled: storedEnded, discarded: (*session).dropAllStored},
	{name: "mapping", settled: mappingSettled},
}

// observed reports whether observers' ran is called for the statements of a plan.
func observed(plan *rewrite.Plan) bool {
	return plan.Kind > rewrite.Read && (plan.Kind != rewrite.Write || len(plan.Statements) != 1)
}

// observerTable has a method for each point, which calls that function of all observers.
type observerTable []observer

func (table observerTable) attached(s *session) (err error) {
	for i := 0; i < len(table) && err == nil; i++ {
		if f := table[i].attached; f != nil {
			err = f(s)
		}
	}
	return err
}

func (table observerTable) ran(s *session, o *owed, st *rewrite.Statement, tag []byte) {
	for i := range table {
		if f := table[i].ran; f != nil {
			f(s, o, st, tag)
		}
	}
}

func (table observerTable) detaching(s *session) {
	table.each(s, func(o *observer) func(*session) { return o.detaching })
}

func (table observerTable) discarded(s *session) {
	table.each(s, func(o *observer) func(*session) { return o.discarded })
}

func (table observerTable) ended(s *session, committed bool) {
	table.end(s, committed, func(o *observer) func(*session, bool) { return o.ended })
}

func (table observerTable) settled(s *session, committed bool) {
	table.end(s, committed, func(o *observer) func(*session, bool) { return o.settled })
}

func (table observerTable) each(s *session, point func(*observer) func(*session)) {
	for i := range table {
		if f := point(&table[i]); f != nil {
			f(s)
		}
	}
}

func (table observerTable) end(s *session, committed bool, point func(*observer) func(*session, bool)) {
	for i := range table {
		if f := point(&table[i]); f != nil {
			f(s, committed)
		}
	}
}

// hasChange reports whether a statement makes a change of one of the kinds.
func hasChange(st *rewrite.Statement, kinds ...rewrite.Action) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.Change) bool { return slices.Contains(kinds, c.Action) })
}
