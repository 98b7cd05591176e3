package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/mapping"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// parsingKey returns the key of the settings under which the server parses the session's next Parse. A transaction that
// has changed such a setting has a separate key until its end.
func (s *session) parsingKey() settings.ParsingHashes {
	return s.txParsing.Key(s.settings.InForce)
}

// recordParsingChange records that a statement about to be sent changes how later texts are parsed. A function that
// the statement calls may do so unseen. The transaction then has a separate key, until the server's reports show no
// change (TurnParsing.Settle).
func (s *session) recordParsingChange(plan *rewrite.Plan) {
	s.recordSchemaChange(plan)
	if s.b != nil {
		s.srv.pool.leftState.RecordPlan(&s.b.leftState, plan, s.srv.pool.templates.Epoch())
	}
	s.trackResettingCalls(plan)
	if plan.Kind == rewrite.Read || len(plan.Statements) == 1 && len(plan.Statements[0].Changes) == 0 && !plan.Statements[0].Calls {
		return
	}
	for i := range plan.Statements {
		st := &plan.Statements[i]
		s.t.parsing.movesNames = s.t.parsing.movesNames || st.Calls || mapping.MayChangeResolution(st.Changes)
		if st.Calls {
			s.mapped.RecordPathDoubt()
			s.tx.watched = true
		}
	}
	s.t.parsing.changes.Record(s.srv.pool.settings, &s.txParsing, s.settings.InForce, plan.Statements)
}
