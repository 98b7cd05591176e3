package rewriting

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

var (
	flushesSeed  = flag.Uint64("flushes.seed", 1, "seed of the programs of TestFlushes")
	flushesTotal = flag.Int("flushes.programs", 60, "how many programs TestFlushes plays")
)

// flushing draws frames that end with a Sync: statements of which some take jobs, with Flushes and Syncs between them,
// and names of portals and statements that are not there.
func flushing(rng *rand.Rand, n int) (all []pgproto3.FrontendMessage) {
	for range 2 + rng.IntN(7) {
		switch rng.IntN(9) {
		case 0:
			all = append(all, &pgproto3.Execute{Portal: "none"})
		case 1:
			all = append(all, &pgproto3.Bind{PreparedStatement: "none"})
		case 2:
			all = append(all, &pgproto3.Query{String: fmt.Sprintf("CREATE INDEX ON flushed (a, n%d)", n%3)})
		case 3:
			all = append(all, &pgproto3.Sync{})
		case 4:
			all = append(all, &pgproto3.Parse{Query: "SELECT 1"}, &pgproto3.Bind{}, &pgproto3.Execute{})
		case 5:
			all = append(all, &pgproto3.Flush{})
		default:
			text := []string{"CREATE INDEX ON flushed (a)", "CREATE INDEX IF NOT EXISTS i_flushed ON flushed (n0)", "DROP INDEX IF EXISTS i_flushed",
				"ALTER TABLE flushed ADD CONSTRAINT c CHECK (a > 0)", "ALTER TABLE flushed DROP CONSTRAINT IF EXISTS c", "CREATE UNIQUE INDEX ON flushed (a)"}[rng.IntN(6)]
			all = append(all, &pgproto3.Parse{Query: text}, &pgproto3.Bind{}, &pgproto3.Execute{})
		}
		if rng.IntN(3) == 0 {
			all = append(all, &pgproto3.Flush{})
		}
	}
	return append(all, &pgproto3.Sync{})
}

// Whatever a client sends behind errors, with Flushes and Syncs between DDL that takes jobs: each Query and each Sync
// gets its ReadyForQuery, but for a Query behind an error that no Sync has ended.
func TestFlushes(t *testing.T) {
	t.Parallel()
	r := startParts(t, "refuse", nil)
	setup, _ := r.dial(t, r.sluice.DSN("postgres"))
	if _, err := setup.Exec(t.Context(), "CREATE TABLE flushed (id int PRIMARY KEY, a int, n0 int, n1 int, n2 int)").ReadAll(); err != nil {
		t.Fatal(err)
	}
	var h *pgconn.HijackedConn
	for n := range *flushesTotal {
		frames := flushing(rand.New(rand.NewPCG(*flushesSeed, uint64(n))), n)
		if h == nil {
			c, _ := r.dial(t, r.sluice.DSN("postgres"))
			var err error
			if h, err = c.Hijack(); err != nil {
				t.Fatal(err)
			}
		}
		var raw []byte
		var story []string
		for _, f := range frames {
			raw, _ = f.Encode(raw)
			story = append(story, strings.TrimPrefix(fmt.Sprintf("%T %+v", f, f), "*pgproto3."))
		}
		// The answer to the last Query, which no error is in front of, ends the program.
		raw, _ = (&pgproto3.Query{String: "SELECT 'over'"}).Encode(raw)
		if _, err := h.Conn.Write(raw); err != nil {
			t.Fatal(err)
		}
		if err := h.Conn.SetReadDeadline(time.Now().Add(40 * time.Second)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for over := false; !over || got[len(got)-1] != "Z"; {
			m, err := h.Frontend.Receive()
			if err != nil {
				t.Fatalf("program %d: %v behind %q of\n%s", n, err, got, strings.Join(story, "\n"))
			}
			switch m := m.(type) {
			case *pgproto3.ErrorResponse:
				got = append(got, m.Code)
			case *pgproto3.ReadyForQuery:
				got = append(got, "Z")
			case *pgproto3.DataRow:
				over = over || string(m.Values[0]) == "over"
			case *pgproto3.CommandComplete:
				got = append(got, string(m.CommandTag))
			}
		}
	}
}
