package proxy_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/proxy/advisory"
	"github.com/sluice-proxy/sluice/rewrite"
)

// withLocks has Sluice keep advisory locks in a table.
func withLocks(s *setup) {
	s.rules = rewrite.Rules{Session: true, Cursors: true, Advisory: true}
	s.proxy.Kind, s.proxy.ForwardCancel = proxy.DSQL, false
	s.proxy.IgnoredSettings = []string{"lock_timeout", "client_min_messages"}
	s.proxy.Locks = advisory.LeaseTerms{Lease: proxy.DefaultLockLease, LongestDDL: proxy.DefaultLockLongest}
}

// lockRoutes are servers that keep locks, in each way that matters.
func lockRoutes(t *testing.T, pg postgres) map[string]string {
	routes := map[string]string{}
	for name, opts := range map[string][]option{
		"plain":     nil,
		"replay":    {withReplay},
		"session":   {sessionPairing},
		"few texts": {withReplay, configure(func(c *proxy.Config) { c.PreparedPerBackend, c.PreparedTexts = 1, 1 })},
	} {
		routes[name] = startSluice(t, pg, append([]option{withLocks, maxOpen(3)}, opts...)...).addr
	}
	return routes
}

// ownNotice is Sluice's notice of each lock, which PostgreSQL has not.
var ownNotice = regexp.MustCompile(`(?m)^N .*sluice\.advisory_locks.*\n`)

// asPostgres is a transcript without what Sluice adds.
func asPostgres(transcript string) string { return ownNotice.ReplaceAllString(transcript, "") }

