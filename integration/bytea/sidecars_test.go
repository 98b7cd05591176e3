package bytea

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

var (
	storiesFlag = flag.Int("sidecars.stories", 2, "how many stories of two sidecars are told")
	storyFlag   = flag.Int("sidecars.only", -1, "this story alone")
)

// stepsOfStory is how many statements a story has.
const stepsOfStory = 60

// column is a column of a table as both sides have it, by the name that clients know.
type column struct {
	name, kind string
	key        bool // of the primary key
}

// sidecars is a story of two daemons over one cluster: one changes the schema, and the other
// runs statements over it. Both do the same in a PostgreSQL, the oracle.
type sidecars struct {
	t   *testing.T
	d   *choiceSequence
	sim *harness.DSQLSim
	cut *int // connections of the stand-in with smaller numbers are cut

	changer, client *pgconn.PgConn // by a daemon of its own each
	stockChanger    *pgconn.PgConn
	stock           *pgconn.PgConn

	tables   map[string][]column
	prepared []preparedText
	block    bool
	names    int // that were made up
	told     []string

	statements, failed int
	refused, otherwise map[string]int
}

// preparedText is a statement that the client has prepared on both sides.
type preparedText struct {
	name, sql string
	values    [][]byte
}

// said is what a statement was answered.
type said struct {
	code, message string
	columns       []string
	rows          []string
	tag           string
}

func (s said) String() string {
	if s.code != "" {
		return s.code + " " + s.message
	}
	return fmt.Sprint(s.columns, s.rows, s.tag)
}

// answerOf reads an answer; rows are in no order.
func answerOf(r *pgconn.Result) (s said) {
	var e *pgconn.PgError
	switch {
	case errors.As(r.Err, &e):
		return said{code: e.Code, message: e.Message}
	case r.Err != nil:
		return said{code: "lost", message: r.Err.Error()}
	}
	s.tag = r.CommandTag.String()
	for _, f := range r.FieldDescriptions {
		s.columns = append(s.columns, fmt.Sprintf("%s %d", f.Name, f.DataTypeOID))
	}
	for _, row := range r.Rows {
		s.rows = append(s.rows, fmt.Sprintf("%q", row))
	}
	slices.Sort(s.rows)
	return s
}

// run runs a text in one of the ways of a driver: as a Query, or with parameters.
func run(ctx context.Context, c *pgconn.PgConn, sql string, values [][]byte) said {
	if values != nil {
		return answerOf(c.ExecParams(ctx, sql, values, nil, nil, nil).Read())
	}
	results, err := c.Exec(ctx, sql).ReadAll()
	if len(results) == 0 {
		results = []*pgconn.Result{{}}
	}
	last := results[len(results)-1]
	if err != nil {
		last.Err = err
	}
	return answerOf(last)
}

// make is a table that there is not yet.
func (s *sidecars) create(name string) string {
	key := pickOne(s.d, "k", "n, k", "n")
	columns := []column{{"n", "int", key != "k"}, {"k", "bytea", key != "n"}, {"v", "bytea", false}, {"x", "text", false}}[:2+s.d.intBelow(3)]
	for i := range columns {
		j := i + s.d.intBelow(len(columns)-i)
		columns[i], columns[j] = columns[j], columns[i]
	}
	var list []string
	for _, c := range columns {
		list = append(list, c.name+" "+c.kind)
	}
	s.tables[name] = columns
	return fmt.Sprintf("CREATE TABLE %s (%s, PRIMARY KEY (%s))", name, strings.Join(list, ", "), key)
}

