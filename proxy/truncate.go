package proxy

import (
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// TRUNCATE, for which a DELETE was sent (rewrite.Truncation). The client is sent the tag of its own
// statement (retag.go): how many rows there were it was not told, and a replay may find another number.
//
// Whether the tables may be truncated the statement asks itself, in the snapshot that it deletes
// in: nothing is remembered of a catalog that another process may have changed, and nothing has to
// be asked in front of it, so that it stands in blocks, strings and pipelines as any other does. Its
// error has the reason in it, and becomes PostgreSQL's own here.
//
// Where it is more than a transaction may change, and batches are allowed, chunks.go deletes them,
// table by table: those that refer to others of the statement first.

// truncateRefused is what the client is told of an error about a DELETE that stands for its
// TRUNCATE; nil for one that it is told as it is.
func truncateRefused(st *rewrite.Statement, payload []byte) *wire.Error {
	r := st.Truncation.TruncationRefusal(string(retry.Field(payload, 'C')), string(retry.Field(payload, 'M')))
	if r == nil {
		return nil
	}
	return &wire.Error{Code: r.Code, Message: r.Message, Detail: r.Detail, Hint: r.Hint}
}

// limitsTruncate reports whether an error says that a TRUNCATE, alone in its text, changes too
// much for one transaction.
func limitsTruncate(plan *rewrite.Plan, payload []byte) bool {
	if plan == nil || plan.Single() == nil || plan.Single().Truncation == nil {
		return false
	}
	return rewrite.LimitsSize(string(retry.Field(payload, 'C')), retry.Field(payload, 'M'))
}

// hintOfTruncate is the hint for such an error; "" for any other. st may be nil. Within a block, and
// beside other statements, no batch may commit.
func hintOfTruncate(plan *rewrite.Plan, st *rewrite.Statement, payload []byte) string {
	switch {
	case st == nil || st.Truncation == nil || !rewrite.LimitsSize(string(retry.Field(payload, 'C')), retry.Field(payload, 'M')):
		return ""
	case plan.Listed():
		return "Send TRUNCATE alone outside of a transaction: more rows than one may change are then deleted in batches (" + rewrite.TruncateKey + ")."
	}
	return "Set " + rewrite.TruncateKey + " to batches: a TRUNCATE that is sent alone outside of a transaction is then carried out in several. Or DELETE at most 3,000 rows at a time."
}

// told is what the client is sent behind the last batch. More than one was no transaction, which
// a TRUNCATE is to whoever wrote it, so that its client is warned. A DELETE tells its rows.
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

// order is the tables of the statement in an order in which they can be emptied: one whose rows
// refer to another's in front of that. A table that refers to itself would have to be emptied in
// the order of its rows, unless those that refer go with the others.
func (c *chunks) order() ([]*rewrite.Chunked, error) {
	each := c.form.Each()
	if c.form.Truncation() == nil {
		return each, nil
	}
	refers := make([][]int, len(each)) // by the place of the table that refers
	waits := make([]int, len(each))    // for so many that refer to it
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
