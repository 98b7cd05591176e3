package copyin

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/proxy/copyrows"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A batch of rows is one INSERT if the planner accepts its length, otherwise several INSERTs. Even a single INSERT has
// a BEGIN and a COMMIT. So the outcome is known if the backend is lost, or a cancel comes, before the COMMIT.
//
// Sluice holds the rows of a batch until the server has answered its COMMIT, so that the batch can run again. It
// builds the text of an INSERT when it sends the INSERT.
//
// Outside of a block a batch is Sluice's own transaction, of which the client has seen nothing. After a conflict the
// batch runs again, even without a replay log, and after 54000 (too many rows) as two halves. If the outcome of a
// COMMIT is unknown, the client gets 08007 with the number of rows that are certainly stored.

const (
	// mostRows and mostBytes bound a batch of rows, by DSQL's limits of a transaction. DSQL's 10 MiB include indexes.
	mostRows  = 3000
	mostBytes = 8 << 20
	// mostInsertBytes bounds an INSERT of several rows. mostMappedBytes bounds an INSERT into a table with mapped
	// columns (bytea stored as text), because Sluice parses the INSERT.
	mostInsertBytes = 256 << 10
	mostMappedBytes = 32 << 10
	// mostBlockRows bounds the rows of an INSERT in a block, because the error of a constraint names the lines of its
	// INSERT.
	mostBlockRows = 50
)

// addRow adds a row to the batch. If the batch has no room for the row, addRow first inserts the batch.
func (c *Copy) addRow(row *copyrows.Row) error {
	size, most := copyrows.TupleLen(row.Fields), c.maxInsertBytes()
	if whole := size + len(c.into); whole > most {
		if err := c.tryInsertHeldRows(); err != nil {
			return err
		}
		return c.withStoredCount(&wire.Error{Code: "54000", Message: "row too long", Context: copyrows.DataPosition{Line: row.Line}.Context(c.Name),
			Detail: fmt.Sprintf("Its INSERT has %d bytes, of which %d are read (rewrite.max_bytes, backend.max_message_bytes).", whole, most)})
	}
	if len(c.held.Rows) == mostRows || c.held.Size()+size > mostBytes {
		if err := c.flushBatch(); err != nil {
			return err
		}
	}
	c.held.Add(row)
	return nil
}

// chargeMemory charges the held rows and data to the client's memory account. If there is no room, it inserts the
// held rows at once, in a shorter batch. An error is for the client or ends the session.
func (c *Copy) chargeMemory() error {
	if c.s.ChargeMemory(c.reader.MemoryBytes()+c.held.MemoryBytes()) == nil {
		return nil
	}
	if err := c.flushBatch(); err != nil {
		return err
	}
	c.held.Clear()
	return c.withStoredCount(c.s.ChargeMemory(c.reader.MemoryBytes()))
}

// maxInsertBytes returns the maximum length in bytes of an INSERT of one row. The planner must accept the text of the
// INSERT, and the server must accept its message.
func (c *Copy) maxInsertBytes() int {
	most := c.cfg.MaxStatementBytes
	if n := c.cfg.MaxMessageBytes; n > 0 {
		most = min(most, n)
	}
	return most - wire.HeaderLen - 1
}

// insertStatements returns the INSERTs of rows. An INSERT of several rows has at most half of maxInsertBytes, because
// a longer text could exceed the planner's limit of tokens.
func (c *Copy) insertStatements(rows []copyrows.HeldRow) iter.Seq[copyrows.InsertStatement] {
	most, count := min(mostInsertBytes, c.maxInsertBytes()/2), mostRows
	if c.block {
		count = mostBlockRows
	}
	if c.mapped {
		most = min(most, mostMappedBytes)
	}
	return c.held.Inserts(c.into, rows, count, most)
}

// flushBatch inserts the held rows of the batch. An error is for the client or ends the session.
func (c *Copy) flushBatch() error {
	if len(c.held.Rows) == 0 {
		return nil
	}
	if err := c.s.CheckMayContinue(); err != nil {
		return c.withStoredCount(err)
	}
	var err error
	if c.block {
		err = c.insertInBlock()
	} else {
		err = c.commitRows(c.held.Rows)
	}
	c.held.Reset()
	return err
}

// tryInsertHeldRows inserts the held rows without committing them, after an error in later data. It returns the
// server's error about the held rows, or nil if the server accepts them. Outside a block it rolls the rows back, and
// ignores errors that are not about the data. In a client's block the rows remain, because the block fails in any
// case.
func (c *Copy) tryInsertHeldRows() error {
	rows := c.held.Rows
	if len(rows) == 0 {
		return nil
	}
	if c.block {
		return c.insertInBlock()
	}
	_, f, err := c.runTransaction(rows, silent.ExpectRollback)
	if err != nil || f == nil || !f.isDataError() {
		return err
	}
	return c.locateFailure(f, rows)
}

