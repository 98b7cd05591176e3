package dialogues

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// patience is how long an answer may take before it is a hang, where no server was asked to stall.
const patience = 20 * time.Second

// answer is what a frame was answered.
type answer struct {
	lines   []string
	code    string // SQLSTATE of its error
	fatal   bool
	done    int        // of a Query: how many of its statements were answered
	refused bool       // docs/compatibility.md has the error
	ready   byte       // of a Query or Sync: the status behind it
	early   *committed // of a Query sent directly: the early commits in it
}

// text is all of an answer.
func (a *answer) text() string { return strings.Join(a.lines, "; ") }

// client is a connection on which every frame is seen, and each answer is put down
// to the frame that it answers.
type client struct {
	block    pipelineBlock
	conn     net.Conn
	in       *bufio.Reader
	pid, key uint32
	status   byte // of the last ReadyForQuery
	params   map[string]string
	closed   bool
	breach   string // what no server may do

	answers  []*answer // by frame, in the order sent
	owed     []owed
	skipping bool          // until a Sync
	open     bool          // frames were sent, and no ReadyForQuery came behind them
	stalls   time.Duration // that the server was asked for, in all: an answer may take longer by them
}

// owed is a frame that is not answered to its end.
type owed struct {
	verb byte
	kind byte
	*answer
}

// dial opens a connection. refused is the error that a server had for it.
func dial(addr, user, database string, options map[string]string) (c *client, refused string, err error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, "", err
	}
	c = &client{conn: conn, in: bufio.NewReaderSize(conn, 16<<10), params: make(map[string]string)}
	params := map[string]string{"user": user, "database": database}
	maps.Copy(params, options)
	b, err := (&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: params}).Encode(nil)
	if err != nil {
		return nil, "", err
	}
	if _, err := conn.Write(b); err != nil {
		return nil, "", err
	}
	for {
		typ, payload, err := c.next()
		if err != nil {
			return nil, "", fmt.Errorf("startup: %w", err)
		}
		switch typ {
		case 'E':
			text, _, _ := showError('E', payload)
			conn.Close()
			return nil, text, nil
		case 'K':
			c.pid, c.key = binary.BigEndian.Uint32(payload), binary.BigEndian.Uint32(payload[4:])
		case 'S':
			c.report(payload)
		case 'Z':
			c.status = payload[0]
			return c, "", nil
		}
	}
}

func (c *client) report(payload []byte) {
	name, value, _ := strings.Cut(string(payload), "\x00")
	c.params[name] = strings.TrimSuffix(value, "\x00")
}

// next reads one frame.
func (c *client) next() (typ byte, payload []byte, err error) {
	c.conn.SetReadDeadline(time.Now().Add(patience + c.stalls))
	var h [5]byte
	if _, err := io.ReadFull(c.in, h[:]); err != nil {
		return 0, nil, err
	}
	n := int(binary.BigEndian.Uint32(h[1:])) - 4
	if n < 0 || n > 64<<20 {
		return 0, nil, fmt.Errorf("a frame %q of %d bytes", h[0], n)
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(c.in, payload)
	return h[0], payload, err
}

// send writes frames and expects their answers.
func (c *client) send(frames []frame) error {
	var out []byte
	for _, f := range frames {
		var err error
		if out, err = f.encode(out); err != nil {
			return err
		}
		a := &answer{}
		c.answers = append(c.answers, a)
		if strings.IndexByte("dcf", f.verb) >= 0 {
			continue // a part of the COPY before
		}
		c.open = true
		c.block.sends(f)
		c.expect(f.verb, f.kind, a)
	}
	if !c.closed {
		c.conn.Write(out) // a connection that is closed shows when it is read
	}
	return nil
}

// expect notes that a frame is to be answered; behind an error nothing is, up to Sync.
func (c *client) expect(verb, kind byte, a *answer) {
	if c.skipping && verb != 'S' {
		a.lines = append(a.lines, "skipped")
		return
	}
	c.skipping = false
	c.owed = append(c.owed, owed{verb, kind, a})
}

// read reads what must come now: the answers to all up to the last Query, Sync or Flush.
func (c *client) read() {
	for !c.closed && c.breach == "" && c.mustRead() {
		typ, payload, err := c.next()
		if err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				c.breach = fmt.Sprintf("a hang: nothing came for %v while %c was owed an answer", patience+c.stalls, c.owed[0].verb)
				return
			}
			c.end(fmt.Sprintf("closed (%v)", err))
			return
		}
		c.take(typ, payload)
	}
}

// end is that of the connection.
func (c *client) end(why string) {
	c.closed = true
	c.conn.Close()
	if len(c.owed) > 0 {
		a := c.owed[0].answer
		if !a.fatal {
			a.lines = append(a.lines, why)
		}
		a.fatal = true
	}
	c.owed = nil
}

func (c *client) mustRead() bool {
	for len(c.owed) > 0 && c.owed[0].verb == 'H' {
		c.owed = c.owed[1:]
	}
	for _, o := range c.owed {
		if o.verb == 'Q' || o.verb == 'S' || o.verb == 'H' {
			return true
		}
	}
	return false
}

// completes are the frames that end the answer to a frame, S and Q aside.
var completes = map[byte]string{'P': "1", 'B': "2", 'C': "3", 'D': "Tn", 'E': "CsIG"}

