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
	// pollEvery is how often a starting program is asked whether it is ready.
	pollEvery = 20 * time.Millisecond
	// readyLimit is generous for programs that start in milliseconds: several
	// test binaries may compete for two cores.
	readyLimit = 60 * time.Second
	// askLimit bounds one question: whoever else holds the port may never answer.
	askLimit = 5 * time.Second
	// portTries bounds how often a free port may be snatched before its bind.
	portTries = 5
	// tailLines of a log are shown with an error, and tailErrors of those before.
	tailLines, tailErrors = 30, 5
)

// portTaken is how a program says that somebody listens on its port: the system's words, or Sluice's.
var portTaken = regexp.MustCompile(`address already in use|` + regexp.QuoteMeta(loopback) + `:\d+ is taken`)

// errPortTaken marks a start that failed for a port that looked free.
var errPortTaken = errors.New("port taken")

// Env holds variables for a program, by name.
type Env map[string]string

// With returns a copy with other's variables added; other's win.
func (e Env) With(other Env) Env {
	sum := make(Env, len(e)+len(other))
	for _, vars := range []Env{e, other} {
		for name, value := range vars {
			sum[name] = value
		}
	}
	return sum
}

// environ is the caller's environment without what would configure the program
// or lead it to the caller's own AWS account, and with the given variables.
func (e Env) environ() []string {
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

// Program is a running child whose output goes to a file.
type Program struct {
	*child.Process
	Name    string
	LogFile string
}

// launch starts the program file with its output appended to dir/<name>.log.
func launch(file, dir string, env Env, args ...string) (*Program, error) {
	name := filepath.Base(file)
	logFile := filepath.Join(dir, name+".log")
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(file, args...)
	cmd.Env = env.environ()
	cmd.Stdout, cmd.Stderr = log, log
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, err
	}
	return &Program{Process: process, Name: name, LogFile: logFile}, nil
}

// Log is what the program has printed so far.
func (p *Program) Log() string {
	text, err := os.ReadFile(p.LogFile)
	if err != nil {
		return "no log: " + err.Error()
	}
	return string(text)
}

// Tail is the end of Log, for error messages. In front of it stand the last errors that the
// program has logged before: a panic may be long ago when its consequence shows.
func (p *Program) Tail() string {
	lines := strings.Split(strings.TrimRight(p.Log(), "\n"), "\n")
	at := max(0, len(lines)-tailLines)
	errs := slices.DeleteFunc(slices.Clone(lines[:at]), func(line string) bool { return !strings.Contains(line, "level=ERROR") })
	return strings.Join(slices.Concat(errs[max(0, len(errs)-tailErrors):], lines[at:]), "\n")
}

// waitReady polls url until it answers 200. It gives up when the program ends,
// when ctx does, or after readyLimit, and shows the end of the log then.
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
	_, err := ask(ctx, http.MethodGet, url, "")
	return err == nil
}

// ask makes one request of an admin endpoint; any status but 2xx is an error.
func ask(ctx context.Context, method, url, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	// Of its own: a shared transport would keep connections and goroutines.
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

// onFreePorts calls start with n free ports, and again with others should one
// of them be taken after all.
func onFreePorts(n int, start func(ports []int) error) error {
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

// address is a TCP address on the loopback, the only place programs listen.
func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

const loopback = "127.0.0.1"
