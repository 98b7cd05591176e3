package proxy_test

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/rewrite"
)

// What a client can have Sluice remember: every message and every statement that takes a text, with 1 MB
// in it, again and again. Whatever becomes of them, the process has at most mostOfClient more than before,
// and what it had before once the client has left.

const (
	mostOfClient = 32 << 20
	mostLeft     = 4 << 20
	// longName is the length of names in a Bind: Sluice refuses what does not fit its buffer of 32 KiB.
	longName = 30 << 10
)

var (
	rememberedRounds = flag.Int("remembered.rounds", 0, "how many rounds TestRemembered plays of each way; 0: what the sampling of cases says")
	rememberedOneIn  = flag.Int("remembered.one_in", 1, "with -remembered.rounds: of so many ways it plays one")
	rememberedFrom   = flag.Int("remembered.from", 0, "with -remembered.rounds: the first way, of those of -remembered.one_in")
	rememberedBytes  = flag.Int("remembered.bytes", 1<<20, "how long the texts of TestRemembered are")
)

// remembered is one way: messages of round i, with text in a field of theirs. The texts of two rounds differ.
type remembered struct {
	name  string
	open  []pgproto3.FrontendMessage
	each  func(i int, text string) []pgproto3.FrontendMessage
	piped bool // nothing of it ends a turn
}

func query(sql string) []pgproto3.FrontendMessage {
	return []pgproto3.FrontendMessage{&pgproto3.Query{String: sql}}
}

// eachRound makes a round of simple Queries, each with the text for %s, and the round for %d.
func eachRound(forms ...string) func(int, string) []pgproto3.FrontendMessage {
	return func(i int, text string) (all []pgproto3.FrontendMessage) {
		for _, form := range forms {
			all = append(all, query(strings.NewReplacer("%s", text, "%d", fmt.Sprint(i)).Replace(form))...)
		}
		return all
	}
}

// prepared is a round of the extended protocol: a statement, bound and executed.
func prepared(form string, then ...pgproto3.FrontendMessage) func(int, string) []pgproto3.FrontendMessage {
	return func(i int, text string) []pgproto3.FrontendMessage {
		sql := strings.NewReplacer("%s", text, "%d", fmt.Sprint(i)).Replace(form)
		return append([]pgproto3.FrontendMessage{&pgproto3.Parse{Query: sql}, &pgproto3.Bind{}, &pgproto3.Execute{}}, then...)
	}
}

