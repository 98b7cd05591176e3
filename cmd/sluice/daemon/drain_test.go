package daemon

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// notReady waits until the daemon is leaving.
func (r *running) notReady() {
	r.t.Helper()
	r.eventually("not ready", func() bool { status, body := r.get("/readyz"); return status == 503 && body == "not ready: draining\n" })
}

// stillOpen fails when a session has been told of an end.
func (r *running) stillOpen(what string, conn net.Conn) {
	r.t.Helper()
	r.begin(conn)
	if _, err := conn.Write([]byte("Q\x00\x00\x00\x0dROLLBACK\x00")); err != nil {
		r.t.Errorf("%s: %v", what, err)
	}
	r.expect(conn, readyForQuery)
}

// A container beside the application is told to end with it: the application's connections go
// on, and new ones are taken, until there have been none for a while.
func TestPlainDrainServesUntilItIsQuiet(t *testing.T) {
	r := startServed(t, "--drain-mode=plain", "--drain-quiet=400ms", "--drain-timeout=1h")
	first := r.connect()
	r.stop <- syscall.SIGTERM
	r.notReady()
	var later []net.Conn
	for range 8 { // longer than drain.quiet in all, on a machine of any speed
		time.Sleep(100 * time.Millisecond)
		later = append(later, r.connect())
	}
	if status, body := r.get("/startupz"); status != 200 || body != "started\n" {
		t.Errorf("/startupz while clients are served: %d %q", status, body)
	}
	r.stillOpen("the first client, while others come", first)
	for _, conn := range append(later, first) {
		r.expect(conn, "C57P01\x00")
	}
	if err := r.end(); err != nil {
		t.Errorf("after the drain: %v", err)
	}
	if log := r.log.String(); !strings.Contains(log, "new clients are served until none came") || !strings.Contains(log, "msg=drained") {
		t.Errorf("the log does not tell of the drain:\n%s", log)
	}
}

// Clients that never stop coming do not keep the daemon from its end.
func TestPlainDrainEndsUnderClients(t *testing.T) {
	r := start(t, "--drain-mode=plain", "--drain-quiet=1s", "--drain-timeout=2s")
	ended := make(chan error, 1)
	r.stop <- syscall.SIGTERM
	go func() { ended <- r.end() }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("after the drain: %v", err)
			}
			if !strings.Contains(r.log.String(), "clients still come") {
				t.Errorf("the log does not tell of clients that came:\n%s", r.log)
			}
			return
		case <-time.After(20 * time.Millisecond):
			if conn, err := net.Dial("tcp", r.client); err == nil {
				io.WriteString(conn, "\x00\x00\x00\x12\x00\x03\x00\x00user\x00app\x00\x00")
				t.Cleanup(func() { conn.Close() })
			}
		}
	}
}

func TestSecondSignalCutsAPlainDrain(t *testing.T) {
	r := start(t, "--drain-mode=plain", "--drain-quiet=20m", "--drain-timeout=1h")
	r.stop <- syscall.SIGTERM
	r.notReady()
	r.stop <- syscall.SIGTERM
	if err := r.end(); !errors.Is(err, errDrainCut) {
		t.Errorf("after the second signal: %v, want %v", err, errDrainCut)
	}
}

// A sidecar of Kubernetes is told to end when nobody should be left: it does not wait for a
// transaction whose client will be killed in two seconds.
func TestNativeDrainIsShort(t *testing.T) {
	r := startServed(t, "--drain-mode=native", "--drain-timeout=1h")
	busy, idle := r.connect(), r.connect()
	r.begin(busy)
	r.stop <- syscall.SIGTERM
	r.expect(idle, "C57P01\x00")
	if err := r.end(); err != nil {
		t.Errorf("after the drain: %v", err)
	}
	r.expect(busy, "C57P01\x00")
	if !strings.Contains(r.log.String(), "drain timeout reached") {
		t.Errorf("the log does not tell of the cut:\n%s", r.log)
	}
}

func TestNativeDrainEndsAtOnceWithoutClients(t *testing.T) {
	r := start(t, "--drain-mode=native")
	r.stop <- syscall.SIGTERM
	if err := r.end(); err != nil || !strings.Contains(r.log.String(), "msg=drained") {
		t.Errorf("after the drain: %v\n%s", err, r.log)
	}
}
