package rewriting

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// heard is a client that keeps the notices which it is sent.
type heard struct {
	*pgx.Conn
	notices []string
}

func hears(t *testing.T, sluice *harness.Sluice, mode pgx.QueryExecMode, options string) *heard {
	t.Helper()
	config, err := pgx.ParseConfig(sluice.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	h := &heard{}
	config.DefaultQueryExecMode = mode
	if options != "" {
		config.RuntimeParams["options"] = options
	}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		h.notices = append(h.notices, n.Severity+" "+n.Code+" "+n.Message)
	}
	if h.Conn, err = pgx.ConnectConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(t.Context()) })
	return h
}

// says runs a statement, and is its tag or SQLSTATE, with the status behind it.
func (h *heard) says(t *testing.T, sql string) string {
	t.Helper()
	tag, err := h.Exec(t.Context(), sql)
	said := tag.String()
	if err != nil {
		told, ok := err.(*pgconn.PgError)
		if !ok {
			t.Fatalf("%s: %v", sql, err)
		}
		said = told.Code
	}
	return said + " " + string(h.PgConn().TxStatus())
}

// row is the one row of a query, its columns and their names.
func (h *heard) row(t *testing.T, sql string) string {
	t.Helper()
	rows, err := h.Query(t.Context(), sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var names []string
	for _, f := range rows.FieldDescriptions() {
		names = append(names, fmt.Sprint(f.Name, ":", f.DataTypeOID))
	}
	got, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if names == nil {
		for _, f := range rows.FieldDescriptions() {
			names = append(names, fmt.Sprint(f.Name, ":", f.DataTypeOID))
		}
	}
	return strings.Join(names, ",") + " " + fmt.Sprint(got)
}

// set_config of constants is a SET: by each way to send it, with the row that PostgreSQL has, and
// no backend is kept for it. What it sets is the client's alone, and ends with its transaction as
// PostgreSQL has it.
func TestSetConfig(t *testing.T) {
	_, sluice := standIn(t, nil)
	for name, mode := range cursorModes {
		t.Run(name, func(t *testing.T) {
			c, other := hears(t, sluice, mode, ""), hears(t, sluice, mode, "")
			for _, s := range []struct{ sql, want string }{
				{"SELECT set_config('timezone', 'asia/tokyo', false)", "set_config:25 [Asia/Tokyo]"},
				{"SELECT current_setting('TimeZone')", "current_setting:25 [Asia/Tokyo]"},
				{"SELECT pg_catalog.set_config('search_path', '', false) AS path", "path:25 []"},
				{"SELECT set_config('search_path', 'public', true)", "set_config:25 [public]"},
				{"SELECT current_schema() IS NULL", "?column?:16 [true]"},
				{"SELECT set_config('statement_timeout', '60000', false), set_config('application_name', 'told', false) AS b", "set_config:25,b:25 [1min told]"},
				{"SHOW statement_timeout", "statement_timeout:25 [1min]"},
				{"SELECT set_config('enable_seqscan', '0', true)", "set_config:25 [off]"},
				{"SHOW enable_seqscan", "enable_seqscan:25 [on]"},
			} {
				if got := c.row(t, s.sql); got != s.want {
					t.Errorf("%s: %s, want %s", s.sql, got, s.want)
				}
				if got := other.row(t, "SELECT current_setting('TimeZone') || current_schema()"); got != "?column?:25 [UTCpublic]" {
					t.Errorf("another client behind %s: %s", s.sql, got)
				}
			}
			c.says(t, "BEGIN")
			c.row(t, "SELECT set_config('timezone', 'Europe/Berlin', false)")
			c.row(t, "SELECT set_config('extra_float_digits', '0', true)")
			if got := c.row(t, "SELECT current_setting('timezone'), (0.1::float8 + 0.2::float8)::text AS f"); got != "current_setting:25,f:25 [Europe/Berlin 0.3]" {
				t.Errorf("in the block: %s", got)
			}
			c.says(t, "ROLLBACK")
			if got := c.row(t, "SHOW timezone"); got != "TimeZone:25 [Asia/Tokyo]" {
				t.Errorf("behind ROLLBACK: %s", got)
			}
			for sql, want := range map[string]string{
				"SELECT set_config('app.tenant', '7', false)": "0A000 I", "SELECT set_config('timezone', 'nowhere', false)": "0A000 I",
				"SELECT set_config('extra_float_digits', '99', false)": "22023 I", "SELECT set_config('timezone', 'UTC', false), set_config('datestyle', 'ISO', false)": "0A000 I",
			} {
				if got := c.says(t, sql); got != want {
					t.Errorf("%s: %s, want %s", sql, got, want)
				}
			}
			if got := c.says(t, "SELECT 1"); got != "SELECT 1 I" || len(c.notices) > 0 {
				t.Errorf("%s, told %q", got, c.notices)
			}
		})
	}
	if pins := count(t, sluice, "dsql_pins_total"); pins != 0 {
		t.Errorf("%v sessions kept a backend", pins)
	}
}

// LOCK TABLE in ACCESS SHARE MODE is for blocks, and for tables that are there; other modes are
// refused.
func TestLockTable(t *testing.T) {
	_, sluice := standIn(t, nil)
	for name, mode := range cursorModes {
		c := hears(t, sluice, mode, "")
		for sql, want := range map[string]string{
			"LOCK TABLE shards IN ACCESS SHARE MODE":                             "25P01 I",
			"BEGIN; LOCK TABLE shards, public.tasks IN ACCESS SHARE MODE NOWAIT": "LOCK TABLE T",
			"BEGIN; SET TRANSACTION READ ONLY; LOCK shards IN ACCESS SHARE MODE": "LOCK TABLE T",
			"BEGIN; LOCK TABLE public.nosuch IN ACCESS SHARE MODE":               "42P01 E",
			"BEGIN; LOCK TABLE shards":                                           "0A000 E",
			"BEGIN; LOCK TABLE shards IN SHARE MODE":                             "0A000 E",
			"BEGIN; SELECT 1/0; LOCK TABLE shards IN ACCESS SHARE MODE":          "25P02 E",
		} {
			got := ""
			for one := range strings.SplitSeq(sql, "; ") {
				got = c.says(t, one)
			}
			if got != want {
				t.Errorf("%s: %s: %s, want %s", name, sql, got, want)
			}
			c.says(t, "ROLLBACK")
		}
		_, err := c.Exec(t.Context(), "BEGIN; LOCK TABLE nosuch IN ACCESS SHARE MODE", pgx.QueryExecModeSimpleProtocol)
		if told, ok := err.(*pgconn.PgError); !ok || told.Code != "42P01" || told.Position != 0 || told.Message != `relation "nosuch" does not exist` {
			t.Errorf("%s: %+v", name, err)
		}
		c.says(t, "ROLLBACK")
	}
}

// count is the sum of a metric over its labels.
func count(t *testing.T, sluice *harness.Sluice, name string) (n float64) {
	t.Helper()
	text, err := sluice.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ") {
			var value float64
			fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &value)
			n += value
		}
	}
	return n
}

