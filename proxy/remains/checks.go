package remains

import (
	"time"

	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Checks decides when Sluice must ask a backend about state (temporary tables, say) that functions have left there.
// It stores the answer to HiddenCallsQuery. Checks is safe for concurrent use; a StateTrace is not.
type Checks struct {
	enabled bool
	hidden  hiddenCallsAnswer
	pace    question.Schedule // limits how often HiddenCallsQuery is sent
}

// answerAge is how long an answer to HiddenCallsQuery is valid.
const answerAge = time.Minute

// NewChecks returns the Checks of a process. If enabled is false, Sluice asks no backend about left state.
func NewChecks(enabled bool) *Checks { return &Checks{enabled: enabled} }

// Enabled reports whether Sluice asks backends about state that functions have left.
func (c *Checks) Enabled() bool { return c.enabled }

// RecordPlan records in t, a backend's trace, that Sluice must ask the backend about left state if the plan may leave
// some. The caller is about to send the plan. epoch is the version of the schema.
func (c *Checks) RecordPlan(t *StateTrace, plan *rewrite.Plan, epoch uint64) {
	if !c.enabled {
		return
	}
	t.RecordPlan(plan)
	if plan.Kind == rewrite.Read || plan.Kind == rewrite.Write || plan.Kind == rewrite.Unknown {
		c.RecordUnseen(t, epoch)
	}
}

// RecordUnseen records in t that Sluice must ask the backend if functions of triggers and the like may leave state.
func (c *Checks) RecordUnseen(t *StateTrace, epoch uint64) {
	if c.hidden.MayLeaveState(epoch) {
		t.RequireQuery()
	}
}

// RecordCall records in t that Sluice must ask the backend, because it gets a call of an unknown function.
func (c *Checks) RecordCall(t *StateTrace) {
	if c.enabled {
		t.RecordCall()
	}
}

// RequireQuery records in t that Sluice must ask the backend about left state, whatever plans it got.
func (c *Checks) RequireQuery(t *StateTrace) {
	if c.enabled {
		t.RequireQuery()
	}
}

// IsDue reports whether Sluice must send HiddenCallsQuery, because its answer is unknown or old. After a query
// without an answer the result is false for a while.
func (c *Checks) IsDue(epoch uint64, now time.Time) bool {
	return c.enabled && !c.pace.IsPausing(now) && c.hidden.isStale(epoch, now, answerAge, question.FirstPause)
}

// Claim reports whether the caller must send HiddenCallsQuery. Only one of several callers gets true. That caller calls
// RecordAnswer or RecordFault, unless its query was interrupted.
func (c *Checks) Claim(epoch uint64, now time.Time) bool {
	return c.IsDue(epoch, now) && c.hidden.claimQuestion(epoch, now, answerAge, question.FirstPause)
}

// RecordAnswer records the answer to a HiddenCallsQuery that was claimed in the given epoch.
func (c *Checks) RecordAnswer(epoch uint64, may bool, now time.Time) {
	c.hidden.RecordAnswer(epoch, may)
	c.pace.RecordAnswer(now, answerAge)
}

// RecordFault records that the server has not answered HiddenCallsQuery. The old answer remains, and Sluice sends the
// query again after a pause.
func (c *Checks) RecordFault(now time.Time) { c.pace.RecordFault(now) }
