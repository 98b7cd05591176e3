// Package copyin performs COPY FROM STDIN by INSERTs, for a server without COPY (copy.from: insert, rewrite.CopyIn).
// Package copyrows makes rows of the client's data, and nested turns insert the rows.
//
// In a block the INSERTs belong to the client's transaction. Outside of a block, each batch of rows is a transaction,
// and only a batch needs a backend. So a client that sends slowly does not delay others. A COPY of one batch is atomic,
// as PostgreSQL's is.
//
// A Copy belongs to the goroutine of its session, and to one statement. Its memory is bounded, because a Copy reads no
// further than the rows of a batch.
//
// The client may rely on the following meaning of answers:
//
//	COPY n    all n rows are stored; a WARNING says if several transactions committed them
//	an error  the rows that the error counts are stored, in whole batches; without a count no rows are stored
//	08007     the rows that the error counts are stored, and one more batch may be stored
//
// If a client leaves, or the end of a drain cuts its connection, whole batches are stored. A cancel or the statement
// timeout ends a COPY between two frames of data, or during a batch before its COMMIT.
package copyin

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/copyrows"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Sluice sends values as constants in text, even those of binary data. So the server's own input functions check them
// under the client's settings. The position in an error gives the line and the column. Sluice plans an INSERT with
// mapped columns (bytea stored as text) like an INSERT of the client.
//
// If the data have several errors, the client may get another one first than from PostgreSQL. The server checks all
// constants of an INSERT before it checks a constraint.

// Config is the configuration that all COPYs share.
type Config struct {
	// MaxStatementBytes bounds a text that Sluice plans. MaxMessageBytes bounds a message that the server accepts, and
	// is 0 for no bound.
	MaxStatementBytes, MaxMessageBytes int
	// Retry is the policy that decides when a batch of rows runs again after a conflict.
	Retry *retry.Policy
	// Committed is the function that Copy calls after it has committed a batch of rows.
	Committed func()
}

// Copy is a running COPY FROM STDIN. Receive returns a Copy.
type Copy struct {
	*rewrite.CopyIn
	s      feature.Session
	cfg    Config
	how    feature.NestedOptions // of the nested turns, without the answer
	block  bool                  // the client's block is around it
	into   string                // INSERT up to VALUES
	names  []string
	mapped bool // the table has mapped columns: each INSERT is parsed
	reader *copyrows.Reader
	held   copyrows.Batch
	// inserted is the number of rows that were inserted in the client's block, or committed outside of a block, as the
	// server counts them. commits is the number of transactions.
	inserted, commits int
}

// Run performs the COPY of a simple Query with the text sql, and queues the answer. An error is for the client or ends
// the session. After an error the client may still send data, which the session drops.
func Run(s feature.Session, st *rewrite.Statement, sql []byte, cfg Config) error {
	c, err := Receive(s, st, sql, cfg)
	if err != nil {
		return err
	}
	return c.Finish()
}

// Receive looks up the table and reads the client's data to their end. The caller must call Finish after it, because
// Receive does not insert the last rows. An error is for the client or ends the session.
//
// The COPY must be the first statement of its request, because an earlier statement would belong to another
// transaction. A comment in sql that turns replay off counts for all batches.
func Receive(s feature.Session, st *rewrite.Statement, sql []byte, cfg Config) (*Copy, error) {
	if !s.IsFirstStatement() {
		return nil, errNotAlone
	}
	if err := checkEncoding(s); err != nil {
		return nil, err
	}
	c := &Copy{CopyIn: st.CopyIn, s: s, cfg: cfg, block: s.InBlock()}
	c.how = feature.NestedOptions{Outside: !c.block, OptsOut: s.OptsOut(sql)}
	s.BeginStatement()
	refused := s.RefusesWrite(st) // before the look at the table, which begins a transaction
	columns, err := c.queryColumns()
	if err != nil {
		return nil, err
	}
	if c.block && refused != nil { // PostgreSQL looks at the table first, too
		return nil, refused
	}
	if err := c.openReader(columns); err != nil {
		return nil, err
	}
	if err := s.Reply(c.copyInResponse(len(columns))); err != nil {
		return nil, err
	}
	if err := s.Flush(); err != nil {
		return nil, err
	}
	return c, c.receiveData()
}

