package dsqlsim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"golang.org/x/sys/unix"
)

// vanishCheck is how often PostgreSQL checks, while it runs a statement, that dsqlsim is still connected.
const vanishCheck = time.Second

// dialTimeout bounds the dial of one PostgreSQL connection.
const dialTimeout = 15 * time.Second

// upstreamDialer makes dsqlsim's connections to the PostgreSQL server.
type upstreamDialer struct {
	config *pgconn.Config
	// settings are the PostgreSQL settings of every session. The startup packet contains them, so that RESET returns to
	// them.
	settings map[string]string
}

func newUpstreamDialer(dsn string, lockTimeout time.Duration) (*upstreamDialer, error) {
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	// TLS is off, since the session checks an idle PostgreSQL connection by a peek into its socket, which TLS would hide.
	config.TLSConfig, config.Fallbacks = nil, nil
	if config.Database == "" {
		config.Database = database
	}
	return &upstreamDialer{config: config, settings: map[string]string{
		"default_transaction_isolation":    "repeatable read", // recorded: show_transaction_isolation
		"TimeZone":                         "UTC",             // recorded: env_timezone
		"client_encoding":                  "UTF8",            // recorded: env_client_encoding
		"default_text_search_config":       "pg_catalog.simple",
		"lock_timeout":                     milliseconds(lockTimeout),
		"client_connection_check_interval": milliseconds(vanishCheck),
	}}, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// dialForClient connects to PostgreSQL for one client with the client's parameters, which must be settable. The caller
// owns the idle connection.
func (u *upstreamDialer) dialForClient(ctx context.Context, role string, parameters map[string]string) (*pgconn.HijackedConn, error) {
	conn, err := u.connectDriver(ctx, role, parameters)
	if err != nil {
		return nil, err
	}
	// On a busy machine the driver may have begun a background read, which would take PostgreSQL's first answer to the
	// client. SyncConn ends that read.
	if err := conn.SyncConn(ctx); err != nil {
		conn.Conn().Close()
		return nil, err
	}
	return conn.Hijack()
}

// connectDriver dials PostgreSQL like dialForClient, for callers that use the driver.
func (u *upstreamDialer) connectDriver(ctx context.Context, role string, parameters map[string]string) (*pgconn.PgConn, error) {
	config := u.config.Copy()
	config.RuntimeParams = make(map[string]string)
	for name, value := range u.settings {
		config.RuntimeParams[name] = value
	}
	for name, value := range parameters {
		config.RuntimeParams[name] = value
	}
	if role != adminRole {
		config.RuntimeParams["role"] = role
	}
	return dialUpstream(ctx, config)
}

// dialUpstream connects to PostgreSQL within dialTimeout.
func dialUpstream(ctx context.Context, config *pgconn.Config) (*pgconn.PgConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	return conn, nil
}

// upstreamFailure returns the client's error when dsqlsim cannot connect to PostgreSQL. It is PostgreSQL's own error
// if there is one, but tooMany if PostgreSQL has too many connections.
func upstreamFailure(err error) *failure {
	var e *pgconn.PgError
	switch {
	case !errors.As(err, &e):
		return &failure{fatal: true, code: codeInternal, message: "the PostgreSQL behind dsqlsim does not answer"}
	case e.Code == codeTooMany:
		return tooMany
	}
	return &failure{fatal: true, code: e.Code, message: e.Message}
}

// cancel asks PostgreSQL to cancel the statement that the session with this key runs.
func (u *upstreamDialer) cancel(ctx context.Context, key cancelKey) error {
	network, address := pgconn.NetworkAddress(u.config.Host, u.config.Port)
	ctx, stop := context.WithTimeout(ctx, dialTimeout)
	defer stop()
	conn, err := u.config.DialFunc(ctx, network, address)
	if err != nil {
		return fmt.Errorf("dial for cancel: %w", err)
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	request := pgproto3.CancelRequest{ProcessID: key.pid, SecretKey: []byte(key.secret)}
	packet, err := request.Encode(nil)
	if err != nil {
		return fmt.Errorf("encode cancel: %w", err)
	}
	if _, err := conn.Write(packet); err != nil {
		return fmt.Errorf("send cancel: %w", err)
	}
	// PostgreSQL closes the connection after it has handled the request.
	_, _ = io.Copy(io.Discard, conn)
	return nil
}

// isReadable reports, without waiting, whether a socket has bytes to read or has ended.
func isReadable(conn net.Conn) bool {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	found := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		found = !errors.Is(err, unix.EAGAIN)
		return true
	})
	return found || err != nil
}
