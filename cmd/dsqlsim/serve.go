package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

// headerTimeout bounds the time in which a client of the admin address must send its request's header.
const headerTimeout = 10 * time.Second

// serve runs the simulated cluster until ctx ends, and writes instructions for its use to out.
func serve(ctx context.Context, out io.Writer, f *flags) (err error) {
	if err := f.completeConfig(); err != nil {
		return err
	}
	f.config.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	srv, err := dsqlsim.New(f.config)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", f.listen)
	if err != nil {
		return &runtimeError{fmt.Errorf("--listen: %w", err)}
	}
	ended := make(chan error, 2)
	admin := &http.Server{Handler: srv.AdminHandler(), ReadHeaderTimeout: headerTimeout}
	var adminAddress net.Addr
	if f.admin != "" {
		adminLn, err := net.Listen("tcp", f.admin)
		if err != nil {
			return &runtimeError{errors.Join(fmt.Errorf("--admin: %w", err), ln.Close())}
		}
		go func() { ended <- admin.Serve(adminLn) }()
		defer admin.Close()
		adminAddress = adminLn.Addr()
	}
	go func() { ended <- srv.Serve(ln) }()
	f.printInstructions(out, ln.Addr(), adminAddress)
	printUpstream(ctx, out, srv)

	select {
	case <-ctx.Done():
	case err = <-ended:
		err = &runtimeError{err}
	}
	return errors.Join(err, srv.Close())
}

// printInstructions writes how to use the simulated cluster, with the addresses of its listeners.
func (f *flags) printInstructions(out io.Writer, listen, admin net.Addr) {
	host, port, _ := net.SplitHostPort(listen.String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	verify := "sslmode=require"
	if f.config.CertDir != "" {
		verify = "sslmode=verify-full sslrootcert=" + filepath.Join(f.config.CertDir, dsqlsim.AuthorityFile)
	}
	fmt.Fprintf(out, "dsqlsim: stands in for %s on %s\n", f.config.Endpoint, listen)
	fmt.Fprintf(out, "dsqlsim: PGPASSWORD=$(%s token%s) psql \"host=%s hostaddr=%s port=%s user=admin dbname=postgres %s\"\n",
		os.Args[0], f.tokenCommandArgs(), f.config.Endpoint, host, port, verify)
	if admin != nil {
		fmt.Fprintf(out, "dsqlsim: faults, ledger and metrics on http://%s\n", admin)
	}
}

// tokenCommandArgs returns the flags with which the token command makes tokens for this server. The user fills in the
// secrets.
func (f *flags) tokenCommandArgs() string {
	var args string
	for _, each := range []struct{ flag, given, preset, shown string }{
		{"endpoint", f.config.Endpoint, defaultEndpoint, f.config.Endpoint},
		{"access-key", f.config.AccessKeyID, defaultAccessKey, f.config.AccessKeyID},
		{"secret-key", f.config.SecretAccessKey, defaultSecretKey, "..."},
		{"session-token", f.config.SessionToken, "", "..."},
	} {
		if each.given != each.preset {
			args += " --" + each.flag + " " + each.shown
		}
	}
	return args
}

// printUpstream writes the version of the PostgreSQL server behind the simulated cluster, or why that server does
// not answer.
func printUpstream(ctx context.Context, out io.Writer, srv *dsqlsim.Server) {
	version, err := srv.UpstreamVersion(ctx)
	if err != nil {
		fmt.Fprintf(out, "dsqlsim: clients are turned away until PostgreSQL answers: %v\n", err)
		return
	}
	fmt.Fprintf(out, "dsqlsim: PostgreSQL %s is behind it\n", version)
}

func printToken(out io.Writer, f *flags) error {
	f.config.Upstream = "host=none" // a token needs none
	f.listen, f.admin = defaultListen, ""
	if err := f.completeConfig(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, dsqlsim.SignToken(&f.config, f.user, time.Now(), f.tokenLife))
	return err
}
