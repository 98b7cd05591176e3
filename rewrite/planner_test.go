package rewrite

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestPlanCounts(t *testing.T) {
	t.Parallel()
	config := Defaults()
	config.MaxBytes, config.MaxNesting = 1000, 100
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	want := Stats{}
	for _, c := range []struct {
		text, plan string
		count      *uint64
	}{
		{"SELECT 1", "read", &want.Scanned},
		{"SELECT 1", "read", &want.Scanned},
		{"SELECT " + strings.Repeat("1 + ", 1000) + "1", "read", &want.Scanned},
		{"", "empty", &want.Scanned},
		{"SELECT 1 FOR UPDATE", "write", &want.Parsed},
		{"SELECT 1 FOR UPDATE", "write", &want.CacheHits},
		{"SELECT 1 FOR  UPDATE", "write", &want.Parsed},
		{"SELECT " + strings.Repeat("1 + ", 1000) + "1 FOR UPDATE", "unknown pin:unparsed", &want.GuardedBytes},
		{"SELECT " + strings.Repeat("1 + ", 100) + "1 FOR UPDATE", "unknown pin:unparsed", &want.GuardedNesting},
		{"SET a = 'x\x00'", "unknown pin:unparsed", &want.GuardedText},
		{"\x00", "unknown pin:unparsed", &want.GuardedText},
		{"SET a = '\xff'", "unknown pin:unparsed", &want.GuardedText},
		{"SET a = 'open", "unknown pin:unparsed", &want.GuardedText},
		{"SET a = 1 /* open", "unknown pin:unparsed", &want.GuardedText},
		{"INSERT INTO t VALUES ('\xe9')", "write", &want.Scanned},
	} {
		*c.count++
		if got := describe(p.Plan([]byte(c.text))); got != c.plan {
			t.Errorf("%.60q: got %s, want %s", c.text, got, c.plan)
		}
		if got := p.Stats(); got != want {
			t.Fatalf("%.60q: counts %+v, want %+v", c.text, got, want)
		}
	}
}

