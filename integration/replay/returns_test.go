package replay

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
)

var (
	returnsSeed  = flag.Uint64("returns.seed", 1, "seed of the programs of TestReturnsBesideDDL")
	returnsDDL   = flag.Int64("returns.ddl", 80, "how many statements of all clients together TestReturnsBesideDDL runs for each that changes the schema")
	returnsTotal = flag.Int("returns.programs", 200, "how many programs TestReturnsBesideDDL runs")
)

// comingBack draws a transaction of a client on rows that no other client has: writes and reads, savepoints in
// between, returns to them. It ends by COMMIT.
func comingBack(r *rand.Rand, client int) (texts []string) {
	texts = append(texts, "BEGIN")
	open := 0
	for range 2 + r.IntN(8) {
		switch n := r.IntN(10); {
		case n < 3:
			texts = append(texts, fmt.Sprintf("UPDATE mine SET n = n + %d WHERE client = %d", 1+r.IntN(9), client))
		case n < 4:
			texts = append(texts, fmt.Sprintf("INSERT INTO mine VALUES (%d, 0)", client)) // fails: 23505
			if open == 0 {
				return append(texts, "ROLLBACK")
			}
			texts = append(texts, fmt.Sprintf("ROLLBACK TO s%d", open))
		case n < 6:
			texts = append(texts, fmt.Sprintf("SELECT n FROM mine WHERE client = %d", client))
		case n < 8 || open == 0:
			open++
			texts = append(texts, fmt.Sprintf("SAVEPOINT s%d", open))
		default:
			open = 1 + r.IntN(open)
			texts = append(texts, fmt.Sprintf("ROLLBACK TO s%d", open))
		}
	}
	return append(texts, "COMMIT")
}

// Clients return to savepoints, each on its own row, while another makes and drops tables: none meets a
// conflict, since nobody has changed what they have read.
func TestReturnsBesideDDL(t *testing.T) {
	r := start(t, harness.Env{"DSQL_RETRY_BUDGET_BURST": "1000000"})
	setup := r.open(t, "pgx")
	r.exec(t, setup, "DROP TABLE IF EXISTS mine", "CREATE TABLE mine (client int PRIMARY KEY, n int NOT NULL)", "INSERT INTO mine SELECT c, 0 FROM generate_series(1, 4) c")
	beside := r.open(t, "pgx")
	var mu sync.Mutex
	changes := 0
	change := func() { // by whoever is about to run a statement, and waits for it
		mu.Lock()
		defer mu.Unlock()
		text := fmt.Sprintf([]string{"CREATE TABLE IF NOT EXISTS beside_%d (id int PRIMARY KEY)", "DROP TABLE beside_%d"}[changes%2], changes/2)
		if _, err := beside.ExecContext(t.Context(), text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		changes++
	}
	var statements atomic.Int64
	var clients sync.WaitGroup
	for client := 1; client <= 4; client++ {
		clients.Go(func() {
			conn, err := pgx.Connect(t.Context(), r.sluice.DSN("postgres"))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close(context.Background())
			for n := client; n <= *returnsTotal; n += 4 {
				random := rand.New(rand.NewPCG(*returnsSeed, uint64(n)))
				mode := []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec}[random.IntN(3)]
				texts := comingBack(random, client)
				for i, text := range texts {
					if statements.Add(1)%*returnsDDL == 0 {
						change()
					}
					began := time.Now()
					if _, err := conn.Exec(t.Context(), text, mode); err != nil && sqlstate(err) != "23505" {
						var told *pgconn.PgError
						errors.As(err, &told)
						t.Errorf("program %d, %v, statement %d of %q: %v: %s after %v", n, mode, i, texts, err, told.Detail, time.Since(began))
						if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
							t.Error(err)
							return
						}
						break
					}
				}
			}
		})
	}
	clients.Wait()
	t.Logf("%d changes of the schema", changes)
}
