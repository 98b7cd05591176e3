package proxy_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/rewrite"
)

const deleteMany = "DELETE FROM many WHERE k > 0"

// isTrue holds the number in the DETAIL of an error against the table, which began with
// 14,100 rows.
func isTrue(t *testing.T, pg postgres, what string, told pgproto3.ErrorResponse) {
	t.Helper()
	gone := 14100 - number(t, left(t, pg, "true"))
	if want := fmt.Sprintf("%d rows are deleted, and stay so.", gone); told.Detail != want {
		t.Errorf("%s: %s %q, and %d rows are gone", what, told.Code, told.Detail, gone)
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A statement timeout ends the batches behind the one that it comes in, also where the client
// sent its statement by the extended protocol, and where its session is pinned: the number is
// true, and the session goes on.
func TestTimeoutOfBatches(t *testing.T) {
	t.Parallel()
	for name, frames := range map[string][]pgproto3.FrontendMessage{
		"simple":   {&pgproto3.Query{String: deleteMany}},
		"extended": {&pgproto3.Parse{Query: deleteMany}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{}},
	} {
		for _, pinned := range []bool{false, true} {
			pg := limited(t, 3000, "IF calls > 1 THEN PERFORM pg_sleep(1); END IF;")
			s := startSluice(t, pg, inBatches, withReplay)
			f := framesOf(t, s)
			if pinned {
				f.ask(t, 1, &pgproto3.Query{String: "SELECT set_config('a.b', 'c', false)"})
			}
			f.ask(t, 1, &pgproto3.Query{String: "SET statement_timeout = '2500ms'"})
			f.send(t, frames...)
			what := fmt.Sprintf("%s, pinned %v", name, pinned)
			told := f.failure(t)
			f.ready(t)
			if told.Code != "57014" || !strings.Contains(told.Message, "statement timeout") {
				t.Errorf("%s: %+v", what, told)
			}
			isTrue(t, pg, what, told)
			if n := left(t, pg, "true"); n == "14100" || n == "0" {
				t.Errorf("%s: %s rows are left: the timeout did not come between batches", what, n)
			}
			f.ask(t, 1, &pgproto3.Query{String: "SET statement_timeout = 0"})
			if got := f.ask(t, 1, &pgproto3.Query{String: "DELETE FROM many WHERE k = 14100"}); got != "DELETE 1 I" {
				t.Errorf("%s: %s", what, got)
			}
			if pinned {
				if got := f.ask(t, 1, &pgproto3.Query{String: "SELECT current_setting('a.b')"}); !strings.Contains(got, "SELECT 1") {
					t.Errorf("%s: %s", what, got)
				}
			}
		}
	}
}

// A cancel or a timeout that comes while the statement still runs as it was sent, and cannot
// be stopped, ends it in front of the first batch: nothing is deleted.
func TestStopInFrontOfBatches(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"cancel", "timeout"} {
		pg := limited(t, 3000, "IF calls = 0 THEN PERFORM pg_sleep(4); END IF;")
		s := startSluice(t, pg, inBatches, withReplay, configure(func(c *proxy.Config) { c.CancelGrace = 100 * time.Millisecond }))
		f := framesOf(t, s)
		if how == "timeout" {
			f.ask(t, 1, &pgproto3.Query{String: "SET statement_timeout = '300ms'"})
		}
		f.send(t, &pgproto3.Query{String: deleteMany})
		if how == "cancel" {
			awaitSleep(t, pg)
			f.cancel(t, s)
		}
		if told := f.failure(t); told.Code != "57014" || told.Detail != "" {
			t.Errorf("%s: %+v", how, told)
		}
		f.ready(t)
		if n := left(t, pg, "true"); n != "14100" {
			t.Errorf("%s: %s rows are left", how, n)
		}
		f.ask(t, 1, &pgproto3.Query{String: "SET statement_timeout = 0"})
		if got := f.ask(t, 1, &pgproto3.Query{String: deleteMany}); got != "DELETE 14100 I" {
			t.Errorf("%s: %s", how, got)
		}
	}
}

// A drain waits for the batches; where it runs out, the client is told of how many rows
// Sluice knows, and that there may be more.
func TestDrainOfBatches(t *testing.T) {
	t.Parallel()
	for name, patience := range map[string]time.Duration{"in time": time.Minute, "too late": 300 * time.Millisecond} {
		pg := limited(t, 3000, "IF calls = 2 THEN PERFORM pg_sleep(1); END IF;")
		s := startSluice(t, pg, inBatches, withReplay)
		f := framesOf(t, s)
		f.send(t, &pgproto3.Query{String: deleteMany})
		awaitSleep(t, pg)
		ctx, stop := context.WithTimeout(t.Context(), patience)
		drained := make(chan error, 1)
		go func() { drained <- s.Shutdown(ctx) }()
		var tag string
		var failed *pgproto3.ErrorResponse
		for {
			m, err := f.Receive()
			if err != nil {
				break
			}
			switch m := m.(type) {
			case *pgproto3.CommandComplete:
				tag = string(m.CommandTag)
			case *pgproto3.ErrorResponse:
				if failed == nil {
					e := *m
					failed = &e
				}
			}
		}
		err := <-drained
		stop()
		gone := 14100 - number(t, left(t, pg, "true"))
		switch {
		case name == "in time" && (tag != "DELETE 14100" || gone != 14100 || err != nil):
			t.Errorf("%s: %q, %+v, and %d rows are gone (%v)", name, tag, failed, gone, err)
		case name == "too late" && (tag != "" || err == nil || failed == nil || failed.Code != "08007" || failed.Detail != "2900 rows are deleted, and stay so."):
			t.Errorf("%s: %q, %+v, and %d rows are gone (%v)", name, tag, failed, gone, err)
		}
	}
}

// A backend that is lost in a later batch: the number is that of the batches that were
// answered, and says that the outcome of one more is unknown. A pinned session ends with it.
func TestBackendOfLaterBatchLost(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for _, pinned := range []bool{false, true} {
			pg := limited(t, 3000, "IF calls = 2 THEN PERFORM pg_sleep(0.5); END IF;")
			cut := &cutter{}
			s := startSluice(t, pg, inBatches, withReplay, cut.option)
			f := framesOf(t, s)
			if pinned {
				f.ask(t, 1, &pgproto3.Query{String: "SELECT set_config('a.b', 'c', false)"})
			}
			f.send(t, &pgproto3.Query{String: deleteMany})
			awaitSleep(t, pg) // the second batch
			cut.arm("LIMIT 2900", after)
			told := f.failure(t)
			gone := 14100 - number(t, left(t, pg, "true"))
			want := 5800
			if after {
				want = 8700 // the third was done all the same
			}
			what := fmt.Sprintf("after %v, pinned %v", after, pinned)
			if told.Code != "08007" && !pinned || told.Detail != "5800 rows are deleted, and stay so." || gone != want {
				t.Errorf("%s: %+v, and %d rows are gone", what, told, gone)
			}
			if !pinned {
				f.ready(t)
				if got := f.ask(t, 1, &pgproto3.Query{String: deleteMany}); got != fmt.Sprintf("DELETE %d I", 14100-want) {
					t.Errorf("%s: %s", what, got)
				}
			}
		}
	}
}

