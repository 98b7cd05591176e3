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
	// Plain has texts that DSQL refuses or answers in its own way.
	Plain bool
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
		`INSERT INTO s (k, a) SELECT '\x64' AS a, min(x.a) + 200 FROM s AS x GROUP BY a`,
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
	{Number: 0, Name: "SQL of many kinds", Texts: []string{
		`SELECT U&"\006B" FROM t ORDER BY 1`,
		`SELECT U&"\006B" AS "x" FROM U&"\0074" WHERE U&"!006B" UESCAPE '!' = 'a'`,
		`SELECT "t" . "k" FROM "public" . "t" ORDER BY "t" /* x */ . /* y */ "k"`,
		`SELECT t./**/k, public.t -- c`,
		`SELECT public . t . k FROM public . t ORDER BY 1`,
		`SELECT k IS DISTINCT FROM 'a', k IS NOT DISTINCT FROM d, NULL IS DISTINCT FROM u FROM t ORDER BY k`,
		`SELECT n FROM t WHERE k OPERATOR(pg_catalog.=) 'a'`,
		`SELECT n FROM t WHERE k OPERATOR(pg_catalog.||) 'a' = 'aa'`,
		`SELECT n FROM t WHERE k OPERATOR(pg_catalog.<>) ALL (ARRAY['a'::bytea]) ORDER BY n, k`,
		`SELECT encode(k, 'hex'), encode(k, 'base64'), decode(encode(k, 'hex'), 'hex') FROM t ORDER BY k`,
		`SELECT k, n FROM t ORDER BY k USING <`,
		`SELECT k, n FROM t ORDER BY k USING OPERATOR(pg_catalog.>)`,
		`SELECT k, count(*) FROM t GROUP BY GROUPING SETS ((k), (n), ()) ORDER BY k, count, n`,
		`SELECT k, u, grouping(k, u), count(*) FROM t GROUP BY ROLLUP (k, u) ORDER BY 1, 2, 3`,
		`SELECT k, u, grouping(k), count(*) FROM t GROUP BY CUBE (k, u) ORDER BY 1, 2, 3, 4`,
		`SELECT k, u, count(*) FROM t GROUP BY GROUPING SETS (CUBE (k, u), ROLLUP (k)) ORDER BY 1, 2, 3`,
		`SELECT k, count(*) FROM t GROUP BY DISTINCT GROUPING SETS ((k), (k)) ORDER BY 1`,
		`SELECT length(k) AS l, count(*) FROM t GROUP BY ROLLUP (length(k)) ORDER BY 1`,
		`SELECT k, sum(n) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t ORDER BY k`,
		`SELECT k, sum(n) OVER w, first_value(k) OVER w, lag(k) OVER w, lead(k, 1, '\x00') OVER w FROM t WINDOW w AS (PARTITION BY u ORDER BY k DESC GROUPS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW) ORDER BY k`,
		`SELECT k, nth_value(k, 2) OVER (w ORDER BY n, k) FROM t WINDOW w AS (PARTITION BY n), w2 AS (w ORDER BY k) ORDER BY k`,
		`SELECT k, count(*) OVER (PARTITION BY k, length(k) ORDER BY u NULLS FIRST, k RANGE UNBOUNDED PRECEDING) FROM t ORDER BY k`,
		`SELECT t.k, x.k FROM t, LATERAL (SELECT p.k FROM p WHERE p.k = t.k LIMIT 1) AS x ORDER BY 1`,
		`SELECT t.k, x FROM t CROSS JOIN LATERAL (VALUES (t.k), (t.d)) AS x (x) ORDER BY 1, 2`,
		`SELECT t.k, x.* FROM t LEFT JOIN LATERAL (SELECT s.k, s.a FROM s WHERE s.k >= t.k ORDER BY s.k, s.a LIMIT 1) AS x ON true ORDER BY 1`,
		`SELECT (ARRAY[k, d, u])[1:2] FROM t ORDER BY k`,
		`SELECT (ARRAY[k, d])[length(k)] FROM t ORDER BY k`,
		`SELECT (array_agg(k ORDER BY k))[1:2] FROM t`,
		`SELECT array_agg(k ORDER BY k DESC) FILTER (WHERE k > 'a') FROM t`,
		`SELECT string_agg(k, k ORDER BY k), string_agg(DISTINCT k, ',' ORDER BY k) FROM t`,
		`SELECT string_agg(DISTINCT encode(k, 'hex'), ',') FROM t`,
		`SELECT mode() WITHIN GROUP (ORDER BY k), percentile_disc(0.5) WITHIN GROUP (ORDER BY n) FROM t`,
		`SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY k) FROM t`,
		`SELECT rank('\x62') WITHIN GROUP (ORDER BY k) FROM t`,
		`SELECT rank(k) WITHIN GROUP (ORDER BY d) FROM t`,
		`SELECT to_jsonb(t) FROM t ORDER BY k`,
		`SELECT jsonb_agg(t ORDER BY k) FROM t`,
		`SELECT json_build_object('k', k, 'n', n) FROM t ORDER BY k`,
		`SELECT jsonb_object_agg(n, k) FROM p`,
		`SELECT t = t, t IS NULL, t.* IS NOT NULL FROM t ORDER BY k`,
		`SELECT k(t) FROM t ORDER BY 1`,
		`SELECT t.length FROM t`,
		`SELECT k FROM t WHERE EXISTS (SELECT FROM s WHERE s.k = t.k AND t.k = 'a')`,
		`SELECT k FROM t WHERE (k, n) = ANY (SELECT s.k, s.a FROM s)`,
		`SELECT k FROM t WHERE k > ALL (SELECT s.k FROM s WHERE s.k < 'a') ORDER BY k`,
		`SELECT k FROM t WHERE k = SOME (SELECT d FROM t) ORDER BY k`,
		`SELECT k FROM t WHERE (k, u) IS NOT DISTINCT FROM ('\x62', NULL)`,
		`SELECT k FROM t WHERE (k) IN (('a'), (('\x62'))) ORDER BY k`,
		`SELECT k FROM t WHERE NOT k = 'a' AND k <> 'b' AND k != '' ORDER BY k`,
		`SELECT k FROM t WHERE k BETWEEN SYMMETRIC 'z' AND 'a' OR k NOT BETWEEN 'a' AND 'z' ORDER BY k`,
		`SELECT k FROM t WHERE k ~~ 'a%' OR k LIKE '\x62' ESCAPE '' ORDER BY k`,
		`SELECT k FROM t WHERE k ^@ 'a'`,
		`SELECT k FROM t WHERE -n < 0 AND - length(k) < 0 ORDER BY k`,
		`SELECT k FROM t WHERE 'a' = k AND 'a'::bytea = k AND ('a') = k AND (('a'::bytea)) = (k)`,
		`SELECT k FROM t WHERE k = E'\\x61' OR k = $q$\x62$q$ OR k = B'0'`,
		`SELECT k FROM t WHERE k = 'a' 'b'`,
		`SELECT k FROM t WHERE k = '\x6' || '1'`,
		`SELECT k FROM t WHERE k = 'a'::bytea || 'b' OR k = '' || 'a'::bytea ORDER BY k`,
		`SELECT k FROM t WHERE k = CASE WHEN n = 3 THEN 'a'::bytea END`,
		`SELECT k FROM t WHERE k = (CASE WHEN n = 3 THEN 'a' END)`,
		`SELECT k FROM t WHERE k = coalesce(NULL, d)`,
		`SELECT k FROM t WHERE k = NULLIF(d, '\x00') AND k = GREATEST(d, 'b')`,
		`SELECT k FROM t FETCH FIRST (SELECT length(k) FROM t WHERE k = 'a') ROWS ONLY`,
		`SELECT k FROM t ORDER BY k OFFSET 1 ROW FETCH NEXT 2 ROWS WITH TIES`,
		`SELECT DISTINCT ON (k, length(k)) k, n FROM t ORDER BY k, length(k), n`,
		`SELECT DISTINCT k, u FROM t ORDER BY u, k`,
		`SELECT DISTINCT k AS n, n AS k FROM t ORDER BY k, n`,
		`SELECT ALL k FROM t ORDER BY k`,
		`SELECT k FROM t UNION ALL SELECT u FROM t ORDER BY k`,
		`(SELECT k FROM t) EXCEPT (SELECT k FROM s) ORDER BY 1`,
		`SELECT k, u FROM t INTERSECT SELECT u, k FROM t`,
		`SELECT k FROM t UNION SELECT 'a' UNION SELECT NULL ORDER BY 1`,
		`SELECT * FROM (SELECT k FROM t UNION SELECT k FROM p) AS x WHERE x.k = 'a' ORDER BY k`,
		`SELECT * FROM (TABLE t) AS x ORDER BY k`,
		`SELECT * FROM t AS x (k, k2, k3, k4) ORDER BY k`,
		`SELECT k2 FROM t AS x (n, k2) WHERE n = 'a'`,
		`SELECT * FROM ONLY t ORDER BY k`,
		`SELECT * FROM t * ORDER BY k`,
		`SELECT t.*, t.* FROM t ORDER BY t.k`,
		`SELECT *, k FROM t ORDER BY 1`,
		`SELECT count(*), count(DISTINCT (k, n)), count(DISTINCT ROW(k)) FROM t`,
		`WITH RECURSIVE r AS (SELECT k, 1 AS l FROM t WHERE k = 'a' UNION ALL SELECT s.k, l + 1 FROM s JOIN r ON s.k >= r.k AND l < 3) SELECT k, l, count(*) FROM r GROUP BY k, l ORDER BY k, l`,
		`WITH RECURSIVE r (x) AS (SELECT k FROM t UNION SELECT k FROM s, r WHERE s.k = r.x) SELECT x FROM r ORDER BY x`,
		`WITH a AS (SELECT k FROM t), b AS (SELECT a.k FROM a JOIN t USING (k)) SELECT * FROM b ORDER BY k`,
		`WITH a AS (INSERT INTO s VALUES (77, 'q') RETURNING *), b AS (UPDATE t SET n = 5 WHERE k = 'a' RETURNING k), c AS (DELETE FROM s WHERE k = 'zz' RETURNING k) SELECT a.k, b.k FROM a, b`,
		`WITH a AS (SELECT k FROM t WHERE k = 'a') UPDATE t SET n = 9 FROM a WHERE t.k = a.k RETURNING t.k, a.k, t.*`,
		`WITH a AS (SELECT k FROM t WHERE k = 'a') DELETE FROM t USING a WHERE t.k = a.k RETURNING *`,
		`WITH a AS (SELECT 88 AS n, k FROM t WHERE k = 'a') INSERT INTO s SELECT * FROM a RETURNING *`,
		`INSERT INTO s WITH a AS (SELECT 89 AS n, k FROM t WHERE k = 'a') SELECT * FROM a RETURNING *`,
		`INSERT INTO s (SELECT 90, k FROM t WHERE k = 'a') RETURNING *`,
		`INSERT INTO s ((SELECT 91, k FROM t WHERE k = 'a' LIMIT 1)) RETURNING *`,
		`INSERT INTO s VALUES (92, (SELECT k FROM t WHERE k = 'a')) RETURNING k`,
		`INSERT INTO s VALUES (93, (((('\x61'))))) RETURNING k`,
		`INSERT INTO s (a, k) VALUES (94, 'a'), (95, DEFAULT), (96, '\x' || 'b') RETURNING *`,
		`INSERT INTO s AS z (a, k) VALUES (1, 'a') ON CONFLICT (k, a) DO UPDATE SET (k, a) = (SELECT z.k || 'z', 98) RETURNING z.*`,
		`INSERT INTO s AS z (a, k) VALUES (1, 'a') ON CONFLICT (a, k) DO UPDATE SET k = excluded.k || z.k WHERE z.k = excluded.k RETURNING *, z.k AS kk`,
		`INSERT INTO t (k, u) VALUES ('new', '\x01') ON CONFLICT (u) DO UPDATE SET k = EXCLUDED.k RETURNING k`,
		`INSERT INTO t (k, u) VALUES ('new', '\x01') ON CONFLICT (u) WHERE u IS NOT NULL DO NOTHING`,
		`INSERT INTO t (k) VALUES ('a') ON CONFLICT (k COLLATE "C") DO NOTHING`,
		`INSERT INTO t (k) VALUES ('a') ON CONFLICT ((k)) DO NOTHING`,
		`INSERT INTO t DEFAULT VALUES`,
		`INSERT INTO t (t.k) VALUES ('a')`,
		`UPDATE t SET t.k = 'a'`,
		`UPDATE t SET k = 'c', n = n + 1 WHERE k = 'b' RETURNING k, n`,
		`UPDATE t SET k = k WHERE k = 'b' RETURNING k`,
		`UPDATE t SET k = k || k, u = k WHERE k = 'b' RETURNING k, u`,
		`UPDATE t AS x SET k = x.d WHERE x.k = 'b' AND x.d IS NOT NULL`,
		`UPDATE t x SET d = k WHERE k = 'b' RETURNING x.d, x.k`,
		`UPDATE t SET k = DEFAULT WHERE k = 'b'`,
		`UPDATE ONLY t SET k = 'y' WHERE t.k = 'b' RETURNING t.k`,
		`UPDATE public.t SET k = 'y' WHERE public.t.k = 'b' RETURNING public.t.k`,
		`UPDATE t SET (k) = (SELECT 'z'::bytea) WHERE k = 'b' RETURNING k`,
		`UPDATE t SET (k, n) = (SELECT d, 4 FROM t AS q WHERE q.k = 'a') WHERE t.k = 'b' RETURNING k`,
		`DELETE FROM t WHERE k IN (SELECT k FROM p) RETURNING k`,
		`DELETE FROM t WHERE k IN (SELECT k FROM p ORDER BY k LIMIT 1) RETURNING k`,
		`DELETE FROM t AS z USING p, s WHERE z.k = p.k AND p.k = s.k RETURNING z.k, p.k, s.k`,
		`DELETE FROM t WHERE ctid = ANY (ARRAY(SELECT ctid FROM t WHERE k = 'a')) RETURNING tableoid::regclass, k`,
		`SELECT k FROM t WHERE k = 'a' FOR UPDATE`,
		`SELECT k FROM t WHERE k = 'a' FOR NO KEY UPDATE OF t SKIP LOCKED`,
		`SELECT t.k FROM t JOIN s ON t.k = s.k FOR UPDATE OF s`,
		`SELECT pg_typeof(k), pg_typeof(u), pg_column_size(k) > 0 FROM t ORDER BY k`,
		`SELECT k AS "select", k "from", k AS "K""k" FROM t ORDER BY "select"`,
		`SELECT k value FROM t ORDER BY value`,
		`SELECT k AS k__byteahex FROM t ORDER BY k__byteahex`,
		`SELECT length(k), octet_length(k), bit_length(k), get_byte(k || '\x00', 0), set_byte(k || '\x00', 0, 65), md5(k), sha224(k), substr(k, 1), overlay(k placing 'z' from 1), trim(k), btrim(k, 'a'), position('a' in k), convert_from(k || '', 'LATIN1') FROM t WHERE k IN ('a', 'b') ORDER BY k`,
		`SELECT quote_literal(k), quote_nullable(u), format('%s %L %I', k, u, 'x'), concat(k, u), concat_ws(',', k, u) FROM t ORDER BY k`,
		`SELECT num_nulls(k, u), num_nonnulls(VARIADIC ARRAY[k, u]) FROM t ORDER BY k`,
		`SELECT min(k), max(k) FROM t`,
		`SELECT k < u, k <= u, k > u, k >= u, k = u, k <> u, u < k FROM t ORDER BY k`,
		`SELECT (k, u) < (u, k), (k, u) = (k, u), ROW(k) = ROW(u), (k, n) >= ('a', 1), ROW(k, n) IS NULL FROM t ORDER BY k`,
		`SELECT (t.k, t.n) FROM t ORDER BY k`,
		`SELECT ROW(t.*), ROW(t.*, 1) FROM t ORDER BY k`,
		`SELECT CASE k WHEN 'a' THEN 1 WHEN u THEN 2 END, CASE WHEN k = 'a' THEN k ELSE u END FROM t ORDER BY k`,
		`SELECT k IS NULL, k IS NOT NULL, k ISNULL, (k = 'a') IS TRUE, (k = 'a') IS UNKNOWN, NOT (k = 'a') FROM t ORDER BY k`,
		`SELECT k = ANY (ARRAY[u, d]), k = ANY ('{a,b}'), k = ANY ('{a,b}'::bytea[]), k <> ALL (ARRAY[]::bytea[]), k = ANY (NULL), k = ANY (NULL::bytea[]) FROM t ORDER BY k`,
		`SELECT k = ANY (ARRAY[ARRAY[k], ARRAY[d]]) FROM t ORDER BY k`,
		`SELECT ARRAY(SELECT k FROM t ORDER BY k), ARRAY(SELECT k FROM s WHERE s.k = t.k) FROM t ORDER BY k`,
		`SELECT (SELECT k FROM t AS i WHERE i.k = o.k), (SELECT o.k) FROM t AS o ORDER BY o.k`,
		`SELECT unnest(ARRAY[k, u]) FROM t ORDER BY 1`,
		`SELECT generate_series(1, length(k)), k FROM t ORDER BY k, 1`,
		`SELECT x FROM t, unnest(ARRAY[k, d]) AS x ORDER BY 1`,
		`SELECT k FROM unnest(ARRAY['a'::bytea]) AS k`,
		`SELECT t.k FROM unnest(ARRAY['a'::bytea]) AS k, t WHERE t.k = k.k`,
		`SELECT k.k FROM t AS k ORDER BY 1`,
		`SELECT a.k, b.k FROM t a JOIN t b ON a.k < b.k ORDER BY 1, 2`,
		`SELECT a.k FROM t a LEFT JOIN s b ON b.k = a.k AND b.k = 'a' WHERE b.k IS NULL ORDER BY 1`,
		`SELECT a.k FROM t a RIGHT JOIN p b ON a.k = b.k ORDER BY 1, b.k`,
		`SELECT k FROM t a FULL JOIN p b USING (k) ORDER BY k`,
		`SELECT k, a.k, b.k FROM t a FULL JOIN s b USING (k) ORDER BY 1, 2, 3`,
		`SELECT * FROM t a JOIN s b USING (k) ORDER BY k, a.n, b.a`,
		`SELECT j.k FROM (t JOIN s USING (k)) AS j ORDER BY 1`,
		`SELECT j.k, t.n FROM t JOIN s USING (k) AS j ORDER BY 1, 2, s.a`,
		`SELECT * FROM t NATURAL LEFT JOIN p ORDER BY k, n`,
		`SELECT k FROM t NATURAL JOIN s NATURAL JOIN p ORDER BY k`,
		`INSERT INTO t (k) VALUES ('a') ON CONFLICT ((k)) DO NOTHING`,
		`INSERT INTO t (k) VALUES ('a') ON CONFLICT (((k))) DO UPDATE SET n = 7 RETURNING k, n`,
		`PREPARE q1 AS SELECT k FROM t WHERE k = $1`,
		`PREPARE q2 (bytea) AS SELECT k FROM t WHERE k = $1`,
		`PREPARE q3 (int, bytea) AS INSERT INTO s VALUES ($1, $2)`,
		`DECLARE c1 CURSOR FOR SELECT k FROM t ORDER BY k`,
		`DECLARE c2 SCROLL CURSOR WITHOUT HOLD FOR SELECT t FROM t ORDER BY k`,
		`COPY (SELECT k, n FROM t ORDER BY k) TO STDOUT`,
		`COPY t (k, n) TO STDOUT`,
		`COPY t TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE (k))`,
		`COPY t TO STDOUT WITH CSV HEADER FORCE QUOTE k, n`,
		`COPY (INSERT INTO s VALUES (66, 'c') RETURNING k) TO STDOUT`,
		`SELECT 1; SELECT k FROM t ORDER BY k`,
		`SELECT k FROM t WHERE k = 'a'; UPDATE t SET n = 4 WHERE k = 'a'; SELECT n FROM t WHERE k = 'a'`,
		`CREATE VIEW v2 AS SELECT * FROM v`,
		`CREATE VIEW v3 (x, y) AS SELECT k, n FROM t`,
		`CREATE OR REPLACE TEMP VIEW v5 AS SELECT * FROM t JOIN s USING (k)`,
		`CREATE VIEW v6 AS WITH x AS (SELECT * FROM t) SELECT x.k, count(*) OVER (ORDER BY k) FROM x`,
		`CREATE TABLE g1 (k bytea PRIMARY KEY, l int GENERATED ALWAYS AS (length(k)) STORED)`,
		`CREATE TABLE g2 (k bytea, l bytea GENERATED ALWAYS AS (k || 'x') STORED, UNIQUE (k, l))`,
		`CREATE TABLE g4 (k bytea DEFAULT 'abc' || '\x00'::bytea CHECK (k <> '' AND length(k) < 10) UNIQUE)`,
		`CREATE TABLE "Odd ""T""" ("K k" bytea PRIMARY KEY, "é" bytea UNIQUE, "select" bytea, UNIQUE ("select"))`,
		`CREATE TABLE IF NOT EXISTS t (k bytea PRIMARY KEY)`,
		`CREATE TABLE g5 AS SELECT k, n FROM t`,
		`CREATE TABLE g6 (a, b) AS SELECT k, n FROM t WITH NO DATA`,
		`CREATE INDEX ON t (k)`,
		`CREATE INDEX i1 ON t (k DESC NULLS LAST, n) WHERE k > 'a'`,
		`CREATE INDEX i2 ON t (length(k), (k || 'x'))`,
		`CREATE UNIQUE INDEX i3 ON t (u) INCLUDE (k)`,
		`CREATE INDEX i4 ON t (md5(k))`,
		`ALTER TABLE t ADD COLUMN z int`,
		`ALTER TABLE t RENAME COLUMN k TO kk`,
		`ALTER TABLE t DROP COLUMN u`,
		`ALTER TABLE t ALTER COLUMN u SET DEFAULT 'x'`,
		`ALTER TABLE t ADD CONSTRAINT cc CHECK (k <> 'nope')`,
		`ALTER TABLE t ADD UNIQUE (k, n)`,
		`ALTER TABLE t RENAME TO t9`,
		`COMMENT ON COLUMN t.k IS 'x'`,
		`GRANT SELECT (k, n), UPDATE (u) ON t TO PUBLIC`,
		`ANALYZE t (k)`,
		`TRUNCATE t`,
		`LOCK TABLE t`,
		`SELECT k FROM t WHERE k = 'a' LIMIT ALL`,
		`SELECT "k" FROM "t" WHERE "t"."k" = '\x61'::"bytea"`,
		`SELECT k FROM t WHERE k = pg_catalog.decode('61', 'hex') AND pg_catalog.length(k) = 1`,
		`SELECT decode('61', 'hex') = k, encode(k || k, 'hex') = '6161' FROM t ORDER BY k`,
		`SELECT k FROM t WHERE encode(k, 'hex') = '61'`,
		`SELECT k FROM t WHERE encode(k, 'hex') IN ('61', '62') ORDER BY encode(k, 'hex') DESC`,
		`UPDATE s SET k = 'new' FROM (SELECT k AS kk FROM t) AS x WHERE x.kk = s.k RETURNING s.k, x.*`,
		`UPDATE s SET k = (SELECT max(a)::text::bytea FROM s), a = DEFAULT WHERE a = 3`,
		`UPDATE s SET k = CASE WHEN a = 1 THEN 'one' ELSE 'other' END`,
		`UPDATE s SET k = CASE WHEN a = 1 THEN 'one'::bytea ELSE k END RETURNING a, k`,
		`UPDATE s SET k = coalesce(NULL, k), a = a + 1 RETURNING *`,
		`UPDATE s SET (a, k) = (k, a)`,
		`UPDATE s SET k = 5`,
		`UPDATE s SET k = 'a'::text`,
		`INSERT INTO s SELECT a + 50, k FROM s WINDOW w AS (ORDER BY k)`,
		`INSERT INTO s SELECT row_number() OVER (ORDER BY k) + 500, k FROM t WHERE length(k) < 5`,
		`INSERT INTO s SELECT 7, '\x64', count(*) OVER (ORDER BY '\x64') FROM t`,
		`INSERT INTO s (k, a) SELECT $1, row_number() OVER (ORDER BY $1) FROM t LIMIT 1|\x61`,
		`INSERT INTO s (k, a) SELECT '\x64', row_number() OVER (ORDER BY NULL) FROM t LIMIT 1`,
		`INSERT INTO t (u, k) SELECT NULL, '\x65' || '\x66'::bytea FROM t GROUP BY NULL::int LIMIT 1`,
		`INSERT INTO s SELECT DISTINCT ON (k) n + 600, k FROM t WHERE length(k) < 5 ORDER BY k, n`,
		`INSERT INTO s SELECT max(n) + 700, k FROM t WHERE length(k) < 5 GROUP BY k HAVING k > '' RETURNING *`,
		`INSERT INTO s SELECT n + 800, x.k FROM t AS x WHERE EXISTS (SELECT 1 FROM s WHERE s.k = x.k) FOR UPDATE`,
		`INSERT INTO s VALUES ($1, $2), ($1 + 1, $2)|5`,
		`SELECT k FROM t WHERE k = $1 AND d = $1|\x61`,
		`SELECT k FROM t WHERE d = $1 OR k = $1 ORDER BY k|\x62`,
		`SELECT $1, k FROM t WHERE k = $1|\x61`,
		`SELECT k FROM t WHERE k = $1 OR length($1) = 1 ORDER BY k|\x61`,
		`SELECT k FROM t WHERE length($1) = 1 OR k = $1 ORDER BY k|\x61`,
		`SELECT k FROM t WHERE k = $1 AND $1 = ANY (ARRAY[d, k])|\x61`,
		`SELECT k FROM t WHERE k IN ($1, $1::bytea)|\x61`,
		`SELECT k FROM t WHERE k IN ($1::bytea, length($1)::text::bytea)|\x61`,
		`SELECT k FROM t WHERE k LIKE $1 ORDER BY k|a`,
		`SELECT k FROM t WHERE $1 = k|\x61`,
		`SELECT k FROM t WHERE $1 IN (k, d)|\x61`,
		`SELECT k FROM t WHERE $1 BETWEEN k AND u|\x61`,
		`SELECT k FROM t WHERE k = ANY (ARRAY[$1, $1]::bytea[])|\x61`,
		`SELECT k FROM t WHERE k = ANY ($1::bytea[]) ORDER BY k|{a,b}`,
		`SELECT k FROM t WHERE k = ANY (string_to_array($1, ',')::bytea[]) ORDER BY k|a,b`,
		`SELECT k FROM t WHERE k = ANY ((SELECT array_agg(k) FROM p)) ORDER BY k`,
		`SELECT k FROM t WHERE k = ANY ((SELECT array_agg(k) FROM p)::bytea[]) ORDER BY k`,
		`SELECT k FROM t WHERE k || 'x' = ANY (SELECT p.k || 'x' FROM p) ORDER BY k`,
		`EXPLAIN (COSTS OFF, FORMAT JSON) SELECT 1 FROM p WHERE n = 1`,
		`SELECT tableoid::regclass, ctid IS NOT NULL, xmin IS NOT NULL, k FROM t ORDER BY k`,
		`SELECT t.tableoid::regclass::text, t.k FROM t ORDER BY t.k`,
		`SELECT postgres.public.t.k FROM t ORDER BY 1`,
		`SELECT other.t.k FROM t`,
		`SELECT k FROM other.t`,
		`SELECT t.k FROM public.t AS t ORDER BY public.t.k`,
		`SELECT k FROM t, t AS t2`,
		`SELECT k FROM t, s`,
		`SELECT t.k, t2.k FROM t, t AS t2 WHERE t.k = t2.u ORDER BY 1`,
		`SELECT x.k FROM ((t JOIN s USING (k)) JOIN p USING (k)) AS x ORDER BY 1`,
		`SELECT k, p.k FROM (t JOIN s USING (k)) LEFT JOIN p USING (k) ORDER BY k, s.a`,
		`SELECT * FROM (t JOIN s USING (k)) LEFT JOIN p USING (k) ORDER BY 1, 2, 3, 4, 5, 6`,
		`SELECT count(*) FROM t JOIN s ON (t.k = s.k AND s.k = ANY (ARRAY['a'::bytea])) OR t.u = s.k`,
		`SELECT (x.t).k FROM (SELECT t FROM t) AS x ORDER BY 1`,
		`SELECT (x).t FROM (SELECT t, k FROM t) AS x ORDER BY 1`,
		`SELECT ((t)).k, (t).n FROM t ORDER BY 1`,
		`SELECT (t).* FROM t ORDER BY k`,
		`SELECT (t.*).k FROM t ORDER BY 1`,
		`SELECT (array_agg(t ORDER BY k))[1] FROM t`,
		`SELECT t IN (SELECT t FROM t) FROM t ORDER BY k`,
		`SELECT count(DISTINCT t) FROM t`,
		`SELECT row(k, n) FROM t ORDER BY row(k, n)`,
		`SELECT k, n FROM t ORDER BY (k, n) DESC`,
		`SELECT k, n FROM t GROUP BY (k, n) ORDER BY 1`,
		`SELECT k AS n, count(*) FROM t GROUP BY n`,
		`SELECT n AS k, count(*) FROM t GROUP BY t.n, k ORDER BY 1, 2`,
		`SELECT k, d FROM t GROUP BY k ORDER BY k`,
		`SELECT k || 'x' AS k FROM t GROUP BY k ORDER BY k`,
		`SELECT k || 'x' AS z FROM t GROUP BY z ORDER BY z`,
		`SELECT k || 'x' FROM t GROUP BY k || 'x' ORDER BY k || 'x'`,
		`SELECT length(k) FROM t GROUP BY k ORDER BY max(length(k)), k`,
		`SELECT k FROM t GROUP BY k HAVING k = 'a' OR count(*) > 1`,
		`SELECT DISTINCT k || 'x' FROM t ORDER BY k || 'x'`,
		`SELECT DISTINCT ON (k || 'x') k FROM t ORDER BY k || 'x', n`,
		`SELECT DISTINCT ON (z) k AS z, n FROM t ORDER BY z, n`,
	}, Undone: true, Plain: true},
}

func (t Trap) String() string {
	if t.Number == 0 {
		return t.Name
	}
	return fmt.Sprintf("%d, %s", t.Number, t.Name)
}
