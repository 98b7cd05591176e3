package proxy_test

import (
	"fmt"
	"strings"
	"testing"
)

// ownBlocks are blocks on a backend where another client has drawn 3 of each sequence
// last. The last statement asks; its answer stands behind the arrow.
const ownBlocks = `
SELECT nextval('blk_s') / SELECT lastval() => 4
SELECT nextval('blk_s') / SELECT currval('blk_s') => 4
SELECT nextval('public.blk_s'::regclass) AS n, 1 / SELECT 1 + currval('BLK_S') - 1 AS a, lastval() AS b => 4
SELECT nextval('"Blk S"'::regclass) / SELECT currval('public."Blk S"') => 4
SELECT nextval('blk_s')::int FROM generate_series(1, 1) / WITH w AS (SELECT currval('blk_s') AS v) SELECT v FROM w => 4
SELECT pg_catalog.nextval('blk_s') / SELECT nextval('blk_t_id_seq') / SELECT currval('blk_s'), currval('blk_t_id_seq') => 4
INSERT INTO blk_t (n) VALUES (1) / SELECT lastval() => 4
INSERT INTO blk_t (n) VALUES (1) / SELECT currval('blk_t_id_seq'), lastval() => 4
INSERT INTO blk_t (n) VALUES (1) / SELECT currval(pg_get_serial_sequence('public.blk_t', 'id')) => 4
INSERT INTO blk_t VALUES (1) / SELECT lastval() => 4
INSERT INTO blk_t VALUES (1, DEFAULT) / SELECT currval('blk_t_id_seq') => 4
INSERT INTO public.blk_t (id, n) VALUES (DEFAULT, 1) / SELECT currval('public.blk_t_id_seq') => 4
INSERT INTO blk_t DEFAULT VALUES / SELECT lastval() => 4
INSERT INTO blk_t (n) SELECT 1 / SELECT lastval() => 4
INSERT INTO blk_t (n) SELECT 1 RETURNING n / SELECT 1 / SELECT lastval() => 4
INSERT INTO blk_i (n) VALUES (2) / SELECT lastval() => 4
INSERT INTO blk_i (n) VALUES (1) ON CONFLICT DO NOTHING / SELECT currval(pg_get_serial_sequence('blk_i', 'id')) => 4
INSERT INTO blk_plain VALUES (nextval('blk_s')) / SELECT currval('blk_s') => 4
SAVEPOINT a / SELECT nextval('blk_s') / ROLLBACK TO a / SELECT currval('blk_s') => 4
SELECT nextval('blk_s') / SAVEPOINT a / SELECT 1/0 / ROLLBACK TO a / SELECT lastval() => 4
INSERT INTO blk_trigger VALUES (1) / INSERT INTO blk_t (n) VALUES (1) / SELECT lastval() => 4
INSERT INTO blk_t (n) VALUES (1) / INSERT INTO blk_trigger VALUES (1) / SELECT lastval() => 4
SET LOCAL search_path = blk_x / SELECT nextval('blk_s') / SELECT currval('blk_s') => 4
SELECT nextval('blk_s') / SELECT nextval('blk_s') / SELECT currval('blk_s') => 5

SELECT lastval() => 55000
SELECT 1 / SELECT currval('blk_s') => 55000
SELECT nextval('blk_s') / SELECT currval('blk_t_id_seq') => 55000
SELECT nextval('blk_s') / SELECT currval('blk_s'), currval('blk_t_id_seq') => 55000
SELECT nextval('blk_s') / SELECT currval('blk_x.blk_s') => 55000
INSERT INTO blk_t (n) VALUES (1) / SELECT currval('blk_s') => 55000
INSERT INTO blk_t (n, id) VALUES (1, 77) / SELECT lastval() => 55000
INSERT INTO blk_t VALUES (1, 77) / SELECT lastval() => 55000
INSERT INTO blk_t (n) SELECT 1 WHERE false / SELECT lastval() => 55000
INSERT INTO blk_t (n) OVERRIDING USER VALUE VALUES (1) / SELECT lastval() => 55000
INSERT INTO blk_plain VALUES (1) / SELECT lastval() => 55000
INSERT INTO blk_rule (n) VALUES (1) / SELECT lastval() => 55000
INSERT INTO blk_view (n) VALUES (7) / SELECT lastval() => 55000
UPDATE blk_i SET n = 5 / SELECT lastval() => 55000
SELECT nextval('blk_s') WHERE false / SELECT lastval() => 55000
SELECT nextval('blk_s') FROM blk_plain WHERE v = 1 / SELECT currval('blk_s') => 55000
SELECT (SELECT nextval('blk_s') WHERE false) / SELECT lastval() => 55000
SELECT CASE WHEN false THEN nextval('blk_s') END / SELECT lastval() => 55000
SELECT coalesce(1, nextval('blk_s')) / SELECT lastval() => 55000
SELECT blk_nothing('nextval(''blk_s'')') / SELECT lastval() => 55000
SELECT nextval('blk_s') / SET LOCAL search_path = blk_x / SELECT currval('blk_s') => 55000
SAVEPOINT a / SET LOCAL search_path = blk_x / SELECT nextval('blk_s') / ROLLBACK TO a / SELECT currval('blk_s') => 55000
SET LOCAL search_path = blk_x, public / SELECT nextval('blk_s') / SELECT currval('blk_s') => 55000
SELECT nextval('blk_s') / ALTER SEQUENCE blk_s RENAME TO blk_o / ALTER SEQUENCE blk_t_id_seq RENAME TO blk_s / SELECT currval('blk_s') => 55000
SELECT nextval('blk_s') / SELECT 1/0 / SELECT lastval() => 25P02
SELECT nextval('blk_s') / COMMIT / {other} / BEGIN / SELECT lastval() => 55000
SELECT nextval('blk_s') / COMMIT / BEGIN / SELECT blk_moves() / SELECT nextval('blk_s') / SELECT currval('blk_x.blk_s') => 55000
`

