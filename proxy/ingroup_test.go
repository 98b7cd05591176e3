package proxy_test

import (
	"strings"
	"testing"
)

// An implicit transaction ends with its Sync: nothing that Sluice asks the server on its
// own account may end it before.
func TestGroupIsNotCommittedByOurQuestions(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE grouped (n int)")
	s := startSluice(t, pg, fastReplay, maxOpen(2))
	a, b := talk(t, s.addr), talk(t, s.addr)
	a.ask(t, "P - | INSERT INTO grouped VALUES (1)\nB - | -\nE -\nH")
	a.readThrough("C")
	b.play(t, "Q CREATE VIEW another AS SELECT 1") // whether reads may write is asked again
	a.ask(t, "P - | SELECT n FROM grouped\nH")
	a.readThrough("1")
	a.ask(t, "B - | -\nE -\nH")
	a.readThrough("C")
	a.ask(t, "P - | SELECT 1/0\nB - | -\nE -\nS")
	a.readThrough("Z")
	if got := pg.SQL(t, "postgres", "SELECT count(*) FROM grouped"); got != "0" {
		t.Errorf("rows of a group that failed: %s, want 0", got)
	}
}

// A return to a savepoint undoes what looked like a read and wrote.
func TestReadsThatWriteBehindASavepoint(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", `CREATE TABLE written (n int);
		CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS 'INSERT INTO written VALUES (1) RETURNING n';
		CREATE VIEW writing AS SELECT writes() AS n`)
	s := startSluice(t, pg, withSavepoints, maxOpen(2))
	for name, read := range map[string]string{"simple": "Q SELECT n FROM writing", "extended": "P - | SELECT n FROM writing\nB - | -\nE -\nS"} {
		talk(t, s.addr).play(t, "Q BEGIN\nQ SAVEPOINT a\n"+read+"\nQ ROLLBACK TO a\nQ COMMIT")
		if got := pg.SQL(t, "postgres", "SELECT count(*) FROM written"); got != "0" {
			t.Errorf("%s: rows behind ROLLBACK TO: %s, want 0", name, got)
		}
	}
}

// AND CHAIN begins again what failed before it had a backend, not what another block was.
func TestChainBehindALostBlock(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	s := startSluice(t, pg, withSavepoints, maxOpen(2))
	got := perform(t, s.addr, `Q BEGIN
Q SAVEPOINT a
E nosuch
S
Q ROLLBACK TO a
Q SET TRANSACTION ISOLATION LEVEL SERIALIZABLE /* sluice: no-retry */
Q SELECT pg_terminate_backend(pg_backend_pid())
Q ROLLBACK AND CHAIN
Q SHOW transaction_isolation
Q ROLLBACK
< Z Z Z Z Z Z Z Z Z`)
	if !strings.Contains(got, "C=08006") || strings.Contains(got, "read committed") {
		t.Errorf("a block that was lost goes on as another:\n%s", got)
	}
}

// PREPARE TRANSACTION of a block whose backend was lost rolls back, as of any failed block.
func TestPrepareTransactionOfALostBlock(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	for name, opts := range map[string][]option{"plain": nil, "savepoints": {withSavepoints}} {
		s := startSluice(t, pg, append(opts, maxOpen(2))...)
		for _, end := range []string{"Q PREPARE TRANSACTION 'x'\n", "Q PREPARE TRANSACTION 'x'; SELECT 1\n",
			"P - | PREPARE TRANSACTION 'x'\nB - | -\nE -\nS\n"} {
			got := perform(t, s.addr, "Q BEGIN\nQ SELECT pg_terminate_backend(pg_backend_pid()) /* sluice: no-retry */\n"+end+"< Z Z Z")
			if !strings.Contains(got, "C=08006") || !strings.Contains(got, "C ROLLBACK\\x00\n") || !strings.HasSuffix(got, "Z I\n") {
				t.Errorf("%s:\n%s", name, got)
			}
		}
	}
}
