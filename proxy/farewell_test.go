package proxy_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// logText is a log that is read while it is written.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// What a server says when it ends a connection is told to the client in the DETAIL of the loss, and to the log.
func TestFarewellIsTold(t *testing.T) {
	t.Parallel()
	const ended, asked = "terminating connection due to administrator command (SQLSTATE 57P01)", "terminating connection due to idle-in-transaction timeout (SQLSTATE 25P03)"
	for _, test := range []struct{ name, before, after, code, words string }{
		{"between two statements of a block", "Q BEGIN\n< Z\nQ SELECT 1\n< Z\n", "Q SELECT 2\n< Z\n", "08006", ended},
		{"in the middle of a statement", "Q BEGIN\n< Z\n", "Q SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(10)\n< Z\n", "08006", ended},
		{"of a statement that writes", "", "Q CREATE TABLE farewell AS SELECT pg_terminate_backend(pg_backend_pid()) AS a, pg_sleep(10)::text AS b\n< Z\n", "08007", ended},
		{"by the extended protocol", "Q BEGIN\n< Z\nQ SELECT 1\n< Z\n", "P - | SELECT 3\nB - | -\nE -\nS\n< Z\n", "08006", ended},
		{"by a timeout", "Q BEGIN\n< Z\nQ SET LOCAL idle_in_transaction_session_timeout = '50ms'\n< Z\nQ SELECT 1\n< Z\n", "Q SELECT 2\n< Z\n", "08006", asked},
		{"of a pinned session", "Q CREATE TEMPORARY TABLE mine (a int)\n< Z\n", "< E\n", "08006", ended},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pg, log := newPostgres(t), &logText{}
			s := startSluice(t, pg, func(s *setup) { s.log = slog.NewTextHandler(log, nil) })
			c := dialRaw(t, s.addr)
			c.play(t, test.before)
			if test.before != "" && !strings.Contains(test.after, "pg_terminate") {
				if test.words == ended {
					pg.SQL(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
				}
				waitFor(t, "the end of the backend", func() bool {
					return pg.SQL(t, "postgres", "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND state LIKE 'idle in transaction%' OR query LIKE 'CREATE TEMPORARY%'") == "0"
				})
			}
			got := c.play(t, test.after)
			if !strings.Contains(got, test.code) || !strings.Contains(got, "The server said: "+test.words) {
				t.Errorf("told %q", got)
			}
			message, _, _ := strings.Cut(test.words, " (")
			if !strings.Contains(log.String(), message) {
				t.Errorf("the log has nothing of it: %s", log)
			}
		})
	}
}

// A session that ends with the backend of its own ends with the server's last words, in the log too,
// wherever the server ends the connection.
func TestFarewellOfKeptBackends(t *testing.T) {
	t.Parallel()
	const words = "terminating connection due to administrator command"
	const kills = "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(10)"
	for _, test := range []struct {
		name, before, after, want string
		opts                      []option
	}{
		{"pinned, in a query", "Q CREATE TEMPORARY TABLE mine (a int)\n< Z\n", "Q " + kills + "\n< EOF\n", "E S=FATAL C=08006", nil},
		{"pinned, in a group", "Q CREATE TEMPORARY TABLE mine (a int)\n< Z\n", "P - | " + kills + "\nB - | -\nE -\nS\n< EOF\n", "E S=FATAL C=08006", nil},
		{"pinned, in a block", "Q CREATE TEMPORARY TABLE mine (a int)\n< Z\nQ BEGIN\n< Z\n", "Q " + kills + "\n< EOF\n", "E S=FATAL C=08006", []option{fastReplay}},
		{"dedicated, in a query", "", "Q " + kills + "\n< EOF\n", "E S=FATAL C=57P01", []option{sessionPairing}},
		{"dedicated, in a group", "", "P - | " + kills + "\nB - | -\nE -\nS\n< EOF\n", "E S=FATAL C=57P01", []option{sessionPairing}},
		{"dedicated, between two turns", "Q SELECT 1\n< Z\n", "< EOF\n", "E S=FATAL C=57P01", []option{sessionPairing}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pg, log := newPostgres(t), &logText{}
			s := startSluice(t, pg, append(test.opts, func(s *setup) { s.log = slog.NewTextHandler(log, nil) })...)
			c := dialRaw(t, s.addr)
			c.play(t, test.before)
			if !strings.Contains(test.after, kills) {
				pg.SQL(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
			}
			got := c.play(t, test.after)
			_, fatal, _ := strings.Cut(got, test.want)
			if !strings.Contains(fatal, words) {
				t.Errorf("told %q", got)
			}
			waitFor(t, "the log", func() bool { return strings.Contains(log.String(), words) })
		})
	}
}
