package locktable

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy/advisory"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// memory is a Database whose table of locks is a map. faults are returned by the statements that contain their words,
// each once, before or after the statement has run.
type memory struct {
	ctx context.Context
	wg  sync.WaitGroup

	mu       sync.Mutex
	missing  bool // the table is
	rows     map[string]advisory.LockRow
	faults   []fault
	sent     []string
	warned   []string
	changes  int
	taken    int
	lost     int
	released int
	running  int
}

type fault struct {
	words string
	err   error
	after bool // the statement runs before the error
}

var errNoAnswer = errors.New("connection reset")

func newMemory(t *testing.T) *memory {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	m := &memory{ctx: ctx, rows: map[string]advisory.LockRow{}}
	t.Cleanup(func() { stop(); m.wg.Wait() })
	return m
}

func (m *memory) Context() context.Context { return m.ctx }
func (m *memory) RecordSchemaChange()      { m.changes++ }
func (m *memory) RecordTakeover()          { m.taken++ }
func (m *memory) RecordLoss()              { m.lost++ }
func (m *memory) RecordRelease()           { m.released++ }
func (m *memory) Warn(message string, attrs ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.warned = append(m.warned, message)
}

func (m *memory) Go(f func()) {
	m.mu.Lock()
	m.running++
	m.mu.Unlock()
	m.wg.Go(func() {
		f()
		m.mu.Lock()
		m.running--
		m.mu.Unlock()
	})
}

var (
	condition = regexp.MustCompile(`lock = '([^']*)' AND epoch = (\d+) AND owner = '([^']*)'(?: AND seq = (\d+))?`)
	inserted  = regexp.MustCompile(`SELECT '([^']*)', (\d+), '([^']*)', (\d+), (\d+) WHERE NOT EXISTS`)
	quoted    = regexp.MustCompile(`'([^']*)'`)
	lease     = regexp.MustCompile(`lease_ms = (\d+)`)
)

func (m *memory) Query(_ context.Context, sql string, row func([]string)) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = append(m.sent, sql)
	for i, f := range m.faults {
		if f.words != "" && strings.Contains(sql, f.words) {
			m.faults[i].words = ""
			if f.after {
				_, _ = m.run(sql, row)
			}
			return "", f.err
		}
	}
	return m.run(sql, row)
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// matching returns the names of the rows that the conditions of a statement describe.
func (m *memory) matching(sql string) (names []string) {
	for _, c := range condition.FindAllStringSubmatch(sql, -1) {
		r, ok := m.rows[c[1]]
		if ok && r.Epoch == number(c[2]) && r.Owner == c[3] && (c[4] == "" || r.Seq == number(c[4])) {
			names = append(names, c[1])
		}
	}
	return names
}

func (m *memory) run(sql string, row func([]string)) (string, error) {
	if strings.HasPrefix(sql, "CREATE TABLE") {
		m.missing = false
	}
	switch {
	case strings.HasPrefix(sql, "CREATE"):
		return "CREATE TABLE", nil
	case m.missing:
		return "", &RefusedError{Code: "42P01", Message: "relation does not exist"}
	case strings.HasPrefix(sql, "SELECT"):
		for _, q := range quoted.FindAllStringSubmatch(sql, -1) {
			if r, ok := m.rows[q[1]]; ok {
				row([]string{q[1], fmt.Sprint(r.Epoch), r.Owner, fmt.Sprint(r.Seq), fmt.Sprint(r.Lease.Milliseconds())})
			}
		}
		return "SELECT", nil
	case strings.HasPrefix(sql, "UPDATE") && strings.Contains(sql, "owner = '', seq"):
		names := m.matching(sql[strings.Index(sql, "WHERE"):])
		for _, name := range names {
			r := m.rows[name]
			r.Owner, r.Seq = "", r.Seq+1
			m.rows[name] = r
		}
		return fmt.Sprintf("UPDATE %d", len(names)), nil
	case strings.HasPrefix(sql, "UPDATE"):
		names := m.matching(sql)
		for _, name := range names {
			r := m.rows[name]
			r.Seq, r.Lease = r.Seq+1, time.Duration(number(lease.FindStringSubmatch(sql)[1]))*time.Millisecond
			m.rows[name] = r
		}
		return fmt.Sprintf("UPDATE %d", len(names)), nil
	}
	if strings.HasPrefix(sql, "DELETE") {
		for _, name := range m.matching(sql[:strings.Index(sql, ";")]) {
			delete(m.rows, name)
		}
	}
	v := inserted.FindStringSubmatch(sql)
	if _, there := m.rows[v[1]]; there {
		return "INSERT 0 0", nil
	}
	m.rows[v[1]] = advisory.LockRow{Epoch: number(v[2]), Owner: v[3], Seq: number(v[4]), Lease: time.Duration(number(v[5])) * time.Millisecond}
	return advisory.TakeTag, nil
}