func TestUnparsable(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	for text, want := range map[string]string{
		"SELEC 1":                         "unknown",
		"SELECT 1 1 1 FOR":                "unknown",
		"ALTER TABLE TABLE TABLE":         "unknown",
		"ALTER TABLE t SET SET LISTEN":    "unknown",
		"WAIT FOR LSN 'x'":                "unknown",
		"AWS IAM GRANT r TO 'arn'":        "unknown",
		"SET a = = 1":                     "unknown pin:unparsed",
		"SELEC 1; SET a = 1":              "unknown pin:unparsed",
		"SELECT FROM FROM set_config('a'": "unknown pin:unparsed",
		"CREATE TEMP TABEL t":             "unknown pin:unparsed",
		"EXPLAIN EXPLAIN EXECUTE p":       "unknown pin:unparsed",
		"LISTEN 1":                        "unknown pin:unparsed",
	} {
		if got := describe(p.Plan([]byte(text))); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	before := p.Stats()
	p.Plan([]byte("SELEC 1"))
	if after := p.Stats(); after.CacheHits != before.CacheHits+1 {
		t.Error("an unparsable text is not remembered")
	}
}

// Savepoints that the relay emulates are nothing to speak of.
func TestEmulatedSavepoints(t *testing.T) {
	t.Parallel()
	for _, emulated := range []bool{false, true} {
		config := Defaults()
		config.Rules.Savepoints = emulated
		planner, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{"SAVEPOINT a", "RELEASE a", "ROLLBACK TO a"} {
			if plan := planner.Plan([]byte(sql)); (len(plan.Findings) == 0) != emulated {
				t.Errorf("%s, emulated %v: %d findings", sql, emulated, len(plan.Findings))
			}
		}
	}
}

func TestDialect(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	for text, want := range map[string]string{
		"CREATE INDEX ASYNC i ON t (a)":                                "ddl t",
		"create unique index /* c */ async if not exists i on s.t (a)": "ddl s.t",
		"CREATE INDEX ASYNC ON t (a)":                                  "ddl t",
		"ALTER TABLE ASYNC t VALIDATE CONSTRAINT c":                    "ddl t",
		"CREATE INDEX ASYNC i ON t (a); SELECT 'é' FOR UPDATE":         "ddl t; write",
		"CREATE INDEX ASYNC i ON ON t":                                 "unknown",
		"SELECT async async async FOR UPDATE":                          "unknown",
	} {
		plan := p.Plan([]byte(text))
		if got := describe(plan); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
		if len(plan.Statements) == 2 {
			st := plan.Statements[1]
			if got := text[st.Start:st.End]; got != "SELECT 'é' FOR UPDATE" {
				t.Errorf("second statement of %q: %q", text, got)
			}
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	if err := Defaults().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	_, err := New(Config{MaxNesting: greatestNesting + 1, MaxBytes: greatestBytes + 1})
	if err == nil {
		t.Fatal("no error")
	}
	for _, key := range []string{"rewrite.max_bytes", "rewrite.max_nesting", "rewrite.cache_entries", "rewrite.cache_bytes"} {
		if !strings.Contains(err.Error(), key+": ") {
			t.Errorf("%s is not in %q", key, err)
		}
	}
}

func TestPlanAllocatesNothing(t *testing.T) {
	p := newPlanner(t)
	locking := []byte(benchLocking)
	p.Plan(locking)
	shared := []byte("SELECT range_id FROM shards WHERE shard_id = $1 FOR SHARE")
	if p.Plan(shared).Text == "" {
		t.Error("nothing is rewritten")
	}
	for name, text := range map[string][]byte{
		"hit":   locking,
		"other": shared,
		"scan":  []byte(benchSelect),
		"write": []byte(`INSERT INTO "t" (a, b) VALUES ($1, 'x''y') ON CONFLICT (a) DO UPDATE SET b = excluded.b`),
		"empty": []byte("-- ping"),
		"long":  []byte("SELECT " + strings.Repeat("count(*) + pg_catalog.sum(a) + E'\\n' + $$x$$, ", 100) + "1"),
	} {
		p.RecordSuccess(p.Plan(text)) // the first of its table makes a name
		if n := testing.AllocsPerRun(100, func() { p.Plan(text) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestConcurrentPlans gives the race detector and the parser's threads work.
func TestConcurrentPlans(t *testing.T) {
	t.Parallel()
	config := Defaults()
	config.CacheEntries = 40
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	big := []byte("SELECT nextval('s')" + strings.Repeat(", 'x' || 'y'", heavyBytes/10))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				text := fmt.Sprintf("SELECT %d FROM t%d FOR UPDATE", i%50, g%2)
				if got, want := describe(p.Plan([]byte(text))), fmt.Sprintf("write t%d", g%2); got != want {
					t.Errorf("%s: got %s, want %s", text, got, want)
				}
			}
			if got := describe(p.Plan(big)); got != "write" {
				t.Errorf("big text: %s", got)
			}
		})
	}
	wg.Wait()
}

// TestHeavyTextsQueue holds that a big text waits while another one is parsed,
// and that small ones do not.
func TestHeavyTextsQueue(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	big := []byte("SELECT nextval('s'), '" + strings.Repeat("x", heavyBytes) + "'")
	var done atomic.Bool
	var wg sync.WaitGroup
	p.heavy.Lock()
	wg.Go(func() {
		p.Plan(big)
		done.Store(true)
	})
	for i := range 2000 {
		p.Plan(fmt.Appendf(nil, "SELECT %d FOR UPDATE", i))
	}
	if done.Load() {
		t.Error("a big text was parsed beside another")
	}
	p.heavy.Unlock()
	wg.Wait()
}

// TestManyTablesAllocateLittle holds that a text cleared by its words costs no allocation where its
// table is known, and few where there are too many.
func TestManyTablesAllocateLittle(t *testing.T) {
	p := newPlanner(t)
	for i := range 2*maxTables - 1 {
		p.RecordSuccess(p.Plan(fmt.Appendf(nil, "SELECT a FROM t%d WHERE b = 1", i)))
	}
	for i, want := range map[int]float64{0: 0, 3 * maxTables: 6} {
		text := fmt.Appendf(nil, "SELECT a FROM t%d WHERE b = 1", i)
		if n := testing.AllocsPerRun(100, func() { p.RecordSuccess(p.Plan(text)) }); n > want {
			t.Errorf("%v allocations, want at most %v", n, want)
		}
	}
}

// TestBigStatementIsRewritten has a statement of 1 MB, and one that grows over
// the guard when it is rewritten.
func TestBigStatementIsRewritten(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	list := strings.Repeat("'FOR SHARE', 123456, ", 50_000)
	sql := "SELECT a FROM t WHERE b IN (" + list + "0) FOR SHARE"
	if want := strings.TrimSuffix(sql, "SHARE") + "UPDATE"; len(sql) < 1<<20 || p.Plan([]byte(sql)).Text != want {
		t.Errorf("a statement of %d bytes is not rewritten as it should", len(sql))
	}
	columns := strings.Repeat("a serial, ", DefaultMaxBytes/30) + "a serial"
	before := p.Stats().Unverified
	plan := p.Plan([]byte("CREATE TABLE t (" + columns + ")"))
	if plan.Text != "" || p.Stats().Unverified != before+1 {
		t.Errorf("a text of %d bytes went out", len(plan.Text))
	}
	// Before the guard as behind it, a text passes as it is.
	deep := "SELECT " + strings.Repeat("1 + ", DefaultMaxNesting) + "1 FROM t FOR SHARE"
	if plan := p.Plan([]byte(deep)); plan.Text != "" || plan.Pin != PinUnparsed {
		t.Errorf("%s", describe(plan))
	}
}

// TestScanSendsWhatRulesNeed holds that no text that a rule changes is cleared by
// its words, and that a client's new texts without such words are not parsed.
func TestScanSendsWhatRulesNeed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"locking", "hard", "index", "serial", "others", "temporal_locks", "temporal_schema"} {
		for _, sql := range goldenCases(t, name) {
			plan := goldenPlanner(t).Plan([]byte(sql))
			if cleared, _ := planByWords([]byte(sql)); cleared != nil && (plan.Text != "" || len(plan.Findings) > 0 || parsed(t, sql).Kind != plan.Kind) {
				t.Errorf("%q is cleared", sql)
			}
		}
	}
	p := newPlanner(t)
	for i := range 100 {
		p.Plan(fmt.Appendf(nil, "SELECT abalance FROM pgbench_accounts WHERE aid = %d", i))
		p.Plan(fmt.Appendf(nil, "UPDATE t SET level = %d, serial = 'FOR SHARE', asc_ = \"index\" WHERE share = 1", i))
	}
	if s := p.Stats(); s.Parsed != 0 || s.Scanned != 200 {
		t.Errorf("%+v", s)
	}
}

// TestNote holds that the findings of a text are logged by one.
func TestNote(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	text := []byte("SELECT a FROM t FOR SHARE")
	var notes atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if p.Plan(text).ShouldLogFindings() {
					notes.Add(1)
				}
				p.SplitPlan(p.Plan([]byte("SELECT 1 FROM a, b WHERE a.id = 1 FOR UPDATE")))
				p.Plan([]byte("UPDATE " + string('a'+rune(notes.Load()%8)) + " SET b = 1"))
			}
		})
	}
	wg.Wait()
	// Two may plan a new text at once, and the cache keeps the first.
	if n := notes.Load(); n < 1 || n > 8 {
		t.Errorf("noted %d times", n)
	}
	if p.Plan(text).ShouldLogFindings() || p.Plan([]byte("SELECT 1")).ShouldLogFindings() {
		t.Error("noted again, or for nothing")
	}
}
