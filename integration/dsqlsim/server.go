package dsqlsim

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"golang.org/x/time/rate"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
	"github.com/sluice-proxy/sluice/integration/dsqlsim/occ"
)

// ErrServerClosed is the normal result of Serve.
var ErrServerClosed = errors.New("dsqlsim: server closed")

// acceptPause is the pause after a failed accept, so that a lack of file descriptors causes no busy loop.
const acceptPause = 10 * time.Millisecond

// Server is one simulated DSQL cluster. New makes a Server, Serve runs it, and Close ends it with all connections.
type Server struct {
	config   Config
	log      *slog.Logger
	tls      *tls.Config
	ca       *certAuthority
	tokens   tokenVerifier
	upstream *upstreamDialer
	dialect  *dialect.Dialect
	limiter  *rate.Limiter
	ledger   *eventLedger
	plan     faultPlan
	catalog  simCatalog
	jobs     *jobRunner
	metrics  *metrics

	arbiter       *lockArbiter
	certifier     occ.Certifier
	plans         *planCache
	schemaChanges atomic.Uint64 // how many there were
	established   atomic.Int64  // sessions that have their client and their PostgreSQL connection

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	working sync.WaitGroup
	lastID  atomic.Uint64

	mu          sync.Mutex
	closed      bool
	listeners   map[net.Listener]struct{}
	conns       map[net.Conn]struct{}  // every accepted connection
	sessions    map[cancelKey]*session // those that have a PostgreSQL connection
	admitted    int                    // those that count against MaxConnections
	most        int                    // admitted at once since the start
	arbiterRuns bool                   // the referee runs
}

// New makes a server from a complete configuration, or returns all problems of the configuration. It does not connect
// to PostgreSQL.
func New(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	up, err := newUpstreamDialer(c.Upstream, c.LockTimeout)
	if err != nil {
		return nil, err
	}
	up.settings[limitsSetting] = c.Limits.catalogSetting(c.AllowByteaKeys)
	ca, err := newAuthority(c.CertDir)
	if err != nil {
		return nil, fmt.Errorf("cert-dir %s: %w", c.CertDir, err)
	}
	certificate, err := ca.issueCertificate(c.Endpoint)
	if err != nil {
		return nil, err
	}
	log := c.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		config: c, log: log, ca: ca, upstream: up,
		tls: &tls.Config{
			Certificates: []tls.Certificate{certificate},
			NextProtos:   []string{alpn},
			MinVersion:   tls.VersionTLS12,
		},
		tokens:    newTokenVerifier(&c),
		limiter:   rate.NewLimiter(rate.Limit(c.Rate), c.Burst),
		ledger:    newEventLedger(c.LedgerSize),
		arbiter:   newLockArbiter(c.LockTimeout),
		plans:     newPlanCache(),
		jobs:      newJobRunner(&c, up),
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[net.Conn]struct{}),
		sessions:  make(map[cancelKey]*session),
	}
	s.dialect = dialect.New(dialect.Options{Copy: c.AllowCopy, ByteaKeys: c.AllowByteaKeys, OldLocking: c.OldLocking, WithoutEncode: c.WithoutEncode, DomainChanges: c.AllowDomainChanges,
		WithoutSequenceDefaults: c.WithoutSequenceDefaults, WithoutSequenceOwners: c.WithoutSequenceOwners, Jobs: s.catalog.there.Load})
	if len(c.Faults) > 0 {
		if err := s.AddFaultsJSON(c.Faults); err != nil {
			return nil, err
		}
	}
	s.metrics = newMetrics(s.ConnectionCount, s.PeakConnections, func() int { return int(s.established.Load()) })
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Serve accepts connections until Close, and then returns ErrServerClosed. The listener carries plain TCP; TLS begins
// within the connection.
func (s *Server) Serve(ln net.Listener) error {
	if !s.addListener(ln) {
		_ = ln.Close()
		return ErrServerClosed
	}
	for {
		conn, err := ln.Accept()
		switch {
		case s.ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return ErrServerClosed
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept: %w", err)
		case err != nil:
			s.log.Warn("accept failed", "error", err)
			time.Sleep(acceptPause)
			continue
		}
		s.serveInBackground(conn)
	}
}

func (s *Server) addListener(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.listeners[ln] = struct{}{}
		if !s.arbiterRuns {
			s.arbiterRuns = true
			s.working.Go(s.runLockArbiter)
		}
	}
	return !s.closed
}

// serveInBackground serves one connection on a new goroutine.
func (s *Server) serveInBackground(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close()
		return
	}
	s.conns[conn] = struct{}{}
	s.working.Add(1)
	go func() {
		defer s.working.Done()
		s.serveConn(conn)
		_ = conn.Close()
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
	}()
}

// Close ends the listeners and cuts every connection; open transactions roll back. It returns when no goroutine of the
// server runs any more.
func (s *Server) Close() error {
	s.cancel()
	s.mu.Lock()
	s.closed = true
	var errs []error
	for ln := range s.listeners {
		errs = append(errs, ln.Close())
	}
	clear(s.listeners)
	for conn := range s.conns {
		_ = conn.Close()
	}
	for _, each := range s.sessions {
		each.link.closeBoth()
	}
	s.mu.Unlock()
	s.working.Wait()
	return errors.Join(errs...)
}

// Endpoint returns the host name that clients must use in SNI and token.
func (s *Server) Endpoint() string { return s.config.Endpoint }

// CAPool returns a pool with the authority that signed the server's certificate.
func (s *Server) CAPool() *x509.CertPool { return s.ca.pool }

// CAPEM returns the certificate authority in PEM form.
func (s *Server) CAPEM() []byte { return s.ca.pem }

// checkReady returns the reason why the server could not serve a client now, or nil.
func (s *Server) checkReady(ctx context.Context) error {
	s.mu.Lock()
	serving := len(s.listeners) > 0
	s.mu.Unlock()
	if !serving {
		return errors.New("not serving")
	}
	_, err := s.UpstreamVersion(ctx)
	return err
}

// UpstreamVersion returns the version of the PostgreSQL server behind dsqlsim. It returns an error if PostgreSQL
// would accept no client's connection now.
func (s *Server) UpstreamVersion(ctx context.Context) (version string, err error) {
	up, err := s.upstream.dialForClient(ctx, adminRole, nil)
	if err != nil {
		return "", err
	}
	_, _ = up.Conn.Write(encodeMessage(&pgproto3.Terminate{}))
	return up.ParameterStatuses["server_version"], up.Conn.Close()
}

// ConnectionCount returns how many clients are connected and admitted now.
func (s *Server) ConnectionCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admitted
}

// PeakConnections returns the largest number of clients that were connected and admitted at once since New.
func (s *Server) PeakConnections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// admitConn counts a connection against the quotas. After nil the caller must call releaseConn once.
func (s *Server) admitConn() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.admitted >= s.config.MaxConnections {
		return wrapReason("quota", tooMany)
	}
	if !s.limiter.Allow() {
		return wrapReason("quota", tooFast)
	}
	s.admitted++
	s.most = max(s.most, s.admitted)
	return nil
}

func (s *Server) releaseConn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admitted--
}

// register makes a session (parameter each) known to cancel requests and to Close. It reports whether the server
// still runs.
func (s *Server) register(each *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.sessions[each.key] = each
	}
	return !s.closed
}

func (s *Server) unregister(each *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, each.key)
}

// CloseSession cuts the connection with this number in the ledger, as a lost network would. It reports whether that
// connection existed.
func (s *Server) CloseSession(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, each := range s.sessions {
		if each.id == id {
			each.link.closeBoth()
			return true
		}
	}
	return false
}
