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

// adminUser is the role whose tokens are for DbConnectAdmin; the others' are
// for DbConnect.
const adminUser = "admin"

// Dialer opens backends of one identity: server, role, database.
type Dialer struct {
	cfg    DialConfig
	region string
	base   atomic.Pointer[pgconn.Config] // copied for each dial
}

// NewDialer returns a Dialer, or says what is wrong with cfg.
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
// from now on. After an error the old ones stay in use.
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

// Check mints a token as a dial would, and uses it for nothing. An error is a
// *DialError of an early step.
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

// attempt is one dial under way. pgconn calls its hooks on Dial's goroutine.
type attempt struct {
	dialer  *Dialer
	address string
	step    Step // what is being done
	last    time.Time
	err     error // what a hook failed with, before pgconn wrapped it
	notices []*Notice
}

// attemptKey finds the attempt that a context belongs to.
type attemptKey struct{}

// config is what pgconn needs for this one dial, a fresh token included.
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
	// pgconn tries each address it is given from start to end. A refusal must
	// not be asked for once per address, so it gets one and open does the rest.
	cfg.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	cfg.DialFunc = a.open
	cfg.AfterNetConnect = a.handshake
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { a.notices = append(a.notices, (*Notice)(n)) }
	return cfg, nil
}

// token mints the password of a DSQL connection: signed offline, and used for
// this dial only.
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

// open resolves the server's name and connects to the first of its addresses
// that answers.
func (a *attempt) open(ctx context.Context, network, address string) (net.Conn, error) {
	if ctx.Value(attemptKey{}) != a {
		// After a startup that broke off pgconn would, in a goroutine, connect
		// once more to cancel what has not begun.
		return nil, errors.New("not part of the dial")
	}
	conn, err := a.connect(ctx, network, address)
	a.err = err
	if err != nil {
		return nil, err
	}
	a.step = StepTLS // or nothing, when handshake gets this very connection
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
		// The ones that follow get their share of the time.
		deadline, _ := ctx.Deadline()
		dialer := net.Dialer{Timeout: time.Until(deadline) / time.Duration(len(addresses)-i), KeepAlive: -1, KeepAliveConfig: KeepAlive(a.dialer.cfg.KeepAlive)}
		// TCP_NODELAY is what Go sets by itself.
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

// handshake makes the TLS handshake now, where pgconn would leave it to the
// first write and call its failure a failed write. It must return conn.
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

// take makes a Conn of pgconn's, with nothing left behind: no byte in a buffer,
// no goroutine, no deadline.
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

// done books a step that has succeeded.
func (a *attempt) done(step Step) {
	now := time.Now()
	a.dialer.cfg.Metrics.DialStep(string(step), now.Sub(a.last))
	a.last = now
}

// fail names the step that failed.
func (a *attempt) fail(ctx context.Context, err error) *DialError {
	if connect, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		err = connect.Unwrap() // connect itself holds the token
	}
	if a.err != nil {
		err = a.err
	}
	if a.step == StepTLS && a.dialer.cfg.CAFile != "" {
		_ = a.dialer.ReloadCA() // the server may have other authorities by now; the old ones stay after an error
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
