package proxy_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A text that the server does not take stops no return behind what was told in a form of which the time cannot be
// taken: the server is asked in front of it. Nor does it take anything from what is kept.
func TestReturnBehindATextThatFails(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", timedTables)
	s := startSluice(t, pg, strictly, mapping, maxOpen(4))
	const micros = "SELECT (extract(epoch FROM now()) * 1000000)::bigint"
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for _, fails := range [][]string{{"SELECT nosuch"}, {"SELEKT 1"}, {"SELECT 1 FROM nowhere"}, {"SELEKT 1", "SELECT 1"}, {"SELECT nosuch", "SELECT 1"}} {
			c := connectTo(t, s, "postgres", mode)
			tell := func(into any, sql string) {
				t.Helper()
				if err := c.QueryRow(t.Context(), sql).Scan(into); err != nil {
					t.Errorf("%s, %q: %s: %s", mode, fails, sql, detailOf(err))
				}
			}
			var id, told, later int64
			var at, upserted time.Time
			run(t, c, "BEGIN")
			tell(&told, micros)
			tell(&id, "INSERT INTO timed (v) VALUES ('told') RETURNING id")
			run(t, c, "SAVEPOINT a")
			tell(&at, "INSERT INTO timed (v) VALUES ('gone') RETURNING at")
			var batch pgx.Batch
			for _, sql := range fails {
				batch.Queue(sql)
			}
			if err := c.SendBatch(t.Context(), &batch).Close(); err == nil {
				t.Errorf("%s, %q: nothing failed", mode, fails)
			}
			if _, err := c.Exec(t.Context(), "ROLLBACK TO a"); err != nil {
				t.Errorf("%s, %q: %s", mode, fails, detailOf(err))
				run(t, c, "ROLLBACK")
				continue
			}
			tell(&later, micros)
			tell(&at, "SELECT at FROM timed ORDER BY id DESC LIMIT 1")
			if later != told || at.UnixMicro() != told {
				t.Errorf("%s, %q: told %d, then %d, and %d is stored", mode, fails, told, later, at.UnixMicro())
			}
			// A default in the place of a value would be another time.
			if err := c.QueryRow(t.Context(), "INSERT INTO once (v) SELECT 'x' ON CONFLICT (v) DO UPDATE SET at = DEFAULT RETURNING at").Scan(&upserted); err == nil && upserted.UnixMicro() != told {
				t.Errorf("%s, %q: told %d, and of an upsert %d", mode, fails, told, upserted.UnixMicro())
			}
			if _, err := c.Exec(t.Context(), "ROLLBACK"); err != nil {
				t.Error(err)
			}
			pg.SQL(t, "postgres", "INSERT INTO once (v) VALUES ('x') ON CONFLICT DO NOTHING") // the next meets it
		}
	}
}
