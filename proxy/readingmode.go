package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Sluice parses a text as UTF-8 with standard_conforming_strings on. Under other settings the server could find a
// statement that the plan does not show. So Sluice then parses no text. The backend reports both settings. Without a
// backend, the client's settings and the last dialled backend decide.

// planNextText returns the plan of the next text for the server, never nil without an error. If the server may parse
// the text differently, the plan is that of unparsed text. A returned error goes to the client, or ends the session.
func (s *session) planNextText(sql []byte) (*rewrite.Plan, error) {
	if err := s.refuseUnmapped(sql); err != nil {
		return nil, err
	}
	if r := s.textReadingMode(); r != 0 && r.MayMislead(sql) {
		names, err := s.namesForNextText(sql)
		return s.srv.pool.planner.UnparsedPlanFor(sql, names), err
	}
	if plan := s.planLiteralQuery(sql); plan != nil {
		return plan, nil
	}
	plan, _, err := s.planTextByNames(sql)
	return plan, err
}

// unparsedTemplate returns a template for a text that Sluice does not parse. Clients do not share the template, since
// another client's server may parse the text differently.
func (s *session) unparsedTemplate(sql, oids []byte) (*statement.Template, error) {
	names, err := s.namesForNextText(sql)
	if err != nil {
		return nil, err
	}
	t := s.srv.pool.templates.New(sql, oids, s.srv.pool.planner.UnparsedPlanFor(sql, names), s.parsingKey())
	t.Unshared = true
	return t, planRefusal(t.Plan)
}

// textReadingMode returns how the server will read the session's next text (encoding, backslashes). In a turn that may
// have changed the settings for parsing, the result is the worst case.
func (s *session) textReadingMode() rewrite.ReadingMode {
	switch {
	case s.t.parsing.rereads:
		return rewrite.Recoded | rewrite.Escaping
	case s.b != nil:
		return s.b.settings.NextReading()
	}
	return s.srv.pool.settings.ReadingUnder(s.settings.InForce)
}

// errOtherReading refuses to prepare a statement on another backend, where the text would mean something different.
var errOtherReading = &wire.Error{Code: "0A000", Message: "cannot prepare a statement again under another client_encoding",
	Detail: "The session's settings were changed since the client prepared it, and its text may mean something else under them.",
	Hint:   "Prepare it again behind the change."}