// lockDialogues are answered as by PostgreSQL, frame by frame. Each leaves no lock.
var lockDialogues = map[string]string{
	"golang-migrate":   "P - | SELECT pg_advisory_lock($1)\nD S -\nS\n< Z\nB - | - | 1443532\nE -\nS\n< Z\nP - | SELECT pg_advisory_unlock($1)\nD S -\nS\n< Z\nB - | - | 1443532\nE -\nS\n< Z\n",
	"Rails":            "Q SELECT pg_try_advisory_lock(4847427389173527425)\n< Z\nQ SELECT pg_advisory_unlock(4847427389173527425)\n< Z\n",
	"Rails, prepared":  "P a1 | SELECT pg_try_advisory_lock(4847427389173527425)\nD S a1\nS\n< Z\nB - | a1\nE -\nS\n< Z\n" + ext("SELECT pg_advisory_unlock(4847427389173527425)") + "S\n< Z\n",
	"Flyway":           ext("SELECT pg_try_advisory_lock(4277735113)") + "S\n< Z\n" + ext("SELECT pg_advisory_unlock(4277735113)") + "S\n< Z\n",
	"Prisma":           "Q SELECT pg_advisory_lock(72707369)\n< Z\n",
	"twice":            "Q SELECT pg_advisory_lock(1)\n< Z\nQ SELECT pg_try_advisory_lock(1)\n< Z\nQ SELECT pg_advisory_unlock(1)\n< Z\nQ SELECT pg_advisory_unlock(1)\n< Z\nQ SELECT pg_advisory_unlock(1)\n< Z\n",
	"not held":         "Q SELECT pg_advisory_unlock(5)\n< Z\nQ SELECT pg_advisory_unlock(5, 6)\n< Z\nQ SET client_min_messages = error\n< Z\nQ SELECT pg_advisory_unlock(5)\n< Z\n",
	"two kinds":        "Q SELECT pg_advisory_lock(0, 7)\n< Z\nQ SELECT pg_advisory_unlock(7)\n< Z\nQ SELECT pg_advisory_unlock(0, 7)\n< Z\n",
	"all":              "Q SELECT pg_advisory_lock(1)\n< Z\nQ SELECT pg_advisory_lock(1, 2)\n< Z\nQ SELECT pg_advisory_unlock_all()\n< Z\nQ SELECT pg_advisory_unlock(1)\n< Z\nQ SELECT pg_advisory_unlock(1, 2)\n< Z\n",
	"DISCARD ALL":      "Q SELECT pg_advisory_lock(1)\n< Z\nQ DISCARD ALL\n< Z\nQ SELECT pg_advisory_unlock(1)\n< Z\n",
	"reset string":     "Q SELECT pg_advisory_lock(1)\n< Z\nQ SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL\n< Z\nQ SELECT pg_advisory_unlock(1)\n< Z\n",
	"among statements": "Q SELECT pg_advisory_lock(1)\n< Z\nQ SELECT 1 AS a; SELECT pg_advisory_unlock_all(); SELECT 2 AS b\n< Z\nQ SELECT pg_advisory_unlock(1)\n< Z\n",
	"rolled back":      "Q BEGIN\n< Z\nQ SELECT pg_advisory_lock(1)\n< Z\nQ SELECT 1 AS one\n< Z\nQ ROLLBACK\n< Z\nQ SELECT pg_advisory_unlock(1)\n< Z\n",
	"failed block":     "Q SELECT pg_advisory_lock(1)\n< Z\nQ BEGIN\n< Z\nQ SELECT 1/0\n< Z\nQ SELECT pg_advisory_unlock(1)\n< Z\n" + ext("SELECT pg_advisory_unlock(1)") + "S\n< Z\nQ ROLLBACK\n< Z\nQ SELECT pg_advisory_unlock(1)\n< Z\n",
	"in a block":       "Q SELECT pg_advisory_lock(1)\n< Z\nQ BEGIN\n< Z\nQ SELECT 1 AS one\n< Z\nQ SELECT pg_advisory_lock(1)\n< Z\nQ SELECT pg_advisory_unlock(1)\n< Z\nQ SELECT pg_advisory_unlock(1)\n< Z\nQ COMMIT\n< Z\n",
	"named":            "Q SELECT pg_try_advisory_lock(1) AS \"got it\"\n< Z\nQ select PG_CATALOG.pg_advisory_unlock ( 1 ) x;\n< Z\nQ /* a */ SELECT -- b\\n pg_advisory_lock( /* c */ '-3' )\n< Z\nQ SELECT pg_advisory_unlock((-3)::bigint)\n< Z\nQ SELECT pg_advisory_unlock('-3'::int8)\n< Z\nQ SELECT pg_advisory_lock(3::int)\n< Z\nQ SELECT pg_advisory_unlock(CAST(3 AS bigint))\n< Z\n",
	"NULL":             "Q SELECT pg_advisory_lock(NULL)\n< Z\nQ SELECT pg_try_advisory_lock(1, NULL)\n< Z\nP - | SELECT pg_advisory_unlock($1)\nB - | - | \\N\nD P -\nE -\nS\n< Z\n",
	"parameters":       "P l | SELECT pg_try_advisory_lock($1, $2)\nD S l\nB - | l | 1,-2\nD P -\nE -\nS\n< Z\nP u | SELECT pg_advisory_unlock($2, $1)\nD S u\nB - | u | -2,1\nE -\nS\n< Z\nP c | SELECT pg_advisory_lock($1::bigint)\nD S c\nP d | SELECT pg_advisory_lock($1::int)\nD S d\nP e | SELECT pg_advisory_lock(7, $1)\nD S e\nS\n< Z\n",
	"typed parameters": "P l | SELECT pg_advisory_lock($1) | 23\nD S l\nB - | l | 12\nE -\nS\n< Z\nP u | SELECT pg_advisory_unlock($1) | 21\nD S u\nB - | u | 12\nE -\nS\n< Z\nQ SELECT pg_advisory_unlock(12)\n< Z\n",
	"binary":           "P l | SELECT pg_try_advisory_lock(1)\nS\n< Z\n" + bindFormats("", "l", 1) + "D P -\nE -\nS\n< Z\nP v | SELECT pg_advisory_unlock_all()\nS\n< Z\n" + bindFormats("", "v", 1) + "D P -\nE -\nS\n< Z\nP u | SELECT pg_advisory_unlock(1)\nS\n< Z\n" + bindFormats("", "u", 1) + "D P -\nE -\nS\n< Z\n",
	"bad values":       "P l | SELECT pg_advisory_lock($1)\nS\n< Z\nB - | l | x\nE -\nS\n< Z\nB - | l | 99999999999999999999\nE -\nS\n< Z\nB - | l\nE -\nS\n< Z\nB - | l | 1,2\nE -\nS\n< Z\nP m | SELECT pg_advisory_lock($1, 1)\nB - | m | 3000000000\nE -\nS\n< Z\n",
	"executed again":   "P - | SELECT pg_try_advisory_lock(1)\nB p | -\nE p\nE p\nS\n< Z\nQ SELECT pg_advisory_unlock(1)\n< Z\nQ SELECT pg_advisory_unlock(1)\n< Z\n",
	"one row":          "P - | SELECT pg_try_advisory_lock(1)\nB p | -\nE p 1\nE p 1\nS\n< Z\nQ SELECT pg_advisory_unlock(1)\n< Z\n",
	"never executed":   "P l | SELECT pg_try_advisory_lock(1)\nB p | l\nS\n< Z\nQ SELECT pg_advisory_unlock(1)\n< Z\n",
	"one group":        ext("SELECT pg_try_advisory_lock(1)") + ext("SELECT 1 AS one") + ext("SELECT pg_advisory_unlock(1)") + "S\n< Z\n",
	"group fails":      ext("SELECT pg_try_advisory_lock(1)") + ext("SELECT 1/0") + ext("SELECT pg_advisory_unlock(1)") + "S\n< Z\nQ SELECT pg_advisory_unlock(1)\n< Z\n",
	"no parameter":     "Q SELECT 1 AS one\n< Z\n",

	"writes":                heldLock + "Q INSERT INTO locked VALUES (1, 'a')\n< Z\nQ SELECT b FROM locked ORDER BY a\n< Z\nQ UPDATE locked SET b = 'c'; DELETE FROM locked WHERE a = 1\n< Z\n" + freeLock,
	"writes in a block":     heldLock + "Q BEGIN\n< Z\nQ INSERT INTO locked VALUES (2, 'a')\n< Z\nQ UPDATE locked SET b = 'd' WHERE a = 2 RETURNING a, b\n< Z\nQ COMMIT\n< Z\nQ DELETE FROM locked\n< Z\n" + freeLock,
	"writes by groups":      heldLock + "P i | INSERT INTO locked VALUES ($1, $2)\nD S i\nB - | i | 3,x\nE -\nB - | i | 4,y\nE -\nS\n< Z\nP s | SELECT a, b FROM locked ORDER BY a\nB q | s\nE q 1\nB - | i | 5,z\nE -\nE q 1\nS\n< Z\nQ DELETE FROM locked\n< Z\n" + freeLock,
	"portal stays":          heldLock + "Q BEGIN\n< Z\nP - | SELECT g FROM generate_series(1, 4) g\nB - | -\nE - 2\nP i | INSERT INTO locked VALUES (6, 'p')\nB w | i\nE w\nE - 2\nS\n< Z\nQ ROLLBACK\n< Z\n" + freeLock,
	"errors":                heldLock + "Q INSERT INTO locked VALUES (1, 'a'), (1, 'b')\n< Z\nQ INSERT INTO nosuch VALUES (1)\n< Z\nQ UPDATE locked SET nosuch = 1\n< Z\n" + ext("INSERT INTO locked VALUES (1/0, 'a')") + "S\n< Z\nQ BEGIN\n< Z\nQ INSERT INTO locked VALUES (1/0, 'a')\n< Z\nQ INSERT INTO locked VALUES (1, 'a')\n< Z\nQ COMMIT\n< Z\n" + freeLock,
	"locks of rows":         heldLock + "Q BEGIN\n< Z\nQ SELECT a FROM locked FOR UPDATE\n< Z\nQ COMMIT\n< Z\n" + freeLock,
	"DDL":                   heldLock + "Q CREATE TABLE made_locked (a int)\n< Z\nQ INSERT INTO made_locked VALUES (1)\n< Z\nQ DROP TABLE made_locked\n< Z\n" + ext("CREATE TABLE made_locked (a int)") + "S\n< Z\n" + ext("DROP TABLE made_locked") + "S\n< Z\n" + freeLock,
	"DDL in a block":        heldLock + "Q BEGIN\n< Z\nQ CREATE TABLE made_locked (a int)\n< Z\nQ ROLLBACK\n< Z\nQ BEGIN\n< Z\nQ CREATE TABLE made_locked (a int)\n< Z\nQ COMMIT\n< Z\nQ DROP TABLE made_locked\n< Z\n" + freeLock,
	"unlocked in DDL":       heldLock + "Q BEGIN\n< Z\nQ CREATE TABLE made_locked (a int)\n< Z\nQ SELECT pg_advisory_unlock(99)\n< Z\nQ SELECT pg_advisory_unlock(99)\n< Z\nQ SELECT pg_advisory_lock(99)\n< Z\nQ ROLLBACK\n< Z\n" + freeLock,
	"AND CHAIN":             heldLock + "Q BEGIN\n< Z\nQ INSERT INTO locked VALUES (8, 'a')\n< Z\nQ COMMIT AND CHAIN\n< Z\nQ DELETE FROM locked\n< Z\nQ COMMIT\n< Z\n" + freeLock,
	"commit in a group":     heldLock + ext("BEGIN") + ext("INSERT INTO locked VALUES (9, 'a')") + ext("COMMIT") + ext("DELETE FROM locked") + "S\n< Z\n" + freeLock,
	"FunctionCall later":    heldLock + "Q SELECT lower('X')\n< Z\n" + freeLock,
	"commit fails":          heldLock + "Q INSERT INTO late VALUES (1), (1)\n< Z\nQ INSERT INTO late VALUES (1); INSERT INTO late VALUES (1)\n< Z\nQ INSERT INTO late VALUES (1), (1) RETURNING a\n< Z\n" + ext("INSERT INTO late VALUES (1), (1)") + "S\n< Z\nQ SELECT count(*) FROM late\n< Z\n" + freeLock,
	"commit fails late":     heldLock + "Q SET lock_timeout = '1s'\n< Z\n" + lateEnds() + "Q SHOW application_name\n< Z\nQ SELECT count(*) FROM late\n< Z\n" + freeLock,
	"strings":               heldLock + "Q INSERT INTO locked VALUES (11, 's'); SELECT b FROM locked WHERE a = 11; UPDATE locked SET b = 't' WHERE a = 11 RETURNING b\n< Z\nQ SELECT 1 AS one; DELETE FROM locked; SELECT 1/0\n< Z\nQ SELECT count(*) FROM locked; DELETE FROM locked; ;\n< Z\n" + freeLock,
	"outside of a block":    heldLock + ext("INSERT INTO locked VALUES (12, 'o')") + ext("DECLARE c CURSOR FOR SELECT 1") + "S\n< Z\nQ SELECT count(*) FROM locked\n< Z\n" + freeLock,
	"flushed":               heldLock + "P i | INSERT INTO locked VALUES ($1, 'f') RETURNING a\nB - | i | 13\nE -\nH\n< C\nB - | i | 14\nE -\nH\n< C\nB - | i | 13\nE -\nS\n< Z\nQ SELECT count(*) FROM locked\n< Z\n" + freeLock,
	"unlocked in it":        heldLock + ext("INSERT INTO locked VALUES (15, 'u')") + ext("SELECT pg_advisory_unlock(99)") + ext("INSERT INTO locked VALUES (16, 'u')") + "S\n< Z\nQ DELETE FROM locked\n< Z\nQ SELECT pg_advisory_unlock(99)\n< Z\n",
	"one of two in a block": heldLock + "Q SELECT pg_advisory_lock(98)\n< Z\nQ BEGIN\n< Z\nQ INSERT INTO locked VALUES (18, 'x')\n< Z\nQ SELECT pg_advisory_unlock(98)\n< Z\nQ DELETE FROM locked\n< Z\nQ COMMIT\n< Z\nQ INSERT INTO locked VALUES (18, 'x')\n< Z\nQ DELETE FROM locked\n< Z\n" + freeLock,
	"failed in a group":     heldLock + ext("BEGIN") + ext("SELECT 1/0") + ext("COMMIT") + ext("INSERT INTO locked VALUES (17, 'x')") + "S\n< Z\nQ ROLLBACK\n< Z\nQ SELECT count(*) FROM locked\n< Z\n" + freeLock,
	"behind a group":        heldLock + "P - | INSERT INTO locked VALUES (10, 'g')\nB - | -\nE -\nQ SELECT count(*) FROM locked\n< Z\nQ DELETE FROM locked\n< Z\n" + freeLock,
}

