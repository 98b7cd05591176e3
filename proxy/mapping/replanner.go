package mapping

import (
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// Replanner plans the texts of a transaction again by a newer snapshot of the schema, before a replay sends them. The
// search path stays that of the time when a text was sent. One goroutine owns a Replanner.
type Replanner struct {
	now     *Snapshot
	planner *rewrite.Planner
	refuses func(*rewrite.Plan) bool
	// plans maps each plan that the new schema has changed to its new plan.
	plans map[*rewrite.Plan]*rewrite.Plan
	lost  bool
}

// NewReplanner returns a Replanner for the snapshot now. planner makes the new plans, and refuses reports whether
// Sluice refuses the text of a plan. now may be nil if all texts were planned without names.
func NewReplanner(now *Snapshot, planner *rewrite.Planner, refuses func(*rewrite.Plan) bool) *Replanner {
	return &Replanner{now: now, planner: planner, refuses: refuses}
}

// Replan returns a text's plan by the new snapshot, and the names of that plan. It returns nil if nothing has
// changed. was is the old plan, and names are its names.
func (r *Replanner) Replan(sql []byte, names *schema.NameResolver, was *rewrite.Plan) (*rewrite.Plan, *schema.NameResolver) {
	if names == nil || names.Schema() == r.now.Schema || was.Pin == rewrite.PinUnparsed || IsSchemaIndependent(was) {
		return nil, nil
	}
	if outside := names.Schema().Outside; outside != nil { // the transaction's DDL is that of the log
		r.lost = r.lost || outside != r.now.Schema
		return nil, nil
	}
	names = names.ForSnapshot(r.now.Schema)
	plan := r.planner.PlanWithNames(sql, names)
	refused := r.refuses(plan)
	if plan.Text == was.Text && !refused {
		return nil, nil
	}
	r.lost = r.lost || refused || plan.Kind != was.Kind || plan.ActiveSplit() != nil || was.ActiveSplit() != nil
	if r.plans == nil {
		r.plans = map[*rewrite.Plan]*rewrite.Plan{}
	}
	r.plans[was], r.plans[was.AsWrite()] = plan, plan.AsWrite()
	return plan, names
}

// NewPlan returns the new plan for an old one, or nil if Replan has not changed the old plan.
func (r *Replanner) NewPlan(was *rewrite.Plan) *rewrite.Plan { return r.plans[was] }

// HasChanged reports whether Replan has made a new plan for any text.
func (r *Replanner) HasChanged() bool { return r.plans != nil }

// GiveUpIf records, if the condition is true, that a text cannot be sent by its new plan.
func (r *Replanner) GiveUpIf(condition bool) { r.lost = r.lost || condition }

// IsLost reports whether a text cannot be sent by its new plan. Either Sluice refuses the text, or the text's kind
// has changed, or the caller has called GiveUpIf.
func (r *Replanner) IsLost() bool { return r.lost }
