package remains_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/pgtest"
	"github.com/sluice-proxy/sluice/proxy/remains"
)

// PostgreSQL compiles nothing for the question about unseen functions, and the session's own jit stays on.
func TestUnseenIsNotCompiled(t *testing.T) {
	t.Parallel()
	srv := pgtest.Start(t, pgtest.Setting("jit", "on"), pgtest.Setting("jit_above_cost", "1000"))
	config, err := pgconn.ParseConfig(srv.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	var plans strings.Builder
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { plans.WriteString(n.Message + "\n") }
	conn, err := pgconn.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(t.Context()) })
	ask := func(text string) (answer string) {
		t.Helper()
		plans.Reset()
		results, err := conn.Exec(t.Context(), text).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if last := results[len(results)-1]; len(last.Rows) == 1 {
			answer = string(last.Rows[0][0])
		}
		return answer
	}
	ask("LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on; SET client_min_messages = log")
	if answer := ask(remains.Unseen); answer != "f" || !strings.Contains(plans.String(), "pg_proc") || strings.Contains(plans.String(), "JIT:\n") {
		t.Errorf("answer %q; plans:\n%s", answer, plans.String())
	}
	if ask("SELECT count(*) FROM pg_class a, pg_class b"); !strings.Contains(plans.String(), "JIT:\n") {
		t.Errorf("another query of the session is not compiled:\n%s", plans.String())
	}
}
