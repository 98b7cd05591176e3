package proxy

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/proxy/copyrows"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The INSERTs of a COPY (copyinsert.go). A batch is one INSERT where that is short enough to be
// read, else several. Even one has a BEGIN and a COMMIT: so a loss or a cancel in front of the
// COMMIT has a known outcome.
//
// The rows of a batch are held until its COMMIT is answered, so that it can be run again; memory is
// bounded by that. Its INSERTs are made one after the other only where they are sent.
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

// add takes a row. The rows that are held are inserted first, where it does not go with them.
func (c *copying) add(row *copyrows.Row) error {
	size, most := copyrows.TupleLen(row.Fields), c.mostInsert()
	if whole := size + len(c.into); whole > most {
		if err := c.tried(); err != nil {
			return err
		}
		return c.partly(&wire.Error{Code: "54000", Message: "row too long", Context: copyrows.Where{Line: row.Line}.Context(c.Name),
			Detail: fmt.Sprintf("Its INSERT has %d bytes, of which %d are read (rewrite.max_bytes, backend.max_message_bytes).", whole, most)})
	}
	if len(c.held.Rows) == mostCopyRows || c.held.Size()+size > mostCopyBytes {
		if err := c.flush(); err != nil {
			return err
		}
	}
	c.held.Add(row)
	return nil
}

// charged has the account of the client bear the data that are held. Where it has no room for them, the
// rows are inserted at once, and the batch is shorter. An error is for the client, or the session's end.
func (c *copying) charged() error {
	s := c.s
	if s.charge.copied.TrySet(&s.account, c.reader.Held()+c.held.Held()) == nil {
		return nil
	}
	if err := c.flush(); err != nil {
		return err
	}
	c.held.Free()
	if full := s.charge.copied.TrySet(&s.account, c.reader.Held()); full != nil {
		return c.partly(errMemory(full))
	}
	return nil
}

// mostInsert bounds the text of an INSERT of one row: it must be read, and the server must take it.
func (c *copying) mostInsert() int {
	most := c.s.srv.cfg.MaxStatementBytes
	if n := c.s.srv.cfg.MaxMessageBytes; n > 0 {
		most = min(most, n)
	}
	return most - wire.HeaderLen - 1
}

// inserts are the INSERTs of rows. Those of several rows have half of what is read at most: the
// planner bounds the number of tokens too.
func (c *copying) inserts(rows []copyrows.Held) iter.Seq[copyrows.Insert] {
	most, count := min(mostInsertBytes, c.mostInsert()/2), mostCopyRows
	if c.block {
		count = mostBlockRows
	}
	if c.mapped {
		most = min(most, mostMappedBytes)
	}
	return c.held.Inserts(c.into, rows, count, most)
}

// flush inserts the rows that are held. An error is for the client, or the session's end.
func (c *copying) flush() error {
	if len(c.held.Rows) == 0 {
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
		err = c.commit(c.held.Rows)
	}
	c.held.Reset()
	return err
}

// tried is the error of the rows that are held, which are not to be committed any more; nil where
// the server takes them. A block fails by what follows, and there they are inserted. Any other
// error of the try is not told: what follows is.
func (c *copying) tried() error {
	rows := c.held.Rows
	if len(rows) == 0 {
		return nil
	}
	if c.block {
		return c.insertInBlock()
	}
	_, f, err := c.transact(rows, silent.Rollback)
	if err != nil || f == nil || !f.ofData() {
		return err
	}
	return c.located(f, rows)
}

// insertInBlock inserts the rows that are held in the client's block.
func (c *copying) insertInBlock() error {
	for in := range c.inserts(c.held.Rows) {
		end, err := c.ask(in.Text, silent.Insert(len(in.Rows)))
		if err != nil {
			return err
		}
		if f := failedInsert(&end, in, 0); f != nil {
			if rewrite.LimitsSize(f.told.Code, []byte(f.told.Message)) && f.told.Hint == "" {
				f.told.Hint = "COPY at most 3,000 rows in a transaction. Outside of one a COPY is committed in batches (" + rewrite.CopyFromKey + ")."
			}
			where, sure := c.placed(f)
			switch last := in.Rows[len(in.Rows)-1].Line; {
			case sure || !f.ofData():
			case len(in.Rows) == 1:
				where = f.ofRow(&in.Rows[0])
			default:
				f.told.Context = fmt.Sprintf("COPY %s, lines %d to %d", c.Name, in.Rows[0].Line, last)
				return f.told
			}
			return f.with(where, c.Name)
		}
		c.inserted += end.own.Number()
	}
	return nil
}

// ask runs a statement of the COPY's own as a silent turn, which is to be answered as want says.
func (c *copying) ask(sql string, want silent.Want) (insideEnd, error) {
	how := c.how
	how.own = silent.New(want)
	return c.s.part(sql, how)
}

// failure is an INSERT that has failed, or what ended the transaction that it was in.
type failure struct {
	told    *wire.Error
	payload []byte // of the server's error; nil for others
	// Insert is empty where it was none of them.
	copyrows.Insert
	before int // rows of the transaction in front of it
}