// copyInResponse returns the CopyInResponse for a number of columns.
func (c *Copy) copyInResponse(columns int) []byte {
	format := byte(0)
	if c.Binary {
		format = 1
	}
	frame := append(wire.AppendHeader(nil, wire.CopyInResponse, 3+2*columns), format)
	frame = binary.BigEndian.AppendUint16(frame, uint16(columns))
	for range columns {
		frame = append(frame, 0, format)
	}
	return frame
}

// checkEncoding returns an error if copyrows would read the data otherwise than the server. There are two such cases.
// In another encoding a character may contain the byte of a delimiter, and backslashes may be escapes in constants.
// Encodings without such characters are refused too, since the data are checked as UTF8.
func checkEncoding(s feature.Session) error {
	name := strings.NewReplacer("-", "", "_", "", "'", "", `"`, "", " ", "").Replace(strings.ToLower(s.Setting("client_encoding")))
	if s.Reading() != 0 || name != "" && name != "default" && name != "utf8" && name != "unicode" {
		return &wire.Error{Code: retry.StateUnsupported, Message: "COPY FROM STDIN is carried out by INSERTs in UTF8 only (" + rewrite.CopyFromKey + ")",
			Hint: "SET client_encoding TO 'UTF8', and leave standard_conforming_strings on."}
	}
	return nil
}

// openReader creates the Reader of data with these columns. If the binary form of a column is not supported, openReader
// refuses the COPY before the client sends any row.
func (c *Copy) openReader(columns []copyrows.ColumnFacts) error {
	o := copyrows.Options{Delimiter: c.Delimiter, Quote: c.Quote, Escape: c.Escape, Null: c.Null, MostRow: 2 * c.cfg.MaxStatementBytes}
	switch {
	case c.CSV:
		o.Format = copyrows.CSV
	case c.Binary:
		o.Format = copyrows.Binary
	}
	switch {
	case c.MatchHeader:
		o.Header = copyrows.MatchHeader
	case c.Header:
		o.Header = copyrows.SkipHeader
	}
	for _, column := range columns {
		o.Columns = append(o.Columns, column.Column)
		c.names = append(c.names, column.Name)
	}
	if unread := copyrows.FirstUnsupported(o.Columns); c.Binary && unread != nil {
		return &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("COPY FROM STDIN BINARY of column \"%s\" is not carried out by INSERTs (%s)", unread.Name, rewrite.CopyFromKey),
			Detail: fmt.Sprintf("The binary form of its type, of OID %d, is not known.", unread.Type), Hint: "Send the data as text or CSV."}
	}
	var bad *copyrows.Error
	if o.ForceNull, bad = copyrows.ForcedColumns("FORCE_NULL", o.Columns, c.ForceNull); bad == nil {
		o.ForceNotNull, bad = copyrows.ForcedColumns("FORCE_NOT_NULL", o.Columns, c.ForceNotNull)
	}
	if bad != nil {
		return wireError(bad, c.Name)
	}
	c.into, c.reader = c.InsertPrefix(c.names, hasAlwaysIdentity(columns)), copyrows.NewReader(o)
	return nil
}

// receiveData reads the client's data to their end. After an error the client may send more data.
//
// A Sync or Flush among the data has no meaning, as at a server. So a client of the extended protocol may send a Sync
// along with its Execute.
func (c *Copy) receiveData() error {
	s, data := c.s, c.feedReader
	for {
		typ, total, err := s.NextFrame()
		if err != nil {
			return c.withStoredCount(err)
		}
		switch typ {
		case wire.CopyData:
			err = s.ReadPayload(total, data)
		case wire.CopyDone:
			return s.Discard(total)
		case wire.CopyFail:
			return c.copyFailError(total)
		case wire.Flush, wire.Sync:
			err = s.Discard(total) // as the server does
		case wire.Terminate:
			return feature.ErrTerminated
		default:
			e := &wire.Error{Code: "08P01", Message: fmt.Sprintf("unexpected message type 0x%02X during COPY from stdin", typ), Context: c.lineContext()}
			if counted, ok := c.withStoredCount(e).(*wire.Error); ok {
				e = counted
			}
			return s.ProtocolError(e)
		}
		if err != nil {
			return err
		}
	}
}

