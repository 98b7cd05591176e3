package proxy

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/copyrows"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// COPY FROM STDIN that is carried out by INSERTs (copy.from: insert, rewrite.CopyIn), for a server
// that takes no COPY. The client's turn reads its data, which package copyrows makes rows of, and
// runs INSERTs in turns inside it (inside.go): each is planned, logged and run again as if the
// client had sent it.
//
//	in a block     the INSERTs are of the client's transaction: all or nothing, by its limits
//	outside        batches (copybatch.go), each a transaction of its own; a COPY of one batch is
//	               as atomic as PostgreSQL's
//
// No backend is held outside of a block while data are awaited. What is held of the data is
// bounded: the client is read no further than the rows of a batch.
//
// Values travel as constants in text, whatever the format of the data. So the server's own input
// functions judge them, under the client's settings, and a constant that they refuse is told with
// its position, which tells the line and the column. Mapped columns are written to as by any
// INSERT of the client's.
//
// An error says the line, as PostgreSQL's does, and how many rows are in all the same. Of several
// errors another one may be found first: the server looks at all constants of an INSERT before it
// looks at a constraint.
//
// What a client may count on:
//
//	COPY n        all n rows are in; a WARNING says that they were committed in several
//	              transactions
//	an error      the rows that it tells are in, which are whole batches; none where it tells none
//	08007         those rows are in, and those of one more batch may be
//	a client that leaves, or a drain that cuts it: whole batches are in
//
// Cancel and statement timeout end it between two frames of data, and while a batch runs, up to its
// COMMIT. The time of the statement counts while data are awaited too, as PostgreSQL's does.

// copying is a COPY FROM STDIN that is carried out, in a turn that has sent its backend nothing.
type copying struct {
	*rewrite.CopyIn
	s      *session
	how    inside // of the turns that its statements run in, which are silent
	block  bool   // the client's block is around it
	into   string // INSERT up to VALUES
	names  []string
	mapped bool // the table has mapped columns, so that each INSERT is parsed
	reader *copyrows.Reader
	held   copyrows.Batch
	// inserted are rows that are in, as the server counts them: committed, or, in a block, inserted.
	inserted, commits int
}

// copyQuery carries out a COPY that came by a simple Query, of that text. With nil the turn has
// settled. Behind an error the client may still be sending: handle drops such frames, as a server
// does.
func (s *session) copyQuery(st *rewrite.Statement, sql []byte) error {
	c, err := s.beginCopy(st, sql)
	if err == nil {
		err = c.receive()
	}
	if err == nil {
		err = c.finish()
	}
	if err != nil {
		return err
	}
	return s.ready()
}

// executeCopy takes the data of a COPY that a portal runs. Their last rows are inserted at the
// Sync, which shows that nothing else is in the group.
func (s *session) executeCopy(st *rewrite.Statement, sql string) error {
	c, err := s.beginCopy(st, []byte(sql))
	if err == nil {
		err = c.receive()
	}
	if err == nil {
		s.t.copied = c
	}
	return err
}

// alone is the error of a COPY behind which something else stands in its group.
func (c *copying) alone() *wire.Error {
	told, _ := c.partly(errCopyAlone).(*wire.Error)
	return told
}

// carriesCopy reports whether a statement is a COPY to be carried out as things stand. A failed
// block refuses it by itself.
func (s *session) carriesCopy(st *rewrite.Statement) bool {
	return st != nil && st.CopyIn != nil && s.srv.cfg.Kind == DSQL && s.status() != 'E'
}

// beginCopy looks at the table, and has the client send its data. An error is for the client, or
// the session's end.
//
// Nothing may stand in front of it in its group: that would be of another transaction. A comment
// that turns replay off counts for all of its statements.
func (s *session) beginCopy(st *rewrite.Statement, sql []byte) (*copying, error) {
	if s.t.touched || s.t.executed || s.t.ranLocal {
		return nil, errCopyAlone
	}
	if err := s.readsCopy(); err != nil {
		return nil, err
	}
	c := &copying{CopyIn: st.CopyIn, s: s, block: s.inBlock()}
	c.how = inside{outside: !c.block, optsOut: s.t.optsOut || s.srv.replays != nil && retry.OptsOut(sql)}
	s.startWaiting()
	at := s.position()
	columns, err := c.lookUp()
	if err != nil {
		return nil, err
	}
	if c.block && at.ReadOnly() { // PostgreSQL looks at the table first, too
		return nil, refusesWrite(st, readOnly)
	}
	if err := c.reads(columns); err != nil {
		return nil, err
	}
	format := byte(0)
	if c.Binary {
		format = 1
	}
	frame := append(wire.AppendHeader(nil, wire.CopyInResponse, 3+2*len(columns)), format)
	frame = binary.BigEndian.AppendUint16(frame, uint16(len(columns)))
	for range columns {
		frame = append(frame, 0, format)
	}
	if err := s.tell(frame); err != nil {
		return nil, err
	}
	return c, s.flushToClient()
}

