package proxy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/rewrite"
)

// command is one statement of the programs below.
type command struct {
	text string
	kind rewrite.Kind
	tx   rewrite.Transaction
}

var outcomeCommands = []command{
	{"BEGIN", rewrite.Control, rewrite.Transaction{Verb: rewrite.Begin}},
	{"READ", rewrite.Read, rewrite.Transaction{}},
	{"WRITE", rewrite.Write, rewrite.Transaction{}},
	{"COMMIT", rewrite.Control, rewrite.Transaction{Verb: rewrite.Commit}},
	{"ROLLBACK", rewrite.Control, rewrite.Transaction{Verb: rewrite.Rollback}},
	{"COMMIT AND CHAIN", rewrite.Control, rewrite.Transaction{Verb: rewrite.Commit, Chain: true}},
	{"ROLLBACK AND CHAIN", rewrite.Control, rewrite.Transaction{Verb: rewrite.Rollback, Chain: true}},
	{"SAVEPOINT", rewrite.Control, rewrite.Transaction{Verb: rewrite.Savepoint}},
	{"RELEASE", rewrite.Control, rewrite.Transaction{Verb: rewrite.ReleaseSavepoint}},
	{"ROLLBACK TO", rewrite.Control, rewrite.Transaction{Verb: rewrite.RollbackTo}},
	{"DDL", rewrite.DDL, rewrite.Transaction{}},
}

// modelServer is PostgreSQL, as far as the programs can tell. It knows nothing of
// outcome: it keeps what was changed, and moves it where PostgreSQL would.
type modelServer struct {
	tx      byte // ' ' none, 'i' implicit, 'b' block, 'f' failed block
	pending int  // changes that are not committed
	// One bit for each change: those of pending, and those that are applied.
	now, done uint64
	// savepoints are those of the block, all of one name, by the changes before them.
	savepoints []uint64
	applied    int // changes that are; a block that commits is one of its own
	// impatient: DDL outside a block commits at once.
	impatient bool
	failed    bool
}

func (m *modelServer) commit(next byte) {
	m.applied += m.pending
	m.done |= m.now
	m.now = 0
	if m.tx == 'b' {
		m.applied++
	}
	m.pending, m.savepoints, m.tx = 0, nil, next
}

func (m *modelServer) rollback(next byte) {
	m.pending, m.savepoints, m.now, m.tx = 0, nil, 0, next
}

// fail is what an error does.
func (m *modelServer) fail() {
	m.failed, m.pending = true, 0
	if m.tx != 'b' {
		m.now = 0
	}
	if m.tx == 'b' {
		m.tx = 'f'
	} else if m.tx == 'i' {
		m.tx = ' '
	}
}

func (m *modelServer) run(text string, change uint64) {
	if m.tx == ' ' {
		m.tx = 'i'
	}
	block := m.tx == 'b'
	if m.tx == 'f' {
		switch {
		case text == "COMMIT" || text == "ROLLBACK":
			m.rollback(' ')
		case strings.HasSuffix(text, "AND CHAIN"):
			m.rollback('b')
		case text == "ROLLBACK TO" && len(m.savepoints) > 0:
			m.tx, m.now = 'b', m.savepoints[len(m.savepoints)-1]
		default:
			m.fail()
		}
		return
	}
	switch text {
	case "BEGIN":
		m.tx = 'b'
	case "WRITE":
		m.pending++
		m.now |= change
	case "DDL":
		m.pending++
		m.now |= change
		if m.impatient && !block {
			m.commit('i')
		}
	case "COMMIT":
		m.commit(' ')
	case "ROLLBACK":
		m.rollback(' ')
	case "COMMIT AND CHAIN":
		if !block {
			m.fail()
			return
		}
		m.commit('b')
	case "ROLLBACK AND CHAIN":
		if !block {
			m.fail()
			return
		}
		m.rollback('b')
	case "SAVEPOINT":
		if !block {
			m.fail()
			return
		}
		m.savepoints = append(m.savepoints, m.now)
	case "RELEASE", "ROLLBACK TO":
		last := len(m.savepoints) - 1
		if !block || last < 0 {
			m.fail()
			return
		}
		if text == "RELEASE" {
			m.savepoints = m.savepoints[:last]
		} else {
			m.now = m.savepoints[last]
		}
	}
}

// end is the end of a simple Query, or a Sync.
func (m *modelServer) end() {
	if m.tx == 'i' {
		m.commit(' ')
	}
}

func (m *modelServer) status() byte {
	return map[byte]byte{' ': 'I', 'i': 'I', 'b': 'T', 'f': 'E'}[m.tx]
}

// ModelTurn plays a turn on the model: the first executes of its commands by the extended
// protocol, the others in one simple Query. In a block (start 'T') change 0 is pending;
// command i makes change i+1. It returns the changes that are applied when the first i
// commands were run, and at the end, and the status then.
func ModelTurn(start byte, commands []string, executes int) (applied []uint64, status byte) {
	m := modelServer{tx: ' '}
	if start == 'T' {
		m.tx, m.now = 'b', 1
	}
	applied = append(applied, 0)
	for i, c := range commands {
		if !m.failed {
			m.run(c, 2<<i)
			if i == len(commands)-1 && executes <= i && !m.failed {
				m.end()
			}
		}
		applied = append(applied, m.done)
	}
	if !m.failed {
		m.end()
	}
	return append(applied, m.done), m.status()
}

// outcomeProgram is a turn: the first executes of its commands by the extended protocol,
// the others in one simple Query; where there are none, synced says whether a Sync follows.
type outcomeProgram struct {
	start    byte
	commands []*command
	executes int
	synced   bool
	plans    []*rewrite.Plan // of the Executes, and of the Query
}