// feedReader processes a piece of the data. A CopyData frame may be longer than a batch: Sluice inserts its first
// rows while it awaits the rest of the frame.
func (c *Copy) feedReader(piece []byte) error {
	c.reader.Feed(piece)
	if err := c.chargeMemory(); err != nil {
		return err
	}
	if err := c.takeRows(); err != nil {
		return err
	}
	return c.chargeMemory()
}

// takeRows adds to the batch all rows that the Reader has.
func (c *Copy) takeRows() error {
	for {
		row, bad := c.reader.Next()
		switch {
		case bad != nil:
			return c.malformedError(bad)
		case row == nil:
			return nil
		}
		if err := c.addRow(row); err != nil {
			return err
		}
	}
}

// malformedError returns the error for data that cannot be read. If the server refuses an earlier row, it returns the
// error for that row. A server that reads row by row would have sent that error.
func (c *Copy) malformedError(bad *copyrows.Error) error {
	if err := c.tryInsertHeldRows(); err != nil {
		return err
	}
	return c.withStoredCount(wireError(bad, c.Name))
}

// copyFailError returns the error of a COPY that its client has given up, by a CopyFail of total bytes.
func (c *Copy) copyFailError(total int) error {
	const most = 8 << 10
	why := ""
	if total <= most {
		frame, err := c.s.ReadWhole(total)
		if err != nil {
			return err
		}
		m := wire.NewBodyReader(frame[wire.HeaderLen:])
		if why = string(m.String()); m.Err != nil {
			return c.withStoredCount(m.Err)
		}
	} else if err := c.s.Discard(total); err != nil {
		return err
	}
	return c.withStoredCount(&wire.Error{Code: "57014", Message: "COPY from stdin failed: " + why, Context: c.lineContext()})
}

// lineContext returns the CONTEXT that names the last line of the data.
func (c *Copy) lineContext() string {
	return copyrows.DataPosition{Line: max(1, c.reader.Line())}.Context(c.Name)
}

// Finish inserts the rows that are not inserted yet when the data end, and queues the answer for the client. An error
// is for the client or ends the session.
func (c *Copy) Finish() error {
	c.reader.EndInput()
	if err := c.takeRows(); err != nil {
		return err
	}
	if err := c.flushBatch(); err != nil {
		return err
	}
	c.s.EndStatement() // a cancel that came too late must not end the client's next statement
	var frames [][]byte
	if c.commits > 1 {
		warning := &wire.Error{Code: "01000", Message: fmt.Sprintf("COPY was carried out in %d transactions (%s)", c.commits, rewrite.CopyFromKey),
			Detail: "Had one of them failed, the rows of those before it would have stayed."}
		frames = append(frames, warning.AppendNotice(nil, "WARNING"))
	}
	return c.s.Reply(append(frames, wire.AppendCommandComplete(nil, fmt.Sprintf("COPY %d", c.inserted)))...)
}

// NotAlone returns the error of a COPY that another statement follows in the same request.
func (c *Copy) NotAlone() *wire.Error {
	e, _ := c.withStoredCount(errNotAlone).(*wire.Error)
	return e
}

// withStoredCount adds to an error the number of rows that are stored nevertheless. In a block no rows are stored,
// because they are rolled back with the block.
func (c *Copy) withStoredCount(err error) error {
	e, ok := err.(*wire.Error)
	if !ok || e.Fatal || c.block || c.inserted == 0 {
		return err
	}
	with := *e
	with.Detail = strings.TrimSpace(fmt.Sprintf("%s %d rows are in, and stay so: %s commits a COPY in batches.", e.Detail, c.inserted, rewrite.CopyFromKey))
	if e.Code == retry.StateConflict { // at this code clients send all rows again
		with.Code, with.Message = codePartial, "the rest of a COPY that is committed in part met a conflict: "+e.Message
		with.Hint = "Do not send all of it again: go on behind the rows that are in."
	}
	return &with
}

// codePartial is the SQLSTATE of a conflict in a COPY that has already committed some of its batches.
const codePartial = "25000"

// errNotAlone refuses a COPY that another statement precedes or follows in the same request.
var errNotAlone = &wire.Error{Code: retry.StateUnsupported, Message: "COPY FROM STDIN cannot be carried out together with other statements",
	Detail: "It is carried out by INSERTs, in transactions of their own.", Hint: "Send it in a request of its own."}
