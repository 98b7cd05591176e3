package proxy

import (
	"bytes"
	"regexp"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A text that reads literals alone waits for no reading of the schema, neither here nor on its backend
// (fitBackend): clients look with such texts whether a server is there. In a transaction, and in a pipeline of other
// texts, the schema is read in front of the first text, since nobody can be asked when a later one needs it.

// namesNothing plans a Query that reads literals alone, outside of a transaction, where the schema is to be read. It
// returns nil for any other text, and where the schema is known.
func (s *session) namesNothing(sql []byte) *rewrite.Plan {
	s.mapped.nothing = false
	if !s.srv.keeper.on || s.srv.schemaDue() == "" || !namesNothing.Match(sql) || s.status() != 'I' || s.inBlock() || s.t.touched || !s.t.owed.empty() {
		return nil
	}
	plan := s.planner().Plan(sql)
	if plan.Kind != rewrite.Read || len(plan.Statements) != 1 || plan.Text != "" {
		return nil
	}
	s.mapped.nothing, s.mapped.planned = true, nil
	return plan
}

// namesNothing matches the texts by which clients look whether a server is there.
var namesNothing = func() *regexp.Regexp {
	const value = `(-?\d+|'[^'\\]*'|true|null|now\(\)|version\(\)|current_timestamp)( as \w+)?`
	return regexp.MustCompile(`(?i)^\s*select ` + value + `(, ?` + value + `)*\s*;?\s*$`)
}()

// namesNothingParsed is the template of a Parse as namesNothing plans a Query; nil for any other. The rest of its
// request must have come with it, and be about this statement.
func (s *session) namesNothingParsed(name, sql, oids []byte) *template {
	if r := s.reading(); r != 0 && r.Misleads(sql) {
		return nil
	}
	plan := s.namesNothing(sql)
	if plan == nil {
		return nil
	}
	if !s.restIsOf(func(other []byte) bool { return bytes.Equal(other, name) }) {
		s.mapped.nothing = false
		return nil
	}
	return s.srv.template(&s.t.scratch, sql, oids, s.parsing(), 0, plan.Choosable(s.planner()), plan).inForce()
}

// parsedTemplate is the template of a Parse. The error is that of template.
func (s *session) parsedTemplate(name, sql, oids []byte) (*template, error) {
	if t := s.namesNothingParsed(name, sql, oids); t != nil {
		return t, nil
	}
	return s.template(sql, oids)
}

// namesNothingBound reports whether a statement, which is bound or described next, reads literals alone, as
// namesNothingParsed has it. No schema makes another plan of it.
func (s *session) namesNothingBound(cs *clientStatement) bool {
	t := cs.tmpl
	if !s.srv.keeper.on || s.schemaDue() == "" || s.outchosen(t) || t.plan.Kind != rewrite.Read || t.plan.Text != "" || s.status() != 'I' || s.inBlock() || !namesNothing.MatchString(t.sql) ||
		!s.restIsOf(func(name []byte) bool { return s.statement(name) == cs }) {
		return false
	}
	s.mapped.nothing, s.mapped.planned = true, nil
	return true
}

// restIsOf reports whether all frames up to the client's Sync have come, and are about statements that is takes.
func (s *session) restIsOf(is func(name []byte) bool) bool {
	rest := s.client.Peek(s.client.Buffered())
	for {
		typ, total, err := wire.FrameAt(rest)
		if err != nil || total == 0 || total > len(rest) {
			return false
		}
		frame := rest[:total]
		rest = rest[total:]
		switch typ {
		case wire.Sync:
			return true
		case wire.Execute, wire.Flush:
		case wire.Bind:
			if _, of, _, ok := bindNames(frame[wire.HeaderLen:]); !ok || !is(of) {
				return false
			}
		case wire.Describe:
			if what, of, err := namedTarget(frame, "DESCRIBE"); err != nil || what == 'S' && !is(of) {
				return false
			}
		case wire.Close:
			if what, _, err := namedTarget(frame, "CLOSE"); err != nil || what != 'P' {
				return false
			}
		default:
			return false
		}
	}
}