// rememberedWays are all ways.
func rememberedWays() (all []remembered) {
	sync := &pgproto3.Sync{}
	begin := query("BEGIN; SELECT 1")
	add := func(w ...remembered) { all = append(all, w...) }
	// Settings: of the session, of a block, behind savepoints, by every protocol.
	for _, form := range []string{"SET search_path = '%s'", "SET search_path = %d, '%s', a%d", "SET application_name = '%s'", "SET app.name_%d = '%s'", "SET app.name = '%s'",
		"SET LOCAL search_path = '%s'", "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE /*%s*/", "SET role = '%s'", "SET TimeZone = '%s'", "SET DateStyle = '%s'",
		"SET client_encoding = '%s'", "SET statement_timeout = '%s'", "SET lock_timeout = '%s'", "SET sluice.retry = '%s'", "SET xmloption = '%s'",
		"SELECT set_config('search_path', '%s', false)", "SELECT set_config('app.name_%d', '%s', false)", "SELECT set_config('%s', 'x', false)", "SHOW \"%s\"", "RESET \"%s\"",
		"SELECT current_setting('%s')"} {
		add(remembered{name: form, each: eachRound(form)},
			remembered{name: form + ", in blocks", each: eachRound("BEGIN", form, "SAVEPOINT a", form, "COMMIT")},
			remembered{name: form + ", in one block", open: begin, each: eachRound("SAVEPOINT s%d", form)},
			remembered{name: form + ", extended", each: prepared(form, sync)})
	}
	// Other statements.
	for _, form := range []string{"SELECT '%s'", "SELECT 1 AS \"%s\"", "SELECT /*%s*/ 1", "-- %s", "SELECT 1 FROM \"%s\"", "INSERT INTO remembers VALUES (%d, '%s')",
		"INSERT INTO remembers VALUES (%d, '%s') RETURNING *", "INSERT INTO remembers SELECT %d, '%s' RETURNING now(), b", "UPDATE remembers SET b = '%s' WHERE a = %d", "DELETE FROM remembers WHERE b = '%s'",
		"MERGE INTO remembers r USING (SELECT 1 AS x) s ON r.b = '%s' WHEN MATCHED THEN DELETE", "SELECT * FROM remembers WHERE b = '%s' FOR UPDATE", "TRUNCATE \"%s\"",
		"PREPARE \"p%d%s\" AS SELECT 1", "PREPARE p%d AS SELECT '%s'", "EXECUTE \"%s\"", "DEALLOCATE \"%s\"", "LISTEN \"%s\"", "NOTIFY x, '%s'", "NOTIFY \"%s\"", "UNLISTEN \"%s\"",
		"DO $$ BEGIN PERFORM '%s'; END $$", "CALL nosuch('%s')", "EXPLAIN SELECT '%s'", "CREATE TABLE r%d (a text DEFAULT '%s')", "CREATE VIEW v%d AS SELECT '%s'::text AS a", "COMMENT ON TABLE remembers IS '%s'",
		"ALTER TABLE remembers ALTER b SET DEFAULT '%s'", "CREATE INDEX ON remembers ((b || '%s'))", "DROP TABLE IF EXISTS \"%s\"", "CREATE TYPE e%d AS ENUM ('%s')", "LOCK TABLE \"%s\"",
		"SELECT pg_advisory_lock(%d, length('%s'))", "SELECT currval('%s')", "SELECT nextval('%s')", "SELECT setseed(0) /*%s*/", "SECURITY LABEL ON TABLE remembers IS '%s'", "COPY remembers FROM STDIN (DELIMITER '%s')",
		"DECLARE c%d CURSOR WITH HOLD FOR SELECT '%s'", "COPY (SELECT '%s') TO STDOUT", "VACUUM \"%s\"", "SELECT repeat('%s', 2)", "ROLLBACK /*%s*/", "BEGIN /*%s*/; COMMIT", "SELECT 1; SELECT '%s'; SELECT 2", "PREPARE TRANSACTION '%s'", "nothing that anybody reads '%s'"} {
		add(remembered{name: form, each: eachRound(form)},
			remembered{name: form + ", in one block", open: begin, each: eachRound("SAVEPOINT s%d", form)},
			remembered{name: form + ", in blocks", each: eachRound("BEGIN", form, "COMMIT")},
			remembered{name: form + ", extended", each: prepared(form, sync)},
			remembered{name: form + ", extended, in one block", open: begin, each: prepared(form, sync)},
			remembered{name: form + ", in one group", each: prepared(form), piped: true})
	}
	many := strings.Repeat("SHOW a; ", 2000)
	add(remembered{name: "many statements", each: eachRound("SELECT %d; " + many)},
		remembered{name: "many statements, in one block", open: begin, each: eachRound("SAVEPOINT s", "SELECT %d; "+many, "ROLLBACK TO s")},
		remembered{name: "many reads, in one block", open: begin, each: eachRound("SELECT %d; " + strings.Repeat("SELECT 1; ", 2000))})
	add(remembered{name: "many answers of Sluice, in one block", open: begin, each: eachRound("SELECT %d; " + strings.Repeat("SHOW application_name; ", 2000))},
		remembered{name: "many settings, in one block", open: begin, each: eachRound(strings.Repeat("SET LOCAL app.name_%d = 'x'; ", 2000))})
	add(cursorWays(sync, begin)...)
	add(messageWays(sync, begin)...)
	add(copyWays()...)
	return all
}

