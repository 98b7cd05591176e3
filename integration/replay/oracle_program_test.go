package replay

import (
	"math/rand/v2"
	"slices"
)

// A batch's keys: most transactions fight for the first few.
const (
	keysOfBatch = 16
	hotKeys     = 4
	batchStride = 1000 // between the first keys of two batches
	idStride    = 64   // between the first writes of two transactions
)

// shape is how a program's statements reach the server.
type shape uint8

const (
	alone    shape = iota // one statement in autocommit
	dialogue              // BEGIN, turns that are read one by one, an end
	script                // all of it in one simple Query
	double                // two transactions in one simple Query
	group                 // all of it before one Sync
	burst                 // several Syncs, sent before any answer is read
)

// kind is what a step does.
type kind uint8

const (
	readOne   kind = iota // one key
	readSome              // several keys
	readAll               // every key of the batch
	lock                  // one key, with FOR UPDATE
	add                   // append by the server
	addTold               // the same, RETURNING the list
	addSome               // one write in two lists
	rewrite               // append by the client: the list that it read, and one more
	swap                  // append if the list is what the client saw last
	mark                  // insert a row with volatile values
	markTold              // the same, RETURNING them
	made                  // insert a row that the server fills in
	madeTold              // the same, RETURNING what it filled in
	madeTimed             // the same, with the time
	madeTwice             // two such rows in one statement, RETURNING that
	copied                // two such rows by a COPY, or by an INSERT where the client has no COPY
	declare               // a cursor over every key of the batch
	fetch                 // its first rows
	fetchRest             // the others
	closed                // CLOSE
	drawn                 // a number of a sequence
	now                   // the time of the transaction
	chance                // random(), told
	duplicate             // fails: 23505
	division              // fails: 22012
	save                  // SAVEPOINT
	back                  // ROLLBACK TO
	release               // RELEASE
	pin                   // PREPARE: the session keeps its backend from here on
	pinned                // EXECUTE of that
)

type step struct {
	kind   kind
	keys   []int
	id     int
	tagged bool
	strong string // of a lock: its clause
	optOut bool
	coin   uint64 // for whoever says it
	level  int    // of a savepoint
}

// fails is the SQLSTATE that a step must be answered, "" if it should succeed.
func (s *step) fails() string {
	switch s.kind {
	case duplicate:
		return "23505"
	case division:
		return "22012"
	}
	return ""
}

// program is what one client does in one go: a transaction, or two if it is double.
type program struct {
	id    int // of the transaction; the second one of a double has the next
	shape shape
	begin string // "" for none
	turns [][]step
	end   string // "" with begin: it leaves without a word
	coin  uint64
	// killed cuts the client's connection, and cancelled sends a cancel request,
	// after a part of a few milliseconds; 0 for never.
	killed, cancelled float64
	// guard is which lock of its batch the program holds, from 1 on; 0 for none. waits: it waits for the lock.
	guard, batch int
	waits        bool
}

// steps are those of all turns.
func (p *program) steps() []step { return slices.Concat(p.turns...) }

// idsOf is how many transactions a program may be.
const idsOf = 2

// draw makes the n-th program of a batch. It depends on seed, batch and n alone.
func draw(seed uint64, batch, n, size int) *program {
	r := rand.New(rand.NewPCG(seed, uint64(batch*size+n)))
	p := &program{id: (batch*size + n) * idsOf, coin: r.Uint64()}
	d := drawer{r: r, p: p, first: batch * batchStride, id: p.id * idStride}
	p.shape = pick(r, alone, alone, alone, dialogue, dialogue, dialogue, dialogue, dialogue, script, double, group, group, burst)
	if r.Float64() < 0.02 {
		p.killed = r.Float64()
	}
	if r.Float64() < 0.02 {
		p.cancelled = r.Float64()
	}
	if p.shape == alone {
		p.turns = [][]step{{d.step()}}
	} else {
		d.body()
	}
	switch {
	case p.shape == dialogue && p.end != "" && r.IntN(3) == 0:
		d.savepoints()
	case p.shape == dialogue && p.end != "" && r.IntN(12) == 0:
		d.pins()
	case p.shape == dialogue && r.IntN(6) == 0:
		d.reads()
	}
	if p.shape == burst {
		p.cancelled = 0 // it may end the BEGIN alone, and the other turns are sent already
	}
	if r.Float64() < 0.4 {
		turn := p.turns[r.IntN(len(p.turns))]
		turn[r.IntN(len(turn))].tagged = true
		if p.shape == double { // one of each
			p.turns[0][0].tagged, p.turns[1][0].tagged = true, true
		}
		p.untag()
	}
	if r.Float64() < 0.01 {
		p.turns[0][0].optOut = true
	}
	if p.shape != double && r.IntN(6) == 0 {
		d.guard(batch)
	}
	return p
}

