package reservoir

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dsql/auth"
	"github.com/jackc/pgx/v5/pgconn"
)

// The kinds of server that a Dialer can dial.
const (
	KindDSQL     = "dsql"
	KindPostgres = "postgres"
)

// adminUser is the role that needs a token for DbConnectAdmin. All others need DbConnect.
const adminUser = "admin"

// Dialer opens backends of one identity: server, role, database.
type Dialer struct {
	cfg    DialConfig
	region string
	base   atomic.Pointer[pgconn.Config] // copied for each dial
}

// NewDialer returns a Dialer, or an error for a faulty cfg.
func NewDialer(cfg DialConfig) (*Dialer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Kind == KindDSQL && cfg.Credentials == nil {
		return nil, errors.New("backend.kind: dsql needs AWS credentials")
	}
	d := &Dialer{cfg: cfg, region: cfg.region()}
	if err := d.ReloadCA(); err != nil {
		return nil, err
	}
	return d, nil
}

// ReloadCA reads the authorities of the server's certificate again, for dials that begin
// afterwards. After an error the old ones stay in use.
func (d *Dialer) ReloadCA() error {
	cfg := d.cfg
	modes, err := cfg.tlsConfigs()
	if err != nil {
		return err
	}
	base, err := bareConfig()
	if err != nil {
		return err
	}
	base.Host = cfg.host()
	base.Port = uint16(cfg.Port)
	base.User = cfg.User
	base.Database = cfg.Database
	base.Password = cfg.Password
	base.ChannelBinding = cmp.Or(cfg.ChannelBinding, base.ChannelBinding)
	base.TLSConfig = modes[0]
	for _, mode := range modes[1:] {
		base.Fallbacks = append(base.Fallbacks, &pgconn.FallbackConfig{Host: base.Host, Port: base.Port, TLSConfig: mode})
	}
	d.base.Store(base)
	return nil
}

// Dial opens a backend; it is a DialFunc. An error is a *DialError.
func (d *Dialer) Dial(ctx context.Context, s *Startup) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	a := &attempt{dialer: d, address: net.JoinHostPort(d.cfg.host(), strconv.Itoa(d.cfg.Port)), last: time.Now()}
	ctx = context.WithValue(ctx, attemptKey{}, a)
	cfg, err := a.config(ctx, s)
	if err != nil {
		return nil, a.fail(ctx, err)
	}
	pg, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, a.fail(ctx, err)
	}
	c, err := a.take(ctx, pg)
	if err != nil {
		return nil, a.fail(ctx, err)
	}
	a.done(StepStartup)
	return c, nil
}

// Check creates a token as a dial would, and does not use it. An error is a *DialError of an early
// step.
func (d *Dialer) Check(ctx context.Context) error {
	if d.cfg.Kind != KindDSQL {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	a := &attempt{dialer: d, address: net.JoinHostPort(d.cfg.host(), strconv.Itoa(d.cfg.Port)), last: time.Now()}
	if _, err := a.token(ctx); err != nil {
		return a.fail(ctx, err)
	}
	return nil
}

// attempt is one dial in progress. pgconn calls its hooks on Dial's goroutine.
type attempt struct {
	dialer  *Dialer
	address string
	step    Step // the current step
	last    time.Time
	err     error // the error of a hook, before pgconn wrapped it
	notices []*Notice
}

// attemptKey is the key of the attempt in a context.
type attemptKey struct{}

// config returns the pgconn configuration of this dial, with a new token.
func (a *attempt) config(ctx context.Context, s *Startup) (*pgconn.Config, error) {
	cfg := a.dialer.base.Load().Copy()
	if s != nil {
		if a.dialer.cfg.Kind != KindPostgres {
			a.step = StepStartup
			return nil, errors.New("only backend.kind postgres takes a client's startup parameters")
		}
		cfg.Database = s.Database
		for name, value := range s.Params {
			cfg.RuntimeParams[name] = value
		}
	}
	if a.dialer.cfg.Kind == KindDSQL {
		token, err := a.token(ctx)
		if err != nil {
			return nil, err
		}
		cfg.Password = token
	}
	// pgconn tries all addresses from start to end, and would repeat a refused startup for each. It
	// gets one address, and open tries the others.
	cfg.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	cfg.DialFunc = a.open
	cfg.AfterNetConnect = a.handshake
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { a.notices = append(a.notices, (*Notice)(n)) }
	return cfg, nil
}

// token returns the password of a DSQL connection. It is signed locally, and used for this dial
// only.
func (a *attempt) token(ctx context.Context) (string, error) {
	cfg := a.dialer.cfg
	a.step = StepCredentials
	credentials, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return "", err
	}
	if !credentials.HasKeys() {
		return "", errors.New("AWS credentials without keys")
	}
	if credentials.Expired() {
		return "", fmt.Errorf("AWS credentials expired at %s", credentials.Expires.UTC().Format(time.RFC3339))
	}
	a.done(StepCredentials)

	a.step = StepToken
	generate := auth.GenerateDbConnectAuthToken
	if cfg.User == adminUser {
		generate = auth.GenerateDBConnectAdminAuthToken
	}
	same := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return credentials, nil })
	token, err := generate(ctx, cfg.Endpoint, a.dialer.region, same)
	if err != nil {
		return "", err
	}
	a.done(StepToken)
	return token, nil
}

