package replay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/replay/oracle"
)

// Programs under advisory locks. A lock guards a register of its own: whoever holds the lock reads the register
// in one transaction, and writes back what it has read, and one more, in a later one. The lock alone makes the
// two one. So the program is one transaction to the oracle, and a write of a client that has lost its lock
// shows as a lost update.
//
// A thief takes locks over now and then, as a Sluice does that has seen a lease run out, and works under them.

// guards is how many locks, and registers of theirs, a batch has.
const guards = 3

// thiefID is the first number of a thief's transaction and of its write.
const thiefID = 1 << 40

// thiefLooks is how often a thief looks for somebody who holds a lock.
const thiefLooks = 100

// guardKey is the register that a lock of a batch guards, and guardLock the key of that lock.
func guardKey(batch, guard int) int  { return batch*batchStride + keysOfBatch + guard }
func guardLock(batch, guard int) int { return batch*guards + guard }

// guard has a program run under a lock of its batch. The write that the lock guards goes in front of all others
// or behind them, where no savepoint takes it back.
func (d *drawer) guard(batch int) {
	r, p := d.r, d.p
	p.guard, p.waits = 1+r.IntN(guards), r.IntN(3) == 0
	p.batch = batch
	d.id++
	write := step{kind: rewrite, keys: []int{guardKey(batch, p.guard-1)}, id: d.id, coin: r.Uint64()}
	switch {
	case p.shape == alone:
		p.turns = [][]step{{write}}
	case p.shape == script || p.shape == group:
		p.turns = slices.Concat([][]step{{write}}, p.turns)
		if p.shape == script {
			p.begin, p.end = "", "" // a multi-statement query of several transactions is refused
		}
	case r.IntN(2) == 0:
		p.turns = slices.Concat([][]step{{write}}, p.turns)
	default:
		p.turns = slices.Concat(p.turns, [][]step{{write}})
	}
}

// guarded takes the program's lock, and reads the register that it guards. Without the lock, or with an error,
// the program does not run.
func (c *teller) guarded(p *program) (held bool, err error) {
	function := "pg_try_advisory_lock"
	if p.waits {
		function = "pg_advisory_lock"
	}
	lock := guardLock(p.batch, p.guard-1)
	got, err := c.speaker.ask(&statement{sql: fmt.Sprintf("SELECT %s(%d)", function, lock), rows: true, coin: p.coin})
	if err != nil {
		c.txn.Story = append(c.txn.Story, fmt.Sprintf("%s(%d): error: %v", function, lock, err))
		return false, err
	}
	if held = p.waits || isTrue(got); !held {
		return false, nil
	}
	c.txn.Story = append(c.txn.Story, fmt.Sprintf("holds lock %d", lock))
	c.world.locked.Add(1)
	read := step{kind: readOne, keys: []int{guardKey(p.batch, p.guard-1)}, coin: p.coin}
	return true, c.one(c.items([]step{read})[0])
}

// unguard gives the program's lock up. A session whose program had an error is left instead, now and then: its
// lock goes with it.
func (c *teller) unguard(p *program, failed error) error {
	if code, _, _ := told(failed); failed != nil && (code == "" || p.coin%2 == 0) || c.left {
		c.left = true
		return nil
	}
	lock := guardLock(p.batch, p.guard-1)
	got, err := c.speaker.ask(&statement{sql: fmt.Sprintf("SELECT pg_advisory_unlock(%d)", lock), rows: true, coin: p.coin})
	switch {
	case err != nil:
		c.left = true
		return err
	case !isTrue(got):
		return fmt.Errorf("%w: lock %d was not held\n%v", errMisanswered, lock, c.txn)
	}
	return nil
}

// isTrue reads the one boolean of an answer, as text or in binary form.
func isTrue(a *answer) bool {
	return len(a.rows) == 1 && slices.Contains([]string{"t", "true", "\x01"}, a.rows[0][0])
}

// refusesBlock reports whether an error is the refusal of a block that is one multi-statement query, under a
// lock: lib/pq says a group so.
func (c *teller) refusesBlock(p *program, err error) bool {
	_, joins := c.speaker.(*pqSpeaker)
	return joins && p.guard > 0 && p.shape == group && p.begin != "" && strings.Contains(err.Error(), "a string of several transactions that write is not run under an advisory lock")
}

// lockLost reports whether an error says that another has taken a lock over.
func lockLost(err error) bool {
	return strings.Contains(err.Error(), "an advisory lock of this session was taken over by another session")
}

