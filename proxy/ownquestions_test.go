package proxy_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// clientWord stands in every frame of these tests' clients that has room for it: what a backend is
// sent without one, Sluice has sent on its own account.
const clientWord = "/*c*/"

// ownFault is what becomes of one message of Sluice's own.
type ownFault struct {
	slow    time.Duration // it reaches the server that much later
	cut     bool          // the connection ends in its place
	refusal string        // the SQLSTATE with which the server answers in its place; "" for none
	message string        // of that refusal
}

// ownPlanter plants faults at Sluice's own questions, whichever they are.
type ownPlanter struct {
	mu    sync.Mutex
	draws func(message []byte) ownFault // nil: nothing is planted. Guarded by mu
	n     map[string]int                // how often what was planted; guarded by mu
}

func (p *ownPlanter) option(s *setup) {
	s.dial.Wrap = func(c net.Conn) net.Conn { return &ownConn{Conn: rawconn.Wrap(c), ownPlanter: p} }
}

// plants has draws say what becomes of each message from now on.
func (p *ownPlanter) plants(draws func(message []byte) ownFault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draws = draws
}

// counts are how often what was planted.
func (p *ownPlanter) counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// draw is what becomes of a message, which begins with its first frame.
func (p *ownPlanter) draw(message []byte) (d ownFault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draws == nil || len(message) == 0 || !strings.ContainsRune("QPSBC", rune(message[0])) || bytes.Contains(message, []byte(clientWord)) {
		return d
	}
	d = p.draws(message)
	if d != (ownFault{}) {
		if p.n == nil {
			p.n = map[string]int{}
		}
		p.n[d.kind()]++
	}
	return d
}

func (d ownFault) kind() string {
	switch {
	case d.cut:
		return "loss"
	case d.refusal == "40001":
		return "conflict"
	case d.refusal != "":
		return "refusal"
	}
	return "slow"
}

// ownConn is a connection to a server at which faults are planted. What follows a slow message
// waits behind it.
type ownConn struct {
	rawconn.Conn
	ownPlanter *ownPlanter
	mu         sync.Mutex
	behind     [][]byte // a slow message; nil: none is on its way
}

