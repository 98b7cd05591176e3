package lease

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/metrics"
)

func TestClusterName(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		endpoint      string
		port          int
		want, earlier string
	}{
		{"ABC.dsql.us-east-1.on.aws", 5432, "abc.dsql.us-east-1.on.aws", ""},
		{" abc.dsql.us-east-1.on.aws. ", 5432, "abc.dsql.us-east-1.on.aws", ""},
		{"Abc.dsql-fnh4.us-east-1.on.aws", 5432, "abc.dsql.us-east-1.on.aws", "abc.dsql-fnh4.us-east-1.on.aws"},
		{"abc.dsql-fnh4.us-east-1.on.aws", 6000, "abc.dsql.us-east-1.on.aws:6000", "abc.dsql-fnh4.us-east-1.on.aws:6000"},
		{"abc.dsql-fnh4.us-east-1.on.aws.example.com", 5432, "abc.dsql-fnh4.us-east-1.on.aws.example.com", ""},
		{"localhost", 15432, "localhost:15432", ""},
	} {
		if got, earlier := ClusterNames(test.endpoint, test.port); got != test.want || earlier != test.earlier {
			t.Errorf("Cluster(%q, %d) = %q, %q; want %q, %q", test.endpoint, test.port, got, earlier, test.want, test.earlier)
		}
	}
}

// names are those of one cluster: public, and at a PrivateLink endpoint. The
// version before had a ledger for each.
func names() (public, private, before Config) {
	public = worldConfig()
	id := fmt.Sprintf("id%d", clusters.Add(1))
	public.Cluster, public.Earlier = ClusterNames(id+".dsql.us-east-1.on.aws", 5432)
	private, before = public, public
	private.Cluster, private.Earlier = ClusterNames(id+".dsql-fnh4.us-east-1.on.aws", 5432)
	before.Cluster = private.Earlier
	return public, private, before
}

// hold takes 5 slots as a sidecar that goes by a name does, and reports how many the
// ledger that another name leads to has free.
func hold(t *testing.T, one, other *Table) int {
	t.Helper()
	if _, _, err := one.Settings(shortly(t)); err != nil {
		t.Fatal(err)
	}
	if _, done, err := one.Change(shortly(t), ShardChange{Owner: "s.1", New: "1|5|5|1000|h", Take: 5}); !done || err != nil {
		t.Fatal(done, err)
	}
	free := 0
	for _, shard := range mustStatus(t, other).Shards {
		free += shard.Free
	}
	return free
}

func TestOneClusterHasOneLedger(t *testing.T) {
	t.Parallel()
	at := func(cfg Config) *Table {
		table := tableAt(cfg, serverURL(t))
		t.Cleanup(table.Close)
		return table
	}
	for first := range 2 {
		public, private, _ := names()
		cfgs := []Config{public, private}
		if _, err := at(cfgs[first]).Init(shortly(t), cfgs[first]); err != nil {
			t.Fatal(err)
		}
		if did, err := at(cfgs[1-first]).Init(shortly(t), cfgs[1-first]); err != nil || !strings.Contains(strings.Join(did, ""), "as configured") {
			t.Errorf("init by the other name: %q, %v", did, err)
		}
		if free := hold(t, at(private), at(public)); free != 55 {
			t.Errorf("by the other name %d are free, want 55", free)
		}
	}

	// A ledger that the version before made for the private name keeps it: its
	// sidecars and ours share it. Every command finds it.
	_, private, before := names()
	if _, err := at(before).Init(shortly(t), before); err != nil {
		t.Fatal(err)
	}
	if free := hold(t, at(before), at(private)); free != 55 {
		t.Errorf("of the ledger before %d are free, want 55", free)
	}
	private.Limit = 70
	if _, err := at(private).Init(shortly(t), private); err != nil {
		t.Error(err)
	}
	at(before).edit(t, 1, 3)
	for _, r := range at(private).Repairs(mustStatus(t, at(private)), []string{"s.1"}) {
		if err := at(private).Repair(shortly(t), r); err != nil {
			t.Error(err)
		}
	}
	whole(t, at(before), 70, 0)

	// Two ledgers are refused by who knows of both.
	public, private, before := names()
	for _, cfg := range []Config{public, before} {
		if _, err := at(cfg).Init(shortly(t), cfg); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := at(private).Settings(shortly(t))
	_, initErr := at(private).Init(shortly(t), private)
	_, statusErr := at(private).Status(shortly(t))
	for what, err := range map[string]error{"a sidecar": err, "init": initErr, "status": statusErr} {
		if err == nil || !strings.Contains(err.Error(), public.Cluster) || !strings.Contains(err.Error(), before.Cluster) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if p := newProblem(&storeCall{kind: callSettings}, err); p.Cause != metrics.CauseTwoLedgers || !p.needsOperator() {
		t.Errorf("%v", p)
	}
}

// A policy allows one of the names, as the endpoint was written into it.
func TestPolicyForOneNameIsEnough(t *testing.T) {
	t.Parallel()
	for _, made := range []string{"public", "before", "neither"} {
		for _, allowed := range []string{"public", "before"} {
			t.Run(made+" made, "+allowed+" allowed", func(t *testing.T) {
				public, private, before := names()
				cfgs := map[string]Config{"public": public, "before": before}
				if cfg, ok := cfgs[made]; ok {
					table := tableAt(cfg, serverURL(t))
					defer table.Close()
					if _, err := table.Init(shortly(t), cfg); err != nil {
						t.Fatal(err)
					}
				}
				table := tableAt(private, only(t, "L#"+cfgs[allowed].Cluster))
				defer table.Close()
				_, _, err := table.Settings(shortly(t))
				if (err == nil) != (made == allowed) {
					t.Errorf("settings: %v", err)
				}
				if err != nil && made == "neither" && allowed == "public" && !errors.Is(err, ErrNoSettings) {
					t.Errorf("settings: %v", err)
				}
				if err != nil && allowed == "before" && !isAccessDenied(err) {
					t.Errorf("settings: %v", err)
				}
			})
		}
	}
}

// only is a way to dynalite on which one cluster's key is allowed, and those of its
// shards.
func only(t *testing.T, key string) string {
	t.Helper()
	return onlyKeys(t, `"`+key+`"`, `"`+key+`#`)
}

// onlyKeys is one on which requests must contain one of some texts.
func onlyKeys(t *testing.T, allowed ...string) string {
	t.Helper()
	target, err := url.Parse(serverURL(t))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.Transport = transport
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !slices.ContainsFunc(allowed, func(text string) bool { return bytes.Contains(body, []byte(text)) }) {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"__type":"com.amazon.coral.service#AccessDeniedException","message":"no"}`))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		front.Close()
		transport.CloseIdleConnections()
	})
	return front.URL
}

// A port makes another ledger: who finds none is told under which key.
func TestNoSettingsNamesTableAndKey(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	made := newTable(t, cfg)
	cfg.Cluster = made.cluster + ":15432"
	table := tableAt(cfg, serverURL(t))
	defer table.Close()
	_, _, err := table.Settings(shortly(t))
	p := newProblem(&storeCall{kind: callSettings}, err)
	if !errors.Is(err, ErrNoSettings) || p.Cause != metrics.CauseNotInitialised || p.Table != cfg.Table || p.Region != "us-east-1" {
		t.Errorf("%+v, %v", p, err)
	}
	if !strings.Contains(err.Error(), "L#"+cfg.Cluster+":") {
		t.Errorf("%v", err)
	}
}
