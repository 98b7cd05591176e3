package bytea

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Trap is what a simple rewriting gets wrong, and texts that show it: their answers must be
// stock's. Behind a | stand parameters in text.
type Trap struct {
	// Number is the trap's, of those that were met while the mapping was designed; 0: a later one.
	Number int
	Name   string
	Texts  []string
	// Undone has each text in a transaction that is rolled back.
	Undone bool
}

// Differ runs the texts of a trap in both databases, and tells which are answered in
// another way, or refused.
func (t Trap) Differ(ctx context.Context, stock, mapped *Client) (all []string, err error) {
	p := &play{stock: stock, mapped: mapped}
	for _, text := range t.Texts {
		if t.Undone {
			if err := p.say(ctx, "BEGIN"); err != nil {
				return nil, err
			}
		}
		differs, err := p.trap(ctx, text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		if differs != "" {
			all = append(all, differs)
		}
		if t.Undone {
			if err := p.say(ctx, "ROLLBACK"); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// trap tells what differs of the answers to a text.
func (p *play) trap(ctx context.Context, both string) (string, error) {
	text, value, has := strings.Cut(both, "|")
	if strings.HasPrefix(value, "|") { // the operator
		text, has = both, false
	}
	s := statement{text: text, simple: !has}
	if has {
		s.params = []param{{value: []byte(value)}}
	}
	want, got, v, err := p.try(ctx, s)
	switch {
	case err != nil:
		return "", err
	case v.kind != same && v.kind != bothFail && v.kind != codesDiffer:
		return fmt.Sprintf("%s\nsent: %s\n%s (stock %s, mapped %s)", both, got.sent, v.text, want.result(), got.result()), nil
	case strings.Contains(text, "ORDER BY") && !slices.Equal(want.rows, got.rows):
		return fmt.Sprintf("%s: rows are\n%s\nwant\n%s", both, strings.Join(got.rows, "\n"), strings.Join(want.rows, "\n")), nil
	}
	return "", nil
}

// TrapTables are what the traps are set in; d and the columns of p are in no key.
const TrapTables = `CREATE TABLE t (k bytea PRIMARY KEY, n int, d bytea, u bytea UNIQUE);
CREATE TABLE p (k bytea, n int);
CREATE TABLE s (a int, k bytea DEFAULT '\x7a', PRIMARY KEY (a, k), CHECK (length(k) < 5));
CREATE VIEW v AS SELECT * FROM t;
INSERT INTO t VALUES ('\x61', 3, '\x62', NULL), ('\x', 1, '\x6161', '\x01'), ('\x62', 2, '\x61', NULL), ('\xff00', 2, NULL, '\x02');
INSERT INTO p VALUES ('\x61', 1), ('\x62', 2), (NULL, 3), ('\x63', 4);
INSERT INTO s (a) VALUES (1);
INSERT INTO s VALUES (1, '\x61'), (2, '\x61'), (3, '\x6262')`

// Traps are texts that a simple rewriting gets wrong, by why it does. Their answers must be
// stock's. Behind a | stand parameters in text.
var Traps = []Trap{
	{Number: 1, Name: "a name in ORDER BY is an output column first", Texts: []string{
		`SELECT n AS k, k AS z FROM t ORDER BY k, z`, `SELECT k FROM t ORDER BY k`, `SELECT k FROM t ORDER BY k DESC`, `SELECT length(k) AS k, n FROM t ORDER BY k, n`,
		`SELECT k AS n FROM t ORDER BY n`, `SELECT d AS k, k AS d FROM t ORDER BY k`, `SELECT DISTINCT k FROM t ORDER BY k`, `SELECT k FROM t UNION SELECT k FROM p ORDER BY k`,
		`SELECT DISTINCT ON (k) k, n FROM t ORDER BY k`, `SELECT DISTINCT ON (k) n AS k FROM t ORDER BY k`, `SELECT t.k FROM t ORDER BY t.k`, `SELECT k AS z FROM t ORDER BY z`,
		`SELECT n AS k, count(*) FROM t GROUP BY k ORDER BY 1, 2`, `SELECT length(k) AS k FROM t GROUP BY k ORDER BY k`, `SELECT k, count(*) FROM t GROUP BY 1 ORDER BY k`,
		`SELECT DISTINCT n FROM t ORDER BY k`, `SELECT k FROM t ORDER BY k || '\x00'`, `SELECT u FROM t ORDER BY u NULLS FIRST`, `SELECT k, k FROM t ORDER BY k`, `SELECT n AS k, k FROM t ORDER BY k`}},
	{Number: 2, Name: "an ambiguity stays one", Texts: []string{
		`SELECT k FROM t, p`, `SELECT n FROM t JOIN p ON k = '\x61'`, `SELECT 1 FROM t, p WHERE k = '\x61'`, `SELECT t.k FROM t, p ORDER BY k, n`, `SELECT 1 FROM t JOIN s ON t.k = s.k GROUP BY k`,
		`UPDATE t SET n = 1 FROM p WHERE k = '\x61'`, `DELETE FROM t USING p WHERE t.k = k`, `SELECT (SELECT k) FROM t, p`}},
	{Number: 3, Name: "a literal or parameter in a subquery or ARRAY is text", Texts: []string{
		`SELECT n FROM t WHERE k IN (SELECT '\x61')`, `SELECT n FROM t WHERE k = ANY (ARRAY['\x61'])`, `SELECT n FROM t WHERE k IN (SELECT $1)|\x61`, `SELECT n FROM t WHERE k = ANY (ARRAY[$1])|\x61`,
		`SELECT n FROM t WHERE (k, n) IN (SELECT '\x61', 3)`, `SELECT n FROM t WHERE k = (SELECT '\x61')`, `SELECT n FROM t WHERE k = ANY (ARRAY(SELECT $1))|\x61`,
		`SELECT n FROM t WHERE k IN (SELECT '\x61'::bytea)`, `SELECT n FROM t WHERE k = ANY (ARRAY['\x61', d])`, `SELECT n FROM t WHERE k = ANY (ARRAY['\x61']::bytea[])`, `SELECT n FROM t WHERE k IN (VALUES ('\x61'))`,
		`UPDATE t SET (k, n) = (SELECT '\x64', 4) WHERE n = 3`, `INSERT INTO s SELECT 7, '\x64'`, `INSERT INTO s SELECT 7, $1|\x65`, `SELECT n FROM t WHERE k = ANY ($1)|{"\\x61",NULL,"\\x"}`,
		`SELECT n FROM t WHERE k <> ALL ($1)|{"\\x61"}`, `SELECT n FROM t WHERE k = ANY ('{"\\x61"}')`}},
	{Number: 3, Name: "a constant that sorts or groups the rows of an INSERT is text", Texts: []string{
		`INSERT INTO s SELECT 51, '\x64' ORDER BY 1`,
		`INSERT INTO s SELECT 52, '\x64' ORDER BY 2`,
		`INSERT INTO s SELECT DISTINCT 55, '\x64'`,
		`INSERT INTO s SELECT n + 60, '\x64' FROM p GROUP BY n`,
		`INSERT INTO s SELECT n + 70, '\x64' FROM p GROUP BY 1, 2`,
		`INSERT INTO t (k, u) SELECT '\x4444', NULL ORDER BY 2`,
		`INSERT INTO t (k, u) SELECT '\x4445', NULL ORDER BY 1`,
		`INSERT INTO t (k, u) SELECT '\x4446', NULL`,
		`INSERT INTO t (u, k) SELECT DISTINCT NULL, k || '\x4447' FROM t`,
		`INSERT INTO s SELECT DISTINCT ON (a) a + 90, '\x64' FROM s AS x`,
		`INSERT INTO s SELECT DISTINCT ON (2) a + 100, '\x64' FROM s AS x`,
		`INSERT INTO s SELECT 57, '\x64' AS z ORDER BY z`,
		`INSERT INTO s (k, a) SELECT '\x64' AS z, 58 AS y ORDER BY y`,
		`INSERT INTO s (k, a) SELECT '\x64' AS a, count(*) + 200 FROM s AS x GROUP BY a`,
	}, Undone: true},
	{Number: 3, Name: "a parameter gets its type from what is read first", Texts: []string{
		`INSERT INTO s SELECT 53, $1 ORDER BY 2|\x65`,
		`INSERT INTO s SELECT 54, $1 ORDER BY 1|\x65`,
		`INSERT INTO s SELECT DISTINCT 56, $1|\x65`,
		`INSERT INTO s SELECT n + 80, $1 FROM p GROUP BY n|\x65`,
		`INSERT INTO s VALUES (length($1), $1)|\x65`,
		`INSERT INTO s (k, a) VALUES ($1, length($1))|\x65`,
		`INSERT INTO s (k, a) VALUES ($1, length($1::bytea))|\x65`,
		`INSERT INTO s (k, a) VALUES ($1, length($1::text))|\x65`,
		`INSERT INTO s (k, a) SELECT $1, length($1)|\x66`,
		`INSERT INTO s (k, a) SELECT $1, 61 WHERE $1 = 'a'|\x66`,
		`INSERT INTO s (k, a) SELECT $1, 62 WHERE $1 = k|\x66`,
		`UPDATE s SET k = $1, a = length($1) + 300 WHERE a = 1|\x67`,
		`UPDATE s SET a = length($1) + 300, k = $1 WHERE a = 1|\x67`,
		`UPDATE s SET k = $1 WHERE length($1) = 1|\x67`,
		`UPDATE s SET (k, a) = ($1, length($1) + 400) WHERE a = 2|\x67`,
		`UPDATE s SET (k, a) = ROW($1, length($1) + 400) WHERE a = 2|\x67`,
		`INSERT INTO s VALUES (1, '\x61') ON CONFLICT (a, k) DO UPDATE SET k = $1, a = length($1) + 600|\x67`,
		`SELECT n FROM t WHERE k IN ($1, $1 || 'x')|\x67`,
		`SELECT n FROM t WHERE k IN ($1 || 'x', $1)|\x67`,
		`SELECT n FROM t WHERE (k, n) = ($1, length($1))|\x61`,
		`SELECT n FROM t WHERE (k, n) IN (($1, length($1)), ('\x61', 3))|\x61`,
		`SELECT n FROM t WHERE k = ANY (ARRAY[$1, d, $1 || 'a'])|\x61`,
		`SELECT n FROM t WHERE k BETWEEN $1 AND $1 || 'a'|\x61`,
		`SELECT n FROM t WHERE k = ANY ($1) AND $1 = 'a'|a`,
		`SELECT n FROM t WHERE $1 = 'a' AND k = ANY ($1)|{a}`,
	}, Undone: true},
	{Number: 0, Name: "a merged column beside one of its name", Texts: []string{
		`SELECT * FROM (t JOIN p USING (k)) JOIN s ON s.a = t.n ORDER BY 1, 2, 3, 4, 5, 6, 7`,
		`SELECT * FROM t JOIN p USING (n), s ORDER BY 1, 2, 3, 4, 5, 6, 7`,
		`SELECT * FROM t JOIN p USING (n) JOIN v ON v.n = p.n ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9`,
		`SELECT * FROM t JOIN s USING (k) JOIN p ON p.n = s.a ORDER BY 1, 2, 3, 4, 5, 6, 7`,
		`SELECT * FROM t JOIN s USING (k), p ORDER BY 1, 2, 3, 4, 5, 6, 7`,
		`SELECT * FROM t JOIN s USING (k), t AS t2 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9`,
		`SELECT * FROM p, t JOIN s USING (k) ORDER BY 1, 2, 3, 4, 5, 6, 7`,
		`INSERT INTO s (k, a) SELECT k, a + 1000 FROM (SELECT * FROM s AS q JOIN t USING (k), p) AS x`,
		`INSERT INTO p SELECT x.k, x.n FROM (SELECT * FROM t JOIN s USING (k), p AS p2 (kk, nn)) AS x`,
	}, Undone: true},
	{Number: 4, Name: "ON sees the two sides of its join", Texts: []string{
		`SELECT t.n FROM p, t JOIN s ON t.k = s.k AND p.n = 1`, `SELECT count(*) FROM p, t JOIN s ON s.k = '\x61' AND u IS NULL`, `SELECT t.n FROM p JOIN t ON t.k = p.k, s WHERE s.k = t.k ORDER BY 1`,
		`SELECT 1 FROM p, t JOIN v ON d = '\x61'`, `SELECT t.n FROM (t JOIN p ON t.k = p.k) JOIN s ON s.k = t.k ORDER BY 1`}},
	{Number: 5, Name: "names are made of columns", Texts: []string{
		`INSERT INTO t VALUES ('\x61', 9) ON CONFLICT ON CONSTRAINT t_pkey DO UPDATE SET n = excluded.n RETURNING *`, `INSERT INTO t (k, u) VALUES ('\x71', '\x01') ON CONFLICT ON CONSTRAINT t_u_key DO NOTHING`,
		`INSERT INTO s VALUES (1, '\x616161616161')`, `INSERT INTO t (n) VALUES (1)`, `INSERT INTO t VALUES ('\x61')`, `SELECT k, (k), t.k, k::bytea, k::text, coalesce(k), CASE WHEN n = 1 THEN k END, (SELECT k), ARRAY[k] FROM t ORDER BY 1`,
		`SELECT (t).k FROM t ORDER BY 1`, `UPDATE t SET k = NULL`, `SELECT no FROM t`, `SELECT t.no FROM t`}},
	{Number: 6, Name: "a key can be NULL", Texts: []string{
		`SELECT u, n FROM t ORDER BY u, k`, `INSERT INTO t VALUES ('\x81', 1, NULL, NULL) RETURNING u`, `SELECT count(u), count(DISTINCT u) FROM t`, `SELECT k FROM t WHERE u IS NULL ORDER BY k`,
		`SELECT k FROM t WHERE u = NULL`, `SELECT k FROM t WHERE u IS DISTINCT FROM '\x01' ORDER BY k`, `SELECT k FROM t WHERE u NOT IN ('\x01', NULL)`, `SELECT k FROM t WHERE u NOT IN (SELECT u FROM t)`}},
	{Number: 9, Name: "a parameter can have its escape format, or none", Texts: []string{
		`SELECT n FROM t WHERE k = $1|a`, `SELECT n FROM t WHERE k = $1|a\$b`, `SELECT n FROM t WHERE k = $1|`, `SELECT n FROM t WHERE k > $1 ORDER BY n|`, `SELECT n FROM t WHERE k = $1|\x6`,
		`SELECT n FROM t WHERE k = $1|\377\000`, `INSERT INTO s VALUES (9, $1)|\\`, `SELECT n FROM t WHERE k = 'a\000'`, `SELECT n FROM t WHERE k = '\x6'`}},
	{Number: 10, Name: "the parser takes more than the server", Texts: []string{`SELECT n FROM t WHERE k = $1AND n = 3|a`, `SELECT n FROM t WHERE n = 1AND k = '\x61'`}},
	{Number: 11, Name: "several columns of one source", Texts: []string{
		`UPDATE t SET (k, n) = (SELECT k || '\x01', n + 1) WHERE n = 1 RETURNING k, n`, `UPDATE t SET (k, d) = (d, k) WHERE k = '\x62' RETURNING *`, `UPDATE s SET (a, k) = ROW(a + 10, '\x' || k) RETURNING *`,
		`UPDATE t SET (u, d) = (SELECT p.k, p.k FROM p WHERE p.n = t.n LIMIT 1) WHERE n = 2 AND k = '\xff00' RETURNING u, d`, `UPDATE t SET (k, u) = (DEFAULT, DEFAULT) WHERE n = 1`, `UPDATE s SET (k) = ROW(DEFAULT) WHERE a = 2`}},
	{Number: 14, Name: "a view is natural", Texts: []string{`SELECT * FROM v ORDER BY k`, `SELECT n FROM v WHERE k = $1|a`, `SELECT v.k FROM v JOIN t ON v.k = t.k ORDER BY v.k`, `SELECT v FROM v ORDER BY k`, `INSERT INTO p SELECT k, n FROM v WHERE n = 2`}},
	{Number: 16, Name: "functions mix columns and values", Texts: []string{
		`SELECT greatest(k, d, '\x6161'), least(k, u), coalesce(u, k), nullif(k, '\x61'), CASE WHEN n > 1 THEN k ELSE d END FROM t ORDER BY k`, `SELECT count(*) FROM t WHERE coalesce(u, k) = k`,
		`SELECT k = ANY (ARRAY[d, u, k]) FROM t ORDER BY k`, `SELECT k || d, substr(k, 1, 1), md5(k), encode(k, 'hex'), length(k) FROM t ORDER BY k`, `SELECT CASE k WHEN '\x61' THEN 1 ELSE 2 END FROM t ORDER BY k`,
		`SELECT string_agg(k, ',' ORDER BY k DESC) FROM t`, `SELECT array_agg(k ORDER BY k) FROM t`, `SELECT first_value(k) OVER (PARTITION BY n ORDER BY k) FROM t ORDER BY 1`}},
	{Number: 17, Name: "what does not exist for bytea", Texts: []string{`SELECT max(k) FROM t`, `SELECT upper(k) FROM t`, `SELECT k LIKE 'a' FROM t WHERE k = 'a'`, `SELECT k + 1 FROM t`, `SELECT n FROM t WHERE k = 1`, `SELECT n FROM t WHERE k = 'a'::text`, `SELECT k COLLATE "C" FROM t`}},
	{Number: 20, Name: "defaults and checks", Texts: []string{`INSERT INTO s (a) VALUES (5) RETURNING k`, `INSERT INTO s VALUES (6, DEFAULT) RETURNING k`, `INSERT INTO s VALUES (6, '\x0102030405')`, `UPDATE s SET k = DEFAULT WHERE a = 3 RETURNING *`, `INSERT INTO s VALUES (8, DEFAULT), (8, '\x')`}},
	{Number: 21, Name: "comments", Texts: []string{"SELECT /* k */ k -- k\n FROM t /* k = */ WHERE k/**/=/* '' */'a'", `SELECT k /* sluice:no-replay */ FROM t WHERE n = 3`}},
	{Number: 25, Name: "a name can stand for something else", Texts: []string{
		`WITH t AS (SELECT '\x61'::bytea AS k) SELECT k FROM t`, `SELECT t.k FROM p AS t ORDER BY 1`, `SELECT p.k FROM t AS p ORDER BY 1`, `WITH p AS (SELECT k AS z, n AS k FROM t) SELECT k, z FROM p ORDER BY 1, 2`,
		`SELECT t.k FROM t AS x`, `SELECT k.n FROM t AS k ORDER BY 1`, `SELECT k FROM t AS k ORDER BY k.k`, `SELECT a.x FROM t AS a (x) ORDER BY x`, `SELECT a.k FROM t AS a (x)`, `SELECT t.k FROM t, LATERAL (SELECT t.k) AS x (k) WHERE x.k = t.k ORDER BY 1`,
		`WITH t AS (SELECT * FROM t) SELECT * FROM t ORDER BY k`, `SELECT x.k FROM (SELECT * FROM t) AS x WHERE x.k = 'a'`, `SELECT public.t.k FROM public.t ORDER BY public.t.k`, `SELECT count(*) FROM T WHERE "k" = 'a' AND T.K = 'a'`}},
	{Number: 0, Name: "whole rows, stars and merged columns", Texts: []string{
		`SELECT t FROM t ORDER BY k`, `SELECT t.* FROM t JOIN p USING (k) ORDER BY k`, `SELECT * FROM t JOIN p USING (k) ORDER BY k`, `SELECT * FROM t NATURAL JOIN s ORDER BY k`, `SELECT k FROM t FULL JOIN s USING (k) ORDER BY k`,
		`SELECT count(t), count(t.*), count(*) FROM t`, `SELECT row_to_json(t) FROM t ORDER BY k`, `SELECT * FROM t ORDER BY k`, `TABLE t`, `SELECT t.k, s.* FROM t JOIN s USING (k) ORDER BY 1, 2`, `SELECT (x).k FROM (SELECT t AS x FROM t) AS y ORDER BY 1`}},
	{Number: 0, Name: "writing from queries", Texts: []string{
		`INSERT INTO s SELECT n + 20, k FROM t WHERE length(k) < 5`, `INSERT INTO s SELECT DISTINCT 30, k FROM t WHERE n < 3`, `INSERT INTO s (k, a) SELECT k, 40 FROM p WHERE k IS NOT NULL UNION SELECT d, 41 FROM t WHERE d IS NOT NULL`,
		`INSERT INTO s SELECT * FROM s AS x ON CONFLICT DO NOTHING`, `INSERT INTO s VALUES (1, '\x61') ON CONFLICT (a, k) DO UPDATE SET k = excluded.k || '\x62' WHERE s.k = excluded.k RETURNING k`, `INSERT INTO s TABLE s`,
		`UPDATE t SET d = p.k FROM p WHERE p.k = t.k RETURNING t.k, p.k`, `DELETE FROM s USING p WHERE p.k = s.k AND s.a = 2 RETURNING s.*`, `WITH x AS (DELETE FROM s WHERE a > 20 RETURNING k, a) SELECT * FROM x ORDER BY k, a`, `INSERT INTO t VALUES ('\x61', 1), ('\x99')`}},
}

func (t Trap) String() string {
	if t.Number == 0 {
		return t.Name
	}
	return fmt.Sprintf("%d, %s", t.Number, t.Name)
}