var terms = advisory.LeaseTerms{Lease: time.Minute, LongestDDL: time.Minute}

// take takes a lock, or fails the test.
func take(t *testing.T, table *Table, name string) advisory.LockHolder {
	t.Helper()
	h, ok, err := table.NewAttempt(name, false).PollUntilTaken(t.Context())
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	return h
}

// A lock has one owner, and its next owner has the next epoch.
func TestAttempt(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	table := New(m, terms, nil)
	h := take(t, table, "a")
	if _, ok, err := table.NewAttempt("a", false).PollUntilTaken(t.Context()); ok || err != nil {
		t.Errorf("taken twice: %v, %v", ok, err)
	}
	take(t, table, "b")
	table.deleteRows(t.Context(), []advisory.LockHolder{h})
	if again := take(t, table, "a"); again.Row.Epoch != h.Row.Epoch+1 || again.Row.Owner == h.Row.Owner {
		t.Errorf("%+v after %+v", again.Row, h.Row)
	}
	if m.taken != 0 {
		t.Error("a free lock counts as taken over")
	}
}

// A lock whose owner is silent for its lease is taken over, and the owner finds out by its next renewal.
func TestTakeover(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	now := time.Duration(0)
	table := New(m, terms, func() time.Duration { return now })
	held := table.NewHeld()
	held.Add(take(t, table, "a"))
	other := New(m, terms, func() time.Duration { return now })
	for range 2 {
		if _, ok, err := other.NewAttempt("a", false).PollUntilTaken(t.Context()); ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	now += 2 * time.Minute
	take(t, other, "a")
	if len(other.seen) > 0 {
		t.Errorf("%d locks are observed on", len(other.seen))
	}
	if err := held.renewAll(t.Context()); err != nil || !held.IsLost() || m.lost != 1 || m.taken != 1 {
		t.Errorf("%v, lost %v, %d losses, %d takeovers", err, held.IsLost(), m.lost, m.taken)
	}
	held.Remove(func(string) bool { return true })
	if table.Held() != 0 {
		t.Errorf("%d locks are counted", table.Held())
	}
}

// A statement that took the lock without an answer is recognized by its owner. Its lease is in doubt until a renewal.
func TestTakenWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	table := New(m, terms, nil)
	m.faults = []fault{{words: "INSERT", err: errNoAnswer, after: true}}
	h := take(t, table, "a")
	if !h.Doubt || h.CoversDDL(terms, 0) {
		t.Errorf("%+v is relied on", h)
	}
	held := table.NewHeld()
	held.Add(h)
	if ok, err := held.ExtendForDDL(t.Context()); !ok || err != nil {
		t.Errorf("after a renewal: %v, %v", ok, err)
	}
	held.Remove(func(string) bool { return true })

	m.faults = []fault{{words: "INSERT", err: errNoAnswer, after: true}}
	w := table.NewAttempt("b", false)
	if _, ok, _, err := w.tryOnce(t.Context(), &advisory.PollPacer{}); ok || !errors.Is(err, errNoAnswer) || m.rows["b"].Owner == "" {
		t.Fatalf("%v, %v, %+v", ok, err, m.rows["b"])
	}
	w.ReleaseIfTaken()
	m.wg.Wait()
	if owner := m.rows["b"].Owner; owner != "" {
		t.Errorf("the row still has the owner %q", owner)
	}
}

