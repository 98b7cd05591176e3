package retry

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A tiny database with optimistic concurrency: snapshots, and at COMMIT the
// first committer of a row wins.
type store struct {
	values, versions [3]int
	commits          int
}

type transaction struct {
	store  *store
	began  int // commits seen by the snapshot
	values [3]int
	wrote  [3]bool
}

func (s *store) begin() *transaction {
	return &transaction{store: s, began: s.commits, values: s.values}
}

// run executes one statement and returns what the server answers; nil is a
// conflict.
func (x *transaction) run(sql string) []reply {
	var verb string
	var row, value int
	fmt.Sscan(sql, &verb, &row, &value)
	tag, status := "UPDATE 1", byte('T')
	var rows []reply
	switch verb {
	case "read":
		tag, rows = "SELECT 1", []reply{{typ: 'D', payload: fmt.Appendf(nil, "%d", x.values[row])}}
	case "set":
		x.values[row], x.wrote[row] = value, true
	case "add":
		x.values[row], x.wrote[row] = x.values[row]+1, true
	case "commit":
		for i := range x.wrote {
			if x.wrote[i] && x.store.versions[i] > x.began {
				return nil
			}
		}
		x.store.commits++
		for i := range x.wrote {
			if x.wrote[i] {
				x.store.values[i], x.store.versions[i] = x.values[i], x.store.commits
			}
		}
		tag, status = "COMMIT", 'I'
	}
	return append(rows, reply{typ: 'C', payload: append([]byte(tag), 0)}, reply{typ: 'Z', payload: []byte{status}})
}

// counter is a client that adds one to a row, by a value that it read or by the
// server's own arithmetic, through a relay that replays.
type counter struct {
	store    *store
	logs     *ReplayLogPool[int]
	random   *rand.Rand
	sabotage bool // let replays that differ pass

	row       int
	reads     bool
	step      int // of the program: read or nothing, write, commit
	read      int
	x         *transaction
	log       *ReplayLog[int]
	replaying bool
	attempts  Attempts
	acked     [3]int
	leaked    int
	replays   int
}

// next is the client's next request.
func (c *counter) next() string {
	switch c.step {
	case 0:
		return fmt.Sprintf("read %d", c.row)
	case 1:
		if c.reads {
			return fmt.Sprintf("set %d %d", c.row, c.read+1)
		}
		return fmt.Sprintf("add %d", c.row)
	}
	return "commit"
}

// turn does one turn, of the client's or of a replay.
func (c *counter) turn() {
	if c.x == nil {
		c.x, c.log = c.store.begin(), c.logs.Open()
		c.row, c.reads, c.step, c.attempts = c.random.IntN(3), c.random.IntN(2) == 0, 0, Attempts{}
		if !c.reads {
			c.step = 1
		}
	}
	if !c.replaying {
		sql := c.next()
		c.log.RecordFrame('Q', c.step, len(sql), 0)
		c.log.AppendPayload([]byte(sql))
	}
	at := c.log.CurrentTurn()
	catchingUp := at < c.log.TurnCount()
	var sql []byte
	for i := range c.log.TurnFrames(at) {
		c.log.EachPayloadPiece(&c.log.TurnFrames(at)[i], func(b []byte) error { sql = append(sql, b...); return nil })
	}
	replies := c.x.run(string(sql))
	if replies == nil {
		c.conflict()
		return
	}
	var told []byte
	for _, r := range replies {
		frame := r.frame()
		drop, ok := c.log.RecordReply(r.typ, frame)
		if !ok && !c.sabotage {
			c.leaked++
			c.end()
			return
		}
		told = append(told, frame[drop:]...)
	}
	if c.sabotage && catchingUp && c.log.CurrentTurn() == at {
		c.log.at++ // as if it had been the same
		c.log.out.reset()
	}
	if catchingUp {
		if len(told) > 0 {
			panic("told twice")
		}
		return
	}
	c.replaying = false
	for _, r := range split(told) {
		if r.typ == 'D' {
			fmt.Sscan(string(r.payload), &c.read)
		}
	}
	c.step++
	if c.step == 3 {
		c.acked[c.row]++
		c.end()
	}
}

func (c *counter) conflict() {
	p := Defaults().Policy
	if _, why := c.attempts.NextDelay(&p, DataConflict, time.Unix(1, 0), 0, 0); why != Replayable || !c.log.BeginReplay() {
		c.leaked++
		c.end()
		return
	}
	c.replays++
	c.x, c.replaying = c.store.begin(), true
}

func (c *counter) end() {
	c.log.Close()
	c.x, c.log, c.replaying = nil, nil, false
}

// race lets counters run in an order drawn from a seed and reports whether each
// row holds what was acknowledged.
func race(logs *ReplayLogPool[int], seed uint64, sabotage bool) (right bool, replays, leaked int) {
	random := rand.New(rand.NewPCG(seed, 0))
	s := &store{}
	clients := make([]*counter, 4)
	for i := range clients {
		clients[i] = &counter{store: s, logs: logs, random: random, sabotage: sabotage}
	}
	for range 400 {
		clients[random.IntN(len(clients))].turn()
	}
	var acked [3]int
	for _, c := range clients {
		for i, n := range c.acked {
			acked[i] += n
		}
		replays, leaked = replays+c.replays, leaked+c.leaked
	}
	return acked == s.values, replays, leaked
}

// Feature: dsql-locking-compatibility, Property 4: Concurrency safety: whatever
// is replayed, no acknowledged update is lost and none is applied twice; who
// lost learns it.
func TestNoUpdateIsLost(t *testing.T) {
	t.Parallel()
	logs, err := NewReplayLogPool[int](Defaults())
	if err != nil {
		t.Fatal(err)
	}
	replays, leaked := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		right, n, m := race(logs, rapid.Uint64().Draw(t, "seed"), false)
		if !right {
			t.Fatal("the rows do not hold what was acknowledged")
		}
		replays, leaked = replays+n, leaked+m
	})
	if replays < 100 || leaked < 100 {
		t.Fatalf("%d replays, %d conflicts told: this test shows nothing", replays, leaked)
	}
	wrong := 0
	for seed := range uint64(100) {
		if right, _, _ := race(logs, seed, true); !right {
			wrong++
		}
	}
	if wrong < 50 {
		t.Fatalf("with differences ignored, only %d of 100 runs lost an update", wrong)
	}
}
