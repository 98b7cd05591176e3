package reservoir

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sluice-proxy/sluice/lease"
)

const cluster = "abcdefghijklmnopqrstuvwxyz.dsql.eu-west-1.on.aws"

func someCredentials() aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "very secret", SessionToken: "session"}, nil
	})
}

// toDSQL is how a fake cluster is dialled.
func toDSQL(f *fakeServer, ca string) DialConfig {
	return DialConfig{Kind: KindDSQL, Endpoint: cluster, Address: "127.0.0.1", Port: f.port(), CAFile: ca,
		User: "admin", Database: "postgres", SSLMode: "prefer", Credentials: someCredentials(), Timeout: 10 * time.Second}
}

func TestDSQLDialSendsNameTokenAndNothingElse(t *testing.T) {
	t.Parallel()
	private := "abcdefghijklmnopqrstuvwxyz.dsql-fnh4.us-east-2.on.aws"
	tests := []struct {
		name           string
		change         func(*DialConfig)
		host           string
		region, action string
	}{
		{"admin", func(*DialConfig) {}, cluster, "eu-west-1", "DbConnectAdmin"},
		{"role", func(c *DialConfig) { c.User = "app" }, cluster, "eu-west-1", "DbConnect"},
		{"private link", func(c *DialConfig) { c.Endpoint = private }, private, "us-east-2", "DbConnectAdmin"},
		{"region given", func(c *DialConfig) { c.Region = "ap-south-1" }, cluster, "ap-south-1", "DbConnectAdmin"},
		{"other name, region given", func(c *DialConfig) { c.Endpoint, c.Region = "db.example", "ap-south-1" },
			"db.example", "ap-south-1", "DbConnectAdmin"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			certificate, ca := newCertificate(t, tt.host)
			f := (&fakeServer{certificate: certificate, cleartext: true}).start(t)
			cfg := toDSQL(f, ca)
			tt.change(&cfg)
			c := dial(t, cfg, nil)
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.sni) != 1 || f.sni[0] != tt.host {
				t.Errorf("server name %q, want %s", f.sni, tt.host)
			}
			want := map[string]string{"protocol": "\x00\x03\x00\x00", "user": cfg.User, "database": "postgres"}
			if len(f.startups) != 1 || !maps.Equal(f.startups[0], want) {
				t.Errorf("startups %q, want %q", f.startups, want)
			}
			token, err := url.Parse("https://" + f.password[0])
			if err != nil {
				t.Fatal(err)
			}
			q := token.Query()
			if token.Host != tt.host || q.Get("Action") != tt.action || q.Get("X-Amz-Signature") == "" ||
				!strings.Contains(q.Get("X-Amz-Credential"), "/"+tt.region+"/dsql/") || q.Get("X-Amz-Security-Token") != "session" {
				t.Errorf("token for %s with %v", token.Host, q)
			}
			if c.PID != 42 || c.Params["server_version"] != "16.15" {
				t.Errorf("PID %d, parameters %v", c.PID, c.Params)
			}
		})
	}
}

func TestDSQLVerifiesTheServer(t *testing.T) {
	t.Parallel()
	certificate, ca := newCertificate(t, cluster)
	other, _ := newCertificate(t, cluster)
	elsewhere, elsewhereCA := newCertificate(t, "zyxwvutsrqponmlkjihgfedcba.dsql.eu-west-1.on.aws")
	for name, tt := range map[string]struct {
		certificate *tls.Certificate
		ca          string
	}{
		"no TLS":                   {nil, ca},
		"another authority":        {other, ca},
		"another name":             {elsewhere, elsewhereCA},
		"the system's authorities": {certificate, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := (&fakeServer{certificate: tt.certificate, cleartext: true}).start(t)
			refused(t, toDSQL(f, tt.ca), StepTLS)
			if len(f.password) != 0 || len(f.startups) != 0 {
				t.Error("an unverified server was given a token")
			}
		})
	}
}

func TestDSQLRefusals(t *testing.T) {
	t.Parallel()
	certificate, ca := newCertificate(t, cluster)
	tests := []struct {
		code, message string
		step          DialStep
		reason        string
	}{
		{"08006", "unable to accept connection, access denied", StepAuth, "auth"},
		{"08006", "unable to accept connection, waking up cluster, please retry later", StepStartup, "startup"},
		{"53300", "Unable to accept connection, too many open connections.", StepStartup, "too_many_connections"},
		{"53400", "Unable to accept connection, rate exceeded.", StepStartup, "rate_exceeded"},
	}
	for _, tt := range tests {
		f := (&fakeServer{certificate: certificate, refuse: errorResponse(tt.code, tt.message, "Signature expired: long ago")}).start(t)
		got := refused(t, toDSQL(f, ca), tt.step)
		if got.SQLState != tt.code || got.Server.Message != tt.message || failureLabel(got) != tt.reason {
			t.Errorf("got %+v, counted as %s", got, failureLabel(got))
		}
		if text := got.Error(); !strings.Contains(text, tt.message) || !strings.Contains(text, "Signature expired") ||
			strings.Contains(text, "X-Amz") || strings.Contains(text, "very secret") {
			t.Errorf("text %q", text)
		}
	}
}

