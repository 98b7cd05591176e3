package leasecmd

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
	"github.com/sluice-proxy/sluice/cmd/sluice/config/configtest"
	"github.com/sluice-proxy/sluice/cmd/sluice/daemon"
	"github.com/sluice-proxy/sluice/integration/dynalite"
	"github.com/sluice-proxy/sluice/lease"

	"github.com/spf13/cobra"
)

// runLease runs sluice lease against a server and returns what it printed.
func runLease(t *testing.T, s *dynalite.Server, in string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	env := s.Env()
	env["DSQL_BACKEND_ENDPOINT"], env["DSQL_DISTRIBUTED_CONN_LEASE_TABLE"] = configtest.Endpoint, "sluice"
	configtest.Source{Env: env}.Prepare(t)
	root := newRoot()
	root.SetIn(strings.NewReader(in))
	var out, errs bytes.Buffer
	code = cli.Execute(root, append([]string{"lease"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestLeaseCommands(t *testing.T) {
	server := dynalite.Start(t)
	for _, step := range []struct {
		name, in string
		args     []string
		code     int
		stdout   []string // what it contains
		stderr   string
	}{
		{"status before init", "", []string{"status"}, cli.ExitRuntime, nil, "no table sluice in us-east-1: run sluice lease init"},
		{"init", "", []string{"init"}, cli.ExitOK, []string{"created table sluice", "9500 slots in 16 shards, 90 tickets per second, 400 at once"}, ""},
		{"init again", "", []string{"init"}, cli.ExitOK, []string{"table sluice exists", "the settings are as configured"}, ""},
		{"init with another limit", "", []string{"init", "--distributed-conn-limit=8501"}, cli.ExitOK, []string{"8001 slots in 16 shards"}, ""},
		{"init with other shards", "", []string{"init", "--distributed-conn-limit=8501", "--distributed-conn-shards=64"}, cli.ExitOK,
			[]string{"distributed.conn_shards: the table keeps the 16 that it was made with, not 64"}, ""},
		{"status", "", []string{"status"}, cli.ExitOK, []string{"8001 of 8001 slots free, in 16 shards, held by 0 records"}, ""},
		{"another cluster", "", []string{"status", "--endpoint=z" + configtest.Endpoint[1:]}, cli.ExitRuntime, nil, "run sluice lease init"},
		{"reset of nothing", "", []string{"reset"}, cli.ExitOK, []string{"nothing to repair"}, ""},
		{"reset of nobody", "", []string{"reset", "--owner=nobody"}, cli.ExitOK, []string{"owner nobody: not in the table", "nothing to repair"}, ""},
		{"no table", "", []string{"status", "--distributed-conn-lease-table="}, cli.ExitUsage, nil, "distributed.conn_lease_table: empty"},
	} {
		t.Run(step.name, func(t *testing.T) {
			code, stdout, stderr := runLease(t, server, step.in, step.args...)
			if code != step.code || !strings.Contains(stderr, step.stderr) {
				t.Errorf("exit code %d, stderr %q; want %d, %q", code, stderr, step.code, step.stderr)
			}
			for _, want := range step.stdout {
				if !strings.Contains(stdout, want) {
					t.Errorf("stdout %q lacks %q", stdout, want)
				}
			}
		})
	}
}

// An init that is cut off leaves the limit half-way: status and reset say so and
// exit with 1, until it is finished.
func TestLeaseCommandsSeeAnUnfinishedInit(t *testing.T) {
	server := dynalite.Start(t)
	if code, _, stderr := runLease(t, server, "", "init"); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	for _, finish := range [][]string{{"reset", "--yes"}, {"init", "--distributed-conn-limit=580"}} {
		if code, _, stderr := runLease(t, server, "", "init"); code != cli.ExitOK {
			t.Fatal(stderr)
		}
		unfinished(t, server, "--distributed-conn-limit=580") // 80 slots less the margin
		for _, args := range [][]string{{"status"}, {"reset"}} {
			code, stdout, stderr := runLease(t, server, "", args...)
			if code != cli.ExitRuntime || !strings.Contains(stdout, "shard 4") || !strings.Contains(stdout, "594") {
				t.Errorf("%v: exit code %d, %s%s", args, code, stdout, stderr)
			}
		}
		if code, stdout, _ := runLease(t, server, "", "status"); code != cli.ExitRuntime || !strings.Contains(stdout, "the shards together have 7144 slots, the settings 80") {
			t.Errorf("status: exit code %d, %s", code, stdout)
		}
		if code, stdout, stderr := runLease(t, server, "", finish...); code != cli.ExitOK {
			t.Errorf("%v: exit code %d, %s%s", finish, code, stdout, stderr)
		}
		if code, stdout, stderr := runLease(t, server, "", "status"); code != cli.ExitOK || !strings.Contains(stdout, "80 of 80 slots free") {
			t.Errorf("status: exit code %d, %s%s", code, stdout, stderr)
		}
	}
}

// unfinished runs an init that is cut off before its sixth write: the intent and four shards pass.
func unfinished(t *testing.T, server *dynalite.Server, flag string) {
	t.Helper()
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	forward, writes := httputil.NewSingleHostReverseProxy(target), 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if target := r.Header.Get("X-Amz-Target"); strings.HasSuffix(target, ".UpdateItem") || strings.HasSuffix(target, ".PutItem") {
			if writes++; writes > 5 {
				cancel()
				panic(http.ErrAbortHandler)
			}
		}
		forward.ServeHTTP(w, r)
	}))
	defer front.Close()
	env := server.Env()
	env["AWS_ENDPOINT_URL_DYNAMODB"] = front.URL
	c := configtest.Source{Env: env, Flags: []string{"--endpoint=" + configtest.Endpoint, "--distributed-conn-lease-table=sluice", flag}}.MustLoad(t)
	chain, err := daemon.LoadAWSConfig(ctx, c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	table := lease.NewTable(c.Lease, chain)
	defer table.Close()
	if _, err := table.Init(ctx, c.Lease); err == nil {
		t.Fatal("the init was not cut off")
	}
}

func TestLeaseResetAsksBeforeItRemovesAnOwner(t *testing.T) {
	server := dynalite.Start(t)
	if code, _, stderr := runLease(t, server, "", "init"); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	c := configtest.Source{Env: server.Env(), Flags: []string{"--endpoint=" + configtest.Endpoint, "--distributed-conn-lease-table=sluice"}}.MustLoad(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	chain, err := daemon.LoadAWSConfig(ctx, c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	table := lease.NewTable(c.Lease, chain)
	defer table.Close()
	record := lease.Record{Seq: 1, Slots: 7, Total: 7, ReapAfter: 20 * time.Minute, Home: true}
	if _, done, err := table.Change(ctx, lease.ShardChange{Shard: 3, Owner: "dead.1", New: record.String(), Take: 7}); !done || err != nil {
		t.Fatal(done, err)
	}

	_, stdout, _ := runLease(t, server, "", "status")
	if !strings.Contains(stdout, "dead.1") || !strings.Contains(stdout, "9493 of 9500 slots free") {
		t.Errorf("status: %s", stdout)
	}
	for _, step := range []struct {
		in   string
		args []string
		code int
		free string
	}{
		{"no\n", nil, cli.ExitRuntime, "9493 of 9500"},
		{"", nil, cli.ExitRuntime, "9493 of 9500"},
		{"yes\n", nil, cli.ExitOK, "9500 of 9500"},
		{"", []string{"--yes"}, cli.ExitOK, "9500 of 9500"},
	} {
		code, stdout, stderr := runLease(t, server, step.in, append([]string{"reset", "--owner=dead.1"}, step.args...)...)
		_, status, _ := runLease(t, server, "", "status")
		if code != step.code || !strings.Contains(status, step.free) {
			t.Errorf("reset, answered %q, %v: exit code %d\n%s%s%s", step.in, step.args, code, stdout, stderr, status)
		}
	}
}

// terminal is one at which somebody has typed something already.
type terminal struct {
	io.Reader
	bytes.Buffer
}

func (t *terminal) Read(b []byte) (int, error) { return t.Reader.Read(b) }

// The records of two dead processes are listed and that of a living one is not; what one
// of them has written meanwhile stays.
func TestLeaseResetDead(t *testing.T) {
	server := dynalite.Start(t)
	if code, _, stderr := runLease(t, server, "", "init"); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	c := configtest.Source{Env: server.Env(), Flags: []string{"--endpoint=" + configtest.Endpoint, "--distributed-conn-lease-table=sluice",
		"--distributed-heartbeat=100ms", "--distributed-call-timeout=100ms"}}.MustLoad(t)
	chain, err := daemon.LoadAWSConfig(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	table := lease.NewTable(c.Lease, chain)
	defer table.Close()
	seq := uint64(0)
	write := func(shard int, owner, old string) string {
		t.Helper()
		seq++
		record := lease.Record{Seq: seq, Slots: 7, Total: 7, ReapAfter: 20 * time.Minute}
		change := lease.ShardChange{Shard: shard, Owner: owner, Old: old, New: record.String()}
		if old == "" {
			change.Take = 7
		}
		if _, done, err := table.Change(t.Context(), change); !done || err != nil {
			t.Fatal(done, err)
		}
		return change.New
	}
	write(3, "one.1", "")
	write(4, "one.2", "")
	late := write(4, "two.1", "")
	alive := write(4, "alive.1", "")

	for _, step := range []struct {
		answer, looks string
		back          bool // one that was cut off is back while somebody thinks
		free          string
		done          bool
	}{
		{"no", "2 sidecars with 21 slots look dead", false, "9472 of 9500", false},
		{"yes", "2 sidecars with 21 slots look dead", true, "9486 of 9500", false},
		{"yes", "1 sidecar with 7 slots look dead", false, "9493 of 9500", true},
		{"yes", "nobody looks dead", false, "9493 of 9500", true},
	} {
		sits := &terminal{Reader: readerFunc(func(b []byte) (int, error) {
			if step.back {
				late = write(4, "two.1", late)
			}
			return copy(b, step.answer+"\n"), nil
		})}
		beating := make(chan struct{})
		go func() {
			defer close(beating)
			time.Sleep(200 * time.Millisecond)
			alive = write(4, "alive.1", alive)
		}()
		err := removeDeadRecords(t.Context(), table, c.Lease, sits)
		<-beating
		_, status, _ := runLease(t, server, "", "status")
		if shown := sits.String(); !strings.Contains(shown, step.looks) || strings.Contains(shown, "alive") || (err == nil) != step.done || !strings.Contains(status, step.free) {
			t.Errorf("answered %s: %v\n%s%s\nwant %+v", step.answer, err, shown, status, step)
		}
	}
	// By a shorter heartbeat than theirs, all that live look dead.
	hasty := &terminal{Reader: readerFunc(func(b []byte) (int, error) { return copy(b, "no\n"), nil })}
	if err := removeDeadRecords(t.Context(), table, c.Lease, hasty); err == nil || !strings.Contains(hasty.String(), "Not one record has changed") {
		t.Errorf("%v\n%s", err, hasty.String())
	}
	if code, _, stderr := runLease(t, server, "", "reset", "--dead", "--yes"); code == cli.ExitOK || !strings.Contains(stderr, "dead") {
		t.Errorf("--dead and --yes: exit code %d, %s", code, stderr)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// A table of the version before is migrated after a question, unless a sidecar is left
// that could not follow. A new table need not be.
func TestLeaseMigrate(t *testing.T) {
	server := dynalite.Start(t)
	other := "--endpoint=z" + configtest.Endpoint[1:]
	if code, _, stderr := runLease(t, server, "", "init", other); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	if code, stdout, stderr := runLease(t, server, "", "migrate", other); code != cli.ExitOK || !strings.Contains(stdout, "of format 2: nothing to migrate") {
		t.Errorf("of a new table: exit code %d, %s%s", code, stdout, stderr)
	}
	c := configtest.Source{Env: server.Env(), Flags: []string{"--endpoint=" + configtest.Endpoint, "--distributed-conn-lease-table=sluice"}}.MustLoad(t)
	chain, err := daemon.LoadAWSConfig(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	formatOne(t, server, c.Lease.Cluster)
	table := lease.NewTable(c.Lease, chain)
	defer table.Close()
	change := lease.ShardChange{Shard: 1, Owner: "old.1", New: lease.Record{Seq: 1, Slots: 7, Total: 7, ReapAfter: 20 * time.Minute}.String(), Take: 7}
	if _, done, err := table.Change(t.Context(), change); !done || err != nil {
		t.Fatal(done, err)
	}
	for _, step := range []struct {
		name, in string
		args     []string
		code     int
		stdout   string
		stderr   string
	}{
		{"status", "", []string{"status"}, cli.ExitOK, "format 1, with all items under one partition key: see sluice lease migrate", ""},
		{"init", "", []string{"init", "--distributed-conn-limit=520"}, cli.ExitOK, "the table keeps format 1", ""},
		{"without an answer", "", []string{"migrate"}, cli.ExitRuntime, "do it?", "nothing was done"},
		{"with a record of the version before", "yes\n", []string{"migrate"}, cli.ExitRuntime, "2 shards get keys of their own", "old.1. They run an older version"},
		{"its owner is dead", "", []string{"reset", "--owner=old.1", "--yes"}, cli.ExitOK, "done", ""},
		{"migrate", "yes\n", []string{"migrate"}, cli.ExitOK, "2 shards have keys of their own now", ""},
		{"again", "", []string{"migrate", "--yes"}, cli.ExitOK, "nothing to migrate", ""},
		{"status behind", "", []string{"status"}, cli.ExitOK, "20 of 20 slots free, in 2 shards, held by 0 records", ""},
		{"init behind", "", []string{"init", "--distributed-conn-limit=540"}, cli.ExitOK, "40 slots in 2 shards", ""},
	} {
		code, stdout, stderr := runLease(t, server, step.in, step.args...)
		if code != step.code || !strings.Contains(stdout, step.stdout) || !strings.Contains(stderr, step.stderr) {
			t.Errorf("%s: exit code %d, %s%s", step.name, code, stdout, stderr)
		}
	}
}

// formatOne makes a cluster's settings those of a table that the version before has made:
// format 1, two shards, 20 slots. The stand-in asks for a signature, and not for a right one.
func formatOne(t *testing.T, server *dynalite.Server, cluster string) {
	t.Helper()
	for item, what := range map[string]string{
		"CFG":   `"lim":{"N":"20"},"format":{"N":"1"},"shards":{"N":"2"},"rate":{"N":"90"},"burst":{"N":"400"}`,
		"S#000": `"lim":{"N":"10"},"free":{"N":"10"}`,
		"S#001": `"lim":{"N":"10"},"free":{"N":"10"}`,
	} {
		body := `{"TableName":"sluice","Item":{"pk":{"S":"L#` + cluster + `"},"sk":{"S":"` + item + `"},"epoch":{"N":"1"},` + what + `}}`
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "DynamoDB_20120810.PutItem", "X-Amz-Date": "20261127T000000Z",
			"Authorization": "AWS4-HMAC-SHA256 Credential=none/20261127/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=none",
		} {
			request.Header.Set(name, value)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != http.StatusOK {
			t.Fatal(answer.Status)
		}
	}
}

// newRoot returns sluice with the command of this package only.
func newRoot() *cobra.Command { return cli.NewRoot(NewCommand()) }