// In a block that has surely drawn itself, currval and lastval answer exactly, whatever
// others have drawn on the backend before; else with 55000.
func TestOwnNumbersInBlock(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", `CREATE SCHEMA blk_x; CREATE SEQUENCE blk_s; CREATE SEQUENCE "Blk S"; CREATE SEQUENCE blk_x.blk_s;
		CREATE TABLE blk_t (n int, id serial); CREATE TABLE blk_i (id int GENERATED ALWAYS AS IDENTITY, n int UNIQUE); CREATE TABLE blk_plain (v int);
		CREATE TABLE blk_rule (n int, id serial); CREATE RULE nothing AS ON INSERT TO blk_rule DO INSTEAD NOTHING; CREATE VIEW blk_view AS SELECT n FROM blk_i;
		CREATE TABLE blk_trigger (v int); CREATE FUNCTION blk_draw() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_catalog.nextval(''blk_s''); RETURN NEW; END';
		CREATE TRIGGER draws BEFORE INSERT ON blk_trigger FOR EACH ROW EXECUTE FUNCTION blk_draw();
		CREATE FUNCTION blk_nothing(text) RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE FUNCTION blk_moves() RETURNS text LANGUAGE sql AS 'SELECT pg_catalog.set_config(''search_path'', ''public'', true)'`)
	const sequences = `SELECT setval(c.oid, 1, false) FROM pg_class c WHERE c.relkind = 'S' AND (relname LIKE 'blk%' OR relname = 'Blk S'); DELETE FROM blk_i; INSERT INTO blk_i OVERRIDING SYSTEM VALUE VALUES (100, 1)`
	const drawAll = `SELECT nextval(c.oid) FROM pg_class c, generate_series(1, 3) WHERE c.relkind = 'S' AND (relname LIKE 'blk%' OR relname = 'Blk S') ORDER BY relname LIKE '%id_seq'`
	admin := dialRaw(t, pg.addr)
	routes := map[string]*sluice{"dsql": startSluice(t, pg, asDSQL, refusesDiscard, maxOpen(1)), "replay": startSluice(t, pg, fastReplay, refusesDiscard, maxOpen(1))}
	answered := 0
	for line := range strings.Lines(ownBlocks) {
		script, want, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue
		}
		statements := strings.Split("BEGIN / "+script, " / ")
		for name, s := range routes {
			for _, mode := range []string{"simple", "extended", "pipeline", "string"} {
				if mode != "simple" && (strings.Contains(script, "1/0") || strings.Contains(script, "{other}")) {
					continue
				}
				if mode == "string" && want != "55000" && (strings.Contains(script, "SELECT 1 ") || strings.Contains(script, "SET") || strings.Contains(script, "SAVEPOINT") || strings.Contains(script, "FROM")) {
					continue // it may draw nothing, for all that is known then
				}
				ask := func(c *rawClient, sql string) string {
					c.queue(encodeLine(t, "Q", sql))
					return c.readThrough("Z")
				}
				ask(admin, sequences)
				other, c := dialRaw(t, s.addr), dialRaw(t, s.addr)
				if got := ask(other, drawAll); strings.Contains(got, "E ") {
					t.Fatal(got)
				}
				got := ""
				play := func(statements []string) {
					for _, sql := range statements {
						switch {
						case sql == "{other}":
							ask(other, drawAll)
						case mode == "simple" || mode == "string":
							got = ask(c, sql)
						default:
							for line := range strings.Lines(ext(sql)) {
								verb, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
								c.queue(encodeLine(t, verb, rest))
							}
							if mode == "extended" {
								c.queue(encodeLine(t, "S", ""))
								got = c.readThrough("Z")
							}
						}
					}
					if mode == "pipeline" {
						c.queue(encodeLine(t, "S", ""))
						got = c.readThrough("Z")
					}
				}
				if mode == "string" {
					play([]string{"BEGIN", "SELECT 1", strings.Join(statements[1:], "; ")})
				} else {
					play(statements)
				}
				label := fmt.Sprintf("%s, %s: %s", name, mode, script)
				frames := strings.Split(strings.TrimSpace(got), "\n")
				last := ""
				for _, f := range frames {
					if f[0] == 'D' || f[0] == 'E' {
						last = f
					}
				}
				last = strings.ReplaceAll(last, `\x00\x00\x00\x00`, "")
				switch {
				case strings.HasPrefix(want, "5") && len(want) > 1 || want == "25P02":
					if !strings.Contains(last, "C="+want) {
						t.Errorf("%s: no %s:\n%s", label, want, got)
					}
				case !strings.HasPrefix(last, "D ") || !strings.HasSuffix(last, want):
					t.Errorf("%s: not %s:\n%s", label, want, got)
				default:
					answered++
				}
				ask(c, "ROLLBACK")
				c.conn.Close()
				other.conn.Close()
			}
		}
	}
	if answered == 0 {
		t.Error("nothing was answered")
	}
}
