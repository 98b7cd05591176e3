package mapping

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// noNames is the result of NoNames: a NameResolver that resolves no relation.
var noNames = schema.New(nil).ResolverForUnknownPath()

// NoNames returns names that resolve no relation. With them, the plan of a query that names a relation has the field
// Lacks set. All calls return the same NameResolver.
func NoNames() *schema.NameResolver { return noNames }

// IsSchemaIndependent reports whether a query, such as SET or BEGIN, has no names that depend on the schema. Clients
// send such queries first, when perhaps no backend is available to read the schema.
func IsSchemaIndependent(plan *rewrite.Plan) bool {
	return plan.Kind != rewrite.Unknown && !plan.AnyStatement(func(st *rewrite.Statement) bool {
		return st.Kind != rewrite.Setting && st.Kind != rewrite.Control
	})
}

// MayPlanWithoutNames reports whether a query may be sent by a plan without names, after getting the names failed with
// err. If no backend was free, the result is true only for SET, BEGIN and similar statements. If the server refused a
// reading, or the query follows DDL of its transaction, the result is also true for reads that name no relation.
func MayPlanWithoutNames(planner *rewrite.Planner, sql []byte, plan *rewrite.Plan, err error) bool {
	return IsSchemaIndependent(plan) ||
		(isRefused(err) || err == ErrBehindDDL) && plan.Kind <= rewrite.Read && !planner.PlanWithNames(sql, noNames).Lacks
}

// NamesMayChangeWithin reports whether the names of a multi-statement query may change their meaning between its
// statements. Sluice plans all statements of a query with the same names. staged are the transaction's changes of
// settings.
func NamesMayChangeWithin(plan *rewrite.Plan, staged []rewrite.SettingChange) bool {
	if len(plan.Statements) < 2 {
		return false
	}
	pending := MayChangeResolution(staged)
	return plan.AnyStatement(func(st *rewrite.Statement) bool {
		return st.Calls || MayChangeResolution(st.Changes) || pending && st.Kind == rewrite.Control
	})
}

// NeedsCommittedSchema reports whether a multi-statement query was planned by the schema of a transaction with DDL
// (ReadInBlock), and has statements behind a ROLLBACK. These statements need the schema from before the transaction.
func NeedsCommittedSchema(plan *rewrite.Plan, names *schema.NameResolver) bool {
	n := len(plan.Statements) - 1
	return n > 0 && names != nil && names.Schema().Outside != nil &&
		slices.ContainsFunc(plan.Statements[:n], func(st rewrite.Statement) bool { return st.Tx.Verb == rewrite.Rollback })
}
