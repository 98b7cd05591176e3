package rewrite

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/sluice-proxy/sluice/integration/bytea"
	"github.com/sluice-proxy/sluice/integration/pgtest"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

var (
	byteaSeed  = flag.Uint64("bytea.seed", 1, "the seed of the worlds of the oracle of mapped columns")
	byteaCount = flag.Int("bytea.count", 1500, "how many statements it tries")
	byteaOnly  = flag.Int("bytea.only", -1, "this world alone")
	byteaMost  = flag.Int("bytea.most", 0, "go on behind so many differences")
)

// TestByteaOracle finds no difference between a database that maps its bytea keys, asked in
// the texts that are planned, and one that has them as they are.
func TestByteaOracle(t *testing.T) {
	t.Parallel()
	for _, how := range []ByteaMapping{ByteaHex, ByteaHexCast} {
		t.Run(string(how), func(t *testing.T) { playWorlds(t, how) })
	}
}

// playWorlds plays as many worlds as the flags say by one mapping. The tables are made by
// hand.
func playWorlds(t *testing.T, how ByteaMapping) {
	t.Parallel()
	pg := pgtest.Start(t)
	const perWorld = 50
	stock, mapped := pg.Connect(t), pg.Connect(t)
	o := &bytea.Oracle{Statements: perWorld, ShrinkTries: 300, MaxDifferences: *byteaMost}
	o.Begin = func(ctx context.Context, w *bytea.TestSchema) (*bytea.Client, *bytea.Client, error) {
		err := errors.Join(makeWorld(ctx, stock, w, (*bytea.Table).DDL), makeWorld(ctx, mapped, w, (*bytea.Table).MappedDDL))
		return &bytea.Client{Conn: stock}, &bytea.Client{Conn: mapped, Plan: planOf(t, w, how), Mapped: true}, err
	}
	for n := range *byteaCount / perWorld {
		if *byteaOnly >= 0 {
			n = *byteaOnly
		}
		if err := o.RunSchema(t.Context(), *byteaSeed, uint64(n)); err != nil {
			t.Fatal(err)
		}
		if *byteaOnly >= 0 || len(o.Tally.Mismatches) > *byteaMost {
			break
		}
	}
	t.Log(&o.Tally)
	for _, m := range o.Tally.Mismatches {
		t.Error(m)
	}
	if excess := o.Tally.ExcessProblem(); excess != "" {
		t.Error(excess)
	}
}

// makeWorld makes a world in the place of what the database has.
func makeWorld(ctx context.Context, conn *pgconn.PgConn, w *bytea.TestSchema, ddl func(*bytea.Table) string) error {
	text := "SET client_min_messages = warning; DROP SCHEMA public CASCADE; CREATE SCHEMA public"
	for _, table := range w.Tables {
		text += ";\n" + ddl(table)
	}
	if _, err := conn.Exec(ctx, text).ReadAll(); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

// planOf plans texts over a world by a mapping.
func planOf(t *testing.T, w *bytea.TestSchema, how ByteaMapping) func(string) (string, error) {
	var relations []schema.Relation
	for _, table := range w.Tables {
		r := schema.Relation{Schema: "public", Name: table.Name}
		for _, c := range table.Columns {
			r.Columns = append(r.Columns, schema.Column{Name: c.Name, Mapped: c.Mapped})
		}
		relations = append(relations, r)
	}
	return planIn(t, schema.New(relations).ResolverFor([]string{"public"}), how)
}

// planIn plans texts where names stand for what a snapshot has.
func planIn(t *testing.T, names *schema.NameResolver, how ByteaMapping) func(string) (string, error) {
	planner, err := New(Config{MaxBytes: 1 << 20, MaxNesting: DefaultMaxNesting, CacheEntries: 10, CacheBytes: 1 << 20, Rules: Rules{Bytea: how}})
	if err != nil {
		t.Fatal(err)
	}
	return func(sql string) (text string, err error) {
		defer func() { // to make the text smaller that panics
			if why := recover(); why != nil {
				err = &pgconn.PgError{Code: "XX000", Message: fmt.Sprintf("panic: %v", why)}
			}
		}()
		plan := planner.PlanWithNames([]byte(sql), names)
		for _, s := range plan.Statements {
			if r := s.Refusal; r != nil {
				return "", &pgconn.PgError{Code: r.Code, Message: r.Message + ": " + r.Detail}
			}
		}
		if plan.Text != "" {
			if how == ByteaHexCast && (strings.Contains(plan.Text, "pg_catalog.encode(") || strings.Contains(plan.Text, "pg_catalog.decode(")) {
				t.Errorf("%s\nbecomes by casts\n%s", sql, plan.Text)
			}
			return plan.Text, nil
		}
		return sql, nil
	}
}

const (
	// columnsAndChecks is what a database says of its tables but for names of constraints.
	columnsAndChecks = `SELECT c.relname, a.attname, a.atttypid::regtype, a.attnotnull, pg_get_expr(d.adbin, d.adrelid) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
			LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum WHERE c.relnamespace = 'public'::regnamespace AND a.attnum > 0 AND c.relkind IN ('r', 'v') ORDER BY c.relname, a.attnum;
		SELECT c.relname, pg_get_constraintdef(k.oid) FROM pg_class c JOIN pg_constraint k ON k.conrelid = c.oid WHERE c.relnamespace = 'public'::regnamespace ORDER BY 1, 2`
	// constraintNames are those names.
	constraintNames = `SELECT k.conrelid::regclass, k.contype, k.conname FROM pg_constraint k WHERE k.connamespace = 'public'::regnamespace ORDER BY 1, 2, 3`
)

// ofConstraint is the name that a constraint is given.
var ofConstraint = regexp.MustCompile(`CONSTRAINT (\w+|"(""|[^"])+") `)

// TestByteaTables makes the tables of random worlds by the planned text and by hand: the
// catalogue says the same. Constraints without a name get the one that they have where
// nothing is mapped.
func TestByteaTables(t *testing.T) {
	t.Parallel()
	pg := pgtest.Start(t)
	stock, byHand, planned := pg.Connect(t), pg.Connect(t), pg.Connect(t)
	unnamed := func(table *bytea.Table) string { return ofConstraint.ReplaceAllString(table.DDL(), "") }
	for n := range uint64(40) {
		w := bytea.NewTestSchema(*byteaSeed, n)
		plan := planOf(t, w, ByteaHex)
		err := errors.Join(makeWorld(t.Context(), stock, w, unnamed), makeWorld(t.Context(), byHand, w, (*bytea.Table).MappedDDL),
			makeWorld(t.Context(), planned, w, func(table *bytea.Table) string {
				text, err := plan(unnamed(table))
				if err != nil {
					return err.Error() // which is no SQL
				}
				return text
			}))
		if err != nil {
			t.Fatalf("world %d: %v", n, err)
		}
		if want, got := saidBy(t, byHand, columnsAndChecks), saidBy(t, planned, columnsAndChecks); want != got {
			t.Fatalf("world %d is\n%s\nwant\n%s\n%s", n, got, want, w)
		}
		if want, got := saidBy(t, stock, constraintNames), saidBy(t, planned, constraintNames); want != got {
			t.Fatalf("the constraints of world %d are\n%s\nwant\n%s\n%s", n, got, want, w)
		}
	}
}

// saidBy is what a database answers.
func saidBy(t *testing.T, conn *pgconn.PgConn, text string) string {
	results, err := conn.Exec(t.Context(), text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, r := range results {
		for _, row := range r.Rows {
			fmt.Fprintf(&out, "%s\n", bytes.Join(row, []byte(" | ")))
		}
	}
	return out.String()
}
