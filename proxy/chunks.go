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

// DSQL refuses a DELETE of more rows than a transaction may change. If the statement was alone and its table is
// configured, Sluice withholds the error. After ReadyForQuery it deletes the rows in batches on the same backend, each
// a transaction. replyError calls putOff, relayed calls settleChunks.
//
// Before the first batch nothing has changed, and the client can get the server's error. Later errors all say how many
// rows are deleted. Cancel, timeout and a client that has left take effect only between batches, so that the number is
// right. Only a lost backend, and the cut at the end of a drain, end a running batch.

const (
	// batchRows is the size of the first batch. Rows that it deletes in other tables count too, so a refused batch is
	// halved.
	batchRows = 2900
	// mostBound bounds the length of a Bind whose values are saved; values in comparisons are short.
	mostBound = 64 << 10
)

// boundDelete has the parameters of a DELETE by Execute, so that it can be run in batches.
type boundDelete struct {
	oids   string
	values []byte // the Bind after its names
}

// keepBound reads the whole Bind of a DELETE that may be run in batches, and returns its parameters; nil for other
// statements.
func (s *session) keepBound(b *binding) (*boundDelete, error) {
	if !b.cs.tmpl.plan.Listed() || s.srv.cfg.Kind != DSQL || s.inBlock() || b.whole || b.total > min(mostBound, s.srv.cfg.MaxStatementBytes) {
		return nil, nil
	}
	if err := s.takeWhole(b); err != nil {
		return nil, err
	}
	return &boundDelete{oids: b.cs.tmpl.oids, values: bytes.Clone(b.rest)}, nil
}

// executesAlone reports whether the current statement is outside a block, and no other has run before it in its group.
func (s *session) executesAlone() bool { return !s.t.executed && !s.t.ranLocal && !s.inBlock() }

// boundAlone returns the saved parameters of a portal that is about to run, if it runs alone, else nil.
func (s *session) boundAlone(p *portal) *boundDelete {
	if p.bound == nil || !s.executesAlone() {
		return nil
	}
	return p.bound
}

// chunks is a DELETE that is being run in batches.
type chunks struct {
	s       *session
	form    *rewrite.Chunked
	bound   *boundDelete // nil for a simple Query
	refusal *wire.Error  // the server's error for the whole DELETE
	begun   bool         // a batch was sent
	deleted int          // rows deleted by committed batches
	batches int          // batches that deleted rows
}

// putOff reports whether the statement of an error will be run in batches. The client then does not get the error. The
// statement must be alone and its turn read to the end.
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

// hintOfRows returns the hint for the error that a DELETE changes too many rows; "" for other errors.
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

// settleChunks runs the batches of a DELETE after the server's ReadyForQuery, which the client has not got, and ends
// the turn. An error ends the session or is a loss, which lossTold reports.
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

// partly adds the number of deleted rows to an error.
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

// lost returns the client's error after the loss of the backend.
func (c *chunks) lost() *wire.Error {
	if !c.begun { // the server has rolled the statement back
		return c.refusal
	}
	return c.partly(errUnknownOutcome)
}

// run deletes batch by batch until a batch finds fewer rows than it may delete. An error is the server's or stops the
// turn, with the backend idle; or it is errCut, errClientGone or a *lostError.
func (c *chunks) run() error {
	each, err := c.order()
	if err != nil {
		return err
	}
	texts := make([]func(rows int) string, len(each))
	// Check first that batches are possible in every table: nothing is deleted before.
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

// key returns the configuration key that allows the batches.
func (c *chunks) key() string {
	if c.form.Truncation() != nil {
		return rewrite.TruncateKey
	}
	return rewrite.ChunkedKey
}

// empty deletes the rows of one table. If the server refuses a batch as too large it is halved, since rows that it
// deletes in other tables count too.
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
		if n < rows { // a batch selects and deletes in one snapshot
			return nil
		}
	}
}

// wantsMore returns an error if no further batch may begin: a cancel, a timeout, the end of a drain, or a client that
// has left. A cancel during the refused DELETE counts too, since the server could not stop that.
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

// keyOf returns the columns of a table's primary key in order; none if it has no key.
func (s *session) keyOf(table string) (columns []string, err error) {
	const query = `SELECT a.attname FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_attribute a ` +
		`ON a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey) WHERE c.contype = 'p' AND c.conrelid = %s::pg_catalog.regclass ` +
		`ORDER BY pg_catalog.array_position(c.conkey, a.attnum)`
	err = s.askWhole(wire.AppendStrings(nil, wire.Query, fmt.Sprintf(query, literal(table))), func(row []byte) {
		columns = append(columns, columnsOf(row)...)
	})
	return columns, err
}

// batch runs one batch by the protocol of the client's statement, and returns the number of deleted rows. Parameters
// are the client's, in its formats and declared types. The batch uses the backend's unnamed statement and portal:
// clients' statements have names there, and the group of the client's portal has ended.
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

// askWhole runs one transaction of Sluice itself in one round trip. After a conflict it retries, with the limits and
// pauses of any replay. Only a cut ends a round trip early, so that its outcome is known; cancel and timeout take
// effect between round trips.
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

// cut returns errCut when a drain has ended, at which even a running round trip is given up.
func (s *session) cut() error {
	if s.cutOff.Load() {
		return errCut
	}
	return nil
}
