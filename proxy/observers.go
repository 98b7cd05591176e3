package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// observer is what one feature does at fixed points of a session's life. A nil function does nothing. The session's
// goroutine calls all functions, in the order of the table observers. The points that each transaction passes call
// observers only if a feature wants that: watched of the Server and of the transaction say so.
type observer struct {
	name string
	// attached is called before a transaction begins on the idle backend, once Server.watched is set. The error is a
	// lost backend.
	attached func(s *session) error
	// detaching is called before the backend is closed. Backends that go back to the reservoir are not observed.
	detaching func(s *session)
	// ran is called when the server has run a statement for o, or a part of its rows. A tag of nil says that the portal
	// has more rows; st of nil, that the statement is unknown. Statements of a plan that only reads, or that is a
	// single write, are not observed: they are most, and completed calls by name what these two need.
	ran func(s *session, o *owed, st *rewrite.Statement, tag []byte)
	// ended is called when an answer ends a block: the server's, or Sluice's own if the server has not seen the block.
	// Another transaction may follow in the request.
	ended func(s *session, committed bool)
	// settled is called when the session is in no transaction any more, if transaction.watched is set. A lost backend
	// may have ended it: then committed is false.
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

// observed reports whether the statements of a plan meet the observers.
func observed(plan *rewrite.Plan) bool {
	return plan.Kind > rewrite.Read && (plan.Kind != rewrite.Write || len(plan.Statements) != 1)
}

// observerTable has a method for each point, which calls the functions of all rows.
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

// hasChange reports whether a statement makes a change of one of those kinds.
func hasChange(st *rewrite.Statement, kinds ...rewrite.Action) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.Change) bool { return slices.Contains(kinds, c.Action) })
}
