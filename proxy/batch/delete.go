package batch

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Delete is a DELETE that the server has refused as too large for one transaction, or a TRUNCATE sent as one. Until
// the first batch nothing is changed, and an error of Run may be the server's refusal. Every later error of Run says
// how many rows are deleted.
type Delete struct {
	form    *rewrite.BatchedDelete
	params  *Params
	refusal *wire.Error // the server's error for the whole DELETE
	begun   bool        // a batch was sent
	deleted int         // rows that committed batches have deleted
	batches int         // batches that deleted rows
	closes  int         // Closes between the Execute and its Sync
}

// AddClose adds a CloseComplete to the answer, for a Close that the server has skipped after its error.
func (d *Delete) AddClose() { d.closes++ }

// Params are the parameters of a DELETE that was sent by Parse, Bind and Execute, in the client's formats.
type Params struct {
	OIDs   string // the parameter types that the Parse declares, as in its frame
	Values []byte // the Bind's body after its two names
}

// NewDelete returns a Delete that runs form in batches. params is nil if the client has sent the DELETE in a Query.
// refusal is the server's error for the whole DELETE.
func NewDelete(form *rewrite.BatchedDelete, params *Params, refusal *wire.Error) *Delete {
	return &Delete{form: form, params: params, refusal: refusal}
}

// Run deletes the rows of each table in batches. Run calls committed after each batch. An error of Run may be the
// server's refusal of the whole DELETE, with a hint. Described makes the client's error from an error of the server.
func (d *Delete) Run(server Server, committed func()) error {
	tables, err := d.order(server)
	if err != nil {
		return err
	}
	texts := make([]func(rows int) string, len(tables))
	// Run checks all tables first, since it cannot undo a batch of one table if another table cannot have batches.
	for i, table := range tables {
		key, err := keyOf(server, table.Table)
		if err != nil {
			return err
		}
		if len(key) == 0 {
			return d.refused("The table has no primary key, which batches (" + d.configKey() + ") go by. Delete at most 3,000 rows at a time.")
		}
		ok := false
		if texts[i], ok = table.BatchBuilder(key); !ok {
			return d.refused(rewrite.ChunkedOtherHint)
		}
	}
	for _, text := range texts {
		if err := d.deleteTableRows(server, text, committed); err != nil {
			return err
		}
	}
	return nil
}

// refused returns the server's error for the whole DELETE, with a hint why batches are not possible.
func (d *Delete) refused(hint string) *wire.Error {
	d.refusal.Hint = hint
	return d.refusal
}

// configKey returns the configuration key that allows the batches.
func (d *Delete) configKey() string {
	if d.form.Truncation() != nil {
		return rewrite.TruncateKey
	}
	return rewrite.ChunkedKey
}

// deleteTableRows deletes the rows of one table in batches. text returns the DELETE of at most rows rows.
func (d *Delete) deleteTableRows(server Server, text func(rows int) string, committed func()) error {
	for rows := Rows; ; {
		if err := server.CheckMayContinue(); err != nil {
			return err
		}
		d.begun = true
		n, err := server.Count(d.frames(text(rows)), "DELETE")
		refusal := server.RefusalFrom(err)
		switch {
		case refusal != nil && rows > 1 && rewrite.IsRowLimitError(refusal.Code, []byte(refusal.Message)):
			rows /= 2
			continue
		case err != nil:
			return err
		}
		d.deleted += n
		if n > 0 {
			d.batches++
		}
		committed()
		if n < rows {
			return nil
		}
	}
}

// frames returns the frames of one batch, in the protocol of the client's statement. The frames use the backend's
// unnamed statement and portal, because clients' prepared statements have names on a backend.
func (d *Delete) frames(text string) []byte {
	if d.params == nil {
		return wire.AppendStrings(nil, wire.Query, text)
	}
	frames := wire.AppendParse(nil, "", text, []byte(d.params.OIDs))
	frames = append(wire.AppendBindHead(frames, nil, "", len(d.params.Values)), d.params.Values...)
	return append(append(frames, wire.FrameExecuteAll...), wire.FrameSync...)
}