// Without credentials nothing is dialled: it would cost a share of the rate.
func TestDSQLDialsNothingWithoutCredentials(t *testing.T) {
	t.Parallel()
	certificate, ca := newCertificate(t, cluster)
	f := (&fakeServer{certificate: certificate, cleartext: true}).start(t)
	failing := errors.New("no role for this pod")
	for name, credentials := range map[string]func() (aws.Credentials, error){
		"AWS credentials without keys": func() (aws.Credentials, error) { return aws.Credentials{}, nil },
		"no role for this pod":         func() (aws.Credentials, error) { return aws.Credentials{}, failing },
		"AWS credentials expired at 2020-01-02T03:04:05Z": func() (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b", CanExpire: true,
				Expires: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)}, nil
		},
	} {
		cfg := toDSQL(f, ca)
		cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return credentials() })
		if got := refused(t, cfg, StepCredentials); !strings.Contains(got.Error(), name) {
			t.Errorf("got %v, want %s", got, name)
		}
	}
	cfg := toDSQL(f, ca)
	cfg.Endpoint, cfg.Region = "not%20a%20name", "eu-west-1"
	refused(t, cfg, StepToken)
	if f.accepted != 0 {
		t.Errorf("%d connections, want none", f.accepted)
	}
}

func TestEachDialSignsItsOwnToken(t *testing.T) {
	t.Parallel()
	certificate, ca := newCertificate(t, cluster)
	f := (&fakeServer{certificate: certificate, cleartext: true}).start(t)
	cfg := toDSQL(f, ca)
	var asked atomic.Int32
	cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		n := asked.Add(1)
		return aws.Credentials{AccessKeyID: "KEY" + string('0'+rune(n)), SecretAccessKey: "s"}, nil
	})
	d := dialer(t, cfg)
	for range 3 {
		c, err := d.Dial(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { c.setCloseDeadline(terminateWait); c.terminate() }()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, token := range f.password {
		if want := "KEY" + string('1'+rune(i)); !strings.Contains(token, "X-Amz-Credential="+want) {
			t.Errorf("token %d is not signed by %s", i, want)
		}
	}
	if asked.Load() != 3 || len(f.password) != 3 {
		t.Errorf("%d tokens, credentials asked for %d times, want 3 each", len(f.password), asked.Load())
	}
}

func TestDSQLTakesNoStartupOfAClient(t *testing.T) {
	t.Parallel()
	certificate, ca := newCertificate(t, cluster)
	f := (&fakeServer{certificate: certificate, cleartext: true}).start(t)
	_, err := dialer(t, toDSQL(f, ca)).Dial(t.Context(), &Startup{Database: "x"})
	if failure, ok := errors.AsType[*DialError](err); !ok || failure.Step != StepStartup || f.accepted != 0 {
		t.Errorf("got %v after %d connections", err, f.accepted)
	}
}

// A server that comes back with other authorities is reached again: when their file is read
// anew, at the latest after a dial that failed on the certificate.
func TestOtherAuthorities(t *testing.T) {
	t.Parallel()
	certificate, ca := newCertificate(t, cluster)
	f := (&fakeServer{certificate: certificate, cleartext: true}).start(t)
	d := dialer(t, toDSQL(f, ca))
	dial := func() error {
		c, err := d.Dial(t.Context(), nil)
		if err == nil {
			c.setCloseDeadline(terminateWait)
			c.terminate()
		}
		return err
	}
	change := func() {
		other, file := newCertificate(t, cluster)
		f.note(func() { f.certificate = other })
		pem, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ca, pem, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := dial(); err != nil {
		t.Fatal(err)
	}
	change()
	if failure, ok := errors.AsType[*DialError](dial()); !ok || failure.Step != StepTLS {
		t.Fatalf("with the old authorities: %v", failure)
	}
	if err := dial(); err != nil {
		t.Errorf("after a dial that failed on the certificate: %v", err)
	}
	change()
	if err := d.ReloadCA(); err != nil {
		t.Fatal(err)
	}
	if err := dial(); err != nil {
		t.Errorf("with the authorities read anew: %v", err)
	}
	if err := os.WriteFile(ca, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.ReloadCA(); err == nil || !strings.Contains(err.Error(), "backend.ca_file") {
		t.Errorf("a file without a certificate: %v", err)
	}
	if err := dial(); err != nil {
		t.Errorf("the old authorities do not stay: %v", err)
	}
}

// The remedy is about the cause.
func TestRemedies(t *testing.T) {
	t.Parallel()
	full := NoBackendError{InUse: 40, MaxOpen: 40}
	undialled := NoBackendError{MaxOpen: 40, LastDialErr: errors.New("no route to host")}
	for _, tt := range []struct {
		name string
		err  NoBackendError
		want string
	}{
		{"full", full, "raise reservoir.max_open"},
		{"full while the table is away", NoBackendError{InUse: 40, MaxOpen: 40, Lease: lease.Degraded.String()}, "raise reservoir.max_open"},
		{"full while the lease runs out", NoBackendError{InUse: 40, MaxOpen: 40, Lease: lease.Draining.String()}, "sluice lease status"},
		{"full while dials fail", NoBackendError{InUse: 40, MaxOpen: 40, LastDialErr: undialled.LastDialErr}, "cannot open others"},
		{"full while dials fail and the table is away", NoBackendError{InUse: 40, MaxOpen: 40, Lease: lease.Degraded.String(), LastDialErr: undialled.LastDialErr}, "cannot open others"},
		{"dials fail", undialled, "cannot open connections"},
		{"dials fail while some are in use", NoBackendError{InUse: 3, MaxOpen: 40, LastDialErr: undialled.LastDialErr}, "cannot open connections"},
		{"no slot", NoBackendError{InUse: 3, MaxOpen: 40, Unleased: true}, "raise the lease's limit"},
		{"no rate", NoBackendError{InUse: 3, MaxOpen: 40, Throttled: true}, "connection rate"},
		{"lease", NoBackendError{MaxOpen: 40, Lease: "lost"}, "sluice lease status"},
		{"nothing known", NoBackendError{MaxOpen: 40}, "look at"},
	} {
		if got := tt.err.Remedy(); !strings.Contains(got, tt.want) || !strings.Contains(got, "Retry") {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
