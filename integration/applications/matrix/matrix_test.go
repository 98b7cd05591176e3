package matrix

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

var (
	full     = flag.Bool("full", false, "many transactions of many writers")
	update   = flag.Bool("update", false, "write what is seen into testdata/seen.json and docs/applications.md")
	refusals = flag.String("refusals", "", "a file to write what was refused of which tool to")
)

// binaries is where programs are built.
var binaries string

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if binaries, err = os.MkdirTemp("", "applications-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := pgtest.Main(m)
	os.RemoveAll(binaries)
	os.Exit(code)
}

// Every tool's application does through Sluice what testdata/seen.json says.
func TestMatrix(t *testing.T) {
	before := load(t)
	now := record{}
	var mu sync.Mutex
	t.Run("tools", func(t *testing.T) {
		for _, tool := range tools {
			t.Run(tool.name, func(t *testing.T) {
				t.Parallel()
				row := tool.examine(t, before[tool.name])
				if t.Failed() {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				now[tool.name] = row
			})
		}
	})
	if *refusals != "" {
		writeRefusals(t, now)
	}
	if *update {
		save(t, before, now)
		return
	}
	for name, row := range now {
		for _, difference := range before[name].differences(row) {
			t.Errorf("%s: %s\n(-update writes what is seen)", name, difference)
		}
	}
}

// route is a way to a database.
type route struct {
	configuration configuration
	upstream      *pgtest.Server
	database      string // in upstream
	via           *recorder
	url           string
	sluice        *harness.Sluice // nil on PostgreSQL itself
}

// plain is PostgreSQL itself.
func (tl *tool) plain(t *testing.T) route {
	t.Helper()
	server := pgtest.Shared(t)
	r := route{upstream: server, database: server.NewDatabase(t), via: startRecorder(t, server.Address())}
	r.url = tl.at(r.via.port, server.User, r.database)
	return r
}

// through is Sluice on the stand-in.
func (tl *tool) through(t *testing.T, c configuration) route {
	t.Helper()
	upstream := pgtest.Start(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Upstream: upstream, Args: []string{"--job-delay", "20ms"}})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Env: sim.Env().With(harness.Env{
		"DSQL_RESERVOIR_MAX_OPEN": "30", "DSQL_RESERVOIR_TARGET_READY": "8", "DSQL_CONNECTION_RATE_LIMIT": "1000"}).With(c.env)})
	if strings.Contains(sluice.Log(), "unknown variable") {
		t.Errorf("%s: Sluice has no such key:\n%s", c.name, sluice.Tail())
	}
	r := route{configuration: c, upstream: upstream, database: "postgres", sluice: sluice,
		via: startRecorder(t, fmt.Sprintf("%s:%d", sluice.Host, sluice.Port))}
	r.url = tl.at(r.via.port, "admin", "postgres")
	return r
}

func (tl *tool) at(port int, user, database string) string {
	if tl.url != nil {
		return tl.url("127.0.0.1", port, user, database)
	}
	return fmt.Sprintf("postgresql://%s@127.0.0.1:%d/%s", user, port, database)
}

// examine goes through all steps of a tool on both routes. In the short form only those
// configurations are tried that the record names.
func (tl *tool) examine(t *testing.T, before *row) *row {
	t.Helper()
	expected := tl.plain(t)
	wanted := map[string]answer{}
	version := tl.play(t, up, expected.via, expected.url, wanted)
	schema := laid{dump(t, expected), columnTypes(t, expected), schemaOf(t, expected)}
	tl.play(t, use, expected.via, expected.url, wanted)
	tl.play(t, down, expected.via, expected.url, wanted)
	for _, f := range features {
		if a := wanted[f.name]; tl.has(f) && !a.ok {
			t.Errorf("%s on PostgreSQL: %v", f.name, a)
		}
	}
	if t.Failed() {
		return nil
	}
	result, byHandBefore := newRow(version, wanted), false
	for _, c := range configurations {
		if result.settled() {
			break
		}
		if !*full && !*schemasFlag && !before.names(c) {
			continue
		}
		through := tl.through(t, c)
		got, byHand := tl.try(t, through, schema, byHandBefore && c.migrates)
		byHandBefore = byHandBefore || byHand
		through.conflicts(t)
		for _, f := range features {
			if _, told := got[f.name]; told {
				t.Logf("%s, %s: %v in %.1f s, PostgreSQL %.1f s", c.name, f.name, got[f.name], got[f.name].took.Seconds(), wanted[f.name].took.Seconds())
			}
		}
		result.add(c, wanted, got, byHand)
	}
	return result
}

// laid is what migrations leave on PostgreSQL: a dump, the types of columns, and lines to compare.
type laid struct {
	dump, types string
	lines       []string
}

