package remains

import (
	"time"

	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Checks decides, for the backends of a process, when a backend must be asked about state that functions have left. It
// has the answer to HiddenCallsQuery. Checks is safe for concurrent use; a StateTrace is not.
type Checks struct {
	enabled bool
	hidden  hiddenCallsAnswer
	pace    question.Schedule // limits how often HiddenCallsQuery is sent
}

// answerAge is how long an answer to HiddenCallsQuery is valid.
const answerAge = time.Minute

// NewChecks returns the Checks of a process. If enabled is false, they mark no backend for a question.
func NewChecks(enabled bool) *Checks { return &Checks{enabled: enabled} }

// Enabled reports whether backends are asked about state that functions have left.
func (c *Checks) Enabled() bool { return c.enabled }

// RecordPlan marks a backend for a later question if the plan, which is about to be sent, may leave state there. epoch
// is the epoch (the version) of the schema.
func (c *Checks) RecordPlan(t *StateTrace, plan *rewrite.Plan, epoch uint64) {
	if !c.enabled {
		return
	}
	t.RecordPlan(plan)
	if plan.Kind == rewrite.Read || plan.Kind == rewrite.Write || plan.Kind == rewrite.Unknown {
		c.RecordUnseen(t, epoch)
	}
}

// RecordUnseen marks a backend for a later question if functions of triggers and the like may leave state there.
func (c *Checks) RecordUnseen(t *StateTrace, epoch uint64) {
	if c.hidden.MayLeaveState(epoch) {
		t.RequireQuery()
	}
}

// RecordCall marks a backend for a later question, because it gets a call of a function that Sluice does not know.
func (c *Checks) RecordCall(t *StateTrace) {
	if c.enabled {
		t.RecordCall()
	}
}

// RequireQuery marks a backend for a later question, regardless of plans.
func (c *Checks) RequireQuery(t *StateTrace) {
	if c.enabled {
		t.RequireQuery()
	}
}

// IsDue reports whether HiddenCallsQuery must be sent, because its answer is unknown or old. After a query without
// an answer the result is false for a while.
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

// RecordFault records that the server has not answered HiddenCallsQuery. The old answer remains, and the query is sent
// again after a pause.
func (c *Checks) RecordFault(now time.Time) { c.pace.RecordFault(now) }
