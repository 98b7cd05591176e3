package temporal

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// tap passes Postgres connections on to an address, message by message, and notes
// every error that goes to a client with the statements of its transaction.
type tap struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
	errors []told
	// lost connections ended while the client used them, and refused ones never began.
	// Those that brought a cancel are neither: nobody reads an answer there.
	lost, refused, cancels int
	// doubtful rows were inserted in transactions whose outcome no client was told.
	doubtful []row
}

// told is an error as a client was told of it.
type told struct {
	sqlState, message, detail string
	statements                []string // of the transaction, shortened
	shard                     string   // whose lease the transaction has read; "" for none
	doubtful                  int      // how many rows were doubtful before
}

func startTap(t *testing.T, to string) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{listener: l, to: to, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *tap) address() string { return p.listener.Addr().String() }

// with returns the errors that have this SQLSTATE.
func (p *tap) with(sqlState string) []told {
	return slices.DeleteFunc(p.all(), func(e told) bool { return e.sqlState != sqlState })
}

func (p *tap) all() []told {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.errors)
}

// losses returns how many connections ended while the client used them, and how many
// never began.
func (p *tap) losses() (lost, refused int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost, p.refused
}

// cancelled returns how many cancels the client has sent.
func (p *tap) cancelled() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cancels
}

// transactions counts the errors that have this SQLSTATE by what was told, and
// by the statements sent before.
func (p *tap) transactions(sqlState string) map[string]int {
	times := map[string]int{}
	for _, e := range p.with(sqlState) {
		times[e.String()]++
	}
	return times
}

func (e told) String() string {
	return fmt.Sprintf("%s: %s: %s after %s", e.sqlState, e.message, e.detail, strings.Join(e.statements, "; "))
}

func (p *tap) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			p.mu.Lock()
			p.refused++
			p.mu.Unlock()
		}
		if err != nil || !p.keep(client, server) {
			client.Close()
			continue
		}
		c := &tapped{tap: p, texts: map[string]string{}}
		p.wg.Go(func() { c.requests(client, server); c.leave(); p.end(client, server) })
		p.wg.Go(func() { c.answers(server, client); c.lose(); p.end(client, server) })
	}
}

func (p *tap) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
	return !p.closed
}

func (p *tap) end(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.conns, c)
	}
}

func (p *tap) close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// tapped is one connection; both its directions use what follows mu.
type tapped struct {
	tap *tap

	mu         sync.Mutex
	texts      map[string]string // prepared statements by name
	statements []string          // of the transaction
	shard      string            // whose lease it has read
	rows       []row             // that it inserts
	used       bool              // it has begun a transaction, or asked what has no answer yet
	cancel     bool              // it brings a cancel, and nothing else
}

// leave notes that the client has gone.
func (c *tapped) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = false
}

// lose notes that the server has gone.
func (c *tapped) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tap.mu.Lock()
	defer c.tap.mu.Unlock()
	if c.used && !c.tap.closed {
		c.tap.lost++
		c.tap.doubtful = append(c.tap.doubtful, c.rows...)
	}
	c.used = false
}

// requests passes on what the client sends.
func (c *tapped) requests(from, to net.Conn) {
	r := bufio.NewReader(from)
	if err := passOn(r, to, 0, c.startup); err != nil { // the startup message has no kind
		return
	}
	for passOn(r, to, 1, c.request) == nil {
	}
}

// startup sees the first message: its protocol version, or what stands for it.
func (c *tapped) startup(_ byte, body []byte) error {
	const cancelRequest = 80877102
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel = len(body) >= 4 && binary.BigEndian.Uint32(body) == cancelRequest; c.cancel {
		c.tap.mu.Lock()
		c.tap.cancels++
		c.tap.mu.Unlock()
	}
	return nil
}

func (c *tapped) request(kind byte, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = kind != 'X'
	switch kind {
	case 'Q':
		var m pgproto3.Query
		err := m.Decode(body)
		c.note(m.String)
		return err
	case 'P':
		var m pgproto3.Parse
		err := m.Decode(body)
		c.texts[m.Name] = m.Query
		return err
	case 'B':
		var m pgproto3.Bind
		err := m.Decode(body)
		c.note(c.texts[m.PreparedStatement])
		c.rows = append(c.rows, inserted(c.texts[m.PreparedStatement], &m)...)
		if strings.Contains(c.texts[m.PreparedStatement], "FROM shards WHERE shard_id") && len(m.Parameters) > 0 {
			c.shard = number(m.Parameters[0], len(m.ParameterFormatCodes) > 0 && m.ParameterFormatCodes[0] == 1)
		}
		return err
	}
	return nil
}

func (c *tapped) note(sql string) {
	sql = strings.Join(strings.Fields(sql), " ")
	if strings.EqualFold(sql, "begin") {
		c.forget()
	}
	c.statements = append(c.statements, fmt.Sprintf("%.60s", sql))
}

// forget the transaction.
func (c *tapped) forget() { c.statements, c.shard, c.rows = nil, "", nil }

// answers passes on what the server sends.
func (c *tapped) answers(from, to net.Conn) {
	r := bufio.NewReader(from)
	for passOn(r, to, 1, c.answer) == nil {
	}
}

func (c *tapped) answer(kind byte, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch kind {
	case 'E':
		var m pgproto3.ErrorResponse
		if err := m.Decode(body); err != nil {
			return err
		}
		if c.cancel {
			return nil
		}
		c.tap.mu.Lock()
		c.tap.errors = append(c.tap.errors, told{m.Code, m.Message, m.Detail, c.statements, c.shard, len(c.tap.doubtful)})
		if m.Code == "08007" {
			c.tap.doubtful = append(c.tap.doubtful, c.rows...)
		}
		c.tap.mu.Unlock()
	case 'Z':
		if c.used = string(body) != "I"; !c.used {
			c.forget()
		}
	}
	return nil
}

// number is an integer parameter, spelt out.
func number(value []byte, binaryFormat bool) string {
	if !binaryFormat {
		return string(value)
	}
	n := int64(0)
	for _, b := range value {
		n = n<<8 | int64(b)
	}
	return fmt.Sprint(n)
}

// passOn copies one message whose kind has as many bytes, 0 or 1, and shows it
// to see before its receiver can have it: the tap then knows of it whenever the
// receiver acts on it.
func passOn(from *bufio.Reader, to net.Conn, kind int, see func(kind byte, body []byte) error) error {
	head, err := from.Peek(kind + 4)
	if err != nil {
		return err
	}
	message := make([]byte, kind+int(binary.BigEndian.Uint32(head[kind:])))
	if _, err := io.ReadFull(from, message); err != nil {
		return err
	}
	if see != nil {
		if err := see(message[0], message[kind+4:]); err != nil {
			return err
		}
	}
	_, err = to.Write(message)
	return err
}
