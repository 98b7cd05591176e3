//go:build !race

package proxy_test

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
)

// A hit on the relay's hot path allocates nothing. (Under the race detector
// pools drop what they are given, at random.)
func TestNoAllocationPerQuery(t *testing.T) {
	pg := sharedPostgres(t)
	for name, opts := range map[string][]option{"replay off": nil, "replay on": {withReplay}, "mapping": {withReplay, asDSQL, mapping},
		"choices": {withReplay, asDSQL, mayChoose}} {
		t.Run(name, func(t *testing.T) { noAllocationPerQuery(t, startSluice(t, pg, opts...), "SELECT 1") })
	}
}

// Rows of a mapped column take the way of all others: a statement over them allocates nothing
// either, and neither does each of a thousand rows.
func TestNoAllocationPerMappedRow(t *testing.T) {
	pg := newPostgres(t)
	keyed(t, pg, "public", true)
	pg.SQL(t, "postgres", "INSERT INTO t SELECT n, encode(n::text::bytea, 'hex') FROM generate_series(1, 1000) n")
	s := startSluice(t, pg, withReplay, asDSQL, mapping)
	if text := answerOf(t, s, "SELECT k FROM t WHERE n = 12"); text != `\x3132` {
		t.Fatalf("k is %q", text)
	}
	noAllocationPerQuery(t, s, "SELECT k FROM t WHERE k <> '\\x00' AND n < 4", "SELECT n, k FROM t WHERE k > ''")
}

// answerOf is the one value that a statement returns.
func answerOf(t *testing.T, s *sluice, sql string) (text string) {
	t.Helper()
	c := connectTo(t, s, "postgres", pgx.QueryExecModeSimpleProtocol)
	results, err := c.PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil || len(results) != 1 || len(results[0].Rows) != 1 {
		t.Fatalf("%s: %v, %d results", sql, err, len(results))
	}
	return string(results[0].Rows[0][0])
}

func noAllocationPerQuery(t *testing.T, s *sluice, texts ...string) {
	messages := map[string][]byte{}
	for _, sql := range texts {
		messages["simple "+sql] = encode(t, &pgproto3.Query{String: sql})
		messages["extended "+sql] = encode(t, &pgproto3.Parse{Query: sql}, &pgproto3.Bind{}, &pgproto3.Describe{ObjectType: 'P'},
			&pgproto3.Execute{}, &pgproto3.Sync{})
	}
	for name, msg := range messages {
		c := dialRaw(t, s.addr)
		buf := make([]byte, 4096)
		turn := func() {
			c.conn.Write(msg)
			for {
				n, err := c.conn.Read(buf)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.HasSuffix(buf[:n], []byte{'Z', 0, 0, 0, 5, 'I'}) {
					return
				}
			}
		}
		for range 100 {
			turn()
		}
		// PostgreSQL is another process and the client's own code allocates
		// nothing; what remains is the session's, and now and then a pool's.
		if n := testing.AllocsPerRun(1000, turn); n >= 0.5 {
			t.Errorf("%s: %.2f allocations per query", name, n)
		}
	}
}
