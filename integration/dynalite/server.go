package dynalite

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/child"
)

const (
	// startLimit bounds the start of dynalite, which takes two seconds on an idle machine. Several test binaries may
	// compete for two cores.
	startLimit = 60 * time.Second
	stopGrace  = 5 * time.Second
	// announcement is the text that dynalite prints before its URL when it listens.
	announcement = "listening at "
)

// Server is a running dynalite.
type Server struct {
	// URL is the endpoint that replaces DynamoDB's.
	URL     string
	process *child.Process
}

// Start runs a dynalite without tables for the length of one test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s, err := Launch()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	return s
}

// Env returns the variables by which an AWS client finds the server, without an account.
func (s *Server) Env() map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL_DYNAMODB": s.URL, "AWS_REGION": "us-east-1",
		"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "AWS_EC2_METADATA_DISABLED": "true",
	}
}

// Launch starts a dynalite; the caller ends it with Stop.
func Launch() (*Server, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return nil, errors.New("the place of this package's source is unknown")
	}
	cmd := exec.Command("node", "--no-deprecation", filepath.Join(filepath.Dir(file), "node", "serve.js"))
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("%w (make deps installs node and dynalite)", err)
	}
	s := &Server{process: process}
	url := make(chan string, 1)
	said := make(chan string, 1)
	go func() {
		<-process.Exited()
		in.Close()
	}()
	go readOutput(out, url, said)
	timer := time.NewTimer(startLimit)
	defer timer.Stop()
	select {
	case s.URL = <-url:
		return s, nil
	case <-process.Exited():
		err = fmt.Errorf("dynalite ended while starting (make deps installs it): %v\n%s", process.Err(), <-said)
	case <-timer.C:
		err = errors.New("dynalite does not say that it listens")
	}
	s.Stop()
	return nil, err
}

// Stop ends the server; its tables are lost.
func (s *Server) Stop() { s.process.Stop(syscall.SIGTERM, stopGrace) }

// readOutput reads the program's output. It sends the URL to url, and further lines to said for an error message. It
// ends with the program.
func readOutput(out io.Reader, url, said chan<- string) {
	var lines []string
	for in := bufio.NewScanner(out); in.Scan(); {
		if found, ok := strings.CutPrefix(in.Text(), announcement); ok {
			url <- found
		} else if len(lines) < 20 {
			lines = append(lines, in.Text())
		}
	}
	said <- strings.Join(lines, "\n")
}
