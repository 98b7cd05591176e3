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
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/pgtest"
	"github.com/sluice-proxy/sluice/integration/sockets"
)

// The test binary plays the programs when it is called by their names.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "sluice":
		fakeSluice()
	case "dsqlsim":
		fakeDSQLSim()
	}
	os.Exit(m.Run())
}

// fakeSluice is ready at the third time of asking, prints its environment, and
// ends on SIGTERM.
func fakeSluice() {
	for _, pair := range os.Environ() {
		fmt.Println(pair)
	}
	if message := os.Getenv("DSQL_FAKE_FAILURE"); message != "" {
		fmt.Fprintln(os.Stderr, message)
		os.Exit(2)
	}
	serveFake(os.Getenv("DSQL_ADMIN_ADDRESS"))
}

func fakeDSQLSim() {
	fmt.Println(strings.Join(os.Args[1:], " "))
	for i, arg := range os.Args {
		if arg == "--admin" {
			serveFake(os.Args[i+1])
		}
	}
}

func serveFake(address string) {
	var asked atomic.Int32
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/livez", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("POST /faults", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "planned %s", body)
	})
	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "asked %d\n", asked.Load())
	})
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		os.Exit(0)
	}()
	fmt.Fprintln(os.Stderr, http.ListenAndServe(address, nil))
	os.Exit(1)
}

// fakes is a Bin whose programs are this test binary.
func fakes(t *testing.T) Bin {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := Bin(t.TempDir())
	for _, program := range builtPrograms {
		if err := os.Symlink(self, bin.path(program)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

func TestSluiceIsReadyBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	s := StartSluice(t, SluiceConfig{Bin: fakes(t), Env: Env{"DSQL_PAIRING": "session"}})
	text, err := s.Metrics(t.Context())
	if err != nil || text != "asked 3\n" {
		t.Errorf("metrics = %q, %v, want those of a daemon that was asked until it was ready", text, err)
	}
	for _, want := range []string{"DSQL_PAIRING=session", "DSQL_LISTEN_ADDRESS=" + loopbackAddress(s.Port), "AWS_CONFIG_FILE=/dev/null"} {
		if !strings.Contains(s.Log(), want+"\n") {
			t.Errorf("the environment lacks %s", want)
		}
	}
	if want := "postgres://admin@127.0.0.1:" + strconv.Itoa(s.Port) + "/orders?sslmode=disable"; s.DSN("orders") != want {
		t.Errorf("DSN = %q, want %q", s.DSN("orders"), want)
	}
	if !s.Stop(syscall.SIGTERM, time.Minute) || s.ExitCode() != 0 {
		t.Errorf("stopped with code %d", s.ExitCode())
	}
}

func TestProgramsDoNotSeeTheCallersConfiguration(t *testing.T) {
	t.Setenv("DSQL_BACKEND_PASSWORD", "theirs")
	t.Setenv("AWS_PROFILE", "theirs")
	t.Setenv("PGOPTIONS", "theirs")
	t.Setenv("HARNESS_OTHER", "kept")
	s := StartSluice(t, SluiceConfig{Bin: fakes(t)})
	if strings.Contains(s.Log(), "theirs") {
		t.Error("a variable of the caller's reached the program")
	}
	if !strings.Contains(s.Log(), "HARNESS_OTHER=kept\n") {
		t.Error("an unrelated variable did not reach the program")
	}
}

func TestFailedStartShowsTheLog(t *testing.T) {
	t.Parallel()
	c := SluiceConfig{Bin: fakes(t), Dir: t.TempDir(), Env: Env{"DSQL_FAKE_FAILURE": "backend.kind: no such thing"}}
	_, err := LaunchSluice(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "sluice ended while starting: exit status 2") || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("error = %v", err)
	}
}

func TestWaitReadyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	// Its admin address is not where LaunchSluice looks: it will never be seen ready.
	c := SluiceConfig{Bin: fakes(t), Dir: t.TempDir(), Env: Env{"DSQL_FAKE_FAILURE": ""}}
	program, err := launchProgram(c.Bin.path("sluice"), c.Dir, Env{"DSQL_ADMIN_ADDRESS": loopbackAddress(0)})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Stop(syscall.SIGKILL, stopGrace)
	if err := program.waitReady(ctx, "http://"+loopbackAddress(1)+"/readyz"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v", err)
	}
}

func TestTakenPortIsTriedAgainElsewhere(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", loopbackAddress(0))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	bin, dir := fakes(t), t.TempDir()
	var used []int
	err = startOnFreePorts(2, func(ports []int) error {
		admin := ports[1]
		if len(used) == 0 {
			admin = taken.Addr().(*net.TCPAddr).Port
		}
		used = append(used, admin)
		s, err := launchSluice(t.Context(), SluiceConfig{Bin: bin, Dir: dir, Port: ports[0], AdminPort: admin})
		if err == nil {
			s.Stop(syscall.SIGTERM, stopGrace)
		}
		return err
	})
	if err != nil || len(used) != 2 {
		t.Errorf("admin ports %v, error %v, want success at the second", used, err)
	}
}

