package proxy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// DELETEs of more rows than a transaction of DSQL may change. The server has refused the
// statement as it was sent: where it stood alone and its table is listed, Sluice keeps the
// error, and behind the ReadyForQuery deletes the rows in batches on the same backend, each a
// transaction of its own. replyError asks putOff, relayed calls settleChunks.
//
// Until the first batch is sent nothing has changed, and the client can be told the server's
// error. From then on every error says how many rows are gone. Only a cut at the end of a
// drain and the loss of the backend end a batch that runs: cancel, timeout and a client that
// has left are looked at in between, so that the number is true.

const (
	// batchRows is of how many rows the first batch is: rows of other tables that go with
	// them count too, so a batch that is refused is halved.
	batchRows = 2900
	// mostBound bounds the Bind whose values are kept; those of comparisons are short.
	mostBound = 64 << 10
)

// boundDelete is what it takes to run the statement of an Execute in batches: of a listed
// table, with the values of its Bind.
type boundDelete struct {
	oids   string
	values []byte // what follows the names in the Bind
}

// keepBound takes the Bind of a DELETE that may be run in batches off the client's stream,
// and returns what is kept of it; nil for any other.
func (s *session) keepBound(b *binding) (*boundDelete, error) {
	if !b.cs.tmpl.plan.Listed() || s.srv.cfg.Kind != DSQL || s.inBlock() || b.whole || b.total > min(mostBound, s.srv.cfg.MaxStatementBytes) {
		return nil, nil
	}
	if err := s.takeWhole(b); err != nil {
		return nil, err
	}
	return &boundDelete{oids: b.cs.tmpl.oids, values: bytes.Clone(b.rest)}, nil
}

// executesAlone reports whether nothing has run in front of the statement at hand in its
// group, and it stands outside of a block.
func (s *session) executesAlone() bool { return !s.t.executed && !s.t.ranLocal && !s.inBlock() }

// boundAlone is what is kept of a portal that is about to be run, where it stands alone; nil
// for any other.
func (s *session) boundAlone(p *portal) *boundDelete {
	if p.bound == nil || !s.executesAlone() {
		return nil
	}
	return p.bound
}

// chunks is a DELETE that is run in batches, from the server's refusal to the answer.
type chunks struct {
	s       *session
	form    *rewrite.Chunked
	bound   *boundDelete // nil: it came by a simple Query
	refusal *wire.Error  // the server's
	begun   bool         // a batch was sent
	deleted int          // rows of the batches that are committed
	batches int          // that were not empty
}

// putOff is told of an error that answers head, and keeps it from the client where the
// statement is to be run in batches. It stood alone, and all of its turn has been read.
func (s *session) putOff(head *owed, payload []byte) bool {
	t := s.t
	if !limitsRows(payload) && !limitsTruncate(head.plan, payload) || s.srv.cfg.Kind != DSQL || t.phase != live || !t.ended || s.inBlock() || head.plan == nil {
		return false
	}
	switch {
	case head.kind == wire.Query && t.owed.len() == 1 && t.strung == nil && s.executesAlone():
	case head.kind == wire.Execute && t.owed.len() == 2 && t.owed.items[len(t.owed.items)-1].kind == wire.Sync &&
		head.bound != nil && !rewrite.Momentary(head.bound.values):
	default:
		return false
	}
	form := s.srv.planner.Chunked(head.plan)
	if form == nil {
		return false
	}
	t.chunks = &chunks{s: s, form: form, bound: head.bound, refusal: toldBy(payload)}
	s.tx.log.Refuse(retry.Failed)
	t.owed.failed(s.skipped)
	s.srv.metrics.Unsupported(head.plan.Operation, string(rewrite.ChunkedDelete))
	return true
}

// limitsRows reports whether an error says that a transaction changes too many rows.
func limitsRows(payload []byte) bool {
	return rewrite.LimitsRows(string(retry.Field(payload, 'C')), retry.Field(payload, 'M'))
}

