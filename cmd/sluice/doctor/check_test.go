package doctor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/cmd/sluice/config/configtest"
	"github.com/sluice-proxy/sluice/integration/certs"
	"github.com/sluice-proxy/sluice/integration/pgtest"
	"github.com/sluice-proxy/sluice/reservoir"
)

func TestPrintedConfigurationLoadsAgain(t *testing.T) {
	first := configtest.Source{
		Env:   map[string]string{"DSQL_SETTINGS_IGNORED": "jit, work_mem"},
		Flags: []string{"--endpoint=" + configtest.Endpoint, "--cancel-grace=1m30s", "--listen-unix-socket=/tmp/ä \"b\"", "--cancel-forward=true", "--reservoir-base-lifetime=20m"},
	}.MustLoad(t)
	second := configtest.Source{File: first.YAML(), Env: map[string]string{}}
	got := second.MustLoad(t)
	for i := range config.Keys {
		if k := &config.Keys[i]; !reflect.DeepEqual(got.EffectiveValue(k), first.EffectiveValue(k)) {
			t.Errorf("%s: got %v, want %v", k.Name, got.EffectiveValue(k), first.EffectiveValue(k))
		}
	}
	for i := range config.Keys {
		if name := config.Keys[i].Name; !strings.HasPrefix(got.SourceOf(name), "file ") {
			t.Errorf("%s is from %s: it was not printed", name, got.SourceOf(name))
		}
	}
}

// script is a server's side of the query: it reads the Query and writes answers.
func script(t *testing.T, answers ...string) reservoir.DialFunc {
	return func(context.Context, *reservoir.Startup) (*reservoir.Conn, error) {
		here, there := net.Pipe()
		t.Cleanup(func() { there.Close() })
		go func() {
			in := bufio.NewReader(there)
			query := make([]byte, len("Q\x00\x00\x00\x0dSELECT 1\x00"))
			if _, err := io.ReadFull(in, query); err != nil || string(query) != "Q\x00\x00\x00\x0dSELECT 1\x00" {
				t.Errorf("the query arrived as %q, %v", query, err)
			}
			io.WriteString(there, answers[0])
			for _, answer := range answers[1:] { // to further queries
				var header [5]byte
				if _, err := io.ReadFull(in, header[:]); err != nil {
					t.Error(err)
				}
				io.CopyN(io.Discard, in, int64(binary.BigEndian.Uint32(header[1:]))-4)
				io.WriteString(there, answer)
			}
			io.Copy(io.Discard, in) // Terminate
			there.Close()
		}()
		conn := reservoir.NewConn(here)
		conn.Params = map[string]string{"server_version": "16.15"}
		return conn, nil
	}
}

const readyForQuery = "Z\x00\x00\x00\x05I"

func TestConnectNamesTheStep(t *testing.T) {
	t.Parallel()
	failing := func(err error) reservoir.DialFunc {
		return func(context.Context, *reservoir.Startup) (*reservoir.Conn, error) { return nil, err }
	}
	for _, test := range []struct {
		name string
		dial reservoir.DialFunc
		want string // begins the error, "" for success
	}{
		{"fine", script(t, "D\x00\x00\x00\x0b\x00\x01\x00\x00\x00\x011C\x00\x00\x00\x0dSELECT 1\x00"+readyForQuery, "C\x00\x00\x00\x0dSELECT 0\x00"+readyForQuery), ""},
		{"refused", script(t, "E\x00\x00\x00\x25SERROR\x00C57014\x00Mcanceled by test\x00\x00"+readyForQuery), "connect failed at step query: ERROR: canceled by test (SQLSTATE 57014)"},
		{"no answer", script(t, readyForQuery), "connect failed at step query: the server did not answer"},
		{"bad length", script(t, "D\xff\xff\xff\xff"), "connect failed at step query: reading the answer: a frame of 4294967295 bytes"},
		{"silent", script(t, ""), "connect failed at step query: reading the answer: "},
		{"token", failing(&reservoir.DialError{Step: reservoir.StepToken, Address: "h:1", Err: errors.New("no")}), "connect failed at step token: dial h:1: token: no\n  is backend.region"},
		{"other", failing(errors.New("no")), "connect failed at step startup: no"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			timeout := 10 * time.Second
			if test.name == "silent" {
				timeout = 50 * time.Millisecond
			}
			result, err := testConnection(t.Context(), test.dial, timeout)
			switch {
			case test.want == "" && (err != nil || !strings.HasPrefix(result, "server_version 16.15, connected in ")):
				t.Errorf("got %q, %v", result, err)
			case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)):
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestCheckAgainstPostgres(t *testing.T) {
	srv := pgtest.Start(t, pgtest.TLS(), pgtest.SCRAM("hunter2"))
	srv.SQL(t, "postgres", "CREATE TABLE keyed (a int, k__byteahex text, l__byteahex text, m__byteahex int)")
	other, _ := certs.WriteTestFiles(t, certs.SelfSigned("other"))
	for _, test := range []struct {
		name, password string
		flags          []string
		code           int
		want           string // in what is printed
	}{
		{"fine", "hunter2", []string{"--backend-sslmode=verify-full", "--backend-ca-file=" + srv.CAFile}, cli.ExitOK, "# connect: ok, server_version "},
		{"mapped columns", "hunter2", nil, cli.ExitOK, "(rewrite.bytea): public.keyed.k, public.keyed.l\n"},
		{"wrong password", "hunter3", nil, cli.ExitRuntime, "connect failed at step auth: "},
		{"wrong authority", "hunter2", []string{"--backend-sslmode=verify-full", "--backend-ca-file=" + other}, cli.ExitRuntime, "connect failed at step tls: "},
		{"no such database", "hunter2", []string{"--backend-database=none"}, cli.ExitRuntime, "connect failed at step startup: "},
		{"no such host", "hunter2", []string{"--backend-address=none.invalid"}, cli.ExitRuntime, "connect failed at step dns: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			configtest.Source{Env: map[string]string{"DSQL_BACKEND_PASSWORD": test.password}}.Prepare(t)
			args := []string{"check", "--connect", "--backend-kind=postgres", "--endpoint=" + srv.Host,
				"--backend-port=" + strconv.Itoa(srv.Port), "--backend-user=postgres"}
			var out bytes.Buffer
			code := run(append(args, test.flags...), &out, &out)
			if code != test.code || !strings.Contains(out.String(), test.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, test.code, test.want, out.String())
			}
			if strings.Contains(out.String(), test.password) {
				t.Errorf("the password is printed:\n%s", out.String())
			}
		})
	}
}

func TestEveryStepHasAHint(t *testing.T) {
	t.Parallel()
	for _, step := range []reservoir.DialStep{reservoir.StepCredentials, reservoir.StepToken, reservoir.StepDNS, reservoir.StepTCP,
		reservoir.StepTLS, reservoir.StepAuth, reservoir.StepStartup, stepQuery} {
		if stepHints[step] == "" {
			t.Errorf("step %s has no hint", step)
		}
	}
}

// run executes a command line of the commands of this package.
func run(args []string, stdout, stderr io.Writer) int {
	return cli.Execute(cli.NewRoot(NewCheck("v0"), NewDoctor()), args, stdout, stderr)
}
