package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/sockets"
)

// The test binary plays devrun and, called by their names, its two programs.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "sluice":
		playProgram(os.Getenv("DSQL_ADMIN_ADDRESS"))
	case "dsqlsim":
		for i, arg := range os.Args {
			if arg == "--admin" {
				playProgram(os.Args[i+1])
			}
		}
	}
	if os.Getenv("DEVRUN_TEST") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// playProgram is ready at once and ends on SIGTERM.
func playProgram(admin string) {
	http.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("/livez", func(http.ResponseWriter, *http.Request) {})
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() { fmt.Fprintln(os.Stderr, http.ListenAndServe(admin, nil)) }()
	<-terminated
	os.Exit(0)
}

// devrun is one run of the command.
type devrun struct {
	*exec.Cmd
	output *bufio.Reader
	base   string // its temporary directory
}

// startDevrun runs it with programs that this test binary plays.
func startDevrun(t *testing.T, args ...string) *devrun {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for _, program := range []string{"sluice", "dsqlsim"} {
		if err := os.Symlink(self, filepath.Join(bin, program)); err != nil {
			t.Fatal(err)
		}
	}
	return startDevrunWith(t, bin, args...)
}

func startDevrunWith(t *testing.T, bin string, args ...string) *devrun {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	base := sockets.SocketDir(t) // for the account postgres, and its sockets
	cmd := exec.Command(self, append([]string{"--bin", bin, "--scale", "1"}, args...)...)
	cmd.Env = append(os.Environ(), "DEVRUN_TEST=1", "TMPDIR="+base)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &devrun{Cmd: cmd, output: bufio.NewReader(stdout), base: base}
}

// waitFor reads the output until a line holds text, and returns all of it.
func (d *devrun) waitFor(t *testing.T, text string) string {
	t.Helper()
	var read strings.Builder
	for {
		line, err := d.output.ReadString('\n')
		read.WriteString(line)
		if err != nil {
			t.Fatalf("output ended (%v) without %q:\n%s", err, text, read.String())
		}
		if strings.Contains(line, text) {
			return read.String()
		}
	}
}

// left lists the processes that name the run's directory, but for devrun. Sluice
// names it in its environment only, which PostgreSQL in turn writes over.
func (d *devrun) left() []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*") // fails on a bad pattern only
	for _, dir := range dirs {
		// A process that has ended meanwhile reads as empty.
		cmdline, _ := os.ReadFile(dir + "/cmdline")
		environ, _ := os.ReadFile(dir + "/environ")
		pid := filepath.Base(dir)
		if strings.Contains(string(cmdline)+string(environ), d.base) && pid != strconv.Itoa(d.Process.Pid) {
			found = append(found, pid+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return found
}

func (d *devrun) waitUntilNothingRuns(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(d.left()) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still running: %v", d.left())
		}
	}
}

// portsFlags choose free ports for Sluice.
func portsFlags(t *testing.T) []string {
	t.Helper()
	ports, err := sockets.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"--port", strconv.Itoa(ports[0]), "--admin-port", strconv.Itoa(ports[1])}
}

func TestInterruptLeavesNothing(t *testing.T) {
	t.Parallel()
	for backend, user := range map[string]string{"dsql": "admin", "postgres": "postgres"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			flags := portsFlags(t)
			d := startDevrun(t, append(flags, "--backend", backend)...)
			said := d.waitFor(t, "Ctrl-C")
			for _, want := range []string{
				"psql 'host=127.0.0.1 port=" + flags[1] + " user=" + user + " dbname=postgres'\n",
				"http://127.0.0.1:" + flags[3] + "/metrics\n",
			} {
				if !strings.Contains(said, want) {
					t.Errorf("output lacks %q:\n%s", want, said)
				}
			}
			if running, want := d.left(), map[string]int{"dsql": 3, "postgres": 2}[backend]; len(running) != want {
				t.Errorf("running: %v, want %d", running, want)
			}
			if err := d.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			d.waitFor(t, "stopping")
			if err := d.Wait(); err != nil {
				t.Errorf("it ended with %v", err)
			}
			if left := d.left(); len(left) > 0 {
				t.Errorf("still running: %v", left)
			}
			if homes, _ := filepath.Glob(filepath.Join(d.base, "sluice-*")); len(homes) > 0 {
				t.Errorf("left behind: %v", homes)
			}
		})
	}
}

func TestKillLeavesNoProcess(t *testing.T) {
	t.Parallel()
	d := startDevrun(t, portsFlags(t)...)
	d.waitFor(t, "Ctrl-C")
	if err := d.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.Wait()
	d.waitUntilNothingRuns(t)
}

func TestInterruptWhileStarting(t *testing.T) {
	t.Parallel()
	d := startDevrun(t, portsFlags(t)...)
	d.waitFor(t, "loading pgbench")
	if err := d.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.waitFor(t, "stopping")
	if err := d.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	d.waitUntilNothingRuns(t)
}

func TestTakenPortIsNamedInOneLine(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	err = checkPort(port, "ADMIN_PORT")
	want := fmt.Sprintf(`^port %d is taken by \S+ \(pid %d\); choose another with make run ADMIN_PORT=%d$`, port, os.Getpid(), port+1)
	if err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
		t.Errorf("error = %v, want %s", err, want)
	}
	l.Close()
	if err := checkPort(port, "PORT"); err != nil {
		t.Errorf("a free port: %v", err)
	}
	if got := listeningProcess(port); got != "" {
		t.Errorf("a free port is held by %q", got)
	}
}

func TestListeningInode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, line, want string
		listens          bool
	}{
		{"the port", "   3: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000   105        0 19417 1 0", "19417", true},
		{"IPv6", "   0: 00000000000000000000000001000000:1538 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000   105        0 20001 1 0", "20001", true},
		{"another port", "   3: 0100007F:1539 00000000:0000 0A 00000000:00000000 00:00000000 00000000   105        0 19417 1 0", "", false},
		{"a connection", "   3: 0100007F:1538 0100007F:9C40 01 00000000:00000000 00:00000000 00000000   105        0 19417 1 0", "", false},
		{"the heading", "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode", "", false},
		{"nothing", "", "", false},
	} {
		if got, listens := listeningInode(tt.line, 5432); got != tt.want || listens != tt.listens {
			t.Errorf("%s: %q, %v", tt.name, got, listens)
		}
	}
}

func TestParseRefusesAnUnknownBackend(t *testing.T) {
	t.Parallel()
	if _, err := parseArgs([]string{"--backend", "mysql"}); err == nil || !strings.Contains(err.Error(), "BACKEND=mysql") {
		t.Errorf("error = %v", err)
	}
}
