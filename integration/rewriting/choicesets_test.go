package rewriting

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// chosenScripts are what one client sends and what it is told, of a Sluice whose clients may choose
// all but ddl.set_not_null. Each answer is wanted by the beginnings of its parts. A text with "; " is
// one string; one with " ;; " a pipeline.
var chosenScripts = []struct {
	name, startup string
	steps         [][2]string
}{
	{name: "by SET, with a notice", steps: [][2]string{
		{"SHOW sluice.ddl.in_transactions", `row ["refuse"] / SHOW / I`},
		{"SET sluice.ddl.in_transactions = 'Autocommit'", "SET / NOTICE|00000|ddl.in_transactions is autocommit for this client: a transaction with DDL is committed in parts / I"},
		{"SHOW sluice.ddl.in_transactions", `row ["autocommit"] / SHOW / I`},
		{"SELECT current_setting('sluice.ddl.in_transactions')", `row ["autocommit"] / SELECT 1 / I`},
		{"SELECT current_setting('sluice.ddl.in_transactions'), 1", "error|0A000|the server does not know / I"},
		{"set SLUICE.DDL.In_Transactions to refuse", "SET / I"},
		{`SET "sluice"."ddl"."carry_out" = 'all'`, "SET / NOTICE|00000|ddl.carry_out is all / I"},
		{"SHOW sluice.ddl.in_transactions", `row ["refuse"]`},
		{"SHOW sluice.ddl.add_column_default", `row ["backfill"]`},
		{"SHOW sluice.ddl.set_not_null", `row ["check"]`},
		{"RESET sluice.ddl.in_transactions", "RESET / I"},
		{"SHOW sluice.ddl.in_transactions", `row ["autocommit-destructive"]`},
		{"SET sluice.rewrite.create_index_wait = off", "SET / NOTICE|00000|rewrite.create_index_wait is false / I"},
		{"SHOW sluice.rewrite.create_index_wait", `row ["false"]`},
		{"SET sluice.rewrite.create_index_wait = 'ON'", "SET / I"},
		{"RESET ALL", "RESET / I"},
		{"SHOW sluice.ddl.carry_out", `row ["exact"]`},
	}},
	{name: "what is not to be set", steps: [][2]string{
		{"SET sluice.ddl.set_not_null = 'check'", "error|42501|permission denied to set parameter \"sluice.ddl.set_not_null\"|Its key is not among those that clients may choose.|Add ddl.set_not_null to client.may_set"},
		{"RESET sluice.ddl.set_not_null", "error|42501|"},
		{"SET sluice.ddl.nope = 1", "error|42704|unrecognized configuration parameter \"sluice.ddl.nope\"||Clients may choose, where client.may_set lists the key: sluice.ddl.carry_out, "},
		{"SHOW sluice.nope", "error|42704|"}, {"SET sluice.backend.password = 'x'", "error|42704|"}, {"RESET sluice.nope", "error|42704|"},
		{"SET sluice.ddl.carry_out = 'everything'", "error|22023|invalid value for parameter \"sluice.ddl.carry_out\": \"everything\"||Available values: exact, all."},
		{"SET sluice.ddl.carry_out = 'exact', 'all'", "error|22023|SET sluice.ddl.carry_out takes only one argument"},
		{"SET sluice.ddl.carry_out = ''", "error|22023|invalid value"}, {"SET sluice.ddl.carry_out = 1", "error|22023|invalid value"},
		{"SET sluice.retry = off", "error|55P02|parameter \"sluice.retry\" cannot be set after connection start"}, {"SHOW sluice.retry", `row ["on"] / SHOW / I`},
		{"BEGIN", "BEGIN / T"}, {"SET sluice.ddl.carry_out = 'everything'", "error|22023| / E"}, {"SET sluice.ddl.carry_out = 'all'", "error|25P02| / E"}, {"ROLLBACK", "ROLLBACK / I"},
		{"SHOW sluice.ddl.carry_out", `row ["exact"] / SHOW / I`},
	}},
	{name: "through transactions", startup: "sluice.ddl.add_column_default=backfill", steps: [][2]string{
		{"BEGIN", "BEGIN / T"}, {"SET LOCAL sluice.ddl.add_column_default = refuse", "SET / T"}, {"SHOW sluice.ddl.add_column_default", `row ["refuse"] / SHOW / T`}, {"COMMIT", "COMMIT / I"},
		{"SHOW sluice.ddl.add_column_default", `row ["backfill"] / SHOW / I`},
		{"BEGIN", "BEGIN / T"}, {"INSERT INTO kept VALUES (2)", "INSERT 0 1 / T"}, {"SET sluice.ddl.add_column_default TO refuse", "SET / T"}, {"SAVEPOINT a", "SAVEPOINT / T"},
		{"RESET sluice.ddl.add_column_default", "RESET / T"}, {"SHOW sluice.ddl.add_column_default", `row ["backfill"] / SHOW / T`},
		{"ROLLBACK TO a", "ROLLBACK / T"}, {"SHOW sluice.ddl.add_column_default", `row ["refuse"] / SHOW / T`}, {"ROLLBACK", "ROLLBACK / I"},
		{"SHOW sluice.ddl.add_column_default", `row ["backfill"] / SHOW / I`},
		{"SET sluice.ddl.add_column_default = refuse", "SET / I"}, {"SET sluice.ddl.add_column_default TO DEFAULT", "SET / I"}, {"SHOW sluice.ddl.add_column_default", `row ["backfill"] / SHOW / I`},
		{"SET sluice.ddl.add_column_default = refuse", "SET / I"}, {"DISCARD ALL", "DISCARD ALL / I"}, {"SHOW sluice.ddl.add_column_default", `row ["backfill"] / SHOW / I`},
		{"SET LOCAL sluice.ddl.add_column_default = refuse", "SET / WARNING|25P01| / I"}, {"SHOW sluice.ddl.add_column_default", `row ["backfill"] / SHOW / I`},
	}},
	{name: "first in a string of several", steps: [][2]string{
		{"SET sluice.ddl.carry_out = 'all'; CREATE TABLE s (id int PRIMARY KEY); ALTER TABLE s ADD COLUMN n int DEFAULT 4; INSERT INTO s VALUES (1)",
			"SET / CREATE TABLE / ALTER TABLE / INSERT 0 1 / NOTICE|00000|ddl.carry_out is all / WARNING|01000|a part / WARNING|01000|a part / I"},
		{"SHOW sluice.ddl.carry_out", `row ["all"] / SHOW / I`}, {"SELECT n FROM s", `row ["4"] / SELECT 1 / I`},
		{"RESET sluice.ddl.carry_out; SET sluice.ddl.add_column_default = 'backfill'; SELECT 1", `RESET / SET / row ["1"] / SELECT 1 / NOTICE|00000|ddl.add / I`},
		{"SET sluice.ddl.carry_out = 'all'; SELECT 1; SELECT 1/0", `SET / row ["1"] / SELECT 1 / error|22012| / NOTICE|00000|ddl.carry_out / I`}, {"SHOW sluice.ddl.carry_out", `row ["exact"] / SHOW / I`},
		{"SHOW sluice.ddl.add_column_default", `row ["backfill"] / SHOW / I`}, {"RESET ALL", "RESET / I"},
		{"SET sluice.ddl.carry_out = 'all'; SET sluice.ddl.carry_out = 'nope'; SELECT 1", "SET / error|22023| / NOTICE|00000|ddl.carry_out / I"}, {"SHOW sluice.ddl.carry_out", `row ["exact"] / SHOW / I`},
		{"SET sluice.ddl.carry_out = 'nope'; CREATE TABLE t (id int)", "error|22023| / I"}, {"SELECT count(*) FROM t", "error|42P01| / I"},
		{"SET sluice.ddl.in_transactions = 'autocommit'; BEGIN; CREATE TABLE t (id int); CREATE TABLE u (id int); COMMIT", "SET / BEGIN / CREATE TABLE / CREATE TABLE / COMMIT / NOTICE|00000|ddl.in / WARNING|01000|a part / I"},
		{"SHOW sluice.ddl.in_transactions", `row ["autocommit"] / SHOW / I`}, {"RESET ALL", "RESET / I"},
		{"BEGIN", "BEGIN / T"}, {"SET sluice.ddl.carry_out = 'all'; SELECT 1", `SET / row ["1"] / SELECT 1 / NOTICE|00000|ddl.carry_out / T`}, {"ROLLBACK", "ROLLBACK / I"}, {"SHOW sluice.ddl.carry_out", `row ["exact"] / SHOW / I`},
		{"BEGIN", "BEGIN / T"}, {"INSERT INTO kept VALUES (1)", "INSERT 0 1 / T"}, {"SET sluice.ddl.carry_out = 'all'; SELECT 1", "error|25001| / E"}, {"ROLLBACK", "ROLLBACK / I"},
		{"SET sluice.ddl.carry_out = 'all'; SET sluice.ddl.carry_out = 'exact'", "SET / SET / NOTICE|00000|ddl.carry_out / I"},
	}},
	{name: "by set_config", steps: [][2]string{
		{"SELECT set_config('sluice.ddl.carry_out', 'ALL', false)", `row ["all"] / SELECT 1 / NOTICE|00000|ddl.carry_out is all / I`}, {"SHOW sluice.ddl.in_transactions", `row ["autocommit-destructive"] / SHOW / I`},
		{"SELECT pg_catalog.set_config('sluice.ddl.carry_out', 'exact', false) AS a, set_config('statement_timeout', '60000', false)", `row ["exact" "1min"] / SELECT 1 / I`},
		{"SELECT set_config('sluice.ddl.set_not_null', 'check', false)", "error|42501| / I"}, {"SELECT set_config('sluice.nope', 'x', false)", "error|42704| / I"}, {"SELECT set_config('sluice.ddl.carry_out', 'x', false)", "error|22023| / I"},
		{"BEGIN", "BEGIN / T"}, {"SELECT set_config('sluice.ddl.carry_out', 'all', true)", `row ["all"] / SELECT 1 / NOTICE| / T`}, {"COMMIT", "COMMIT / I"}, {"SHOW sluice.ddl.carry_out", `row ["exact"] / SHOW / I`},
		{"SELECT set_config('sluice.ddl.add_column_default', 'backfill', false); SHOW sluice.ddl.add_column_default", `row ["backfill"] / SELECT 1 / row ["backfill"] / SHOW / NOTICE| / I`},
		{"SELECT 1; SELECT set_config('sluice.ddl.add_column_default', 'refuse', true); SHOW sluice.ddl.add_column_default", `row ["1"] / SELECT 1 / row ["refuse"] / SELECT 1 / row ["refuse"] / SHOW / I`},
		{"SHOW sluice.ddl.add_column_default", `row ["backfill"] / SHOW / I`},
	}},
	{name: "in the midst of a string", steps: [][2]string{
		{"SET LOCAL sluice.ddl.carry_out = 'all'; CREATE TABLE s (id int PRIMARY KEY); ALTER TABLE s ADD COLUMN m int DEFAULT 7; INSERT INTO s VALUES (1)",
			"SET / CREATE TABLE / ALTER TABLE / INSERT 0 1 / NOTICE|00000|ddl.carry_out is all / WARNING|01000|a part / WARNING|01000|a part / I"},
		{"SELECT m FROM s", `row ["7"] / SELECT 1 / I`}, {"SHOW sluice.ddl.carry_out", `row ["exact"] / SHOW / I`},
		{"INSERT INTO s VALUES (2); SET sluice.ddl.add_column_default = 'backfill'; SHOW sluice.ddl.add_column_default; SELECT 1/0", `INSERT 0 1 / SET / row ["backfill"] / SHOW / error|22012| / NOTICE| / I`},
		{"SHOW sluice.ddl.add_column_default", `row ["refuse"] / SHOW / I`}, {"SELECT count(*) FROM s", `row ["1"] / SELECT 1 / I`},
		{"SELECT 1; SET sluice.ddl.set_not_null = 'check'; SELECT 2", `row ["1"] / SELECT 1 / error|42501| / I`},
		{"CREATE TABLE late (id int); SET sluice.ddl.carry_out = 'all'", "CREATE TABLE / error|25001| / I"}, {"SELECT count(*) FROM late", "error|42P01| / I"},
		{"BEGIN; INSERT INTO s VALUES (2); COMMIT; SET sluice.ddl.carry_out = 'all'; ALTER TABLE s ADD COLUMN l int DEFAULT 8; SELECT count(l) FROM s",
			`BEGIN / INSERT 0 1 / COMMIT / SET / ALTER TABLE / row ["2"] / SELECT 1 / NOTICE|00000|ddl.carry_out / WARNING|01000|a part / I`},
		{"SET sluice.ddl.carry_out = 'exact'; BEGIN; SELECT 1/0; COMMIT", "SET / BEGIN / error|22012| / E"}, {"ROLLBACK", "ROLLBACK / I"}, {"SHOW sluice.ddl.carry_out", `row ["all"] / SHOW / I`},
		{"SELECT 1; RESET ALL; SHOW sluice.ddl.add_column_default; SELECT 2", `row ["1"] / SELECT 1 / RESET / row ["refuse"] / SHOW / row ["2"] / SELECT 1 / I`},
		{"SELECT 1; SET sluice.ddl.add_column_default = 'backfill'; SAVEPOINT a", "error|0A000|a setting of Sluice's own cannot be changed in this string / I"}, {"SHOW sluice.ddl.add_column_default", `row ["refuse"] / SHOW / I`},
		{"BEGIN", "BEGIN / T"}, {"SELECT 1/0", "error|22012| / E"}, {"ROLLBACK; SET sluice.ddl.carry_out = 'exact'", "ROLLBACK / error|0A000|a setting of Sluice's own / I"},
		{"RESET sluice.ddl.carry_out;", "RESET / I"}, {"RESET ALL; SELECT 1", `RESET / row ["1"] / SELECT 1 / I`}, {"/* a */ SET sluice.ddl.carry_out = 'exact' -- b", "SET / I"},
	}},
	{name: "how a block is committed is settled with its first statement", steps: [][2]string{
		{"BEGIN", "BEGIN / T"}, {"SET LOCAL sluice.ddl.in_transactions = 'autocommit'", "SET / NOTICE| / T"}, {"INSERT INTO kept VALUES (3)", "INSERT 0 1 / T"},
		{"CREATE TABLE a (id int)", "CREATE TABLE / WARNING|01000|a part / T"}, {"SHOW sluice.ddl.in_transactions", `row ["autocommit"]`},
		{"CREATE TABLE b (id int)", "CREATE TABLE / WARNING|01000|a part / T"}, {"SET sluice.ddl.add_column_default = backfill", "SET / NOTICE| / T"}, {"SET sluice.ddl.in_transactions = autocommit", "SET / NOTICE| / T"},
		{"COMMIT", "COMMIT / I"}, {"SHOW sluice.ddl.in_transactions", `row ["autocommit"]`}, {"RESET ALL", "RESET / I"},
		{"BEGIN", "BEGIN / T"}, {"CREATE TABLE c (id int)", "CREATE TABLE / T"}, {"CREATE TABLE d (id int)", "error|0A000| / E"}, {"ROLLBACK", "ROLLBACK / I"},
		{"BEGIN", "BEGIN / T"}, {"SELECT 1", `row ["1"] / SELECT 1 / T`}, {"SET LOCAL sluice.ddl.carry_out = 'all'", "error|25001|\"sluice.ddl.carry_out\" must be set before any other statement of the transaction / E"}, {"ROLLBACK", "ROLLBACK / I"},
		{"BEGIN", "BEGIN / T"}, {"SELECT 1", `row ["1"] / SELECT 1 / T`}, {"COMMIT; BEGIN", "COMMIT / BEGIN / T"}, {"SET LOCAL sluice.ddl.carry_out = 'all'", "SET / NOTICE| / T"}, {"ROLLBACK", "ROLLBACK / I"},
		{"BEGIN", "BEGIN / T"}, {"SELECT 1", `row ["1"] / SELECT 1 / T`}, {"ROLLBACK; BEGIN; SELECT 1", `ROLLBACK / BEGIN / row ["1"] / SELECT 1 / T`}, {"SET LOCAL sluice.ddl.carry_out = 'all'", "error|25001| / E"}, {"ROLLBACK", "ROLLBACK / I"},
		{"BEGIN", "BEGIN / T"}, {"SAVEPOINT a", "SAVEPOINT / T"}, {"SET sluice.ddl.in_transactions = 'autocommit'", "error|25001| / E"}, {"ROLLBACK", "ROLLBACK / I"},
		{"BEGIN READ ONLY", "BEGIN / T"}, {"SET sluice.ddl.in_transactions = 'autocommit'", "SET / NOTICE| / T"}, {"INSERT INTO kept VALUES (1)", "error|25006| / E"}, {"ROLLBACK", "ROLLBACK / I"},
		{"BEGIN", "BEGIN / T"}, {"SET sluice.ddl.in_transactions = 'autocommit'", "SET / NOTICE| / T"}, {"RESET ALL", "RESET / T"}, {"COMMIT", "COMMIT / I"}, {"SHOW sluice.ddl.in_transactions", `row ["refuse"]`},
	}},
	{name: "a RESET ALL", steps: [][2]string{
		{"BEGIN", "BEGIN / T"}, {"SET LOCAL sluice.ddl.in_transactions = 'autocommit'", "SET / NOTICE| / T"}, {"INSERT INTO kept VALUES (3)", "INSERT 0 1 / T"},
		{"RESET ALL", "RESET / T"}, {"SHOW sluice.ddl.in_transactions", `row ["refuse"]`}, {"CREATE TABLE a (id int)", "CREATE TABLE / WARNING|01000|a part / T"},
		{"ROLLBACK", "ROLLBACK / WARNING|01000|what was / I"},
		{"BEGIN", "BEGIN / T"}, {"CREATE TABLE b (id int)", "CREATE TABLE / T"}, {"CREATE TABLE c (id int)", "error|0A000| / E"}, {"ROLLBACK", "ROLLBACK / I"},
	}},
	{name: "SET LOCAL holds in every part", steps: [][2]string{
		{"BEGIN", "BEGIN / T"}, {"SET LOCAL sluice.ddl.carry_out = 'all'", "SET / NOTICE| / T"}, {"CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE / T"},
		{"ALTER TABLE a ADD COLUMN m int DEFAULT 7", "ALTER TABLE / WARNING|01000|a part / WARNING|01000|a part / T"}, {"ALTER TABLE a ADD COLUMN l int DEFAULT 8", "ALTER TABLE / WARNING|01000|a part / T"},
		{"ALTER TABLE a ALTER COLUMN l SET NOT NULL", "ALTER TABLE / WARNING|01000|column / WARNING|01000|a part / T"}, {"DROP TABLE a", "DROP TABLE / T"},
		{"CREATE TABLE a (id int)", "CREATE TABLE / WARNING|01000|a part / T"}, {"COMMIT", "COMMIT / I"},
		{"SHOW sluice.ddl.carry_out", `row ["exact"]`}, {"ALTER TABLE kept ADD COLUMN m int DEFAULT 7", "error|0A000| / I"},
	}},
	{name: "what is sent behind an end goes by what holds there", steps: [][2]string{
		{"BEGIN", "BEGIN / T"}, {"SET LOCAL sluice.ddl.add_column_default = 'backfill'", "SET / NOTICE| / T"}, {"SELECT 1", `row ["1"] / SELECT 1 / T`},
		{"COMMIT ;; ALTER TABLE kept ADD COLUMN m int DEFAULT 7", "COMMIT / error|0A000|ALTER TABLE ADD COLUMN with constraint / I"},
		{"SET sluice.ddl.add_column_default = 'backfill'", "SET / NOTICE| / I"}, {"ALTER TABLE kept ADD COLUMN m int DEFAULT 7", "ALTER TABLE / I"},
		{"BEGIN ;; SET LOCAL sluice.ddl.in_transactions = 'autocommit' ;; SELECT 1", `BEGIN / SET / row ["1"] / SELECT 1 / NOTICE| / T`},
		{"CREATE TABLE g (id int)", "CREATE TABLE / T"}, {"CREATE TABLE h (id int)", "CREATE TABLE / WARNING|01000|a part / T"},
		{"COMMIT ;; BEGIN ;; CREATE TABLE i (id int)", "COMMIT / BEGIN / CREATE TABLE / T"}, {"CREATE TABLE j (id int)", "error|0A000| / E"}, {"ROLLBACK", "ROLLBACK / I"},
		{"BEGIN ;; SET LOCAL sluice.ddl.in_transactions = 'autocommit' ;; SELECT 1", `BEGIN / SET / row ["1"] / SELECT 1 / NOTICE| / T`},
		{"COMMIT ;; BEGIN ;; CREATE TABLE i (id int)", "COMMIT / BEGIN / CREATE TABLE / T"}, {"CREATE TABLE j (id int)", "error|0A000| / E"}, {"ROLLBACK", "ROLLBACK / I"},
	}},
}

