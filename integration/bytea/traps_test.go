package bytea

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

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
		for _, text := range strings.Split(TrapTables, ";\n") {
			if _, err := conn.Exec(t.Context(), text).ReadAll(); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
	}
	t.Run("traps", p.traps)
	t.Run("errors name the client's columns", p.errors)
	t.Run("refused", p.refused)
	t.Run("24, functions of the application's have the names of those that convert", p.ownFunctions)
	t.Run("12, a star is stale", p.stale)
}

// elsewhere are the tests of the traps that are no texts with equal answers.
var elsewhere = map[int]string{
	7:  "oddCondition of the generator: a pattern that ends in its escape fails or not with the plan, so none is drawn",
	8:  "TestTemporal, in all manners: argument gives nil and empty bytes",
	12: "stale",
	13: "refused: a name of 54 bytes",
	15: "refused: CREATE FUNCTION",
	18: "the texts of 17 have a COLLATE, which bytea does not take",
	19: "refused: COPY FROM",
	22: "errors",
	23: "refused: UPDATE of a view",
	24: "ownFunctions",
}

// Each of the traps that were met while the mapping was designed has a test.
func TestEachTrapHasATest(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 25; n++ {
		_, has := elsewhere[n]
		if listed := slices.ContainsFunc(Traps, func(trap Trap) bool { return trap.Number == n && !trap.Plain }); listed == has {
			t.Errorf("trap %d: among the texts %v, elsewhere %v", n, listed, has)
		}
	}
}

// pair is a session in each of the two databases.
type pair struct {
	by            mapping
	stock, mapped *pgconn.PgConn
}

// traps runs what a simple rewriting gets wrong in both databases.
func (p pair) traps(t *testing.T) {
	stock, mapped := &Client{Conn: p.stock}, &Client{Conn: p.mapped}
	for _, trap := range Traps {
		if trap.Plain {
			continue
		}
		t.Run(trap.String(), func(t *testing.T) {
			differ, err := trap.but(p.by.apart).FindDifferences(t.Context(), stock, mapped)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range differ {
				t.Error(d)
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

// An application can have functions of its own in front of those of PostgreSQL.
func (p pair) ownFunctions(t *testing.T) {
	stock, mapped := &Client{Conn: p.stock}, &Client{Conn: p.mapped}
	for _, c := range []*pgconn.PgConn{p.stock, p.mapped} {
		for _, text := range []string{
			"CREATE FUNCTION encode(bytea, text) RETURNS text LANGUAGE sql AS 'SELECT ''mine''::text'",
			"CREATE FUNCTION decode(text, text) RETURNS bytea LANGUAGE sql AS 'SELECT ''mine''::bytea'", "SET search_path = public, pg_catalog"} {
			if _, err := c.Exec(t.Context(), text).ReadAll(); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		defer func() { c.Exec(context.Background(), "RESET search_path").ReadAll() }()
	}
	// The stand-in knows functions by their names, so some are apart.
	differ, err := Trap{Texts: []string{
		`SELECT k, encode(k, 'hex'), decode('61', 'hex') FROM t ORDER BY k`, `SELECT n FROM t WHERE k = 'a'`, `SELECT n FROM t WHERE k = decode('61', 'hex')`,
		`INSERT INTO s VALUES (501, 'own') RETURNING k`, `UPDATE s SET k = decode('', '') WHERE a = 501 RETURNING k`, `SELECT n FROM t WHERE k = ANY ($1)|{a}`,
	}}.but(p.by.apart).FindDifferences(t.Context(), stock, mapped)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differ {
		t.Error(d)
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

// but returns the trap without the texts that are apart.
func (t Trap) but(apart func(text string) bool) Trap {
	if apart != nil {
		t.Texts = slices.DeleteFunc(slices.Clone(t.Texts), apart)
	}
	return t
}
