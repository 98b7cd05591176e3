package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"

	"github.com/sluice-proxy/sluice/integration/replay/oracle"
)

// killSpan is the time in which a client that is to be killed is.
const killSpan = 15 * time.Millisecond

// speakLimit bounds a program: a client that hangs fails the test.
const speakLimit = 60 * time.Second

// teller is one client: it runs programs one after the other and writes down what
// it asked and what it was told.
type teller struct {
	world   *world
	number  int
	speaker speaker
	manner  string
	before  lists // what it has last seen of each key

	// Of the program that runs.
	known lists
	txn   *oracle.Txn
	last  *oracle.Txn // of the program before, for the story of an error
	left  bool        // it went without a word
	// severed: the connection was gone after an error, and nobody expects that.
	severed bool
	pinned  bool // its session keeps a backend, and ends with it
}

// run runs a program. An error is not one that a client may get.
func (c *teller) run(ctx context.Context, p *program) ([]*oracle.Txn, error) {
	if c.speaker == nil {
		at := speakers[int(p.coin>>8%uint64(len(speakers)))]
		daemon := int(p.coin>>16) % len(c.world.daemons)
		s, err := at.open(ctx, c.world.daemons[daemon].DSN("postgres"))
		if err != nil {
			return nil, fmt.Errorf("%s connects: %w", at.name, err)
		}
		c.pinned = false
		c.speaker, c.manner = s, fmt.Sprintf("client %d, daemon %d, %s", c.number, daemon, at.name)
	}
	said := c.speaker
	c.left, c.severed, c.last = false, false, c.txn
	if p.killed > 0 {
		killing := make(chan struct{})
		timer := time.AfterFunc(time.Duration(p.killed*float64(killSpan)), func() { said.kill(); close(killing) })
		defer func() {
			if !timer.Stop() {
				<-killing
				c.leave()
			}
		}()
	}
	if p.cancelled > 0 {
		cancelling := make(chan struct{})
		timer := time.AfterFunc(time.Duration(p.cancelled*float64(killSpan)), func() { said.cancel(); close(cancelling) })
		defer func() {
			if !timer.Stop() {
				<-cancelling
			}
		}()
	}
	var hung atomic.Bool
	watchdog := time.AfterFunc(speakLimit, func() { hung.Store(true); said.kill() })
	txns, err := c.perform(p)
	watchdog.Stop()
	ended := c.world.tick()
	for _, t := range txns {
		t.Ended = ended
	}
	if hung.Load() {
		c.left = true
		err = fmt.Errorf("no answer within %v\n%v%v", speakLimit, c.txn, c.last)
	} else {
		err = c.judge(p, err)
	}
	if c.left || p.coin%40 == 0 || c.pinned && (err != nil || p.coin%4 == 0) {
		c.leave()
	}
	for k, list := range c.known {
		if slices.ContainsFunc(txns, func(t *oracle.Txn) bool { return t.Outcome == oracle.Committed }) {
			c.before[k] = list
		}
	}
	return txns, err
}

// leave ends the connection; the next program opens another.
func (c *teller) leave() {
	if c.speaker != nil {
		c.speaker.close()
		c.speaker = nil
	}
}

// item is one statement of a program, and the step and transaction it belongs to.
type item struct {
	st       *statement
	step     *step // nil of BEGIN and the ends
	txn      *oracle.Txn
	expected string // by a swap
}

func (c *teller) items(steps []step) []item {
	items := make([]item, 0, len(steps))
	for i := range steps {
		s := &steps[i]
		items = append(items, item{s.statement(c.known, c.before), s, c.txn, s.expects(c.known, c.before)})
	}
	return items
}

func (c *teller) plain(sql string) item { return item{st: plain(sql), txn: c.txn} }

func statements(items []item) []*statement {
	all := make([]*statement, len(items))
	for i := range items {
		all[i] = items[i].st
	}
	return all
}

// begin starts a transaction's record.
func (c *teller) begin(id int) *oracle.Txn {
	c.txn = &oracle.Txn{ID: id, Began: c.world.tick(), Story: []string{c.manner}}
	return c.txn
}

// one asks one statement.
func (c *teller) one(i item) error {
	a, err := c.speaker.ask(i.st)
	if err != nil {
		return c.note([]item{i}, nil, err)
	}
	return c.note([]item{i}, []*answer{a}, nil)
}