// pipe sends statements with one Sync, or a string.
func pipe(ctx context.Context, c *pgconn.PgConn, notices *[]string, sql, way string) []string {
	if all := strings.Split(sql, " ;; "); len(all) > 1 {
		return tellAll(ctx, c, notices, func() (results []*pgconn.Result, err error) {
			err = pipelined(ctx, c, all, func(r *pgconn.Result) { results = append(results, r) })
			return results, err
		})
	}
	if strings.Contains(sql, "; ") {
		way = "simple"
	}
	return ask(ctx, c, notices, sql, way, "")
}

// begins reports whether each part of an answer begins as is wanted; a row alone is enough.
func begins(got []string, want string) bool {
	wants := strings.Split(want, " / ")
	if len(wants) == 1 && len(got) > 1 {
		got = got[:1]
	}
	if len(got) != len(wants) {
		return false
	}
	for i, w := range wants {
		if !strings.HasPrefix(got[i], w) {
			return false
		}
	}
	return true
}

// startChosen starts Sluice with clients that may choose all but ddl.set_not_null.
func startChosen(t *testing.T, env harness.Env) *partsRig {
	t.Helper()
	return startParts(t, "auto", harness.Env{"DSQL_CLIENT_MAY_SET": "ddl.in_transactions,ddl.add_column_default,ddl.carry_out,rewrite.create_index_wait"}.With(env))
}