// cursorWays are those of cursors and portals.
func cursorWays(sync *pgproto3.Sync, begin []pgproto3.FrontendMessage) []remembered {
	table := append(query("BEGIN"), query("SELECT 1")...)
	return []remembered{
		{name: "cursors", open: begin, each: eachRound("DECLARE c%d CURSOR FOR SELECT '%s'")},
		{name: "cursors, read", open: begin, each: eachRound("DECLARE c%d CURSOR FOR SELECT '%s'", "FETCH 1 FROM c%d", "MOVE 1 FROM c%d")},
		{name: "cursors that come and go", open: begin, each: eachRound("DECLARE c%d CURSOR FOR SELECT '%s'", "CLOSE c%d")},
		{name: "FETCH", open: begin, each: eachRound("FETCH 1 FROM \"%s\"", "ROLLBACK", "BEGIN")},
		{name: "CLOSE", open: begin, each: eachRound("CLOSE \"%s\"", "ROLLBACK", "BEGIN")},
		{name: "values of DECLARE", open: begin, each: func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.Parse{Query: fmt.Sprintf("DECLARE v%d CURSOR FOR SELECT $1::text", i)},
				&pgproto3.Bind{Parameters: [][]byte{[]byte(text)}}, &pgproto3.Execute{}, sync}
		}},
		{name: "portals of DECLARE", open: begin, each: func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.Parse{Query: fmt.Sprintf("DECLARE v%d CURSOR FOR SELECT $1::text", i)},
				&pgproto3.Bind{DestinationPortal: fmt.Sprint("p", i), Parameters: [][]byte{[]byte(text)}}, sync}
		}},
		{name: "formats of FETCH", open: append(table, query("DECLARE c CURSOR FOR SELECT 1")...), each: func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.Parse{Query: "FETCH 1 FROM c"},
				&pgproto3.Bind{DestinationPortal: fmt.Sprint("p", i), ResultFormatCodes: make([]int16, 60_000)}, sync}
		}},
		{name: "rows WITH HOLD", each: eachRound("DECLARE c%d CURSOR WITH HOLD FOR SELECT repeat('x', 1000000) /*%s*/")},
	}
}

// messageWays are those of the fields of messages.
func messageWays(sync *pgproto3.Sync, begin []pgproto3.FrontendMessage) []remembered {
	ping := &pgproto3.Parse{Query: "SELECT 1"}
	one := func(f func(i int, text string) []pgproto3.FrontendMessage) func(int, string) []pgproto3.FrontendMessage {
		return f
	}
	ways := []remembered{
		{name: "names of statements", each: one(func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.Parse{Name: text, Query: "SELECT 1"}}
		})},
		{name: "texts of statements", each: one(func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.Parse{Name: fmt.Sprint(i), Query: "SELECT '" + text + "'"}}
		})},
		{name: "the unnamed statement", each: one(func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.Parse{Query: "SELECT '" + text + "'"}}
		})},
		{name: "descriptions", each: one(func(i int, text string) []pgproto3.FrontendMessage {
			name := fmt.Sprint(i)
			return []pgproto3.FrontendMessage{&pgproto3.Parse{Name: name, Query: "SELECT " + strings.Repeat("1 AS "+strings.Repeat("c", 60)+",", 1600) + name}, &pgproto3.Describe{ObjectType: 'S', Name: name}}
		})},
		{name: "types of parameters", each: one(func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.Parse{Name: fmt.Sprint(i), Query: "SELECT 1", ParameterOIDs: make([]uint32, 60_000)}}
		})},
		{name: "names of portals", each: one(func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{ping, &pgproto3.Bind{DestinationPortal: text[:min(longName, len(text))]}}
		})},
		{name: "names of portals of Sluice's own", each: one(func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.Parse{Query: "SHOW statement_timeout"}, &pgproto3.Bind{DestinationPortal: text[:min(longName, len(text))]}}
		})},
		{name: "names that Bind lacks", each: one(func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.Bind{PreparedStatement: text[:min(longName, len(text))]}}
		})},
		{name: "values", each: one(func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.Parse{Query: "SELECT $1::text"}, &pgproto3.Bind{DestinationPortal: fmt.Sprint(i), Parameters: [][]byte{[]byte(text)}}, &pgproto3.Execute{Portal: fmt.Sprint(i)}}
		})},
		{name: "values of DELETEs in batches", each: one(func(i int, text string) (all []pgproto3.FrontendMessage) {
			all = append(all, &pgproto3.Parse{Query: "DELETE FROM remembers WHERE b = $1"})
			for n := range 20 {
				all = append(all, &pgproto3.Bind{DestinationPortal: fmt.Sprint(i, "-", n), Parameters: [][]byte{[]byte(text[:min(60<<10, len(text))])}})
			}
			return all
		})},
		{name: "values that are returned", each: one(func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.Parse{Query: "INSERT INTO remembers VALUES (1, $1) RETURNING b"}, &pgproto3.Bind{Parameters: [][]byte{[]byte(text)}}, &pgproto3.Execute{}}
		})},
		{name: "formats", each: one(func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{ping, &pgproto3.Bind{DestinationPortal: fmt.Sprint(i), ResultFormatCodes: make([]int16, 60_000)}}
		})},
		{name: "Describe of names", each: one(func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.Describe{ObjectType: "SP"[i%2], Name: text}}
		})},
		{name: "Execute of names", each: one(func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.Execute{Portal: text}}
		})},
		{name: "Close of names", each: one(func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.Close{ObjectType: "SP"[i%2], Name: text}}
		})},
		{name: "Close behind DDL", each: one(func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.Parse{Query: "ALTER TABLE remembers ADD CONSTRAINT x CHECK (a > 0)"}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Close{ObjectType: 'S', Name: text}, &pgproto3.Close{ObjectType: 'S', Name: text + "x"}}
		})},
		{name: "arguments of functions", each: one(func(i int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.FunctionCall{Function: 1257, Arguments: [][]byte{[]byte(text)}}, ping}
		})},
		{name: "small frames", each: one(func(i int, text string) (all []pgproto3.FrontendMessage) {
			for range 20_000 {
				all = append(all, &pgproto3.Close{ObjectType: 'P'})
			}
			return all
		})},
		{name: "small binds", each: one(func(i int, text string) (all []pgproto3.FrontendMessage) {
			all = append(all, &pgproto3.Parse{Query: "SELECT 1"})
			for range 10_000 {
				all = append(all, &pgproto3.Bind{})
			}
			return all
		})},
		{name: "small names", each: one(func(i int, text string) (all []pgproto3.FrontendMessage) {
			for n := range 5_000 {
				all = append(all, &pgproto3.Parse{Name: fmt.Sprint(i, "-", n), Query: "BEGIN"})
			}
			return all
		})},
		{name: "savepoints", each: eachRound("BEGIN", strings.Repeat("SAVEPOINT a; ", 1000))},
	}
	for _, w := range ways { // by turn, in one block, without an end
		if !strings.Contains(w.name, "savepoints") {
			each := w.each
			w.each = func(i int, text string) []pgproto3.FrontendMessage { return append(each(i, text), sync) }
			ways = append(ways, remembered{name: w.name + ", in one block", open: begin, each: w.each}, remembered{name: w.name + ", piped", each: each, piped: true})
		}
	}
	for i := range ways {
		if w := &ways[i]; !w.piped && w.open == nil && !strings.Contains(w.name, "savepoints") {
			each := w.each
			w.each = func(i int, text string) []pgproto3.FrontendMessage { return append(each(i, text), sync) }
		}
	}
	return ways
}