func (c *client) take(typ byte, payload []byte) {
	switch typ {
	case 'S':
		c.report(payload)
		return
	case 'A':
		return // when it comes is nobody's business
	}
	for len(c.owed) > 0 && c.owed[0].verb == 'H' {
		c.owed = c.owed[1:]
	}
	if len(c.owed) == 0 {
		c.breach = fmt.Sprintf("%s came, and nothing was owed", show(typ, payload))
		return
	}
	o := c.owed[0]
	if typ == 'Z' {
		if o.verb != 'Q' && o.verb != 'S' {
			c.breach = fmt.Sprintf("ReadyForQuery %s came while %c was owed an answer", payload, o.verb)
			return
		}
		if o.verb == 'Q' && len(o.lines) == 0 {
			c.breach = "a bare ReadyForQuery answers a Query"
			return
		}
		c.status, o.ready = payload[0], payload[0]
		c.block.open = c.status != 'I'
		o.lines = append(o.lines, show(typ, payload))
		c.owed = c.owed[1:]
		c.open = len(c.owed) > 0
		return
	}
	if typ == 'E' {
		c.takeError(o, payload)
		return
	}
	o.lines = append(o.lines, show(typ, payload))
	if o.verb == 'Q' && (typ == 'C' || typ == 'I') {
		o.done++
	}
	if strings.IndexByte(completes[o.verb], typ) >= 0 {
		c.owed = c.owed[1:]
	}
}

func (c *client) takeError(o owed, payload []byte) {
	text, code, fatal := showError('E', payload)
	o.lines = append(o.lines, text)
	if o.code == "" {
		o.code = code
	}
	o.fatal = o.fatal || fatal
	if fatal {
		c.end("")
		return
	}
	if o.verb == 'Q' || o.verb == 'S' {
		return
	}
	c.owed = c.owed[1:]
	for len(c.owed) > 0 && c.owed[0].verb != 'S' {
		c.owed[0].lines = append(c.owed[0].lines, "skipped")
		c.owed = c.owed[1:]
	}
	c.skipping = len(c.owed) == 0
}

// hangUp ends the connection, with a word or without.
func (c *client) hangUp(politely bool) {
	if c.closed {
		return
	}
	if politely {
		c.conn.Write([]byte{'X', 0, 0, 0, 4})
		c.conn.(*net.TCPConn).CloseWrite()
		c.conn.SetReadDeadline(time.Now().Add(patience))
		io.Copy(io.Discard, c.in) // until the server has ended it too
	}
	c.closed = true
	c.conn.Close()
}

// cancel asks for the end of the client's statement, and returns when the server has
// taken notice.
func cancel(addr string, pid, key uint32) error {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	b, err := (&pgproto3.CancelRequest{ProcessID: pid, SecretKey: binary.BigEndian.AppendUint32(nil, key)}).Encode(nil)
	if err != nil {
		return err
	}
	if _, err := conn.Write(b); err != nil {
		return err
	}
	conn.SetReadDeadline(time.Now().Add(patience))
	_, err = io.Copy(io.Discard, conn)
	return err
}

// showError is an error or notice without what depends on the server's source.
func showError(typ byte, payload []byte) (text, code string, fatal bool) {
	var fields []string
	for len(payload) > 1 {
		v, rest, _ := strings.Cut(string(payload[1:]), "\x00")
		switch payload[0] {
		case 'C':
			code = v
		case 'S':
			fatal = v == "FATAL" || v == "PANIC"
		}
		if strings.IndexByte("SCMDHP", payload[0]) >= 0 {
			fields = append(fields, string(payload[0])+"="+v)
		}
		payload = []byte(rest)
	}
	return string(typ) + " " + strings.Join(fields, " "), code, fatal
}

// show is a frame of a server in one line. Of a description it shows what does not
// depend on which table it is.
func show(typ byte, payload []byte) string {
	switch typ {
	case 'E', 'N':
		text, _, _ := showError(typ, payload)
		return text
	case 'T':
		var columns []string
		n := int(binary.BigEndian.Uint16(payload))
		payload = payload[2:]
		for range n {
			name, rest, _ := strings.Cut(string(payload), "\x00")
			columns = append(columns, fmt.Sprintf("%s:%s/%d", strconv.QuoteToASCII(name), typeName(binary.BigEndian.Uint32([]byte(rest)[6:])), binary.BigEndian.Uint16([]byte(rest)[16:])))
			payload = []byte(rest)[18:]
		}
		return "T " + strings.Join(columns, " ")
	case 'D':
		var values []string
		n := int(binary.BigEndian.Uint16(payload))
		payload = payload[2:]
		for range n {
			size := int32(binary.BigEndian.Uint32(payload))
			payload = payload[4:]
			if size < 0 {
				values = append(values, "NULL")
				continue
			}
			values = append(values, strconv.QuoteToASCII(string(payload[:size])))
			payload = payload[size:]
		}
		return "D " + strings.Join(values, " ")
	}
	return fmt.Sprintf("%c %s", typ, strings.Trim(strconv.QuoteToASCII(strings.TrimRight(string(payload), "\x00")), `"`))
}

// typeName is a type's number, unless it differs between databases.
func typeName(oid uint32) string {
	const firstOfUsers = 16384
	if oid >= firstOfUsers {
		return "own"
	}
	return strconv.Itoa(int(oid))
}
