package daemon

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/cmd/sluice/config/configtest"
)

// A running daemon of a test, on ports that the system chose, in front of a
// PostgreSQL that is not there.
type running struct {
	t            *testing.T
	client       string // address
	admin        string // address
	stop, hangup chan os.Signal
	ended        chan error
	log          *syncBuffer
}

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// serveBackends is a server that takes every startup, and answers a query with an empty one's answer. It
// returns its port.
func serveBackends(t *testing.T, address string) int {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go serveBackend(conn)
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// serveBackend serves one connection of serveBackends.
func serveBackend(conn net.Conn) {
	head := make([]byte, 5)
	body := func(length []byte) bool {
		_, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(length))-4)
		return err == nil
	}
	if _, err := io.ReadFull(conn, head[1:]); err != nil || !body(head[1:]) {
		return
	}
	io.WriteString(conn, "R\x00\x00\x00\x08\x00\x00\x00\x00S\x00\x00\x00\x18server_version\x0015.1\x00"+readyForQuery)
	for {
		if _, err := io.ReadFull(conn, head); err != nil || !body(head[1:]) {
			return
		}
		switch head[0] {
		case 'Q':
			io.WriteString(conn, "I\x00\x00\x00\x04"+readyForQuery)
		case 'S':
			io.WriteString(conn, readyForQuery)
		}
	}
}

