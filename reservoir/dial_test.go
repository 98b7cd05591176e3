package reservoir

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/pgtest"
	"github.com/sluice-proxy/sluice/lease"
)

// to is how the shared PostgreSQL is dialled.
func to(srv *pgtest.Server, sslmode string) DialConfig {
	return DialConfig{
		Kind: KindPostgres, Address: srv.Host, Port: srv.Port, CAFile: srv.CAFile, SSLMode: sslmode,
		User: srv.User, Password: srv.Password, Database: "postgres", Timeout: 10 * time.Second,
	}
}

func dialer(t *testing.T, cfg DialConfig) *Dialer {
	t.Helper()
	d, err := NewDialer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// dial opens a backend that is closed with the test.
func dial(t *testing.T, cfg DialConfig, s *Startup) *Conn {
	t.Helper()
	c, err := dialer(t, cfg).Dial(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.setCloseDeadline(terminateWait); c.terminate() })
	return c
}

// refused returns why a dial failed, which must be at the given step.
func refused(t *testing.T, cfg DialConfig, step DialStep) *DialError {
	t.Helper()
	c, err := dialer(t, cfg).Dial(t.Context(), nil)
	if err == nil {
		c.setCloseDeadline(terminateWait)
		c.terminate()
		t.Fatal("the dial succeeded")
	}
	failure, ok := errors.AsType[*DialError](err)
	if !ok || failure.Step != step {
		t.Fatalf("got %#v (%v), want a DialError at step %s", err, err, step)
	}
	if cfg.Password != "" && strings.Contains(err.Error(), cfg.Password) {
		t.Fatalf("the password is in %q", err)
	}
	return failure
}

// query runs one simple query and returns the frames of its answer as
// type and body.
func query(t *testing.T, c *Conn, sql string) []string {
	t.Helper()
	if _, err := c.Net.Write(frame('Q', []byte(sql+"\x00"))); err != nil {
		t.Fatal(err)
	}
	return answer(t, c)
}

func answer(t *testing.T, c *Conn) []string {
	t.Helper()
	var frames []string
	for {
		var kind [1]byte
		if _, err := io.ReadFull(c.Net, kind[:]); err != nil {
			t.Fatalf("after %q: %v", frames, err)
		}
		frames = append(frames, string(kind[:])+string(readPacket(c.Net)))
		if kind[0] == 'Z' {
			return frames
		}
	}
}

// The connection is at ReadyForQuery: nothing is left in a buffer, no deadline
// is left behind, and what the server told is there.
func TestDialedBackendIsReady(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"disable", "verify-full"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			cfg := to(pgtest.Shared(t), mode)
			cfg.Timeout = 3 * time.Second
			c := dial(t, cfg, nil)
			time.Sleep(cfg.Timeout + 100*time.Millisecond)
			got := query(t, c, "SELECT 1")
			if len(got) != 4 || got[0][0] != 'T' || got[1] != "D\x00\x01\x00\x00\x00\x011" || got[2] != "CSELECT 1\x00" || got[3] != "ZI" {
				t.Errorf("answer %q", got)
			}
			if c.PID == 0 || len(c.Secret) != 4 || c.Params["server_version"] == "" || len(c.Notices) != 0 {
				t.Errorf("PID %d, %d bytes of secret, parameters %v, notices %v", c.PID, len(c.Secret), c.Params, c.Notices)
			}
			if _, secured := c.Net.(*tls.Conn); secured != (mode != "disable") {
				t.Errorf("the connection is a %T", c.Net)
			}
		})
	}
}

func TestDedicatedStartupReachesTheServer(t *testing.T) {
	t.Parallel()
	srv := pgtest.Shared(t)
	database := srv.NewDatabase(t)
	c := dial(t, to(srv, "require"), &Startup{Database: database, Params: map[string]string{
		"TimeZone": "Asia/Tokyo", "application_name": "orders", "options": "-c client_min_messages=debug5",
	}})
	if c.Params["TimeZone"] != "Asia/Tokyo" || c.Params["application_name"] != "orders" {
		t.Errorf("parameters %v", c.Params)
	}
	if len(c.Notices) == 0 || c.Notices[0].Severity != "DEBUG" || c.Notices[0].Message == "" {
		t.Errorf("%d notices of a startup that is debugged", len(c.Notices))
	}
	query(t, c, "SET client_min_messages = notice")
	if got := query(t, c, "SELECT current_database()"); !strings.HasSuffix(got[1], database) {
		t.Errorf("connected to %q, want %s", got[1], database)
	}
}

