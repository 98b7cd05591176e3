package main

import (
	"net"
	"strings"
	"syscall"
	"testing"
)

// The command says what the daemon's probes say, by its exit code too.
func TestHealthcheck(t *testing.T) {
	r := start(t)
	defer func() {
		r.stop <- syscall.SIGTERM
		r.end()
	}()
	_, port, _ := net.SplitHostPort(r.admin)
	for _, test := range []struct {
		args []string
		code int
		out  string
	}{
		{nil, exitOK, "started\n"},
		{[]string{"--admin-address=:" + port}, exitOK, "started\n"},
		{[]string{"--admin-address=0.0.0.0:" + port, "--probe=livez"}, exitOK, "ok\n"},
		{[]string{"--probe", "readyz"}, exitRuntime, "sluice: readyz answers 503 Service Unavailable: not ready: "},
		{[]string{"--probe", "other"}, exitUsage, "sluice: --probe other: want startupz, readyz or livez"},
		{[]string{"--admin-address="}, exitUsage, `sluice: admin.address: "": the daemon serves no probes; set it, such as to 127.0.0.1:9432`},
		{[]string{"--admin-address=127.0.0.1:1"}, exitRuntime, "connection refused"},
	} {
		var out, errs strings.Builder
		args := append([]string{"healthcheck", "--backend-kind=postgres", "--endpoint=127.0.0.1", "--within=20s", "--admin-address=" + r.admin}, test.args...)
		code := run(args, &out, &errs)
		if code != test.code || !strings.Contains(out.String()+errs.String(), test.out) {
			t.Errorf("%q: code %d, %s%s, want %d and %s", test.args, code, &out, &errs, test.code, test.out)
		}
	}
}
