package rewrite

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/bytea"
	"github.com/sluice-proxy/sluice/integration/pgtest"
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
	pg := pgtest.Start(t)
	const perWorld = 50
	stock, mapped := sessionIn(t, pg), sessionIn(t, pg)
	o := &bytea.Oracle{Statements: perWorld, Shrink: 300, Most: *byteaMost}
	o.Begin = func(ctx context.Context, w *bytea.World) (*bytea.Client, *bytea.Client, error) {
		err := errors.Join(makeWorld(ctx, stock, w, (*bytea.Table).DDL), makeWorld(ctx, mapped, w, (*bytea.Table).MappedDDL))
		return &bytea.Client{Conn: stock}, &bytea.Client{Conn: mapped, Plan: planOf(t, w), Mapped: true}, err
	}
	for n := range *byteaCount / perWorld {
		if *byteaOnly >= 0 {
			n = *byteaOnly
		}
		if err := o.Play(t.Context(), *byteaSeed, uint64(n)); err != nil {
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
	if refused := o.Tally.AllRefused(); refused*100 > o.Tally.Statements {
		t.Errorf("%d of %d statements are refused", refused, o.Tally.Statements)
	}
}

// sessionIn is a session in a database of its own.
func sessionIn(t *testing.T, pg *pgtest.Server) *pgconn.PgConn {
	config, err := pgconn.ParseConfig("sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	config.Host, config.Port, config.User, config.Database = pg.SocketDir, uint16(pg.Port), pg.User, pg.NewDatabase(t)
	conn, err := pgconn.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// makeWorld makes a world in the place of what the database has.
func makeWorld(ctx context.Context, conn *pgconn.PgConn, w *bytea.World, ddl func(*bytea.Table) string) error {
	text := "SET client_min_messages = warning; DROP SCHEMA public CASCADE; CREATE SCHEMA public"
	for _, table := range w.Tables {
		text += ";\n" + ddl(table)
	}
	if _, err := conn.Exec(ctx, text).ReadAll(); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

// planOf plans texts over a world.
func planOf(t *testing.T, w *bytea.World) func(string) (string, error) {
	var relations []Relation
	for _, table := range w.Tables {
		r := Relation{Schema: "public", Name: table.Name}
		for _, c := range table.Columns {
			r.Columns = append(r.Columns, Column{Name: c.Name, Mapped: c.Mapped})
		}
		relations = append(relations, r)
	}
	planner, err := New(Config{MaxBytes: 1 << 20, MaxNesting: DefaultMaxNesting, CacheEntries: 10, CacheBytes: 1 << 20, Rules: Rules{Bytea: ByteaHex, ByteaCheck: true}})
	if err != nil {
		t.Fatal(err)
	}
	names := NewSchema(relations).In([]string{"public"})
	return func(sql string) (string, error) {
		plan := planner.PlanIn([]byte(sql), names)
		for _, s := range plan.Statements {
			if r := s.Refusal; r != nil {
				return "", &pgconn.PgError{Code: r.Code, Message: r.Message + ": " + r.Detail}
			}
		}
		if plan.Text != "" {
			return plan.Text, nil
		}
		return sql, nil
	}
}
