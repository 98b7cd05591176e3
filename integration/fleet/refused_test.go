package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// The rights of a daemon that runs are taken away, or its credentials expire. It
// says so at once, in its log and in a metric; in /readyz as soon as the lease is
// degraded; and when everything is closed, its clients are told why. What names the
// account is in the log alone. With the rights it comes back by itself.
func TestCauseOfALeaseThatFailsIsTold(t *testing.T) {
	t.Parallel()
	for code, cause := range map[string]string{"AccessDeniedException": "access_denied", "ExpiredTokenException": "credentials"} {
		t.Run(cause, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 10, 5)
			way := newGateway(t)
			s := w.start(t, harness.Env{"AWS_ENDPOINT_URL_DYNAMODB": way.url, "DSQL_RESERVOIR_CHECKOUT_WAIT": "1s"})
			query(t, s)
			if err := s.CheckReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			way.refusal.Store(code)
			eventually(t, "the metric has the cause", 5*heartbeat, func() bool {
				return metric(t, scrape(t, s), `dsql_lease_problem{cause="`+cause+`"}`) == 1
			})
			told := []string{code, "table " + w.env["DSQL_DISTRIBUTED_CONN_LEASE_TABLE"], "us-east-1"}
			eventually(t, "the log has it", heartbeat, func() bool {
				return contains(s.Log(), "every backend will close unless somebody acts", code, "123456789012")
			})
			if inPhase(t, s, "lost") {
				t.Error("it was told only when everything was lost")
			}
			query(t, s)
			eventually(t, "the lease is lost", reapAfter+5*time.Second, func() bool { return inPhase(t, s, "lost") })
			err := s.CheckReady(t.Context())
			if err == nil || !contains(err.Error(), append(told, "lease lost")...) || strings.Contains(err.Error(), "123456789012") {
				t.Errorf("/readyz: %v", err)
			}
			for _, phase := range []string{"degraded", "draining", "lost"} {
				eventually(t, "a line of the log has the phase "+phase+" and its cause", 3*heartbeat, func() bool {
					return hasLine(s.Log(), "phase="+phase, code, cause)
				})
			}
			conn, err := pgx.Connect(t.Context(), s.DSN("postgres"))
			if err == nil {
				_, err = conn.Exec(t.Context(), "SELECT 1")
				conn.Close(context.Background())
			}
			refusal, ok := errors.AsType[*pgconn.PgError](err)
			if !ok || refusal.Code != "53300" || !contains(refusal.Detail, told...) || strings.Contains(refusal.Detail, "123456789012") {
				t.Errorf("a client was told %v, detail %q", err, refusal.Detail)
			}
			way.refusal.Store("")
			eventually(t, "it comes back", reapAfter, func() bool { return s.CheckReady(t.Context()) == nil && inPhase(t, s, "ok") })
			eventually(t, "the metric has it no more", 5*heartbeat, func() bool {
				return metric(t, scrape(t, s), `dsql_lease_problem{cause="`+cause+`"}`) == 0
			})
		})
	}
}

func contains(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// hasLine reports whether one line of a log has all the parts.
func hasLine(log string, parts ...string) bool {
	for line := range strings.SplitSeq(log, "\n") {
		if contains(line, parts...) {
			return true
		}
	}
	return false
}
