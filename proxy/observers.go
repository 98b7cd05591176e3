package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// observer is what one feature does at fixed points of a session's life. A nil function does nothing. The session's
// goroutine calls all functions. A feature that returns to its state with the transaction does so by the log.
type observer struct {
	name string
	// ran is called when the server has run a statement for o, or a part of its rows. A tag of nil says that the portal
	// has more rows; st of nil, that the statement is unknown. Statements of a plan that only reads, or that is a
	// single write, are not observed: they are most, and completed calls by name what these two need.
	ran func(s *session, o *owed, st *rewrite.Statement, tag []byte)
}

// observers lists the features in the order in which each point calls them.
var observers = []observer{
	{name: "sequences", ran: sequencesRan},
	{name: "index jobs", ran: indexJobRan},
	{name: "unparsed texts", ran: unparsedRan},
	{name: "settings", ran: settingsRan},
	{name: "options", ran: optionsRan},
	{name: "statements", ran: statementsRan},
	{name: "schema", ran: schemaRan},
}

// observed reports whether the statements of a plan meet the observers.
func observed(plan *rewrite.Plan) bool {
	return plan.Kind > rewrite.Read && (plan.Kind != rewrite.Write || len(plan.Statements) != 1)
}

// observeRun calls all observers of a statement that the server has run.
func (s *session) observeRun(o *owed, st *rewrite.Statement, tag []byte) {
	for i := range s.srv.observers {
		if ran := s.srv.observers[i].ran; ran != nil {
			ran(s, o, st, tag)
		}
	}
}

// hasChange reports whether a statement makes a change of one of those kinds.
func hasChange(st *rewrite.Statement, kinds ...rewrite.Action) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.Change) bool { return slices.Contains(kinds, c.Action) })
}