// thief takes locks of a batch over until done is closed, and returns its transactions.
func (w *world) thief(t *testing.T, batch int, done <-chan struct{}) (txns []*oracle.Txn) {
	conn, err := pgx.Connect(t.Context(), w.daemons[1].DSN("postgres"))
	if err != nil {
		t.Error(err)
		return nil
	}
	defer conn.Close(context.Background())
	r := rand.New(rand.NewPCG(w.seed, uint64(batch)))
	for {
		select {
		case <-done:
			return txns
		case <-time.After(time.Duration(100+r.IntN(400)) * time.Millisecond):
		}
		if conn.IsClosed() {
			if conn, err = pgx.Connect(t.Context(), w.daemons[1].DSN("postgres")); err != nil {
				t.Error(err)
				return txns
			}
		}
		if txn := w.steal(t.Context(), conn, batch, r.IntN(guards)); txn != nil {
			txns = append(txns, txn)
		}
	}
}

// steal takes a lock over that somebody holds, works under it, and gives it up. nil: nobody has held it, or it
// was not taken. What it asks may fail at any point, as what clients ask.
func (w *world) steal(ctx context.Context, conn *pgx.Conn, batch, guard int) *oracle.Txn {
	ask := func(sql string) ([][]string, string, error) {
		results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
		if err != nil {
			return nil, "", err
		}
		last := results[len(results)-1]
		a := fromResult(last)
		return a.rows, a.tag, nil
	}
	// Nobody waits for a thief's lease: what this theft, or the one before, has taken is given up.
	release := func() {
		for range 20 {
			if _, _, err := ask("UPDATE sluice.advisory_locks SET owner = '', seq = seq + 1 WHERE owner = 'thief'"); err == nil || conn.IsClosed() {
				break
			}
		}
	}
	release()
	defer release()
	// As Sluice keeps it: a row whose owner and epoch are the holder's, and whose owner is empty for nobody's.
	const rowsOf = "sluice.advisory_locks WHERE lock = "
	name := fmt.Sprintf("'1/%d@'", guardLock(batch, guard))
	owner, epoch := "", 0
	for looks := 0; owner == "" || owner == "thief"; looks++ {
		rows, _, err := ask("SELECT owner, epoch FROM " + rowsOf + name)
		if err != nil || len(rows) != 1 || looks == thiefLooks {
			return nil
		}
		owner = rows[0][0]
		if epoch, err = strconv.Atoi(rows[0][1]); err != nil {
			return nil
		}
	}
	_, tag, err := ask(fmt.Sprintf("DELETE FROM %s%s AND epoch = %d AND owner = '%s'; INSERT INTO sluice.advisory_locks SELECT %[2]s, %d, 'thief', 1, 60000 WHERE NOT EXISTS (SELECT 1 FROM %[1]s%[2]s)",
		rowsOf, name, epoch, owner, epoch+1))
	if err != nil || tag != "INSERT 0 1" {
		return nil
	}
	w.thefts.Add(1)
	id := thiefID + int(w.thefts.Load())
	txn := &oracle.Txn{ID: id, Began: w.tick(), Outcome: oracle.Aborted, Story: []string{fmt.Sprintf("thief of lock %d", guardLock(batch, guard))}}
	defer func() { txn.Ended = w.tick() }()
	key := guardKey(batch, guard)
	rows, _, err := ask(fmt.Sprintf("SELECT k::text, log FROM register WHERE k = %d", key))
	if err != nil || len(rows) != 1 {
		return txn
	}
	list := rows[0][1]
	txn.Ops = []oracle.Op{{Kind: oracle.Read, Key: key, Seen: elements(list)}, {Kind: oracle.Append, Key: key, Write: id}}
	_, _, err = ask(fmt.Sprintf("UPDATE register SET log = '%s,%s' WHERE k = %d", list, strconv.Itoa(id), key))
	txn.Outcome = outcome(err, true)
	txn.Story = append(txn.Story, fmt.Sprintf("reads %q, adds %d: %v", list, id, err))
	return txn
}

// underLock runs a program under its lock; run is what runs it otherwise.
func (c *teller) underLock(p *program, run func() ([]*oracle.Txn, error)) ([]*oracle.Txn, error) {
	held, err := c.guarded(p)
	switch {
	case err != nil && held:
		err = errors.Join(err, c.unguard(p, err))
	case err != nil:
		c.left = true // nobody knows whether the lock was taken
	}
	if !held || err != nil {
		c.txn.Outcome = oracle.Aborted
		return []*oracle.Txn{c.txn}, err
	}
	txns, err := run()
	if again := c.unguard(p, err); err == nil {
		err = again
	}
	return txns, err
}
