package proxy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/proxy/copyrows"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The INSERTs of a COPY (copyinsert.go). A batch is one INSERT where that is short enough to be
// read, else several. Even one has a BEGIN and a COMMIT: so a loss or a cancel in front of the
// COMMIT has a known outcome.
//
// Outside of a block a batch is Sluice's own transaction, of which the client has been told
// nothing: behind a conflict it is run again, whether or not a log has it, and behind 54000 in
// halves. Where the outcome of its COMMIT is unknown nothing more is tried, and the client is told
// (08007) how many rows are certainly in.

const (
	// mostCopyRows and mostCopyBytes bound a batch, by the limits of a transaction of DSQL: its
	// 10 MiB count indexes too.
	mostCopyRows  = 3000
	mostCopyBytes = 8 << 20
	// mostInsertBytes bounds an INSERT, unless a single row is longer; mostMappedBytes one that
	// has to be parsed.
	mostInsertBytes = 256 << 10
	mostMappedBytes = 32 << 10
	// mostBlockRows bounds an INSERT in a block, where an error of a constraint tells no more
	// than the lines of its INSERT.
	mostBlockRows = 50
)

// heldRows are rows that have not been inserted.
type heldRows struct {
	tuples []byte // as VALUES has them
	rows   []heldRow
}

// heldRow is one of them.
type heldRow struct {
	from, to int // in tuples
	line     int
	text     []byte // as much of the line as an error shows; nil in the binary format
}

// add takes a row. The rows that are held are inserted first, where it does not go with them.
func (c *copying) add(row *copyrows.Row) error {
	h := &c.held
	from := len(h.tuples)
	h.tuples = copyrows.AppendTuple(h.tuples, row.Fields)
	held := heldRow{from: from, to: len(h.tuples), line: row.Line}
	if row.Text != nil {
		held.text = slices.Clone(copyrows.Clip(row.Text))
	}
	if most, size := c.mostInsert(), held.to-from+len(c.into); size > most {
		h.tuples = h.tuples[:from]
		if err := c.tried(); err != nil {
			return err
		}
		return c.partly(&wire.Error{Code: "54000", Message: "row too long", Context: copyrows.Where{Line: row.Line}.Context(c.Name),
			Detail: "Its INSERT has " + strconv.Itoa(size) + " bytes, of which " + strconv.Itoa(most) + " are read (rewrite.max_bytes, backend.max_message_bytes)."})
	}
	if len(h.rows) > 0 && (len(h.rows) == mostCopyRows || len(h.tuples) > mostCopyBytes) {
		tuple := slices.Clone(h.tuples[from:])
		h.tuples = h.tuples[:from]
		if err := c.flush(); err != nil {
			return err
		}
		h.tuples = append(h.tuples, tuple...)
		held.from, held.to = 0, len(tuple)
	}
	h.rows = append(h.rows, held)
	return nil
}

// mostInsert bounds the text of an INSERT of one row.
func (c *copying) mostInsert() int {
	most := c.s.srv.cfg.MaxStatementBytes
	if n := c.s.srv.cfg.MaxMessageBytes; n > 0 {
		most = min(most, n)
	}
	return most - wire.HeaderLen - 1
}

// insert is one INSERT, of rows that are held.
type insert struct {
	text string
	rows []heldRow
}

// inserts are the INSERTs of rows.
func (c *copying) inserts(rows []heldRow) (all []insert) {
	most, count := min(mostInsertBytes, c.mostInsert()/2), mostCopyRows // half: the planner bounds tokens too
	if c.block {
		count = mostBlockRows
	}
	if c.mapped {
		most = min(most, mostMappedBytes)
	}
	for len(rows) > 0 {
		n, size := 1, rows[0].to-rows[0].from+len(c.into)
		for n < len(rows) && n < count && size+1+rows[n].to-rows[n].from <= most {
			size += 1 + rows[n].to - rows[n].from
			n++
		}
		var text strings.Builder
		text.Grow(size)
		text.WriteString(c.into)
		for i, row := range rows[:n] {
			if i > 0 {
				text.WriteByte(',')
			}
			text.Write(c.held.tuples[row.from:row.to])
		}
		all = append(all, insert{text.String(), rows[:n]})
		rows = rows[n:]
	}
	return all
}