// serializable are ways to ask for SERIALIZABLE: what each is answered where it is refused, and
// how the client stands then, as behind any error at that statement; and where it is taken for
// less, with so many warnings.
var serializable = []struct{ sqls, refused, weakened string }{
	{"BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1; ROLLBACK", "0A000 I, SELECT 1 I, ROLLBACK I", "BEGIN T, SELECT 1 T, ROLLBACK I"},
	{"BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY; SHOW transaction_read_only; COMMIT", "0A000 I, SHOW I, COMMIT I", "BEGIN T, SHOW T, COMMIT I"},
	{"BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT 1; ROLLBACK", "BEGIN T, 0A000 E, 25P02 E, ROLLBACK I", "BEGIN T, SET T, SELECT 1 T, ROLLBACK I"},
	{"BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY; INSERT INTO t VALUES (1); ROLLBACK", "BEGIN T, 0A000 E, 25P02 E, ROLLBACK I", "BEGIN T, SET T, 25006 E, ROLLBACK I"},
	{"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT 1", "0A000 I, SELECT 1 I", "SET I, SELECT 1 I"},
	{"SET default_transaction_isolation TO 'serializable'; SELECT 1", "0A000 I, SELECT 1 I", "SET I, SELECT 1 I"},
}

func TestSerializable(t *testing.T) {
	for _, weaken := range []bool{false, true} {
		env := harness.Env{}
		if weaken {
			env["DSQL_REWRITE_SERIALIZABLE"] = "repeatable_read"
		}
		_, sluice := standIn(t, env)
		hears(t, sluice, pgx.QueryExecModeExec, "").says(t, "CREATE TABLE t (n int)")
		asked := 0
		for name, mode := range cursorModes {
			for _, c := range serializable {
				h := hears(t, sluice, mode, "")
				var got []string
				for sql := range strings.SplitSeq(c.sqls, "; ") {
					got = append(got, h.says(t, sql))
				}
				want, warned := c.refused, 0
				if weaken {
					want, warned = c.weakened, 1
					asked++
				}
				warnings := slices.DeleteFunc(h.notices, func(n string) bool { return !strings.HasPrefix(n, "WARNING 01000 SERIALIZABLE") })
				if s := strings.Join(got, ", "); s != want || len(warnings) != warned {
					t.Errorf("weaken %v, %s, %s: %s, want %s, told %q", weaken, name, c.sqls, s, want, h.notices)
				}
			}
		}
		if n := count(t, sluice, "dsql_serializable_weakened_total"); n != float64(asked) {
			t.Errorf("weaken %v: counted %v, want %d", weaken, n, asked)
		}
		if pins := count(t, sluice, "dsql_pins_total"); pins != 0 {
			t.Errorf("weaken %v: %v sessions kept a backend", weaken, pins)
		}
		if got := hears(t, sluice, pgx.QueryExecModeExec, "").says(t, "SELECT 1"); got != "SELECT 1 I" {
			t.Errorf("weaken %v: another client: %s", weaken, got)
		}
	}
}