func (c *ownConn) Write(b []byte) (int, error) {
	d := c.ownPlanter.draw(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case d.cut:
		c.Conn.Close()
		return len(b), nil
	case d.refusal != "":
		raise := fmt.Sprintf("DO $$BEGIN RAISE EXCEPTION '%s' USING ERRCODE = '%s'; END$$", d.message, d.refusal)
		if _, err := c.Conn.Write(wire.AppendStrings(nil, wire.Query, raise)); err != nil {
			return 0, err
		}
		return len(b), nil
	case c.behind != nil:
		c.behind = append(c.behind, bytes.Clone(b))
		return len(b), nil
	case d.slow > 0:
		c.behind = [][]byte{bytes.Clone(b)}
		time.AfterFunc(d.slow, c.goOn)
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// goOn sends what was slow.
func (c *ownConn) goOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.behind {
		c.Conn.Write(b) // the connection may be closed by now
	}
	c.behind = nil
}

// ownLimit is for how long an answer to Sluice may take in these tests.
const ownLimit = 150 * time.Millisecond

// ownKinds are the kinds of session that questions are asked for.
var ownKinds = map[string]struct {
	opts  []option
	first string // of each client
}{
	"postgres":            {},
	"postgres, replay":    {opts: []option{fastReplay}},
	"postgres, pinned":    {first: "LISTEN n"},
	"postgres, mapped":    {opts: []option{mapping}},
	"postgres, dedicated": {opts: []option{sessionPairing}},
	"dsql":                {opts: []option{asDSQL, fastReplay}},
	"dsql, mapped":        {opts: []option{asDSQL, fastReplay, mapping}},
	"dsql, pinned":        {opts: []option{asDSQL, fastReplay, mapping}, first: "CREATE TEMPORARY TABLE IF NOT EXISTS mine(a int)"},
	"dsql, session":       {opts: []option{asDSQL, fastReplay, sessionPairing}},
}

// ownClient is a client that knows which answers are its own.
type ownClient struct {
	t      *testing.T
	addr   string
	first  string
	c      *rawClient
	number *int
	play   strings.Builder
}

// say sends the lines of a script, and dials first where the session has ended. what the client is
// answered is returned.
func (o *ownClient) say(script string) string {
	if o.c == nil {
		o.c = dialRaw(o.t, o.addr)
		if o.first != "" {
			o.say("Q " + o.first + " " + clientWord + "\n< Z\n")
			return o.say(script)
		}
	}
	got := o.c.say(o.t, script)
	fmt.Fprintf(&o.play, "%s%s", script, got)
	if strings.Contains(got, "EOF") || strings.Contains(got, "TIMEOUT") {
		o.c.conn.Close()
		o.c = nil
	}
	return got
}

// ownRow is a row of these tests' statements.
var ownRow = regexp.MustCompile(`(?m)^D .*?m(\d+)$`)

// asks sends a query with a number of its own, and returns what is wrong with the answer: a row that
// is not of that query, or neither the row nor an error.
func (o *ownClient) asks(form string) (wrong string) {
	*o.number++
	want := strconv.Itoa(*o.number)
	got := o.say(strings.ReplaceAll(form, "%", "m"+want))
	rows := regexp.MustCompile(`(?m)^D `).FindAllString(got, -1)
	numbered := ownRow.FindAllStringSubmatch(got, -1)
	failed := strings.Contains(got, "\nE ") || strings.HasPrefix(got, "E ") || strings.Contains(got, "EOF")
	switch {
	case len(rows) != len(numbered), len(rows) > 1:
		return "rows of another's: " + got
	case len(rows) == 1 && numbered[0][1] != want:
		return "the row of another query: " + got
	case len(rows) == 0 && !failed, strings.Contains(got, "TIMEOUT"):
		return "no answer: " + got
	}
	return ""
}

// ownForms are statements whose answer tells whose it is.
var ownForms = []string{
	"Q SELECT '%' FROM own_rows LIMIT 1 /*c*/\n< Z\n",
	"P - | SELECT '%' FROM own_rows LIMIT 1 /*c*/\nB - | -\nE -\nS\n< Z\n",
	"Q BEGIN /*c*/\n< Z\nQ SELECT '%' /*c*/\n< Z\nQ COMMIT /*c*/\n< Z\n",
	"Q INSERT INTO own_rows VALUES (1) RETURNING '%' /*c*/\n< Z\n",
	"Q SELECT '%' FROM own_rows LIMIT 1; /*c*/\n< Z\n",
	"Q SELECT '%'; /*c*/\n< Z\n",
}

// ownSteps are what makes Sluice ask.
var ownSteps = []string{
	"Q SET TimeZone = 'Asia/Tokyo' /*c*/\n< Z\n",
	"Q SET TimeZone = 'UTC' /*c*/\n< Z\n",
	"Q RESET TimeZone /*c*/\n< Z\n",
	"Q SELECT nextval('own_numbers') IS NULL WHERE false /*c*/\n< Z\n",
	"Q SELECT lastval() IS NULL WHERE false /*c*/\n< Z\n",
	"Q BEGIN /*c*/\n< Z\nQ SELECT nextval('own_numbers') IS NULL WHERE false /*c*/\n< Z\nQ SELECT lastval() IS NULL WHERE false /*c*/\n< Z\nQ COMMIT /*c*/\n< Z\n",
}

// ownChanges are changes of the schema.
var ownChanges = []string{
	"Q CREATE TABLE IF NOT EXISTS own_made(a int) /*c*/\n< Z\n",
	"Q DROP TABLE IF EXISTS own_made /*c*/\n< Z\n",
	"Q CREATE OR REPLACE VIEW own_shown AS SELECT 1 AS n /*c*/\n< Z\n",
	"Q DROP VIEW IF EXISTS own_shown /*c*/\n< Z\n",
}

// program plays some steps with two clients, while something is planted at one in so many of
// Sluice's own messages. With nil every answer was its client's.
func (o *ownClient) program(r *rand.Rand, other *ownClient) error {
	for range 20 {
		c := o
		if r.IntN(3) == 0 {
			c = other
		}
		switch r.IntN(6) {
		case 0:
			c.say(ownSteps[r.IntN(len(ownSteps))])
			continue
		case 1: // what is known of the schema is old
			c.say(ownChanges[r.IntN(len(ownChanges))])
		}
		if r.IntN(12) == 0 { // a client that goes in the middle of its block
			c.say("Q BEGIN /*c*/\n< Z\nQ INSERT INTO own_rows VALUES (2) /*c*/\n< Z\n")
			if c.c != nil {
				c.c.conn.Close()
				c.c = nil
			}
		}
		if wrong := c.asks(ownForms[r.IntN(len(ownForms))]); wrong != "" {
			return fmt.Errorf("%s\nthe one:\n%s\nthe other:\n%s", wrong, o.play.String(), other.play.String())
		}
	}
	return nil
}

// ownPrograms is how many programs of a kind of session are played. SEED and PROGRAMS choose others.
func ownPrograms(t *testing.T) (seed uint64, programs int) {
	seed, programs = 1, max(3, 12/proxy.OneIn)
	for name, to := range map[string]func(int){"SEED": func(n int) { seed = uint64(n) }, "PROGRAMS": func(n int) { programs = n }} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			to(n)
		}
	}
	return seed, programs
}

