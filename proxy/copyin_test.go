package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/rewrite"
)

// withCopies has Sluice carry COPY out.
func withCopies(s *setup) { asDSQL(s); s.rules = rewrite.Rules{CopyIn: true} }

// copier is a client whose notices are counted.
func copier(t *testing.T, addr string) (*pgconn.PgConn, *int) {
	t.Helper()
	config, err := pgconn.ParseConfig("sslmode=disable user=postgres dbname=postgres")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(addr)
	fmt.Sscan(port, &config.Port)
	config.Host, config.Fallbacks = host, nil
	notices := new(int)
	config.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) { *notices++ }
	c, err := pgconn.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c, notices
}

// rowsOfCopy are lines of a number and a text.
func rowsOfCopy(n int, text string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d\t%s\n", i, text)
	}
	return b.String()
}

// In a READ ONLY transaction COPY is refused before its client is asked for data, behind a look at the table; in a
// block that has failed it is not looked at.
func TestCopyInReadOnlyBlocks(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE copied (a int)")
	s := startSluice(t, pg, withCopies)
	const copies, extended, missing = "Q COPY copied FROM STDIN\n< Z\n", "P - | COPY copied FROM STDIN\nB - | -\nE -\nS\n< Z\n", "Q COPY nosuch FROM STDIN\n< Z\n"
	for _, begin := range []string{"BEGIN READ ONLY", "START TRANSACTION READ ONLY", "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"} {
		for _, copy := range []string{copies, extended, missing} {
			script := "Q " + begin + "\n< Z\n" + copy + copy + "Q ROLLBACK\n< Z\nQ SELECT 1\n< Z\n"
			got, want := perform(t, s.addr, script), perform(t, pg.addr, script)
			if code := strings.Count(got, "C=25006"); strings.Contains(got, "\nG ") || copy != missing && code != 1 || got != want && copy != missing {
				t.Errorf("%s: %s", begin, firstDifference(got, want))
			}
		}
	}
}

// A batch that the server refuses for its rows or bytes is halved until it is taken.
func TestCopyIsHalved(t *testing.T) {
	t.Parallel()
	for _, message := range []string{"transaction row limit exceeded", "transaction size limit 10mb exceeded"} {
		pg := newPostgres(t)
		pg.SQL(t, "postgres", fmt.Sprintf(`CREATE TABLE many (id int PRIMARY KEY, v text);
			CREATE FUNCTION limits() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN
				IF (SELECT count(*) FROM made) > 800 THEN RAISE EXCEPTION '%s' USING ERRCODE = '54000'; END IF;
				RETURN NULL;
			END $$;
			CREATE TRIGGER limits AFTER INSERT ON many REFERENCING NEW TABLE AS made EXECUTE FUNCTION limits()`, message))
		s := startSluice(t, pg, withCopies, withReplay)
		c, notices := copier(t, s.addr)
		tag, err := c.CopyFrom(t.Context(), strings.NewReader(rowsOfCopy(3500, "x")), "COPY many FROM STDIN")
		if err != nil || tag.String() != "COPY 3500" || *notices != 1 {
			t.Errorf("%s: %q, %v, %d notices", message, tag, err, *notices)
		}
		if n := pg.SQL(t, "postgres", "SELECT count(*) FROM many"); n != "3500" {
			t.Errorf("%s: %s rows", message, n)
		}
	}
}

