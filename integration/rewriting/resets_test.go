package rewriting

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// The strings with which pools reset a session are refused by DSQL, and work
// through Sluice.
func TestResetStrings(t *testing.T) {
	sim, sluice := standIn(t, nil)
	config, err := pgx.ParseConfig(direct(t, sim))
	if err != nil {
		t.Fatal(err)
	}
	config.LookupFunc = loopback
	far, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close(t.Context())
	near, err := pgx.Connect(t.Context(), sluice.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close(t.Context())
	for _, c := range []struct{ sql, tags string }{
		{"SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;", "SELECT 1,CLOSE CURSOR ALL,UNLISTEN,RESET"}, // asyncpg
		{"CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES;",
			"CLOSE CURSOR ALL,SET,RESET,UNLISTEN,SELECT 1,DISCARD TEMP,DISCARD SEQUENCES"}, // deadpool
		{"SET SESSION AUTHORIZATION DEFAULT;RESET ALL;CLOSE ALL;UNLISTEN *;SELECT pg_advisory_unlock_all();DISCARD SEQUENCES;DISCARD TEMP",
			"SET,RESET,CLOSE CURSOR ALL,UNLISTEN,SELECT 1,DISCARD SEQUENCES,DISCARD TEMP"}, // Npgsql
		{"SET SESSION AUTHORIZATION DEFAULT", "SET"}, // psycopg2
		{"SET lock_timeout=0; SELECT 1", "SET,SELECT 1"},
		{"SET client_min_messages=warning; SELECT 1", "SET,SELECT 1"},
		{"BEGIN; SET LOCAL lock_timeout=0; SELECT 1; COMMIT", "BEGIN,SET,SELECT 1,COMMIT"},
	} {
		run := func(conn *pgx.Conn) (tags []string, err error) {
			r := conn.PgConn().Exec(t.Context(), c.sql)
			for r.NextResult() {
				tag, _ := r.ResultReader().Close()
				tags = append(tags, tag.String())
			}
			return tags, r.Close()
		}
		if _, err := run(far); err == nil {
			t.Errorf("%s: the stand-in takes it", c.sql)
		}
		far.Exec(t.Context(), "ROLLBACK")
		if tags, err := run(near); err != nil || strings.Join(tags, ",") != c.tags {
			t.Errorf("%s: %v, %v", c.sql, tags, err)
		}
	}
}

// With reservoir.reset=always each backend's settings are reset by what a cluster takes, and
// no backend is lost over it.
func TestBackendsAreReset(t *testing.T) {
	_, sluice := standIn(t, harness.Env{"DSQL_RESERVOIR_RESET": "always"})
	for _, sql := range []string{"SET TimeZone TO 'Asia/Tokyo'", "SELECT 1", "SHOW TimeZone"} {
		a, err := pgx.Connect(t.Context(), sluice.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := pgx.Connect(t.Context(), sluice.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := a.Exec(t.Context(), sql); err != nil {
				t.Errorf("%s: %v", sql, err)
			}
			var zone string
			if err := b.QueryRow(t.Context(), "SHOW TimeZone").Scan(&zone); err != nil || zone == "Asia/Tokyo" {
				t.Errorf("another client behind %s: %q, %v", sql, zone, err)
			}
		}
		a.Close(t.Context())
		b.Close(t.Context())
	}
}