// What a cluster refuses leaves nothing on its backend, and keeps none; and DISCARD ALL gives back
// the one that a session keeps. With a single backend nobody else would be served.
func TestBackendsAreNotKept(t *testing.T) {
	_, sluice := standIn(t, harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "1", "DSQL_RESERVOIR_ACQUIRE_TIMEOUT": "3s"})
	other := hears(t, sluice, pgx.QueryExecModeExec, "")
	for name, mode := range cursorModes {
		for _, sql := range []string{"LISTEN a", "CREATE TEMP TABLE tmp (n int)", "SELECT pg_advisory_lock(1)", "DO $$BEGIN END$$", "SET ROLE nobody", "LOAD 'a'",
			"SELECT set_config('app.a', lower('B'), false)", "SELECT n.set_config FROM set_config('app.a', 'b', false) AS n", "SET a.b FROM CURRENT", "PREPARE p AS SELECT nosuch",
			"SELECT currval('nosuch')", "SET SESSION AUTHORIZATION nobody"} {
			c := hears(t, sluice, mode, "")
			if got := c.says(t, sql); strings.Contains(got, " 0 ") || !strings.HasSuffix(got, " I") || len(got) != len("0A000 I") {
				t.Errorf("%s: %s: %s, want an error", name, sql, got)
			}
			if got := other.says(t, "SELECT 1"); got != "SELECT 1 I" {
				t.Errorf("%s: another client behind %s: %s", name, sql, got)
			}
			c.Close(t.Context())
		}
		c := hears(t, sluice, mode, "")
		c.says(t, "PREPARE mine AS SELECT 7 AS seven")
		if got := c.says(t, "EXECUTE mine") + ", " + c.says(t, "DISCARD ALL") + ", " + other.says(t, "SELECT 1") + ", " + c.says(t, "SELECT 1") + ", " + c.says(t, "EXECUTE mine") + ", " + other.says(t, "SELECT 1"); got !=
			"SELECT 1 I, DISCARD ALL I, SELECT 1 I, SELECT 1 I, 26000 I, SELECT 1 I" {
			t.Errorf("%s: %s", name, got)
		}
		c.Close(t.Context())
	}
}

// Settings of transactions that say what is so anyway are taken, also at the startup; what would
// make a difference is refused, with a hint.
func TestSettingsOfTransactions(t *testing.T) {
	_, sluice := standIn(t, nil)
	for name, mode := range cursorModes {
		c := hears(t, sluice, mode, "-c default_transaction_read_only=off -c default_transaction_isolation=read\\ committed")
		for _, s := range []struct{ sql, want string }{
			{"SET default_transaction_read_only TO off", "SET I"}, {"SET default_transaction_read_only TO DEFAULT", "SET I"}, {"RESET default_transaction_read_only", "RESET I"},
			{"SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "SET I"}, {"SET default_transaction_isolation TO 'read committed'", "SET I"},
			{"SET default_transaction_isolation TO DEFAULT", "SET I"}, {"RESET default_transaction_isolation", "RESET I"},
			{"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SET I"}, {"CREATE TABLE never (n int)", "25006 I"}, {"SET default_transaction_read_only = off", "SET I"},
			{"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY, DEFERRABLE", "0A000 I"},
			{"SHOW default_transaction_read_only", "SHOW I"}, {"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET I"},
		} {
			if got := c.says(t, s.sql); got != s.want {
				t.Errorf("%s: %s: %s, want %s", name, s.sql, got, s.want)
			}
		}
		if want := []string{"WARNING 25P01 SET TRANSACTION can only be used in transaction blocks"}; !slices.Equal(c.notices, want) {
			t.Errorf("%s: told %q", name, c.notices)
		}
	}
	if got := hears(t, sluice, pgx.QueryExecModeExec, "-c default_transaction_read_only=on").says(t, "CREATE TABLE never (n int)"); got != "25006 I" {
		t.Errorf("read only by the startup: %s", got)
	}
	config, err := pgx.ParseConfig(sluice.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["options"] = "-c default_transaction_isolation=serializable"
	if _, err := pgx.ConnectConfig(t.Context(), config); err == nil || !strings.Contains(err.Error(), "0A000") {
		t.Errorf("serializable by the startup: %v", err)
	}
}
