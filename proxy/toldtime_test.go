package proxy_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/proxy"
)

// A transaction has one time. A client that was told it, returns to a savepoint and goes on finds that
// time in all that it is told and in all that is stored, or its statement is refused. With nobody else
// there a return itself fails only where the transaction has read the time otherwise than it can be
// given back.
func TestOneTimeAcrossReturns(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{
		"":                  "",
		", reads may write": "CREATE VIEW writing AS SELECT stumble(1);", // so that nobody takes a SELECT for a read
	} {
		pg := newPostgres(t)
		pg.SQL(t, "postgres", timedTables+behindTable+more)
		s := startSluice(t, pg, strictly, mapping, maxOpen(4))
		counts := playTimed(t, pg, s, max(60, 1500/proxy.OneIn))
		t.Logf("timed%s: %v", name, counts)
		if counts["return refused"] > 0 || counts["returned"] < counts["played"] || counts["committed"] < counts["played"]/3 || counts["behind"] < counts["played"]/8 {
			t.Error("too little was played to its end")
		}
	}
}

// Whatever tells the time itself has it kept: where the transaction stores it, a return to a savepoint does not
// fail with nobody else there, and what comes later finds the same.
func TestToldTimeIsKept(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", timedTables)
	s := startSluice(t, pg, strictly, mapping, maxOpen(4))
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		c := connectTo(t, s, "postgres", mode)
		for _, tells := range []string{
			"SELECT now()", "select current_timestamp as t", "SELECT 1 AS one, pg_catalog.transaction_timestamp()", "SELECT now() AS a, now() AS b",
			"SELECT n, Now() FROM generate_series(1, 500) n", "UPDATE other SET v = 'y' RETURNING now(), *",
			"INSERT INTO plain (v, at) VALUES ('x', now()), ('y', NULL) RETURNING *", "INSERT INTO plain VALUES ('x', current_timestamp, now(), current_date) RETURNING at",
			"SELECT now() + '0 s'", "SELECT CASE WHEN true THEN now() END", "SELECT max(now()), 1 FROM other", "SELECT v, now() FROM timed UNION SELECT 'x', now()", "SELECT (now() + '1 day')::timestamptz - '1 day'::interval",
			"SELECT repeat('x', 100) AS long, now()", "WITH x AS (SELECT 1) SELECT now() FROM x",
			`SELECT "now"()`, `SELECT pg_catalog."transaction_timestamp"(), 1`, `SELECT "now" ( ) AS "now"`, "SELECT now ()", "SELECT now /* this */ ()",
			`INSERT INTO plain (v, at) VALUES ('x', "now"()) RETURNING at`,
		} {
			run(t, c, "DELETE FROM timed", "DELETE FROM other", "DELETE FROM once", "INSERT INTO other (v) VALUES ('x')", "BEGIN")
			var told time.Time
			rows, err := c.Query(t.Context(), tells)
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				values, err := rows.Values()
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range values {
					if at, ok := v.(time.Time); ok && told.IsZero() {
						told = at
					}
				}
			}
			run(t, c, "INSERT INTO timed (v) VALUES ('stored')", "SAVEPOINT a")
			if _, err := c.Exec(t.Context(), "INSERT INTO once (v) VALUES ('twice'), ('twice')"); err == nil {
				t.Error("a key came twice")
			}
			if _, err := c.Exec(t.Context(), "ROLLBACK TO a"); err != nil {
				t.Errorf("%s, %s: %s", mode, tells, detailOf(err))
				run(t, c, "ROLLBACK")
				continue
			}
			var again time.Time
			if err := c.QueryRow(t.Context(), "INSERT INTO timed (v) VALUES ('later') RETURNING at").Scan(&again); err != nil {
				t.Fatalf("%s, %s: %v", mode, tells, err)
			}
			var upserted time.Time
			if err := c.QueryRow(t.Context(), "INSERT INTO once (v) VALUES ('later') ON CONFLICT (v) DO UPDATE SET v = 'x' RETURNING at").Scan(&upserted); err != nil || !upserted.Equal(told) {
				t.Errorf("%s, %s: told %v, and of an upsert %v: %v", mode, tells, told, upserted, err)
			}
			run(t, c, "COMMIT")
			var times int
			if err := c.QueryRow(t.Context(), "SELECT count(DISTINCT at) FROM timed").Scan(&times); err != nil || times != 1 || !again.Equal(told) {
				t.Errorf("%s, %s: told %v, then %v; %d times are stored: %v", mode, tells, told, again, times, err)
			}
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Behind a return to a savepoint objects are defined as in PostgreSQL, since a definition that has an expression for
// the time does not read the clock. What reads the clock at once is refused, and so is what may fill a default of it.
func TestDefinitionsBehindAReturn(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", timedTables+"CREATE DOMAIN stamp AS timestamptz DEFAULT now();")
	s := startSluice(t, pg, strictly, mapping, maxOpen(4))
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		c := connectTo(t, s, "postgres", mode)
		for sql, refused := range map[string]bool{
			"CREATE TABLE defined (a int, at timestamptz DEFAULT now(), day date DEFAULT CURRENT_DATE)": false, "CREATE TABLE defined (a int)": false, "CREATE TABLE defined (at stamp)": false,
			"CREATE TABLE defined (at timestamptz DEFAULT 'now')": true, "CREATE TABLE defined AS SELECT now()": true, "CREATE INDEX ON plain (v)": false, "DROP TABLE plain": false,
			"CREATE VIEW defined AS SELECT now()": false, "CREATE VIEW defined AS SELECT 'today'::date": true, "ALTER TABLE plain ALTER at SET DEFAULT now()": false, "ALTER TABLE plain ALTER at SET DEFAULT 'now'": true,
			"ALTER TABLE plain ADD COLUMN more timestamptz": false, "ALTER TABLE plain ADD COLUMN more timestamptz DEFAULT now()": true, "ALTER TABLE plain ADD COLUMN more stamp": true, "COMMENT ON TABLE plain IS 'x'": false, "TRUNCATE plain": false,
		} {
			var told, later time.Time
			run(t, c, "BEGIN", "SAVEPOINT a", "INSERT INTO timed (v) VALUES ('x')")
			if err := c.QueryRow(t.Context(), "SELECT now()").Scan(&told); err != nil {
				t.Fatal(err)
			}
			run(t, c, "ROLLBACK TO a")
			if _, err := c.Exec(t.Context(), sql); refused != (err != nil) || refused && code(err) != "0A000" {
				t.Errorf("%s, %s: %v", mode, sql, err)
			}
			if err := c.QueryRow(t.Context(), "INSERT INTO defined DEFAULT VALUES RETURNING at").Scan(&later); err == nil && !later.Equal(told) {
				t.Errorf("%s, behind %s: told %v, then %v", mode, sql, told, later)
			}
			run(t, c, "ROLLBACK")
		}
	}
}

