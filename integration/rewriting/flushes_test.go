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
		switch rng.IntN(11) {
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
		case 6:
			end := []string{"COMMIT", "ROLLBACK", "COMMIT; BEGIN"}[rng.IntN(3)]
			all = append(all, &pgproto3.Query{String: "BEGIN"}, &pgproto3.Query{String: fmt.Sprintf("CREATE UNIQUE INDEX ON flushed (n%d)", n%3)}, &pgproto3.Query{String: end})
		case 7:
			all = append(all, &pgproto3.Parse{Query: []string{"BEGIN", "COMMIT", "ROLLBACK"}[rng.IntN(3)]}, &pgproto3.Bind{}, &pgproto3.Execute{})
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

// leftInvalid counts the indexes that are not valid and that no job builds any more.
const (
	leftInvalid = `SELECT count(*) FROM pg_index i WHERE NOT i.indisvalid AND NOT EXISTS (SELECT 1 FROM sys.jobs j WHERE j.object_id = i.indexrelid AND j.status IN ('submitted', 'processing'))`
	dropInvalid = `DO $$ DECLARE i regclass; BEGIN FOR i IN SELECT indexrelid FROM pg_index WHERE NOT indisvalid LOOP EXECUTE format('DROP INDEX %s', i); END LOOP; END $$`
)

// Whatever a client sends behind errors, with Flushes and Syncs between DDL that takes jobs: each Query and each Sync
// gets its ReadyForQuery, but for a Query behind an error that no Sync has ended. An index over duplicates is left only
// with a warning.
func TestFlushes(t *testing.T) {
	t.Parallel()
	r := startParts(t, "refuse", nil)
	setup, _ := r.dial(t, r.sluice.DSN("postgres"))
	for _, sql := range []string{"CREATE TABLE flushed (id int PRIMARY KEY, a int, n0 int, n1 int, n2 int)", "INSERT INTO flushed VALUES (1, 1, 1, 1, 1), (2, 2, 1, 2, 1)"} {
		if _, err := setup.Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
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
		raw, _ = (&pgproto3.Query{String: "ROLLBACK"}).Encode(raw)
		raw, _ = (&pgproto3.Query{String: "SELECT 'over'"}).Encode(raw)
		if _, err := h.Conn.Write(raw); err != nil {
			t.Fatal(err)
		}
		if err := h.Conn.SetReadDeadline(time.Now().Add(40 * time.Second)); err != nil {
			t.Fatal(err)
		}
		var got []string
		warned := false
		for over := false; !over || got[len(got)-1] != "Z"; {
			m, err := h.Frontend.Receive()
			if err != nil {
				t.Fatalf("program %d: %v behind %q of\n%s", n, err, got, strings.Join(story, "\n"))
			}
			switch m := m.(type) {
			case *pgproto3.ErrorResponse:
				got = append(got, m.Code)
			case *pgproto3.NoticeResponse:
				warned = warned || m.Severity == "WARNING" && strings.Contains(m.Message, "nobody waits for it")
			case *pgproto3.ReadyForQuery:
				got = append(got, "Z")
			case *pgproto3.DataRow:
				over = over || string(m.Values[0]) == "over"
			case *pgproto3.CommandComplete:
				got = append(got, string(m.CommandTag))
			}
		}
		for warned && r.pg.SQL(t, "postgres", "SELECT count(*) FROM sys.jobs WHERE status IN ('submitted', 'processing')") != "0" {
			time.Sleep(10 * time.Millisecond)
		}
		if text := strings.Join(story, "\n"); warned && !strings.Contains(text, "COMMIT; BEGIN") && !strings.Contains(text, "Query:COMMIT ParameterOIDs") && !strings.Contains(text, "Query:BEGIN ParameterOIDs") {
			t.Errorf("program %d: nobody waits for an index, though nothing follows the end of its transaction: %q of\n%s", n, got, text)
		}
		if invalid := r.pg.SQL(t, "postgres", leftInvalid); invalid != "0" {
			if !warned {
				t.Errorf("program %d leaves %s indexes that are not valid, without a warning; %q of\n%s", n, invalid, got, strings.Join(story, "\n"))
			}
			r.pg.SQL(t, "postgres", dropInvalid)
		}
	}
}