func (p *outcomeProgram) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %c", p.start)
	for i, c := range p.commands {
		sep := "; "
		if i < p.executes {
			sep = " E:"
		} else if i == p.executes {
			sep = " Q:"
		}
		b.WriteString(sep + c.text)
	}
	if p.synced {
		b.WriteString(" Sync")
	}
	return b.String()
}

// moment is what a server holds after some of the commands.
type moment struct{ applied, pending int }

// worlds plays the program on a server: what it holds when the first i commands were
// run (the end of the turn counts as one more), and where an error stops it.
func (p *outcomeProgram) worlds(impatient bool, moments []moment) (out []moment, failsAt int, after byte) {
	m := modelServer{tx: map[byte]byte{'I': ' ', 'T': 'b', 'E': 'f'}[p.start], impatient: impatient}
	if p.start != 'I' {
		m.savepoints = []uint64{0}
	}
	out = append(moments, moment{})
	failsAt = -1
	for i, c := range p.commands {
		if failsAt < 0 {
			m.run(c.text, 0)
			if m.failed {
				failsAt = i
			} else if i == len(p.commands)-1 && p.executes <= i {
				m.end()
			}
		}
		out = append(out, moment{m.applied, m.pending})
	}
	if p.synced && failsAt < 0 {
		m.end()
	}
	return append(out, moment{m.applied, m.pending}), failsAt, m.status()
}

// check plays the program on an outcome, and compares.
func (p *outcomeProgram) check(t *testing.T, patient, impatient []moment, failsAt int, after byte) {
	n := len(p.commands)
	o := outcomeAt(block.At(p.start))
	for i := range p.executes {
		o.execute(p.plans[i], false)
	}
	if p.executes < n {
		o.query(p.plans[p.executes])
	}
	if p.synced {
		o.sync()
	}
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%v: %s\n%+v", p, fmt.Sprintf(format, args...), o)
	}
	// The server has run at least what it has answered, and at most everything.
	for seen := 0; ; seen++ {
		// Of what is not settled yet an impatient server may have applied a part.
		changes, ever := patient[seen].pending > impatient[seen].pending, false
		for ran := seen; ran <= n+1; ran++ {
			changes = changes || patient[ran].applied != patient[seen].applied || impatient[ran].applied != impatient[seen].applied
			ever = ever || patient[ran].applied > 0 || impatient[ran].applied > 0
		}
		switch {
		case changes && !o.unknown():
			fail("after %d answers the outcome counts as known", seen)
		case !changes && o.unknown() && failsAt < 0:
			fail("after %d answers the outcome counts as unknown", seen)
		case ever && !o.mayCommit():
			fail("after %d answers it may be sent again", seen)
		case !ever && o.mayCommit() && failsAt < 0:
			fail("after %d answers it may not be sent again", seen)
		case failsAt < 0 && o.inBlock() != (after != 'I'):
			fail("in a block: %v", o.inBlock())
		}
		if seen == n {
			break
		}
		if seen == failsAt {
			o.failed(false)
			if o.unknown() {
				fail("an error leaves nothing open")
			}
			if o.inBlock() != (after != 'I') {
				fail("in a block behind the error: %v", o.inBlock())
			}
			if o.mayCommit() != (impatient[seen].applied > 0) {
				fail("may have committed before the error: %v", o.mayCommit())
			}
			break
		}
		if seen < p.executes {
			o.executed(p.plans[seen], false, nil)
		} else {
			o.answered(p.plans[p.executes], seen-p.executes, nil)
			if o.concluded != (seen == n-1) {
				fail("concluded: %v", o.concluded)
			}
		}
	}
}

// What a turn may have committed, for every turn of up to five commands in every
// mixture of the two protocols, with and without Sync, and every number of answers:
// as a model of the server has it, which moves changes instead of counting commits.
func TestOutcome(t *testing.T) {
	t.Parallel()
	single := map[*command]*rewrite.Plan{}
	for i := range outcomeCommands {
		c := &outcomeCommands[i]
		single[c] = &rewrite.Plan{Kind: c.kind, Statements: []rewrite.Statement{{Kind: c.kind, Tx: c.tx}}}
	}
	longest := 5 - min(OneIn/13, 1) // with the race detector 4
	var patient, impatient []moment
	programs := 0
	commands := make([]*command, longest)
	plans := make([]*rewrite.Plan, 0, longest+1)
	tail := make([]rewrite.Statement, 0, longest)
	var play func(n, at int)
	play = func(n, at int) {
		if at < n {
			for i := range outcomeCommands {
				commands[at] = &outcomeCommands[i]
				play(n, at+1)
			}
			return
		}
		for executes := 0; executes <= n; executes++ {
			plans, tail = plans[:0], tail[:0]
			for _, c := range commands[:executes] {
				plans = append(plans, single[c])
			}
			query := rewrite.Plan{}
			for _, c := range commands[executes:n] {
				tail = append(tail, single[c].Statements[0])
				query.Kind = max(query.Kind, c.kind)
			}
			query.Statements = tail
			plans = append(plans, &query)
			for _, start := range []byte("ITE") {
				for _, synced := range []bool{false, true} {
					if synced && executes < n {
						continue
					}
					p := outcomeProgram{start, commands[:n], executes, synced, plans}
					var failsAt int
					var after byte
					patient, failsAt, after = p.worlds(false, patient[:0])
					impatient, _, _ = p.worlds(true, impatient[:0])
					p.check(t, patient, impatient, failsAt, after)
					programs++
				}
			}
		}
	}
	for n := 1; n <= longest; n++ {
		if testing.Short() && n == longest {
			break
		}
		play(n, 0)
	}
	t.Logf("%d turns", programs)
}