// A time that was told under another TimeZone cannot be written where only that form of it is known: neither an INSERT,
// nor a string that has one, is run again at another time.
func TestTimeOfAnotherZone(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", timedTables+"CREATE TABLE stamped (id int, v text, made timestamp DEFAULT CURRENT_TIMESTAMP);")
	s := startSluice(t, pg, asDSQL, fastReplay, mapping, maxOpen(3))
	for _, sql := range []string{"INSERT INTO stamped (v) VALUES ('b')", "INSERT INTO stamped (v) VALUES ('b'); SELECT 1", "SELECT 1; INSERT INTO stamped (v) VALUES ('b')",
		"SELECT 1; INSERT INTO stamped (v) VALUES ('b') RETURNING id; SELECT 2"} {
		stumbles(t, pg, true)
		got := dialRaw(t, s.addr).say(t, "Q BEGIN\n< Z\nQ INSERT INTO stamped (v) VALUES ('a') RETURNING made\n< Z\nQ SET TimeZone = 'Asia/Tokyo'\n< Z\nQ "+sql+"\n< Z\nQ INSERT INTO late VALUES (1)\n< Z\nQ COMMIT\n< Z\n")
		if !strings.Contains(got, "C=40001") || !strings.Contains(got, "Replay refused: a statement would answer, or store, otherwise than before") {
			t.Errorf("%s: %s", sql, got)
		}
	}
}