// Data come in frames of any size, and what is held of them is bounded: rows are inserted while a
// frame comes.
func TestCopyFrames(t *testing.T) {
	// Not beside other tests: the heap is the process's.
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE many (id int, v text)")
	s := startSluice(t, pg, withCopies, withReplay)
	c, _ := copier(t, s.addr)
	conn, err := c.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Conn.Close()
	f := pgproto3.NewFrontend(conn.Conn, conn.Conn)
	until := func(want string) (tag string) {
		if err := f.Flush(); err != nil {
			t.Fatal(err)
		}
		conn.Conn.SetReadDeadline(time.Now().Add(time.Minute))
		for {
			m, err := f.Receive()
			if err != nil {
				t.Fatal(err)
			}
			switch m := m.(type) {
			case *pgproto3.CommandComplete:
				tag = string(m.CommandTag)
			case *pgproto3.ErrorResponse:
				tag = m.Code
			}
			if fmt.Sprintf("%T", m) == want {
				return tag
			}
		}
	}
	data := []byte(rowsOfCopy(6100, strings.Repeat("x", 5000)))
	var before, after runtime.MemStats
	for name, size := range map[string]int{"one frame": len(data), "of 100 bytes": 100, "of 64 KiB": 64 << 10} {
		data := data
		if size == 100 {
			data = data[:len(data)/20]
			data = data[:strings.LastIndex(string(data), "\n")+1]
		}
		runtime.GC()
		runtime.ReadMemStats(&before)
		f.Send(&pgproto3.Query{String: "COPY many FROM STDIN"})
		until("*pgproto3.CopyInResponse")
		for rest := data; len(rest) > 0; {
			n := min(size, len(rest))
			f.Send(&pgproto3.CopyData{Data: rest[:n]})
			rest = rest[n:]
		}
		f.Send(&pgproto3.CopyDone{})
		if tag, want := until("*pgproto3.ReadyForQuery"), fmt.Sprintf("COPY %d", strings.Count(string(data), "\n")); tag != want {
			t.Errorf("%s: %s, want %s", name, tag, want)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 10<<20 { // a third of the data: none of them may be held
			t.Errorf("%s: %d bytes are held behind it", name, grown)
		}
	}
}

// A row that is longer than what is read of a text is refused, and the rest of the data dropped.
func TestCopyOfLongRow(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE many (id int, v text)")
	s := startSluice(t, pg, withCopies, withReplay, configure(func(c *proxy.Config) { c.MaxStatementBytes = 64 << 10 }))
	c, _ := copier(t, s.addr)
	for size, want := range map[int]string{60 << 10: "", 64 << 10: "54000", 5 << 20: "54000"} {
		_, err := c.CopyFrom(t.Context(), strings.NewReader(rowsOfCopy(2, strings.Repeat("x", size))), "COPY many FROM STDIN")
		var e *pgconn.PgError
		if got := ""; errors.As(err, &e) {
			if got = e.Code; got != want || !strings.Contains(e.Where, "COPY many, line 1") {
				t.Errorf("a row of %d bytes: %v, %s", size, err, e.Where)
			}
		} else if want != "" || err != nil {
			t.Errorf("a row of %d bytes: %v", size, err)
		}
	}
	if n := pg.SQL(t, "postgres", "SELECT count(*) FROM many"); n != "2" {
		t.Errorf("%s rows", n)
	}
}

// What the session was told before is in force for the data, and what it is told behind them is
// not mixed up: settings, a read-only block, a comment that turns replay off.
func TestCopyAmongOthers(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE days (d date); CREATE SCHEMA other; CREATE TABLE other.days (d date)")
	for name, opts := range map[string][]option{"": {withCopies}, "replay": {withCopies, withReplay}, "session": {withCopies, sessionPairing}} {
		pg.SQL(t, "postgres", "TRUNCATE days, other.days")
		s := startSluice(t, pg, opts...)
		c, _ := copier(t, s.addr)
		run := func(sql string) {
			if _, err := c.Exec(t.Context(), sql).ReadAll(); err != nil {
				t.Errorf("%s: %s: %v", name, sql, err)
			}
		}
		load := func(data, want string) {
			_, err := c.CopyFrom(t.Context(), strings.NewReader(data), "/* sluice: no-retry */ COPY days FROM STDIN")
			var e *pgconn.PgError
			if code := ""; errors.As(err, &e) && e.Code != want || err == nil && want != code {
				t.Errorf("%s: %q: %v, want %q", name, data, err, want)
			}
		}
		run("SET DateStyle = 'German, DMY'")
		load("02.03.2026\n", "")
		run("SET search_path = other")
		load("03.03.2026\n", "")
		for _, begin := range []string{"BEGIN READ ONLY", "BEGIN; SET TRANSACTION READ ONLY"} {
			run(begin)
			load("04.03.2026\n", "25006")
			load("", "25P02")
			run("ROLLBACK")
		}
		run("BEGIN")
		run("SET LOCAL search_path = public")
		load("05.03.2026\n", "")
		run("COMMIT")
		load("06.03.2026\n", "")
		if got := pg.SQL(t, "postgres", "SELECT string_agg(d::text, ' ' ORDER BY d) FROM days UNION ALL SELECT string_agg(d::text, ' ' ORDER BY d) FROM other.days"); got != "2026-03-02 2026-03-05\n2026-03-03 2026-03-06" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Without its row in the table of handlers a COPY is the server's, in each protocol and among others.
func TestCopyWithoutItsHandler(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE many (id int, v text)")
	s := startSluice(t, pg, withCopies, withReplay, func(s *setup) { s.without = "copyin" })
	c, notices := copier(t, s.addr)
	tag, err := c.CopyFrom(t.Context(), strings.NewReader(rowsOfCopy(3500, "x")), "COPY many FROM STDIN")
	if err != nil || tag.String() != "COPY 3500" || *notices != 0 || s.count(t, "dsql_copy_batches_total", "") != 0 {
		t.Errorf("%q, %v, %d notices", tag, err, *notices)
	}
	for _, script := range []string{
		"Q SELECT count(*) FROM many\n< Z\n",
		"Q COPY nosuch FROM STDIN\n< Z\nQ SELECT 1\n< Z\n",
		"P - | COPY nosuch FROM STDIN\nB - | -\nE -\nS\n< Z\nQ SELECT 1\n< Z\n",
	} {
		if got, want := perform(t, s.addr, script), perform(t, pg.addr, script); got != want {
			t.Errorf("%s: %s", script, firstDifference(got, want))
		}
	}
}