// lateEnds are commits that fail behind a last statement which Sluice answers, or makes the answer of.
func lateEnds() string {
	var b strings.Builder
	for _, last := range []string{"SET lock_timeout = '5s'", "RESET lock_timeout", "SHOW lock_timeout", "SELECT set_config('lock_timeout', '4s', false)", "SET application_name = 'a'",
		"RESET application_name", "SHOW application_name", "SELECT set_config('application_name', 'b', false)", "CLOSE ALL", "UNLISTEN *", "DEALLOCATE ALL",
		"SET statement_timeout = '9s'", "SELECT 1 AS one", ";"} {
		fmt.Fprintf(&b, "Q INSERT INTO late VALUES (1), (1); %s\n< Z\n%sQ %[1]s\n< Z\nQ SHOW lock_timeout\n< Z\n", last, ext("INSERT INTO late VALUES (1), (1)"))
	}
	return b.String()
}

// lockedTables are those of the dialogues; the keys of late are looked at by the commit.
const lockedTables = "CREATE TABLE locked (a int PRIMARY KEY, b text); CREATE TABLE late (a int UNIQUE DEFERRABLE INITIALLY DEFERRED)"

const (
	heldLock = "Q SELECT pg_advisory_lock(99)\n< Z\n"
	freeLock = "Q SELECT pg_advisory_unlock(99)\n< Z\nQ SELECT 1 AS one\n< Z\n"
)