// The table is created when it is missing. If that is refused, the error has the statements for an administrator.
func TestMissingTable(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	m.missing = true
	take(t, New(m, terms, nil), "a")
	if m.changes != 1 {
		t.Errorf("%d changes of the schema", m.changes)
	}
	m = newMemory(t)
	m.missing, m.faults = true, []fault{{words: "CREATE SCHEMA", err: &RefusedError{Code: "42501", Message: "permission denied"}}}
	_, _, err := New(m, terms, nil).NewAttempt("a", true).PollUntilTaken(t.Context())
	if e, ok := errors.AsType[*wire.Error](err); !ok || e.Code != "42501" || !strings.Contains(e.Hint, "CREATE TABLE") {
		t.Errorf("%v", err)
	}
}

// A renewal without an answer may have changed the row. The next one reads it, and no DDL runs before.
func TestRenewalWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{"done": {"UPDATE", errNoAnswer, true}, "not done": {"UPDATE", errNoAnswer, false},
		"not sent": {"UPDATE", &NotSentError{errNoAnswer}, false}, "conflict": {"UPDATE", &RefusedError{Code: "40001"}, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMemory(t)
			table := New(m, terms, nil)
			held := table.NewHeld()
			held.Add(take(t, table, "a"))
			held.Add(take(t, table, "b"))
			m.faults = []fault{f}
			if ok, _ := held.ExtendForDDL(t.Context()); ok != (name == "conflict") {
				t.Errorf("extended: %v", ok)
			}
			if ok, err := held.ExtendForDDL(t.Context()); !ok || err != nil || held.IsLost() {
				t.Errorf("the next renewal: %v, %v, lost %v", ok, err, held.IsLost())
			}
			m.faults = []fault{f} // in spite of the long leases, which are confirmed
			_ = held.renewAll(t.Context())
			if doubt := name == "done" || name == "not done"; held.hasLongLeases() == doubt {
				t.Errorf("DDL may be sent: %v", !doubt)
			}
			held.Remove(func(string) bool { return true })
		})
	}
}

// Locks that are released under DDL go with its end. A lock that is taken again before stays.
func TestReleaseLater(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	now := time.Duration(0)
	table := New(m, terms, func() time.Duration { return now })
	held := table.NewHeld()
	for _, name := range []string{"a", "b", "c"} {
		held.Add(take(t, table, name))
	}
	if ok, err := held.ExtendForDDL(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if ddl, doubt := held.mayRunDDL(); !ddl || doubt {
		t.Errorf("DDL %v, doubt %v", ddl, doubt)
	}
	held.deferReleases([]string{"a", "b"})
	if !held.cancelRelease("b") || held.cancelRelease("c") {
		t.Error("the lock that is taken again")
	}
	over := held.endDDLAndTakeReleases()
	if len(over) != 1 || over[0].Name != "a" || table.Held() != 2 {
		t.Errorf("%v are released, %d stay", over, table.Held())
	}
	table.deleteRows(t.Context(), over)
	held.Add(take(t, table, "a"))
	if over := held.endDDLAndTakeReleases(); len(over) > 0 {
		t.Errorf("a lock that was taken again is released: %v", over)
	}
	_, _ = held.ExtendForDDL(t.Context())
	held.RecordBackendGivenUp()
	held.endDDLAndTakeReleases()
	if _, doubt := held.mayRunDDL(); !doubt {
		t.Error("DDL of a lost backend is not in doubt")
	}
	now += terms.LongestDDL
	if _, doubt := held.mayRunDDL(); doubt {
		t.Error("DDL is in doubt for ever")
	}
	held.Remove(func(string) bool { return true })
	m.wg.Wait() // the renewing goroutine ends with the last lock
}

// The locks of a session are renewed in the background, and a failure is logged.
func TestRenewedInTheBackground(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	table := New(m, advisory.LeaseTerms{Lease: 60 * time.Millisecond, LongestDDL: time.Second}, nil)
	held := table.NewHeld()
	held.Add(take(t, table, "a"))
	await := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			m.mu.Lock()
			ok := done()
			m.mu.Unlock()
			if ok {
				return
			}
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	await("no renewal", func() bool { return m.rows["a"].Seq > 3 })
	m.mu.Lock()
	m.faults = []fault{{words: "UPDATE", err: &RefusedError{Code: "53300", Message: "busy"}}}
	m.mu.Unlock()
	await("no warning", func() bool { return len(m.warned) > 0 })
	held.Remove(func(string) bool { return true })
	await("the goroutine goes on", func() bool { return m.running == 0 })
}
