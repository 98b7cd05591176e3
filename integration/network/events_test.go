package network

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/harness"
)

var writeFlag = flag.Bool("network.write", false, "write the table of docs/operations.md anew")

// clients are what stands in each way when an event strikes.
var clients = []struct {
	name  string
	begin []string // before the event
	early string   // runs when it strikes
	late  string   // is sent after it
	id    int      // the row that it leaves if it succeeds
}{
	{name: "a read that runs", early: "SELECT pg_sleep(2)"},
	{name: "a new read", late: "SELECT 1"},
	{name: "a statement in a block", begin: []string{"BEGIN", "INSERT INTO t VALUES (1, 0)"}, late: "INSERT INTO t VALUES (2, 0)"},
	{name: "COMMIT", begin: []string{"BEGIN", "INSERT INTO t VALUES (3, 0)"}, late: "COMMIT", id: 3},
	{name: "a write", late: "INSERT INTO t VALUES (4, 0)", id: 4},
}

// An event, and what the clients see of it. The words for docs/operations.md are made of
// want: so what stands there is what these tests hold.
type event struct {
	name   string
	env    harness.Env
	strike func(w *world)
	heal   func(w *world)
	// want are the SQLSTATEs that each of clients may be told; "" is success.
	want [5][]string
	// key bounds how long that takes, in words, and limit here.
	key   string
	limit time.Duration
}

var (
	served      = []string{""}
	lost        = []string{"08006", "53300"}
	unknown     = []string{"08007", "53300"}
	silence     = harness.Env{"DSQL_BACKEND_SILENCE_TIMEOUT": "3s", "DSQL_RESERVOIR_PROBE_INTERVAL": "1s"}
	deadPath    = "`backend.tcp_user_timeout` and a second"
	silenceRule = "`backend.silence_timeout` and two seconds"
)

var events = []event{
	{name: "connections that exist are swallowed, new ones work",
		strike: func(w *world) { w.wall.swallow() }, heal: func(w *world) { w.wall.open() },
		want: [5][]string{served, served, served, {"08007"}, {"08007", ""}}, key: deadPath, limit: 15 * time.Second},
	{name: "everything is dropped, new connections too",
		strike: func(w *world) { w.wall.close() }, heal: func(w *world) { w.wall.open() },
		want: [5][]string{lost, lost, lost, {"08007"}, unknown}, key: deadPath + ", then `reservoir.checkout_wait`", limit: 20 * time.Second},
	{name: "what the server sends is dropped",
		strike: func(w *world) { w.wall.silence() }, heal: func(w *world) { w.wall.open() },
		want: [5][]string{lost, lost, lost, {"08007"}, unknown}, key: deadPath + ", then `reservoir.checkout_wait`", limit: 20 * time.Second},
	{name: "what goes to the server is dropped",
		strike: func(w *world) { w.wall.deafen() }, heal: func(w *world) { w.wall.open() },
		want: [5][]string{{"", "08006", "53300"}, lost, lost, {"08007"}, unknown}, key: deadPath + ", then `reservoir.checkout_wait`", limit: 20 * time.Second},
	{name: "connections that exist are reset",
		strike: func(w *world) { w.relay.reset() },
		want:   [5][]string{served, served, served, {"", "08007"}, {"", "08007"}}, key: "at once", limit: 10 * time.Second},
	{name: "the server's host forgets its connections (half-open)",
		strike: func(w *world) { w.forget() },
		want:   [5][]string{served, {"", "08006"}, {"", "08006"}, {"", "08007"}, {"", "08006", "08007"}}, key: "`backend.tcp_keepalive`", limit: 10 * time.Second},
	{name: "the server freezes (SIGSTOP)", env: silence,
		strike: func(w *world) { w.sim.Freeze() }, heal: func(w *world) { w.sim.Thaw() },
		want: [5][]string{lost, lost, lost, {"08007"}, unknown}, key: silenceRule + ", then `reservoir.checkout_wait`", limit: 20 * time.Second},
	{name: "something in between acknowledges and swallows", env: silence,
		strike: func(w *world) { w.relay.become(swallows) }, heal: func(w *world) { w.relay.become(passes) },
		want: [5][]string{lost, lost, lost, {"08007"}, unknown}, key: silenceRule + ", then `reservoir.checkout_wait`", limit: 20 * time.Second},
	{name: "something in between takes nothing more", env: silence,
		strike: func(w *world) { w.relay.become(stalls) }, heal: func(w *world) { w.relay.become(passes) },
		want: [5][]string{lost, lost, lost, {"08007"}, unknown}, key: silenceRule + ", then `reservoir.checkout_wait`", limit: 20 * time.Second},
	{name: "the server's bytes trickle", env: silence,
		strike: func(w *world) { w.relay.become(trickles) }, heal: func(w *world) { w.relay.become(passes) },
		want: [5][]string{served, served, served, served, served}, key: "as they come", limit: 20 * time.Second},
}