func TestSSLModesAreLibpqs(t *testing.T) {
	t.Parallel()
	secured := pgtest.Shared(t)
	plain := pgtest.Start(t)
	only := pgtest.Start(t, pgtest.TLS())
	allowTLSOnly(t, only)
	_, foreign := newCertificate(t, "db.example")

	tests := []struct {
		name   string
		srv    *pgtest.Server
		mode   string
		ca     string // "own", "foreign", ""
		verify string // the name to verify; the address when empty
		want   string // "tls", "plain", or the step of the failure
	}{
		{"disable", secured, "disable", "own", "", "plain"},
		{"disable, server insists", only, "disable", "own", "", "auth"},
		{"allow", secured, "allow", "", "", "plain"},
		{"allow, server insists", only, "allow", "", "", "tls"},
		{"prefer", secured, "prefer", "", "", "tls"},
		{"prefer, server has none", plain, "prefer", "", "", "plain"},
		{"require", secured, "require", "", "", "tls"},
		{"require, server has none", plain, "require", "", "", "fails tls"},
		{"require with authority", secured, "require", "own", "elsewhere.example", "tls"},
		{"require with wrong authority", secured, "require", "foreign", "", "fails tls"},
		{"verify-ca", secured, "verify-ca", "own", "elsewhere.example", "tls"},
		{"verify-ca, wrong authority", secured, "verify-ca", "foreign", "", "fails tls"},
		{"verify-ca, system's authorities", secured, "verify-ca", "", "", "fails tls"},
		{"verify-full", secured, "verify-full", "own", "", "tls"},
		{"verify-full, another name", secured, "verify-full", "own", "db.example", "tls"},
		{"verify-full, wrong name", secured, "verify-full", "own", "elsewhere.example", "fails tls"},
		{"verify-full, wrong authority", secured, "verify-full", "foreign", "db.example", "fails tls"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := to(tt.srv, tt.mode)
			cfg.Endpoint = tt.verify
			switch tt.ca {
			case "foreign":
				cfg.CAFile = foreign
			case "":
				cfg.CAFile = ""
			}
			switch tt.want {
			case "auth":
				refused(t, cfg, StepAuth)
			case "fails tls":
				refused(t, cfg, StepTLS)
			default:
				c := dial(t, cfg, nil)
				if _, ok := c.Net.(*tls.Conn); ok != (tt.want == "tls") {
					t.Errorf("the connection is a %T", c.Net)
				}
			}
		})
	}
}

// channel_binding require takes only a server that proves, in TLS, that it knows the password.
func TestChannelBinding(t *testing.T) {
	t.Parallel()
	asks, trusts := pgtest.Shared(t), pgtest.Start(t, pgtest.TLS())
	plain := pgtest.Start(t, pgtest.SCRAM("secret"))
	for _, c := range []struct {
		name, binding string
		srv           *pgtest.Server
		mode          string
		refused       DialStep // "": it is not
	}{
		{"required", "require", asks, "prefer", ""},
		{"required, server trusts", "require", trusts, "require", StepStartup},
		{"required, server has no TLS", "require", plain, "prefer", StepStartup},
		{"preferred, server has no TLS", "prefer", plain, "prefer", ""},
		{"disabled", "disable", asks, "require", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := to(c.srv, c.mode)
			cfg.CAFile, cfg.ChannelBinding = "", c.binding
			if c.refused == "" {
				dial(t, cfg, nil)
				return
			}
			refused(t, cfg, c.refused)
		})
	}
}

