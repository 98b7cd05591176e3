package proxy_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy"
)

// faultyLog is a log that panics over lines that begin so: a fault in whoever writes one.
type faultyLog struct {
	*logged
	over string
}

func (f faultyLog) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, f.over) {
		panic("a fault")
	}
	return f.logged.Handle(ctx, r)
}
func (f faultyLog) WithAttrs([]slog.Attr) slog.Handler { return f }
func (f faultyLog) WithGroup(string) slog.Handler      { return f }

// A fault in the startup of a client ends its connection, and neither the process nor the places of others.
func TestStartupsPanicAlone(t *testing.T) {
	t.Parallel()
	log := faultyLog{new(logged), "startup refused"}
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) { c.MaxClients = 2 }), func(s *setup) { s.log = log })
	for range 3 {
		c := startupGreeting(t, dialTCP(t, s.addr), map[string]string{"user": "postgres", "database": "postgres", "sluice.nothing": "x"})
		c.flush()
		c.conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		for {
			if _, _, err := c.frame(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 {
		c := dialRaw(t, s.addr)
		c.say(t, "Q SELECT 1\n")
		if got := c.readThrough("Z"); !strings.Contains(got, "SELECT 1") {
			t.Errorf("another client is answered %q", got)
		}
	}
	if found := log.with("startup panicked"); len(found) != 3 || !strings.Contains(found[0], "panic=a fault") {
		t.Errorf("the log has %q", found)
	}
}
