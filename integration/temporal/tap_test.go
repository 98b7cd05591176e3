package temporal

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// tap passes Postgres connections on to an address, byte by byte, and notes
// every error that goes to a client with the statements of its transaction.
type tap struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
	errors []told
}

// told is an error as a client was told of it.
type told struct {
	sqlState, message, detail string
	statements                []string // of the transaction, shortened
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
		if err != nil || !p.keep(client, server) {
			client.Close()
			continue
		}
		c := &tapped{tap: p, texts: map[string]string{}}
		p.wg.Go(func() { c.requests(client, server); p.end(client, server) })
		p.wg.Go(func() { c.answers(server, client); p.end(client, server) })
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
}

// requests reads what the client sends; reading is what passes it on.
func (c *tapped) requests(from, to net.Conn) {
	r := pgproto3.NewBackend(io.TeeReader(from, to), io.Discard)
	if _, err := r.ReceiveStartupMessage(); err != nil {
		return
	}
	if err := r.SetAuthType(pgproto3.AuthTypeOk); err != nil {
		return
	}
	for {
		msg, err := r.Receive()
		if err != nil {
			return
		}
		c.mu.Lock()
		switch m := msg.(type) {
		case *pgproto3.Query:
			c.note(m.String)
		case *pgproto3.Parse:
			c.texts[m.Name] = m.Query
		case *pgproto3.Bind:
			c.note(c.texts[m.PreparedStatement])
		}
		c.mu.Unlock()
	}
}

func (c *tapped) note(sql string) {
	sql = strings.Join(strings.Fields(sql), " ")
	if strings.EqualFold(sql, "begin") {
		c.statements = nil
	}
	c.statements = append(c.statements, fmt.Sprintf("%.60s", sql))
}

// answers reads what the server sends.
func (c *tapped) answers(from, to net.Conn) {
	r := pgproto3.NewFrontend(io.TeeReader(from, to), io.Discard)
	for {
		msg, err := r.Receive()
		if err != nil {
			return
		}
		switch m := msg.(type) {
		case *pgproto3.ErrorResponse:
			c.mu.Lock()
			e := told{m.Code, m.Message, m.Detail, c.statements}
			c.mu.Unlock()
			c.tap.mu.Lock()
			c.tap.errors = append(c.tap.errors, e)
			c.tap.mu.Unlock()
		case *pgproto3.ReadyForQuery:
			if m.TxStatus == 'I' {
				c.mu.Lock()
				c.statements = nil
				c.mu.Unlock()
			}
		}
	}
}