// playOwn plays programs in every kind of session while draws says what becomes of Sluice's own
// messages.
func playOwn(t *testing.T, draws func(r *rand.Rand) ownFault) {
	t.Parallel()
	seed, programs := ownPrograms(t)
	for name, kind := range ownKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := newPostgres(t)
			pg.SQL(t, "postgres", "CREATE TABLE own_rows (a int); INSERT INTO own_rows VALUES (1); CREATE SEQUENCE own_numbers")
			var p ownPlanter
			s := startSluice(t, pg, append([]option{p.option, maxOpen(3), configure(func(c *proxy.Config) { c.AnswerTimeout = ownLimit })}, kind.opts...)...)
			number := 0
			for n := range programs {
				r := rand.New(rand.NewPCG(seed, uint64(n)))
				p.plants(func([]byte) ownFault {
					if r.IntN(3) > 0 {
						return ownFault{}
					}
					return draws(r)
				})
				client := func() *ownClient { return &ownClient{t: t, addr: s.addr, first: kind.first, number: &number} }
				a, b := client(), client()
				steps := rand.New(rand.NewPCG(seed, uint64(n)+1<<32))
				if err := a.program(steps, b); err != nil {
					t.Fatalf("program %d of seed %d: %v", n, seed, err)
				}
				p.plants(nil)
				for _, c := range []*ownClient{a, b} { // nothing is left of it
					c.say("Q ROLLBACK /*c*/\n< Z\n")
					if wrong := c.asks(ownForms[0]); wrong != "" {
						t.Fatalf("behind program %d of seed %d: %s\n%s", n, seed, wrong, c.play.String())
					}
					if c.c != nil {
						c.c.conn.Close()
					}
				}
			}
			t.Log(p.counts())
			waitFor(t, "the backends to be given back", func() bool { return s.backends.Stats().InUse == 0 })
		})
	}
}

// Whatever question of Sluice's own is slow, by any amount around its limit, each client gets its own
// answers and nobody else's, or an error.
func TestOwnQuestionsAreSlow(t *testing.T) {
	amounts := []time.Duration{ownLimit / 2, ownLimit * 9 / 10, ownLimit, ownLimit * 11 / 10, ownLimit * 2}
	playOwn(t, func(r *rand.Rand) ownFault { return ownFault{slow: amounts[r.IntN(len(amounts))]} })
}

// A catalog that answers too late, since somebody has locked a part of it, shifts nobody's answers.
func TestLateAnswersAreNobodys(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]option{"postgres": nil, "dsql": {asDSQL, fastReplay}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := newPostgres(t)
			pg.SQL(t, "postgres", "CREATE TABLE late (a int); INSERT INTO late VALUES (1)")
			s := startSluice(t, pg, append(opts, maxOpen(3), configure(func(c *proxy.Config) { c.AnswerTimeout = ownLimit }))...)
			pinned, shared := dialRaw(t, s.addr), dialRaw(t, s.addr)
			pinned.say(t, "Q CREATE TEMPORARY TABLE mine(a int)\n< Z\nQ SELECT 'm1' FROM late\n< Z\n")
			shared.say(t, "Q CREATE VIEW made AS SELECT 1\n< Z\n") // and what is known of the schema is old
			lock := dialRaw(t, pg.addr)
			lock.say(t, "Q BEGIN; LOCK TABLE pg_catalog.pg_depend IN ACCESS EXCLUSIVE MODE\n< Z\n")
			for i := range 8 {
				if i == 4 {
					lock.say(t, "Q COMMIT\n< Z\n")
				}
				for who, c := range map[string]*rawClient{"pinned": pinned, "shared": shared} {
					want := fmt.Sprint("m", i)
					got := c.say(t, "Q SELECT '"+want+"' FROM late\n< Z\n")
					if strings.Count(got, "\nD ") != 1 || !strings.Contains(got, want) {
						t.Errorf("%s, query %d: %s", who, i, got)
					}
				}
			}
		})
	}
}