// note writes down what was asked in one request, and what was told.
func (c *teller) note(items []item, answers []*answer, err error) error {
	const enough = 200
	for n, i := range items {
		told := "-"
		var a *answer
		if n < len(answers) {
			told = "done"
			if a = answers[n]; a != nil {
				told = a.tag
				c.world.saw(a.tag)
				if i.step != nil && !i.step.fits(a) {
					err = errors.Join(err, fmt.Errorf("%w: %s: %q, %d rows", errMisanswered, i.st.sql, a.tag, len(a.rows)))
					a = nil
				}
			}
		}
		line := fmt.Sprintf("%s %v", i.st.sql, i.st.args)
		if len(line) > enough {
			line = line[:enough] + "..."
		}
		i.txn.Story = append(i.txn.Story, line+": "+told)
		if i.step != nil {
			c.pinned = c.pinned || i.step.kind == pin
			i.txn.Ops = append(i.txn.Ops, i.step.learn(c.known, i.expected, a)...)
		}
	}
	if err != nil {
		t := items[len(items)-1].txn
		t.Story = append(t.Story, "error: "+err.Error())
	}
	return err
}

// errMisanswered is an answer that the statement cannot have.
var errMisanswered = errors.New("not an answer to this")

// perform says a program, and returns its transactions with the first error.
func (c *teller) perform(p *program) (txns []*oracle.Txn, err error) {
	c.known = make(lists)
	c.begin(p.id)
	if p.guard > 0 {
		return c.underLock(p, func() ([]*oracle.Txn, error) { return c.speak(p) })
	}
	return c.speak(p)
}

// speak is perform behind the lock of the program, if it has one.
func (c *teller) speak(p *program) (txns []*oracle.Txn, err error) {
	t := c.txn
	txns = append(txns, t)
	switch p.shape {
	case alone:
		err = c.one(c.items(p.steps())[0])
		t.Outcome = outcome(err, true)
	case dialogue:
		t.Outcome, err = c.dialogue(p)
	case double:
		return c.double(p)
	case script, group:
		items := c.items(p.steps())
		if p.begin != "" {
			items = append([]item{c.plain(p.begin)}, append(items, c.plain(p.end))...)
		}
		say := c.speaker.script
		if p.shape == group {
			say = c.speaker.group
		}
		answers, told := say(statements(items))
		err = c.recover(c.note(items, answers, told))
		t.Outcome = outcome(err, true)
	case burst:
		items := []item{c.plain(p.begin)}
		var turns [][]*statement
		for i, turn := range p.turns {
			these := c.items(turn)
			items = append(items, these...)
			turns = append(turns, statements(these))
			if i == 0 {
				turns[0] = append([]*statement{items[0].st}, turns[0]...)
			}
		}
		end := c.plain(p.end)
		items = append(items, end)
		answers, told := c.speaker.burst(append(turns, []*statement{end.st}))
		err = c.recover(c.note(items, answers, told))
		if t.Outcome = outcome(err, true); t.Outcome == oracle.Committed {
			t.Outcome = outcomeOf(p.end)
		}
	}
	return txns, err
}

// outcomeOf an end that was answered.
func outcomeOf(end string) oracle.Outcome {
	if end == "ROLLBACK" {
		return oracle.Aborted
	}
	return oracle.Committed
}

// outcome is what a client knows after a request; commits: it may have committed.
func outcome(err error, commits bool) oracle.Outcome {
	code, _, _ := told(err)
	switch {
	case err == nil:
		return oracle.Committed
	case commits && (code == "08007" || code == ""):
		return oracle.Unknown
	}
	return oracle.Aborted
}

// dialogue is an interactive transaction.
func (c *teller) dialogue(p *program) (oracle.Outcome, error) {
	if err := c.one(c.plain(p.begin)); err != nil {
		return oracle.Aborted, c.recover(err)
	}
	failed := false
	for n, turn := range p.turns {
		if failed && turn[0].kind != back {
			continue
		}
		failed = false
		items := c.items(turn)
		var err error
		switch {
		case len(items) == 1:
			err = c.one(items[0])
		case turn[0].coin>>24%2 == 0:
			answers, told := c.speaker.group(statements(items))
			err = c.note(items, answers, told)
		default:
			answers, told := c.speaker.script(statements(items))
			err = c.note(items, answers, told)
		}
		if err == nil {
			if turn[0].kind == back {
				undo(c.known, c.txn.Ops)
				c.world.returns.Add(1)
			}
			continue
		}
		if code, _, _ := told(err); code != "" && turn[len(turn)-1].fails() == code && returns(p.turns[n:]) {
			failed = true
			continue
		}
		return oracle.Aborted, c.recover(err)
	}
	if p.end == "" {
		c.left = true
		c.speaker.kill()
		return oracle.Aborted, nil
	}
	err := c.one(c.plain(p.end))
	switch {
	case err == nil:
		return outcomeOf(p.end), nil
	case p.end == "ROLLBACK":
		return oracle.Aborted, c.recover(err)
	}
	return outcome(err, true), err
}

