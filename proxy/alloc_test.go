//go:build !race

package proxy_test

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// A hit on the relay's hot path allocates nothing. (Under the race detector
// pools drop what they are given, at random.)
func TestNoAllocationPerQuery(t *testing.T) {
	pg := sharedPostgres(t)
	for name, opts := range map[string][]option{"replay off": nil, "replay on": {withReplay}, "mapping": {withReplay, asDSQL, mapping}} {
		t.Run(name, func(t *testing.T) { noAllocationPerQuery(t, startSluice(t, pg, opts...)) })
	}
}

func noAllocationPerQuery(t *testing.T, s *sluice) {
	for name, msg := range map[string][]byte{
		"simple": encode(t, &pgproto3.Query{String: "SELECT 1"}),
		"extended": encode(t, &pgproto3.Parse{Query: "SELECT 1"}, &pgproto3.Bind{}, &pgproto3.Describe{ObjectType: 'P'},
			&pgproto3.Execute{}, &pgproto3.Sync{}),
	} {
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
		if n := testing.AllocsPerRun(2000, turn); n >= 0.5 {
			t.Errorf("%s: %.2f allocations per query", name, n)
		}
	}
}