// flush inserts the rows that are held. An error is for the client, or the session's end.
func (c *copying) flush() error {
	h := &c.held
	if len(h.rows) == 0 {
		return nil
	}
	if err := c.s.wantsMore(); err != nil {
		c.s.heeded(err)
		return c.partly(err)
	}
	var err error
	if c.block {
		err = c.insertInBlock()
	} else {
		err = c.commit(h.rows)
	}
	h.tuples, h.rows = h.tuples[:0], h.rows[:0]
	return err
}

// tried is the error of the rows that are held, which are not to be committed any more; nil where
// the server takes them. A block fails by what follows.
func (c *copying) tried() error {
	h := &c.held
	if len(h.rows) == 0 {
		return nil
	}
	if c.block {
		return c.insertInBlock()
	}
	f, err := c.transact(h.rows, "ROLLBACK")
	if err != nil || f == nil || !f.ofData() {
		return err
	}
	return c.located(f, h.rows)
}

// insertInBlock inserts the rows that are held in the client's block.
func (c *copying) insertInBlock() error {
	for _, in := range c.inserts(c.held.rows) {
		end, err := c.s.turnInside(c.how, func() error { return c.s.ask(in.text) })
		if err != nil {
			return err
		}
		if f := failedInsert(&end, in, 0); f != nil {
			where, sure := c.placed(f)
			if first, last := in.rows[0].line, in.rows[len(in.rows)-1].line; !sure && f.ofData() {
				f.told.Context = fmt.Sprintf("COPY %s, lines %d to %d", c.Name, first, last)
				return f.told
			}
			return f.with(where, c.Name)
		}
		c.inserted += len(in.rows)
	}
	return nil
}

// failure is an INSERT that has failed, or what ended the transaction that it was in.
type failure struct {
	told    *wire.Error
	payload []byte // of the server's error; nil for others
	insert         // empty where it was none of the INSERTs
	before  int    // rows of the transaction in front of it
}

// failedInsert is how an INSERT has failed; nil where it has not.
func failedInsert(end *insideEnd, in insert, before int) *failure {
	f := &failure{told: end.told, insert: in, before: before}
	for frame := range framesOf(end.kept) {
		if frame[0] == wire.ErrorResponse {
			f.payload = frame[wire.HeaderLen:]
		}
	}
	switch {
	case end.told != nil:
		return f
	case end.stopped != nil:
		return &failure{told: end.stopped}
	}
	return nil
}

// ofData reports whether the rows are what has failed.
func (f *failure) ofData() bool {
	return strings.HasPrefix(f.told.Code, "22") || strings.HasPrefix(f.told.Code, "23")
}

// with is the error with a place in the data.
func (f *failure) with(where copyrows.Where, table string) *wire.Error {
	told := *f.told
	said := []string{string(retry.Field(f.payload, 'W')), where.Context(table)}
	told.Context = strings.Join(slices.DeleteFunc(said, func(s string) bool { return s == "" }), "\n")
	return &told
}

// transact runs the INSERTs of rows in a transaction of their own, and ends it by COMMIT or
// ROLLBACK. It has failed where f is not nil; err is the session's end.
func (c *copying) transact(rows []heldRow, how string) (f *failure, err error) {
	if f, err := c.control("BEGIN"); f != nil || err != nil {
		return f, err
	}
	before := 0
	for _, in := range c.inserts(rows) {
		end, err := c.s.turnInside(c.how, func() error { return c.s.ask(in.text) })
		if err != nil {
			return nil, err
		}
		if f = failedInsert(&end, in, before); f != nil {
			break
		}
		before += len(in.rows)
	}
	if f == nil {
		f, err = c.control(how)
	}
	if err == nil && c.s.inBlock() {
		_, err = c.control("ROLLBACK")
	}
	return f, err
}