// What Sluice does about advisory locks is answered as by PostgreSQL, byte for byte.
func TestAdvisoryDialogues(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", lockedTables)
	routes := lockRoutes(t, pg)
	for title, script := range lockDialogues {
		t.Run(title, func(t *testing.T) {
			want := perform(t, pg.addr, script)
			for name, addr := range routes {
				for round := range 2 { // the second finds everything prepared
					if got := asPostgres(perform(t, addr, script)); got != want {
						t.Errorf("through Sluice (%s, round %d):\n%s", name, round, firstDifference(got, want))
						break
					}
				}
			}
		})
	}
}

// randomLocks makes a dialogue of one client about four locks, with what it writes under them: in
// autocommit, in blocks, by multi-statement strings and by groups, with errors at statements and at commits.
func randomLocks(r *rand.Rand) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	key := func() string { return pick("1", "2", "0, 1", "-7") }
	work := func() string {
		return pick(fmt.Sprintf("INSERT INTO locked VALUES (%d, 'r')", r.IntN(6)), fmt.Sprintf("INSERT INTO locked VALUES (%d, 'r') RETURNING a", r.IntN(6)),
			"SELECT 1 AS one", "SELECT 1/0", "SELECT count(*) FROM locked", "UPDATE locked SET b = 'u' WHERE a < 3", "DELETE FROM locked WHERE a = 1 RETURNING a, b",
			"SELECT a FROM locked ORDER BY a FOR UPDATE", fmt.Sprintf("INSERT INTO late VALUES (%d)", r.IntN(3)), "DELETE FROM late")
	}
	// always: a lock is held all the time, so that answers come in front of commits that fail as PostgreSQL's do.
	always := r.IntN(2) == 0
	settles := func() string { // Sluice answers it, or makes the answer of it
		answered := []string{"SET lock_timeout = '5s'", "RESET lock_timeout", "SET application_name = 'a'", "RESET application_name", "CLOSE ALL", "UNLISTEN *"}
		if always {
			answered = append(answered, "SET LOCAL lock_timeout = '3s'", "SHOW lock_timeout", "SELECT set_config('lock_timeout', '4s', false)", "SELECT set_config('application_name', 'b', false)", "SHOW application_name")
		}
		return pick(answered...)
	}
	var b strings.Builder
	block := false
	if always {
		b.WriteString(heldLock)
	}
	for range 6 + r.IntN(14) {
		sql := ""
		switch n := r.IntN(20); {
		case n < 3 && !block: // not within a transaction that has begun at the server
			sql = "SELECT " + pick("pg_advisory_lock(", "pg_try_advisory_lock(") + key() + ")"
		case n < 5:
			sql = "SELECT pg_advisory_unlock(" + key() + ")"
		case n == 5 && !always:
			sql = "SELECT pg_advisory_unlock_all()"
		case n == 6 && !block && !always:
			sql = "DISCARD ALL"
		case n < 9:
			if sql = "BEGIN"; block {
				sql = pick("COMMIT", "ROLLBACK") // AND CHAIN of a failed block is refused on kind dsql
			}
			block = sql == "BEGIN"
		case n < 13: // several, in a request
			if r.IntN(2) == 0 {
				all := []string{work(), work(), work()}
				if r.IntN(2) == 0 {
					all[r.IntN(len(all))] = settles()
				}
				fmt.Fprintf(&b, "Q %s\n< Z\nQ SHOW lock_timeout\n< Z\nQ SHOW application_name\n< Z\n", strings.Join(all, "; "))
				continue
			}
			if !block && r.IntN(3) == 0 { // ended by a Query, which is skipped behind an error
				b.WriteString(ext(pick("SELECT 1 AS one", "UPDATE locked SET b = 'v' WHERE a < 3", "DELETE FROM locked WHERE a = 5", fmt.Sprintf("INSERT INTO late VALUES (%d)", r.IntN(3)))) +
					"Q " + pick("SELECT count(*) FROM locked", settles(), settles()+"; "+settles()) + "\n< Z\n")
				continue
			}
			for range 1 + r.IntN(3) {
				b.WriteString(ext(work()))
			}
			b.WriteString("S\n< Z\n")
			continue
		default:
			sql = work()
		}
		if r.IntN(2) == 0 {
			fmt.Fprintf(&b, "Q %s\n< Z\n", sql)
			continue
		}
		b.WriteString(ext(sql))
		if r.IntN(4) == 0 && !strings.Contains(sql, "DISCARD") && !strings.Contains(sql, "advisory_lock(") {
			b.WriteString(ext("SELECT 2 AS two"))
		}
		b.WriteString("S\n< Z\n")
	}
	return b.String() + "Q ROLLBACK\n< Z\nQ SELECT pg_advisory_unlock_all()\n< Z\nQ DELETE FROM locked\n< Z\nQ DELETE FROM late\n< Z\nX\n"
}