// manyKeys are tables with keys of many types and names, each with 3,500 rows of which half
// match, and the DELETE of these with its value.
var manyKeys = []struct{ columns, key, from, insert, where, text string }{
	{"k smallint", "k", `"many1"`, "i", "k > $1", "1750"},
	{"k bigint, v int", "k", "many2", "i, i", "v > $1", "1750"},
	{"k text", "k", "public.many3", "lpad(i::text, 5, '0')", "k > $1", "01750"},
	{"k varchar(9)", "k", `public . "many4"`, "lpad(i::text, 5, '0')", "many4.k > $1", "01750"},
	{"k char(8)", "k", "MANY5", "lpad(i::text, 5, '0')", "k > $1", "01750"},
	{"k uuid", "k", "many6", "lpad(to_hex(i), 32, '0')::uuid", "k > $1", "00000000-0000-0000-0000-0000000006d6"},
	{"k numeric", "k", "many7", "i + 0.5", "k > $1", "1751"},
	{"k double precision", "k", "many8", "i / 3.0", "k > $1", "583.5"},
	{"k real", "k", "many9", "i / 3.0", "k > $1", "583.5"},
	{"k date", "k", "many10", "'2000-01-01'::date + i", "k > $1", "2004-10-16"},
	{"k timestamptz", "k", "many11", "to_timestamp(i)", "k > $1", "1970-01-01 00:29:10+00"},
	{"k timestamp", "k", "many12", "to_timestamp(i) AT TIME ZONE 'UTC'", "k > $1", "1970-01-01 00:29:10"},
	{"k time", "k", "many13", "'00:00'::time + i * interval '1 s'", "k > $1", "00:29:10"},
	{"k interval", "k", "many14", "i * interval '1 s'", "k > $1", "29 minutes 10 seconds"},
	{"k bool, n int", "k, n", "many15", "i > 1750, i", "k = $1", "true"},
	{"k bytea", "k", "many16", "decode(lpad(to_hex(i), 8, '0'), 'hex')", "k > $1", `\x000006d6`},
	{"a int, b text, \"C d\" date, d int", "b, \"C d\", a", "many17", "i % 7, i::text, '2000-01-01'::date + i, i", "d > $1 AND \"C d\" <> '1999-01-01' AND a IN (0, 1, 2, 3, 4, 5, 6)", "1750"},
	{`"k""q" int, "select" int`, `"select", "k""q"`, `"many 18"`, "i, i % 2", `"k""q" BETWEEN $1 AND 9999`, "1751"},
}

