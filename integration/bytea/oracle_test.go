package bytea

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

var (
	seedFlag  = flag.Uint64("bytea.seed", 1, "the seed of the worlds")
	countFlag = flag.Int("bytea.count", 200, "how many statements are tried")
	onlyFlag  = flag.Int("bytea.only", -1, "this world alone")
	mostFlag  = flag.Int("bytea.most", 0, "go on behind so many differences")
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// perWorld is how many statements a world is worth.
const perWorld = 50

// plays plays the worlds that the flags say and tells what came of it.
func plays(t *testing.T, o *Oracle) {
	t.Helper()
	o.Statements, o.ShrinkTries, o.MaxDifferences = perWorld, 300, *mostFlag
	for n := range *countFlag / perWorld {
		if *onlyFlag >= 0 {
			n = *onlyFlag
		}
		if err := o.RunSchema(t.Context(), *seedFlag, uint64(n)); err != nil {
			t.Fatal(err)
		}
		if *onlyFlag >= 0 || len(o.Tally.Mismatches) > *mostFlag {
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

// sessionIn is a session in a database of its own.
func sessionIn(t *testing.T, pg *pgtest.Server) *pgconn.PgConn {
	t.Helper()
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

// makeWorld makes a world in the place of what a database has.
func makeWorld(ctx context.Context, conn *pgconn.PgConn, w *TestSchema) error {
	text := "SET client_min_messages = warning; DROP SCHEMA public CASCADE; CREATE SCHEMA public"
	for _, table := range w.Tables {
		text += ";\n" + table.DDL()
	}
	if _, err := conn.Exec(ctx, text).ReadAll(); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

// A database does not differ from one like it: what a statement gives is decided by the
// statement, and the oracle finds nothing where nothing is. Half of what is tried is
// answered, at least.
func TestStockAgainstItself(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	a, b := sessionIn(t, pg), sessionIn(t, pg)
	o := &Oracle{Begin: func(ctx context.Context, w *TestSchema) (*Client, *Client, error) {
		return &Client{Conn: a}, &Client{Conn: b}, errors.Join(makeWorld(ctx, a, w), makeWorld(ctx, b, w))
	}}
	plays(t, o)
	if o.Tally.Answered*2 < o.Tally.Statements {
		t.Errorf("%d of %d statements are answered: the test has lost its force", o.Tally.Answered, o.Tally.Statements)
	}
}

// TestOracle finds no difference between plain PostgreSQL and Sluice on the stand-in for
// DSQL, which refuses bytea in keys.
func TestOracle(t *testing.T) {
	t.Parallel()
	for _, m := range mappings {
		t.Run(m.name, m.oracle)
	}
}

// mapping is a way in which a daemon maps, with the stand-in for a cluster that it is for.
type mapping struct {
	name string
	args []string
	env  harness.Env
	// apart are texts that the cluster does not know.
	apart func(text string) bool
}

var mappings = []mapping{
	{name: "hex"},
	{name: "hex-cast", args: []string{"--without-encode"}, env: harness.Env{"DSQL_REWRITE_BYTEA": "hex-cast"},
		apart: regexp.MustCompile(`(?i)\b(en|de)code"?\(`).MatchString},
}

func (m mapping) oracle(t *testing.T) {
	t.Parallel()
	stock := sessionIn(t, pgtest.Shared(t))
	mapped := m.throughSluice(t)
	var before *TestSchema
	plays(t, &Oracle{Autocommit: true, Exclude: m.apart, Begin: func(ctx context.Context, w *TestSchema) (*Client, *Client, error) {
		err := errors.Join(makeWorld(ctx, stock, w), before.drop(ctx, mapped), w.make(ctx, mapped))
		before = w
		return &Client{Conn: stock}, &Client{Conn: mapped}, err
	}})
}

// throughSluice is a session through a daemon that maps, on a stand-in of its own.
func (m mapping) throughSluice(t *testing.T) *pgconn.PgConn {
	t.Helper()
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Upstream: pgtest.Start(t), Args: m.args})
	return session(t, harness.StartSluice(t, harness.SluiceConfig{Env: sim.Env().With(m.env)}))
}

// session is one of a daemon's.
func session(t *testing.T, sluice *harness.Sluice) *pgconn.PgConn {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), sluice.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// make makes the tables of a world as a client does.
func (w *TestSchema) make(ctx context.Context, conn *pgconn.PgConn) error {
	for _, table := range w.Tables {
		if _, err := conn.Exec(ctx, table.DDL()).ReadAll(); err != nil {
			return fmt.Errorf("%s: %w", table.DDL(), err)
		}
	}
	return nil
}

// drop drops them.
func (w *TestSchema) drop(ctx context.Context, conn *pgconn.PgConn) error {
	if w == nil {
		return nil
	}
	for _, table := range slices.Backward(w.Tables) {
		kind := "TABLE "
		if table.Of != nil {
			kind = "VIEW "
		}
		if _, err := conn.Exec(ctx, "DROP "+kind+QuoteIdent(table.Name)).ReadAll(); err != nil {
			return fmt.Errorf("DROP %s: %w", table.Name, err)
		}
	}
	return nil
}
