package daemon

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
)

// Connections of the admin address are bounded, and those that say nothing, or never end what they
// say, keep no probe out; what is asked and answered in time is not cut.
func TestAdminConnectionsAreBounded(t *testing.T) {
	var logged bytes.Buffer
	slow, begun := make(chan struct{}), make(chan struct{})
	set := metrics.New(metrics.Options{})
	guests := NewAdminConnLimiter(slog.New(slog.NewTextHandler(&logged, nil)), set.Admin)
	admin := NewAdminServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-slow
		io.WriteString(w, "the whole of it")
	}), func(context.Context) error { return nil }, func() error { return nil }, func() string { return "" }, guests)
	clock := time.Now()
	guests.now = func() time.Time { return clock } // read under the lock of guests
	pass := func(d time.Duration) {
		guests.mu.Lock()
		clock = clock.Add(d)
		guests.mu.Unlock()
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go admin.Serve(ln)
	defer admin.Close()
	url := "http://" + ln.Addr().String()
	count := func(asking bool) (n int) {
		guests.mu.Lock()
		defer guests.mu.Unlock()
		for _, g := range guests.conns {
			if !asking || g.hasRequest {
				n++
			}
		}
		if n > maxAdminConns {
			t.Errorf("%d connections", n)
		}
		return n
	}
	alive := func(when string) {
		t.Helper()
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
		answer, err := client.Get(url + "/livez")
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %v", when, err)
			return
		}
		answer.Body.Close()
	}
	scrape := make(chan string)
	go func() {
		answer, err := http.Get(url + "/metrics")
		if err != nil {
			scrape <- err.Error()
			return
		}
		defer answer.Body.Close()
		all, _ := io.ReadAll(answer.Body)
		scrape <- string(all)
	}()
	<-begun
	for range 3 * maxAdminConns {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	alive("beside connections that say nothing")
	if n := count(false); n < maxAdminConns/2 {
		t.Errorf("%d connections are left", n)
	}
	close(slow)
	if got := <-scrape; got != "the whole of it" {
		t.Errorf("a scrape under way: %s", got)
	}
	for range 3 * maxAdminConns {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET /live")
	}
	for end := time.Now().Add(10 * time.Second); count(true) < maxAdminConns && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	pass(adminRequestTime)
	alive("beside requests that do not end")
	count(false)
	guests.mu.Lock()
	defer guests.mu.Unlock()
	if told := strings.Count(logged.String(), "connections of admin.address were closed"); told != 1 {
		t.Errorf("the log tells %d times:\n%s", told, logged.String())
	}
	families, err := set.Registry.Gather()
	closed := 0.0
	for _, f := range families {
		if f.GetName() == "dsql_admin_connections_closed_total" {
			closed = f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	if err != nil || closed < 2*maxAdminConns {
		t.Errorf("%v connections were counted as closed, %v", closed, err)
	}
}
