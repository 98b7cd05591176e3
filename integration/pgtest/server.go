package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-proxy/sluice/integration/certs"
	"github.com/sluice-proxy/sluice/integration/child"
	"github.com/sluice-proxy/sluice/integration/sockets"
)

const (
	host      = "127.0.0.1"
	superuser = "postgres"

	dataName = "data"       // the cluster, in a server's home
	logName  = "server.log" // what initdb and the postmaster print

	// startLimit bounds the start of a server. initdb takes a second on an idle machine, but several test binaries may
	// start servers at once on two cores.
	startLimit = 90 * time.Second
	// stopGrace is twice the 5 s that a postmaster gives its child processes on an immediate shutdown before it kills
	// them.
	stopGrace = 10 * time.Second
	pollEvery = 10 * time.Millisecond
	// portTries bounds the attempts to start a server whose free port another program takes first.
	portTries = 5
	// maxSocketPath is the longest path in a sockaddr_un on Linux, without the final NUL.
	maxSocketPath = 107
)

// Server is a running PostgreSQL server. Its fields do not change, except by Restart.
type Server struct {
	Host      string // 127.0.0.1
	Port      int
	SocketDir string // also a "host" for libpq and pgx
	User      string // the superuser, postgres
	Password  string // empty without SCRAM
	CAFile    string // verifies the server's certificate; empty without TLS
	BinDir    string // psql, pgbench and the rest of the same version

	home    *serverHome
	account osAccount
	process *child.Process

	sessions *idleSessions
}

// Launch starts a server and returns when it accepts connections. The caller must end the server with Close. Tests use
// Start or Shared instead.
func Launch(opts ...Option) (*Server, error) {
	bin, err := BinDir()
	if err != nil {
		return nil, err
	}
	acc, err := serverAccount()
	if err != nil {
		return nil, err
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	base := os.TempDir()
	if err := removeDeadHomes(base, acc); err != nil {
		return nil, fmt.Errorf("sweep old servers: %w", err)
	}
	if o.memory && os.Getenv("TMPDIR") == "" && hasMemoryRoom(memoryDir) {
		base = memoryDir
		o.settings = append([]string{"max_wal_size = '128MB'"}, o.settings...)
		if err := removeDeadHomes(base, acc); err != nil {
			return nil, fmt.Errorf("sweep old servers: %w", err)
		}
	}
	home, err := newServerHome(base, acc)
	if err != nil {
		return nil, err
	}
	s := &Server{Host: host, SocketDir: home.path, User: superuser, BinDir: bin, home: home, account: acc, sessions: new(idleSessions)}
	if err := s.createCluster(o); err != nil {
		return nil, errors.Join(err, home.remove())
	}
	if err := s.startOnFreePort(); err != nil {
		return nil, errors.Join(err, home.remove())
	}
	return s, nil
}

// Address returns the server's TCP address as host:port.
func (s *Server) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// DSN returns a URL for the superuser over TCP, with verified TLS if the server has TLS. libpq, pgx, lib/pq, psycopg
// and node-postgres all accept this form.
func (s *Server) DSN(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(s.User), Host: s.Address(), Path: "/" + database}
	if s.Password != "" {
		u.User = url.UserPassword(s.User, s.Password)
	}
	query := url.Values{"sslmode": {"disable"}}
	if s.CAFile != "" {
		query = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {s.CAFile}}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// Program returns a command for one of the server's client programs (psql, pgbench, ...). It connects as the superuser
// over the Unix socket; further arguments may override that.
func (s *Server) Program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.BinDir, name), args...)
	cmd.Env = append(cleanEnviron(), "PGHOST="+s.SocketDir, "PGPORT="+strconv.Itoa(s.Port), "PGUSER="+s.User)
	return cmd
}

// Log returns the server's output so far.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.homePath(logName))
	if err != nil {
		return "no server log: " + err.Error()
	}
	return string(text)
}

// Restart ends every connection and starts the server again on the same port and data. If graceful is true, clients
// first get FATAL 57P01; otherwise their connections end as in a crash.
func (s *Server) Restart(graceful bool) error {
	sig := syscall.SIGQUIT
	if graceful {
		sig = syscall.SIGINT // "fast": sessions are told, then ended
	}
	s.process.Stop(sig, stopGrace)
	return s.startPostmaster()
}

// Close ends the server at once and removes its directory.
func (s *Server) Close() error {
	s.sessions.close()
	s.process.Stop(syscall.SIGQUIT, stopGrace)
	return s.home.remove()
}

// Exited returns a channel that is closed when the server has ended, for any reason. After a Restart it returns a new
// channel.
func (s *Server) Exited() <-chan struct{} { return s.process.Exited() }

func (s *Server) homePath(name string) string { return filepath.Join(s.home.path, name) }

