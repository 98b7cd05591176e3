package rewrite

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

func chunking(t *testing.T, tables ...string) *Planner {
	t.Helper()
	c := Defaults()
	c.Rules.Chunked = tables
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A DELETE by comparisons of the table's columns with what does not change can be carried out
// in batches, and nothing else can.
func TestChunked(t *testing.T) {
	p := chunking(t, "tasks", "s.queue_*")
	for sql, want := range map[string]bool{
		"DELETE FROM tasks WHERE shard_id = $1 AND task_id >= $2 AND task_id < $3":                             true,
		"delete from Tasks where (a = 1 AND $1 > b) AND c <> 'x' -- old ones":                                  true,
		"/* first */ DELETE FROM tasks WHERE tasks.a BETWEEN -1 AND $1::int4 AND b IN ('x', $2) ;":             true,
		`DELETE FROM "s"."queue_1" WHERE "where" <= 3.5 AND queue_1.b = true`:                                  true,
		"DELETE FROM tasks WHERE a = pg_catalog.encode($1, 'hex') AND b = pg_catalog.encode($2::bytea, 'hex')": true,
		"DELETE FROM public.tasks WHERE known = 'nowhere'":                                                     true,

		"DELETE FROM queue_1 WHERE a = 1":                        false, // s.queue_1 is listed
		"DELETE FROM other WHERE a = 1":                          false,
		"DELETE FROM tasks":                                      false,
		"DELETE FROM tasks WHERE a = 1 OR b = 2":                 false,
		"DELETE FROM tasks WHERE NOT a = 1":                      false,
		"DELETE FROM tasks WHERE a":                              false,
		"DELETE FROM tasks WHERE a = b":                          false,
		"DELETE FROM tasks WHERE a = 1 AND b < now()":            false,
		"DELETE FROM tasks WHERE b < current_timestamp":          false,
		"DELETE FROM tasks WHERE b < 'now'":                      false,
		"DELETE FROM tasks WHERE b < 'Today 10:00'::timestamptz": false,
		"DELETE FROM tasks WHERE a NOT IN (1, 2)":                false,
		"DELETE FROM tasks WHERE a IN (SELECT 1)":                false,
		"DELETE FROM tasks WHERE a = (SELECT 1)":                 false,
		"DELETE FROM tasks WHERE a NOT BETWEEN 1 AND 2":          false,
		"DELETE FROM tasks WHERE a IN (1, random())":             false,
		"DELETE FROM tasks WHERE a LIKE 'x'":                     false,
		"DELETE FROM tasks WHERE a OPERATOR(public.=) 1":         false,
		"DELETE FROM tasks WHERE other.a = 1":                    false,
		"DELETE FROM tasks WHERE (a).b = 1":                      false,
		"DELETE FROM tasks WHERE a = " + conversions[ByteaHexCast].HexSQL("$1") + " AND b < " + conversions[ByteaHexCast].HexSQL("'\\x00'::bytea"): true,
		"DELETE FROM tasks WHERE a = " + conversions[ByteaHexCast].HexSQL("b"):                                                                     false,
		"DELETE FROM tasks WHERE a = " + conversions[ByteaHexCast].HexSQL("f()"):                                                                   false,
		"DELETE FROM tasks WHERE a = pg_catalog.substring($1, 3)":                                                                                  false,
		"DELETE FROM tasks WHERE a = pg_catalog.substring(pg_catalog.byteacat($1, '')::text, 3)":                                                   false,
		"DELETE FROM tasks WHERE a = encode($1, 'hex')":                                                                                            false,
		"DELETE FROM tasks WHERE a = pg_catalog.encode($1, 'base64')":                                                                              false,
		"DELETE FROM tasks WHERE a = pg_catalog.encode(b, 'hex')":                                                                                  false,
		"DELETE FROM tasks AS x WHERE x.a = 1":                                                                                                     false,
		"DELETE FROM tasks x WHERE a = 1":                                                                                                          false,
		"DELETE FROM ONLY tasks WHERE a = 1":                                                                                                       false,
		"DELETE FROM tasks USING other WHERE tasks.a = 1":                                                                                          false,
		"DELETE FROM tasks WHERE a = 1 RETURNING a":                                                                                                false,
		"WITH x AS (SELECT 1) DELETE FROM tasks WHERE a = 1":                                                                                       false,
		"DELETE FROM tasks WHERE a = 1; SELECT 1":                                                                                                  false,
		"DELETE FROM tasks WHERE CURRENT OF c":                                                                                                     false,
		"UPDATE tasks SET a = 1 WHERE a = 2":                                                                                                       false,
		"SELECT 1":                                                                                                                                 false,
	} {
		c := p.BatchedDelete(p.Plan([]byte(sql)))
		if (c != nil) != want {
			t.Errorf("%s: in batches %v, want %v", sql, c != nil, want)
			continue
		}
		if c == nil {
			continue
		}
		batch, ok := c.BatchBuilder([]string{"shard_id", `ta"sk`})
		if !ok {
			t.Errorf("%s: a batch does not mean the same: %s", sql, batch(1))
			continue
		}
		if again := p.BatchedDelete(p.Plan([]byte(batch(7)))); again != nil {
			t.Errorf("%s: a batch could be split once more: %s", sql, batch(7))
		}
	}
}

// A batch takes rows of the client's condition in the order of the key.
func TestBatch(t *testing.T) {
	p := chunking(t, "s.t")
	c := p.BatchedDelete(p.Plan([]byte("DELETE FROM s.t WHERE a = $1 -- mine")))
	if c == nil || c.Table != `"s"."t"` {
		t.Fatal(c)
	}
	batch, ok := c.BatchBuilder([]string{"a", "B"})
	want := "DELETE FROM s.t WHERE (\"a\", \"B\") IN " +
		"(SELECT \"a\", \"B\" FROM \"s\".\"t\" WHERE ( a = $1 -- mine\n) ORDER BY \"a\", \"B\" LIMIT 2900)"
	if got := batch(2900); !ok || got != want {
		t.Errorf("%v\n%s\nwant\n%s", ok, got, want)
	}
	if _, ok := c.BatchBuilder(nil); ok {
		t.Error("a batch without a key")
	}
	c.condition = " a = $2"
	if _, ok := c.BatchBuilder([]string{"a"}); ok {
		t.Error("a batch of another condition passes for the client's")
	}
}

// Without the key a DELETE is planned by its words alone, as before; with it only those of
// tables that may be listed are parsed.
func TestChunkedCostsNothing(t *testing.T) {
	parsed := func(p *Planner, sql string) bool {
		before := p.Stats().Parsed
		p.Plan([]byte(sql))
		return p.Stats().Parsed > before
	}
	for _, sql := range []string{"DELETE FROM t WHERE a = 1", "DELETE FROM s.T WHERE a = 2"} {
		if parsed(chunking(t), sql) || parsed(chunking(t, "other"), sql) {
			t.Errorf("%s: was parsed", sql)
		}
		if !parsed(chunking(t, "t"), sql) || !parsed(chunking(t, "s.*"), sql) {
			t.Errorf("%s: was not parsed", sql)
		}
	}
}

func TestMomentary(t *testing.T) {
	for text, want := range map[string]bool{"": false, "now": true, " NOW ": true, "nowhere": false, "today 01:00": true,
		"2026-11-24": false, "yesterday": true, "Tomorrow": true, "x\x00today\x00": true} {
		if parse.ContainsTimeWord([]byte(text)) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
}

func TestChunkedTables(t *testing.T) {
	c := Defaults()
	c.Rules.Chunked = []string{"t", "", "a.b.c"}
	err := c.Validate()
	if err == nil || !slices.Equal(strings.Split(err.Error(), "\n"), []string{
		`rewrite.chunked_delete: "": want table or schema.table`, `rewrite.chunked_delete: "a.b.c": want table or schema.table`}) {
		t.Error(err)
	}
}
