package main

import (
	"bytes"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
	"github.com/sluice-proxy/sluice/cmd/sluice/config/configtest"
)

// runSluice runs a command line without any DSQL_ variable.
func runSluice(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	configtest.Source{}.Prepare(t)
	var out, errs bytes.Buffer
	code = run(args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestExitCodesAndWords(t *testing.T) {
	for _, test := range []struct {
		args   []string
		code   int
		stdout string // what it contains
		stderr string // what it begins with
	}{
		{nil, cli.ExitOK, "Usage:", ""},
		{[]string{"--help"}, cli.ExitOK, "Available Commands:", ""},
		{[]string{"serve", "--help"}, cli.ExitOK, "--backend-endpoint", ""},
		{[]string{"version"}, cli.ExitOK, "sluice ", ""},
		{[]string{"config-reference"}, cli.ExitOK, "| `listen.address` | text | `127.0.0.1:5432` |", ""},
		{[]string{"check", "--endpoint", configtest.Endpoint}, cli.ExitOK, "endpoint: \"" + configtest.Endpoint + "\" # flag --backend-endpoint", ""},
		{[]string{"serv"}, cli.ExitUsage, "", "sluice: unknown command \"serv\"; did you mean serve? (see sluice --help)\n"},
		{[]string{"serve", "now"}, cli.ExitUsage, "", "sluice: unknown command \"now\" for \"sluice serve\"\n"},
		{[]string{"serve", "--pin-max=3"}, cli.ExitUsage, "", "sluice: unknown flag: --pin-max; did you mean --pins-max? (see sluice serve --help)\n"},
		{[]string{"serve", "--pins-max"}, cli.ExitUsage, "", "sluice: flag needs an argument: --pins-max (see sluice serve --help)\n"},
		{[]string{"serve"}, cli.ExitUsage, "", "sluice: the configuration has 1 problem:\n  backend.endpoint: "},
		{[]string{"check", "--pins-max=x"}, cli.ExitUsage, "", "sluice: the configuration has 2 problems:\n  pins.max: "},
		{[]string{"serve", "--endpoint", configtest.Endpoint, "--tls-cert-file=/none", "--tls-key-file=/none", "--backend-ca-file=/none"}, cli.ExitUsage, "",
			"sluice: the configuration has 2 problems:\n  backend.ca_file: open /none: no such file or directory (flag --backend-ca-file)\n  tls.cert_file: "},
		{[]string{"check", "--endpoint", configtest.Endpoint, "--auth-method=scram-sha-256", "--auth-users-file=/none"}, cli.ExitUsage, "address: ",
			"sluice: the configuration has 1 problem:\n  auth.users_file: users file /none: open /none: no such file or directory (flag --auth-users-file)\n"},
		{[]string{"config-reference", "--write", "/none/metrics.md"}, cli.ExitRuntime, "", "sluice: open /none/metrics.md: "},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			code, stdout, stderr := runSluice(t, test.args...)
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if !strings.Contains(stdout, test.stdout) || test.stdout == "" && stdout != "" {
				t.Errorf("stdout: %q, want %q in it", stdout, test.stdout)
			}
			if !strings.HasPrefix(stderr, test.stderr) || test.stderr == "" && stderr != "" {
				t.Errorf("stderr: %q, want it to begin with %q", stderr, test.stderr)
			}
		})
	}
}

func TestFailureWhileRunningExitsWith1(t *testing.T) {
	// Port 1 of this machine: nobody listens there.
	code, _, stderr := runSluice(t, "check", "--connect", "--backend-kind=postgres", "--endpoint=127.0.0.1", "--backend-port=1")
	if want := "sluice: connect failed at step tcp: dial 127.0.0.1:1: "; code != cli.ExitRuntime || !strings.HasPrefix(stderr, want) {
		t.Errorf("exit code %d, stderr %q; want 1, %q", code, stderr, want)
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	const secret = "hunter2\"\\x"
	configtest.Source{Env: map[string]string{"DSQL_BACKEND_PASSWORD": secret, "DSQL_PASSWORD": secret}}.Prepare(t)
	for _, args := range [][]string{
		{"check", "--backend-kind=postgres", "--endpoint=localhost"},
		{"check"}, // the password is a problem here
		{"serve"},
		{"serve", "--help"},
	} {
		var out bytes.Buffer
		run(args, &out, &out)
		if strings.Contains(out.String(), "hunter2") {
			t.Errorf("%v prints the password:\n%s", args, out.String())
		}
		if args[0] == "check" && len(args) > 1 && !strings.Contains(out.String(), `password: "<redacted>" # env DSQL_BACKEND_PASSWORD`) {
			t.Errorf("%v does not tell where the password is from:\n%s", args, out.String())
		}
	}
}

func TestVersionOf(t *testing.T) {
	t.Parallel()
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	modified := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for want, info := range map[string]debug.BuildInfo{
		"v1.2.3":                   {Main: debug.Module{Version: "v1.2.3"}},
		"devel":                    {Main: debug.Module{Version: "(devel)"}},
		"devel-0123456789ab":       {Settings: []debug.BuildSetting{revision}},
		"devel-0123456789ab+dirty": {Settings: []debug.BuildSetting{revision, modified}},
	} {
		if got := versionOf(&info); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