var lockSeeds = flag.Uint64("locks.seeds", 40, "how many random dialogues about advisory locks are played")

// Random programs of one session are answered as by PostgreSQL.
func TestAdvisoryRandom(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", lockedTables)
	routes := lockRoutes(t, pg)
	for seed := range *lockSeeds {
		script := randomLocks(rand.New(rand.NewPCG(seed, 3)))
		want := perform(t, pg.addr, script)
		for name, addr := range routes {
			if got := asPostgres(perform(t, addr, script)); got != want {
				t.Fatalf("seed %d through Sluice (%s):\n%s\n%s", seed, name, firstDifference(got, want), script)
			}
		}
	}
}

// What is refused of advisory locks is refused wherever it stands, and nothing is ever answered
// that was not done.
func TestAdvisoryRefused(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", lockedTables)
	for name, addr := range lockRoutes(t, pg) {
		for title, script := range map[string]string{
			"a cursor":                   "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT pg_try_advisory_lock(1)\n< Z\nQ ROLLBACK\n< Z\n",
			"all by a cursor":            "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT pg_advisory_unlock_all()\n< Z\nQ ROLLBACK\n< Z\n",
			"a string":                   "Q SELECT pg_try_advisory_lock(1); SELECT 1\n< Z\n",
			"a string in a block":        "Q BEGIN; SELECT pg_try_advisory_lock(1)\n< Z\nQ ROLLBACK\n< Z\n",
			"of a transaction":           "Q SELECT pg_try_advisory_xact_lock(1)\n< Z\n",
			"shared":                     "Q SELECT pg_try_advisory_lock_shared(1)\n< Z\n" + ext("SELECT pg_advisory_lock_shared(1)") + "S\n< Z\n",
			"begun at the server":        "Q BEGIN\n< Z\nQ SELECT 1\n< Z\nQ SELECT pg_try_advisory_lock(1)\n< Z\nQ ROLLBACK\n< Z\n",
			"begun in a group":           ext("BEGIN") + ext("SELECT 2") + ext("SELECT pg_try_advisory_lock(1)") + "S\n< Z\nQ ROLLBACK\n< Z\n",
			"behind a group":             "P - | SELECT 3\nB - | -\nE -\nQ SELECT pg_try_advisory_lock(1)\n< Z\n",
			"a write in the group":       ext("INSERT INTO locked VALUES (1, 'x')") + ext("SELECT pg_try_advisory_lock(1)") + "S\n< Z\n",
			"a parameter of text":        "P - | SELECT pg_advisory_lock($1) | 25\nB - | - | 1\nE -\nS\n< Z\n",
			"no such parameter":          "Q SELECT pg_advisory_lock($1)\n< Z\n",
			"several transactions":       heldLock + "Q BEGIN; INSERT INTO locked VALUES (1, 'x'); COMMIT\n< Z\nQ INSERT INTO locked VALUES (1, 'x'); COMMIT; INSERT INTO locked VALUES (2, 'x')\n< Z\n" + freeLock,
			"a savepoint behind a write": heldLock + ext("INSERT INTO locked VALUES (12, 'o')") + ext("SAVEPOINT a") + "S\n< Z\n" + freeLock,
			"a block behind a write":     heldLock + ext("INSERT INTO locked VALUES (12, 'o')") + ext("BEGIN") + ext("INSERT INTO locked VALUES (13, 'o')") + "S\n< Z\n" + freeLock,
			"read otherwise":             heldLock + "Q SET standard_conforming_strings = off\n< Z\nQ SELECT '\\', ' ; INSERT INTO locked VALUES (77, $$x$$); --'\n< Z\nQ RESET standard_conforming_strings\n< Z\n" + freeLock,
			"behind a failed block":      heldLock + "Q BEGIN\n< Z\nQ SELECT 1/0\n< Z\nQ ROLLBACK; INSERT INTO locked VALUES (1, 'x')\n< Z\nQ COMMIT\n< Z\n" + freeLock,
			"behind a failed write":      heldLock + "Q BEGIN\n< Z\nQ INSERT INTO locked VALUES (1/0, 'x')\n< Z\nQ COMMIT; INSERT INTO locked VALUES (1, 'x'); SELECT 1\n< Z\nQ COMMIT\n< Z\n" + freeLock,
			"unread":                     heldLock + "Q FROB\n< Z\n" + freeLock,
		} {
			got := perform(t, addr, script)
			if !strings.Contains(got, "E S=ERROR C=") || strings.Contains(got, "try_advisory_lock:16/0") {
				t.Errorf("%s (%s):\n%s", title, name, got)
			}
		}
	}
	if n := pg.SQL(t, "postgres", "SELECT count(*) FROM locked"); n != "0" {
		t.Errorf("%s rows were written", n)
	}
}