// Nothing is asked where the client cannot return, nor where the answer has the time; and once where it hides that.
func TestTimeIsAskedOnce(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", timedTables)
	s := startSluice(t, pg, strictly, mapping, maxOpen(1))
	const asked = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%pg_catalog.now()'"
	for _, of := range []struct { // those that ask last: the backend holds the question from then on
		said string
		asks bool
	}{
		{"BEGIN; SELECT now()::date; SELECT now()::date", false},
		{"BEGIN; SAVEPOINT a; SELECT now(); INSERT INTO timed (v) VALUES ('x') RETURNING at; INSERT INTO timed (v) VALUES ('x') RETURNING id; SELECT 1", false},
		{"BEGIN; SAVEPOINT a; INSERT INTO timed (v) VALUES ('x'); SELECT count(*), max(v) FROM timed; UPDATE timed SET v = 'y'", false},
		{"BEGIN; SELECT now()::date; SAVEPOINT a; RELEASE a; SELECT now()::date", false},
		{"BEGIN; SAVEPOINT a; INSERT INTO timed (v) VALUES ('x') RETURNING v || 'y', at", false},
		{"BEGIN; SAVEPOINT a; SELECT now(), 1 FROM timed", true},
		{"BEGIN; SAVEPOINT a; INSERT INTO timed (v) VALUES ('x'); SELECT at FROM timed", true},
		{"BEGIN; SAVEPOINT a; INSERT INTO timed (v) VALUES ('x') RETURNING at::date", true},
		{"BEGIN; SELECT now()::date; SAVEPOINT a; SELECT 1", true},
		{"BEGIN; SAVEPOINT a; INSERT INTO timed (v) VALUES ('x') RETURNING made", true},
		{"BEGIN; INSERT INTO timed (v) VALUES ('x') ON CONFLICT DO NOTHING RETURNING at; SAVEPOINT a; SAVEPOINT b; SELECT 1", true},
	} {
		c := dialRaw(t, s.addr)
		script := ""
		for sql := range strings.SplitSeq(of.said, "; ") {
			script += "Q " + sql + "\n< Z\n"
		}
		c.say(t, script)
		got := c.say(t, "Q "+asked+"\n< Z\n")
		if asks := strings.Contains(got, `\x011`); asks != of.asks || !asks && !strings.Contains(got, `\x010`) {
			t.Errorf("%s: asked as often as this says:\n%s", of.said, got)
		}
		c.say(t, "Q ROLLBACK\n< Z\n")
	}
}

// The time that was asked for is forgotten where the server has begun the transaction anew without it.
func TestTimeIsAskedAgain(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", timedTables)
	s := startSluice(t, pg, strictly, mapping, maxOpen(4))
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
		c := connectTo(t, s, "postgres", mode)
		run(t, c, "BEGIN", "SAVEPOINT a", "SELECT CURRENT_DATE > '2000-01-01'")
		pg.SQL(t, "postgres", "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
		var told, later time.Time
		if err := c.QueryRow(t.Context(), "SELECT now() + '0 s'").Scan(&told); err != nil {
			t.Fatal(err)
		}
		run(t, c, "SAVEPOINT b")
		if _, err := c.Exec(t.Context(), "INSERT INTO once (v) VALUES ('twice'), ('twice')"); err == nil {
			t.Error("a key came twice")
		}
		run(t, c, "ROLLBACK TO b")
		if err := c.QueryRow(t.Context(), "SELECT now() + '0 s'").Scan(&later); err != nil || !later.Equal(told) {
			t.Errorf("%s: told %v, and later %v: %v", mode, told, later, err)
		}
		run(t, c, "COMMIT")
	}
}