// failedInsert is how an INSERT has failed; nil where it has not.
func failedInsert(end *insideEnd, in copyrows.Insert, before int) *failure {
	switch {
	case end.told != nil:
		return &failure{told: end.told, payload: end.own.Failure(), Insert: in, before: before}
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
// ROLLBACK, as how says; inserted is how many rows the server has counted. It has failed where f is not nil;
// err is the session's end. No transaction is open afterwards, whatever has come of it.
func (c *copying) transact(rows []copyrows.Held, how silent.Want) (inserted int, f *failure, err error) {
	if f, err := c.control("BEGIN", silent.Begin); f != nil || err != nil {
		return 0, f, c.left(err)
	}
	before := 0
	for in := range c.inserts(rows) {
		end, err := c.ask(in.Text, silent.Insert(len(in.Rows)))
		if err != nil {
			return 0, nil, err
		}
		if f = failedInsert(&end, in, before); f != nil {
			break
		}
		before += len(in.Rows)
		inserted += end.own.Number()
	}
	if f == nil {
		f, err = c.control(how.Verb(), how)
	}
	return inserted, f, c.left(err)
}

// left rolls back what is still open behind a transaction that has failed, unless the session ends with err. The
// result ends the session: what is sent next would be of the same transaction.
func (c *copying) left(err error) error {
	if err != nil || !c.s.inBlock() {
		return err
	}
	f, err := c.control("ROLLBACK", silent.Rollback)
	if err == nil && f != nil && c.s.inBlock() {
		err = errNotLeft
	}
	return err
}

// errNotLeft ends the session of a client that would be in a transaction of Sluice's own.
var errNotLeft = &wire.Error{Fatal: true, Code: "25000", Message: "the server did not end a transaction of Sluice's own",
	Hint: "Look which rows of the COPY are there before running it again."}

// control runs BEGIN, COMMIT or ROLLBACK. What came to stop it counts behind it.
func (c *copying) control(sql string, want silent.Want) (*failure, error) {
	end, err := c.s.command(sql, want)
	if end.told == nil && end.stopped != nil {
		c.s.t.unheeded, end.stopped = end.stopped, nil
	}
	return failedInsert(&end, copyrows.Insert{}, 0), err
}

// commit inserts rows in a transaction of their own, or in several where they are too many for
// one. An error is for the client, or the session's end.
//
// The log of a transaction runs it again where it can; what reaches this place is a batch that no
// log has, or whose budget is spent. Nobody has seen anything of it, so that it may be run again
// all the same, with the pauses of a transaction that has met its first conflict.
func (c *copying) commit(rows []copyrows.Held) error {
	attempts := retry.Attempts{}
	for {
		inserted, f, err := c.transact(rows, silent.Commit)
		if err != nil {
			return err
		}
		if f == nil {
			c.inserted += inserted
			c.commits++
			c.s.srv.metrics.CopyBatch()
			return nil
		}
		switch class, cause := retry.Classify([]byte(f.told.Code), []byte(f.told.Message)); {
		case class == retry.Conflict && !c.how.optsOut && !c.s.optedOut:
			pause, reason := attempts.Next(&c.s.srv.cfg.Retry.Policy, cause, time.Now(), rand.Float64(), 0)
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
func (c *copying) located(f *failure, rows []copyrows.Held) error {
	where, sure := c.placed(f)
	if sure {
		return c.partly(f.with(where, c.Name))
	}
	low, high, seen := f.before, f.before+len(f.Rows), false // high rows fail, low rows do not
	for low+1 < high || !seen {
		n := (low + high) / 2
		if low+1 >= high {
			n = high
		}
		if c.s.wantsMore() != nil {
			return c.partly(f.told)
		}
		_, again, err := c.transact(rows[:n], silent.Rollback)
		switch {
		case err != nil:
			return err
		case again != nil && again.told.Code == f.told.Code:
			high, seen = n, true
		case again != nil, n == high: // what has failed does not any more, or does otherwise
			return c.partly(f.told)
		default:
			low = n
		}
	}
	return c.partly(f.with(f.ofRow(&rows[high-1]), c.Name))
}

// ofRow is the place of the error of a row. PostgreSQL looks at indexes when it has left the line,
// and tells no more than its number then.
func (f *failure) ofRow(row *copyrows.Held) copyrows.Where {
	where := row.Whole()
	if code := f.told.Code; strings.HasPrefix(code, "23") && code != notNullViolation && code != checkViolation {
		return copyrows.Where{Line: where.Line}
	}
	return where
}

// SQLSTATEs of constraints. PostgreSQL looks at foreign keys behind the last line, and tells none.
const (
	notNullViolation    = "23502"
	foreignKeyViolation = "23503"
	checkViolation      = "23514"
)

// placed is the place that an error tells, by its position in the INSERT. sure: no other place is
// to be looked for.
func (c *copying) placed(f *failure) (where copyrows.Where, sure bool) {
	if f.told.Code == foreignKeyViolation || f.Text == "" {
		return where, true
	}
	where, column, ok := c.held.At(&f.Insert, string(retry.Field(f.payload, 'P')))
	if !ok || column >= len(c.names) {
		return copyrows.Where{}, false
	}
	where.Column, where.Unknown = c.names[column], c.Binary
	return where, true
}
