// Package hostile holds what must not bring the built program down.
package hostile

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// deepTexts are texts whose parse tree is as deep as they are long.
func deepTexts() map[string]string {
	again := func(s string) string { return strings.Repeat(s, deepTerms) }
	return map[string]string{
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
	for kind, text := range deepTexts() {
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
