package inject

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// These are limits of the webhook. The API server accepts objects of up to 3 MiB, and waits as long as the webhook's
// registration says.
const (
	maxBody             = 4 << 20
	maxReviews          = 8 // at once; bounds their total memory
	reviewWait          = 2 * time.Second
	maxBodies           = 32 // read or waiting for their review at once, from all addresses
	maxBodiesPerAddress = 16 // from one address
	bodyTimeout         = 3 * time.Second
	headerTimeout       = 5 * time.Second
	readTimeout         = 10 * time.Second
	writeTimeout        = 15 * time.Second
	idleTimeout         = 2 * time.Minute
	maxHeaderBytes      = 16 << 10
)

// Path is the URL path of the webhook.
const Path = "/mutate"

// Server is the webhook that answers the calls of Kubernetes' API server.
type Server struct {
	injector *Injector
	cert     *Certificate
	log      *slog.Logger
	slots    chan struct{}

	mu        sync.Mutex
	bodies    map[string]int // bodies being read or waiting for their review, by address; guarded by mu
	bodyCount int            // their number; guarded by mu

	outcomes  map[Outcome]*atomic.Uint64
	malformed atomic.Uint64
}

// NewServer returns the webhook that answers with the verdicts of in. cert is its TLS certificate.
func NewServer(in *Injector, cert *Certificate, log *slog.Logger) *Server {
	s := &Server{injector: in, cert: cert, log: log, slots: make(chan struct{}, maxReviews), bodies: map[string]int{}, outcomes: map[Outcome]*atomic.Uint64{}}
	for _, o := range Outcomes {
		s.outcomes[o] = &atomic.Uint64{}
	}
	return s
}

// Stats has the numbers of admission requests since the start of the webhook, by outcome.
type Stats struct {
	Outcomes  map[Outcome]uint64
	Malformed uint64 // requests that were no AdmissionReview, or too many
}

// Stats returns the webhook's current counts of admission requests.
func (s *Server) Stats() Stats {
	all := Stats{Outcomes: map[Outcome]uint64{}, Malformed: s.malformed.Load()}
	for o, n := range s.outcomes {
		all.Outcomes[o] = n.Load()
	}
	return all
}

// ServeHTTP answers one AdmissionReview, with which the API server asks for a verdict on a pod.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code, err := s.review(w, r)
	if err != nil {
		s.malformed.Add(1)
		s.log.Warn("request refused", "error", err, "from", r.RemoteAddr)
		http.Error(w, err.Error(), code)
	}
}

func (s *Server) review(w http.ResponseWriter, r *http.Request) (code int, err error) {
	if r.URL.Path != Path {
		return http.StatusNotFound, errors.New("not found")
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return http.StatusMethodNotAllowed, errors.New("want POST")
	}
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media != "application/json" {
		return http.StatusUnsupportedMediaType, errors.New("want application/json")
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	if !s.admitBody(host) {
		return http.StatusServiceUnavailable, errors.New("too many requests at once")
	}
	ends := sync.OnceFunc(func() { s.releaseBody(host) })
	defer ends()
	body, code, err := s.readBody(w, r)
	if err != nil {
		return code, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewWait)
	defer cancel()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
		ends()
	case <-ctx.Done():
		return http.StatusServiceUnavailable, errors.New("too many reviews at once")
	}
	answer, reviewed, err := s.injector.Review(body)
	if err != nil {
		return http.StatusBadRequest, err
	}
	s.outcomes[reviewed.Outcome].Add(1)
	s.log.Info("reviewed", "outcome", string(reviewed.Outcome), "namespace", reviewed.Namespace, "pod", reviewed.Pod,
		"reason", reviewed.Reason, "dry_run", reviewed.DryRun, "uid", reviewed.UID)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // after an error the API server decides by failurePolicy
	return 0, nil
}

// readBody reads a request's body, within bodyTimeout. Meanwhile the request does not count against maxReviews.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (body []byte, code int, err error) {
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil {
		return nil, http.StatusInternalServerError, err
	}
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("want at most %d bytes", maxBody)
	}
	return body, http.StatusBadRequest, err
}

// admitBody counts a request body from its start until its review. admitBody returns false if there are too many
// bodies, of all addresses together or of the address host.
func (s *Server) admitBody(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bodyCount >= maxBodies || s.bodies[host] >= maxBodiesPerAddress {
		return false
	}
	s.bodyCount++
	s.bodies[host]++
	return true
}

// releaseBody ends the count that admitBody began for a request body from the address host.
func (s *Server) releaseBody(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodyCount--
	if s.bodies[host]--; s.bodies[host] == 0 {
		delete(s.bodies, host)
	}
}

// Serve serves ln until ctx ends, and closes ln. After the end of ctx, Serve continues for the time quiet, because the
// API server may not know of the end. Then Serve lets running requests finish.
func (s *Server) Serve(ctx context.Context, ln net.Listener, quiet time.Duration) error {
	server := &http.Server{
		Handler:           s,
		TLSConfig:         s.cert.tlsConfig(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.ServeTLS(ln, "", "") }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	wait := time.NewTimer(quiet)
	defer wait.Stop()
	select {
	case err := <-failed:
		return err
	case <-wait.C:
	}
	end, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	if server.Shutdown(end) != nil {
		_ = server.Close() // they had their time
	}
	<-failed // http.ErrServerClosed
	return nil
}

// Certificate is the webhook's TLS certificate. A reload does not affect existing connections.
type Certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
}

// NewCertificate reads a certificate (chain) and its key from files in PEM form.
func NewCertificate(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	return c, c.Reload()
}

// Reload reads the certificate's files again. After an error the old certificate stays in use.
func (c *Certificate) Reload() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return err
	}
	c.current.Store(&pair)
	return nil
}

// Expires returns the end of the current certificate's validity.
func (c *Certificate) Expires() time.Time { return c.current.Load().Leaf.NotAfter }

func (c *Certificate) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}