// Described returns the client's error for the server's error of a batch. The error says how many rows are deleted.
func (d *Delete) Described(refusal *wire.Error) *wire.Error {
	if t := d.form.Truncation(); t != nil {
		if r := t.TruncationRefusal(refusal.Code, refusal.Message); r != nil {
			refusal = &wire.Error{Code: r.Code, Message: r.Message, Detail: r.Detail, Hint: r.Hint}
		}
	}
	return d.withDeletedRows(refusal)
}

// withDeletedRows adds the number of deleted rows to an error.
func (d *Delete) withDeletedRows(refusal *wire.Error) *wire.Error {
	if !d.begun {
		return refusal
	}
	with := *refusal
	with.Detail = strings.TrimSpace(fmt.Sprintf("%s %d rows are deleted, and stay so.", refusal.Detail, d.deleted))
	if d.form.Truncation() != nil {
		with.Hint = "Send the statement again: it goes on from there."
	}
	return &with
}

// Lost returns the client's error after the loss of the backend. unknown is the error for a statement with an unknown
// outcome.
func (d *Delete) Lost(unknown *wire.Error) *wire.Error {
	if !d.begun { // the server has rolled the statement back
		return d.refusal
	}
	return d.withDeletedRows(unknown)
}

// Done returns the client's frames after the last batch: the command tag, and before the tag a warning if a TRUNCATE
// took more than one transaction. The answers to Closes follow the tag.
func (d *Delete) Done() []byte {
	return append(d.tagFrames(), bytes.Repeat(wire.FrameCloseComplete, d.closes)...)
}

// tagFrames returns the frames of Done up to the command tag.
func (d *Delete) tagFrames() []byte {
	if d.form.Truncation() == nil {
		return wire.AppendCommandComplete(nil, fmt.Sprintf("DELETE %d", d.deleted))
	}
	var frames []byte
	if d.batches > 1 {
		warning := &wire.Error{Code: "01000", Message: fmt.Sprintf("TRUNCATE was carried out in %d transactions", d.batches),
			Detail: fmt.Sprintf("%d rows are deleted. Others may have seen some of them gone, and rows that were inserted meanwhile may be there.", d.deleted)}
		frames = warning.AppendNotice(nil, "WARNING")
	}
	return append(frames, wire.AppendCommandComplete(nil, rewrite.TruncateTag)...)
}

// order returns the tables in an order in which they can be emptied: a table comes before the tables that it refers to.
// order fails if tables refer to each other in a circle. order also fails if a table refers to itself, unless ON DELETE
// removes those references.
func (d *Delete) order(server Server) ([]*rewrite.BatchedDelete, error) {
	tables := d.form.PerTable()
	if d.form.Truncation() == nil {
		return tables, nil
	}
	refers := make([][]int, len(tables)) // indexed by the referring table
	waits := make([]int, len(tables))    // number of tables that refer to this one
	circle := false
	err := server.Ask(d.form.Truncation().ForeignKeysQuery(), func(v []string) {
		var from, to int
		if len(v) != 3 {
			return
		}
		if n, err := fmt.Sscan(v[0]+" "+v[1], &from, &to); n != 2 || err != nil || max(from, to) >= len(tables) || min(from, to) < 0 {
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
	var order []*rewrite.BatchedDelete
	var next []int
	for i, n := range waits {
		if n == 0 {
			next = append(next, i)
		}
	}
	for ; len(next) > 0; next = next[1:] {
		order = append(order, tables[next[0]])
		for _, to := range refers[next[0]] {
			if waits[to]--; waits[to] == 0 {
				next = append(next, to)
			}
		}
	}
	if circle || len(order) < len(tables) {
		return nil, d.refused("Rows of the tables refer to each other in a circle, so that batches have no order. Set the references to NULL, or drop the constraint, first; or delete at most 3,000 rows at a time.")
	}
	return order, nil
}
