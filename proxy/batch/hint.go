package batch

import (
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// IsRowLimitError reports whether the server's error says that a transaction changes too many rows.
func IsRowLimitError(payload []byte) bool {
	return rewrite.IsRowLimitError(string(retry.ErrorField(payload, 'C')), retry.ErrorField(payload, 'M'))
}

// RowLimitHint returns the hint for the error that a DELETE changes too many rows. It returns "" for other errors.
// Both bound and st may be nil.
func RowLimitHint(p *rewrite.Planner, bound *Params, plan *rewrite.Plan, st *rewrite.Statement, payload []byte) string {
	switch {
	case st == nil || !st.IsDelete() || !IsRowLimitError(payload):
		return ""
	case plan.SingleStatement() == nil:
		return rewrite.ChunkedSeveralHint
	case !plan.MayRunInBatches():
		return rewrite.ChunkedUnlistedHint
	case p.BatchedDelete(plan) == nil, bound != nil && parse.ContainsTimeWord(bound.Values):
		return rewrite.ChunkedOtherHint
	}
	return rewrite.ChunkedAloneHint
}
