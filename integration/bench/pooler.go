package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-proxy/sluice/integration/child"
	"github.com/sluice-proxy/sluice/integration/sockets"
)

// pooler is a running PgBouncer.
type pooler struct {
	*child.Process
	program string
	port    int
	dir     string // its configuration and log
}

// poolerConfig has PgBouncer's defaults except for the listed settings. It uses the same pool size and the same TLS as
// Sluice, lets every client in, and logs no connections.
const poolerConfig = `[databases]
%[1]s = host=%[2]s port=%[3]d user=%[4]s dbname=%[1]s
[pgbouncer]
listen_addr = %[2]s
listen_port = %[5]d
unix_socket_dir =
auth_type = any
pool_mode = %[6]s
default_pool_size = %[7]d
max_client_conn = %[8]d
server_tls_sslmode = require
log_connections = 0
log_disconnections = 0
log_stats = 0
`

// launchPooler starts a PgBouncer in the given mode. It waits until PgBouncer lets a client in, for which PgBouncer
// needs a server connection.
func (r *benchServers) launchPooler(ctx context.Context, mode string, size int) (*pooler, error) {
	program, err := findPooler()
	if err != nil {
		return nil, err
	}
	port, err := sockets.FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(r.dir, "pgbouncer-")
	if err != nil {
		return nil, err
	}
	p := &pooler{program: program, port: port, dir: dir}
	text := fmt.Sprintf(poolerConfig, database, loopback, r.postgres.Port, r.postgres.User, port, mode, size, 2*idleClients)
	if err := p.start(text); err != nil {
		return nil, fmt.Errorf("start PgBouncer: %w", err)
	}
	if err := p.waitReady(ctx, r.postgres.User); err != nil {
		p.stop()
		return nil, fmt.Errorf("start PgBouncer: %w\n%s", err, p.readLog())
	}
	return p, nil
}

// findPooler returns the path of PgBouncer. It also looks where Debian installs PgBouncer, which is not on every user's
// PATH.
func findPooler() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("PgBouncer is not installed (Debian's package is called pgbouncer)")
}

func (p *pooler) start(config string) error {
	file := filepath.Join(p.dir, "pgbouncer.ini")
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.program, file)
	cmd.Stdout, cmd.Stderr = log, log
	// The program runs under another account, since PgBouncer refuses to run as root.
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		if uid, gid, err = postgresAccount(); err != nil {
			return err
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	if err := errors.Join(os.Chown(p.dir, uid, gid), os.Chown(file, uid, gid)); err != nil {
		return err
	}
	p.Process, err = child.Start(cmd, syscall.SIGKILL)
	return err
}

func (p *pooler) waitReady(ctx context.Context, role string) error {
	ctx, cancel := context.WithTimeout(ctx, setupLimit)
	defer cancel()
	for {
		conn, err := connectIdle(ctx, p.port, role)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.Exited():
			return p.Err()
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *pooler) stop() { p.Stop(syscall.SIGTERM, stopGrace) }

func (p *pooler) readLog() string {
	text, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil {
		return "no log: " + err.Error()
	}
	return string(text)
}

// postgresAccount returns the account under which Debian runs PostgreSQL.
func postgresAccount() (uid, gid int, err error) {
	account, err := user.Lookup("postgres")
	if err != nil {
		return 0, 0, err
	}
	if uid, err = strconv.Atoi(account.Uid); err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(account.Gid)
	return uid, gid, err
}

// firstOutputLine returns the first line that a program prints.
func firstOutputLine(ctx context.Context, program string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line), nil
}