// Where TLS can be taken away by somebody in between is known from the configuration.
func TestStrippable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		host, mode, binding string
		want                bool
	}{
		{"db.example", "prefer", "prefer", true}, {"db.example", "allow", "", true}, {"db.example", "prefer", "require", false},
		{"db.example", "disable", "prefer", false}, {"db.example", "require", "prefer", false},
		{"127.0.0.1", "prefer", "prefer", false}, {"localhost", "prefer", "", false}, {"::1", "prefer", "", false}, {"10.0.0.1", "prefer", "", true},
	} {
		cfg := DialConfig{Kind: KindPostgres, Address: c.host, SSLMode: c.mode, ChannelBinding: c.binding}
		if got := cfg.AllowsTLSDowngrade(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// allowTLSOnly makes a server refuse plain connections.
func allowTLSOnly(t *testing.T, srv *pgtest.Server) {
	t.Helper()
	file := srv.SQL(t, "postgres", "SHOW hba_file")
	if err := os.WriteFile(file, []byte("local all all trust\nhostssl all all 127.0.0.1/32 trust\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	srv.SQL(t, "postgres", "SELECT pg_reload_conf()")
}

// deadPort is a port on which nobody listens, and that nobody else is given while the test runs.
func deadPort(t *testing.T) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return at.(*syscall.SockaddrInet4).Port
}

func TestDialErrorNamesTheStep(t *testing.T) {
	t.Parallel()
	srv := pgtest.Shared(t)
	srv.SQL(t, "postgres", "DROP ROLE IF EXISTS crowded; CREATE ROLE crowded LOGIN PASSWORD '"+superuserPassword+"' CONNECTION LIMIT 0")
	silent := (&fakeServer{silent: true}).start(t)
	gone := deadPort(t)

	tests := []struct {
		name   string
		change func(*DialConfig)
		step   DialStep
		state  string
		text   string
	}{
		{"name", func(c *DialConfig) { c.Address = "no-such-host.invalid" }, StepDNS, "", "no-such-host.invalid"},
		{"port", func(c *DialConfig) { c.Port = gone }, StepTCP, "", "connection refused"},
		// The limit must not end before the step is reached, however slow the machine is.
		{"silence before TLS", func(c *DialConfig) { c.Port, c.Timeout = silent.port(), 3*time.Second },
			StepTLS, "", "deadline exceeded"},
		{"silence after connecting", func(c *DialConfig) {
			c.Port, c.Timeout, c.SSLMode = silent.port(), 3*time.Second, "disable"
		}, StepStartup, "", "deadline exceeded"},
		{"password", func(c *DialConfig) { c.Password = "guessed" }, StepAuth, "28P01", "password authentication failed"},
		{"database", func(c *DialConfig) { c.Database = "nowhere" }, StepStartup, "3D000", `database "nowhere" does not exist`},
		{"quota", func(c *DialConfig) { c.User = "crowded" }, StepStartup, "53300", "too many connections"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := to(srv, "require")
			tt.change(&cfg)
			got := refused(t, cfg, tt.step)
			if got.SQLState != tt.state || !strings.Contains(got.Error(), tt.text) {
				t.Errorf("SQLSTATE %q, %q, want %q and %q", got.SQLState, got, tt.state, tt.text)
			}
			if tt.state == "" {
				return
			}
			server, ok := errors.AsType[*ServerError](got)
			if !ok || server != got.Server || server.Code != tt.state || server.Severity != "FATAL" || server.Routine == "" {
				t.Errorf("what the server said is %+v", got.Server)
			}
		})
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	t.Parallel()
	silent := (&fakeServer{silent: true}).start(t)
	cfg := DialConfig{Kind: KindPostgres, Address: "127.0.0.1", Port: silent.port(), SSLMode: "disable",
		User: "u", Database: "d", Timeout: time.Minute}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := dialer(t, cfg).Dial(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A server that refuses is asked once, however many addresses its name has:
// each time would cost a share of the connection rate.
func TestRefusalIsNotAskedForTwice(t *testing.T) {
	t.Parallel()
	f := (&fakeServer{refuse: errorResponse("53400", "Unable to accept connection, rate exceeded.", "later")}).start(t)
	cfg := DialConfig{Kind: KindPostgres, Address: "localhost", Port: f.port(), SSLMode: "disable",
		User: "u", Database: "d", Timeout: 10 * time.Second}
	got := refused(t, cfg, StepStartup)
	if quota, ok := quotaRefusal(got); got.SQLState != "53400" || got.Server.Hint != "later" || !ok || quota != lease.Rate {
		t.Errorf("got %+v, quota %v", got, quota)
	}
	if f.accepted != 1 {
		t.Errorf("%d connections, want 1", f.accepted)
	}
}

// A startup that breaks off costs one connection. pgconn would make another.
func TestBrokenStartupIsNotCancelled(t *testing.T) {
	t.Parallel()
	f := (&fakeServer{breakOff: true}).start(t)
	cfg := DialConfig{Kind: KindPostgres, Address: "127.0.0.1", Port: f.port(), SSLMode: "disable",
		User: "u", Database: "d", Timeout: 10 * time.Second}
	for range 20 {
		refused(t, cfg, StepStartup)
	}
	time.Sleep(100 * time.Millisecond) // for what should not come
	f.note(func() {
		if f.accepted != 20 {
			t.Errorf("%d connections for 20 dials", f.accepted)
		}
	})
}

// counting is a connection that counts what passes.
type counting struct {
	net.Conn
	written int
}

func (c *counting) Write(b []byte) (int, error) {
	c.written += len(b)
	return c.Conn.Write(b)
}

func TestWrapIsBelowTLS(t *testing.T) {
	t.Parallel()
	var wrapped *counting
	cfg := to(pgtest.Shared(t), "verify-full")
	cfg.Wrap = func(conn net.Conn) net.Conn {
		if _, ok := conn.(*net.TCPConn); !ok {
			t.Errorf("given a %T", conn)
		}
		wrapped = &counting{Conn: conn}
		return wrapped
	}
	c := dial(t, cfg, nil)
	secured, ok := c.Net.(*tls.Conn)
	if !ok || secured.NetConn() != net.Conn(wrapped) || wrapped.written == 0 {
		t.Errorf("TLS runs over %T", secured.NetConn())
	}
}