// open resolves the server's name and connects to the first address that answers.
func (a *attempt) open(ctx context.Context, network, address string) (net.Conn, error) {
	if ctx.Value(attemptKey{}) != a {
		// After an interrupted startup pgconn would connect again, in a goroutine, to cancel a
		// statement that never began.
		return nil, errors.New("not part of the dial")
	}
	conn, err := a.connect(ctx, network, address)
	a.err = err
	if err != nil {
		return nil, err
	}
	a.step = StepTLS // or startup, if handshake gets this connection without TLS
	if a.dialer.cfg.Wrap != nil {
		conn = a.dialer.cfg.Wrap(conn)
	}
	return conn, nil
}

func (a *attempt) connect(ctx context.Context, network, address string) (net.Conn, error) {
	a.step = StepDNS
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	a.done(StepDNS)

	a.step = StepTCP
	var errs []error
	for i, ip := range addresses {
		// Later addresses get their part of the time.
		deadline, _ := ctx.Deadline()
		dialer := net.Dialer{Timeout: time.Until(deadline) / time.Duration(len(addresses)-i), KeepAlive: -1, KeepAliveConfig: KeepAlive(a.dialer.cfg.KeepAlive)}
		// Go sets TCP_NODELAY by default.
		conn, err := dialer.DialContext(ctx, network, net.JoinHostPort(ip, port))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		a.done(StepTCP)
		return conn, nil
	}
	return nil, errors.Join(errs...)
}

// handshake performs the TLS handshake now. pgconn would leave it to the first write and report its
// failure as a failed write. It must return conn.
func (a *attempt) handshake(ctx context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
	if secured, ok := conn.(*tls.Conn); ok {
		if a.err = secured.HandshakeContext(ctx); a.err != nil {
			return conn, a.err
		}
		a.done(StepTLS)
	}
	a.step = StepStartup
	return conn, nil
}

// take turns pgconn's connection into a Conn, with no buffered byte, no goroutine and no deadline.
func (a *attempt) take(ctx context.Context, pg *pgconn.PgConn) (*Conn, error) {
	if err := pg.SyncConn(ctx); err != nil {
		pg.Conn().Close()
		return nil, err
	}
	h, err := pg.Hijack()
	if err != nil {
		pg.Conn().Close()
		return nil, err
	}
	if err := h.Conn.SetDeadline(time.Time{}); err != nil {
		h.Conn.Close()
		return nil, err
	}
	c := NewConn(h.Conn)
	c.PID, c.Secret, c.Params, c.Notices = h.PID, h.SecretKey, h.ParameterStatuses, a.notices
	request := canceler{address: h.Conn.RemoteAddr(), tls: h.TLSConfig, pid: h.PID, secret: h.SecretKey}
	c.SendCancel = request.send
	return c, nil
}

// done records the time of a successful step.
func (a *attempt) done(step Step) {
	now := time.Now()
	a.dialer.cfg.Metrics.DialStep(string(step), now.Sub(a.last))
	a.last = now
}

// fail returns the error with the step that failed.
func (a *attempt) fail(ctx context.Context, err error) *DialError {
	if connect, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		err = connect.Unwrap() // the ConnectError holds the token
	}
	if a.err != nil {
		err = a.err
	}
	if a.step == StepTLS && a.dialer.cfg.CAFile != "" {
		_ = a.dialer.ReloadCA() // the server may have new authorities; after an error the old ones stay
	}
	e := &DialError{Step: a.step, Address: a.address, Err: err}
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		server := ServerError(*refusal)
		e.Server, e.SQLState, e.Err = &server, server.Code, &server
		e.Step = server.step()
	} else if ctx.Err() != nil {
		e.Err = context.Cause(ctx)
	}
	return e
}
