package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A text is planned as if it were UTF-8 with standard_conforming_strings on. Where the
// server reads it in another way, it may hide a statement from the plan: then it is
// not read at all. How a server reads it reports itself, whatever changed it; until a
// backend is lent, the session's settings say it, and what backends were dialled with.

// plan is the planner's, for a text that the server reads next; Unread where the server may
// read it in another way. It never is nil without an error, which is that of names.
func (s *session) plan(sql []byte) (*rewrite.Plan, error) {
	if err := s.unmapped(sql); err != nil {
		return nil, err
	}
	if r := s.reading(); r != 0 && r.Misleads(sql) {
		names, err := s.names()
		return s.srv.planner.UnreadIn(sql, names), err
	}
	if plan := s.namesNothing(sql); plan != nil {
		return plan, nil
	}
	plan, _, err := s.planned(sql)
	return plan, err
}

// unreadTemplate is that of a text that is not read. It is nobody else's, since the text
// may be taken for something else by another client's server.
func (s *session) unreadTemplate(sql, oids []byte) (*template, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	t := s.srv.newTemplate(sql, oids, s.srv.planner.UnreadIn(sql, names), s.parsing())
	t.own = true
	return t, refusal(t.plan)
}

// reading is how the server will read the session's next text, as far as that is known.
// Within a turn that may have changed the reading nothing is known, and the worst is
// assumed.
func (s *session) reading() rewrite.Reading {
	switch {
	case s.t.rereads:
		return rewrite.Recoded | rewrite.Escaping
	case s.b != nil && s.b.applied != nil:
		return s.b.reading | s.b.applied.Reading
	case s.b != nil:
		return s.b.reading
	case s.settings.InForce.Recodes:
		return s.settings.InForce.Reading | rewrite.Reading(s.srv.usual.Load())&^rewrite.Recoded
	}
	return rewrite.Reading(s.srv.usual.Load())
}

// noteReading notes how a backend read texts when it was dialled. Backends of one server
// are taken to be dialled alike: the last one speaks for the next. Most calls find nothing
// new, and write nothing.
func (srv *Server) noteReading(usual rewrite.Reading) {
	if rewrite.Reading(srv.usual.Load()) != usual {
		srv.usual.Store(uint32(usual))
	}
}

// readingOf is how a server reads texts that reports those parameters when it is dialled.
func readingOf(params map[string]string) (r rewrite.Reading) {
	for name, value := range params {
		r |= rewrite.ReadingOf(name, value)
	}
	return r
}

// noteReading is told of a parameter that the server reports. Each of the two parameters
// tells one half of the reading.
func (b *backend) noteReading(name, value string) {
	switch name {
	case "client_encoding":
		b.reading &^= rewrite.Recoded
	case "standard_conforming_strings":
		b.reading &^= rewrite.Escaping
	default:
		return
	}
	b.reading |= rewrite.ReadingOf(name, value)
}

// errOtherReading is told where a statement must be prepared on another backend, and
// would mean something else there.
var errOtherReading = &wire.Error{Code: "0A000", Message: "cannot prepare a statement again under another client_encoding",
	Detail: "The session's settings were changed since the client prepared it, and its text may mean something else under them.",
	Hint:   "Prepare it again behind the change."}