// insertInBlock inserts the held rows within the client's block.
func (c *Copy) insertInBlock() error {
	for in := range c.insertStatements(c.held.Rows) {
		result, err := c.runSilently(in.Text, silent.ExpectInsert(len(in.Rows)))
		if err != nil {
			return err
		}
		if f := failureFrom(&result, in, 0); f != nil {
			return c.blockInsertError(f)
		}
		c.inserted += result.Answer.TagNumber()
	}
	return nil
}

// blockInsertError returns the error for the client after an INSERT in the client's block has failed.
func (c *Copy) blockInsertError(f *insertFailure) error {
	in := &f.InsertStatement
	if rewrite.IsSizeLimitError(f.err.Code, []byte(f.err.Message)) {
		f.err.Hint = "Send the COPY outside of a transaction: it is then committed in batches (" + rewrite.CopyFromKey + "). Or COPY less: a transaction changes at most 3,000 rows and 10 MiB, by all its statements."
	}
	where, sure := c.errorPlace(f)
	switch {
	case sure || !f.isDataError():
	case len(in.Rows) == 1:
		where = f.rowPlace(&in.Rows[0])
	default:
		f.err.Context = fmt.Sprintf("COPY %s, lines %d to %d", c.Name, in.Rows[0].Line, in.Rows[len(in.Rows)-1].Line)
		return f.err
	}
	return f.withPlace(where, c.Name)
}

// runSilently runs a statement of Sluice itself as a nested turn, with the expected answer want.
func (c *Copy) runSilently(sql string, want silent.ExpectedAnswer) (feature.NestedResult, error) {
	how := c.how
	how.Want = want
	return c.s.RunNested(sql, how)
}

// insertFailure describes an INSERT that has failed, or another cause that ended its transaction.
type insertFailure struct {
	err     *wire.Error
	payload []byte // of the server's error; nil for others
	// Insert is the INSERT that has failed. Insert is empty if another statement has failed.
	copyrows.InsertStatement
	before int // rows that the transaction inserted before this INSERT
}

// failureFrom returns the failure of the INSERT in, or nil if the INSERT has succeeded. before is the number of rows
// that earlier INSERTs of the transaction have inserted.
func failureFrom(r *feature.NestedResult, in copyrows.InsertStatement, before int) *insertFailure {
	switch {
	case r.Err != nil:
		return &insertFailure{err: r.Err, payload: r.Answer.ErrorPayload(), InsertStatement: in, before: before}
	case r.Stopped != nil:
		return &insertFailure{err: r.Stopped}
	}
	return nil
}

// isDataError reports whether the rows are the cause of the failure.
func (f *insertFailure) isDataError() bool {
	return strings.HasPrefix(f.err.Code, "22") || strings.HasPrefix(f.err.Code, "23")
}

// withPlace returns the error of a failure with a place in the COPY's data.
func (f *insertFailure) withPlace(where copyrows.DataPosition, table string) *wire.Error {
	e := *f.err
	contexts := []string{string(retry.ErrorField(f.payload, 'W')), where.Context(table)}
	e.Context = strings.Join(slices.DeleteFunc(contexts, func(s string) bool { return s == "" }), "\n")
	return &e
}

// runTransaction runs the INSERTs of rows in a transaction, and ends it by COMMIT or ROLLBACK, as how says. inserted
// is the server's count of rows. f is the failure of a statement, or nil. err is an error that ends the session. No
// transaction is open afterwards, whatever the result.
func (c *Copy) runTransaction(rows []copyrows.HeldRow, how silent.ExpectedAnswer) (inserted int, f *insertFailure, err error) {
	if f, err := c.runControl("BEGIN", silent.ExpectBegin); f != nil || err != nil {
		return 0, f, c.leaveTransaction(err)
	}
	before := 0
	for in := range c.insertStatements(rows) {
		result, err := c.runSilently(in.Text, silent.ExpectInsert(len(in.Rows)))
		if err != nil {
			return 0, nil, err
		}
		if f = failureFrom(&result, in, before); f != nil {
			break
		}
		before += len(in.Rows)
		inserted += result.Answer.TagNumber()
	}
	if f == nil {
		f, err = c.runControl(how.FirstWord(), how)
	}
	return inserted, f, c.leaveTransaction(err)
}

// leaveTransaction rolls an open transaction back, unless err ends the session. If it fails, it returns an error that
// ends the session, because otherwise the client's next statement would run in that transaction.
func (c *Copy) leaveTransaction(err error) error {
	if err != nil || !c.s.InBlock() {
		return err
	}
	f, err := c.runControl("ROLLBACK", silent.ExpectRollback)
	if err == nil && f != nil && c.s.InBlock() {
		err = errNotLeft
	}
	return err
}

