package lease

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"go.uber.org/goleak"

	"github.com/sluice-proxy/sluice/integration/dynalite"
)

// server is one dynalite for all tests of this process, started by the first
// that needs it.
var server = sync.OnceValues(dynalite.Launch)

var serverUsed atomic.Bool

func TestMain(m *testing.M) {
	code := m.Run()
	if serverUsed.Load() {
		if s, err := server(); err == nil {
			s.Stop()
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

var clusters atomic.Int64

// newTable returns a table of a cluster of its own on dynalite, initialised for
// cfg.
func newTable(t *testing.T, cfg Config) *Table {
	t.Helper()
	table := bareTable(t, &cfg)
	if _, err := table.Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return table
}

// bareTable is newTable before it is initialised. cfg's cluster is chosen.
func bareTable(t *testing.T, cfg *Config) *Table {
	t.Helper()
	cfg.Cluster = fmt.Sprintf("c%d", clusters.Add(1))
	table := tableAt(*cfg, serverURL(t))
	t.Cleanup(table.Close)
	return table
}

// serverURL is where dynalite listens.
func serverURL(t *testing.T) string {
	t.Helper()
	serverUsed.Store(true)
	s, err := server()
	if err != nil {
		t.Fatal(err)
	}
	return s.URL
}

// tableAt returns a Table on a server that is not AWS.
func tableAt(cfg Config, url string) *Table {
	return NewTable(cfg, aws.Config{
		Region: "us-east-1", BaseEndpoint: &url,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "none", SecretAccessKey: "none"}, nil
		}),
	})
}

// shortly is a context for a few calls.
func shortly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
