package bytea

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/lib/pq"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

var temporalFlag = flag.Int("bytea.temporal", 150, "how many statements of Temporal each manner of asking tries")

// asker runs a text in one manner, and shows what came back.
type asker func(ctx context.Context, text string, args []any) (string, error)

// manners are how Temporal's two plugins, and others, ask.
var manners = []struct {
	name string
	open func(t *testing.T, dsn string) asker
}{
	{"pgx cached", askPgx(pgx.QueryExecModeCacheStatement)},
	{"pgx exec", askPgx(pgx.QueryExecModeExec)},
	{"pgx simple", askPgx(pgx.QueryExecModeSimpleProtocol)},
	{"pq text", askPq("")},
	{"pq binary", askPq("&binary_parameters=yes")},
}

func askPgx(mode pgx.QueryExecMode) func(*testing.T, string) asker {
	return func(t *testing.T, dsn string) asker {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		config.DefaultQueryExecMode = mode
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.Background()) })
		return func(ctx context.Context, text string, args []any) (string, error) {
			rows, err := conn.Query(ctx, text, args...)
			if err != nil {
				return "", err
			}
			defer rows.Close()
			var lines []string
			for rows.Next() {
				lines = append(lines, fmt.Sprintf("%q", rows.RawValues()))
			}
			head := rows.CommandTag().String()
			for _, f := range rows.FieldDescriptions() {
				head += fmt.Sprintf(" %s %d %d %d %d", f.Name, f.DataTypeOID, f.DataTypeSize, f.TypeModifier, f.Format)
			}
			return strings.Join(append(lines, head), "\n"), rows.Err()
		}
	}
}

func askPq(more string) func(*testing.T, string) asker {
	return func(t *testing.T, dsn string) asker {
		db, err := sql.Open("postgres", dsn+more)
		if err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(1)
		t.Cleanup(func() { db.Close() })
		return func(ctx context.Context, text string, args []any) (string, error) {
			if !strings.HasPrefix(strings.TrimSpace(strings.ToUpper(text)), "SELECT") {
				result, err := db.ExecContext(ctx, text, args...)
				if err != nil {
					return "", err
				}
				n, err := result.RowsAffected()
				return fmt.Sprint(n), err
			}
			rows, err := db.QueryContext(ctx, text, args...)
			if err != nil {
				return "", err
			}
			defer rows.Close()
			types, err := rows.ColumnTypes()
			if err != nil {
				return "", err
			}
			var out strings.Builder
			values := make([]any, len(types))
			for i, t := range types {
				fmt.Fprint(&out, t.Name(), " ", t.DatabaseTypeName(), " ")
				values[i] = new(any)
			}
			out.WriteByte('\n')
			for rows.Next() {
				if err := rows.Scan(values...); err != nil {
					return "", err
				}
				for _, v := range values {
					fmt.Fprintf(&out, "%#v ", *v.(*any))
				}
				out.WriteByte('\n')
			}
			return out.String(), rows.Err()
		}
	}
}

