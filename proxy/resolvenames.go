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

// This file plans a session's queries by the tables that their names mean (schema.NameResolver). Package mapping finds
// the tables in the schema snapshot (the process's copy of the schema), by the session's search path.
//
// Sluice uses the next statement's search path, with staged settings, and the effects of statements that are not
// answered yet. If Sluice does not know that path, it refuses names that may mean a mapped table (bytea as text).

// clearPathDoubt forgets, at the end of a transaction, that its functions may have changed the search path.
func clearPathDoubt(s *session, _ bool) { s.mapped.ForgetPathDoubt() }

// namesForNextText returns the resolver of relation names for the session's next query, or nil if the process maps no
// columns (bytea as text). It may wait for the schema. A returned error goes to the client, or ends the session.
func (s *session) namesForNextText(sql []byte) (*schema.NameResolver, error) {
	if !s.srv.pool.keeper.Maps() {
		return nil, nil
	}
	s.mapped.BeginQuery()
	if s.schemaLoadCause() != "" {
		if err := s.loadSchemaIfDue(); err != nil {
			s.mapped.SetPlanned(nil) // texts without relation names may still be planned (planWithoutNames)
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

// namesBySnapshot returns the resolver that finds the session's relation names in now, a snapshot of the schema.
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

// planIgnoresSchema reports whether no change of the schema can change a statement's plan. If so, replanByNames neither
// changes the plan nor reads the schema.
func (p *pairing) planIgnoresSchema(plan *rewrite.Plan) bool {
	return plan.Pin == rewrite.PinUnparsed || mapping.IsSchemaIndependent(plan) || p.txStatus() == 'E'
}

// planWithoutNames returns the plan of a query whose meaning depends on no relation name. Sluice calls it after reading
// the schema failed with err. For other queries it returns nil.
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

// reloadBeforeRefusal reads the schema again before Sluice refuses a query because of its relation names. It returns
// newer names. The server never sees a refused query, so it cannot report that the schema has changed.
func (s *session) reloadBeforeRefusal(names *schema.NameResolver) (*schema.NameResolver, error) {
	if s.txStatus() == 'E' {
		return names, nil
	}
	if _, err := s.loadSchema(metrics.LoadError); err != nil && !mapping.IsNotRead(err) {
		return nil, err
	}
	return s.namesBySnapshot(currentSnapshot(s)), nil
}

// mustLoadSchema reports whether Sluice must read the schema before it sends a query, because it does not know the
// query's names. After DDL of the transaction it is false: other backends do not see that DDL.
func (s *session) mustLoadSchema(plan *rewrite.Plan) bool {
	return plan.Lacks && s.txStatus() != 'E' && !s.schema.ddl
}

// replanByNames plans a client's statement again, as a server does, if the schema, the search path or the client's
// options have changed. prepareForClient checks whether the statement still returns the same columns. After an error,
// which goes to the client or ends the session, nothing has changed.
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

// refuseUnparsedMapped refuses a query that is too long to be parsed, if it may use a mapped table (bytea as text).
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
		return nil // there was no backend for the schema, so the text is not sent either
	}
	r := s.srv.pool.planner.UnmappedRefusal(sql, now.ResolverForUnknownPath())
	if r == nil || s.txStatus() == 'E' {
		return nil
	}
	return &wire.Error{Code: r.Code, Message: r.Message, Detail: r.Detail, Hint: r.Hint}
}