// dialChosen connects with startup options, and gathers all notices.
func (r *partsRig) dialChosen(t *testing.T, user, options string) (*pgconn.PgConn, *[]string, error) {
	t.Helper()
	dsn, err := url.Parse(r.sluice.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	dsn.User = url.User(user)
	config, err := pgconn.ParseConfig(dsn.String())
	if err != nil {
		t.Fatal(err)
	}
	notices := new([]string)
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		*notices = append(*notices, strings.Join([]string{n.Severity, n.Code, n.Message, n.Detail, n.Hint}, "|"))
	}
	for option := range strings.FieldsSeq(options) {
		config.RuntimeParams["options"] += " -c " + option
	}
	c, err := pgconn.ConnectConfig(t.Context(), config)
	if err == nil {
		t.Cleanup(func() { c.Close(context.Background()) })
	}
	return c, notices, err
}

// Choices are settings as others are: they are checked, told of, and end with their transaction.
func TestChoicesAreSettings(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]harness.Env{"backends are shared": nil, "kept backend": {"DSQL_PAIRING": "session"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startChosen(t, env)
			for n, script := range chosenScripts {
				for _, way := range []string{"simple", "extended"} {
					if way == "extended" && script.name == "through transactions" {
						continue // by the extended protocol a SET ends what can be returned to
					}
					schema := fmt.Sprintf("%s%d", way, n)
					r.pg.SQL(t, "postgres", fmt.Sprintf("CREATE SCHEMA %s; CREATE TABLE %[1]s.kept (n int); INSERT INTO %[1]s.kept VALUES (1)", schema))
					c, notices, err := r.dialChosen(t, "admin", "search_path="+schema+" "+script.startup)
					if err != nil {
						t.Fatal(err)
					}
					for _, step := range script.steps {
						if got := pipe(t.Context(), c, notices, step[0], way); !begins(got, step[1]) {
							t.Errorf("%s, %s: %s\n got %s\nwant %s", script.name, way, step[0], strings.Join(got, " / "), step[1])
						}
					}
					c.Close(t.Context())
				}
			}
		})
	}
}

