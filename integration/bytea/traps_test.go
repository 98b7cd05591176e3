package bytea

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// trapTables are what the traps are set in; d and the columns of p are in no key.
const trapTables = `CREATE TABLE t (k bytea PRIMARY KEY, n int, d bytea, u bytea UNIQUE);
CREATE TABLE p (k bytea, n int);
CREATE TABLE s (a int, k bytea DEFAULT '\x7a', PRIMARY KEY (a, k), CHECK (length(k) < 5));
CREATE VIEW v AS SELECT * FROM t;
INSERT INTO t VALUES ('\x61', 3, '\x62', NULL), ('\x', 1, '\x6161', '\x01'), ('\x62', 2, '\x61', NULL), ('\xff00', 2, NULL, '\x02');
INSERT INTO p VALUES ('\x61', 1), ('\x62', 2), (NULL, 3), ('\x63', 4);
INSERT INTO s (a) VALUES (1);
INSERT INTO s VALUES (1, '\x61'), (2, '\x61'), (3, '\x6262')`

// traps are texts that a simple rewriting gets wrong, by why it does. Their answers must be
// stock's. Behind a | stand parameters in text.
var traps = []struct {
	name  string
	texts []string
}{
	{"a name in ORDER BY is an output column first", []string{
		`SELECT n AS k, k AS z FROM t ORDER BY k, z`, `SELECT k FROM t ORDER BY k`, `SELECT k FROM t ORDER BY k DESC`, `SELECT length(k) AS k, n FROM t ORDER BY k, n`,
		`SELECT k AS n FROM t ORDER BY n`, `SELECT d AS k, k AS d FROM t ORDER BY k`, `SELECT DISTINCT k FROM t ORDER BY k`, `SELECT k FROM t UNION SELECT k FROM p ORDER BY k`,
		`SELECT DISTINCT ON (k) k, n FROM t ORDER BY k`, `SELECT DISTINCT ON (k) n AS k FROM t ORDER BY k`, `SELECT t.k FROM t ORDER BY t.k`, `SELECT k AS z FROM t ORDER BY z`,
		`SELECT n AS k, count(*) FROM t GROUP BY k ORDER BY 1, 2`, `SELECT length(k) AS k FROM t GROUP BY k ORDER BY k`, `SELECT k, count(*) FROM t GROUP BY 1 ORDER BY k`,
		`SELECT DISTINCT n FROM t ORDER BY k`, `SELECT k FROM t ORDER BY k || '\x00'`, `SELECT u FROM t ORDER BY u NULLS FIRST`, `SELECT k, k FROM t ORDER BY k`, `SELECT n AS k, k FROM t ORDER BY k`}},
	{"an ambiguity stays one", []string{
		`SELECT k FROM t, p`, `SELECT n FROM t JOIN p ON k = '\x61'`, `SELECT 1 FROM t, p WHERE k = '\x61'`, `SELECT t.k FROM t, p ORDER BY k, n`, `SELECT 1 FROM t JOIN s ON t.k = s.k GROUP BY k`,
		`UPDATE t SET n = 1 FROM p WHERE k = '\x61'`, `DELETE FROM t USING p WHERE t.k = k`, `SELECT (SELECT k) FROM t, p`}},
	{"a literal or parameter in a subquery or ARRAY is text", []string{
		`SELECT n FROM t WHERE k IN (SELECT '\x61')`, `SELECT n FROM t WHERE k = ANY (ARRAY['\x61'])`, `SELECT n FROM t WHERE k IN (SELECT $1)|\x61`, `SELECT n FROM t WHERE k = ANY (ARRAY[$1])|\x61`,
		`SELECT n FROM t WHERE (k, n) IN (SELECT '\x61', 3)`, `SELECT n FROM t WHERE k = (SELECT '\x61')`, `SELECT n FROM t WHERE k = ANY (ARRAY(SELECT $1))|\x61`,
		`SELECT n FROM t WHERE k IN (SELECT '\x61'::bytea)`, `SELECT n FROM t WHERE k = ANY (ARRAY['\x61', d])`, `SELECT n FROM t WHERE k = ANY (ARRAY['\x61']::bytea[])`, `SELECT n FROM t WHERE k IN (VALUES ('\x61'))`,
		`UPDATE t SET (k, n) = (SELECT '\x64', 4) WHERE n = 3`, `INSERT INTO s SELECT 7, '\x64'`, `INSERT INTO s SELECT 7, $1|\x65`, `SELECT n FROM t WHERE k = ANY ($1)|{"\\x61",NULL,"\\x"}`,
		`SELECT n FROM t WHERE k <> ALL ($1)|{"\\x61"}`, `SELECT n FROM t WHERE k = ANY ('{"\\x61"}')`}},
	{"ON sees the two sides of its join", []string{
		`SELECT t.n FROM p, t JOIN s ON t.k = s.k AND p.n = 1`, `SELECT count(*) FROM p, t JOIN s ON s.k = '\x61' AND u IS NULL`, `SELECT t.n FROM p JOIN t ON t.k = p.k, s WHERE s.k = t.k ORDER BY 1`,
		`SELECT 1 FROM p, t JOIN v ON d = '\x61'`, `SELECT t.n FROM (t JOIN p ON t.k = p.k) JOIN s ON s.k = t.k ORDER BY 1`}},
	{"names are made of columns", []string{
		`INSERT INTO t VALUES ('\x61', 9) ON CONFLICT ON CONSTRAINT t_pkey DO UPDATE SET n = excluded.n RETURNING *`, `INSERT INTO t (k, u) VALUES ('\x71', '\x01') ON CONFLICT ON CONSTRAINT t_u_key DO NOTHING`,
		`INSERT INTO s VALUES (1, '\x616161616161')`, `INSERT INTO t (n) VALUES (1)`, `INSERT INTO t VALUES ('\x61')`, `SELECT k, (k), t.k, k::bytea, k::text, coalesce(k), CASE WHEN n = 1 THEN k END, (SELECT k), ARRAY[k] FROM t ORDER BY 1`,
		`SELECT (t).k FROM t ORDER BY 1`, `UPDATE t SET k = NULL`, `SELECT no FROM t`, `SELECT t.no FROM t`}},
	{"a key can be NULL", []string{
		`SELECT u, n FROM t ORDER BY u, k`, `INSERT INTO t VALUES ('\x81', 1, NULL, NULL) RETURNING u`, `SELECT count(u), count(DISTINCT u) FROM t`, `SELECT k FROM t WHERE u IS NULL ORDER BY k`,
		`SELECT k FROM t WHERE u = NULL`, `SELECT k FROM t WHERE u IS DISTINCT FROM '\x01' ORDER BY k`, `SELECT k FROM t WHERE u NOT IN ('\x01', NULL)`, `SELECT k FROM t WHERE u NOT IN (SELECT u FROM t)`}},
	{"a parameter can have its escape format, or none", []string{
		`SELECT n FROM t WHERE k = $1|a`, `SELECT n FROM t WHERE k = $1|a\$b`, `SELECT n FROM t WHERE k = $1|`, `SELECT n FROM t WHERE k > $1 ORDER BY n|`, `SELECT n FROM t WHERE k = $1|\x6`,
		`SELECT n FROM t WHERE k = $1|\377\000`, `INSERT INTO s VALUES (9, $1)|\\`, `SELECT n FROM t WHERE k = 'a\000'`, `SELECT n FROM t WHERE k = '\x6'`}},
	{"the parser takes more than the server", []string{`SELECT n FROM t WHERE k = $1AND n = 3|a`, `SELECT n FROM t WHERE n = 1AND k = '\x61'`}},
	{"several columns of one source", []string{
		`UPDATE t SET (k, n) = (SELECT k || '\x01', n + 1) WHERE n = 1 RETURNING k, n`, `UPDATE t SET (k, d) = (d, k) WHERE k = '\x62' RETURNING *`, `UPDATE s SET (a, k) = ROW(a + 10, '\x' || k) RETURNING *`,
		`UPDATE t SET (u, d) = (SELECT p.k, p.k FROM p WHERE p.n = t.n LIMIT 1) WHERE n = 2 AND k = '\xff00' RETURNING u, d`, `UPDATE t SET (k, u) = (DEFAULT, DEFAULT) WHERE n = 1`, `UPDATE s SET (k) = ROW(DEFAULT) WHERE a = 2`}},
	{"a view is natural", []string{`SELECT * FROM v ORDER BY k`, `SELECT n FROM v WHERE k = $1|a`, `SELECT v.k FROM v JOIN t ON v.k = t.k ORDER BY v.k`, `SELECT v FROM v ORDER BY k`, `INSERT INTO p SELECT k, n FROM v WHERE n = 2`}},
	{"functions mix columns and values", []string{
		`SELECT greatest(k, d, '\x6161'), least(k, u), coalesce(u, k), nullif(k, '\x61'), CASE WHEN n > 1 THEN k ELSE d END FROM t ORDER BY k`, `SELECT count(*) FROM t WHERE coalesce(u, k) = k`,
		`SELECT k = ANY (ARRAY[d, u, k]) FROM t ORDER BY k`, `SELECT k || d, substr(k, 1, 1), md5(k), encode(k, 'hex'), length(k) FROM t ORDER BY k`, `SELECT CASE k WHEN '\x61' THEN 1 ELSE 2 END FROM t ORDER BY k`,
		`SELECT string_agg(k, ',' ORDER BY k DESC) FROM t`, `SELECT array_agg(k ORDER BY k) FROM t`, `SELECT first_value(k) OVER (PARTITION BY n ORDER BY k) FROM t ORDER BY 1`}},
	{"what does not exist for bytea", []string{`SELECT max(k) FROM t`, `SELECT upper(k) FROM t`, `SELECT k LIKE 'a' FROM t WHERE k = 'a'`, `SELECT k + 1 FROM t`, `SELECT n FROM t WHERE k = 1`, `SELECT n FROM t WHERE k = 'a'::text`, `SELECT k COLLATE "C" FROM t`}},
	{"defaults and checks", []string{`INSERT INTO s (a) VALUES (5) RETURNING k`, `INSERT INTO s VALUES (6, DEFAULT) RETURNING k`, `INSERT INTO s VALUES (6, '\x0102030405')`, `UPDATE s SET k = DEFAULT WHERE a = 3 RETURNING *`, `INSERT INTO s VALUES (8, DEFAULT), (8, '\x')`}},
	{"comments", []string{"SELECT /* k */ k -- k\n FROM t /* k = */ WHERE k/**/=/* '' */'a'", `SELECT k /* sluice:no-replay */ FROM t WHERE n = 3`}},
	{"a name can stand for something else", []string{
		`WITH t AS (SELECT '\x61'::bytea AS k) SELECT k FROM t`, `SELECT t.k FROM p AS t ORDER BY 1`, `SELECT p.k FROM t AS p ORDER BY 1`, `WITH p AS (SELECT k AS z, n AS k FROM t) SELECT k, z FROM p ORDER BY 1, 2`,
		`SELECT t.k FROM t AS x`, `SELECT k.n FROM t AS k ORDER BY 1`, `SELECT k FROM t AS k ORDER BY k.k`, `SELECT a.x FROM t AS a (x) ORDER BY x`, `SELECT a.k FROM t AS a (x)`, `SELECT t.k FROM t, LATERAL (SELECT t.k) AS x (k) WHERE x.k = t.k ORDER BY 1`,
		`WITH t AS (SELECT * FROM t) SELECT * FROM t ORDER BY k`, `SELECT x.k FROM (SELECT * FROM t) AS x WHERE x.k = 'a'`, `SELECT public.t.k FROM public.t ORDER BY public.t.k`, `SELECT count(*) FROM T WHERE "k" = 'a' AND T.K = 'a'`}},
	{"whole rows, stars and merged columns", []string{
		`SELECT t FROM t ORDER BY k`, `SELECT t.* FROM t JOIN p USING (k) ORDER BY k`, `SELECT * FROM t JOIN p USING (k) ORDER BY k`, `SELECT * FROM t NATURAL JOIN s ORDER BY k`, `SELECT k FROM t FULL JOIN s USING (k) ORDER BY k`,
		`SELECT count(t), count(t.*), count(*) FROM t`, `SELECT row_to_json(t) FROM t ORDER BY k`, `SELECT * FROM t ORDER BY k`, `TABLE t`, `SELECT t.k, s.* FROM t JOIN s USING (k) ORDER BY 1, 2`, `SELECT (x).k FROM (SELECT t AS x FROM t) AS y ORDER BY 1`}},
	{"writing from queries", []string{
		`INSERT INTO s SELECT n + 20, k FROM t WHERE length(k) < 5`, `INSERT INTO s SELECT DISTINCT 30, k FROM t WHERE n < 3`, `INSERT INTO s (k, a) SELECT k, 40 FROM p WHERE k IS NOT NULL UNION SELECT d, 41 FROM t WHERE d IS NOT NULL`,
		`INSERT INTO s SELECT * FROM s AS x ON CONFLICT DO NOTHING`, `INSERT INTO s VALUES (1, '\x61') ON CONFLICT (a, k) DO UPDATE SET k = excluded.k || '\x62' WHERE s.k = excluded.k RETURNING k`, `INSERT INTO s TABLE s`,
		`UPDATE t SET d = p.k FROM p WHERE p.k = t.k RETURNING t.k, p.k`, `DELETE FROM s USING p WHERE p.k = s.k AND s.a = 2 RETURNING s.*`, `WITH x AS (DELETE FROM s WHERE a > 20 RETURNING k, a) SELECT * FROM x ORDER BY k, a`, `INSERT INTO t VALUES ('\x61', 1), ('\x99')`}},
}

