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

// These are the kinds of server that a Dialer can dial, values of backend.kind.
const (
	KindDSQL     = "dsql"
	KindPostgres = "postgres"
)

// adminUser is the role that needs an IAM token for DbConnectAdmin. All other roles need a token for DbConnect.
const adminUser = "admin"

// Dialer opens backends with one server, role and database.
type Dialer struct {
	cfg    DialConfig
	region string
	base   atomic.Pointer[pgconn.Config] // copied for each dial
}

// NewDialer returns a Dialer for cfg, or an error if cfg is faulty.
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

// ReloadCA reads the file of trusted authorities again, for dials that begin afterwards. After an error the old
// authorities stay in use.
func (d *Dialer) ReloadCA() error {
	cfg := d.cfg
	modes, err := cfg.tlsConfigs()
	if err != nil {
		return err
	}
	base, err := configWithoutEnv()
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

// Dial opens a backend. Dial is a DialFunc. An error is a *DialError.
func (d *Dialer) Dial(ctx context.Context, s *Startup) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	a := &dialAttempt{dialer: d, address: net.JoinHostPort(d.cfg.host(), strconv.Itoa(d.cfg.Port)), last: time.Now()}
	ctx = context.WithValue(ctx, attemptKey{}, a)
	cfg, err := a.config(ctx, s)
	if err != nil {
		return nil, a.newDialError(ctx, err)
	}
	pg, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, a.newDialError(ctx, err)
	}
	c, err := a.takeConn(ctx, pg)
	if err != nil {
		return nil, a.newDialError(ctx, err)
	}
	a.recordStep(StepStartup)
	return c, nil
}

// CheckCredentials creates an IAM token as a dial would, and does not use it. An error is a *DialError with
// StepCredentials or StepToken.
func (d *Dialer) CheckCredentials(ctx context.Context) error {
	if d.cfg.Kind != KindDSQL {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	a := &dialAttempt{dialer: d, address: net.JoinHostPort(d.cfg.host(), strconv.Itoa(d.cfg.Port)), last: time.Now()}
	if _, err := a.token(ctx); err != nil {
		return a.newDialError(ctx, err)
	}
	return nil
}

// dialAttempt is one dial in progress. pgconn calls the methods that are its hooks on Dial's goroutine.
type dialAttempt struct {
	dialer  *Dialer
	address string
	step    DialStep // the current step
	last    time.Time
	err     error // the error of a hook, before pgconn wrapped it
	notices []*Notice
}

// attemptKey is the context key under which a dial's context holds its dialAttempt.
type attemptKey struct{}

// config returns the pgconn configuration of this dial, with a new IAM token for DSQL.
func (a *dialAttempt) config(ctx context.Context, s *Startup) (*pgconn.Config, error) {
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
	// pgconn tries all addresses of a name from start to end, and would repeat a refused startup for each. So pgconn gets
	// one address, the name, and dialNetwork tries the name's addresses.
	cfg.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	cfg.DialFunc = a.dialNetwork
	cfg.AfterNetConnect = a.handshake
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { a.notices = append(a.notices, (*Notice)(n)) }
	return cfg, nil
}

// token returns the IAM token that is the password of a DSQL connection. The token is signed locally, and used for this
// dial only.
func (a *dialAttempt) token(ctx context.Context) (string, error) {
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
	a.recordStep(StepCredentials)

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
	a.recordStep(StepToken)
	return token, nil
}

// dialNetwork resolves the server's name and connects to the first address that answers.
func (a *dialAttempt) dialNetwork(ctx context.Context, network, address string) (net.Conn, error) {
	if ctx.Value(attemptKey{}) != a {
		// pgconn makes this second connection after an interrupted startup, in a goroutine, to cancel a statement
		// that never began. So the connection is refused.
		return nil, errors.New("not part of the dial")
	}
	conn, err := a.resolveAndConnect(ctx, network, address)
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

func (a *dialAttempt) resolveAndConnect(ctx context.Context, network, address string) (net.Conn, error) {
	a.step = StepDNS
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	a.recordStep(StepDNS)

	a.step = StepTCP
	var errs []error
	for i, ip := range addresses {
		// Each address gets an equal part of the time that remains for the dial.
		deadline, _ := ctx.Deadline()
		dialer := net.Dialer{Timeout: time.Until(deadline) / time.Duration(len(addresses)-i), KeepAlive: -1, KeepAliveConfig: KeepAliveSettings(a.dialer.cfg.KeepAlive)}
		// The dial sets no option for TCP_NODELAY, because Go sets it by default.
		conn, err := dialer.DialContext(ctx, network, net.JoinHostPort(ip, port))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		a.recordStep(StepTCP)
		return conn, nil
	}
	return nil, errors.Join(errs...)
}

// handshake performs the TLS handshake before pgconn's first write, because pgconn would report a failed handshake as
// a failed write. As pgconn requires, handshake returns conn.
func (a *dialAttempt) handshake(ctx context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
	if secured, ok := conn.(*tls.Conn); ok {
		if a.err = secured.HandshakeContext(ctx); a.err != nil {
			return conn, a.err
		}
		a.recordStep(StepTLS)
	}
	a.step = StepStartup
	return conn, nil
}

// takeConn turns pgconn's connection into a Conn, which has no buffered byte, no goroutine and no deadline.
func (a *dialAttempt) takeConn(ctx context.Context, pg *pgconn.PgConn) (*Conn, error) {
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

// recordStep records in the metrics how long a successful step of the dial took.
func (a *dialAttempt) recordStep(step DialStep) {
	now := time.Now()
	a.dialer.cfg.Metrics.ObserveDialStep(string(step), now.Sub(a.last))
	a.last = now
}

// newDialError returns a DialError for err with the step of the dial that failed.
func (a *dialAttempt) newDialError(ctx context.Context, err error) *DialError {
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
		e.Step = server.dialStep()
	} else if ctx.Err() != nil {
		e.Err = context.Cause(ctx)
	}
	return e
}
