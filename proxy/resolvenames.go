package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/mapping"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// This file plans a session's queries by what their relation names mean (schema.NameResolver). Package mapping
// resolves the names by the process's schema snapshot and the session's search path.
//
// The search path is that of the next statement. It includes staged settings, and the effects of statements that are
// not answered yet. If Sluice does not know the path, it refuses names that may be a mapped table's (bytea as text).

// clearPathDoubt forgets, at the end of a transaction, that its functions may have changed the search path.
func clearPathDoubt(s *session, _ bool) { s.mapped.ForgetPathDoubt() }

// namesForNextText returns the resolver of relation names for the session's next query, or nil if the process maps no
// columns. It may wait until the schema is read. A returned error goes to the client, or ends the session.
func (s *session) namesForNextText(sql []byte) (*schema.NameResolver, error) {
	if !s.srv.pool.keeper.Maps() {
		return nil, nil
	}
	s.mapped.BeginQuery()
	if s.schemaLoadCause() != "" {
		if err := s.loadSchemaIfDue(); err != nil {
			s.mapped.SetPlanned(nil) // texts that need no names may still be planned (planWithoutNames)
			return nil, err
		}
	}
	if err := readOwnSchema(s, sql); err != nil {
		s.mapped.SetPlanned(nil)
		return nil, err
	}
	s.mapped.SetPlanned(s.namesBySnapshot(currentSnapshot(s)))
	return s.mapped.Planned(), nil
}

// namesBySnapshot returns the resolver of the session's relation names by the schema snapshot now.
func (s *session) namesBySnapshot(now *mapping.Snapshot) *schema.NameResolver {
	return s.mapped.Names(now, &s.settings, s.pin.IsPinned(), s.isPathPending())
}

// isPathPending reports whether a pending reply may change the search path. The reply may answer a change of settings,
// or the end of a transaction with such a change.
func (s *session) isPathPending() bool {
	t := s.t
	if t.owed.empty() {
		return false
	}
	return t.parsing.movesNames || mapping.MayChangeResolution(s.settings.Staged.Changes) && slices.ContainsFunc(t.owed.items[t.owed.head:], func(o pendingReply) bool {
		return o.plan != nil && o.plan.Kind == rewrite.Control
	})
}

// planIgnoresSchema reports whether a change of the schema cannot change a statement's plan. If so, replanByNames
// neither changes the plan nor reads the schema.
func (p *pairing) planIgnoresSchema(plan *rewrite.Plan) bool {
	return plan.Pin == rewrite.PinUnparsed || mapping.IsSchemaIndependent(plan) || p.txStatus() == 'E'
}

// planWithoutNames returns the plan of a query whose meaning does not depend on relation names, after reading the names
// failed with err. For other queries it returns nil.
func (s *session) planWithoutNames(sql []byte, err error) *rewrite.Plan {
	plan := s.planner().Plan(sql)
	if isRefusal(err) && mapping.MayPlanWithoutNames(s.srv.pool.planner, sql, plan, err) {
		return plan
	}
	return nil
}

// planTextByNames returns the plan of a query, and the resolver of relation names by which it was planned.
func (s *session) planTextByNames(sql []byte) (*rewrite.Plan, *schema.NameResolver, error) {
	names, err := s.namesForNextText(sql)
	if err != nil {
		if plan := s.planWithoutNames(sql, err); plan != nil {
			return plan, nil, nil
		}
		return nil, nil, err
	}
	plan := s.planner().PlanWithNames(sql, names)
	if s.mustLoadSchema(plan) {
		if err := s.loadForMissingRelation(); err != nil {
			return nil, nil, err
		}
		names = s.namesBySnapshot(currentSnapshot(s))
		plan = s.planner().PlanWithNames(sql, names)
	} else if names != nil && planRefusal(plan) != nil && planRefusal(s.srv.pool.planner.Plan(sql)) == nil {
		if names, err = s.reloadBeforeRefusal(names); err != nil {
			return nil, nil, err
		}
		plan = s.planner().PlanWithNames(sql, names)
	}
	if names != nil && mapping.NamesMayChangeWithin(plan, s.settings.Staged.Changes) {
		names = names.Schema().ResolverForUnknownPath()
		plan = s.planner().PlanWithNames(sql, names)
	}
	if !s.parts.IsOn() && mapping.NeedsCommittedSchema(plan, names) {
		return nil, nil, mapping.ErrBehindDDL
	}
	s.mapped.SetPlanned(names)
	return plan, names, nil
}

