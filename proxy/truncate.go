package proxy

import (
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// TRUNCATE, which the server gets as a DELETE (rewrite.Truncation). The client gets the tag TRUNCATE TABLE
// (retag.go). It never sees the number of rows, which may differ in a replay.
//
// The DELETE itself checks, in its own snapshot, whether the tables may be truncated. So Sluice caches nothing of a
// catalog that others may change, and sends no query first. It works in blocks, multi-statement queries and
// pipelines. An error of the check contains the reason, and becomes PostgreSQL's error here.
//
// If a transaction cannot delete that many rows and batches are allowed, chunks.go deletes them table by table.
// Tables that refer to others of the statement come first.

// truncateRefused returns the error that replaces an error of the DELETE for the client; nil keeps it.
func truncateRefused(st *rewrite.Statement, payload []byte) *wire.Error {
	r := st.Truncation.TruncationRefusal(string(retry.Field(payload, 'C')), string(retry.Field(payload, 'M')))
	if r == nil {
		return nil
	}
	return &wire.Error{Code: r.Code, Message: r.Message, Detail: r.Detail, Hint: r.Hint}
}

// limitsTruncate reports whether a TRUNCATE that is alone in its text failed because it changes too many rows for one
// transaction.
func limitsTruncate(plan *rewrite.Plan, payload []byte) bool {
	if plan == nil || plan.Single() == nil || plan.Single().Truncation == nil {
		return false
	}
	return rewrite.LimitsSize(string(retry.Field(payload, 'C')), retry.Field(payload, 'M'))
}

// hintOfTruncate returns the hint for such an error, or "". st may be nil. In a block, and next to other statements,
// no batch may commit.
func hintOfTruncate(plan *rewrite.Plan, st *rewrite.Statement, payload []byte) string {
	switch {
	case st == nil || st.Truncation == nil || !rewrite.LimitsSize(string(retry.Field(payload, 'C')), retry.Field(payload, 'M')):
		return ""
	case plan.Listed():
		return "Send TRUNCATE alone outside of a transaction: more rows than one may change are then deleted in batches (" + rewrite.TruncateKey + ")."
	}
	return "Set " + rewrite.TruncateKey + " to batches: a TRUNCATE that is sent alone outside of a transaction is then carried out in several. Or DELETE at most 3,000 rows at a time."
}

// told returns the frames after the last batch. For a TRUNCATE in more than one transaction they include a warning. A
// DELETE returns its row count.
func (c *chunks) told() []byte {
	if c.form.Truncation() == nil {
		return wire.AppendCommand(nil, fmt.Sprintf("DELETE %d", c.deleted))
	}
	var frames []byte
	if c.batches > 1 {
		warning := &wire.Error{Code: "01000", Message: fmt.Sprintf("TRUNCATE was carried out in %d transactions", c.batches),
			Detail: fmt.Sprintf("%d rows are deleted. Others may have seen some of them gone, and rows that were inserted meanwhile may be there.", c.deleted)}
		frames = warning.AppendNotice(nil, "WARNING")
	}
	return append(frames, wire.AppendCommand(nil, rewrite.TruncateTag)...)
}

// order returns the tables in an order in which they can be emptied: a table that refers to another comes before it.
// It fails if tables refer to each other in a circle. It also fails if a table refers to itself, unless ON DELETE
// removes those references.
func (c *chunks) order() ([]*rewrite.Chunked, error) {
	each := c.form.Each()
	if c.form.Truncation() == nil {
		return each, nil
	}
	refers := make([][]int, len(each)) // indexed by the referring table
	waits := make([]int, len(each))    // number of tables that refer to this one
	circle := false
	err := c.s.askWhole(wire.AppendStrings(nil, wire.Query, c.form.Truncation().References()), func(row []byte) {
		var from, to int
		v := columnsOf(row)
		if len(v) != 3 {
			return
		}
		if n, err := fmt.Sscan(v[0]+" "+v[1], &from, &to); n != 2 || err != nil || max(from, to) >= len(each) || min(from, to) < 0 {
			return
		}
		if from != to {
			refers[from] = append(refers[from], to)
			waits[to]++
		} else if v[2] != "c" && v[2] != "n" {
			circle = true
		}
	})
	if err != nil {
		return nil, err
	}
	var order []*rewrite.Chunked
	var next []int
	for i, n := range waits {
		if n == 0 {
			next = append(next, i)
		}
	}
	for ; len(next) > 0; next = next[1:] {
		order = append(order, each[next[0]])
		for _, to := range refers[next[0]] {
			if waits[to]--; waits[to] == 0 {
				next = append(next, to)
			}
		}
	}
	if circle || len(order) < len(each) {
		c.refusal.Hint = "Rows of the tables refer to each other in a circle, so that batches have no order. Set the references to NULL, or drop the constraint, first; or delete at most 3,000 rows at a time."
		return nil, c.refusal
	}
	return order, nil
}