// What the startup gives is checked and told of, and so are the values that users have; each is
// counted.
func TestChoicesAtStartup(t *testing.T) {
	t.Parallel()
	r := startChosen(t, harness.Env{"DSQL_CLIENT_USERS": "migrator:ddl.carry_out=all,migrator:ddl.set_not_null=refuse,a:b:ddl.in_transactions=autocommit"})
	for _, test := range []struct{ user, options, want string }{
		{"admin", "", ""},
		{"admin", "sluice.ddl.in_transactions=autocommit", "NOTICE|00000|ddl.in_transactions is autocommit for this client: "},
		{"admin", "sluice.ddl.carry_out=all sluice.ddl.in_transactions=REFUSE", "NOTICE|00000|ddl.carry_out is all"},
		{"admin", "sluice.ddl.carry-out=all", "NOTICE|00000|ddl.carry_out is all"},
		{"admin", "sluice.ddl.carry_out=all client_min_messages=warning", ""},
		{"admin", "sluice.ddl.set_not_null=check", "error|42501|permission denied to set parameter \"sluice.ddl.set_not_null\""},
		{"admin", "sluice.ddl.nope=check", "error|42704|unrecognized configuration parameter \"sluice.ddl.nope\""},
		{"admin", "sluice.ddl.carry_out=check", "error|22023|invalid value for parameter \"sluice.ddl.carry_out\": \"check\"||Available values: exact, all."},
		{"admin", "sluice.retry=off", ""},
		{"migrator", "", ""},
	} {
		c, notices, err := r.dialChosen(t, test.user, test.options)
		got := strings.Join(*notices, " ")
		if e, ok := errors.AsType[*pgconn.PgError](err); ok {
			got = strings.Join([]string{"error", e.Code, e.Message, e.Detail, e.Hint}, "|")
		} else if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s with %q: %q, want %q", test.user, test.options, got, test.want)
		}
		if err == nil {
			c.Close(t.Context())
		}
	}
	for user, want := range map[string]string{"admin": "refuse refuse refuse", "migrator": "autocommit-destructive backfill refuse", "a:b": "autocommit refuse refuse"} {
		c, notices, err := r.dialChosen(t, user, "")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, key := range []string{"in_transactions", "add_column_default", "set_not_null"} {
			got = append(got, ask(t.Context(), c, notices, "SHOW sluice.ddl."+key, "simple", "")[0])
		}
		if all := strings.NewReplacer(`row ["`, "", `"]`, "").Replace(strings.Join(got, " ")); all != want {
			t.Errorf("%s has %s, want %s", user, all, want)
		}
	}
	text, err := r.sluice.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]float64{"ddl.carry_out": 5, "ddl.in_transactions": 3, "ddl.set_not_null": 2, "rewrite.create_index_wait": 0} {
		if got, _ := harness.SumMetric(t, text, "dsql_choices_total", key); got != want {
			t.Errorf("%v choices of %s, want %v", got, key, want)
		}
	}
}