// change is a change of the schema, as several statements.
func (s *sidecars) change() []string {
	name := pickOne(s.d, "t", "u")
	columns := s.tables[name]
	if columns == nil {
		return []string{s.create(name)}
	}
	i := s.d.intBelow(len(columns))
	c := columns[i]
	switch s.d.intBelow(8) {
	case 0, 1, 2:
		s.names++
		added := column{pickOne(s.d, "v", "x", "c"), pickOne(s.d, "int", "bytea", "text"), false}
		if slices.ContainsFunc(columns, func(c column) bool { return c.name == added.name }) {
			added.name = fmt.Sprint("c", s.names)
		}
		s.tables[name] = append(slices.Clone(columns), added)
		return []string{fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", name, added.name, added.kind)}
	case 3:
		if c.key {
			break
		}
		s.tables[name] = slices.Delete(slices.Clone(columns), i, i+1)
		return []string{fmt.Sprintf("ALTER TABLE %s DROP COLUMN %s", name, c.name)}
	case 4:
		s.names++
		s.tables[name] = slices.Clone(columns)
		s.tables[name][i].name = fmt.Sprint("c", s.names)
		return []string{fmt.Sprintf("ALTER TABLE %s RENAME COLUMN %s TO c%d", name, c.name, s.names)}
	case 5: // two columns change their names
		other := columns[(i+1)%len(columns)].name
		s.tables[name] = slices.Clone(columns)
		s.tables[name][i].name, s.tables[name][(i+1)%len(columns)].name = other, c.name
		rename := "ALTER TABLE " + name + " RENAME COLUMN "
		return []string{rename + c.name + " TO between", rename + other + " TO " + c.name, rename + "between TO " + other}
	case 6:
		return []string{fmt.Sprintf("CREATE INDEX %s_%d ON %s (%s)", name, s.d.intBelow(3), name, pickOne(s.d, "n", "k"))}
	}
	return []string{"DROP TABLE " + name, s.create(name)}
}

// value is a value for a column of a type, as text without quotes.
func (s *sidecars) value(kind string) string {
	switch kind {
	case "int":
		return fmt.Sprint(1 + s.d.intBelow(3))
	case "bytea":
		return pickOne(s.d, `\x61`, `\x6162`, `\x`, "61", "ab", `\x00ff`)
	}
	return pickOne(s.d, "61", "ab", "x", "")
}

// statement is a statement over the tables as they are, or over what they may have been. With
// parameters there is one value for each.
func (s *sidecars) statement(params bool) (sql string, values [][]byte) {
	d, name, other := s.d, pickOne(s.d, "t", "u"), pickOne(s.d, "u", "t")
	columns := s.tables[name]
	if columns == nil {
		columns = []column{{"n", "int", true}, {"k", "bytea", true}}
	}
	if params {
		values = [][]byte{}
	}
	literal := func(kind string) string {
		if params {
			values = append(values, []byte(s.value(kind)))
			return fmt.Sprint("$", len(values))
		}
		if v := s.value(kind); kind != "int" {
			return "'" + v + "'"
		} else {
			return v
		}
	}
	c := columns[d.intBelow(len(columns))]
	key := column{"k", "bytea", true}
	switch d.intBelow(15) {
	case 0, 1:
		return "SELECT * FROM " + name, values
	case 2:
		return "TABLE " + name, values
	case 3, 4:
		var list []string
		for _, c := range columns[:len(columns)-d.intBelow(2)] {
			list = append(list, literal(c.kind))
		}
		return "INSERT INTO " + name + " VALUES (" + strings.Join(list, ", ") + ") ON CONFLICT DO NOTHING", values
	case 5:
		var names, list []string
		for _, c := range columns {
			names, list = append(names, c.name), append(list, literal(c.kind))
		}
		return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) ON CONFLICT DO NOTHING RETURNING *", name, strings.Join(names, ", "), strings.Join(list, ", ")), values
	case 6:
		return fmt.Sprintf("INSERT INTO %s SELECT * FROM %s ON CONFLICT DO NOTHING", name, other), values
	case 7:
		return fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s = %s RETURNING *", name, c.name, literal(c.kind), key.name, literal(key.kind)), values
	case 8:
		return fmt.Sprintf("DELETE FROM %s WHERE %s = %s", name, c.name, literal(c.kind)), values
	case 9:
		return fmt.Sprintf("SELECT * FROM %s NATURAL JOIN %s AS o", name, other), values
	case 10:
		return fmt.Sprintf("SELECT a.*, b.%s FROM %s a JOIN %s b ON a.k = b.k WHERE a.%s = %s", c.name, other, name, key.name, literal(key.kind)), values
	case 11:
		return fmt.Sprintf("WITH c AS (SELECT * FROM %s) SELECT * FROM c WHERE %s >= %s", name, c.name, literal(c.kind)), values
	case 12:
		return fmt.Sprintf("SELECT (SELECT max(length(%s)) FROM %s) FROM %s", pickOne(d, "k", "v", "x"), other, name), values
	case 13:
		return fmt.Sprintf("SELECT %s, %s FROM %s, %s AS o ORDER BY 1", pickOne(d, "k", "v"), c.name, name, other), values
	}
	return fmt.Sprintf("SELECT %s, count(*) FROM %s WHERE %s < %s GROUP BY 1", c.name, name, c.name, literal(c.kind)), values
}

