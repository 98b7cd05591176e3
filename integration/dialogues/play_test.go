package dialogues

import (
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// outcome is what became of a step.
type outcome struct {
	skipped  bool // no backend would have been free, or the client is gone
	c        *client
	from, to int // the frames that it sent
	refused  string
	ready    bool              // nothing is owed behind it
	closed   bool              // the client's connection has ended
	params   map[string]string // then
	outside  string
	ended    int // backends that the step has ended
}

// status returns the client's last transaction status up to the step's end, or 0 before the first.
func (o *outcome) status() byte {
	for n := o.to - 1; n >= 0; n-- {
		if ready := o.c.answers[n].ready; ready != 0 {
			return ready
		}
	}
	return 0
}

// tale is what clients were told in a dialogue.
type tale struct {
	outcomes []outcome
	breach   string // what no server may do, whatever PostgreSQL answers
	at       int    // the step of the breach
	left     string // in the tables
	struck   bool   // the planned fault happened
	struckAt bool   // one that was planned at a question of Sluice's own did
}

// player plays a dialogue on one target.
type player struct {
	*target
	clients map[string]*client
	pinned  map[*client]bool
	stalls  time.Duration // of client
}

func newPlayer(x *target) *player {
	return &player{target: x, clients: map[string]*client{}, pinned: map[*client]bool{}}
}

// leave ends what a dialogue has left open.
func (p *player) leave() {
	for _, c := range p.clients {
		c.hangUp(false)
	}
}

// holds tells whether a client keeps a backend, or may.
func (p *player) holds(c *client) bool {
	return c != nil && !c.closed && (c.status != 'I' || c.open || p.pinned[c])
}

// free tells whether there is a backend for a client.
func (p *player) free(who string) bool {
	return p.holds(p.clients[who]) || p.spare(who)
}

// spare tells whether the other clients leave a backend free.
func (p *player) spare(who string) bool {
	n := 0
	for other, c := range p.clients {
		if other != who && p.holds(c) {
			n++
		}
	}
	return n < backends
}

// busy tells whether any client is in a transaction.
func (p *player) busy() bool {
	for _, c := range p.clients {
		if !c.closed && (c.status != 'I' || c.open) {
			return true
		}
	}
	return false
}

// tell plays a dialogue through Sluice.
func (w *world) tell(d dialogue) (told tale, err error) {
	p := newPlayer(&w.through)
	p.stalls = d.stalls()
	defer p.leave()
	for i, s := range d.steps {
		var o outcome
		if s.who == "x" {
			o = p.outsider(s)
			w.dirty = w.dirty || s.op == "sql" && !o.skipped
		} else if o, err = p.step(s); err != nil {
			return told, fmt.Errorf("step %d: %s: %w", i+1, s, err)
		}
		told.outcomes = append(told.outcomes, o)
		if w.sim != nil && d.fault != "" && o.c != nil && slices.ContainsFunc(o.c.answers[o.from:o.to], func(a *answer) bool { return a.code == "08007" }) {
			w.rest()
		}
		if o.c != nil && o.c.breach != "" {
			told.breach, told.at = o.c.breach, i
			break
		}
	}
	if d.fault != "" {
		told.struck, told.struckAt = w.happened(d)
		if told.struckAt && slices.ContainsFunc(d.faults(), func(f planned) bool { return f.Question == "schema" && f.Action == "fail" }) {
			w.readable = time.Now().Add(schemaPause)
		}
	}
	if told.breach == "" {
		told.left, err = w.leaves(&w.through)
	}
	return told, err
}

// rest waits until PostgreSQL is at rest: a statement whose connection was cut while it
// ran, or was on its way there, goes on to its end. Until then there are more connections
// to PostgreSQL than sessions of the stand-in that have one.
func (w *world) rest() {
	// One is that of whoever made the database, which was reset when it was last used.
	const atRest = `SELECT count(*) FILTER (WHERE query <> 'DISCARD ALL') <= %s AND count(*) FILTER (WHERE state = 'active') = 0 FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		metrics, err := w.sim.Ask(w.t.Context(), "GET", "/metrics", "")
		if err != nil {
			w.t.Fatal(err)
		}
		want := openSessions.FindStringSubmatch(metrics)
		if want == nil {
			w.t.Fatal("the stand-in does not tell how many sessions it has")
		}
		if done, err := w.through.sql(fmt.Sprintf(atRest, want[1])); err != nil || done == "t" {
			return
		}
	}
}

var openSessions = regexp.MustCompile(`(?m)^dsqlsim_sessions (\d+)$`)

// outsider changes what is behind the clients' backs. None of it happens while a
// transaction is open, whose locks it would wait for.
func (p *player) outsider(s step) (o outcome) {
	if s.op == "replace" {
		count, _ := p.sql(replace)
		o.ended, _ = strconv.Atoi(count)
		return o
	}
	if p.busy() {
		o.skipped = true
		return o
	}
	if _, err := p.sql(s.arg); err != nil {
		o.outside = err.Error()
	}
	return o
}

func (p *player) step(s step) (o outcome, err error) {
	c := p.clients[s.who]
	switch s.op {
	case "connect":
		// The server may have to be asked about the options, on a backend that nobody has.
		if s.arg != "" && !p.spare(s.who) {
			o.skipped = true
			return o, nil
		}
		if c != nil {
			c.hangUp(true)
			delete(p.clients, s.who)
		}
		c, o.refused, err = dial(p.addr, p.user, p.database, options(s.arg))
		if c != nil {
			c.stalls, p.clients[s.who] = p.stalls, c
			o.c, o.ready, o.params = c, true, maps.Clone(c.params)
		}
		return o, err
	case "end", "quit", "vanish":
		if c != nil {
			c.hangUp(s.op != "vanish")
		}
		return o, nil
	}
	if c == nil || c.closed || !p.free(s.who) {
		o.skipped = true
		return o, nil
	}
	o.c, o.from = c, len(c.answers)
	for _, f := range s.frames {
		if (f.verb == 'Q' || f.verb == 'P') && pins.MatchString(f.sql()) {
			p.pinned[c] = true
		}
	}
	if err := c.send(s.frames); err != nil {
		return o, err
	}
	o.to = len(c.answers)
	if s.half {
		c.conn.(*net.TCPConn).CloseWrite()
	}
	if s.cancel != noCancel {
		time.Sleep(time.Duration(s.cancel) * time.Millisecond)
		if err := cancel(p.addr, c.pid, c.key); err != nil {
			return o, fmt.Errorf("cancel: %w", err)
		}
	}
	c.read()
	if o.ready = len(c.owed) == 0 && !c.skipping && !c.closed; o.ready {
		o.params = maps.Clone(c.params)
	}
	if s.half {
		c.hangUp(false)
	}
	o.closed = c.closed
	return o, nil
}

// options are startup parameters written as name=value;name=value.
func options(text string) map[string]string {
	m := map[string]string{}
	for pair := range strings.SplitSeq(text, ";") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			m[name] = value
		}
	}
	return m
}