func start(t *testing.T, flags ...string) *running {
	t.Helper()
	base := []string{"--backend-kind=postgres", "--endpoint=127.0.0.1", "--backend-port=1", "--listen-address=127.0.0.1:0", "--admin-address=127.0.0.1:0"}
	c := configtest.Source{Flags: append(base, flags...)}.MustLoad(t)
	r := &running{t: t, stop: make(chan os.Signal, 2), hangup: make(chan os.Signal), ended: make(chan error, 1), log: &syncBuffer{}}
	d, err := Build(t.Context(), c, "v0", slog.New(slog.NewTextHandler(r.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	clients, err := listenAll(c, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := listenTCP(c.Admin.Address, "admin.address", openTCPListener)
	if err != nil {
		t.Fatal(err)
	}
	r.client, r.admin = clients[0].Addr().String(), admin.Addr().String()
	go func() { r.ended <- d.run(clients, admin, r.stop, r.hangup) }()
	return r
}

// startServed is start with a backend that takes every client's startup, since a client waits for the first one.
func startServed(t *testing.T, flags ...string) *running {
	t.Helper()
	return start(t, append(flags, fmt.Sprintf("--backend-port=%d", serveBackends(t, "127.0.0.1:0")))...)
}

// get asks the admin listener; the status is 0 when nobody answers.
func (r *running) get(path string) (status int, body string) {
	r.t.Helper()
	answer, err := http.Get("http://" + r.admin + path)
	if err != nil {
		return 0, ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// eventually waits for a condition that must come true by itself.
func (r *running) eventually(what string, ok func() bool) {
	r.t.Helper()
	for limit := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			r.t.Fatalf("%s did not happen; log:\n%s", what, r.log)
		}
	}
}

// end waits for the end of run.
func (r *running) end() error {
	r.t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(20 * time.Second):
		r.t.Fatalf("the daemon did not end; log:\n%s", r.log)
		return nil
	}
}

// connect starts a session and returns it when it is idle.
func (r *running) connect() net.Conn {
	r.t.Helper()
	conn := r.dial()
	r.expect(conn, readyForQuery)
	return conn
}

// dial asks for a session.
func (r *running) dial() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.client)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	body := "\x00\x03\x00\x00user\x00app\x00\x00"
	io.WriteString(conn, string(binary.BigEndian.AppendUint32(nil, uint32(4+len(body))))+body)
	return conn
}

// expect reads until the text has come.
func (r *running) expect(conn net.Conn, text string) {
	r.t.Helper()
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	var got []byte
	for one := make([]byte, 1); !strings.HasSuffix(string(got), text); got = append(got, one...) {
		if _, err := io.ReadFull(conn, one); err != nil {
			r.t.Fatalf("read %q, then %v; want %q in it", got, err, text)
		}
	}
}

// begin opens a transaction, which costs no backend.
func (r *running) begin(conn net.Conn) {
	r.t.Helper()
	io.WriteString(conn, "Q\x00\x00\x00\x0aBEGIN\x00")
	r.expect(conn, "Z\x00\x00\x00\x05T")
}

func TestServesUntilASignal(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	backend := free.Addr().String()
	free.Close()
	_, port, _ := net.SplitHostPort(backend)
	r := start(t, "--backend-port="+port)
	if status, body := r.get("/livez"); status != 200 {
		t.Errorf("/livez: %d %q", status, body)
	}
	r.eventually("the failure of the first dial", func() bool {
		status, body := r.get("/readyz")
		return status == 503 && strings.Contains(body, "not ready: no backend: dial "+backend+": tcp: ")
	})
	serveBackends(t, backend) // a client waits for the first backend
	idle := r.connect()
	if status, body := r.get("/metrics"); status != 200 || !strings.Contains(body, "\ndsql_clients 1\n") {
		t.Errorf("/metrics: %d without one client:\n%.500s", status, body)
	}
	r.stop <- syscall.SIGTERM
	r.expect(idle, "C57P01\x00")
	if err := r.end(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	if status, _ := r.get("/livez"); status != 0 {
		t.Error("the admin listener is still open")
	}
	if conn, err := net.Dial("tcp", r.client); err == nil {
		conn.Close()
		t.Error("the listener is still open")
	}
	for _, line := range []string{"msg=serving", "endpoint=127.0.0.1", "msg=draining signal=terminated", "msg=drained"} {
		if !strings.Contains(r.log.String(), line) {
			t.Errorf("the log lacks %q:\n%s", line, r.log)
		}
	}
}

func TestDrainTimeoutCutsAndIsNoFailure(t *testing.T) {
	r := startServed(t, "--drain-timeout=200ms")
	busy := r.connect()
	r.begin(busy)
	r.stop <- syscall.SIGTERM
	r.notReady()
	if err := r.end(); err != nil {
		t.Errorf("after the timeout: %v", err)
	}
	if !strings.Contains(r.log.String(), "drain timeout reached") {
		t.Errorf("the log does not tell of the cut:\n%s", r.log)
	}
}

func TestASecondSignalCuts(t *testing.T) {
	r := startServed(t, "--drain-timeout=1h")
	busy := r.connect()
	r.begin(busy)
	r.stop <- syscall.SIGINT
	r.notReady()
	r.stop <- syscall.SIGINT
	if err := r.end(); !errors.Is(err, errDrainCut) {
		t.Errorf("after the second signal: %v, want %v", err, errDrainCut)
	}
}

func TestSignalReloadsTheUsersFile(t *testing.T) {
	users := t.TempDir() + "/users"
	write := func(text string) {
		if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("\"app\" \"secret\"\n")
	r := start(t, "--auth-method=scram-sha-256", "--auth-users-file="+users)
	write("no line of a users file\n")
	r.hangup <- syscall.SIGHUP
	r.eventually("the failed reload", func() bool { return strings.Contains(r.log.String(), "reload failed, the old one stays in use") })
	write("\"app\" \"other\"\n")
	r.hangup <- syscall.SIGHUP
	r.eventually("the reload", func() bool { return strings.Contains(r.log.String(), `msg=reloaded what="users file"`) })
	r.stop <- syscall.SIGTERM
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if strings.Contains(r.log.String(), "secret") {
		t.Errorf("the log holds a password:\n%s", r.log)
	}
}

func TestAFailedPartEndsTheDaemon(t *testing.T) {
	c := configtest.Source{Flags: []string{"--backend-kind=postgres", "--endpoint=127.0.0.1", "--backend-port=1", "--listen-address=127.0.0.1:0"}}.MustLoad(t)
	d, err := Build(t.Context(), c, "v0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	clients, err := listenAll(c, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := listenTCP("127.0.0.1:0", "admin.address", openTCPListener)
	if err != nil {
		t.Fatal(err)
	}
	admin.Close() // so that serving it fails
	if err := d.run(clients, admin, nil, nil); err == nil || !strings.HasPrefix(err.Error(), "serve admin ") {
		t.Errorf("run: %v, want the failure of the admin listener", err)
	}
}

func TestReadyWithoutBackendsOnDemand(t *testing.T) {
	r := start(t, "--pairing=session")
	if status, body := r.get("/readyz"); status != 200 {
		t.Errorf("/readyz: %d %q, want ready: nothing is dialled before a client asks", status, body)
	}
	r.stop <- syscall.SIGTERM
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// Where backends are dialled on demand only clients can find out that dials succeed again:
// a daemon that is not ready has none.
func TestReadyOnDemandBehindAFailedDial(t *testing.T) {
	r := start(t, "--reservoir-target-ready=0", "--reservoir-checkout-wait=200ms")
	conn := r.dial()
	r.expect(conn, "C53300\x00") // nobody knows yet what the server is
	if status, body := r.get("/readyz"); status != 200 {
		t.Errorf("/readyz: %d %q, want ready: nothing is dialled before a client asks", status, body)
	}
	r.stop <- syscall.SIGTERM
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

const readyForQuery = "Z\x00\x00\x00\x05I"