// cutAll cuts the connections to the stand-in from a number on, and returns the number behind
// the last.
func (s *sidecars) cutAll(ctx context.Context, from int) int {
	for id, missed := from, 0; missed < 20; id++ {
		if _, err := s.sim.Ask(ctx, http.MethodDelete, fmt.Sprint("/sessions/", id), ""); err != nil {
			missed++
			continue
		}
		from, missed = id+1, 0
	}
	return from
}

// compare fails the story where the two sides differ.
func (s *sidecars) compare(what string, stock, mapped said) {
	s.told = append(s.told, what)
	s.statements++
	if stock.code != "" {
		s.failed++
	}
	switch {
	case stock.code == mapped.code && (stock.code != "" || stock.String() == mapped.String()):
	// Of several errors in one text another may be found first, and a refusal of Sluice's own may
	// be a moment old.
	case stock.code != "" && mapped.code != "" && !strings.HasPrefix(mapped.code, "08"):
		s.otherwise[stock.code+" "+mapped.code]++
	// The last is told where the schema was read for another such error a moment ago.
	case mapped.code == "0A000" || mapped.code == "40001" || mapped.code == "42703":
		s.refused[mapped.code+" "+mapped.message]++
		if s.block { // which is aborted on one side only
			s.told = append(s.told, "ROLLBACK, behind "+mapped.String())
			run(s.t.Context(), s.stock, "ROLLBACK", nil)
			run(s.t.Context(), s.client, "ROLLBACK", nil)
			s.block = false
		}
	default:
		s.t.Fatalf("%s\n\nPostgreSQL: %v\nSluice:     %v", strings.Join(s.told, "\n"), stock, mapped)
	}
}