// A row that is another's is found by whoever writes, and by whoever sends DDL, and ends the session.
func TestAdvisoryLost(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", lockedTables)
	for name, addr := range lockRoutes(t, pg) {
		for title, script := range map[string]string{
			"a write":        "Q INSERT INTO locked VALUES (1, 'x')\n< Z\n",
			"two":            "Q INSERT INTO locked VALUES (1, 'x'); INSERT INTO locked VALUES (2, 'x')\n< Z\n",
			"a group":        ext("INSERT INTO locked VALUES (1, 'x')") + ext("INSERT INTO locked VALUES (2, 'x')") + "S\n< Z\n",
			"behind a read":  ext("SELECT 1") + ext("INSERT INTO locked VALUES (2, 'x')") + "S\n< Z\n",
			"a block":        "Q BEGIN\n< Z\nQ SELECT 1\n< Z\nQ INSERT INTO locked VALUES (1, 'x')\n< Z\n",
			"an open block":  ext("BEGIN") + ext("INSERT INTO locked VALUES (1, 'x')") + ext("COMMIT") + "S\n< Z\n",
			"COPY":           "Q COPY locked FROM STDIN\n< Z\n",
			"DDL":            "Q CREATE TABLE made_lost (a int)\n< Z\n",
			"DDL in a group": ext("CREATE TABLE made_lost (a int)") + "S\n< Z\n",
			"behind a group": "P - | SELECT 3\nB - | -\nE -\nQ INSERT INTO locked VALUES (1, 'x')\n< Z\n",

			"behind READ ONLY":         "Q BEGIN READ ONLY\n< Z\nQ SELECT 1\n< Z\nQ COMMIT; BEGIN\n< Z\nQ INSERT INTO locked VALUES (1, 'x')\n< Z\nQ COMMIT\n< Z\n",
			"behind READ ONLY, groups": "Q BEGIN READ ONLY\n< Z\nQ SELECT 1\n< Z\nQ SELECT 2; ROLLBACK; BEGIN; SELECT 3\n< Z\n" + ext("INSERT INTO locked VALUES (1, 'x')") + ext("COMMIT") + "S\n< Z\n",
			"READ WRITE after all":     "Q BEGIN READ ONLY\n< Z\nQ SET TRANSACTION READ WRITE\n< Z\nQ INSERT INTO locked VALUES (1, 'x')\n< Z\nQ COMMIT\n< Z\n",
			"READ WRITE in a group":    ext("BEGIN READ ONLY") + ext("SET TRANSACTION READ WRITE") + ext("INSERT INTO locked VALUES (1, 'x')") + ext("COMMIT") + "S\n< Z\n",
			"two BEGINs":               "Q BEGIN READ ONLY\n< Z\nQ BEGIN READ WRITE\n< Z\nQ INSERT INTO locked VALUES (1, 'x')\n< Z\nQ COMMIT\n< Z\n",
			"two BEGINs, groups":       ext("BEGIN READ ONLY") + "S\n< Z\n" + ext("BEGIN READ WRITE") + ext("INSERT INTO locked VALUES (1, 'x')") + "S\n< Z\nQ COMMIT\n< Z\n",
			"two BEGINs of a string":   "Q BEGIN READ ONLY; BEGIN READ WRITE\n< Z\nQ INSERT INTO locked VALUES (1, 'x')\n< Z\nQ COMMIT\n< Z\n",
			"READ ONLY, taken back":    "Q BEGIN\n< Z\nQ SAVEPOINT a\n< Z\nQ SET TRANSACTION READ ONLY\n< Z\nQ ROLLBACK TO a\n< Z\nQ INSERT INTO locked VALUES (1, 'x')\n< Z\nQ COMMIT\n< Z\n",
			"READ ONLY, released":      "Q BEGIN\n< Z\nQ SAVEPOINT a\n< Z\nQ SET TRANSACTION READ ONLY\n< Z\nQ RELEASE a\n< Z\nQ INSERT INTO locked VALUES (1, 'x')\n< Z\nQ COMMIT\n< Z\n",
		} {
			c := dialRaw(t, addr)
			c.say(t, heldLock)
			pg.SQL(t, "postgres", "UPDATE sluice.advisory_locks SET epoch = epoch + 1, owner = 'thief' WHERE lock LIKE '1/99@%'")
			got := c.say(t, script)
			if !strings.Contains(got, "E S=ERROR C=40001 M=an advisory lock of this session was taken over") {
				t.Errorf("%s (%s):\n%s", title, name, got)
			}
			pg.SQL(t, "postgres", "UPDATE sluice.advisory_locks SET owner = '', seq = seq + 1")
		}
	}
	if n := pg.SQL(t, "postgres", "SELECT count(*) FROM locked") + pg.SQL(t, "postgres", "SELECT count(*) FROM pg_class WHERE relname = 'made_lost'"); n != "00" {
		t.Errorf("%s rows and tables were made", n)
	}
}