// forget leaves connections half-open: the server's host has forgotten its connections, and says so when it is asked.
func (w *world) forget() {
	w.wall.swallow()
	w.relay.reset()
	w.wall.open()
}

// Whatever happens to the network, each client gets the right answer soon. Behind it rows
// are there as clients were told, everybody is served, and nothing is left: no slot,
// goroutine or descriptor.
func TestEvents(t *testing.T) {
	for _, e := range events {
		t.Run(strings.ReplaceAll(e.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			w := start(t, e.env)
			w.must(w.client(), "CREATE TABLE t (id int PRIMARY KEY, n int)")
			before := w.holdings()
			conns := make([]*pgx.Conn, len(clients))
			for i, c := range clients {
				conns[i] = w.client()
				for _, sql := range c.begin {
					w.must(conns[i], sql)
				}
				w.must(conns[i], "SELECT 1") // each has met its backend
			}
			answers := make([]<-chan told, len(clients))
			for i, c := range clients {
				if c.early != "" {
					answers[i] = w.ask(conns[i], c.early)
				}
			}
			time.Sleep(500 * time.Millisecond)
			e.strike(w)
			if e.heal != nil {
				defer e.heal(w)
			}
			for i, c := range clients {
				if c.late != "" {
					answers[i] = w.ask(conns[i], c.late)
				}
			}
			committed := map[int]bool{}
			for i, c := range clients {
				got := <-answers[i]
				t.Logf("%s: %q after %v", c.name, got.code, got.took.Round(10*time.Millisecond))
				if !slices.Contains(e.want[i], got.code) || got.took > e.limit {
					t.Errorf("%s: %q after %v, want %q within %v", c.name, got.code, got.took, e.want[i], e.limit)
				}
				if c.id > 0 && got.code != "08007" { // else nobody knows
					committed[c.id] = got.code == ""
				}
			}
			if e.heal != nil {
				e.heal(w)
			}
			for i, c := range clients {
				w.until(c.name+" to be served again", 30*time.Second, func() bool {
					_, err := conns[i].Exec(t.Context(), "ROLLBACK; SELECT 1")
					return err == nil
				})
			}
			for id, want := range committed {
				var n int
				if err := conns[0].QueryRow(t.Context(), fmt.Sprint("SELECT count(*) FROM t WHERE id = ", id)).Scan(&n); err != nil || n == 1 != want {
					t.Errorf("row %d is there %d times (%v), success was told: %v", id, n, err, want)
				}
			}
			for _, conn := range conns {
				conn.Close(context.Background())
			}
			w.until("what was there before", 30*time.Second, func() bool { return w.holdings().within(before) })
		})
	}
}

// holdings is what a daemon has, besides its clients.
type holdings struct{ inUse, clients, goroutines, descriptors float64 }

func (w *world) holdings() holdings {
	return holdings{w.metric("dsql_reservoir_in_use"), w.metric("dsql_clients"), w.metric("go_goroutines"), w.metric("process_open_fds")}
}

// spareHosts is how many goroutines of clients that have left wait for the next ones.
const spareHosts = 8

// within reports whether nothing has grown. Before, all backends were open (see start), so
// those that are opened anew are as many at most.
func (h holdings) within(before holdings) bool {
	return h.inUse <= 0 && h.clients <= before.clients && h.goroutines <= before.goroutines+2+spareHosts && h.descriptors <= before.descriptors+2
}

// TestTableOfEvents holds the table of docs/operations.md to the events above.
func TestTableOfEvents(t *testing.T) {
	const file, from, to = "../../docs/operations.md", "<!-- events: from here on generated -->\n", "<!-- events: to here -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), from)
	old, tail, ended := strings.Cut(rest, to)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", file)
	}
	table := table()
	if *writeFlag {
		if err := os.WriteFile(file, []byte(head+from+table+to+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if old != table {
		t.Errorf("the table of %s is an old one: go test ./integration/network -run TestTableOfEvents -network.write", file)
	}
}

func table() string {
	var b strings.Builder
	b.WriteString("| Event |")
	for _, c := range clients {
		b.WriteString(" " + c.name + " |")
	}
	b.WriteString(" within |\n|" + strings.Repeat("---|", len(clients)+2) + "\n")
	for _, e := range events {
		b.WriteString("| " + e.name + " |")
		for _, codes := range e.want {
			words := make([]string, len(codes))
			for i, code := range codes {
				if words[i] = code; code == "" {
					words[i] = "answered"
				}
			}
			slices.Sort(words)
			b.WriteString(" " + strings.Join(words, " or ") + " |")
		}
		b.WriteString(" " + e.key + " |\n")
	}
	b.WriteString("\n| What becomes of a client | what it sees | its backend is free |\n|---|---|---|\n")
	for _, e := range clientEvents {
		b.WriteString("| " + e.name + " | " + e.sees + " | " + e.frees + " |\n")
	}
	return b.String()
}
