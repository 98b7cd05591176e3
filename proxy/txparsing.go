package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// The settings that a text is parsed under, as a key of templates (settings.Parsing). A
// transaction that has changed such a setting has keys of its own, which are odd and never
// used again: its templates are nobody else's, and are not cached.

// parsingAfter is what the transaction's next texts are parsed under, once it has changed
// settings; constants are those of them that constants are read by. Each call makes a new key.
func (s *session) parsingAfter(constants parse.Readers) settings.Parsing {
	p, n := s.parsing(), s.srv.txParsings.Add(1)<<1|1
	p.All = n
	p.Constants.Set(constants, n)
	return p
}

// rereads returns which of the settings that constants are read by may be changed. A change without
// a name is one of anything.
func rereads(changes []rewrite.Change) (by parse.Readers) {
	for i := range changes {
		c := &changes[i]
		if c.Action == rewrite.ResetAll || c.Action == rewrite.DiscardAll || c.Name == "" {
			return allReaders
		}
		by |= parse.ReadersOf(c.Name)
	}
	return by
}

// allReaders are all settings that constants are read by.
var allReaders = parse.ReadersOf(settings.ConstantSettings...)

// parsing is the hash of the settings under which the session's next Parse runs. A
// transaction that changed one of them has a hash of its own, up to its end.
func (s *session) parsing() settings.Parsing {
	if s.txParsing.All != 0 {
		return s.txParsing
	}
	return s.settings.InForce.Parsing
}

// noteParsing notes that a statement, which is about to be sent, changes how later ones are parsed. A function that it
// calls may do so unseen: then a key of the transaction's own is used until the server's reports tell (settleParsing).
func (s *session) noteParsing(plan *rewrite.Plan) {
	s.changesSchema(plan)
	s.noteLeft(plan)
	s.noteCallers(plan)
	if plan.Kind == rewrite.Read || len(plan.Statements) == 1 && len(plan.Statements[0].Changes) == 0 && !plan.Statements[0].Calls {
		return
	}
	calls, changes, constants := false, false, parse.Readers(0)
	for i := range plan.Statements {
		st := &plan.Statements[i]
		s.t.movesNames = s.t.movesNames || st.Calls || movesNames(st.Changes)
		if st.Calls {
			s.mapped.called, s.tx.watched = true, true
		}
		changes, constants = changes || len(st.Changes) > 0, constants|rereads(st.Changes)
		calls = calls || st.Calls
	}
	switch {
	case changes:
		s.t.parsingChanged = true
		if calls {
			constants = allReaders
		}
		s.txParsing = s.parsingAfter(constants)
	case calls && !s.t.guessed: // up to the next report nobody knows
		s.t.guessed, s.t.txParsingWas = true, s.txParsing
		s.txParsing = s.parsingAfter(allReaders)
	}
}

// settleParsing compares what the backend reports in a block with what it reported before the turn: a function may have
// changed how later statements are parsed. A guess that no report confirms is taken back. Where the text itself told of
// changes, there is nothing to find out.
func (s *session) settleParsing() {
	t := s.t
	if t.parsingChanged || t.reported == s.b.reported && !t.guessed {
		return
	}
	if t.guessed {
		s.txParsing = t.txParsingWas
	}
	if t.reported != nil && t.reported != s.b.reported {
		for _, p := range s.b.reported.News(t.reported) {
			if slices.Contains(settings.ParsingSettings, p.Lower) {
				s.txParsing = s.parsingAfter(allReaders)
				return
			}
		}
	}
}
