package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// recorder is a server in front of dynalite that notes the operations.
type recorder struct {
	mu   sync.Mutex
	seen map[string]bool
	keys map[string]bool // partition keys
}

// partitionKey is how a request names it.
var partitionKey = regexp.MustCompile(`"pk":\{"S":"([^"]+)"\}`)

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := slices.Sorted(maps.Keys(r.seen))
	r.seen, r.keys = map[string]bool{}, map[string]bool{}
	return seen
}

// actions are what a policy in deploy/iam allows.
func actions(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile("../deploy/iam/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Statement []struct{ Action []string }
	}
	if err := json.Unmarshal(text, &policy); err != nil || len(policy.Statement) != 1 {
		t.Fatalf("%s: %v, %d statements", file, err, len(policy.Statement))
	}
	slices.Sort(policy.Statement[0].Action)
	return policy.Statement[0].Action
}

// leadingKeys are the patterns of the sidecars' policy, for a cluster.
func leadingKeys(t *testing.T, cluster string) (patterns []string) {
	t.Helper()
	text, err := os.ReadFile("../deploy/iam/lease-sidecar.json")
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Statement []struct {
			Condition map[string]map[string][]string
		}
	}
	if err := json.Unmarshal(text, &policy); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range policy.Statement[0].Condition["ForAllValues:StringLike"]["dynamodb:LeadingKeys"] {
		patterns = append(patterns, strings.Replace(pattern, "CLUSTER.dsql.REGION.on.aws", cluster, 1))
	}
	return patterns
}

// The policies that are shipped allow what is called, and nothing else.
func TestPoliciesAreTheLeastThatWorks(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	direct := bareTable(t, &cfg)
	target, err := url.Parse(serverURL(t))
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.Transport = direct.transport // closed with it
	var r recorder
	r.take()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		_, operation, _ := strings.Cut(request.Header.Get("X-Amz-Target"), ".")
		r.mu.Lock()
		r.seen["dynamodb:"+operation] = true
		body, _ := io.ReadAll(request.Body)
		if key := partitionKey.FindSubmatch(body); key != nil {
			r.keys[string(key[1])] = true
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
		r.mu.Unlock()
		forward.ServeHTTP(w, request)
	}))
	defer front.Close()
	table := tableAt(cfg, front.URL)
	defer table.Close()

	ctx := shortly(t)
	if _, err := table.Init(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	s, err := table.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.Queue = 2 * impossibleQueue
	for _, repair := range table.Repairs(s, nil) {
		_ = table.Repair(ctx, repair) // there is no ticket time yet
	}
	if got, want := r.take(), actions(t, "lease-operator.json"); !slices.Equal(got, want) {
		t.Errorf("the operator calls %v; its policy allows %v", got, want)
	}

	if other, _ := path.Match(leadingKeys(t, "c")[1], "L#c2#001"); other {
		t.Error("the policy allows another cluster's keys")
	}
	w := newWorld(1, cfg, table)
	w.faulty = false
	w.add(10)
	w.add(100)
	w.settle(5)
	w.procs[0].want = 0
	w.settle(5)
	w.kill(w.procs[1])
	if err := w.heal(); err != nil {
		t.Error(err)
	}
	if len(r.keys) != 1+cfg.Shards {
		t.Errorf("a sidecar uses the keys %v", r.keys)
	}
	for key := range r.keys {
		if !slices.ContainsFunc(leadingKeys(t, cfg.Cluster), func(pattern string) bool { ok, _ := path.Match(pattern, key); return ok }) {
			t.Errorf("a sidecar uses the key %s; its policy allows %v", key, leadingKeys(t, cfg.Cluster))
		}
	}
	if got, want := r.take(), actions(t, "lease-sidecar.json"); !slices.Equal(got, want) {
		t.Errorf("a sidecar calls %v; its policy allows %v", got, want)
	}
}

// expiring is a context whose deadline passes when a test says so, however slow the machine is.
type expiring struct {
	context.Context
	expire context.CancelCauseFunc
}

func newExpiring(t *testing.T) expiring {
	ctx, cancel := context.WithCancelCause(t.Context())
	return expiring{ctx, cancel}
}

func (e expiring) Err() error {
	if e.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

func (e expiring) end() { e.expire(context.DeadlineExceeded) }

// A call ends when its context does, and is sent once whatever comes back.
func TestCallsAreSentOnceAndEndInTime(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	calls := map[string]int{}
	hang, hanging := make(chan struct{}), newExpiring(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		calls[r.URL.Path]++
		mu.Unlock()
		switch r.URL.Path {
		case "/hang/":
			hanging.end()
			<-hang
		case "/throttle/":
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slow down"}`))
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	defer close(hang)
	cfg := worldConfig()
	for path, want := range map[string]string{"/hang/": "timeout", "/throttle/": "throttled", "/fail/": "failed"} {
		table := tableAt(cfg, server.URL+path)
		ctx := t.Context()
		if path == "/hang/" {
			ctx = hanging
		}
		_, _, err := table.Change(ctx, ShardChange{Owner: "o", New: "n"})
		table.Close()
		if err == nil || callOutcome(err) != want {
			t.Errorf("%s: %v is counted as %s, want %s", path, err, callOutcome(err), want)
		}
		mu.Lock()
		if calls[path] != 1 {
			t.Errorf("%s: sent %d times", path, calls[path])
		}
		mu.Unlock()
	}
}