// copyWays are those of COPY: rows of many forms, of which the end does not come.
func copyWays() (all []remembered) {
	for form, row := range map[string]string{"text": "1\t%s\n", "a long row": "%s", "escapes": "1\t" + strings.Repeat(`\t`, 100_000) + "%s\n", "small rows": strings.Repeat("1\ta\n", 50_000)} {
		all = append(all, remembered{name: "COPY of " + form, open: query("COPY remembers FROM STDIN"), piped: true, each: func(_ int, text string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.CopyData{Data: []byte(strings.ReplaceAll(row, "%s", text))}}
		}})
	}
	return append(all, remembered{name: "COPY of CSV", open: query("COPY remembers FROM STDIN CSV"), piped: true, each: func(_ int, text string) []pgproto3.FrontendMessage {
		return []pgproto3.FrontendMessage{&pgproto3.CopyData{Data: []byte("1,\"" + text + "\"\"\"\n")}}
	}}, remembered{name: "CopyFail", open: query("SELECT 1"), each: func(_ int, text string) []pgproto3.FrontendMessage {
		return []pgproto3.FrontendMessage{&pgproto3.Query{String: "COPY remembers FROM STDIN"}, &pgproto3.CopyFail{Message: text}}
	}})
}

// liveHeap is what lives of the heap.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // what cleanups have freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// plays sends rounds of a way, and returns once Sluice has taken them or the session has ended.
func (w *remembered) plays(t *testing.T, c *rawClient, rounds int) {
	t.Helper()
	text := strings.Repeat("x", *rememberedBytes-8)
	turns, copies := 0, strings.HasPrefix(w.name, "COPY of ")
	count := func(m pgproto3.FrontendMessage) {
		switch m.(type) {
		case *pgproto3.Query, *pgproto3.Sync, *pgproto3.FunctionCall:
			turns++
		}
	}
	sent := make(chan error, 1)
	ready := make(chan int, 1)
	go func() { // all answers, for nobody
		n := 0
		for {
			typ, _, err := c.frame()
			if err != nil {
				close(ready)
				return
			}
			if typ == 'Z' {
				n++
				ready <- n
			}
		}
	}()
	go func() {
		write := func(messages []pgproto3.FrontendMessage) error {
			for _, m := range messages {
				b, err := m.Encode(nil)
				if err == nil {
					_, err = c.conn.Write(b)
				}
				if err != nil {
					return err
				}
				count(m)
			}
			return nil
		}
		err := write(w.open)
		for i := 0; i < rounds && err == nil; i++ {
			err = write(w.each(i, fmt.Sprintf("%07d%s", i, text)))
		}
		sent <- err
	}()
	end := time.After(2*time.Minute + time.Duration(rounds)*100*time.Millisecond)
	done := false
	seen := 0
	for !done || !w.piped && !copies && seen < turns {
		select {
		case err := <-sent:
			if done = true; err != nil {
				return // the session has ended
			}
		case n, ok := <-ready:
			if !ok {
				return
			}
			seen = n
		case <-end:
			t.Errorf("%s: it hangs: all sent: %v; %d of %d turns", w.name, done, seen, turns)
			return
		}
	}
}

