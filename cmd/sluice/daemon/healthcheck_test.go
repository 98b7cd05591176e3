package daemon

import (
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
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
		{nil, cli.ExitOK, "started\n"},
		{[]string{"--admin-address=:" + port}, cli.ExitOK, "started\n"},
		{[]string{"--admin-address=0.0.0.0:" + port, "--probe=livez"}, cli.ExitOK, "ok\n"},
		{[]string{"--probe", "readyz"}, cli.ExitRuntime, "sluice: readyz answers 503 Service Unavailable: not ready: "},
		{[]string{"--probe", "other"}, cli.ExitUsage, "sluice: --probe other: want startupz, readyz or livez"},
		{[]string{"--admin-address="}, cli.ExitUsage, `sluice: admin.address: "": the daemon serves no probes; set it, such as to 127.0.0.1:9432`},
		{[]string{"--admin-address=127.0.0.1:1"}, cli.ExitRuntime, "connection refused"},
	} {
		var out, errs strings.Builder
		args := append([]string{"healthcheck", "--backend-kind=postgres", "--endpoint=127.0.0.1", "--within=20s", "--admin-address=" + r.admin}, test.args...)
		code := run(args, &out, &errs)
		if code != test.code || !strings.Contains(out.String()+errs.String(), test.out) {
			t.Errorf("%q: code %d, %s%s, want %d and %s", test.args, code, &out, &errs, test.code, test.out)
		}
	}
}

// run executes a command line of the daemon's commands.
func run(args []string, stdout, stderr io.Writer) int {
	return cli.Execute(cli.NewRoot(NewServe("v0"), NewHealthcheck()), args, stdout, stderr)
}
