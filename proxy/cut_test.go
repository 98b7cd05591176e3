package proxy_test

import (
	"context"
	"database/sql"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/lib/pq"
)

// What may be committed while a drain cuts it is not said to have failed, nor what is
// committed already: at 57P01, FATAL, database/sql sends all of it again by itself, and finds
// nobody here.
func TestDrainCutsACommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, code string }{
		"a write in autocommit":  {"INSERT INTO cut SELECT 1 FROM pg_sleep(600)", "08007"},
		"a COMMIT":               {"BEGIN; INSERT INTO slow VALUES (1); COMMIT", "08007"},
		"a string behind COMMIT": {"BEGIN; INSERT INTO cut VALUES (1); COMMIT; SELECT pg_sleep(600)", "08007"},
		"a read":                 {"SELECT pg_sleep(600)", ""},
		"a block":                {"BEGIN; INSERT INTO cut SELECT 1 FROM pg_sleep(600)", ""},
	} {
		pg := newPostgres(t)
		pg.SQL(t, "postgres", `CREATE TABLE cut (n int); CREATE TABLE slow (n int);
			CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NULL; END';
			CREATE CONSTRAINT TRIGGER sleep AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION sleep()`)
		s := startSluice(t, pg)
		db, err := sql.Open("postgres", "postgres://postgres@"+s.addr+"/postgres?sslmode=disable")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		told := make(chan error, 1)
		go func() {
			_, err := db.ExecContext(context.Background(), c.text)
			told <- err
		}()
		awaitSleep(t, pg)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: Shutdown: %v", name, err)
		}
		cancel()
		var e *pq.Error
		err = <-told
		if again := errors.Is(err, syscall.ECONNREFUSED); c.code == "" && !again || c.code != "" && (!errors.As(err, &e) || string(e.Code) != c.code) {
			t.Errorf("%s: %v, want %q", name, err, c.code)
		}
	}
}

// A statement of several transactions that a drain cuts says what of it stands.
func TestDrainCutsADropDatabase(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	s := startSluice(t, pg, asSchemas, asDSQL, maxOpen(2))
	c := connectTo(t, s, "plain", pgx.QueryExecModeExec)
	run(t, c, "CREATE DATABASE app_a", "CREATE TABLE app_a.a (k int)", "CREATE TABLE app_a.b (k int)")
	holder := connectTo(t, s, "plain", pgx.QueryExecModeExec)
	run(t, holder, "BEGIN", "INSERT INTO app_a.b VALUES (1)")
	told := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.Background(), "DROP DATABASE app_a")
		told <- err
	}()
	waitFor(t, "the lock to be waited for", func() bool {
		return pg.SQL(t, "postgres", "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "1"
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
	failsAs(t, "cut", <-told, "08007", "1 objects of the database are dropped, and stay so.")
}