// A session that ends because one of its locks was taken over gives the others up: they are free at once, also
// where its last renewal has promised them for as long as DDL may take.
func TestAdvisoryOthersOfALostLock(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", lockedTables)
	for name, addr := range lockRoutes(t, pg) {
		for title, before := range map[string]string{"alone": "", "behind DDL": "Q CREATE TABLE IF NOT EXISTS made_before (a int)\n< Z\n"} {
			c := dialRaw(t, addr)
			c.say(t, heldLock+"Q SELECT pg_advisory_lock(98)\n< Z\n"+before)
			pg.SQL(t, "postgres", "UPDATE sluice.advisory_locks SET epoch = epoch + 1, owner = 'thief' WHERE lock LIKE '1/99@%'")
			c.say(t, "Q INSERT INTO locked VALUES (1, 'x')\n< Z\n")
			c.say(t, "Q SELECT 1 AS one\n< E\n") // the session ends
			waitFor(t, "the other lock to be free", func() bool {
				return pg.SQL(t, "postgres", "SELECT owner FROM sluice.advisory_locks WHERE lock LIKE '1/98@%'") == ""
			})
			if owner := pg.SQL(t, "postgres", "SELECT owner FROM sluice.advisory_locks WHERE lock LIKE '1/99@%'"); owner != "thief" {
				t.Errorf("%s (%s): the lost lock is %q's", title, name, owner)
			}
			pg.SQL(t, "postgres", "UPDATE sluice.advisory_locks SET owner = '', seq = seq + 1")
		}
	}
}