// TestStatements runs statements in plain PostgreSQL and through Sluice, over equal tables.
func TestStatements(t *testing.T) {
	t.Parallel()
	for _, m := range mappings {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			pair{m, sessionIn(t, pgtest.Shared(t)), m.throughSluice(t)}.play(t)
		})
	}
}

// play runs what every mapping must answer as stock does.
func (p pair) play(t *testing.T) {
	for _, conn := range []*pgconn.PgConn{p.stock, p.mapped} {
		for _, text := range strings.Split(trapTables, ";\n") {
			if _, err := conn.Exec(t.Context(), text).ReadAll(); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
	}
	t.Run("traps", p.traps)
	t.Run("errors name the client's columns", p.errors)
	t.Run("refused", p.refused)
	t.Run("a star is stale", p.stale)
}

// pair is a session in each of the two databases.
type pair struct {
	by            mapping
	stock, mapped *pgconn.PgConn
}

// traps runs what a simple rewriting gets wrong in both databases.
func (p pair) traps(t *testing.T) {
	stock, mapped := &Client{Conn: p.stock}, &Client{Conn: p.mapped}
	for _, trap := range traps {
		t.Run(trap.name, func(t *testing.T) {
			for _, both := range trap.texts {
				if p.by.apart != nil && p.by.apart(both) {
					continue
				}
				text, value, has := strings.Cut(both, "|")
				if strings.HasPrefix(value, "|") { // the operator
					text, has = both, false
				}
				s := statement{text: text, simple: !has}
				if has {
					s.params = []param{{value: []byte(value)}}
				}
				want, errWant := stock.run(t.Context(), s)
				got, errGot := mapped.run(t.Context(), s)
				if errWant != nil || errGot != nil {
					t.Fatal(text, errWant, errGot)
				}
				if strings.Contains(text, "ORDER BY") && !slices.Equal(want.rows, got.rows) {
					t.Errorf("%s: rows are\n%s\nwant\n%s", both, strings.Join(got.rows, "\n"), strings.Join(want.rows, "\n"))
				}
				if v := compare(s, want, got); v.kind != same && v.kind != bothFail && v.kind != codesDiffer {
					t.Errorf("%s: %s (stock %s, mapped %s)", both, v.text, want.result(), got.result())
				}
			}
		})
	}
}

// refusedOf is the error of a statement.
func refusedOf(t *testing.T, conn *pgconn.PgConn, text string) *pgconn.PgError {
	t.Helper()
	_, err := conn.Exec(t.Context(), text).ReadAll()
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		t.Fatalf("%s: %v, want an error of the server", text, err)
	}
	return e
}