// readsCopy is the error of data that would not be read as the server reads them: those of another
// encoding, whose characters may hold the bytes of a delimiter, and constants in which backslashes
// escape. Encodings that have no such characters are refused too, since the data are checked as UTF8.
func (s *session) readsCopy() error {
	encoding := s.settings.InForce.SQL["client_encoding"]
	for _, change := range s.settings.Staged.Changes {
		if change.Name == "client_encoding" {
			encoding = change.SQL
		}
	}
	name := strings.NewReplacer("-", "", "_", "", "'", "", `"`, "", " ", "").Replace(strings.ToLower(encoding))
	if s.reading() != 0 || name != "" && name != "default" && name != "utf8" && name != "unicode" {
		return &wire.Error{Code: retry.StateUnsupported, Message: "COPY FROM STDIN is carried out by INSERTs in UTF8 only (" + rewrite.CopyFromKey + ")",
			Hint: "SET client_encoding TO 'UTF8', and leave standard_conforming_strings on."}
	}
	return nil
}

// reads makes the Reader of the data, which have those columns. A binary form that it does not
// know is refused before the client sends any row.
func (c *copying) reads(columns []copyrows.Facts) error {
	o := copyrows.Options{Delimiter: c.Delimiter, Quote: c.Quote, Escape: c.Escape, Null: c.Null, MostRow: 2 * c.s.srv.cfg.MaxStatementBytes}
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
	if unread := copyrows.Unread(o.Columns); c.Binary && unread != nil {
		return &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("COPY FROM STDIN BINARY of column \"%s\" is not carried out by INSERTs (%s)", unread.Name, rewrite.CopyFromKey),
			Detail: fmt.Sprintf("The binary form of its type, of OID %d, is not known.", unread.Type), Hint: "Send the data as text or CSV."}
	}
	var bad *copyrows.Error
	if o.ForceNull, bad = copyrows.Forced("FORCE_NULL", o.Columns, c.ForceNull); bad == nil {
		o.ForceNotNull, bad = copyrows.Forced("FORCE_NOT_NULL", o.Columns, c.ForceNotNull)
	}
	if bad != nil {
		return toldOf(bad, c.Name)
	}
	c.into, c.reader = c.Into(c.names, isAlways(columns)), copyrows.New(o)
	return nil
}

// receive takes the client's data up to their end. An error is for the client, who may go on
// sending, or the session's end.
//
// A Sync or Flush means nothing among the data, as at a server. So a client of the extended protocol
// may send one along with its Execute.
func (c *copying) receive() error {
	s := c.s
	s.t.awaitsCopy = true
	defer func() { s.t.awaitsCopy = false }()
	for {
		s.startWaiting() // a turn inside has ended its own wait: a cancel that comes now counts
		typ, total, err := s.nextFrame()
		if err != nil {
			return err
		}
		if err := s.stopped(); err != nil {
			s.heeded(err)
			return c.partly(err)
		}
		switch typ {
		case wire.CopyData:
			err = c.data(total)
		case wire.CopyDone:
			return s.discard(total)
		case wire.CopyFail:
			return c.given(total)
		case wire.Flush, wire.Sync:
			err = s.discard(total) // as the server does
		case wire.Terminate:
			return errTerminated
		default:
			told := errNotData(typ)
			told.Context = c.atLine()
			if partly, ok := c.partly(told).(*wire.Error); ok {
				told = partly
			}
			return s.notData(told)
		}
		if err != nil {
			return err
		}
	}
}

