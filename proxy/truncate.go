package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The server gets a TRUNCATE as a DELETE (rewrite.Truncation). The client gets the tag TRUNCATE TABLE (commandtag.go).
// It never sees the number of rows, which may differ in a replay.
//
// The DELETE itself checks, in its own snapshot, whether the tables may be truncated. So Sluice caches nothing of a
// catalog that others may change, and sends no query first. It works in blocks, multi-statement queries and pipelines.
// An error of the check contains the reason, and becomes PostgreSQL's error here.
//
// If a transaction cannot delete that many rows and batches are allowed, package batch deletes them table by table.
// Tables that refer to others of the statement come first.

// truncateError returns the error that replaces an error of the DELETE sent for a TRUNCATE. nil replaces nothing.
func truncateError(st *rewrite.Statement, payload []byte) *wire.Error {
	r := st.Truncation.TruncationRefusal(string(retry.ErrorField(payload, 'C')), string(retry.ErrorField(payload, 'M')))
	if r == nil {
		return nil
	}
	return &wire.Error{Code: r.Code, Message: r.Message, Detail: r.Detail, Hint: r.Hint}
}

// isTruncateTooLarge reports whether a TRUNCATE, alone in its text, failed for changing too many rows in a transaction.
func isTruncateTooLarge(plan *rewrite.Plan, payload []byte) bool {
	if plan == nil || plan.SingleStatement() == nil || plan.SingleStatement().Truncation == nil {
		return false
	}
	return rewrite.IsSizeLimitError(string(retry.ErrorField(payload, 'C')), retry.ErrorField(payload, 'M'))
}

// truncateHint returns the hint for a TRUNCATE of more rows than one transaction may change, or "". st may be nil. In a
// block, and with other statements, no batch may commit.
func truncateHint(plan *rewrite.Plan, st *rewrite.Statement, payload []byte) string {
	switch {
	case st == nil || st.Truncation == nil || !rewrite.IsSizeLimitError(string(retry.ErrorField(payload, 'C')), retry.ErrorField(payload, 'M')):
		return ""
	case plan.MayRunInBatches():
		return "Send TRUNCATE alone outside of a transaction: more rows than one may change are then deleted in batches (" + rewrite.TruncateKey + ")."
	}
	return "Set " + rewrite.TruncateKey + " to batches: a TRUNCATE that is sent alone outside of a transaction is then carried out in several. Or DELETE at most 3,000 rows at a time."
}
