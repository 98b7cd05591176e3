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

// headerTimeout bounds how slowly an admin request may begin.
const headerTimeout = 10 * time.Second

// serve runs the stand-in until ctx ends.
func serve(ctx context.Context, f *flags) (err error) {
	if err := f.choose(); err != nil {
		return err
	}
	f.config.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	srv, err := dsqlsim.New(f.config)
	if err != nil {
		return err
	}
	if err := writeCA(f.certDir, srv.CAPEM()); err != nil {
		return &runtimeError{err}
	}
	ln, err := net.Listen("tcp", f.listen)
	if err != nil {
		return &runtimeError{fmt.Errorf("--listen: %w", err)}
	}
	ended := make(chan error, 2)
	admin := &http.Server{Handler: srv.Admin(), ReadHeaderTimeout: headerTimeout}
	if f.admin != "" {
		adminLn, err := net.Listen("tcp", f.admin)
		if err != nil {
			return &runtimeError{errors.Join(fmt.Errorf("--admin: %w", err), ln.Close())}
		}
		go func() { ended <- admin.Serve(adminLn) }()
		defer admin.Close()
		fmt.Printf("dsqlsim: admin on http://%s\n", adminLn.Addr())
	}
	go func() { ended <- srv.Serve(ln) }()
	fmt.Printf("dsqlsim: %s listens on %s\n", srv.Endpoint(), ln.Addr())

	select {
	case <-ctx.Done():
	case err = <-ended:
		err = &runtimeError{err}
	}
	return errors.Join(err, srv.Close())
}

func writeCA(dir string, pem []byte) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--cert-dir: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), pem, 0o644); err != nil {
		return fmt.Errorf("--cert-dir: %w", err)
	}
	return nil
}

func printToken(w io.Writer, f *flags) error {
	c := f.config
	c.Upstream = "none" // not needed for a token
	if err := c.Validate(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, dsqlsim.Token(&c, f.user, time.Now(), f.tokenLife))
	return err
}
