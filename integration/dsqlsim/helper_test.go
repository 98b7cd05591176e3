package dsqlsim_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/dsql/auth"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

const (
	region    = "us-east-1"
	endpoint  = "abcdefghij0123456789klmnop.dsql." + region + ".on.aws"
	accessKey = "test-access-key"
	secretKey = "test-secret-key"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, pgtest.MaxConnections(400))) }

// cluster is a running stand-in over a database of its own.
type cluster struct {
	*dsqlsim.Server
	address  string
	database string // of the PostgreSQL behind it
}

func start(t testing.TB, change func(*dsqlsim.Config)) *cluster {
	t.Helper()
	pg := pgtest.Shared(t)
	c := &cluster{database: pg.NewDatabase(t)}
	config := dsqlsim.DefaultConfig()
	config.Endpoint, config.AccessKeyID, config.SecretAccessKey = endpoint, accessKey, secretKey
	config.Upstream = fmt.Sprintf("host=%s port=%d user=%s dbname=%s", pg.SocketDir, pg.Port, pg.User, c.database)
	if change != nil {
		change(&config)
	}
	var err error
	if c.Server, err = dsqlsim.New(config); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.address = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- c.Serve(ln) }()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-served; err != dsqlsim.ErrServerClosed {
			t.Errorf("serve: %v", err)
		}
	})
	return c
}

// direct runs SQL on the PostgreSQL behind the stand-in.
func (c *cluster) direct(t testing.TB, sql string) string {
	t.Helper()
	return pgtest.Shared(t).SQL(t, c.database, sql)
}

// token is the AWS SDK's.
func token(t testing.TB, role, host, region, key, secret string, life time.Duration) string {
	t.Helper()
	generate := auth.GenerateDbConnectAuthToken
	if role == "admin" {
		generate = auth.GenerateDBConnectAdminAuthToken
	}
	provider := credentials.NewStaticCredentialsProvider(key, secret, "")
	token, err := generate(context.Background(), host, region, provider, func(o *auth.TokenOptions) { o.ExpiresIn = life })
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func adminToken(t testing.TB) string {
	t.Helper()
	return token(t, "admin", endpoint, region, accessKey, secretKey, 15*time.Minute)
}

// config is what a stock driver needs to connect as admin.
func (c *cluster) config(t *testing.T) *pgconn.Config {
	t.Helper()
	config, err := pgconn.ParseConfig("host=" + endpoint + " port=5432 user=admin dbname=postgres sslmode=require")
	if err != nil {
		t.Fatal(err)
	}
	config.Password = adminToken(t)
	config.TLSConfig = &tls.Config{ServerName: endpoint, RootCAs: c.CAPool()}
	config.Fallbacks = nil
	config.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
	config.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", c.address)
	}
	return config
}

func (c *cluster) connect(t *testing.T) *pgconn.PgConn {
	t.Helper()
	conn, err := pgconn.ConnectConfig(deadline(t), c.config(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// wire is a client that speaks raw messages.
type wire struct {
	*pgproto3.Frontend
	conn net.Conn
	t    *testing.T
}

// raw connects as admin and returns the bare conversation.
func (c *cluster) raw(t *testing.T) *wire {
	t.Helper()
	hijacked, err := c.connect(t).Hijack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hijacked.Conn.Close() })
	_ = hijacked.Conn.SetDeadline(time.Now().Add(testLimit))
	return &wire{pgproto3.NewFrontend(hijacked.Conn, hijacked.Conn), hijacked.Conn, t}
}

// ask sends messages and returns the answers in short form up to the n-th
// ReadyForQuery.
func (w *wire) ask(n int, messages ...pgproto3.FrontendMessage) []string {
	w.t.Helper()
	for _, m := range messages {
		w.Send(m)
	}
	if err := w.Flush(); err != nil {
		w.t.Fatal(err)
	}
	var answers []string
	for n > 0 {
		m, err := w.Receive()
		if err != nil {
			w.t.Fatalf("after %q: %v", answers, err)
		}
		short := brief(m)
		if _, ready := m.(*pgproto3.ReadyForQuery); ready {
			n--
		}
		answers = append(answers, short)
	}
	return answers
}

func simple(sql string) *pgproto3.Query { return &pgproto3.Query{String: sql} }

// brief tells one message in a word or two.
func brief(m pgproto3.BackendMessage) string {
	switch m := m.(type) {
	case *pgproto3.ReadyForQuery:
		return "Z " + string(rune(m.TxStatus))
	case *pgproto3.CommandComplete:
		return string(m.CommandTag)
	case *pgproto3.ErrorResponse:
		return "E " + m.Code
	case *pgproto3.DataRow:
		if len(m.Values) == 0 {
			return "D"
		}
		return "D " + string(m.Values[0])
	case *pgproto3.RowDescription:
		if len(m.Fields) == 0 {
			return "T"
		}
		return "T " + string(m.Fields[0].Name)
	case *pgproto3.ParseComplete:
		return "1"
	case *pgproto3.BindComplete:
		return "2"
	case *pgproto3.CloseComplete:
		return "3"
	case *pgproto3.NoData:
		return "n"
	case *pgproto3.ParameterDescription:
		return "t"
	}
	return fmt.Sprintf("%T", m)[len("*pgproto3."):]
}

// testLimit ends a conversation that hangs.
const testLimit = 60 * time.Second

func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until done.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(testLimit / 2); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

// awaitEnd waits until the ledger has all of a session's story.
func (c *cluster) awaitEnd(t *testing.T, session uint64) {
	t.Helper()
	eventually(t, "the end of the session", func() bool {
		return slices.ContainsFunc(c.EventsAfter(0), func(e dsqlsim.LedgerEvent) bool { return e.Session == session && e.Kind == "close" })
	})
}

// pgError is the server's error in err.
func pgError(t *testing.T, err error) *pgconn.PgError {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		t.Fatalf("not an error of the server: %v", err)
	}
	return e
}
