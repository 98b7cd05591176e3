package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/mapping"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// The key of a template includes the settings that a text is parsed under (settings.ParsingHashes). A transaction that
// has changed such a setting gets separate keys. These keys are odd and never used again, so that the transaction's
// templates are neither shared nor cached.

// newTxParsing returns a new key of settings for the transaction's next texts, after it changed settings. constants are
// the changed settings that affect SQL constants.
func (s *session) newTxParsing(constants parse.InputSettings) settings.ParsingHashes {
	p, n := s.parsingKey(), s.srv.txParsings.Add(1)<<1|1
	p.All = n
	p.Constants.SetHashes(constants, n)
	return p
}

// changedConstantSettings returns which settings that affect SQL constants may have changed. A change without a name
// may be of any setting.
func changedConstantSettings(changes []rewrite.SettingChange) (by parse.InputSettings) {
	for i := range changes {
		c := &changes[i]
		if c.Action == rewrite.ResetAll || c.Action == rewrite.DiscardAll || c.Name == "" {
			return allConstantSettings
		}
		by |= parse.InputSettingsNamed(c.Name)
	}
	return by
}

// allConstantSettings are all settings that affect the meaning of SQL constants, such as DateStyle.
var allConstantSettings = parse.InputSettingsNamed(settings.ConstantSettings...)

// parsingKey returns the key of the settings under which the server parses the session's next Parse. A transaction that
// has changed such a setting has a separate key until its end.
func (s *session) parsingKey() settings.ParsingHashes {
	if s.txParsing.All != 0 {
		return s.txParsing
	}
	return s.settings.InForce.Parsing
}

// recordParsingChange records that a statement about to be sent changes how later texts are parsed. A function that it
// calls may do so unseen. The transaction then has a separate key until the server's reports decide (settleParsing).
func (s *session) recordParsingChange(plan *rewrite.Plan) {
	s.recordSchemaChange(plan)
	if s.b != nil {
		s.srv.leftState.RecordPlan(&s.b.leftState, plan, s.srv.templates.Epoch())
	}
	s.trackResettingCalls(plan)
	if plan.Kind == rewrite.Read || len(plan.Statements) == 1 && len(plan.Statements[0].Changes) == 0 && !plan.Statements[0].Calls {
		return
	}
	calls, changes, constants := false, false, parse.InputSettings(0)
	for i := range plan.Statements {
		st := &plan.Statements[i]
		s.t.movesNames = s.t.movesNames || st.Calls || mapping.MayChangeResolution(st.Changes)
		if st.Calls {
			s.mapped.RecordPathDoubt()
			s.tx.watched = true
		}
		changes, constants = changes || len(st.Changes) > 0, constants|changedConstantSettings(st.Changes)
		calls = calls || st.Calls
	}
	switch {
	case changes:
		s.t.parsingChanged = true
		if calls {
			constants = allConstantSettings
		}
		s.txParsing = s.newTxParsing(constants)
	case calls && !s.t.guessed: // unknown until the next report
		s.t.guessed, s.t.txParsingWas = true, s.txParsing
		s.txParsing = s.newTxParsing(allConstantSettings)
	}
}

// settleParsing compares the backend's reports in a block with those before the turn, because a function may have
// changed how SQL is parsed. A guess that no report confirms is undone. If the text itself changed settings, the
// reports are not needed.
func (s *session) settleParsing() {
	t := s.t
	if t.parsingChanged || t.reported == s.b.settings.Reported() && !t.guessed {
		return
	}
	if t.guessed {
		s.txParsing = t.txParsingWas
	}
	if t.reported != nil && t.reported != s.b.settings.Reported() {
		for _, p := range s.b.settings.Reported().ChangedSince(t.reported) {
			if slices.Contains(settings.ParsingSettings, p.Lower) {
				s.txParsing = s.newTxParsing(allConstantSettings)
				return
			}
		}
	}
}
