package mapping

import (
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// View resolves the relation names of one session (schema.NameResolver), by a snapshot of the schema and the
// session's search path. If the path is unknown, Sluice refuses names that may mean a mapped table of any schema.
// (Mapped tables have bytea stored as text.) One goroutine owns a View. The zero value has no names.
//
// The names of a View are valid for one schema and one set of settings. The View compares both by pointer, so that most
// queries cost two comparisons.
type View struct {
	schema *schema.Schema
	values *settings.Values
	names  *schema.NameResolver
	// planned has the relation names with which the current query was planned. It is nil if Sluice maps no column.
	planned *schema.NameResolver
	// pathLost is set if a statement on the pinned backend may have changed the search path without Sluice's knowledge.
	pathLost bool
	// pathMayHaveChanged is set if a function that the transaction called may have changed the search path.
	pathMayHaveChanged bool
	// namesNoRelation is set if the current query names no relation and was planned without a schema.
	namesNoRelation bool
}

// pinsHidingPath lists the reasons for a pin after which Sluice does not know the search path, or its tables.
var pinsHidingPath = map[rewrite.PinReason]bool{rewrite.PinTemp: true, rewrite.PinSetConfig: true, rewrite.PinProcedural: true,
	rewrite.PinUnparsed: true, rewrite.PinRole: true}

// Names returns the session's relation names by the snapshot now and the client's settings. pinned means that the
// session is pinned to its backend. pathPending means that a pending reply may change the search path.
func (v *View) Names(now *Snapshot, client *settings.Client, pinned, pathPending bool) *schema.NameResolver {
	switch {
	case pinned && v.pathLost, v.pathMayHaveChanged, pathPending:
		return now.ResolverForUnknownPath()
	case len(client.Staged.Changes) > 0:
		return resolveNames(now, client)
	case v.schema != now.Schema || v.values != client.InForce:
		v.schema, v.values, v.names = now.Schema, client.InForce, resolveNames(now, client)
	}
	return v.names
}

// resolveNames returns the relation names by a snapshot and the client's settings.
func resolveNames(now *Snapshot, client *settings.Client) *schema.NameResolver {
	if path, ok := effectiveSearchPath(client, now.base.role, now.base.path); ok {
		return now.ResolverFor(path)
	}
	return now.ResolverForUnknownPath()
}

// BeginQuery begins the session's next query, which may name relations.
func (v *View) BeginQuery() { v.namesNoRelation = false }

// SetPlanned records the names with which the current query was planned. names is nil if no column is mapped.
func (v *View) SetPlanned(names *schema.NameResolver) { v.planned = names }

// SetPlannedWithoutNames records that the current query names no relation, and was planned without a schema.
func (v *View) SetPlannedWithoutNames() { v.namesNoRelation, v.planned = true, nil }

// Planned returns the names with which the current query was planned, or nil.
func (v *View) Planned() *schema.NameResolver { return v.planned }

// NamesNoRelation reports whether the current query names no relation and was planned without a schema.
func (v *View) NamesNoRelation() bool { return v.namesNoRelation }

// IsPlanStale reports whether the current query was planned by another schema than that of the snapshot now.
func (v *View) IsPlanStale(now *Snapshot) bool {
	return v.planned != nil && v.planned.Schema() != now.Schema
}

// RecordPin records that a statement pins the session to its backend, for the reason why. pinned means that the session
// was pinned already.
func (v *View) RecordPin(why rewrite.PinReason, pinned bool) {
	v.pathLost = v.pathLost && pinned || pinsHidingPath[why]
}

// RecordPathDoubt records that a function which the transaction calls may change the search path. ForgetPathDoubt
// forgets that at the end of the transaction.
func (v *View) RecordPathDoubt() { v.pathMayHaveChanged = true }

// ForgetPathDoubt records the end of the transaction, which ends the doubt of RecordPathDoubt about the search path.
func (v *View) ForgetPathDoubt() { v.pathMayHaveChanged = false }