// control runs BEGIN, COMMIT or ROLLBACK. What came to stop it counts behind it.
func (c *copying) control(sql string) (*failure, error) {
	end, err := c.s.command(sql)
	if end.told == nil && end.stopped != nil {
		c.s.t.unheeded, end.stopped = end.stopped, nil
	}
	return failedInsert(&end, insert{}, 0), err
}

// commit inserts rows in a transaction of their own, or in several where they are too many for
// one. An error is for the client, or the session's end.
func (c *copying) commit(rows []heldRow) error {
	attempts := retry.Attempts{}
	for {
		f, err := c.transact(rows, "COMMIT")
		if err != nil {
			return err
		}
		if f == nil {
			c.inserted += len(rows)
			c.commits++
			c.s.srv.metrics.CopyBatch()
			return nil
		}
		switch class, cause := retry.Classify([]byte(f.told.Code), []byte(f.told.Message)); {
		case class == retry.Conflict && !c.how.optsOut && !c.s.optedOut:
			pause, reason := attempts.Next(&c.s.srv.cfg.Retry.Policy, cause, time.Now(), rand.Float64())
			if reason != retry.Replayable {
				return c.partly(f.told)
			}
			if err := c.s.pause(pause); err != nil {
				return c.partly(err)
			}
		case rewrite.LimitsSize(f.told.Code, []byte(f.told.Message)) && len(rows) > 1:
			if err := c.commit(rows[:len(rows)/2]); err != nil {
				return err
			}
			if err := c.s.wantsMore(); err != nil {
				c.s.heeded(err)
				return c.partly(err)
			}
			return c.commit(rows[len(rows)/2:])
		case f.ofData():
			return c.located(f, rows)
		default:
			return c.partly(f.told)
		}
	}
}

// located is the error of a transaction of rows, with the line that it is of. Where the error does
// not tell, the line is looked for: it is the last of the fewest rows that fail, each time in a
// transaction that is rolled back.
func (c *copying) located(f *failure, rows []heldRow) error {
	where, sure := c.placed(f)
	if sure {
		return c.partly(f.with(where, c.Name))
	}
	low, high, seen := f.before, f.before+len(f.rows), false // high rows fail, low rows do not
	for low+1 < high || !seen {
		n := (low + high) / 2
		if low+1 >= high {
			n = high
		}
		if c.s.wantsMore() != nil {
			return c.partly(f.told)
		}
		again, err := c.transact(rows[:n], "ROLLBACK")
		switch {
		case err != nil:
			return err
		case again != nil && again.told.Code == f.told.Code:
			high, seen = n, true
		case n == high: // what has failed does not any more
			return c.partly(f.told)
		default:
			low = n
		}
	}
	row := rows[high-1]
	where = copyrows.Where{Line: row.line, Text: row.text, Whole: row.text != nil && f.told.Code != uniqueViolation}
	return c.partly(f.with(where, c.Name))
}

// SQLSTATEs of constraints that say nothing of a line in PostgreSQL, or not of its text.
const (
	uniqueViolation     = "23505"
	foreignKeyViolation = "23503"
)

// placed is the place that an error tells, by its position in the INSERT. sure: no other place is
// to be looked for.
func (c *copying) placed(f *failure) (where copyrows.Where, sure bool) {
	if f.told.Code == foreignKeyViolation || f.text == "" {
		return where, true
	}
	at := byteAt(f.text, string(retry.Field(f.payload, 'P')))
	start := len(c.into)
	for _, row := range f.rows {
		size := row.to - row.from
		if at >= start && at < start+size {
			column, value := copyrows.At(c.held.tuples[row.from:row.to], at-start)
			if column >= len(c.names) {
				break
			}
			return copyrows.Where{Line: row.line, Column: c.names[column], Value: value, Null: value == nil, Unknown: c.Binary}, true
		}
		start += size + 1
	}
	return where, false
}

// byteAt is where a position of an error stands in a text, in bytes from 0; -1 for none.
func byteAt(text, position string) int {
	n, err := strconv.Atoi(position)
	if err != nil {
		return -1
	}
	at := 0
	for ; n > 1 && at < len(text); n-- {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return at
}