// errNotLeft ends the session of a client whose next statement would be in a transaction of Sluice itself.
var errNotLeft = &wire.Error{Fatal: true, Code: "25000", Message: "the server did not end a transaction of Sluice's own",
	Hint: "Look which rows of the COPY are there before running it again."}

// runControl runs a BEGIN, COMMIT or ROLLBACK of Sluice itself.
func (c *Copy) runControl(sql string, want silent.ExpectedAnswer) (*insertFailure, error) {
	result, err := c.s.RunTxCommand(sql, want)
	return failureFrom(&result, copyrows.InsertStatement{}, 0), err
}

// commitRows inserts rows in a transaction, or in several if the rows are too many for one. An error is for the client
// or ends the session.
//
// A conflict reaches commitRows from a batch without a log for a replay, or whose log allows no further replay. The
// client has seen nothing of the batch. So the batch runs again, with the pauses of a transaction after its first
// conflict.
func (c *Copy) commitRows(rows []copyrows.HeldRow) error {
	attempts := retry.Attempts{}
	for {
		inserted, f, err := c.runTransaction(rows, silent.ExpectCommit)
		if err != nil {
			return err
		}
		if f == nil {
			c.inserted += inserted
			c.commits++
			c.cfg.Committed()
			return nil
		}
		switch class, cause := retry.Classify([]byte(f.err.Code), []byte(f.err.Message)); {
		case class == retry.Conflict && !c.how.OptsOut:
			pause, reason := attempts.NextDelay(c.cfg.Retry, cause, time.Now(), rand.Float64(), 0)
			if reason != retry.Replayable {
				return c.withStoredCount(f.err)
			}
			if err := c.s.Pause(pause); err != nil {
				return c.withStoredCount(err)
			}
		case rewrite.IsSizeLimitError(f.err.Code, []byte(f.err.Message)) && len(rows) > 1:
			if err := c.commitRows(rows[:len(rows)/2]); err != nil {
				return err
			}
			if err := c.s.CheckMayContinue(); err != nil {
				return c.withStoredCount(err)
			}
			return c.commitRows(rows[len(rows)/2:])
		case f.isDataError():
			return c.locateFailure(f, rows)
		default:
			return c.withStoredCount(f.err)
		}
	}
}

// locateFailure returns the error of a transaction of rows, with the line of the row that causes it. If the error does
// not show the line, locateFailure searches for the smallest number of first rows that fails. The last of these rows is
// the cause. Each attempt is a transaction that is rolled back.
func (c *Copy) locateFailure(f *insertFailure, rows []copyrows.HeldRow) error {
	where, sure := c.errorPlace(f)
	if sure {
		return c.withStoredCount(f.withPlace(where, c.Name))
	}
	low, high, seen := f.before, f.before+len(f.Rows), false // high rows fail, low rows do not
	for low+1 < high || !seen {
		n := (low + high) / 2
		if low+1 >= high {
			n = high
		}
		if c.s.CheckMayContinue() != nil {
			return c.withStoredCount(f.err)
		}
		_, again, err := c.runTransaction(rows[:n], silent.ExpectRollback)
		switch {
		case err != nil:
			return err
		case again != nil && again.err.Code == f.err.Code:
			high, seen = n, true
		case again != nil, n == high: // the failure is gone, or is another one
			return c.withStoredCount(f.err)
		default:
			low = n
		}
	}
	return c.withStoredCount(f.withPlace(f.rowPlace(&rows[high-1]), c.Name))
}

// rowPlace returns the place in the COPY's data of an error about a row. For an error of an index, which PostgreSQL
// checks after it has finished the line, the place has only the line's number.
func (f *insertFailure) rowPlace(row *copyrows.HeldRow) copyrows.DataPosition {
	where := row.RowPlace()
	if code := f.err.Code; strings.HasPrefix(code, "23") && code != notNullViolation && code != checkViolation {
		return copyrows.DataPosition{Line: where.Line}
	}
	return where
}

// These are SQLSTATEs of violated constraints. PostgreSQL checks foreign keys after the last line, and gives no line.
const (
	notNullViolation    = "23502"
	foreignKeyViolation = "23503"
	checkViolation      = "23514"
)

// errorPlace returns the place in the COPY's data for an error that has a position in the INSERT. sure says that no
// search for another place is needed.
func (c *Copy) errorPlace(f *insertFailure) (where copyrows.DataPosition, sure bool) {
	if f.err.Code == foreignKeyViolation || f.Text == "" {
		return where, true
	}
	where, column, ok := c.held.FindPlace(&f.InsertStatement, string(retry.ErrorField(f.payload, 'P')))
	if !ok || column >= len(c.names) {
		return copyrows.DataPosition{}, false
	}
	where.Column, where.Unknown = c.names[column], c.Binary
	return where, true
}
