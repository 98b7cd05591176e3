package proxy_test

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-proxy/sluice/integration/pgtest"
	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/startup"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

func TestMain(m *testing.M) {
	fixSeed()
	code := pgtest.Main(m, pgtest.TLS(), pgtest.MaxConnections(300))
	if code == 0 {
		if err := goleak.Find(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}
	os.Exit(code)
}

// postgres is where the tests' server listens.
type postgres struct {
	*pgtest.Server
	addr string
}

func sharedPostgres(t testing.TB) postgres {
	t.Helper()
	s := pgtest.Shared(t)
	return postgres{s, s.Address()}
}

// sluice is a server under test.
type sluice struct {
	*proxy.Server
	backends *reservoir.Reservoir
	planner  *rewrite.Planner
	metrics  *metrics.Set
	addr     string
}

// count is the value of one series: name{label="value"}, or the name alone.
func (s *sluice) count(t testing.TB, name, value string) float64 {
	t.Helper()
	for labels, n := range s.series(t, name) {
		if value == "" || len(labels) == 1 && slices.Contains(slices.Collect(maps.Values(labels)), value) {
			return n
		}
	}
	t.Fatalf("no series %s %s", name, value)
	return 0
}

// series are those of a metric: their labels, and what they count.
func (s *sluice) series(t testing.TB, name string) iter.Seq2[map[string]string, float64] {
	t.Helper()
	families, err := s.metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(map[string]string, float64) bool) {
		for _, f := range families {
			if f.GetName() != name {
				continue
			}
			for _, m := range f.GetMetric() {
				n := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
				labels := map[string]string{}
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = l.GetValue()
				}
				if !yield(labels, n) {
					return
				}
			}
		}
	}
}

type setup struct {
	proxy    proxy.Config
	backends reservoir.Config
	dial     reservoir.DialConfig
	wrap     func(reservoir.DialFunc) reservoir.DialFunc
	log      slog.Handler
	rules    rewrite.Rules
	plans    int    // that are cached
	without  string // the feature that is left out (features_test.go)
}

type option func(*setup)

func plainConn(s *setup) {
	s.proxy.PlainConn = true
	s.dial.Wrap = func(c net.Conn) net.Conn { return rawconn.WrapPlain(c) }
}
func sessionPairing(s *setup) { s.proxy.Pairing = proxy.Session }
func maxOpen(n int) option {
	return func(s *setup) { s.backends.MaxOpen, s.backends.TargetReady = n, n }
}

// withReplay has transactions run again, whatever the backend is.
func withReplay(s *setup) { s.proxy.Replay, s.proxy.Retry = true, retry.Defaults() }

// mayChoose lets clients choose all that they can.
func mayChoose(s *setup) { s.proxy.MaySet = rewrite.ClientOptionKeys() }

func backendTLS(s *setup)                    { s.dial.SSLMode = "require" }
func asDSQL(s *setup)                        { s.proxy.Kind, s.proxy.ForwardCancel = proxy.DSQL, false }
func configure(f func(*proxy.Config)) option { return func(s *setup) { f(&s.proxy) } }

// startSluice serves until the test ends, and fails the test if anything of it
// is left then.
func startSluice(t testing.TB, pg postgres, opts ...option) *sluice {
	t.Helper()
	s := setup{without: *withoutFlag,
		proxy: proxy.Config{Kind: proxy.Postgres, Pairing: proxy.Transaction, Database: "postgres",
			Startup: startup.Config{Timeout: 10 * time.Second, Method: startup.Trust}, MaxClients: 5000, MaxPins: 20,
			CancelGrace: time.Second, ForwardCancel: true, IgnoredSettings: []string{"lock_timeout"},
			PreparedPerBackend: 200, PreparedPerClient: 5000, PreparedBytesPerClient: 16 << 20, PreparedTotalBytes: 256 << 20, PreparedTexts: 5000, MaxStatementBytes: 2 << 20,
			StoredBytes: 16 << 20, StoredTotalBytes: 64 << 20, MemoryBytesPerClient: 24 << 20, MemoryTotalBytes: 256 << 20},
		backends: reservoir.Defaults(),
		dial: reservoir.DialConfig{Kind: "postgres", Address: pg.Host, Port: pg.Port, User: "postgres",
			Database: "postgres", SSLMode: "disable", Timeout: 10 * time.Second,
			Wrap: func(c net.Conn) net.Conn { return rawconn.Wrap(c) }},
		wrap: func(d reservoir.DialFunc) reservoir.DialFunc { return d },
		log:  slog.DiscardHandler,
	}
	s.backends.MaxOpen, s.backends.TargetReady = 10, 2
	s.backends.RateLimit, s.backends.BurstLimit = 1000, 1000
	for _, o := range opts {
		o(&s)
	}
	log := slog.New(s.log)
	dialer, err := reservoir.NewDialer(s.dial)
	if err != nil {
		t.Fatal(err)
	}
	set := metrics.New(metrics.Options{Version: "test", ClientOptionKeys: rewrite.ClientOptionKeys()})
	backends, err := reservoir.New(s.backends, s.wrap(dialer.Dial), set.Reservoir, log)
	if err != nil {
		t.Fatal(err)
	}
	s.rules.SchemaOf = s.proxy.SchemaOf()
	s.rules.Named = s.proxy.Kind == proxy.Postgres && s.proxy.Pairing != proxy.Session && !s.proxy.ReapplyApplicationName
	if f, ok := features[s.without]; ok && f.rules != nil {
		f.rules(&s.rules)
	}
	planner, err := rewrite.New(rewrite.Config{MaxBytes: 2 << 20, MaxNesting: 2000, CacheEntries: cmp.Or(s.plans, 1000), CacheBytes: 8 << 20, Rules: s.rules})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := proxy.New(s.proxy, backends, planner, set.Proxy, log)
	if err != nil {
		t.Fatal(err)
	}
	if f, ok := features[s.without]; ok {
		srv.LeaveOut(f.handlers, f.observers)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- backends.Run(ctx) }()
	ln, err := s.proxy.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		srv.Close()
		if err := <-served; err != proxy.ErrServerClosed {
			t.Errorf("Serve: %v", err)
		}
		// The prober may have some, which it gives back when they have answered.
		for end := time.Now().Add(10 * time.Second); backends.Stats().InUse > 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
		if n := backends.Stats().InUse; n != 0 {
			t.Errorf("%d backends still lent after Close", n)
		}
		if st := srv.Stats(); st.LogBytes != 0 || st.HeldBytes != 0 {
			t.Errorf("after Close logs hold %d bytes and answers %d", st.LogBytes, st.HeldBytes)
		}
		stop()
		<-ran
	})
	return &sluice{srv, backends, planner, set, ln.Addr().String()}
}

// newPostgres is a server for a test that does to it what others would notice.
func newPostgres(t *testing.T, opts ...pgtest.Option) postgres {
	t.Helper()
	s := pgtest.Start(t, append(opts, pgtest.TLS())...)
	return postgres{s, s.Address()}
}
