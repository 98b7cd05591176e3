package temporal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// refusals are objects of a schema, by what DSQL says of them, in the order in which
// these texts were met.
type refusals struct {
	reasons []string
	objects map[string][]string
}

func (r *refusals) add(object string, err error) {
	reason := err.Error()
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		reason = e.Code + " " + e.Message
	}
	if r.objects[reason] == nil {
		r.reasons = append(r.reasons, reason)
	}
	r.objects[reason] = append(r.objects[reason], object)
}

// Why Temporal's visibility has another store than DSQL: each statement of its schema is
// tried, of the table each column alone, and of what is refused docs/temporal.md has the
// list. What a refused object is needed for is made behind the stand-in's back, so that
// each is refused for what it is. An index is asked for in DSQL's own spelling, and then
// without the direction and the expression that its kind is refused for.
func TestVisibilityOnDSQL(t *testing.T) {
	t.Parallel()
	pg := pgtest.Start(t, pgtest.MaxConnections(150))
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Upstream: pg})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Env: sim.Env().With(sluiceEnv)})
	config, err := pgx.ParseConfig(sluice.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	refused := &refusals{objects: map[string][]string{}}
	tried := func(object, statement string) bool {
		_, err := conn.Exec(t.Context(), statement)
		if err != nil {
			refused.add(object, err)
		}
		return err == nil
	}
	var made, plain []string
	for _, s := range visibilityStatements(t) {
		name := objectName.FindStringSubmatch(s)
		switch {
		case name == nil:
			tried("DO", s)
			made = append(made, s)
		case name[1] == "TABLE":
			tryColumns(t, s, tried)
			for _, s := range append(made, s) {
				pg.SQL(t, "postgres", s)
			}
		case name[1] == "INDEX":
			if tried(name[2], strings.Replace(s, "INDEX", "INDEX ASYNC", 1)) {
				t.Errorf("%s can be made", name[2])
			}
			if directed.MatchString(s) {
				plain = append(plain, directed.ReplaceAllString(strings.Replace(s, "INDEX", "INDEX ASYNC", 1), ")"))
			}
		default:
			tried(name[2], s)
			made = append(made, s)
		}
	}
	tooMany := 0
	for _, s := range plain {
		if _, err = conn.Exec(t.Context(), s); err != nil {
			tooMany++
		}
	}
	refused.add(fmt.Sprintf("%d of the %d, if they had neither", tooMany, len(plain)), err)
	verifyDocumented(t, refused)
}

var (
	objectName = regexp.MustCompile(`^CREATE (TABLE|INDEX|FUNCTION) (?:ASYNC )?(\w+)`)
	// A column's definition stands on a line of its own.
	definition = regexp.MustCompile(`(?m)^ +(\w+) +([A-Z].*[\w)'])\s*,\s*$`)
	// What an index by time ends with.
	directed = regexp.MustCompile(`, *\(COALESCE\(close_time,.*`)
)

// tryColumns makes a table of each column alone, beside the one that the generated columns read.
func tryColumns(t *testing.T, table string, tried func(object, statement string) bool) {
	t.Helper()
	const source = "search_attributes"
	columns := definition.FindAllStringSubmatch(regexp.MustCompile(`--.*`).ReplaceAllString(table, ""), -1)
	if len(columns) < 50 {
		t.Fatalf("%d columns were found", len(columns))
	}
	for n, c := range columns {
		if c[1] != source {
			tried(c[1], fmt.Sprintf("CREATE TABLE column_%d (%s jsonb, %s %s)", n, source, c[1], c[2]))
		}
	}
}

// verifyDocumented that docs/temporal.md lists what was refused, and nothing else.
func verifyDocumented(t *testing.T, refused *refusals) {
	t.Helper()
	page, err := os.ReadFile("../../docs/temporal.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	rows.WriteString("| DSQL says | of |\n|---|---|\n")
	for _, reason := range refused.reasons {
		objects := refused.objects[reason]
		fmt.Fprintf(&rows, "| %s | %s |\n", reason, strings.Join(objects, ", "))
	}
	t.Logf("\n%s", rows.String())
	if !strings.Contains(string(page), rows.String()+"\n") {
		t.Errorf("docs/temporal.md does not have this table")
	}
}

// visibilityStatements are those of the collapsed schema.
func visibilityStatements(t *testing.T) []string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "go.temporal.io/server").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "schema", visibilitySchema.name, "schema.sql"))
	if err != nil {
		t.Fatal(err)
	}
	var statements []string
	begins := regexp.MustCompile(`(?m)^(?:CREATE|DO) `).FindAllIndex(text, -1)
	for i, at := range begins {
		end := len(text)
		if i+1 < len(begins) {
			end = begins[i+1][0]
		}
		statements = append(statements, strings.TrimSpace(string(text[at[0]:end])))
	}
	return statements
}