// Errors over mapped columns say what they say without: names and values are the client's.
func (p pair) errors(t *testing.T) {
	for _, text := range []string{
		`INSERT INTO t VALUES ('\x61')`, `INSERT INTO t (n) VALUES (1)`, `INSERT INTO s VALUES (1, '\x61')`, `INSERT INTO t (k, u) VALUES ('\x7777', '\x01')`, `INSERT INTO s VALUES (1, '\x616161616161')`, `SELECT t.no FROM t`, `SELECT max(k) FROM t`,
	} {
		want, got := refusedOf(t, p.stock, text), refusedOf(t, p.mapped, text)
		for _, field := range [][2]string{{want.Code, got.Code}, {want.Message, got.Message}, {want.Detail, got.Detail}, {want.ColumnName, got.ColumnName}, {want.ConstraintName, got.ConstraintName}, {want.TableName, got.TableName}} {
			if field[0] != field[1] {
				t.Errorf("%s: %q, want %q", text, field[1], field[0])
			}
		}
	}
}

// What cannot be mapped is refused with a hint, and the session goes on.
func (p pair) refused(t *testing.T) {
	for text, code := range map[string]string{
		`COPY t FROM STDIN`: "0A000",
		"CREATE TABLE x (" + strings.Repeat("n", 54) + " bytea PRIMARY KEY)":          "0A000",
		`CREATE FUNCTION f() RETURNS bytea LANGUAGE sql AS 'SELECT k FROM t LIMIT 1'`: "42703",
		`UPDATE v SET k = '\x62' WHERE n = 1`:                                         "0A000",
		`CREATE INDEX ON p (k)`:                                                       "0A000",
	} {
		e := refusedOf(t, p.mapped, text)
		if e.Code != code || code == "0A000" && e.Hint == "" && !strings.Contains(text, " v ") {
			t.Errorf("%s: %s %s (hint %q), want %s", text, e.Code, e.Message, e.Hint, code)
		}
		if _, err := p.mapped.Exec(t.Context(), "SELECT k FROM t").ReadAll(); err != nil {
			t.Errorf("behind %s: %v", text, err)
		}
	}
}

