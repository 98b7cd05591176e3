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
	if answer := ask(remains.HiddenCallsQuery); answer != "f" || !strings.Contains(plans.String(), "pg_proc") || strings.Contains(plans.String(), "JIT:\n") {
		t.Errorf("answer %q; plans:\n%s", answer, plans.String())
	}
	if ask("SELECT count(*) FROM pg_class a, pg_class b"); !strings.Contains(plans.String(), "JIT:\n") {
		t.Errorf("another query of the session is not compiled:\n%s", plans.String())
	}
}

// Whatever runs unseen and may leave something is found, and nothing else is.
func TestUnseenFinds(t *testing.T) {
	t.Parallel()
	srv := pgtest.Start(t)
	srv.SQL(t, "postgres", `CREATE TABLE quiet (a int DEFAULT 1 CHECK (a > 0), b timestamptz DEFAULT now()); CREATE VIEW calm AS SELECT lower(b::text) FROM quiet;
		CREATE FUNCTION updates() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE quiet SET a = 2; /* set */ RETURN NEW; END $$;
		CREATE TRIGGER updates BEFORE INSERT ON quiet FOR EACH ROW EXECUTE FUNCTION updates()`)
	for name, sql := range map[string]string{
		"nothing":               "SELECT 1",
		"a view":                "CREATE VIEW v AS SELECT set_config('search_path', 's1', false)",
		"a view of locks":       "CREATE VIEW v AS SELECT pg_advisory_lock(1)::text",
		"a default":             "CREATE TABLE d (a int, b text DEFAULT pg_advisory_lock(1)::text)",
		"a CHECK":               "CREATE TABLE c (a int CHECK (pg_try_advisory_lock(a)))",
		"a rule":                "CREATE RULE r AS ON INSERT TO quiet DO ALSO SELECT pg_advisory_lock(1)",
		"a domain's CHECK":      "CREATE DOMAIN m AS int CHECK (pg_try_advisory_lock(VALUE))",
		"a domain's default":    "CREATE DOMAIN m AS text DEFAULT set_config('a.b', '1', false)",
		"a policy":              "CREATE POLICY p ON quiet USING (pg_try_advisory_lock(a))",
		"a trigger's WHEN":      "CREATE TRIGGER w BEFORE INSERT ON quiet FOR EACH ROW WHEN (pg_try_advisory_lock(NEW.a)) EXECUTE FUNCTION updates()",
		"an operator":           "CREATE OPERATOR !!! (FUNCTION = pg_catalog.pg_try_advisory_lock, RIGHTARG = bigint)",
		"a text that is run":    "CREATE VIEW v AS SELECT query_to_xml('SELECT pg_advisory_lock(1)', true, true, '')::text",
		"a body that is parsed": "CREATE FUNCTION f() RETURNS void LANGUAGE sql BEGIN ATOMIC SELECT pg_advisory_lock(1); END; CREATE VIEW v AS SELECT f()::text",
		"a SET":                 "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN /* a */ SET search_path TO s1; /* b */ RETURN 1; END $$; CREATE VIEW v AS SELECT f()",
		"between literals":      "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '/*'; PERFORM pg_advisory_lock(1); RAISE NOTICE '*/'; RETURN 1; END $$; CREATE VIEW v AS SELECT f()",
		"set_config":            "CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $$ SELECT set_config('search_path', 's1', false) $$; CREATE TABLE d (a text DEFAULT f())",
	} {
		want := map[bool]string{true: "f", false: "t"}[name == "nothing"]
		if got := srv.SQL(t, "postgres", "BEGIN; "+sql+"; "+remains.HiddenCallsQuery+"; ROLLBACK"); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