// step does one thing.
func (s *sidecars) step(ctx context.Context) {
	d := s.d
	switch k := d.intBelow(20); {
	case k == 19 && !s.block: // the backends are replaced
		s.told = append(s.told, "-- the backends are replaced")
		*s.cut = s.cutAll(ctx, *s.cut)
		time.Sleep(100 * time.Millisecond)
	case k >= 15 && !s.block:
		begins := d.chance(30)
		if begins {
			s.compare("BEGIN", run(ctx, s.stock, "BEGIN", nil), run(ctx, s.client, "BEGIN", nil))
			s.block = true
		}
		for _, sql := range s.change() {
			stock, mapped := run(ctx, s.stockChanger, sql, nil), run(ctx, s.changer, sql, nil)
			s.told = append(s.told, "-- "+sql)
			if stock.code != mapped.code && !(strings.HasPrefix(sql, "CREATE INDEX") && mapped.code == "0A000") {
				s.t.Fatalf("%s\n\nPostgreSQL: %v\nSluice:     %v", strings.Join(s.told, "\n"), stock, mapped)
			}
			if mapped.code == "0A000" { // an index on a column that is not mapped
				run(ctx, s.stockChanger, strings.Replace(sql[:strings.Index(sql, " ON ")], "CREATE", "DROP", 1), nil)
			}
		}
	case k >= 13 && s.block:
		s.compare("COMMIT", run(ctx, s.stock, "COMMIT", nil), run(ctx, s.client, "COMMIT", nil))
		s.block = false
	case k >= 10 && len(s.prepared) > 0:
		p := s.prepared[d.intBelow(len(s.prepared))]
		one := func(c *pgconn.PgConn) said { return answerOf(c.ExecPrepared(ctx, p.name, p.values, nil, nil).Read()) }
		s.compare("EXECUTE "+p.name, one(s.stock), one(s.client))
	case k >= 8:
		sql, values := s.statement(true)
		p := preparedText{fmt.Sprint("p", len(s.told)), sql, values}
		described := func(c *pgconn.PgConn) said {
			sd, err := c.Prepare(ctx, p.name, sql, nil)
			if err != nil {
				return answerOf(&pgconn.Result{Err: err})
			}
			a := answerOf(&pgconn.Result{FieldDescriptions: sd.Fields})
			a.rows = []string{fmt.Sprint(sd.ParamOIDs)}
			return a
		}
		stock, mapped := described(s.stock), described(s.client)
		s.compare("PREPARE "+p.name+" AS "+sql, stock, mapped)
		if stock.code == "" && mapped.code == "" {
			s.prepared = append(s.prepared, p)
		}
	default:
		sql, values := s.statement(d.chance(40))
		s.compare(fmt.Sprintf("%s %q", sql, values), run(ctx, s.stock, sql, values), run(ctx, s.client, sql, values))
	}
}

// dialled is a client.
func dialled(t *testing.T, dsn string) *pgconn.PgConn {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// Two sidecars agree about the schema that one of them changes: the other's clients are told
// what PostgreSQL tells, with backends from before a change and from behind it.
func TestTwoSidecars(t *testing.T) {
	bin := harness.Binaries(t)
	pg := pgtest.Start(t, pgtest.MaxConnections(200))
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg})
	env := sim.Env().With(harness.Env{"DSQL_REWRITE_BYTEA": "hex", "DSQL_RESERVOIR_MAX_OPEN": "5", "DSQL_RESERVOIR_LOW_WATERMARK": "1"})
	a := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: env})
	b := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: env})
	statements, failed, refused, otherwise, cut := 0, 0, map[string]int{}, map[string]int{}, 1
	for n := range *storiesFlag {
		if *storyFlag >= 0 && n != *storyFlag {
			continue
		}
		stock := pg.DSN(pg.NewDatabase(t))
		s := &sidecars{t: t, d: newChoiceSequence(*seedFlag, uint64(n)), sim: sim, cut: &cut, tables: map[string][]column{}, refused: refused, otherwise: otherwise,
			changer: dialled(t, a.DSN("postgres")), client: dialled(t, b.DSN("postgres")), stockChanger: dialled(t, stock), stock: dialled(t, stock)}
		s.told = []string{fmt.Sprintf("story %d of seed %d", n, *seedFlag)}
		for range stepsOfStory {
			s.step(t.Context())
		}
		if s.block {
			run(t.Context(), s.stock, "ROLLBACK", nil)
			run(t.Context(), s.client, "ROLLBACK", nil)
		}
		for name := range s.tables {
			s.compare("the end of "+name, run(t.Context(), s.stock, "SELECT * FROM "+name, nil), run(t.Context(), s.client, "SELECT * FROM "+name, nil))
			run(t.Context(), s.changer, "DROP TABLE "+name, nil)
		}
		statements, failed = statements+s.statements, failed+s.failed
	}
	t.Logf("%d statements, %d fail in both; refused: %v; other codes: %v", statements, failed, refused, otherwise)
	all := 0
	for _, n := range refused {
		all += n
	}
	if all*50 > statements {
		t.Errorf("%d of %d statements are refused", all, statements)
	}
}