// A start on a taken port is known by the words that the real programs have for it.
func TestTakenPortsOfThePrograms(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", loopbackAddress(0))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	go http.Serve(taken, http.NotFoundHandler()) // who asks there whether the program is ready gets an answer
	port, bin := taken.Addr().(*net.TCPAddr).Port, Binaries(t)
	free, err := sockets.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	for _, ports := range [][2]int{{port, free}, {free, port}} {
		env := Env{"DSQL_BACKEND_KIND": "postgres", "DSQL_BACKEND_ENDPOINT": loopback, "DSQL_BACKEND_PORT": strconv.Itoa(port), "DSQL_BACKEND_SSLMODE": "disable"}
		if _, err := launchSluice(t.Context(), SluiceConfig{Bin: bin, Dir: t.TempDir(), Env: env, Port: ports[0], AdminPort: ports[1]}); !errors.Is(err, errPortTaken) {
			t.Errorf("sluice on ports %v of which %d is taken: %v", ports, port, err)
		}
		if _, err := launchDSQLSim(t.Context(), DSQLSimConfig{Bin: bin, Dir: t.TempDir(), Port: ports[0], AdminPort: ports[1],
			Upstream: &pgtest.Server{Host: loopback, Port: port, User: "postgres"}}); !errors.Is(err, errPortTaken) {
			t.Errorf("dsqlsim on ports %v of which %d is taken: %v", ports, port, err)
		}
	}
}

func TestDSQLSimStandsBetweenPostgresAndSluice(t *testing.T) {
	t.Parallel()
	pg := &pgtest.Server{Host: "127.0.0.1", Port: 5999, User: "postgres"}
	sim := StartDSQLSim(t, DSQLSimConfig{Bin: fakes(t), Upstream: pg, Args: []string{"--fault", "none"}})
	for _, want := range []string{"--upstream host=127.0.0.1 port=5999 user=postgres", "--listen " + loopbackAddress(sim.Port), "--fault none"} {
		if !strings.Contains(sim.Log(), want) {
			t.Errorf("command line %q lacks %q", sim.Log(), want)
		}
	}
	if got := sim.Admin(t, http.MethodPost, "/faults", "[]"); got != "planned []" {
		t.Errorf("POST /faults = %q", got)
	}
	env := sim.Env()
	if env["DSQL_BACKEND_PORT"] != strconv.Itoa(sim.Port) || env["DSQL_BACKEND_ADDRESS"] != "127.0.0.1" || env["AWS_SECRET_ACCESS_KEY"] == "" {
		t.Errorf("env = %v", env)
	}
}

func TestPostgresEnv(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		pg          pgtest.Server
		key, want   string
		absent      string
		wantEntries int
	}{
		{"plain", pgtest.Server{Port: 1}, "DSQL_BACKEND_SSLMODE", "disable", "DSQL_BACKEND_CA_FILE", 5},
		{"with TLS", pgtest.Server{Port: 1, CAFile: "ca"}, "DSQL_BACKEND_SSLMODE", "verify-full", "", 6},
		{"with a password", pgtest.Server{Port: 1, Password: "p"}, "DSQL_BACKEND_PASSWORD", "p", "DSQL_BACKEND_CA_FILE", 6},
	} {
		env := PostgresEnv(&tt.pg)
		if _, there := env[tt.absent]; env[tt.key] != tt.want || there || len(env) != tt.wantEntries {
			t.Errorf("%s: %v", tt.name, env)
		}
	}
}

func TestMetric(t *testing.T) {
	t.Parallel()
	const text = "# HELP a Of a 7\n# TYPE a counter\na{kind=\"x\"} 1\na{kind=\"y z\"} 2\nab 4\nb 8.5\n\nzero 0"
	for _, test := range []struct {
		name, label string
		want        float64
		found       bool
	}{
		{"a", "", 3, true},
		{"a", "x", 1, true},
		{"a", `kind="y z"`, 2, true},
		{`a{kind="x"}`, "", 1, true},
		{"b", "", 8.5, true},
		{"zero", "", 0, true},
		{"a", "w", 0, false},
		{"b", "x", 0, false},
		{"c", "", 0, false},
	} {
		if got, found := SumMetric(t, text, test.name, test.label); got != test.want || found != test.found {
			t.Errorf("%s with %q: %v, found: %v; want %v, %v", test.name, test.label, got, found, test.want, test.found)
		}
	}
}

func TestModuleRootIsFoundFromBelow(t *testing.T) {
	root := t.TempDir()
	below := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		filepath.Join(root, "go.mod"):      "module " + module + "\n",
		filepath.Join(root, "a", "go.mod"): "module " + module + "/a\n", // a test's own
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(below)
	got, err := moduleRoot()
	if err != nil || got != root {
		t.Errorf("moduleRoot = %q, %v, want %q", got, err, root)
	}
}

func TestAProgramThatHangsIsKilled(t *testing.T) {
	t.Parallel()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	p, err := launchProgram(sleep, t.TempDir(), nil, "600")
	if err != nil {
		t.Fatal(err)
	}
	// SIGCONT asks for nothing, as a program that hangs would hear it.
	if p.Stop(syscall.SIGCONT, 10*time.Millisecond) {
		t.Error("it is said to have ended by itself")
	}
}

// The end of a log is shown with the last errors and warnings in front of it.
func TestTail(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 100 {
		level := "INFO"
		switch i % 20 {
		case 0:
			level = "ERROR"
		case 10:
			level = "WARN"
		}
		fmt.Fprintf(&text, "level=%s n=%d\n", level, i)
	}
	p := &Program{LogFile: filepath.Join(t.TempDir(), "log")}
	if err := os.WriteFile(p.LogFile, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(p.Tail(), "\n")
	if len(lines) != tailErrors+tailLines || lines[0] != "level=ERROR n=20" || lines[1] != "level=WARN n=30" || lines[4] != "level=ERROR n=60" || lines[5] != "level=WARN n=70" || lines[34] != "level=INFO n=99" {
		t.Errorf("%d lines:\n%s", len(lines), p.Tail())
	}
}
