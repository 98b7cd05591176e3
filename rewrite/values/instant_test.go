package values

import (
	"fmt"
	"strings"
	"testing"
)

// A text at an instant names the time of its transaction no more, and its columns are called what they
// were.
func TestAtInstant(t *testing.T) {
	p := newPlanner(t)
	const at = "((('T')::timestamptz)::"
	for sql, want := range map[string]string{
		"SELECT now()": "SELECT " + at + `timestamptz) AS "now"`,
		`SELECT "now"(), pg_catalog . "transaction_timestamp" ( )`:                             "SELECT " + at + `timestamptz) AS "now", ` + at + `timestamptz) AS "transaction_timestamp"`,
		"select pg_catalog.Now( ), CURRENT_DATE, localtime(0) from t":                          "select " + at + `timestamptz) AS "now", ` + at + `date) AS "current_date", ` + at + `time(0)) AS "localtime" from t`,
		"SELECT now() AS x, now() y, 1 WHERE CURRENT_TIMESTAMP > $1":                           "SELECT " + at + "timestamptz) AS x, " + at + "timestamptz) y, 1 WHERE " + at + "timestamptz) > $1",
		"UPDATE t SET a = now(), b = CURRENT_TIMESTAMP(3) WHERE c < now() - '1 day'::interval": "UPDATE t SET a = " + at + "timestamptz), b = " + at + "timestamptz(3)) WHERE c < " + at + "timestamptz) - '1 day'::interval",
		"INSERT INTO t (a) VALUES (LOCALTIMESTAMP), (transaction_timestamp())":                 "INSERT INTO t (a) VALUES (" + at + "timestamp)), (" + at + "timestamptz))",
		"SELECT date_trunc('day', now()), coalesce(now(), x), now() > x FROM t":                "SELECT date_trunc('day', " + at + "timestamptz)), coalesce(" + at + "timestamptz), x), " + at + "timestamptz) > x FROM t",
		"DELETE FROM t WHERE EXISTS (SELECT now() FROM u) RETURNING now()":                     "DELETE FROM t WHERE EXISTS (SELECT " + at + `timestamptz) AS "now" FROM u) RETURNING ` + at + `timestamptz) AS "now"`,
		"SELECT now()::date, (CURRENT_TIMESTAMP(3))::text COLLATE \"C\" FROM t":                "SELECT " + at + `timestamptz)::date AS "now", (` + at + `timestamptz(3)))::text COLLATE "C" AS "current_timestamp" FROM t`,
		"SELECT CASE WHEN x IS DISTINCT FROM y THEN 1 ELSE now() END, (SELECT now())":          "SELECT CASE WHEN x IS DISTINCT FROM y THEN 1 ELSE " + at + `timestamptz) END AS "now", (SELECT ` + at + `timestamptz) AS "now")`,
		"INSERT INTO t VALUES (1) RETURNING (now()), (now() + '1 day')::date":                  "INSERT INTO t VALUES (1) RETURNING (" + at + `timestamptz)) AS "now", (` + at + `timestamptz) + '1 day')::date AS "date"`,
		"SELECT (extract(year FROM now()) + 1)::int UNION SELECT 1":                            "SELECT (extract(year FROM " + at + `timestamptz)) + 1)::int AS "int4" UNION SELECT 1`,
		"SELECT CAST(CURRENT_DATE AS text); ":                                                  "SELECT CAST(" + at + `date) AS text) AS "current_date"; `,
		// Nothing is named, or what cannot be given.
		"SELECT 1": "", "SELECT now FROM t": "", `SELECT "now", "now" FROM t`: "", `SELECT "Now"()`: "", `SELECT U&"now"()`: "", "SELECT mine.now()": "", "SELECT 'now'::timestamptz": "", "SELECT clock_timestamp()": "", "SELECT age(x)": "",
		"SELECT * FROM now()":    "",
		"SELECT now(); SELECT 1": "", "SELECT a FROM t WHERE at < now() FOR UPDATE": "", "SELECT 1 FROM (SELECT a FROM t WHERE at < now() FOR SHARE) x": "", "SELECT current_user": "", "SET x = 1": "", "EXPLAIN SELECT now()": "",
	} {
		got := ReplaceTxTime(p, sql, func() string { return "'T'" })
		if want == "" && got == "" {
			continue
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", sql, got, want)
		}
		if len(p.StatementTrees(got)) != 1 {
			t.Errorf("%s: no statement", got)
		}
	}
}

// A text that tells the time itself is found, by a quick look too, with the columns that are it.
func TestInstants(t *testing.T) {
	p := newPlanner(t)
	for sql, want := range map[string]string{
		"SELECT now()": "[0]", "select a, Current_Timestamp, transaction_timestamp() from t": "[1 2]", "INSERT INTO t VALUES (1) RETURNING now(), *": "[0]",
		"UPDATE t SET a = 1 RETURNING a, now() AS b": "[1]", "DELETE FROM t RETURNING pg_catalog.now()": "[0]", "WITH x AS (SELECT now()) SELECT 1, now() FROM x": "[1]",
		"SELECT *, now() FROM t": "[]", "SELECT t.*, now() FROM t": "[]", "SELECT now(), (r).*, now() FROM t": "[0]", "SELECT now() UNION SELECT a FROM t": "[]",
		"SELECT now()::date, now() + '1 day', CURRENT_TIMESTAMP(3), CURRENT_DATE, localtimestamp, clock_timestamp()": "[]",
		"SELECT mine.now()": "[]", "SELECT now(); SELECT 1": "[]", "VALUES (now())": "[]", "SELECT 1": "[]", "SET x = 1": "[]",
	} {
		got := TxTimeColumns(p, sql)
		if fmt.Sprint(got) != want {
			t.Errorf("%s: columns %v, want %s", sql, got, want)
		}
		if len(got) > 0 && !MayReturnTxTime([]byte(sql)) {
			t.Errorf("%s is not seen by the quick look", sql)
		}
	}
	for _, sql := range []string{"", "(", "_", "now", "now_", "SELECT _timestam", "w(", "SELECT ow(1)", "a_b(_c"} {
		if MayReturnTxTime([]byte(sql)) {
			t.Errorf("%q", sql)
		}
	}
}

// An assignment to several columns has its source in the tree once for each: the time in it is written once.
func TestAtInstantInSeveral(t *testing.T) {
	const timed = "UPDATE t SET (u, at) = (1, now()) WHERE at < now()"
	if got := ReplaceTxTime(newPlanner(t), timed, func() string { return "'T'" }); strings.Count(got, "'T'") != 2 {
		t.Errorf("%s\nbecame %q", timed, got)
	}
}