// A text that the backend, once it is lent, reads otherwise than Sluice has is refused under a lock: the
// backends were dialled anew behind a change of the database's defaults.
func TestAdvisoryReadOtherwise(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", lockedTables)
	c := dialRaw(t, startSluice(t, pg, withLocks, maxOpen(3)).addr)
	c.say(t, heldLock+"Q SELECT 1 AS one\n< Z\n")
	pg.SQL(t, "postgres", "ALTER DATABASE postgres SET standard_conforming_strings = off")
	pg.SQL(t, "postgres", "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
	got := c.say(t, "Q SELECT '\\', ' ; INSERT INTO locked VALUES (77, $$x$$); --'\n< Z\n")
	if n := pg.SQL(t, "postgres", "SELECT count(*) FROM locked"); n != "0" || !strings.Contains(got, "M=a statement that Sluice cannot read is not run under an advisory lock") {
		t.Errorf("%s rows, and the client got:\n%s", n, got)
	}
}

// A text that looks like a read and writes, through a view, is guarded by the lock wherever it stands.
func TestAdvisoryLostByReads(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", lockedTables+"; CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS $$ INSERT INTO locked VALUES (1, 'x') RETURNING a $$; CREATE VIEW writing AS SELECT writes() AS a")
	const read = "SELECT a FROM writing"
	for name, addr := range lockRoutes(t, pg) {
		for title, script := range map[string]string{
			"alone":              "Q " + read + "\n< Z\n",
			"in a block":         "Q BEGIN\n< Z\nQ " + read + "\n< Z\nQ COMMIT\n< Z\n",
			"behind a setting":   "Q SET application_name = 'a'; " + read + "\n< Z\n",
			"in front of one":    "Q " + read + "; SET application_name = 'a'\n< Z\n",
			"beside a local one": "Q SET lock_timeout = 5; " + read + "; SHOW lock_timeout\n< Z\n",
			"behind one sent":    "Q SET TimeZone = 'UTC'; " + read + "\n< Z\n",
			"in front of COMMIT": "Q " + read + "; COMMIT\n< Z\n",
			"in front of an end": "Q BEGIN\n< Z\nQ " + read + "; COMMIT\n< Z\n",
			"in a group":         ext("SET application_name = 'a'") + ext(read) + "S\n< Z\n",
		} {
			c := dialRaw(t, addr)
			c.say(t, heldLock)
			pg.SQL(t, "postgres", "UPDATE sluice.advisory_locks SET epoch = epoch + 1, owner = 'thief' WHERE lock LIKE '1/99@%'")
			got := c.say(t, script)
			if !strings.Contains(got, "E S=ERROR C=40001 M=an advisory lock of this session was taken over") && !strings.Contains(got, "M=a string of several transactions") {
				t.Errorf("%s (%s):\n%s", title, name, got)
			}
			pg.SQL(t, "postgres", "UPDATE sluice.advisory_locks SET owner = '', seq = seq + 1")
		}
	}
	if n := pg.SQL(t, "postgres", "SELECT count(*) FROM locked"); n != "0" {
		t.Errorf("%s rows were written", n)
	}
}

// A statement under a lock that fails gets one error, whatever becomes of the backend when Sluice ends the block
// of its own around it. A statement whose block Sluice cannot commit gets an error, and no tag.
func TestAdvisoryOwnEndLost(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", lockedTables)
	for name, opts := range map[string][]option{"": nil, "replay": {withReplay}} {
		for title, test := range map[string]struct{ script, word, want string }{
			"an error":                 {"Q INSERT INTO locked VALUES (1/0, 'x')\n< Z\n", "ROLLBACK\x00", "C=22012"},
			"an error behind a write":  {"Q INSERT INTO locked VALUES (1, 'x'); SELECT 1/0\n< Z\n", "ROLLBACK\x00", "C=22012"},
			"an error in a group":      {ext("INSERT INTO locked VALUES (1, 'x')") + ext("INSERT INTO locked VALUES (1/0, 'x')") + "S\n< Z\n", "ROLLBACK\x00", "C=22012"},
			"a refusal in a group":     {ext("INSERT INTO locked VALUES (1, 'x')") + ext("SAVEPOINT a") + "S\n< Z\n", "ROLLBACK\x00", "C=0A000"},
			"a commit":                 {"Q INSERT INTO locked VALUES (1, 'x')\n< Z\n", "COMMIT\x00", "C=08007"},
			"a commit behind a SET":    {"Q INSERT INTO locked VALUES (2, 'x'); SET lock_timeout = 9\n< Z\n", "COMMIT\x00", "C=08007"},
			"a commit behind a RESET":  {"Q INSERT INTO locked VALUES (3, 'x'); RESET application_name\n< Z\n", "COMMIT\x00", "C=08007"},
			"a commit behind its rows": {"Q INSERT INTO locked VALUES (4, 'x'); SHOW lock_timeout\n< Z\n", "COMMIT\x00", "C=08007"},
		} {
			for _, after := range []bool{false, true} {
				t.Run(name+"/"+title, func(t *testing.T) {
					var cut cutter
					c := dialRaw(t, startSluice(t, pg, append(opts, withLocks, maxOpen(3), cut.option)...).addr)
					c.say(t, heldLock)
					cut.arm(test.word, after)
					got := c.say(t, test.script)
					if strings.Count(got, "E S=") != 1 || !strings.Contains(got, "E S=ERROR "+test.want) || !strings.HasSuffix(got, "Z I\n") {
						t.Errorf("got:\n%swant one error, %s", got, test.want)
					}
					for _, tag := range []string{"C SET", "C RESET", "C SHOW"} {
						if strings.Contains(got, tag) {
							t.Errorf("the tag comes before the commit:\n%s", got)
						}
					}
					if cut.cuts.Load() != 1 {
						t.Errorf("cut %d times", cut.cuts.Load())
					}
					if got := c.say(t, "Q SELECT 1 AS one\n< Z\n"); !strings.Contains(got, "C SELECT 1") {
						t.Errorf("then:\n%s", got)
					}
					pg.SQL(t, "postgres", "DELETE FROM locked")
				})
			}
		}
	}
}

// A lock that is held for several leases stays the session's, whatever the session does meanwhile.
func TestAdvisoryRenewed(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", lockedTables)
	short := configure(func(c *proxy.Config) { c.Locks = advisory.LeaseTerms{Lease: time.Second, LongestDDL: time.Second} })
	holder := dialRaw(t, startSluice(t, pg, withLocks, withReplay, short).addr)
	other := dialRaw(t, startSluice(t, pg, withLocks, short).addr)
	holder.say(t, heldLock)
	for n, end := 0, time.Now().Add(4*time.Second); time.Now().Before(end); n++ {
		got := holder.say(t, fmt.Sprintf("Q INSERT INTO locked VALUES (%d, 'x')\n< Z\nQ SELECT pg_advisory_lock(98)\n< Z\nQ CREATE TABLE renewed (a int)\n< Z\nQ DROP TABLE renewed\n< Z\n", n)+
			"Q BEGIN\n< Z\nQ CREATE TABLE renewed (a int)\n< Z\nQ SELECT pg_advisory_unlock(98)\n< Z\nQ ROLLBACK\n< Z\n")
		if strings.Contains(got, "E S=") || !strings.Contains(got, `\x01t`) {
			t.Fatalf("the holder was told:\n%s", got)
		}
		if got := other.say(t, "Q SELECT pg_try_advisory_lock(99)\n< Z\n"); !strings.Contains(got, `\x01f`) {
			t.Fatalf("another was told:\n%s", got)
		}
	}
	holder.say(t, freeLock)
	if got := other.say(t, "Q SELECT pg_try_advisory_lock(99)\n< Z\n"); !strings.Contains(got, `\x01t`) {
		t.Errorf("behind the release another was told:\n%s", got)
	}
	waitFor(t, "the release behind the transaction", func() bool {
		return pg.SQL(t, "postgres", "SELECT owner FROM sluice.advisory_locks WHERE lock LIKE '1/98@%'") == ""
	})
}

// A Query about a cursor behind a write that no Sync has ended, under a lock, is refused, and the write with it: no tag
// comes before the outcome of the write is known. Behind a Sync it is answered.
func TestAdvisoryCursorBehindAWrite(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", lockedTables)
	c := dialRaw(t, startSluice(t, pg, withLocks, maxOpen(3)).addr)
	c.say(t, heldLock)
	for _, sql := range []string{"FETCH 1 FROM c", "MOVE 1 IN c", "CLOSE c", "DECLARE d CURSOR WITH HOLD FOR SELECT 2 AS two"} {
		c.say(t, "Q DECLARE c CURSOR WITH HOLD FOR SELECT 1 AS one\n< Z\n")
		got := c.say(t, ext("INSERT INTO locked VALUES (1, 'x')")+"Q "+sql+"\n< Z\n")
		verb, _, _ := strings.Cut(sql, " ")
		if !strings.Contains(got, "C=0A000 M=behind a write outside of a block no cursor is used") || strings.Contains(got, "C "+verb) || !strings.HasSuffix(got, "Z I\n") {
			t.Errorf("%s:\n%s", sql, got)
		}
		if n := pg.SQL(t, "postgres", "SELECT count(*) FROM locked"); n != "0" {
			t.Errorf("%s: %s rows were written", sql, n)
		}
		if got := c.say(t, ext("INSERT INTO locked VALUES (1, 'x')")+"S\n< Z\nQ FETCH 1 FROM c\n< Z\nQ CLOSE c\n< Z\nQ DELETE FROM locked\n< Z\n"); strings.Contains(got, "E S=") || !strings.Contains(got, "C FETCH 1") {
			t.Errorf("%s, behind a Sync:\n%s", sql, got)
		}
	}
}
