package rewriting

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// beginModes are what a BEGIN may say; beginWords how it begins.
var (
	beginWords = []string{"BEGIN", "begin work", "START TRANSACTION", "BEGIN /* a */ TRANSACTION", "start\ntransaction"}
	beginModes = []string{
		"ISOLATION LEVEL SERIALIZABLE", "ISOLATION LEVEL REPEATABLE READ", "isolation level read committed", "ISOLATION LEVEL READ UNCOMMITTED",
		"DEFERRABLE", "NOT DEFERRABLE", "READ ONLY", "READ WRITE",
	}
)

// beginText draws one, of any modes in any order, with commas or without.
func beginText(rnd *rand.Rand) string {
	text := beginWords[rnd.IntN(len(beginWords))]
	for i := range []int{0, 0, 0, 1, 1, 1, 2, 3}[rnd.IntN(8)] {
		if i > 0 && rnd.IntN(2) == 0 {
			text += ","
		}
		text += " " + beginModes[rnd.IntN(len(beginModes))]
	}
	return text
}

// beginAsks tell what a transaction is; what behind them writes or locks shows whether it is so.
var beginAsks = []string{"SHOW transaction_read_only", "SHOW transaction_isolation", "SHOW transaction_deferrable"}

// beginProgram draws a program with a BEGIN in one of its places; steps and extended are as those of
// readOnlyProgram. place is what the program is about.
func beginProgram(rnd *rand.Rand, begin string, number int) (steps [][]string, extended []bool, place string) {
	step := func(ext bool, group ...string) { steps, extended = append(steps, group), append(extended, ext) }
	ext := rnd.IntN(2) == 0
	setting := "on"
	if rnd.IntN(4) == 0 {
		setting = "off"
	}
	step(rnd.IntN(2) == 0, "SET default_transaction_read_only = "+setting)
	pinned := rnd.IntN(2) == 0
	if pinned {
		step(false, "PREPARE kept AS SELECT 1")
	}
	write := fmt.Sprintf("INSERT INTO ro VALUES (%d)", number)
	front := [][]string{nil, nil, {"SELECT 1"}, {"SELECT count(*) FROM ro"}, {"SHOW default_transaction_read_only"}, {"SELECT 1", "SELECT 2"}, {"BEGIN", "COMMIT"},
		{"BEGIN", "SELECT 1", "ROLLBACK"}, {"SET default_transaction_read_only = off"}, {"SELECT 1", "SET default_transaction_read_only = on"}, {"SELECT 1", begin, "COMMIT"}}[rnd.IntN(11)]
	behind := [][]string{nil, beginAsks, beginAsks[:1], {write}, append(slices.Clone(beginAsks), write)}[rnd.IntN(5)]
	step(ext, slices.Concat(front, []string{begin}, behind)...)
	place = fmt.Sprintf("%v pinned=%v front=%d", ext, pinned, len(front))
	for _, ask := range beginAsks {
		step(rnd.IntN(2) == 0, ask)
	}
	step(rnd.IntN(2) == 0, write+" ON CONFLICT DO NOTHING")
	step(rnd.IntN(2) == 0, "COMMIT")
	step(rnd.IntN(2) == 0, "SHOW transaction_read_only")
	return steps, extended, place
}

// A BEGIN of any modes, at any place, by either protocol, pinned or not, begins what it begins on PostgreSQL
// whatever default_transaction_read_only is; or it is refused. The server of DSQL's kind has one level,
// REPEATABLE READ, which is what its weaker ones become.
func TestBeginReadOnlyByDefault(t *testing.T) {
	const programs = 240
	pg := pgtest.Start(t, pgtest.MaxConnections(200))
	oracle := pg.NewDatabase(t)
	for _, db := range []string{"postgres", oracle} {
		pg.SQL(t, db, "CREATE TABLE ro (n bigint PRIMARY KEY); INSERT INTO ro VALUES (1)")
	}
	pg.SQL(t, "postgres", "ALTER DATABASE "+oracle+" SET default_transaction_isolation TO 'repeatable read'")
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg})
	strict := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "4"})})
	weak := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "4", "DSQL_REWRITE_SERIALIZABLE": "repeatable_read"})})
	warned := 0
	open := func(dsn string) *pgconn.PgConn {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
			if strings.Contains(n.Message, "SERIALIZABLE") {
				warned++
			}
		}
		conn, err := pgconn.ConnectConfig(t.Context(), &config.Config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(t.Context()) })
		return conn
	}
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	whole, refused, begun, why := 0, 0, map[string]int{}, map[string]int{}
	for i := range programs {
		sluice, weaker := strict, []string{"row read committed", "row read uncommitted"}
		if i%3 == 0 {
			sluice, weaker = weak, append(weaker, "row serializable")
		}
		near, far := open(sluice.DSN("postgres")), open(pg.DSN(oracle))
		begin := beginText(rnd)
		steps, extended, place := beginProgram(rnd, begin, 10+i)
		warned = 0
		var done []string
		same, late := true, false
		for n, group := range steps {
			done = append(done, fmt.Sprintf("%v %q", extended[n], group))
			got, want := saysAll(t, near, group, extended[n]), saysAll(t, far, group, extended[n])
			for at := range want {
				if slices.Contains(weaker, want[at]) {
					want[at] = "row repeatable read"
				}
			}
			late = late || slices.ContainsFunc(want, func(s string) bool { return strings.HasPrefix(s, "error 25001") })
			if slices.Equal(got, want) {
				continue
			}
			same = false
			// Modes that come too late are PostgreSQL's to refuse, and then Sluice's levels are others.
			said := strings.Join(got, " ") + strings.Join(want, " ")
			at := slices.IndexFunc(got, func(s string) bool { return strings.HasPrefix(s, "error 0A000") })
			if at < 0 && !strings.Contains(said, "must be called before any query") && !strings.Contains(said, "must be set before any query") {
				t.Errorf("seed %d, program %d:\n%s\ngot  %q\nwant %q", seed, i, strings.Join(done, "\n"), got, want)
			}
			if at >= 0 {
				why[got[at]]++
			}
			break
		}
		if asks := strings.LastIndex(begin, "SERIALIZABLE") > strings.LastIndex(strings.ToUpper(begin), "LEVEL RE"); same && !late && asks && warned == 0 {
			t.Errorf("seed %d, program %d: of a level that is taken for less nobody is told:\n%s", seed, i, strings.Join(done, "\n"))
		}
		if same {
			whole++
			begun[place]++
		} else {
			refused++
		}
		near.Close(t.Context())
		far.Close(t.Context())
	}
	t.Logf("of %d programs %d went through, and %d ended by a refusal: %v", programs, whole, refused, why)
	t.Logf("went through: %v", begun)
	if whole < programs/3 {
		t.Errorf("seed %d: of %d programs %d went through", seed, programs, whole)
	}
	const rows = "SELECT count(*) FROM ro"
	t.Logf("rows: %s and %s", pg.SQL(t, "postgres", rows), pg.SQL(t, oracle, rows))
}
