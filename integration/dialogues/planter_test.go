package dialogues

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/asked"
)

// planned is a fault of a dialogue, as far as a planter or the budget of errors knows it. The stand-in
// has more.
type planned struct {
	At       string  `json:"at"`
	Action   string  `json:"action"`
	Error    string  `json:"error"`
	Seconds  float64 `json:"seconds"`
	Question string  `json:"question"`
	Skip     int     `json:"skip"`
	Count    int     `json:"count"`
}

// faults reads what a dialogue plans.
func (d dialogue) faults() (all []planned) {
	if d.fault != "" {
		if err := json.Unmarshal([]byte(d.fault), &all); err != nil {
			panic(fmt.Sprintf("%v: %s", err, d.fault))
		}
	}
	return all
}

// stalls is how long the planned faults stall servers, in all.
func (d dialogue) stalls() (all time.Duration) {
	for _, f := range d.faults() {
		if f.Action == "stall" {
			all += time.Duration(float64(max(f.Count, 1)) * f.Seconds * float64(time.Second))
		}
	}
	return all
}

// stateOf are the errors that a planter answers with.
var stateOf = map[string]string{"conflict": "40001", "schema": "40001", "timeout": "57014", "refused": "42501"}

// planter stands between Sluice and PostgreSQL, and plants faults at Sluice's own questions: what the
// stand-in does by itself.
type planter struct {
	addr   string
	server string
	mu     sync.Mutex
	plan   []planned // guarded by mu
	struck int       // guarded by mu
}

// startPlanter starts one in front of a server, for the length of a test.
func startPlanter(t testing.TB, server string) *planter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &planter{addr: l.Addr().String(), server: server}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

// plants has p plant these faults from now on, and returns how many of those before have struck.
func (p *planter) plants(faults []planned) (struck int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	struck = p.struck
	p.plan, p.struck = slices.Clone(faults), 0
	return struck
}

// due is the fault at a question, if one is planned for it now.
func (p *planter) due(question string) (f planned, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.plan {
		switch e := &p.plan[i]; {
		case e.Question != question:
		case e.Skip > 0:
			e.Skip--
		default:
			f = *e
			if e.Count--; e.Count <= 0 {
				p.plan = slices.Delete(p.plan, i, i+1)
			}
			p.struck++
			return f, true
		}
	}
	return f, false
}

// through is a connection of Sluice's, and its twin to the server.
type through struct {
	p        *planter
	up, down net.Conn
	cut      chan struct{} // closed: the answer at hand does not arrive
}

func (p *planter) serve(down net.Conn) {
	defer down.Close()
	up, err := net.DialTimeout("tcp", p.server, patience)
	if err != nil {
		return
	}
	defer up.Close()
	c := &through{p: p, up: up, down: down, cut: make(chan struct{})}
	go func() {
		c.answers()
		down.Close()
		up.Close()
	}()
	if startup, err := readFrame(down, 0); err == nil {
		if _, err := up.Write(startup); err == nil {
			c.asks()
		}
	}
}

// asks passes what Sluice sends, and plants.
func (c *through) asks() {
	for {
		f, err := readFrame(c.down, 1)
		if err != nil {
			return
		}
		if name := asked.QuestionOf(textOf(f)); name != "" && !clientsSet(f, name) {
			if due, ok := c.p.due(name); ok {
				switch {
				case due.Action == "cut" && due.At == "answered":
					close(c.cut)
					c.up.Write(f)
					io.Copy(c.up, c.down) // until the answer has come, and answers ends both
					return
				case due.Action == "cut":
					return
				case due.Action == "stall":
					time.Sleep(time.Duration(due.Seconds * float64(time.Second)))
				default:
					f = raising(f, stateOf[due.Error])
				}
			}
		}
		if _, err := c.up.Write(f); err != nil {
			return
		}
	}
}

// clientsSet reports whether a frame with settings is a client's own SET: Sluice ends each of its own in a Query by
// a semicolon, and sends them in Parses without a name, which no client's has on its way to a server.
func clientsSet(f []byte, question string) bool {
	return question == "settings" && !(f[0] == 'Q' && strings.HasSuffix(textOf(f), "; ") || f[0] == 'P' && f[5] == 0)
}

// answers passes what the server says, but for the answer that is cut off.
func (c *through) answers() {
	for {
		f, err := readFrame(c.up, 1)
		if err != nil {
			return
		}
		select {
		case <-c.cut:
			if f[0] == 'Z' {
				return
			}
			continue
		default:
		}
		if _, err := c.down.Write(f); err != nil {
			return
		}
	}
}

// readFrame reads a frame, in front of whose length stand so many bytes.
func readFrame(from io.Reader, front int) ([]byte, error) {
	head := make([]byte, front+4)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head[front:]))
	if n < 4 || n > 64<<20 {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	f := append(head, make([]byte, n-4)...)
	_, err := io.ReadFull(from, f[len(head):])
	return f, err
}

// textOf is the SQL of a Query or Parse.
func textOf(f []byte) string {
	rest := string(f[5:])
	switch f[0] {
	case 'P':
		_, rest, _ = strings.Cut(rest, "\x00")
	case 'Q':
	default:
		return ""
	}
	text, _, _ := strings.Cut(rest, "\x00")
	return text
}

// raising is a Query or Parse, as f is, whose text fails with that SQLSTATE.
func raising(f []byte, state string) []byte {
	sql := fmt.Sprintf("DO $$BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '%s'; END$$", state)
	var out []byte
	if f[0] == 'Q' {
		out, _ = (&pgproto3.Query{String: sql}).Encode(nil)
		return out
	}
	name, _, _ := strings.Cut(string(f[5:]), "\x00")
	out, _ = (&pgproto3.Parse{Name: name, Query: sql}).Encode(nil)
	return out
}