// try goes through the phases on Sluice. Where migrations fail, the tables are laid by hand, unless
// what comes of that is known.
func (tl *tool) try(t *testing.T, r route, schema laid, known bool) (got map[string]answer, byHand bool) {
	t.Helper()
	got = map[string]answer{}
	tl.play(t, up, r.via, r.url, got)
	tl.compareTypes(t, r, schema.types, got)
	for _, f := range features {
		if f.phase == up && !f.spare && tl.has(f) && !got[f.name].ok {
			byHand = true
		}
	}
	if !byHand {
		tl.compareSchemas(t, r, schema.lines)
	}
	if byHand {
		if tl.has(featureNamed("down")) {
			got["down"] = answer{needs: "migrations"}
		}
		if known {
			return got, true
		}
		lay(t, r, schema.dump)
	}
	tl.play(t, use, r.via, r.url, got)
	if byHand {
		return got, true
	}
	tl.play(t, down, r.via, r.url, got)
	return got, false
}

// compareTypes has a migration fail that succeeded and left columns of other types than on PostgreSQL.
func (tl *tool) compareTypes(t *testing.T, r route, types string, got map[string]answer) {
	t.Helper()
	for _, f := range features {
		if f.phase == up && tl.has(f) && !got[f.name].ok {
			return
		}
	}
	if is := columnTypes(t, r); is != types {
		a := got["tables"]
		a.ok, a.code, a.message = false, "-", fmt.Sprintf("columns of other types: %s", differing(is, types))
		got["tables"] = a
	}
}

// differing are the lines that only one of two texts has.
func differing(got, want string) string {
	var all []string
	has := func(text, line string) bool { return strings.Contains("\n"+text+"\n", "\n"+line+"\n") }
	for line := range strings.SplitSeq(got, "\n") {
		if !has(want, line) {
			all = append(all, line)
		}
	}
	for line := range strings.SplitSeq(want, "\n") {
		if !has(got, line) {
			all = append(all, "PostgreSQL "+line)
		}
	}
	return strings.Join(all, ", ")
}

// columnTypes are the columns of a database's tables with their types. A numeric without a precision has one
// on a cluster (rewrite.numeric).
func columnTypes(t *testing.T, r route) string {
	t.Helper()
	return r.upstream.SQL(t, r.database, `SELECT string_agg(format('%s.%s %s', c.relname, a.attname, format_type(a.atttypid, CASE WHEN a.atttypid <> 'numeric'::regtype THEN a.atttypmod END)), E'\n' ORDER BY c.relname, a.attname)
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped`)
}

// conflicts holds what the application was told of conflicts against Sluice's metrics: a transaction that
// met one was run again, unless rows that the application had are others by then.
func (r route) conflicts(t *testing.T) {
	t.Helper()
	text, err := r.sluice.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	of := func(name, label string) int {
		sum, _ := harness.SumMetric(t, text, name, label)
		return int(sum)
	}
	const refused = "dsql_tx_replay_refused_total"
	told, rows := r.via.differed()
	// A name that the server did not know was looked up once more, and the schema had not changed: that
	// is no conflict, but goose's way to find that its table is not there.
	differs, every := of(refused, `reason="differs"`), of(refused, "")-of(refused, `reason="unchanged"`)
	if every != differs || differs != rows || rows != len(told) {
		t.Errorf("%s: %d conflicts were told, %d of them for other rows; by the metrics %d replays were refused, %d as differs: %+v\n%s", r.configuration.name, len(told), rows, every, differs, told, strings.Join(regexp.MustCompile(refused+`\{.*\} [1-9].*`).FindAllString(text, -1), "\n"))
	}
	t.Logf("%s: %d conflicts were told, %d replays were made", r.configuration.name, len(told), of("dsql_tx_retries_total", ""))
}

// dump is the schema of a database, as pg_dump writes it, and the rows that migrations have made.
func dump(t *testing.T, r route) string {
	t.Helper()
	out, err := r.upstream.Program("pg_dump", "--no-owner", "--no-privileges", "--inserts", r.database).Output()
	if err != nil {
		t.Fatalf("pg_dump: %v", err)
	}
	return string(out)
}

// schemas finds the names of schemas that a dump makes.
var schemas = regexp.MustCompile(`(?m)^CREATE SCHEMA (\S+);$`)

// lay makes a dumped schema below the stand-in, in the place of what there is.
func lay(t *testing.T, r route, schema string) {
	t.Helper()
	tables := r.upstream.SQL(t, r.database, "SELECT string_agg(format('DROP TABLE IF EXISTS %I CASCADE', relname), ';') FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'")
	if tables != "" {
		r.upstream.SQL(t, r.database, tables)
	}
	for _, made := range schemas.FindAllStringSubmatch(schema, -1) {
		r.upstream.SQL(t, r.database, "DROP SCHEMA IF EXISTS "+made[1]+" CASCADE")
	}
	psql := r.upstream.Program("psql", "-q", "-X", "-v", "ON_ERROR_STOP=1", "-d", r.database)
	psql.Stdin = strings.NewReader(schema)
	if out, err := psql.CombinedOutput(); err != nil {
		t.Fatalf("the schema by hand: %v\n%s", err, out)
	}
}
