package proxy

import (
	"bytes"
	"regexp"

	"github.com/sluice-proxy/sluice/proxy/request"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file plans queries that read only literals, such as SELECT 1, without waiting for the schema. Clients check
// with these queries whether a server is up. In a transaction or a pipeline, Sluice must read the schema before the
// first query, because it cannot do so later.

// planLiteralQuery plans a simple Query that reads only literals, outside a transaction, before Sluice has read the
// schema. For all other queries, or if the schema is known, it returns nil.
func (s *session) planLiteralQuery(sql []byte) *rewrite.Plan {
	s.mapped.BeginQuery()
	if !s.srv.pool.keeper.Maps() || s.srv.pool.keeper.Cause(s.srv.pool.templates.Epoch()) == "" || !literalQueryPattern.Match(sql) || s.txStatus() != 'I' || s.inBlock() || s.t.touched || !s.t.owed.empty() {
		return nil
	}
	plan := s.planner().Plan(sql)
	if plan.Kind != rewrite.Read || len(plan.Statements) != 1 || plan.Text != "" {
		return nil
	}
	s.mapped.SetPlannedWithoutNames()
	return plan
}

// literalQueryPattern matches SQL texts by which clients check whether a server is up, such as "select now()".
var literalQueryPattern = func() *regexp.Regexp {
	const value = `(-?\d+|'[^'\\]*'|true|null|now\(\)|version\(\)|current_timestamp)( as \w+)?`
	return regexp.MustCompile(`(?i)^\s*select ` + value + `(, ?` + value + `)*\s*;?\s*$`)
}()

// literalQueryTemplate returns the template for a Parse whose query reads only literals, or nil. The client's later
// frames up to the Sync must have arrived and must use only this statement.
func (s *session) literalQueryTemplate(name, sql, oids []byte) *statement.Template {
	if r := s.textReadingMode(); r != 0 && r.MayMislead(sql) {
		return nil
	}
	plan := s.planLiteralQuery(sql)
	if plan == nil {
		return nil
	}
	if !request.UsesOnly(s.client.Peek(s.client.Buffered()), func(other []byte) bool { return bytes.Equal(other, name) }) {
		s.mapped.BeginQuery()
		return nil
	}
	return s.srv.pool.templates.Template(&s.t.scratch, sql, oids, s.parsingKey(), 0, plan.VariantNumberIn(s.planner()), plan).CurrentForm()
}

// templateForParse returns the template for the text of a Parse. A returned error goes to the client.
func (s *session) templateForParse(name, sql, oids []byte) (*statement.Template, error) {
	if t := s.literalQueryTemplate(name, sql, oids); t != nil {
		return t, nil
	}
	return s.templateFor(sql, oids)
}

// bindsLiteralQuery reports whether the statement of a Bind or Describe reads only literals. A change of the schema
// cannot change the plan of such a statement.
func (s *session) bindsLiteralQuery(cs *statement.Client) bool {
	t := cs.Template
	if !s.srv.pool.keeper.Maps() || s.schemaLoadCause() == "" || s.optionsChanged(t) || t.Plan.Kind != rewrite.Read || t.Plan.Text != "" || s.txStatus() != 'I' || s.inBlock() || !literalQueryPattern.MatchString(t.SQL) ||
		!request.UsesOnly(s.client.Peek(s.client.Buffered()), func(name []byte) bool { return s.statements.Find(name) == cs }) {
		return false
	}
	s.mapped.SetPlannedWithoutNames()
	return true
}