// reloadBeforeRefusal returns newer names for a query that Sluice would refuse because of its names. It first reads
// the schema again, unless just read, since the server never sees the query and cannot report a schema change.
func (s *session) reloadBeforeRefusal(names *schema.NameResolver) (*schema.NameResolver, error) {
	if s.txStatus() == 'E' {
		return names, nil
	}
	if _, err := s.loadSchema(metrics.LoadError); err != nil && !mapping.IsNotRead(err) {
		return nil, err
	}
	return s.namesBySnapshot(currentSnapshot(s)), nil
}

// mustLoadSchema reports whether Sluice must read the schema before it sends a query, because the query's names are
// unknown. Relations that the transaction itself created are not visible to another backend.
func (s *session) mustLoadSchema(plan *rewrite.Plan) bool {
	return plan.Lacks && s.txStatus() != 'E' && !s.schema.ddl
}

// replanByNames plans a client's statement again if the schema, the search path or the client's options have changed,
// as a server does. prepareForClient checks whether the statement still returns the same columns. After an error, which
// goes to the client or ends the session, nothing is changed.
func (s *session) replanByNames(cs *statement.Client) error {
	t := cs.Template
	s.mapped.BeginQuery()
	if s.planIgnoresSchema(t.Plan) || s.bindsLiteralQuery(cs) {
		return nil
	}
	otherwise := s.optionsChanged(t)
	if !s.srv.pool.keeper.Maps() && !otherwise {
		return nil
	}
	var sql []byte
	if s.schema.ddl {
		sql = []byte(t.SQL)
	}
	names, err := s.namesForNextText(sql)
	if err != nil {
		if s.planWithoutNames([]byte(t.SQL), err) != nil {
			return nil
		}
		return err
	}
	if id := names.ID(); !otherwise && (id == t.Names || id == cs.Names) && !s.mustLoadSchema(t.Plan) {
		return nil
	}
	plan, names, err := s.planTextByNames([]byte(t.SQL))
	if err != nil {
		return err
	}
	if err := planRefusal(plan); err != nil {
		return err
	}
	switch same := plan.Text == t.Plan.Text && !otherwise; {
	case !same && t.Unshared:
		return errConstantsChanged // the backend has prepared the older text
	case !same || t.Plan.Lacks && !plan.Lacks:
		cs.Template = s.srv.pool.templates.Template(&s.t.scratch, []byte(t.SQL), []byte(t.OIDs), t.Parsing, names.ID(), plan.VariantNumberIn(s.planner()), plan).CurrentForm()
	}
	cs.Names = names.ID()
	return nil
}

// refuseUnparsedMapped refuses a query that is too long to be parsed, if its table may store bytea as text.
func (s *session) refuseUnparsedMapped() error {
	names, err := s.namesForNextText(nil)
	if err != nil || !names.MayMentionMapped(nil) {
		return err
	}
	r := rewrite.UnparsedMappedRefusal()
	return &wire.Error{Code: r.Code, Message: r.Message, Detail: r.Detail, Hint: r.Hint}
}

// refuseUnmapped refuses a query that names a table with mapped columns (bytea keys stored as text), in a process
// without mapping. Only the first query waits for the schema. Later ones use the latest snapshot.
func (s *session) refuseUnmapped(sql []byte) error {
	k := s.srv.pool.keeper
	if !k.Refuses() {
		return nil
	}
	if cause := k.Cause(s.srv.pool.templates.Epoch()); cause != "" && s.b == nil {
		if r, _ := k.Start(cause); r != nil && cause == metrics.LoadStart {
			if err := s.awaitSchemaLoad(r); err != nil && !mapping.IsNotRead(err) {
				return err
			}
		}
	}
	now := k.Snapshot()
	if now == nil {
		return nil // without a backend the text is not sent either
	}
	r := s.srv.pool.planner.UnmappedRefusal(sql, now.ResolverForUnknownPath())
	if r == nil || s.txStatus() == 'E' {
		return nil
	}
	return &wire.Error{Code: r.Code, Message: r.Message, Detail: r.Detail, Hint: r.Hint}
}
