package rewriting

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// A session of a cluster has one role. What asks for another is refused, with a hint that names a way;
// what returns to its own, or names it, is answered: pools and dumps send that.
func TestRolesAreRefused(t *testing.T) {
	_, sluice := standIn(t, harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "1", "DSQL_RESERVOIR_ACQUIRE_TIMEOUT": "3s"})
	other := hears(t, sluice, pgx.QueryExecModeExec, "")
	for name, mode := range cursorModes {
		c := hears(t, sluice, mode, "-c role=none")
		for _, sql := range []string{"SET ROLE app", "set session role 'app'", `SET ROLE "None"`, "SET ROLE 'NONE'", "SET role TO app", "SET role = 'app'", "SET SESSION AUTHORIZATION app",
			"SET SESSION SESSION AUTHORIZATION 'app'", "SET session_authorization TO app", "SELECT set_config('role', 'app', false)", "SELECT pg_catalog.set_config('ROLE', 'app', false) AS r",
			"SET ROLE FROM CURRENT", "SELECT set_config('session_authorization', 'app', false)"} {
			_, err := c.Exec(t.Context(), sql)
			told, ok := err.(*pgconn.PgError)
			if hint := "backend.user"; !ok || told.Code != "0A000" || !strings.Contains(told.Hint, hint) && !strings.Contains(sql, "CURRENT") && !strings.Contains(sql, "session_authorization'") {
				t.Errorf("%s: %s: %+v", name, sql, err)
			}
			if got := other.says(t, "SELECT 1"); got != "SELECT 1 I" {
				t.Errorf("%s: another client behind %s: %s", name, sql, got)
			}
		}
		for _, s := range [][2]string{
			{"SET ROLE NONE", "SET I"}, {"RESET ROLE", "RESET I"}, {"SET ROLE 'none'", "SET I"}, {"SET role TO DEFAULT", "SET I"}, {"SET LOCAL ROLE NONE", "SET I"},
			{`SET ROLE "admin"`, "SET I"}, {"SET SESSION AUTHORIZATION admin", "SET I"}, {"SET SESSION AUTHORIZATION DEFAULT", "SET I"}, {"RESET SESSION AUTHORIZATION", "RESET I"},
			{"SELECT set_config('role', 'none', false)", "SELECT 1 I"}, {"PREPARE held AS SELECT 1", "PREPARE I"}, {"RESET SESSION AUTHORIZATION", "RESET I"},
			{"RESET ROLE", "RESET I"}, {"DEALLOCATE held", "DEALLOCATE I"}, {"DISCARD ALL", "DISCARD ALL I"},
			{"BEGIN", "BEGIN T"}, {"RESET ROLE", "RESET T"}, {"SELECT 1", "SELECT 1 T"}, {"SET ROLE NONE", "SET T"}, {"SET ROLE app", "0A000 E"}, {"RESET ROLE", "25P02 E"}, {"ROLLBACK", "ROLLBACK I"},
		} {
			if got := c.says(t, s[0]); got != s[1] {
				t.Errorf("%s: %s: %s, want %s", name, s[0], got, s[1])
			}
		}
		var role string
		if err := c.QueryRow(t.Context(), "SELECT set_config('role', 'none', false)").Scan(&role); err != nil || role != "none" {
			t.Errorf("%s: %q, %v", name, role, err)
		}
		if got := other.says(t, "SELECT 1"); got != "SELECT 1 I" {
			t.Errorf("%s: another client behind all: %s", name, got)
		}
		// With another role in force, to take the reset for done would leave it so. The stand-in's user is
		// a superuser behind its back, and is told to be one again: hence the backend is kept, and these
		// come last.
		for _, reset := range []string{"RESET ROLE", "SET ROLE admin", "SET SESSION AUTHORIZATION DEFAULT"} {
			if got := c.says(t, "BEGIN") + ", " + c.says(t, "SET LOCAL ROLE pg_monitor") + ", " + c.says(t, reset) + ", " + c.says(t, "ROLLBACK") + ", " + c.says(t, "RESET ROLE"); got !=
				"BEGIN T, SET T, 0A000 E, ROLLBACK I, RESET I" {
				t.Errorf("%s: %s with another role in force: %s", name, reset, got)
			}
		}
		c.Close(t.Context())
	}
	for _, s := range [][2]string{
		{"SELECT 1; SET ROLE NONE; SELECT 2", "SELECT 1,SET,SELECT 1 I"}, {"RESET ROLE; RESET ALL; SET SESSION AUTHORIZATION DEFAULT", "RESET,RESET,SET I"},
		{"SELECT 1; SET ROLE app; SELECT 2", "0A000 I"}, {"BEGIN; SELECT 1; SET ROLE app", "0A000 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"SET ROLE admin; SELECT 1", "SET,SELECT 1 I"}, {"BEGIN; SET SESSION AUTHORIZATION app", "0A000 E"}, {"ROLLBACK; RESET ROLE", "ROLLBACK,RESET I"},
		{"BEGIN; SET LOCAL ROLE pg_monitor; RESET ROLE", "0A000 E"}, {"ROLLBACK", "ROLLBACK I"}, {"BEGIN; SELECT set_config('role', 'pg_monitor', true); SET ROLE NONE", "0A000 E"}, {"ROLLBACK", "ROLLBACK I"},
	} {
		var tags []string
		r := other.PgConn().Exec(t.Context(), s[0])
		for r.NextResult() {
			if tag, err := r.ResultReader().Close(); err == nil {
				tags = append(tags, tag.String())
			}
		}
		got := strings.Join(tags, ",")
		if told, ok := r.Close().(*pgconn.PgError); ok {
			if got = told.Code; told.Code == "0A000" && !strings.Contains(told.Hint, "backend.user") {
				t.Errorf("%s: hint %q", s[0], told.Hint)
			}
		}
		if got += " " + string(other.PgConn().TxStatus()); got != s[1] {
			t.Errorf("%s: %s, want %s", s[0], got, s[1])
		}
	}
	// In a pipeline nobody has heard yet that another role is in force.
	pipe := other.PgConn().StartPipeline(t.Context())
	for _, sql := range []string{"BEGIN", "SET LOCAL ROLE pg_monitor", "RESET ROLE"} {
		pipe.SendQueryParams(sql, nil, nil, nil, nil)
	}
	if err := pipe.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := pipe.Close(); err == nil || !strings.Contains(err.Error(), "0A000") {
		t.Errorf("RESET ROLE behind SET LOCAL ROLE in a pipeline: %v", err)
	}
	other.says(t, "ROLLBACK")
	for options, want := range map[string]string{"-c role=app": "0A000", "-c role=admin": "", "-c role=None": "0A000", "-c session_authorization=app": "0A000", "-c ROLE=app": "0A000"} {
		config, err := pgx.ParseConfig(sluice.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		config.RuntimeParams["options"] = options
		c, err := pgx.ConnectConfig(t.Context(), config)
		if err == nil {
			c.Close(t.Context())
		}
		var told *pgconn.PgError
		if !errors.As(err, &told) && want != "" || (err == nil) != (want == "") || want != "" && (told.Code != want || !strings.Contains(told.Hint, "backend.user")) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}