// createCluster makes the database cluster and its configuration.
func (s *Server) createCluster(o options) error {
	if err := s.copyOrInitdb(o); err != nil {
		return err
	}
	settings := []string{
		"listen_addresses = '" + host + "'",
		"unix_socket_directories = '" + strings.ReplaceAll(s.SocketDir, "'", "''") + "'",
		"max_connections = 200",
		"fsync = off", "synchronous_commit = off", "full_page_writes = off",
		"jit = off", // its compile times are noise
		"password_encryption = 'scram-sha-256'",
	}
	if o.tls {
		cert, key := s.homePath("server.crt"), s.homePath("server.key")
		if err := certs.Write(certs.SelfSigned("throw-away server", o.tlsNames...), cert, key); err != nil {
			return fmt.Errorf("write a certificate: %w", err)
		}
		if err := s.account.giveFile(key); err != nil {
			return err
		}
		s.CAFile = cert
		settings = append(settings, "ssl = on", "ssl_cert_file = '"+cert+"'", "ssl_key_file = '"+key+"'")
	}
	s.Password = o.password
	return s.writeConfig(append(settings, o.settings...), o.password != "")
}

func (s *Server) copyOrInitdb(o options) error {
	if o.template != nil && o.password == "" {
		return o.template.copyTo(s)
	}
	return s.initdb(o.password)
}

func (s *Server) initdb(password string) error {
	args := []string{"-D", s.homePath(dataName), "-U", superuser, "-A", "trust",
		"--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"}
	if password != "" {
		file := s.homePath("password")
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			return err
		}
		defer os.Remove(file)
		if err := s.account.giveFile(file); err != nil {
			return err
		}
		args = append(args, "--pwfile="+file)
	}
	p, err := s.startProgram("initdb", args...)
	if err != nil {
		return err
	}
	select {
	case <-p.Exited():
	case <-time.After(startLimit):
		p.Stop(syscall.SIGKILL, 0)
	}
	if err := p.Err(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, s.Log())
	}
	return nil
}

func (s *Server) writeConfig(settings []string, scram bool) error {
	method := "trust"
	if scram {
		method = "scram-sha-256"
	}
	hba := "local all,replication all trust\nhost all,replication all " + host + "/32 " + method + "\n"
	for name, text := range map[string]string{
		// PostgreSQL reads this file after postgresql.conf, so that its settings override those in postgresql.conf.
		"postgresql.auto.conf": strings.Join(settings, "\n") + "\n",
		"pg_hba.conf":          hba,
	} {
		if err := os.WriteFile(filepath.Join(s.homePath(dataName), name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// startOnFreePort starts the postmaster on a free port.
func (s *Server) startOnFreePort() error {
	var err error
	for range portTries {
		if s.Port, err = sockets.FreePort(); err != nil {
			return err
		}
		if socket := filepath.Join(s.SocketDir, ".s.PGSQL."+strconv.Itoa(s.Port)); len(socket) > maxSocketPath {
			return fmt.Errorf("socket path %s is longer than %d bytes: set TMPDIR to a shorter directory", socket, maxSocketPath)
		}
		if err = s.startPostmaster(); err == nil || !strings.Contains(err.Error(), "Address already in use") {
			return err
		}
	}
	return err
}

// startPostmaster starts the server process and waits until it is ready.
func (s *Server) startPostmaster() error {
	// The postmaster must not get SIGKILL at the end of this process, since that would leak its shared memory.
	p, err := s.startProgram("postgres", "-D", s.homePath(dataName), "-p", strconv.Itoa(s.Port))
	if err != nil {
		return err
	}
	deadline := time.Now().Add(startLimit)
	for !s.isReady(p.PID()) {
		select {
		case <-p.Exited():
			return fmt.Errorf("postgres ended while starting: %v\n%s", p.Err(), s.Log())
		case <-time.After(pollEvery):
		}
		if time.Now().After(deadline) {
			p.Stop(syscall.SIGQUIT, stopGrace)
			return fmt.Errorf("postgres was not ready after %v\n%s", startLimit, s.Log())
		}
	}
	s.process = p
	return nil
}

// isReady reports whether the server accepts connections. As pg_ctl does, it reads the pid file. The first line there
// is the postmaster's pid, and the eighth line is "ready" once the server accepts connections.
func (s *Server) isReady(pid int) bool {
	text, err := os.ReadFile(filepath.Join(s.homePath(dataName), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := bytes.Split(text, []byte("\n"))
	return len(lines) >= 8 && string(lines[0]) == strconv.Itoa(pid) && bytes.HasPrefix(lines[7], []byte("ready"))
}

// startProgram runs one of PostgreSQL's programs under the server's account, with its output in the log.
func (s *Server) startProgram(name string, args ...string) (*child.Process, error) {
	log, err := os.OpenFile(s.homePath(logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(s.BinDir, name), args...)
	cmd.Dir = s.home.path // the account may not be able to enter ours
	cmd.Env = cleanEnviron()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = s.account.sysProcAttr()
	return child.Start(cmd, syscall.SIGQUIT)
}

// cleanEnviron returns the caller's environment without variables that affect PostgreSQL or the language of its
// messages.
func cleanEnviron() []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "PG") && !strings.HasPrefix(pair, "LC_") && !strings.HasPrefix(pair, "LANG") {
			env = append(env, pair)
		}
	}
	return append(env, "LC_ALL=C")
}