// returns reports whether a ROLLBACK TO comes next, and nothing between that needs a block which
// has not failed.
func returns(turns [][]step) bool {
	return len(turns) > 1 && turns[1][0].kind == back
}

// recover ends the block that an error has left, if the connection is still there.
func (c *teller) recover(err error) error {
	if code, _, _ := told(err); code == "" {
		return err
	}
	again := c.one(c.plain("ROLLBACK"))
	if code, _, _ := told(again); again != nil && code == "" {
		c.left = true
		// lib/pq gives a connection up on which a ROLLBACK has failed.
		_, expected := c.speaker.(*pqSpeaker)
		c.severed = !expected && !c.pinned && !lockLost(err)
	}
	return errors.Join(err, again)
}

// double is two transactions in one string. The first is known to have committed
// when its end was answered.
func (c *teller) double(p *program) ([]*oracle.Txn, error) {
	var txns []*oracle.Txn
	var items []item
	ends := make([]int, 0, idsOf)
	for i, turn := range p.turns {
		if i > 0 {
			c.begin(p.id + i)
		}
		txns = append(txns, c.txn)
		items = append(items, c.plain(p.begin))
		items = append(items, c.items(turn)...)
		ends = append(ends, len(items))
		items = append(items, c.plain(p.end))
	}
	answers, told := c.speaker.script(statements(items))
	err := c.recover(c.note(items, answers, told))
	for i, t := range txns {
		t.Outcome = outcome(err, true)
		switch _, silent := c.speaker.(*pqSpeaker); {
		case len(answers) > ends[i]:
			t.Outcome = oracle.Committed
		case silent && err != nil && i == 0:
			t.Outcome = oracle.Unknown
		}
	}
	return txns, err
}

// told takes an error of any driver apart. code is "" of one that no server sent.
func told(err error) (code, detail, hint string) {
	var fromPgx *pgconn.PgError
	var fromPq *pq.Error
	switch {
	case errors.As(err, &fromPgx):
		return fromPgx.Code, fromPgx.Detail, fromPgx.Hint
	case errors.As(err, &fromPq):
		return string(fromPq.Code), fromPq.Detail, fromPq.Hint
	}
	return "", "", ""
}

// judge returns the error unless a client may get it.
func (c *teller) judge(p *program, err error) error {
	if err == nil {
		return nil
	}
	code, detail, hint := told(err)
	c.world.count(code)
	expected := false
	switch code {
	case "":
		expected = (p.killed > 0 || c.pinned) && !errors.Is(err, errMisanswered)
		c.left = c.left || c.pinned
	case "40001":
		expected = strings.HasPrefix(detail, "Replay refused: ") && hint != ""
		if strings.Contains(err.Error(), "the schema was changed while the statement waited") { // nothing of it was sent
			c.world.overtaken.Add(1)
			expected = true
		}
		if p.guard > 0 && lockLost(err) {
			c.world.lost.Add(1)
			expected = true
		}
	case "08006", "08007", "57014":
		expected = true
	case "0A000": // what was told cannot be told again, or must not be asked again
		optedOut := func(s step) bool { return s.optOut }
		expected = strings.HasPrefix(hint, "Roll the whole transaction back. Make such values") || strings.HasPrefix(hint, "Have the application make its times") ||
			c.refusesBlock(p, err) || strings.HasPrefix(hint, "Sluice returns to a savepoint") && (c.pinned || slices.ContainsFunc(p.steps(), optedOut))
	default:
		expected = slices.ContainsFunc(p.steps(), func(s step) bool { return s.fails() == code })
	}
	if expected && (p.killed > 0 || p.guard > 0 || !c.severed) { // a session whose lock is lost ends behind the error
		return nil
	}
	return fmt.Errorf("%w (%s; %s)\n%v%v", err, detail, hint, c.txn, c.last)
}
