package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-proxy/sluice/integration/child"
	"github.com/sluice-proxy/sluice/integration/sockets"
)

const (
	// pollEvery is the interval at which the harness asks whether a starting program is ready.
	pollEvery = 20 * time.Millisecond
	// readyLimit bounds the start of a program. Programs start in milliseconds, but several test binaries may compete for
	// two cores.
	readyLimit = 60 * time.Second
	// askLimit bounds one request, because another program may hold the port and never answer.
	askLimit = 5 * time.Second
	// portTries bounds the attempts to start a program whose free port another program takes first.
	portTries = 5
	// tailLines is the number of last log lines in an error message. tailErrors is the number of earlier error lines in
	// that message.
	tailLines, tailErrors = 30, 5
)

// portTaken matches a program's message that its port is in use, in the words of the system or of Sluice.
var portTaken = regexp.MustCompile(`address already in use|` + regexp.QuoteMeta(loopback) + `:\d+ is taken`)

// errPortTaken reports that a program did not start because its port, which was free before, is taken.
var errPortTaken = errors.New("port taken")

// Env holds environment variables for a program, by name.
type Env map[string]string

// With returns a copy of e with the variables of other added. A variable of other replaces the one of e with the same
// name.
func (e Env) With(other Env) Env {
	sum := make(Env, len(e)+len(other))
	for _, vars := range []Env{e, other} {
		for name, value := range vars {
			sum[name] = value
		}
	}
	return sum
}

// processEnviron returns the caller's environment with the variables of e. It leaves out variables that would configure
// the program, or lead it to the caller's AWS account.
func (e Env) processEnviron() []string {
	env := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		for _, prefix := range []string{"DSQL_", "AWS_", "PG"} {
			if strings.HasPrefix(pair, prefix) {
				return true
			}
		}
		return false
	})
	env = append(env, "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull, "AWS_EC2_METADATA_DISABLED=true")
	for name, value := range e {
		env = append(env, name+"="+value)
	}
	return env
}

// Program is a running child process whose output goes to a file.
type Program struct {
	*child.Process
	Name    string
	LogFile string
}

// launchProgram starts the program file with its output appended to dir/<name>.log.
func launchProgram(file, dir string, env Env, args ...string) (*Program, error) {
	name := filepath.Base(file)
	logFile := filepath.Join(dir, name+".log")
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(file, args...)
	cmd.Env = env.processEnviron()
	cmd.Stdout, cmd.Stderr = log, log
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, err
	}
	return &Program{Process: process, Name: name, LogFile: logFile}, nil
}

// Log returns the program's output so far.
func (p *Program) Log() string {
	text, err := os.ReadFile(p.LogFile)
	if err != nil {
		return "no log: " + err.Error()
	}
	return string(text)
}

// Tail returns the end of Log, for error messages. The last lines follow the last errors and warnings that the
// program has logged earlier. A panic may precede its effect by many lines.
func (p *Program) Tail() string {
	lines := strings.Split(strings.TrimRight(p.Log(), "\n"), "\n")
	at := max(0, len(lines)-tailLines)
	errs := slices.DeleteFunc(slices.Clone(lines[:at]), func(line string) bool {
		return !strings.Contains(line, "level=ERROR") && !strings.Contains(line, "level=WARN")
	})
	return strings.Join(slices.Concat(errs[max(0, len(errs)-tailErrors):], lines[at:]), "\n")
}

// waitReady polls url until the answer is 200. It fails when the program or ctx ends, or after readyLimit, with the end
// of the log.
func (p *Program) waitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for !answersOK(ctx, url) {
		select {
		case <-p.Exited():
			if portTaken.MatchString(p.Log()) {
				return fmt.Errorf("%s: %w\n%s", p.Name, errPortTaken, p.Tail())
			}
			return fmt.Errorf("%s ended while starting: %v\n%s", p.Name, p.Err(), p.Tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready (%s): %w\n%s", p.Name, url, ctx.Err(), p.Tail())
		case <-ticker.C:
		}
	}
	return nil
}

func answersOK(ctx context.Context, url string) bool {
	_, err := adminRequest(ctx, http.MethodGet, url, "")
	return err == nil
}

// adminRequest sends one request to an admin endpoint. Any status but 2xx is an error.
func adminRequest(ctx context.Context, method, url, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	// Each request has a new transport, since a shared one would retain connections and goroutines.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: askLimit}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 != 2 {
		err = errors.New(response.Status)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", method, url, err, answer)
	}
	return string(answer), nil
}

// startOnFreePorts calls start with n free ports. If one of them is taken after all, it calls start again with other
// ports.
func startOnFreePorts(n int, start func(ports []int) error) error {
	var err error
	for range portTries {
		var ports []int
		if ports, err = sockets.FreePorts(n); err != nil {
			return err
		}
		if err = start(ports); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

// loopbackAddress returns a TCP address on the loopback, where all programs listen.
func loopbackAddress(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

const loopback = "127.0.0.1"