// playTimed plays transactions, and returns how they ended.
func playTimed(t *testing.T, pg postgres, s *sluice, transactions int) map[string]int {
	r := rand.New(rand.NewPCG(1, 2))
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	counts := map[string]int{}
	for n := range transactions {
		pg.SQL(t, "postgres", "DELETE FROM timed; DELETE FROM other; DELETE FROM plain; DELETE FROM behind")
		stumbles(t, pg, r.IntN(3) == 0)
		c := connectTo(t, s, "postgres", modes[r.IntN(len(modes))])
		run(t, c, "SET TimeZone = 'UTC'")
		d := &timedDialogue{r: r, t: t, c: c, pg: pg, n: n, zone: "UTC"}
		d.play(counts)
		if t.Failed() {
			t.Fatalf("%s\n%s", c.Config().DefaultQueryExecMode, strings.Join(d.said, "\n"))
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	return counts
}

// timedDialogue is one transaction, and what it was told of its time.
type timedDialogue struct {
	r     *rand.Rand
	t     *testing.T
	c     *pgx.Conn
	pg    postgres
	n     int
	said  []string
	told  []string // the time, in microseconds
	zone  string   // that is set
	style bool     // another DateStyle is
}

// run runs one statement, and notes the times that it tells.
func (d *timedDialogue) run(sql string, args ...any) error {
	rows, err := d.c.Query(d.t.Context(), sql, args...)
	if err != nil {
		d.said = append(d.said, sql+": "+detailOf(err))
		return err
	}
	return d.note(sql, rows)
}

// runBatch runs statements in one pipeline.
func (d *timedDialogue) runBatch(all []string) (err error) {
	var batch pgx.Batch
	for _, sql := range all {
		batch.Queue(sql)
	}
	d.said = append(d.said, "in one pipeline: "+strings.Join(all, " / "))
	results := d.c.SendBatch(d.t.Context(), &batch)
	for _, sql := range all {
		rows, queryErr := results.Query()
		if queryErr == nil {
			queryErr = d.note(sql, rows)
		}
		err = cmp.Or(err, queryErr)
	}
	return cmp.Or(err, results.Close())
}

// note notes what a statement answers.
func (d *timedDialogue) note(sql string, rows pgx.Rows) error {
	_, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (int, error) {
		for i, f := range row.FieldDescriptions() {
			local := f.Name == "made"
			if f.Name != "micros" && !local && f.DataTypeOID != 1184 || f.TypeModifier >= 0 || f.Name == "date_trunc" || d.style {
				continue
			}
			values, err := row.Values()
			if err != nil {
				return 0, err
			}
			if f.Name == "micros" {
				d.told = append(d.told, fmt.Sprint(values[i]))
			}
			at, ok := values[i].(time.Time)
			if !ok { // NULL
				continue
			}
			if local && d.zone == "Asia/Tokyo" {
				at = at.Add(-9 * time.Hour)
			}
			if f.Name == "tomorrow" {
				at = at.Add(-24 * time.Hour)
			}
			d.told = append(d.told, fmt.Sprint(at.UnixMicro()))
		}
		return 0, nil
	})
	told := ""
	if err != nil {
		told = ": " + detailOf(err)
	}
	d.said = append(d.said, sql+told)
	return err
}

// some runs a few statements, sometimes in one pipeline, and returns the first error. What is set is
// noted.
func (d *timedDialogue) some(most int) error {
	var batch []string
	pipelined := d.r.IntN(4) == 0
	for i := range d.r.IntN(most + 1) {
		sql := timedTexts[d.r.IntN(len(timedTexts))]
		if strings.HasPrefix(sql, "SET") && (pipelined || strings.Contains(sql, "DateStyle") && d.r.IntN(4) > 0) {
			continue
		}
		if zone, ok := strings.CutPrefix(sql, "SET TimeZone = "); ok {
			d.zone = strings.Trim(zone, "'")
		}
		d.style = d.style || strings.HasPrefix(sql, "SET DateStyle")
		sql = strings.ReplaceAll(sql, "$v", fmt.Sprintf("'%d %d %d|%s'", d.n, len(d.said), i, d.zone))
		if pipelined {
			batch = append(batch, sql)
		} else if err := d.run(sql); err != nil {
			return err
		}
	}
	if len(batch) > 0 {
		return d.runBatch(batch)
	}
	return nil
}

func (d *timedDialogue) play(counts map[string]int) {
	t := d.t
	counts["played"]++
	ok := func(err error) bool {
		switch {
		case err == nil:
			return true
		case strings.Contains(detailOf(err), "its time"), strings.Contains(detailOf(err), "cannot read the clock"):
			counts["time"]++
		case slices.ContainsFunc(d.said, func(sql string) bool { return strings.Contains(sql, computedTime) }) && strings.Contains(detailOf(err), "savepoint"):
			counts["a computed text"]++ // it reads the clock, which cannot be given back
		case strings.Contains(detailOf(err), "generates anew"), strings.Contains(detailOf(err), "cannot return to savepoint"):
			counts["return refused"]++
		case strings.Contains(detailOf(err), "Replay refused"), strings.Contains(detailOf(err), "SQLSTATE 0800"):
			counts["replay refused"]++
		default:
			t.Error(detailOf(err))
		}
		return false
	}
	if !ok(d.run("BEGIN")) || !ok(d.some(3)) {
		return
	}
	for range 1 + d.r.IntN(2) {
		zone, style := d.zone, d.style
		if !ok(d.run("SAVEPOINT a")) || !ok(d.some(2)) {
			return
		}
		switch d.r.IntN(6) {
		case 0, 1:
		case 2: // a typing mistake, with more behind it
			if err := d.runBatch([]string{"SELEKT 1", "SELECT 1"}); err == nil {
				t.Error("a typing mistake was run")
			} else if !strings.Contains(detailOf(err), "42601") {
				ok(err)
				return
			}
		default: // the main use
			if err := d.run("INSERT INTO once (v) VALUES ('twice'), ('twice') RETURNING at"); err == nil {
				t.Error("a key came twice")
			} else if !strings.Contains(detailOf(err), "23505") {
				ok(err)
				return
			}
		}
		if !ok(d.run("ROLLBACK TO a")) {
			return
		}
		d.zone, d.style = zone, style
		counts["returned"]++
		if d.r.IntN(5) == 0 { // its connection is lost
			d.said = append(d.said, "the connections are cut")
			d.pg.SQL(t, "postgres", "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
			counts["cut"]++
		}
		if !ok(d.some(3)) {
			return
		}
	}
	if d.r.IntN(3) == 0 && !ok(d.run("INSERT INTO late VALUES (1)")) {
		return
	}
	switch n := d.r.IntN(6); {
	case n < 2:
		if !ok(d.endBehind("COMMIT")) {
			return
		}
		counts["behind"]++
	case n == 2:
		if ok(d.endBehind("ROLLBACK")) {
			counts["behind"]++
		}
		return
	default:
		if !ok(d.run("COMMIT")) {
			return
		}
	}
	counts["committed"]++
	// A row knows the zone that was set when it was inserted.
	stored := `SELECT at FROM timed UNION SELECT "At" FROM other UNION SELECT made AT TIME ZONE split_part(v, '|', 2) FROM timed WHERE made IS NOT NULL
		UNION SELECT utc AT TIME ZONE 'UTC' FROM other WHERE v IS NOT NULL
		UNION SELECT at FROM plain WHERE at IS NOT NULL UNION SELECT made AT TIME ZONE split_part(v, '|', 2) FROM plain WHERE made IS NOT NULL`
	rows, err := d.c.Query(t.Context(), "SELECT (extract(epoch FROM at) * 1000000)::bigint::text FROM ("+stored+") s", pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if all = append(all, d.told...); len(all) > 0 {
		if slices.Sort(all); all[0] != all[len(all)-1] {
			t.Errorf("times of one transaction: %v", slices.Compact(all))
		}
	}
}