// dropsMade drops the relations that a way has made, 500 at a time, and lets Sluice read the schema again: what
// Sluice knows of a database's tables stays with the tables.
func dropsMade(t *testing.T, pg postgres, s *sluice) {
	t.Helper()
	const made = `SELECT string_agg(CASE relkind WHEN 'v' THEN 'DROP VIEW ' ELSE 'DROP TABLE ' END || oid::regclass, '; ') FROM
		(SELECT oid, relkind FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v') AND relname <> 'remembers' LIMIT 500) c`
	for {
		drops := strings.TrimSpace(pg.SQL(t, "postgres", made))
		if drops == "" {
			break
		}
		pg.SQL(t, "postgres", drops)
	}
	perform(t, s.addr, "Q SELECT 1 FROM nosuch\n< Z\n")
	waitFor(t, "nobody to be there", func() bool { return s.Stats().Clients == 0 })
}

// walk plays one way against one Sluice.
func (w *remembered) walk(t *testing.T, pg postgres, s *sluice, rounds int) {
	t.Helper()
	waitFor(t, "nobody to be there", func() bool { return s.Stats().Clients == 0 })
	before := liveHeap()
	c := dialRaw(t, s.addr)
	w.plays(t, c, rounds)
	grown := liveHeap() - before
	c.conn.Close()
	waitFor(t, "the client to be gone", func() bool { return s.Stats().Clients == 0 })
	if strings.HasPrefix(w.name, "CREATE TABLE") || strings.HasPrefix(w.name, "CREATE VIEW") {
		dropsMade(t, pg, s)
	}
	left := int64(0)
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if left = liveHeap() - before; left <= mostLeft {
			break
		}
	}
	if grown > mostOfClient || left > mostLeft {
		t.Errorf("%s: %d MB while the client is there, %d MB behind it", w.name, grown>>20, left>>20)
	}
}

// A client can have Sluice remember a bounded number of bytes, whatever it sends, and nothing behind its end.
func TestRemembered(t *testing.T) { // not parallel: it looks at the heap
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE remembers (a int, b text)")
	rounds, oneIn := 34, 61
	if proxy.OneIn == 1 {
		rounds, oneIn = 100, 1
	}
	if *rememberedRounds > 0 {
		rounds, oneIn = *rememberedRounds, *rememberedOneIn
	}
	ways := rememberedWays()
	for from, kind := range []proxy.BackendKind{proxy.DSQL, proxy.Postgres} {
		s := startSluice(t, pg, maxOpen(3), withReplay, mayChoose, func(s *setup) {
			s.plans, s.proxy.PreparedTexts, s.proxy.PreparedPerBackend = 16, 16, 8 // what clients share stays behind them
			if kind == proxy.DSQL {
				asDSQL(s)
				s.rules = rewrite.AllRules()
				s.rules.Bytea = rewrite.ByteaHex
				s.rules.Chunked = []string{"remembers"}
			}
		})
		for i := from + *rememberedFrom; i < len(ways); i += oneIn {
			t.Run(string(kind)+"/"+ways[i].name, func(t *testing.T) { ways[i].walk(t, pg, s, rounds) })
		}
	}
}