// hintOfRows is the hint for an error that says that a DELETE changes too many rows; "" for
// any other.
func (s *session) hintOfRows(o *owed, plan *rewrite.Plan, st *rewrite.Statement, payload []byte) string {
	switch {
	case st == nil || !st.Deletes() || !limitsRows(payload):
		return ""
	case plan.Single() == nil:
		return rewrite.ChunkedAloneHint
	case !plan.Listed():
		return rewrite.ChunkedUnlistedHint
	case s.srv.planner.Chunked(plan) == nil, o.bound != nil && rewrite.Momentary(o.bound.values):
		return rewrite.ChunkedOtherHint
	}
	return rewrite.ChunkedAloneHint
}

// settleChunks ends a turn whose DELETE is run in batches, behind the server's
// ReadyForQuery, which was kept from the client. An error is a loss, which lossTold tells,
// or the session's end.
func (s *session) settleChunks() error {
	answer, err := s.t.chunks.answer()
	if err != nil {
		return err
	}
	if answer[0] == wire.ErrorResponse {
		s.t.errorTold = true
		s.srv.metrics.ErrorSent(string(retry.Field(answer[wire.HeaderLen:], 'C')))
	}
	s.t.chunks = nil
	status := s.b.status
	if err := s.settle(status); err != nil {
		return err
	}
	return s.passSpan(wire.AppendReady(s.appendName(answer, status), status))
}

// answer runs the batches, and returns the frame that the client gets.
func (c *chunks) answer() ([]byte, error) {
	err := c.run()
	if stops(err) && err != errCut {
		c.s.heeded(err)
	}
	told, ok := err.(*wire.Error)
	switch {
	case err == nil:
		return c.told(), nil
	case !ok || told.Fatal:
		return nil, err
	}
	if t := c.form.Truncation(); t != nil {
		if r := t.TruncationRefusal(told.Code, told.Message); r != nil {
			told = &wire.Error{Code: r.Code, Message: r.Message, Detail: r.Detail, Hint: r.Hint}
		}
	}
	return c.partly(told).Append(nil), nil
}

// partly adds to an error how much is deleted all the same.
func (c *chunks) partly(told *wire.Error) *wire.Error {
	if !c.begun {
		return told
	}
	with := *told
	with.Detail = strings.TrimSpace(fmt.Sprintf("%s %d rows are deleted, and stay so.", told.Detail, c.deleted))
	if c.form.Truncation() != nil {
		with.Hint = "Send the statement again: it goes on from there."
	}
	return &with
}

// lost is what the client is told of the loss of the backend.
func (c *chunks) lost() *wire.Error {
	if !c.begun { // the server has undone the statement
		return c.refusal
	}
	return c.partly(errUnknownOutcome)
}

// run deletes batch by batch until one finds fewer rows than it may take. An error is the
// server's, or one that stops the turn, behind which the backend is idle; errCut,
// errClientGone; or a *lostError.
func (c *chunks) run() error {
	each, err := c.order()
	if err != nil {
		return err
	}
	texts := make([]func(rows int) string, len(each))
	// Nothing is deleted before it is known that all tables can be emptied so.
	for i, form := range each {
		key, err := c.s.keyOf(form.Table)
		if err != nil {
			return err
		}
		if len(key) == 0 {
			c.refusal.Hint = "The table has no primary key, which batches (" + c.key() + ") go by. Delete at most 3,000 rows at a time."
			return c.refusal
		}
		ok := false
		if texts[i], ok = form.Batches(key); !ok {
			c.refusal.Hint = rewrite.ChunkedOtherHint
			return c.refusal
		}
	}
	for _, text := range texts {
		if err := c.empty(text); err != nil {
			return err
		}
	}
	return nil
}

// key is the configuration key by which batches are run.
func (c *chunks) key() string {
	if c.form.Truncation() != nil {
		return rewrite.TruncateKey
	}
	return rewrite.ChunkedKey
}

