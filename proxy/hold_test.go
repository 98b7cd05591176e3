package proxy_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Output is held back no longer than retry.hold_time; what was let go is compared
// when a conflict comes, and not sent twice.
func TestHoldTime(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling)
	stumbles(t, pg, true)
	s := startSluice(t, pg, fastReplay, func(s *setup) { s.proxy.Retry.HoldTime = 20 * time.Millisecond })
	lock, err := pgx.Connect(t.Context(), "postgres://postgres@"+pg.addr+"/postgres?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close(context.Background())
	if _, err := lock.Exec(t.Context(), "SELECT pg_advisory_lock(7)"); err != nil {
		t.Fatal(err)
	}
	c := dialRaw(t, s.addr)
	c.queue(encodeLine(t, "Q", "BEGIN"))
	c.readThrough("Z")
	// The server sends what it has once its buffer of 8 KiB is full.
	c.queue(encodeLine(t, "Q", "SELECT g, repeat('x', 1000) AS x FROM stumble_rows WHERE g <= 20; SELECT pg_advisory_xact_lock(7), stumble(1)"))
	if got := c.readThrough("D"); !strings.HasPrefix(got, "T g:") { // while the lock is waited for
		t.Fatalf("got %s", got)
	}
	if n := replayed(t, s); n != 0 {
		t.Fatalf("%v replays before the conflict", n)
	}
	if _, err := lock.Exec(t.Context(), "SELECT pg_advisory_unlock(7)"); err != nil {
		t.Fatal(err)
	}
	got := c.readThrough("Z")
	if replayed(t, s) != 1 || strings.Count(got, "\nD ")+strings.Count(got[:2], "D ") != 20 || strings.Contains(got, "E ") || !strings.HasSuffix(got, "Z T\n") {
		t.Errorf("%v replays, and behind the first row\n%.300s", replayed(t, s), got)
	}
	c.queue(encodeLine(t, "Q", "ROLLBACK"))
	c.readThrough("Z")
}

// lines keeps the messages of warnings.
type lines struct {
	slog.Handler
	mu   sync.Mutex
	seen []string
}

func newLines() *lines { return &lines{Handler: slog.DiscardHandler} }

func (l *lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler               { return l }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	l.seen = append(l.seen, text)
	return nil
}

// with are those that hold a text.
func (l *lines) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.seen {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// More conflicts in a minute than alert_threshold_conflicts_per_minute are one
// line in the log.
func TestAlarmLine(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", changing)
	log := newLines()
	s := startSluice(t, pg, fastReplay, func(s *setup) {
		s.proxy.AlertConflictsPerMinute, s.proxy.Retry.Policy.MaxRetries, s.log = 2, 1, log
	})
	for i, want := range []int{0, 1, 1, 1} { // two conflicts each
		perform(t, s.addr, "Q SELECT conflicts()\n< Z\n")
		if got := log.with("many conflicts"); len(got) != want {
			t.Errorf("after %d conflicts %q", 2*i+2, got)
		}
	}
	if got := log.with("many conflicts"); len(got) > 0 && got[0] != "many conflicts in_a_minute=3 alert_threshold_conflicts_per_minute=2" {
		t.Errorf("it says %q", got)
	}
}

// A server on which a Sync group is more than one transaction, as its two now()
// tell: a pipeline outside a block is not run again there, what else there is is.
func TestGroupsThatAreNoTransaction(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling+`CREATE SCHEMA shadow;
		CREATE FUNCTION shadow.now() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp()';
		ALTER ROLE postgres SET search_path = shadow, pg_catalog, public`)
	log := newLines()
	s := startSluice(t, pg, fastReplay, maxOpen(2), func(s *setup) { s.log = log })
	stumbles(t, pg, true)
	got := perform(t, s.addr, ext("SELECT 1 AS one")+ext("SELECT stumble(1)")+"S\n< Z\n")
	if !strings.Contains(got, "C=40001") || !strings.Contains(got, "Replay refused: the request may be more than one transaction.") {
		t.Errorf("a pipeline: %s", got)
	}
	if n := s.count(t, "dsql_tx_replay_refused_total", "partial_group"); n != 1 {
		t.Errorf("counted %v times", n)
	}
	for _, script := range []string{ext("SELECT stumble(2)") + "S\n< Z\n", "Q SELECT 1; SELECT stumble(3)\n< Z\n",
		"Q BEGIN\n< Z\n" + ext("SELECT 1") + ext("SELECT stumble(4)") + "S\n< Z\nQ COMMIT\n< Z\n"} {
		if got := perform(t, s.addr, script); strings.Contains(got, "C=40001") {
			t.Errorf("not run again: %s", got)
		}
	}
	if n := replayed(t, s); n != 3 {
		t.Errorf("%v replays, want 3", n)
	}
	if got := log.with("pipelines of several statements"); len(got) != 1 {
		t.Errorf("logged %q", got)
	}
}