// codeOf is the SQLSTATE of a driver's error; "" for none.
func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	if e, ok := errors.AsType[*pq.Error](err); ok {
		return string(e.Code)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// keys are values of bytea; the first is the likeliest.
var keys = [][]byte{[]byte("0123456789abcdef"), slices.Repeat([]byte{0}, 16), slices.Repeat([]byte{0xff}, 16), {}, {0xc3, 0x28, '\''}, []byte("root$a#b")}

// argument is a random value of a type: one of few, so that rows are found.
func argument(r *rand.Rand, oid uint32) any {
	k := max(r.IntN(9)-4, 0) // more than half are 0
	switch oid {
	case pgtype.ByteaOID:
		switch r.IntN(24) {
		case 0:
			return []byte(nil)
		case 1: // as Temporal gives the path of a node
			return []string{"", "a$b", `a\$b`, "chasm", "x"}[k]
		}
		return keys[k]
	case pgtype.BoolOID:
		return k > 0
	case pgtype.TimestampOID, pgtype.TimestamptzOID:
		return time.Date(2024, 1, 1+k, 0, 0, 0, 0, time.UTC)
	case pgtype.TextOID, pgtype.VarcharOID:
		return []string{"a", "b", "w", "", "é"}[k]
	}
	return k
}

// TestTemporal runs the statements of Temporal's plugin in five manners, in plain PostgreSQL
// and through Sluice on a stand-in that refuses bytea in keys, and finds no difference.
func TestTemporal(t *testing.T) {
	t.Parallel()
	module, err := temporalModule("../temporal")
	if err != nil {
		t.Fatal(err)
	}
	texts, err := temporalTexts(module)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := temporalSchema(module)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mappings {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			pg := pgtest.Shared(t)
			stock := pg.DSN(pg.NewDatabase(t))
			upstream := pgtest.Start(t)
			sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Upstream: upstream, Args: m.args})
			mapped := harness.StartSluice(t, harness.SluiceConfig{Env: sim.Env().With(m.env)}).DSN("postgres")
			types := prepared(t, stock, mapped, schema, texts)
			missesFail(t, upstream, texts)
			table := "manner: executed, rows found or changed, fail in both, exceptions"
			for i, how := range manners {
				t.Run(how.name, func(t *testing.T) {
					s := temporalRun{t: t, texts: texts, types: types, stock: how.open(t, stock), mapped: how.open(t, mapped), random: rand.New(rand.NewPCG(*seedFlag, uint64(i)))}
					table += "\n" + how.name + ": " + s.play(*temporalFlag)
					s.tables(schema)
				})
			}
			for _, name := range slices.Sorted(keysIterator(anyOrder)) {
				table += "\nrows in any order: " + name + ": " + anyOrder[name]
			}
			t.Log(table) // an exception is an error above, with its statement and both answers
		})
	}
}

