package dsqlsim_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

func TestAdmin(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	admin := httptest.NewServer(c.AdminHandler())
	defer admin.Close()
	call := func(method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(deadline(t), method, admin.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(b)
	}
	conn := c.connect(t)
	if err := conn.Exec(deadline(t), "SELECT 1").Close(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		method, path, body string
		code               int
		contains           string
	}{
		{"GET", "/livez", "", 200, "ok"},
		{"GET", "/readyz", "", 200, "ok"},
		{"GET", "/metrics", "", 200, "dsqlsim_connections 1"},
		{"GET", "/metrics", "", 200, "dsqlsim_connections_most 1"},
		{"GET", "/metrics", "", 200, `dsqlsim_statements_total{kind="other"} 1`},
		{"GET", "/metrics", "", 200, `dsqlsim_transactions_total{outcome="committed"} 1`},
		{"GET", "/ledger?after=x&session=-1", "", 400, "after \"x\": want the number of an event\nsession \"-1\": want the number of a connection"},
		{"GET", "/ledger?session=7", "", 200, "[]"},
		{"POST", "/faults", `[{"at":"commit","action":"cut","skip":2,"count":3}]`, 204, ""},
		{"GET", "/faults", "", 200, `"skip":2,"count":3`},
		{"POST", "/faults", `[{"at":"commit","action":"cut","when":"now"},{"at":"commit","action":"explode"}]`, 400,
			"explode\": want fail, cut or stall"},
		{"POST", "/faults", strings.Repeat(" ", 2<<20), 400, "too large"},
		{"DELETE", "/faults", "", 204, ""},
		{"GET", "/faults", "", 200, "[]"},
		{"DELETE", "/sessions/77", "", 404, ""},
		{"POST", "/ledger", "", 405, ""},
	} {
		code, body := call(test.method, test.path, test.body)
		if code != test.code || !strings.Contains(body, test.contains) {
			t.Errorf("%s %s: %d %s", test.method, test.path, code, body)
		}
	}
	var events []dsqlsim.LedgerEvent
	_, body := call("GET", "/ledger?session=1", "")
	if err := json.Unmarshal([]byte(body), &events); err != nil {
		t.Fatal(err)
	}
	if n := len(events); n != 3 || events[1].SQL != "SELECT 1" || events[1].Outcome != "SELECT 1" || events[1].PID != conn.PID() {
		t.Errorf("ledger %s", body)
	}
}

func TestCutSession(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	w := c.raw(t)
	w.ask(1, &pgproto3.Query{String: "BEGIN"})
	var id uint64
	for _, e := range c.EventsAfter(0) {
		if e.Kind == "connect" {
			id = e.Session
		}
	}
	if !c.CloseSession(id) || c.CloseSession(id+1) {
		t.Error("CloseSession found the wrong sessions")
	}
	if m, err := w.Receive(); err == nil {
		t.Errorf("got %T", m)
	}
}

func TestLedgerIsBounded(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.LedgerSize = 10 })
	w := c.raw(t)
	for range 25 {
		w.ask(1, &pgproto3.Query{String: "SELECT '" + strings.Repeat("x", 1000) + "'"})
	}
	events := c.EventsAfter(0)
	if len(events) != 10 {
		t.Fatalf("%d events", len(events))
	}
	for i, e := range events {
		if i > 0 && e.Seq != events[i-1].Seq+1 {
			t.Errorf("event %d follows %d", e.Seq, events[i-1].Seq)
		}
		if e.Kind == "statement" && len(e.SQL) != 200 {
			t.Errorf("%d bytes of SQL", len(e.SQL))
		}
	}
	last := events[9].Seq
	if again := c.EventsAfter(last - 3); len(again) != 3 || again[0].Seq != last-2 {
		t.Errorf("after %d: %+v", last-3, again)
	}
	if none := c.EventsAfter(last + 100); len(none) != 0 {
		t.Errorf("%d events from the future", len(none))
	}
}
