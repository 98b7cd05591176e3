package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/certs"
	"github.com/sluice-proxy/sluice/integration/harness"
)

// secured is a daemon that takes clients by TLS only, and how they connect.
type secured struct {
	*harness.Sluice
	dsn string
}

func (w *world) startSecured(t *testing.T, other harness.Env) *secured {
	t.Helper()
	cert, key := certs.WriteTestFiles(t, certs.SelfSigned("sluice"))
	s := w.start(t, harness.Env{"DSQL_TLS_CERT_FILE": cert, "DSQL_TLS_KEY_FILE": key, "DSQL_TLS_REQUIRED": "true"}.With(other))
	return &secured{s, fmt.Sprintf("host=%s port=%d user=admin dbname=postgres sslmode=verify-full sslrootcert=%s", s.Host, s.Port, cert)}
}

func (s *secured) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// codeOf is an error's SQLSTATE, "" for what is no answer of the daemon.
func codeOf(err error) string {
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refusal.Code
	}
	return ""
}

// A daemon cannot renew its lease any more, while clients, by TLS, are in
// transactions nearly as long as they may be. Every transaction that got a
// backend finishes. One that goes on for ever is cut. All backends are closed
// before another daemon can use their slots: the cluster never counts more than
// the limit. When the table is back, so is the daemon.
func TestLeaseThatRunsOutLetsTransactionsFinish(t *testing.T) {
	t.Parallel()
	const limit, each = 10, 10
	w := newWorld(t, limit, each)
	way := newGateway(t)
	cutOff := w.startSecured(t, harness.Env{"AWS_ENDPOINT_URL_DYNAMODB": way.url, "DSQL_RESERVOIR_CHECKOUT_WAIT": "1s"})
	other := w.start(t, nil)
	eventually(t, "each has its half", 30*heartbeat, func() bool {
		return held(t, cutOff.Sluice) == limit/2 && held(t, other) == limit/2 && w.open(t) == limit
	})

	endless := cutOff.connect(t)
	begin(t, endless)
	way.away.Store(true)
	const (
		staff      = 2 // fewer than backends: some are idle, and close first
		length     = transactionLimit * 3 / 4
		drainAfter = reapAfter - guard - transactionLimit - reapAfter/5
	)
	var finished, refused, late atomic.Int64
	var workers sync.WaitGroup
	for i := range staff {
		conn := cutOff.connect(t)
		workers.Go(func() {
			time.Sleep(length * time.Duration(i) / staff) // at any time, one begins
			for {
				tx, err := conn.Begin(t.Context())
				if err != nil {
					t.Errorf("BEGIN: %v", err)
					return
				}
				_, err = tx.Exec(t.Context(), "SELECT 1")
				if codeOf(err) == "53300" {
					_ = tx.Rollback(t.Context())
					if refused.Add(1); inPhase(t, cutOff.Sluice, "lost") {
						return
					}
					continue
				}
				began := leaseAge(t, cutOff.Sluice)
				time.Sleep(length)
				if err == nil {
					_, err = tx.Exec(t.Context(), "SELECT 2")
				}
				if err == nil {
					err = tx.Commit(t.Context())
				}
				if err != nil {
					t.Errorf("a transaction that began when the lease was %v old was told: %v", began, err)
					return
				}
				if finished.Add(1); began > drainAfter {
					late.Add(1)
				}
			}
		})
	}
	for !inPhase(t, cutOff.Sluice, "lost") {
		if n := held(t, other); n > limit/2 {
			t.Fatalf("the other daemon has %d slots before the lease of the first has run out", n)
		}
		time.Sleep(heartbeat / 4)
	}
	eventually(t, "its backends are closed", guard, func() bool { return w.open(t) == limit/2 })
	if n := held(t, other); n != limit/2 {
		t.Errorf("the other daemon has %d slots before the reap time", n)
	}
	workers.Wait()
	t.Logf("%d transactions of %v finished, %d of them begun while idle backends closed, %d were refused", finished.Load(), length, late.Load(), refused.Load())
	if late.Load() == 0 || refused.Load() == 0 {
		t.Error("the test says little: no transaction begun late, or none refused after that")
	}
	_, err := endless.Exec(t.Context(), "SELECT 1")
	if code := codeOf(err); code != "08006" || endless.IsClosed() {
		t.Errorf("the endless transaction was told %v, its socket closed: %v", err, endless.IsClosed())
	}
	eventually(t, "the other daemon uses all slots", reapAfter, func() bool { return held(t, other) == limit && w.open(t) == limit })

	way.away.Store(false)
	eventually(t, "the first has backends again", reapAfter, func() bool {
		_, err := cutOff.connect(t).Exec(t.Context(), "SELECT 1")
		return err == nil
	})
	w.keptTo(t, limit)
}

// begin starts a transaction and makes it have a backend.
func begin(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for _, sql := range []string{"BEGIN", "SELECT 1"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}