// data takes a CopyData of total bytes off the client's stream, all of it whatever comes of it. The
// frame may be longer than all that is held: its rows are inserted while the rest is awaited, and
// midClient says to the turns inside that what is unread begins in the middle of a frame.
func (c *copying) data(total int) (err error) {
	s := c.s
	s.client.Advance(wire.HeaderLen)
	defer func() { s.t.midClient = false }()
	for n := total - wire.HeaderLen; n > 0; {
		k := min(n, s.client.Buffered())
		if k == 0 {
			if err := s.fillClient(); err != nil {
				return err
			}
			continue
		}
		c.reader.Feed(s.client.Peek(k))
		s.client.Advance(k)
		n -= k
		s.t.midClient = n > 0
		err := c.charged()
		if err == nil {
			err = c.take()
		}
		if err == nil {
			err = c.charged()
		}
		if err != nil {
			if isRefusal(err) {
				if derr := s.discard(n); derr != nil {
					return derr
				}
			}
			return err
		}
	}
	return nil
}

// take takes the rows that the Reader has.
func (c *copying) take() error {
	for {
		row, bad := c.reader.Next()
		switch {
		case bad != nil:
			return c.malformed(bad)
		case row == nil:
			return nil
		}
		if err := c.add(row); err != nil {
			return err
		}
	}
}

// malformed is the error of data that cannot be read; or that of a row in front of them which the
// server would not take: a server that reads row by row would have told that one.
func (c *copying) malformed(bad *copyrows.Error) error {
	if err := c.tried(); err != nil {
		return err
	}
	return c.partly(toldOf(bad, c.Name))
}

// given is the error of a COPY that its client has given up, by a CopyFail of total bytes.
func (c *copying) given(total int) error {
	const most = 8 << 10
	why := ""
	if total <= most {
		frame, err := c.s.whole(total)
		if err != nil {
			return err
		}
		m := wire.NewMessage(frame[wire.HeaderLen:])
		if why = string(m.String()); m.Err != nil {
			return c.partly(m.Err)
		}
	} else if err := c.s.discard(total); err != nil {
		return err
	}
	return c.partly(&wire.Error{Code: "57014", Message: "COPY from stdin failed: " + why, Context: c.atLine()})
}

// atLine says how far the data were read.
func (c *copying) atLine() string {
	return copyrows.Where{Line: max(1, c.reader.Line())}.Context(c.Name)
}

// finish inserts what is held behind the end of the data, and answers.
func (c *copying) finish() error {
	c.reader.End()
	if err := c.take(); err != nil {
		return err
	}
	if err := c.flush(); err != nil {
		return err
	}
	c.s.nothingRuns() // nor must a cancel that came too late end what the client sends next
	var frames [][]byte
	if c.commits > 1 {
		warning := &wire.Error{Code: "01000", Message: fmt.Sprintf("COPY was carried out in %d transactions (%s)", c.commits, rewrite.CopyFromKey),
			Detail: "Had one of them failed, the rows of those before it would have stayed."}
		frames = append(frames, warning.AppendNotice(nil, "WARNING"))
	}
	return c.s.tell(append(frames, wire.AppendCommand(nil, fmt.Sprintf("COPY %d", c.inserted)))...)
}

// partly adds to an error how many rows are in all the same. In a block nothing is: what was
// inserted goes with the block.
func (c *copying) partly(err error) error {
	told, ok := err.(*wire.Error)
	if !ok || told.Fatal || c.block || c.inserted == 0 {
		return err
	}
	with := *told
	with.Detail = strings.TrimSpace(fmt.Sprintf("%s %d rows are in, and stay so: %s commits a COPY in batches.", told.Detail, c.inserted, rewrite.CopyFromKey))
	if told.Code == retry.StateConflict { // who is told that sends the whole again
		with.Code, with.Message = codePartly, "the rest of a COPY that is committed in part met a conflict: "+told.Message
		with.Hint = "Do not send all of it again: go on behind the rows that are in."
	}
	return &with
}

// errCopyAlone is told where something stands in front of the COPY in its group, or behind it.
var errCopyAlone = &wire.Error{Code: retry.StateUnsupported, Message: "COPY FROM STDIN cannot be carried out together with other statements",
	Detail: "It is carried out by INSERTs, in transactions of their own.", Hint: "Send it in a request of its own."}
