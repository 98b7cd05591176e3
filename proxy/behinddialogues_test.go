package proxy_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite"
)

// A DISCARD ALL behind a cursor that Sluice has declared, read or closed in the same pipeline fails, as behind any
// other statement there.
func TestDiscardAllBehindCursors(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	s := startSluice(t, pg, asDSQL, withReplay, withCursors, maxOpen(3))
	const declare = "P - | DECLARE k NO SCROLL CURSOR WITH HOLD FOR SELECT 1 AS one\nB - | -\nE -\n"
	const discard = "P - | DISCARD ALL\nB - | -\nE -\nS\n< Z\n"
	for what, script := range map[string]string{
		"declared":           declare + discard,
		"read":               declare + "S\n< Z\nP - | FETCH 1 FROM k\nB - | -\nE -\n" + discard,
		"closed":             declare + "S\n< Z\nP - | CLOSE k\nB - | -\nE -\n" + discard,
		"read as a portal":   declare + "S\n< Z\nE k\n" + discard,
		"in front of a Sync": declare + "S\n< Z\n" + discard,
	} {
		if got, want := perform(t, s.addr, script), perform(t, pg.addr, script); got != want {
			t.Errorf("%s:\n%s\ndirectly:\n%s", what, got, want)
		}
	}
}

// What Sluice carries out by itself must be alone in front of its Sync. Another frame gets it refused, and the
// client has the error at once: it may send nothing before.
func TestNotAloneIsToldAtOnce(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE alone (a int)")
	s := startSluice(t, pg, withCopies, withReplay, func(s *setup) { s.rules = rewrite.AllRules(); s.rules.Backfill, s.rules.CopyIn = true, true })
	for what, script := range map[string]string{
		"ALTER TABLE": "P - | ALTER TABLE alone ADD COLUMN b int DEFAULT 7\nB - | -\nE -\n",
		"COPY":        "P - | COPY alone FROM STDIN\nB - | -\nE -\n< G\nd 1\nc\n",
	} {
		for _, next := range []string{"Q SELECT 1", "P - | SELECT 1", "D P -"} {
			got := perform(t, s.addr, script+next+"\n< E\nS\n< Z\n")
			if !strings.Contains(got, "C=0A000") || strings.Contains(got, "TIMEOUT") {
				t.Errorf("%s, %s: %s", what, next, got)
			}
		}
	}
}

// A block that fails behind a savepoint which Sluice emulates has undone what it has set since: what it had set before
// is what a return to the savepoint has in force, and what the client is sent.
func TestReportsBehindSavepoints(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	s := startSluice(t, pg, asDSQL, withSavepoints, maxOpen(3))
	for _, script := range []string{
		"tell DateStyle\nQ SET DateStyle TO 'SQL, DMY'; BEGIN\n< Z\nQ SAVEPOINT b\n< Z\nQ SELECT 1/0\n< Z\nQ SELECT 2\n< Z\nQ ROLLBACK TO b\n< Z\nQ SELECT date '2026-01-02'\n< Z\nQ COMMIT\n< Z\n",
		"tell DateStyle\nQ BEGIN\n< Z\nQ SET DateStyle TO 'SQL, DMY'\n< Z\nQ SAVEPOINT b\n< Z\nQ SET DateStyle TO German\n< Z\nQ SELECT 1/0\n< Z\nQ ROLLBACK\n< Z\n",
		"tell DateStyle\nQ BEGIN\n< Z\nQ SET DateStyle TO 'SQL, DMY'\n< Z\nQ SAVEPOINT b\n< Z\nQ SET DateStyle TO German\n< Z\nQ SAVEPOINT c\n< Z\nQ RELEASE b\n< Z\nQ SELECT 1/0\n< Z\nQ ROLLBACK\n< Z\n",
	} {
		if got, want := perform(t, s.addr, script), perform(t, pg.addr, script); got != want {
			t.Errorf("%s\ndirectly:\n%s", got, want)
		}
	}
}

// A part of a transaction that is committed early lists what looks like a read too, where the database has functions
// that write unseen.
func TestPartsListReadsThatWrite(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE seen (a int); CREATE FUNCTION sees() RETURNS int LANGUAGE sql AS 'INSERT INTO seen VALUES (1) RETURNING a'; CREATE VIEW looks AS SELECT sees() AS a")
	s := startSluice(t, pg, asDSQL, withReplay, withParts)
	const script = "Q BEGIN; SELECT a FROM looks\n< Z\nQ CREATE TABLE made (n int)\n< Z\nQ INSERT INTO made VALUES (4)\n< Z\nQ ROLLBACK\n< Z\n"
	if got := perform(t, s.addr, script); strings.Count(got, "D=Committed: SELECT a FROM looks; CREATE TABLE made (n int).") != 2 {
		t.Errorf("not told of the read: %s", got)
	}
	if n := pg.SQL(t, "postgres", "SELECT count(*) FROM seen"); n != "1" {
		t.Errorf("%s rows", n)
	}
	pg.SQL(t, "postgres", "DROP VIEW looks; DROP FUNCTION sees; CREATE VIEW looks AS SELECT 1 AS a; DROP TABLE made")
	s = startSluice(t, pg, asDSQL, withReplay, withParts)
	if got := perform(t, s.addr, script); strings.Count(got, "D=Committed: CREATE TABLE made (n int).") != 2 {
		t.Errorf("told of a read that only reads: %s", got)
	}
	// DDL of the same block makes no write of a read.
	got := perform(t, s.addr, "Q BEGIN\n< Z\nQ CREATE TABLE later (n int)\n< Z\nQ SELECT a FROM looks\n< Z\nQ INSERT INTO made VALUES (5)\n< Z\nQ ROLLBACK\n< Z\n")
	if strings.Count(got, "D=Committed: CREATE TABLE later (n int).") != 2 {
		t.Errorf("told of a read behind DDL: %s", got)
	}
}

// A backend that is lost while an attempt asks whether reads only read is replaced by another, as one that is lost
// anywhere else in it.
func TestLostWhileAnAttemptAsks(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE asked (id serial, a int); CREATE TABLE beside (a int)")
	var p ownPlanter
	lost, asked := false, 0
	p.plants(func(message []byte) (f ownFault) {
		switch {
		case bytes.Contains(message, []byte("VALUES (7)")) && !lost:
			lost, f.cut = true, true
		case bytes.Contains(message, []byte("WITH users AS")) && lost && asked < 2:
			asked++
			f.cut = true
		}
		return f
	})
	s := startSluice(t, pg, p.option, asDSQL, fastReplay, mapping, maxOpen(1))
	c := dialRaw(t, s.addr)
	defer c.conn.Close()
	c.say(t, "Q BEGIN\n< Z\nQ INSERT INTO asked (a) VALUES (6) RETURNING id\n< Z\n")
	pg.SQL(t, "postgres", "ALTER TABLE beside ADD COLUMN b int")
	got := c.say(t, "Q INSERT INTO asked (a) VALUES (7)\n< Z\nQ COMMIT\n< Z\n")
	p.plants(nil) // asked is the planter's until here
	if !strings.Contains(got, "C INSERT 0 1") || !strings.Contains(got, "C COMMIT") || asked == 0 {
		t.Errorf("asked %d times: %s", asked, got)
	}
}
