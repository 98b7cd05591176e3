package outcome

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/txmodel"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/rewrite"
)

// command is one statement of the programs below.
type command struct {
	text string
	kind rewrite.StatementKind
	tx   rewrite.TxControl
}

var outcomeCommands = []command{
	{"BEGIN", rewrite.Control, rewrite.TxControl{Verb: rewrite.Begin}},
	{"READ", rewrite.Read, rewrite.TxControl{}},
	{"WRITE", rewrite.Write, rewrite.TxControl{}},
	{"COMMIT", rewrite.Control, rewrite.TxControl{Verb: rewrite.Commit}},
	{"ROLLBACK", rewrite.Control, rewrite.TxControl{Verb: rewrite.Rollback}},
	{"COMMIT AND CHAIN", rewrite.Control, rewrite.TxControl{Verb: rewrite.Commit, Chain: true}},
	{"ROLLBACK AND CHAIN", rewrite.Control, rewrite.TxControl{Verb: rewrite.Rollback, Chain: true}},
	{"SAVEPOINT", rewrite.Control, rewrite.TxControl{Verb: rewrite.Savepoint}},
	{"RELEASE", rewrite.Control, rewrite.TxControl{Verb: rewrite.ReleaseSavepoint}},
	{"ROLLBACK TO", rewrite.Control, rewrite.TxControl{Verb: rewrite.RollbackTo}},
	{"DDL", rewrite.DDL, rewrite.TxControl{}},
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
	m := txmodel.New(p.start, impatient)
	out = append(moments, moment{})
	failsAt = -1
	for i, c := range p.commands {
		if failsAt < 0 {
			m.RunCommand(c.text, 0)
			if m.Failed {
				failsAt = i
			} else if i == len(p.commands)-1 && p.executes <= i {
				m.EndRequest()
			}
		}
		out = append(out, moment{m.Applied, m.Pending})
	}
	if p.synced && failsAt < 0 {
		m.EndRequest()
	}
	return append(out, moment{m.Applied, m.Pending}), failsAt, m.Status()
}

// check plays the program on an outcome, and compares.
func (p *outcomeProgram) check(t *testing.T, patient, impatient []moment, failsAt int, after byte) {
	n := len(p.commands)
	o := FromBlock(block.FromStatus(p.start))
	for i := range p.executes {
		o.RecordExecute(p.plans[i], false)
	}
	if p.executes < n {
		o.RecordQuery(p.plans[p.executes])
	}
	if p.synced {
		o.RecordSync()
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
		case changes && !o.IsUnknown():
			fail("after %d answers the outcome counts as known", seen)
		case !changes && o.IsUnknown() && failsAt < 0:
			fail("after %d answers the outcome counts as unknown", seen)
		case ever && !o.MayCommit():
			fail("after %d answers it may be sent again", seen)
		case !ever && o.MayCommit() && failsAt < 0:
			fail("after %d answers it may not be sent again", seen)
		case failsAt < 0 && o.InBlock() != (after != 'I'):
			fail("in a block: %v", o.InBlock())
		}
		if seen == n {
			break
		}
		if seen == failsAt {
			o.RecordFailure(false)
			if o.IsUnknown() {
				fail("an error leaves nothing open")
			}
			if o.InBlock() != (after != 'I') {
				fail("in a block behind the error: %v", o.InBlock())
			}
			if o.MayCommit() != (impatient[seen].applied > 0) {
				fail("may have committed before the error: %v", o.MayCommit())
			}
			break
		}
		if seen < p.executes {
			o.RecordExecuted(p.plans[seen], false, nil)
		} else {
			o.RecordTag(p.plans[p.executes], seen-p.executes, nil)
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