// A star is spelt out when a text is planned: a column that is added later must be in it,
// and a statement that was prepared before says that it is stale, as stock does.
func (p pair) stale(t *testing.T) {
	for _, conn := range []*pgconn.PgConn{p.stock, p.mapped} {
		if _, err := conn.Prepare(t.Context(), "star", "SELECT * FROM t", nil); err != nil {
			t.Fatal(err)
		}
		if r := conn.ExecPrepared(t.Context(), "star", nil, nil, nil).Read(); r.Err != nil || len(r.FieldDescriptions) != 4 {
			t.Fatalf("%v, %d columns", r.Err, len(r.FieldDescriptions))
		}
		if _, err := conn.Exec(t.Context(), "ALTER TABLE t ADD COLUMN late int").ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	want, got := p.stock.ExecPrepared(t.Context(), "star", nil, nil, nil).Read(), p.mapped.ExecPrepared(t.Context(), "star", nil, nil, nil).Read()
	if codeOf(want.Err) != codeOf(got.Err) {
		t.Errorf("the statement from before: %v, want %v", got.Err, want.Err)
	}
	fresh := p.mapped.ExecParams(t.Context(), "SELECT * FROM t", nil, nil, nil, nil).Read()
	if fresh.Err != nil || len(fresh.FieldDescriptions) != 5 {
		t.Errorf("%d columns, %v, want 5", len(fresh.FieldDescriptions), fresh.Err)
	}
}