// Batches go by keys of any type and any number of columns, whatever the table and its columns
// are called, and the values may come in any form.
func TestBatchesByAnyKey(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", `CREATE FUNCTION limits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF (SELECT count(*) FROM gone) > 1000 THEN RAISE EXCEPTION 'transaction row limit exceeded' USING ERRCODE = '54000'; END IF; RETURN NULL; END $$`)
	s := startSluice(t, pg, inBatches, withReplay)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement} {
		c := connectTo(t, s, "postgres", mode)
		for _, k := range manyKeys {
			pg.SQL(t, "postgres", fmt.Sprintf(`DROP TABLE IF EXISTS %[1]s; CREATE TABLE %[1]s (%[2]s, PRIMARY KEY (%[3]s));
				INSERT INTO %[1]s SELECT %[4]s FROM generate_series(1, 3500) i;
				CREATE TRIGGER limits AFTER DELETE ON %[1]s REFERENCING OLD TABLE AS gone EXECUTE FUNCTION limits()`, k.from, k.columns, k.key, k.insert))
			var args []any
			where := k.where
			if mode == pgx.QueryExecModeCacheStatement {
				args = []any{k.text} // pgx makes it binary, where it can
			} else {
				where = strings.Replace(where, "$1", "'"+k.text+"'", 1)
			}
			if mode == pgx.QueryExecModeCacheStatement {
				sql, f := fmt.Sprintf("DELETE FROM %s WHERE %s", k.from, where), framesOf(t, s)
				got := f.ask(t, 1, &pgproto3.Parse{Query: sql}, &pgproto3.Bind{Parameters: [][]byte{[]byte(k.text)}}, &pgproto3.Execute{}, &pgproto3.Sync{})
				if got != "ParseComplete BindComplete DELETE 1750 I" {
					t.Errorf("%s: %s", sql, got)
				}
				f.conn.Close()
			} else if tag, err := c.Exec(t.Context(), fmt.Sprintf("DELETE FROM %s WHERE %s", k.from, where), args...); err != nil || tag.String() != "DELETE 1750" {
				t.Errorf("%s, %s: %q (%v)", mode, k.from, tag, err)
			}
			rest := strings.Replace(k.where, "$1", "'"+k.text+"'", 1)
			if got := pg.SQL(t, "postgres", fmt.Sprintf("SELECT count(*) || ' ' || count(*) FILTER (WHERE %s) FROM %s", rest, k.from)); got != "1750 0" {
				t.Errorf("%s, %s: left, and of these matching: %s", mode, k.from, got)
			}
		}
	}
}

// A table whose name a text gives in another way than its own is none for batches.
func TestTablesNotForBatches(t *testing.T) {
	t.Parallel()
	pg := limited(t, 3000, "")
	pg.SQL(t, "postgres", `CREATE TABLE many_parts (k int, PRIMARY KEY (k)) PARTITION BY RANGE (k); CREATE TABLE many_part1 PARTITION OF many_parts FOR VALUES FROM (0) TO (20000);
		INSERT INTO many_parts SELECT generate_series(1, 3500); CREATE VIEW many_seen AS SELECT * FROM many;
		CREATE TRIGGER limits AFTER DELETE ON many_part1 REFERENCING OLD TABLE AS gone EXECUTE FUNCTION limits();
		CREATE TRIGGER limits AFTER DELETE ON many_parts REFERENCING OLD TABLE AS gone EXECUTE FUNCTION limits()`)
	s := startSluice(t, pg, inBatches, withReplay)
	c := connectTo(t, s, "postgres", pgx.QueryExecModeSimpleProtocol)
	for sql, hint := range map[string]string{
		"DELETE FROM ONLY many WHERE k > 0":             rewrite.ChunkedOtherHint,
		"DELETE FROM many AS m WHERE m.k > 0":           rewrite.ChunkedOtherHint,
		"DELETE FROM many WHERE k > 0 OR k < 0":         rewrite.ChunkedOtherHint,
		"DELETE FROM many WHERE k > length('')":         rewrite.ChunkedOtherHint,
		"DELETE FROM many USING other WHERE many.k > 0": "",
		"DELETE FROM many_seen WHERE k > 0":             "has no primary key",
	} {
		_, err := c.Exec(t.Context(), sql)
		if hint == "" {
			if err == nil {
				t.Error(sql)
			}
			continue
		}
		failsAs(t, sql, err, "54000", "transaction row limit exceeded", hint)
	}
	if tag, err := c.Exec(t.Context(), "DELETE FROM many_parts WHERE k > 100"); err != nil || tag.String() != "DELETE 3400" {
		t.Errorf("by the parent: %q (%v)", tag, err)
	}
	pg.SQL(t, "postgres", "INSERT INTO many_parts SELECT generate_series(101, 3500)")
	if tag, err := c.Exec(t.Context(), "DELETE FROM many_part1 WHERE k > 100"); err != nil || tag.String() != "DELETE 3400" {
		t.Errorf("by the part: %q (%v)", tag, err)
	}
	if n := left(t, pg, "true"); n != "14100" {
		t.Errorf("%s rows are left", n)
	}
}
