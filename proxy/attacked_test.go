package proxy_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite"
)

// The statement in front of which a part with DDL is committed is planned by the schema that the part leaves: a mapped
// column is written as one, and a default that is gone is not given.
func TestPlannedBehindAPart(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE timed (id int, at timestamptz DEFAULT now())")
	s := startSluice(t, pg, asDSQL, withReplay, func(s *setup) { s.rules.CopyIn = true }, mapping, withParts)
	const selects = "Q SELECT k FROM made\n< Z\nQ DROP TABLE made\n< Z\n"
	for name, script := range map[string]string{
		"INSERT":    "Q BEGIN\n< Z\nQ CREATE TABLE made (k bytea PRIMARY KEY)\n< Z\nQ INSERT INTO made VALUES ('abcd')\n< Z\nQ COMMIT\n< Z\n",
		"RETURNING": "Q BEGIN\n< Z\nQ CREATE TABLE made (k bytea PRIMARY KEY)\n< Z\nQ INSERT INTO made VALUES ('abcd') RETURNING k\n< Z\nQ COMMIT\n< Z\n",
		"COPY":      "Q BEGIN\n< Z\nQ CREATE TABLE made (k bytea PRIMARY KEY)\n< Z\nQ COPY made FROM STDIN\n< G\nd abcd\\n\nc\n< Z\nQ COMMIT\n< Z\n",
		"REFERENCES": "Q BEGIN\n< Z\nQ CREATE TABLE made (k bytea PRIMARY KEY)\n< Z\nQ CREATE TABLE refers (k bytea REFERENCES made)\n< Z\nQ COMMIT\n< Z\n" +
			"Q INSERT INTO made VALUES ('abcd')\n< Z\nQ DROP TABLE refers\n< Z\n",
	} {
		got := perform(t, s.addr, script+selects)
		if strings.Contains(got, "E S=") || !strings.Contains(got, `\x61626364`) {
			t.Errorf("%s: %s", name, got)
		}
	}
	got := perform(t, s.addr, "Q BEGIN\n< Z\nQ INSERT INTO timed (id) VALUES (1)\n< Z\nQ SELECT now()\n< Z\nQ CREATE TABLE other (a int)\n< Z\n"+
		"Q ALTER TABLE timed ALTER at DROP DEFAULT\n< Z\nQ INSERT INTO timed (id) VALUES (2)\n< Z\nQ COMMIT\n< Z\n")
	if null := pg.SQL(t, "postgres", "SELECT at IS NULL FROM timed WHERE id = 2"); null != "t" {
		t.Errorf("a default that is gone is given: %s", got)
	}
}

// The advisory locks of a session that ends in a block with DDL are free at once, also if its backend serves nobody
// after it: a ROLLBACK has undone the DDL.
func TestLocksOfAnEndedBlock(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	const begin = "Q SELECT pg_advisory_lock(6)\n< Z\nQ BEGIN\n< Z\nQ CREATE TABLE al (a int)\n< Z\n"
	for pairing, opts := range map[string][]option{"transaction": nil, "session": {sessionPairing}} {
		s := startSluice(t, pg, append(opts, withLocks, maxOpen(4))...)
		for name, script := range map[string]string{
			"open":     begin,
			"failed":   begin + "Q SELECT 1/0\n< Z\n",
			"unlocked": begin + "Q SELECT pg_advisory_unlock(6)\n< Z\n",
			"pinned":   "Q PREPARE p AS SELECT 1\n< Z\n" + begin,
		} {
			c := dialRaw(t, s.addr)
			got := c.say(t, script)
			c.conn.Close()
			waitFor(t, pairing+", "+name+": the lock: "+got, func() bool {
				return strings.Contains(perform(t, s.addr, "Q SELECT pg_try_advisory_lock(6)\n< Z\n"), `\x01t`)
			})
		}
	}
}