// prepared makes the schema in both databases and holds what they say of each text against
// each other. It returns the types of parameters.
func prepared(t *testing.T, stock, mapped string, schema []string, texts []namedText) map[string][]uint32 {
	t.Helper()
	var conns []*pgconn.PgConn
	for _, dsn := range []string{stock, mapped} {
		conn, err := pgconn.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		for _, s := range schema {
			if _, err := conn.Exec(t.Context(), s).ReadAll(); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
		conns = append(conns, conn)
	}
	types, alike := map[string][]uint32{}, 0
	for _, n := range texts {
		a, errA := conns[0].Prepare(t.Context(), "", n.text, nil)
		b, errB := conns[1].Prepare(t.Context(), "", n.text, nil)
		if errA != nil {
			t.Errorf("%s: %v\n%s", n.name, errA, n.text)
			continue
		}
		types[n.name] = a.ParamOIDs
		if errB != nil {
			t.Errorf("%s through Sluice: %v\n%s", n.name, errB, n.text)
			continue
		}
		var x, y statementOutcome
		x.setFields(a.Fields)
		y.setFields(b.Fields)
		if !slices.Equal(a.ParamOIDs, b.ParamOIDs) || !slices.Equal(x.fields, y.fields) {
			t.Errorf("%s: %v %v, through Sluice %v %v", n.name, a.ParamOIDs, x.fields, b.ParamOIDs, y.fields)
			continue
		}
		alike++
	}
	t.Logf("%d of %d texts are described alike", alike, len(texts))
	return types
}

// missesFail prepares the texts past what maps: each that names a mapped column must fail,
// because the database has no column of the name.
func missesFail(t *testing.T, upstream *pgtest.Server, texts []namedText) {
	t.Helper()
	columns := map[string][]string{}
	for line := range strings.Lines(upstream.SQL(t, "postgres", `SELECT c.relname, left(a.attname, -10) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		WHERE c.relkind = 'r' AND right(a.attname, 10) = '__byteahex' AND NOT a.attisdropped`)) {
		table, column, _ := strings.Cut(strings.TrimSpace(line), "|")
		columns[table] = append(columns[table], column)
	}
	conn, err := pgconn.Connect(t.Context(), upstream.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	failed := 0
	for _, n := range texts {
		words := strings.FieldsFunc(n.text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		touches := slices.ContainsFunc(words, func(table string) bool {
			return slices.ContainsFunc(columns[table], func(column string) bool { return slices.Contains(words, column) })
		})
		_, err := conn.Prepare(t.Context(), "", n.text, nil)
		if touches && codeOf(err) != "42703" || !touches && err != nil {
			t.Errorf("%s, past Sluice: %v, names a mapped column: %v", n.name, err, touches)
		}
		if touches {
			failed++
		}
	}
	if failed < 130 || len(columns) != 22 {
		t.Errorf("%d texts fail, %d tables are mapped: want about 140, and 22", failed, len(columns))
	}
	t.Logf("%d of %d texts name a mapped column, and fail where nothing maps them", failed, len(texts))
}

// touched is the answer to a statement that changed rows.
var touched = regexp.MustCompile(`^([A-Z ]+0? )?[1-9]\d*$`)

// temporalRun is one manner.
type temporalRun struct {
	t             *testing.T
	texts         []namedText
	types         map[string][]uint32
	stock, mapped asker
	random        *rand.Rand
}

// play runs random statements, and gives a row of the table of exceptions: there are none.
func (s *temporalRun) play(count int) string {
	failed, found, wrong := 0, 0, 0
	for range count {
		n := s.texts[s.random.IntN(len(s.texts))]
		var args []any
		for _, oid := range s.types[n.name] {
			args = append(args, argument(s.random, oid))
		}
		want, errWant := s.stock(s.t.Context(), n.text, args)
		got, errGot := s.mapped(s.t.Context(), n.text, args)
		switch {
		case codeOf(errWant) != codeOf(errGot):
			s.t.Errorf("%s %#v: %v, through Sluice %v", n.name, args, errWant, errGot)
			wrong++
		case errWant != nil:
			failed++
		case inOrder(n, want) != inOrder(n, got):
			s.t.Errorf("%s %#v:\n%s\nthrough Sluice\n%s", n.name, args, want, got)
			wrong++
		case strings.Contains(want, "\n") || touched.MatchString(want):
			found++
		}
		if wrong > 3 {
			break
		}
	}
	return fmt.Sprintf("%d, %d, %d, %d", count, found, failed, wrong)
}

// anyOrder are the texts whose ORDER BY leaves open which row comes first, by the reason.
var anyOrder = map[string]string{
	"listTaskQueueWithHashRangeQry": "rows of several range_hash have one task_queue_id",
	"templateGetLastMessageIDQuery": "the ORDER BY is that of a query within",
}

// inOrder is an answer as it can be compared: rows that no ORDER BY sorts are in any order, and
// which of them LIMIT leaves is not said either.
func inOrder(n namedText, answer string) string {
	words := strings.Fields(strings.ToUpper(n.text))
	lines := strings.Split(answer, "\n")
	base, _, _ := strings.Cut(n.name, " ")
	_, open := anyOrder[base]
	switch {
	case slices.Contains(words, "ORDER") && !open:
		return answer
	case slices.Contains(words, "LIMIT"):
		return fmt.Sprint(len(lines))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// tables compares all that is stored.
func (s *temporalRun) tables(schema []string) {
	compared, rows := 0, 0
	for _, ddl := range schema {
		words := strings.Fields(ddl)
		if len(words) < 3 || words[0] != "CREATE" || words[1] != "TABLE" {
			continue
		}
		table, _, _ := strings.Cut(words[2], "(")
		columns := "*"
		if table == "buffered_events" { // its id is a sequence's
			columns = "shard_id, namespace_id, workflow_id, run_id, data, data_encoding"
		}
		text := "SELECT " + columns + " FROM " + table
		want, errWant := s.stock(s.t.Context(), text, nil)
		got, errGot := s.mapped(s.t.Context(), text, nil)
		if errWant != nil || errGot != nil {
			s.t.Errorf("%s: %v, through Sluice %v", table, errWant, errGot)
		}
		a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
		slices.Sort(a)
		slices.Sort(b)
		if !slices.Equal(a, b) {
			s.t.Errorf("%s has\n%s\nthrough Sluice\n%s", table, want, got)
		}
		compared, rows = compared+1, rows+len(a)-1
	}
	s.t.Logf("%d tables with about %d rows are equal", compared, rows)
}