// untag takes the tags of statements that are not in every attempt: the answer to some stands, and
// what lies behind a savepoint may be undone.
func (p *program) untag() {
	open := map[int]bool{}
	for _, turn := range p.turns {
		for i := range turn {
			switch turn[i].kind {
			case save:
				open[turn[i].level] = true
			case back, release:
				delete(open, turn[i].level)
			}
			turn[i].tagged = turn[i].tagged && len(open) == 0 && turn[i].kind < save && (turn[i].kind < copied || turn[i].kind == duplicate || turn[i].kind == division)
		}
	}
}

type drawer struct {
	r         *rand.Rand
	p         *program
	first, id int
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// body draws begin, turns and end.
func (d *drawer) body() {
	r, p := d.r, d.p
	p.begin = pick(r, "BEGIN", "BEGIN", "BEGIN", "START TRANSACTION", "BEGIN READ WRITE", "BEGIN ISOLATION LEVEL REPEATABLE READ")
	p.end = pick(r, "COMMIT", "COMMIT", "COMMIT", "COMMIT", "COMMIT", "END", "END", "COMMIT", "COMMIT", "ROLLBACK", "")
	turns := 1 + r.IntN(5)
	most := 1
	switch p.shape {
	case double:
		turns, most, p.begin, p.end = 2, 3, "BEGIN", "COMMIT"
	case script, group:
		p.end = "COMMIT"
		most = 2
		if r.IntN(2) == 0 {
			p.begin, p.end = "", ""
		}
	case burst:
		p.end = pick(r, "COMMIT", "COMMIT", "ROLLBACK")
		most = 2
	case dialogue:
		if r.IntN(4) == 0 {
			most = 3
		}
	}
	for i := range turns {
		if p.shape == double {
			d.id = (p.id + i) * idStride
		}
		var turn []step
		for range 1 + r.IntN(most) {
			turn = append(turn, d.step())
		}
		for i := range turn { // what is sent together is spelt before any of it is answered
			if k := turn[i].kind; len(turn) > 1 && (k == swap || k == rewrite && i > 0) {
				turn[i].kind = add
			}
		}
		p.turns = append(p.turns, turn)
	}
	if r.Float64() < 0.05 {
		last := p.turns[len(p.turns)-1]
		last[len(last)-1].kind = pick(r, duplicate, division)
	}
}

// savepoints puts one or two around some of the turns, one inside the other or behind it. Most are
// returned to, some of those behind a statement that fails.
func (d *drawer) savepoints() {
	turns := d.p.turns
	d.p.turns = nil
	from := d.r.IntN(len(turns) + 1)
	to := from + d.r.IntN(len(turns)-from+1)
	inner := d.r.IntN(3) > 0
	d.p.turns = append(d.p.turns, turns[:from]...)
	d.p.turns = append(d.p.turns, d.savepoint(1, save))
	if middle := from + d.r.IntN(to-from+1); inner {
		d.p.turns = append(d.p.turns, d.savepoint(2, save))
		d.p.turns = append(d.p.turns, turns[from:middle]...)
		d.ends(2)
		d.p.turns = append(d.p.turns, turns[middle:to]...)
	} else {
		d.p.turns = append(d.p.turns, turns[from:to]...)
	}
	d.ends(1)
	if d.p.turns = append(d.p.turns, turns[to:]...); d.r.IntN(2) == 0 {
		d.p.turns = append(d.p.turns, []step{d.step()})
	}
}

// pins has the session keep its backend from some turn on, and looks whether it has it still.
func (d *drawer) pins() {
	d.id++
	from := d.r.IntN(len(d.p.turns) + 1)
	to := from + d.r.IntN(len(d.p.turns)-from+1)
	at := func(k kind) [][]step { return [][]step{{{kind: k, id: d.id, coin: d.r.Uint64()}}} }
	d.p.turns = slices.Concat(d.p.turns[:from], at(pin), d.p.turns[from:to], at(pinned), d.p.turns[to:])
}

// reads puts a cursor between two turns, which is read in two parts.
func (d *drawer) reads() {
	at := d.r.IntN(len(d.p.turns) + 1)
	var turns [][]step
	for _, k := range []kind{declare, fetch, fetchRest, closed} {
		turns = append(turns, []step{{kind: k, keys: []int{d.first}, coin: d.r.Uint64()}})
	}
	d.p.turns = slices.Concat(d.p.turns[:at], turns, d.p.turns[at:])
}

// ends ends a savepoint.
func (d *drawer) ends(level int) {
	if d.r.IntN(4) == 0 {
		d.p.turns = append(d.p.turns, d.savepoint(level, release))
		return
	}
	if d.r.IntN(3) == 0 {
		fails := d.step()
		fails.kind, fails.keys = pick(d.r, duplicate, division), []int{d.first}
		turn := []step{fails}
		if d.r.IntN(2) == 0 {
			first := d.step()
			if first.kind == swap || first.kind == rewrite {
				first.kind = add
			}
			turn = []step{first, fails}
		}
		d.p.turns = append(d.p.turns, turn)
	}
	d.p.turns = append(d.p.turns, d.savepoint(level, back))
	if d.r.IntN(2) == 0 {
		d.p.turns = append(d.p.turns, d.savepoint(level, release))
	}
}

func (d *drawer) savepoint(level int, k kind) []step {
	return []step{{kind: k, level: level, coin: d.r.Uint64()}}
}

func (d *drawer) key() int {
	if d.r.IntN(3) > 0 {
		return d.first + d.r.IntN(hotKeys)
	}
	return d.first + d.r.IntN(keysOfBatch)
}

// keys are n different ones, in order.
func (d *drawer) keys(n int) []int {
	var keys []int
	for len(keys) < n {
		if k := d.key(); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

func (d *drawer) step() step {
	r := d.r
	d.id++
	s := step{id: d.id, coin: r.Uint64(), strong: pick(r, " FOR UPDATE", " FOR UPDATE", " FOR UPDATE", " FOR NO KEY UPDATE")}
	s.kind = pick(r, readOne, readOne, readOne, readSome, readAll, lock, lock, add, add, add, add, addTold, addTold, addSome,
		rewrite, rewrite, swap, mark, markTold, made, madeTold, madeTold, madeTimed, madeTwice, copied, copied, drawn, now, chance)
	switch interactive := d.p.shape == dialogue; {
	case s.kind == rewrite && !interactive, s.kind == swap && !interactive && d.p.shape != alone:
		s.kind = add // nothing was read to base it on
	case s.kind == lock && d.p.begin == "":
		s.kind = readOne // the stand-in notes the rows of locking clauses in blocks only
	}
	switch s.kind {
	case madeTwice, copied:
		d.id++ // the second row's
		s.keys = []int{d.first}
	case readAll, mark, markTold, made, madeTold, madeTimed, drawn, now, chance, duplicate, division:
		s.keys = []int{d.first}
	case readSome:
		s.keys = d.keys(2 + r.IntN(3))
	case addSome:
		s.keys = d.keys(2)
	default:
		s.keys = []int{d.key()}
	}
	return s
}