// empty deletes the rows of one table. A batch that the server refuses for its rows is halved: rows
// of other tables that go with them count too.
func (c *chunks) empty(text func(rows int) string) error {
	for rows := batchRows; ; {
		if err := c.s.wantsMore(); err != nil {
			return err
		}
		c.begun = true
		n, err := c.batch(text(rows))
		told := refused(err)
		switch {
		case told != nil && rows > 1 && rewrite.LimitsRows(told.Code, []byte(told.Message)):
			rows /= 2
			continue
		case err != nil:
			return err
		}
		c.deleted += n
		if n > 0 {
			c.batches++
		}
		c.s.srv.metrics.DeleteBatch()
		if n < rows { // one snapshot holds for what is picked and what is deleted
			return nil
		}
	}
}

// wantsMore is why no further batch is begun; nil where one is: a cancel, a timeout, the end
// of a drain, or a client that has left. What came while the statement ran as it was sent
// counts too: nothing could stop it then, and the batches are what was meant.
func (s *session) wantsMore() error {
	if s.t.unheeded != nil {
		return s.t.unheeded
	}
	if err := s.stopped(); err != nil {
		return err
	}
	if s.hasLeft() {
		return errClientGone
	}
	return nil
}

// keyOf is the columns of a table's primary key, in its order; none for a table without.
func (s *session) keyOf(table string) (columns []string, err error) {
	const query = `SELECT a.attname FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_attribute a ` +
		`ON a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey) WHERE c.contype = 'p' AND c.conrelid = %s::pg_catalog.regclass ` +
		`ORDER BY pg_catalog.array_position(c.conkey, a.attnum)`
	err = s.askWhole(wire.AppendStrings(nil, wire.Query, fmt.Sprintf(query, literal(table))), func(row []byte) {
		columns = append(columns, columnsOf(row)...)
	})
	return columns, err
}

// batch runs one batch by the protocol that the client's statement came by, and returns how
// many rows are gone. The values are the client's, in its formats, and have the types that it
// declared. The backend's unnamed statement and portal are used: statements of clients have
// names there, and the group in which a portal lived has ended.
func (c *chunks) batch(text string) (rows int, err error) {
	msg := wire.AppendStrings(nil, wire.Query, text)
	if b := c.bound; b != nil {
		msg = wire.AppendParse(nil, "", text, []byte(b.oids))
		msg = append(appendBindHead(msg, nil, "", len(b.values)), b.values...)
		msg = append(append(msg, appendExecuteAll...), wire.FrameSync...)
	}
	if err := c.s.askWhole(msg, func([]byte) {}); err != nil {
		return 0, err
	}
	return c.s.countOf("DELETE ")
}

// askWhole makes one round trip of a transaction of Sluice's own, and makes it again behind a
// conflict, as often and with the pauses of a transaction. Nothing but a cut ends a round
// trip, so that it is known what has been done: cancel and timeout are heeded in between.
func (s *session) askWhole(msg []byte, row func([]byte)) error {
	attempts := retry.Attempts{}
	for {
		if err := s.promiseDDL(); err != nil {
			return err
		}
		var refusal []byte
		err := s.asking(func(b *backend) (err error) {
			refusal, err = b.exchangeAll(msg, row, s.srv.cfg.SilenceTimeout, time.Time{}, s.cut)
			return err
		})
		switch {
		case stops(err):
			return err
		case err != nil:
			return &lostError{err: err}
		case refusal == nil:
			return nil
		}
		class, cause := retry.Classify(retry.Field(refusal, 'C'), retry.Field(refusal, 'M'))
		if class != retry.Conflict {
			return toldBy(refusal)
		}
		pause, reason := attempts.Next(&s.srv.cfg.Retry.Policy, cause, time.Now(), rand.Float64(), 0)
		if reason != retry.Replayable {
			return toldBy(refusal)
		}
		if err := s.pause(pause); err != nil {
			return err
		}
	}
}

// cut is why even a round trip that runs is not awaited.
func (s *session) cut() error {
	if s.cutOff.Load() {
		return errCut
	}
	return nil
}