// One text means to each client what that one has chosen, whoever sent it before, and however it is
// sent; so it does to one client in front of a SET and behind it.
func TestChoicesShareNoPlan(t *testing.T) {
	t.Parallel()
	r := startChosen(t, nil)
	r.pg.SQL(t, "postgres", "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)")
	const sql = "ALTER TABLE kept ADD COLUMN m int DEFAULT 7"
	const refused, carried = "error|0A000|ALTER TABLE ADD COLUMN with constraint", "ALTER TABLE"
	for _, way := range []string{"simple", "extended", "prepared"} {
		dial := func(options string) func(sql, want string) {
			c, notices, err := r.dialChosen(t, "admin", options)
			if err != nil {
				t.Fatal(err)
			}
			if way == "prepared" { // where it is refused there is nothing to prepare
				ask(t.Context(), c, notices, "SET sluice.ddl.carry_out = 'all'", "simple", "")
				if _, err := c.Prepare(t.Context(), "s", sql, nil); err != nil {
					t.Fatal(err)
				}
				ask(t.Context(), c, notices, "RESET sluice.ddl.carry_out", "simple", "")
			}
			return func(text, want string) {
				by := "simple"
				if text == sql {
					by = way
				}
				if got := ask(t.Context(), c, notices, text, by, "s"); !strings.HasPrefix(got[0], want) {
					t.Errorf("%s, %q: %s: %q, want %s", way, options, text, got, want)
				}
			}
		}
		plain, fills := dial(""), dial("sluice.ddl.add_column_default=backfill")
		for range 2 {
			plain(sql, refused)
			fills(sql, carried)
			plain(sql, refused)
			fills("ALTER TABLE kept DROP COLUMN m", carried)
			fills("SET sluice.ddl.add_column_default = refuse", "SET")
			fills(sql, refused)
			plain(sql, refused)
			fills("RESET sluice.ddl.add_column_default", "RESET")
			plain("SET sluice.ddl.carry_out = 'all'", "SET")
			plain(sql, carried)
			plain("ALTER TABLE kept DROP COLUMN m", carried)
			plain("RESET sluice.ddl.carry_out", "RESET")
		}
	}
}