// A COPY whose data are whole and an ALTER TABLE in steps are answered at a Flush, for a client that waits for the answer
// before its Sync. What follows then is refused, except for a Close.
func TestFlushBehindWhatWaits(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE flushed (a int)")
	s := startSluice(t, pg, asDSQL, func(s *setup) { s.rules = rewrite.Rules{CopyIn: true, Backfill: true, AddColumn: true, Dialect: true} })
	n := 0
	for name, start := range map[string]string{"COPY": "P - | COPY flushed (a) FROM STDIN\nB - | -\nE -\nH\n< G\nd 1\\n\nc\n", "ALTER": "P - | ALTER TABLE flushed ADD COLUMN b%d int DEFAULT 7\nB - | -\nE -\n"} {
		for end, refused := range map[string]bool{
			"H\nS\n< Z\n": false, "H\n< C\nS\n< Z\n": false, "H\n< C\nH\nC P -\nH\n< 3\nS\n< Z\n": false,
			"H\n< C\nP - | SELECT 1\nS\n< Z\n": true, "H\n< C\nQ SELECT 1\n< Z\n": true,
		} {
			n++
			got := perform(t, s.addr, strings.ReplaceAll(start, "%d", strconv.Itoa(n))+end+"Q SELECT 2 AS two\n< Z\n")
			if strings.Contains(got, "TIMEOUT") || strings.Contains(got, "E S=") != refused || !strings.Contains(got, "T two") || !strings.Contains(got, "C COPY 1") && !strings.Contains(got, "C ALTER TABLE") {
				t.Errorf("%s, %s: %s", name, end, got)
			}
		}
	}
	if rows := pg.SQL(t, "postgres", "SELECT count(*), (SELECT count(*) FROM information_schema.columns WHERE table_name = 'flushed') FROM flushed"); strings.TrimSpace(rows) != "5|6" {
		t.Errorf("rows and columns: %s", rows)
	}
	s = startSluice(t, pg, asDSQL, func(s *setup) { s.rules = rewrite.Rules{Backfill: true, AddColumn: true, Dialect: true} }, withParts)
	if got := perform(t, s.addr, "Q BEGIN\n< Z\nP - | ALTER TABLE flushed ADD COLUMN late int DEFAULT 7\nB - | -\nE -\nH\n< E\nS\n< Z\nQ ROLLBACK\n< Z\n"); !strings.Contains(got, "C=0A000") {
		t.Errorf("in a block: %s", got)
	}
}

// A text behind DDL of its own transaction is planned by what the DDL made, or refused: no value is stored in another
// form, and no column is seen by its name at the server.
func TestMappedBehindDDL(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	const made, out = "CREATE TABLE made (k bytea PRIMARY KEY, v int)", "< Z\nQ SELECT * FROM made\n< Z\nQ DROP TABLE IF EXISTS made\n< Z\n"
	for name, opts := range map[string][]option{"whole": nil, "parts": {withParts}} {
		s := startSluice(t, pg, append([]option{asDSQL, withReplay, mapping}, opts...)...)
		for form, script := range map[string]string{
			"one Query": "Q BEGIN; " + made + "; INSERT INTO made VALUES ('abcd', 1); COMMIT\n" + out,
			"two":       "Q BEGIN\n< Z\nQ " + made + "; INSERT INTO made VALUES ('abcd', 1)\n< Z\nQ COMMIT\n" + out,
			"three":     "Q BEGIN\n< Z\nQ " + made + "\n< Z\nQ INSERT INTO made VALUES ('abcd', 1)\n< Z\nQ SELECT * FROM made\n< Z\nQ COMMIT\n" + out,
			"extended":  "Q BEGIN\n< Z\nQ " + made + "\n< Z\n" + ext("INSERT INTO made VALUES ('abcd', 1)") + "S\n< Z\n" + ext("SELECT * FROM made") + "S\n< Z\nQ COMMIT\n" + out,
		} {
			got := perform(t, s.addr, script)
			right := strings.Contains(got, "T k:17/0") && strings.Contains(got, `\x61626364`)
			if refused := strings.Contains(got, "C=0A000"); strings.Contains(got, "byteahex") || !right && !refused || strings.HasPrefix(form, "t") && form != "two" && refused {
				t.Errorf("%s, %s: %s", name, form, got)
			}
		}
	}
}
