package rewriting

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// configValues are settings with values, some of which PostgreSQL refuses.
var configValues = [][]string{
	{"timezone", "Asia/Tokyo", "europe/berlin", "UTC"}, {"search_path", "ro, public", "public", `"$user", public`, "a,,b"}, {"IntervalStyle", "sql_standard", "ISO_8601", "nosuch"},
	{"extra_float_digits", "0", "3", "77"}, {"enable_seqscan", "off", "1", "x"}, {"statement_timeout", "12345", "20s", "x"}, {"application_name", "a b", "it's", `b\c`}, {"default_transaction_read_only", "off", "on"},
	{"datestyle", "SQL, DMY", "ISO, MDY"},
}

// configCall is a statement with its values: a query that sets several settings, of which some are parameters.
type configCall struct {
	sql    string
	values []string
}

func drawConfigCall(rnd *rand.Rand) (c configCall) {
	var calls []string
	for range 1 + rnd.IntN(3) {
		of := configValues[rnd.IntN(len(configValues))]
		value := of[1+rnd.IntN(len(of)-1)]
		given := "'" + strings.ReplaceAll(value, "'", "''") + "'"
		if rnd.IntN(2) == 0 {
			c.values = append(c.values, value)
			given = fmt.Sprintf("$%d%s", len(c.values), []string{"", "::text"}[rnd.IntN(2)])
		}
		calls = append(calls, fmt.Sprintf("%s('%s', %s, %v)%s", []string{"set_config", "pg_catalog.set_config"}[rnd.IntN(2)], of[0], given, rnd.IntN(2) == 0, []string{"", " AS told"}[rnd.IntN(2)]))
	}
	c.sql = "SELECT " + strings.Join(calls, ", ")
	return c
}

// saysGroup runs statements with parameters as one group of the extended protocol, described as it is prepared.
func saysGroup(t *testing.T, conn *pgconn.PgConn, group []configCall) (said []string) {
	t.Helper()
	p := conn.StartPipeline(t.Context())
	for i, c := range group {
		name := ""
		if i == 0 && len(group) == 1 {
			name = "named"
			p.SendDeallocate(name)
		}
		p.SendPrepare(name, c.sql, nil)
		values := make([][]byte, len(c.values))
		for i, v := range c.values {
			values[i] = []byte(v)
		}
		p.SendQueryPrepared(name, values, nil, nil)
	}
	if err := p.Sync(); err != nil {
		t.Fatal(err)
	}
	for {
		r, err := p.GetResults()
		switch r := r.(type) {
		case *pgconn.StatementDescription:
			var names []string
			for _, f := range r.Fields {
				names = append(names, fmt.Sprint(f.Name, ":", f.DataTypeOID))
			}
			said = append(said, fmt.Sprint("params ", r.ParamOIDs, " columns ", names))
			continue
		case *pgconn.ResultReader:
			for r.NextRow() {
				said = append(said, fmt.Sprintf("row %q", r.Values()))
			}
			var tag pgconn.CommandTag
			if tag, err = r.Close(); err == nil {
				said = append(said, tag.String())
				continue
			}
		case *pgconn.PipelineSync:
			p.Close()
			return append(said, string(conn.TxStatus())+" "+conn.ParameterStatus("TimeZone")+" "+conn.ParameterStatus("application_name")+" "+conn.ParameterStatus("DateStyle"))
		}
		if told, ok := err.(*pgconn.PgError); ok {
			said = append(said, "error "+told.Code+" "+told.Message)
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// Rows of several set_config, with constants and parameters, say and do through Sluice what they do on
// PostgreSQL, in blocks and outside, and what they have set ends with its transaction; or they are refused.
func TestConfigRows(t *testing.T) {
	const programs = 60
	pg := pgtest.Start(t, pgtest.MaxConnections(100))
	oracle := pg.NewDatabase(t)
	for _, db := range []string{"postgres", oracle} {
		pg.SQL(t, db, "CREATE SCHEMA ro; ALTER DATABASE "+db+" SET timezone TO 'UTC'")
	}
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "4"})})
	open := func(dsn string) *pgconn.PgConn {
		conn, err := pgconn.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(t.Context()) })
		return conn
	}
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 2))
	calls, refused, wrong, why := 0, 0, 0, map[string]int{}
programs:
	for i := range programs {
		near, far := open(sluice.DSN("postgres")), open(pg.DSN(oracle))
		var done []string
		for range 4 + rnd.IntN(8) {
			var group []configCall
			simple := false
			switch n := rnd.IntN(10); {
			case n < 3:
				group = []configCall{{sql: []string{"BEGIN", "COMMIT", "ROLLBACK"}[rnd.IntN(3)]}}
				simple = rnd.IntN(2) == 0
			case n < 4:
				group = []configCall{{sql: "SELECT 1 / 0"}}
			default:
				group = []configCall{drawConfigCall(rnd)}
				simple = len(group[0].values) == 0 && rnd.IntN(2) == 0
				if rnd.IntN(4) == 0 && !simple {
					group = append(group, drawConfigCall(rnd))
				}
			}
			for _, of := range configValues {
				group = append(group, configCall{sql: "SHOW " + of[0]})
			}
			if rnd.IntN(3) > 0 || simple { // the questions in requests of their own
				group = group[:len(group)-len(configValues)]
			}
			done = append(done, fmt.Sprintf("%v %q", simple, group))
			say := func(conn *pgconn.PgConn) []string {
				if simple {
					return saysAll(t, conn, []string{group[0].sql}, false)
				}
				return saysGroup(t, conn, group)
			}
			got, want := say(near), say(far)
			for _, of := range configValues {
				got, want = append(got, saysAll(t, near, []string{"SHOW " + of[0]}, false)...), append(want, saysAll(t, far, []string{"SHOW " + of[0]}, false)...)
			}
			calls++
			if slices.Equal(got, want) {
				continue
			}
			at := slices.IndexFunc(got, func(s string) bool { return strings.HasPrefix(s, "error 0A000") })
			if at < 0 {
				if wrong++; wrong > 6 {
					t.FailNow()
				}
				t.Errorf("seed %d, program %d:\n%s\ngot  %q\nwant %q", seed, i, strings.Join(done, "\n"), got, want)
				continue programs
			}
			refused++
			why[fmt.Sprintf("%q: %s", group[0].sql, got[at])]++
			continue programs
		}
		near.Close(t.Context())
		far.Close(t.Context())
	}
	t.Logf("%d requests, %d programs ended by 0A000", calls, refused)
	for sql, n := range why {
		t.Logf("%d times %s", n, sql)
	}
	if refused > programs*3/4 {
		t.Errorf("%d of %d programs ended by 0A000", refused, programs)
	}
}
