// Package hostile holds what must not bring the built program down.
package hostile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, pgtest.TLS())) }

// deepTerms is far beyond what PostgreSQL's C parser survives.
const deepTerms = 100_000

// deepTexts are texts whose parse tree is as deep as they are long, with a word that has
// them parsed.
func deepTexts(terms int) map[string]string {
	again := func(s string) string { return strings.Repeat(s, terms) }
	texts := map[string]string{
		"operators":   "SELECT 1" + again("+1"),
		"casts":       "SELECT 1" + again("::int"),
		"joins":       "SELECT 1 FROM a" + again(" CROSS JOIN a"),
		"unions":      "SELECT 1" + again(" UNION SELECT 1"),
		"parentheses": "SELECT " + again("(") + "1" + again(")"),
		"subqueries":  again("SELECT * FROM (") + "SELECT 1" + again(") x"),
		"NOT":         "SELECT " + again("NOT ") + "true",
		"minus":       "SELECT " + again("- ") + "1",
		"AND":         "SELECT true" + again(" AND true"),
		"CASE":        "SELECT " + again("CASE WHEN true THEN ") + "1" + again(" END"),
		"functions":   "SELECT " + again("abs(") + "1" + again(")"),
		"arrays":      "SELECT " + again("ARRAY[") + "1" + again("]"),
		"subscripts":  "SELECT a" + again("[1]"),
		"fields":      "SELECT (a)" + again(".b"),
		"unfinished":  "SELECT " + again("("),
		"brackets":    again("["),
	}
	for kind := range texts {
		texts[kind] += " FOR SHARE"
	}
	return texts
}

// Deep texts cost their sender an answer, at most, and nobody else anything.
func TestDeepTexts(t *testing.T) {
	pg := pgtest.Shared(t)
	sluice := harness.StartSluice(t, harness.SluiceConfig{Env: harness.PostgresEnv(pg)})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	witness, err := pgx.Connect(ctx, sluice.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer witness.Close(context.Background())
	stop, worked := make(chan struct{}), make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				if n == 0 {
					worked <- errors.New("the witness never ran")
				}
				worked <- nil
				return
			default:
			}
			var back int
			if err := witness.QueryRow(ctx, "SELECT $1::int", n).Scan(&back); err != nil || back != n {
				worked <- fmt.Errorf("witness: %d of %d, %w", back, n, err)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	for kind, text := range deepTexts(deepTerms) {
		for _, extended := range []bool{false, true} {
			conn, err := pgconn.Connect(ctx, sluice.DSN("postgres"))
			if err != nil {
				t.Fatalf("%s: connect: %v", kind, err)
			}
			if extended {
				_, err = conn.Prepare(ctx, "deep", text, nil)
			} else {
				_, err = conn.Exec(ctx, text).ReadAll()
			}
			// PostgreSQL itself takes some of them, refuses most (54001, 42601),
			// and what matters is that an answer came.
			var refusal *pgconn.PgError
			if err != nil && !errors.As(err, &refusal) {
				t.Errorf("%s, extended %v: %v", kind, extended, err)
			}
			conn.Close(ctx)
		}
	}
	close(stop)
	if err := <-worked; err != nil {
		t.Error(err)
	}
}

// atOnce is how many deep texts the parser has before it at one time.
const atOnce = 64

// counts are how many texts the daemon has given to its parser, and how many its guard
// has kept from it.
func counts(t *testing.T, sluice *harness.Sluice) (parsed, guarded float64) {
	t.Helper()
	text, err := sluice.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	parsed, _ = harness.SumMetric(t, text, "dsql_rewrite_parsed_total", "")
	guarded, _ = harness.SumMetric(t, text, "dsql_rewrite_guarded_total", "")
	return parsed, guarded
}

// The deepest texts that are parsed at all do not end the process when many threads
// parse them: each thread has the stack that the guard counts on.
func TestDeepestAcceptedTextsAtOnce(t *testing.T) {
	pg := pgtest.Shared(t)
	sluice := harness.StartSluice(t, harness.SluiceConfig{Env: harness.PostgresEnv(pg).With(harness.Env{"DSQL_REWRITE_MAX_NESTING": "2000"})})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	send := func(text string) error {
		conn, err := pgconn.Connect(ctx, sluice.DSN("postgres"))
		if err != nil {
			return err
		}
		defer conn.Close(context.Background())
		var refusal *pgconn.PgError
		if _, err := conn.Exec(ctx, text).ReadAll(); err != nil && !errors.As(err, &refusal) {
			return err
		}
		return nil
	}
	var texts []string
	for kind := range deepTexts(1) {
		terms := sort.Search(4000, func(n int) bool {
			_, before := counts(t, sluice)
			if err := send(deepTexts(n + 1)[kind]); err != nil {
				t.Fatalf("%s, %d: %v", kind, n+1, err)
			}
			_, after := counts(t, sluice)
			return after > before
		})
		if terms < 300 {
			t.Errorf("%s: of %d terms no more are parsed", kind, terms)
		}
		for i := range atOnce / len(deepTexts(1)) { // others each time: plans are kept
			texts = append(texts, deepTexts(terms)[kind]+strings.Repeat(" ", i+1))
		}
	}
	parsed, guarded := counts(t, sluice)
	ends := make(chan error)
	for _, text := range texts {
		go func() { ends <- send(text) }()
	}
	for range texts {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	nowParsed, nowGuarded := counts(t, sluice)
	if nowParsed-parsed != atOnce || nowGuarded != guarded {
		t.Errorf("of %d texts at once %v were parsed and %v kept from the parser; want all and none", len(texts), nowParsed-parsed, nowGuarded-guarded)
	}
}
