package dsqlsim_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/dsql/auth"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

const denied = "unable to accept connection, access denied"

const amzDate = "20060102T150405Z"

// presign makes a token with the AWS SDK's own signer, as far from what a token
// should be as the test wants.
func presign(t *testing.T, key, service, region, query string, at time.Time) string {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "https://"+endpoint+"/?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	const emptyBody = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	pair := aws.Credentials{AccessKeyID: key, SecretAccessKey: secretKey}
	signed, _, err := v4.NewSigner().PresignHTTP(deadline(t), pair, r, emptyBody, service, region, at)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(signed, "https://")
}

func TestTokens(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "DO $$ BEGIN CREATE ROLE app LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
	own := dsqlsim.DefaultConfig()
	own.Endpoint, own.AccessKeyID, own.SecretAccessKey = endpoint, accessKey, secretKey
	good := adminToken(t)
	const query = "Action=DbConnectAdmin&X-Amz-Expires=900"
	now := time.Now()
	for _, test := range []struct {
		name, role, token string
		want              string // "" connects
		hint              bool
	}{
		{name: "the SDK's for admin", role: "admin", token: good},
		{name: "the SDK's for a role", role: "app", token: token(t, "app", endpoint, region, accessKey, secretKey, 15*time.Minute)},
		{name: "with a slash", role: "admin", token: strings.Replace(good, "?", "/?", 1)},
		{name: "the SDK's signer", role: "admin", token: presign(t, accessKey, "dsql", region, query, now)},
		{name: "the SDK's signer, ten minutes ago", role: "admin", token: presign(t, accessKey, "dsql", region, query, now.Add(-10*time.Minute))},
		{name: "the SDK's signer, an hour ago", role: "admin", token: presign(t, accessKey, "dsql", region, query, now.Add(-time.Hour)), want: denied, hint: true},
		{name: "another service", role: "admin", token: presign(t, accessKey, "rds-db", region, query, now), want: denied},
		{name: "another action", role: "admin", token: presign(t, accessKey, "dsql", region, "Action=connect&X-Amz-Expires=900", now), want: denied},
		{name: "no action", role: "admin", token: presign(t, accessKey, "dsql", region, "X-Amz-Expires=900", now), want: denied},
		{name: "no expiry", role: "admin", token: presign(t, accessKey, "dsql", region, "Action=DbConnectAdmin", now), want: denied},
		{name: "another algorithm", role: "admin", token: strings.Replace(good, "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1", 1), want: denied},
		{name: "no signature", role: "admin", token: good[:strings.Index(good, "&X-Amz-Signature=")], want: denied},
		{name: "changed signature", role: "admin", token: good[:len(good)-1] + string(good[len(good)-1]^1), want: denied},
		{name: "changed date", role: "admin", token: strings.Replace(presign(t, accessKey, "dsql", region, query, now),
			now.UTC().Format(amzDate), now.Add(time.Second).UTC().Format(amzDate), 1), want: denied},
		{name: "a session token that nobody knows", role: "admin", token: good + "&X-Amz-Security-Token=x", want: denied},
		{name: "with its scheme", role: "admin", token: "https://" + good, want: denied},
		{name: "with a path", role: "admin", token: strings.Replace(good, "?", "/x?", 1), want: denied},
		{name: "our own", role: "admin", token: dsqlsim.SignToken(&own, "admin", time.Now(), 15*time.Minute)},
		{name: "role's action for admin", role: "admin", token: token(t, "app", endpoint, region, accessKey, secretKey, 15*time.Minute), want: denied},
		{name: "admin's action for a role", role: "app", token: good, want: denied},
		{name: "foreign host", role: "admin", token: token(t, "admin", "x"+endpoint[1:], region, accessKey, secretKey, 15*time.Minute), want: denied},
		{name: "foreign region", role: "admin", token: token(t, "admin", endpoint, "eu-west-1", accessKey, secretKey, 15*time.Minute), want: denied},
		{name: "foreign key", role: "admin", token: token(t, "admin", endpoint, region, "other", secretKey, 15*time.Minute), want: denied},
		{name: "wrong secret", role: "admin", token: token(t, "admin", endpoint, region, accessKey, "other", 15*time.Minute), want: denied},
		{name: "more than a week", role: "admin", token: token(t, "admin", endpoint, region, accessKey, secretKey, 8*24*time.Hour), want: denied},
		{name: "changed expiry", role: "admin", token: strings.Replace(good, "X-Amz-Expires=900", "X-Amz-Expires=9000", 1), want: denied},
		{name: "out of date", role: "admin", token: dsqlsim.SignToken(&own, "admin", time.Now().Add(-time.Hour), 15*time.Minute), want: denied, hint: true},
		{name: "from the future", role: "admin", token: dsqlsim.SignToken(&own, "admin", time.Now().Add(time.Hour), 15*time.Minute), want: denied},
		{name: "a password", role: "admin", token: "secret", want: denied},
		{name: "nothing", role: "admin", token: "", want: denied},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			config := c.config(t)
			config.User, config.Password = test.role, test.token
			conn, err := pgconn.ConnectConfig(deadline(t), config)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				got, err := conn.Exec(deadline(t), "SELECT current_user").ReadAll()
				if err != nil {
					t.Fatal(err)
				}
				if user := string(got[0].Rows[0][0]); test.role != "admin" && user != test.role {
					t.Errorf("the session is %s's", user)
				}
				_ = conn.Close(context.Background())
				return
			}
			e := pgError(t, err)
			if e.Code != "08006" || e.Message != test.want || e.Severity != "FATAL" {
				t.Errorf("got %s %s %q", e.Severity, e.Code, e.Message)
			}
			if strings.HasPrefix(e.Hint, "Signature expired: ") != test.hint {
				t.Errorf("hint %q", e.Hint)
			}
		})
	}
}

// Temporary credentials: their session token must be in the token, and the
// ledger says what was wrong with one that is refused.
func TestSessionToken(t *testing.T) {
	t.Parallel()
	const ours = "session+token/with=signs"
	c := start(t, func(config *dsqlsim.Config) { config.SessionToken = ours })
	for refusals, test := range []struct{ given, reason string }{
		{ours, ""},
		{"", "X-Amz-Security-Token"},
		{"another", "X-Amz-Security-Token"},
	} {
		provider := credentials.NewStaticCredentialsProvider(accessKey, secretKey, test.given)
		token, err := auth.GenerateDBConnectAdminAuthToken(deadline(t), endpoint, region, provider)
		if err != nil {
			t.Fatal(err)
		}
		config := c.config(t)
		config.Password = token
		conn, err := pgconn.ConnectConfig(deadline(t), config)
		if test.reason == "" {
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.Close(deadline(t))
			continue
		}
		if e := pgError(t, err); e.Code != "08006" || e.Message != denied {
			t.Errorf("%q: got %s %q", test.given, e.Code, e.Message)
		}
		told := func() bool {
			n := 0 // the end of the first connection may come late
			for _, e := range c.EventsAfter(0) {
				if e.Kind == "refuse" && e.Outcome == "08006" && strings.HasPrefix(e.Detail, test.reason+":") {
					n++
				}
			}
			return n == refusals
		}
		eventually(t, "the ledger's reason", told)
	}
}

func TestStartup(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	for _, test := range []struct {
		name       string
		parameters map[string]string
		database   string
		code, want string
	}{
		{name: "settable parameters", parameters: map[string]string{
			"application_name": "x", "DateStyle": "ISO, DMY", "extra_float_digits": "2", "search_path": "public", "TimeZone": "Europe/Paris",
			"client_encoding": "UTF8", "disable_sync_create_index": "off", "options": `-c enable_seqscan=off --intervalstyle=iso_8601 -c dsql.enable_batched_nestloop=on`}},
		{name: "of several the first", parameters: map[string]string{"work_mem": "4MB", "lock_timeout": "1s", "search_path": "public"},
			code: "0A000", want: `setting configuration parameter "lock_timeout" not supported`},
		{name: "a role", parameters: map[string]string{"role": "postgres"},
			code: "0A000", want: `setting configuration parameter "role" not supported`},
		{name: "options that are none", parameters: map[string]string{"options": "-B 100"},
			code: "0A000", want: `setting configuration parameter "-B" not supported`},
		{name: "another parameter", parameters: map[string]string{"default_transaction_read_only": "on"},
			code: "0A000", want: `setting configuration parameter "default_transaction_read_only" not supported`},
		{name: "in the options", parameters: map[string]string{"options": "-c statement_timeout=5s"},
			code: "0A000", want: `setting configuration parameter "statement_timeout" not supported`},
		{name: "an option without -c", parameters: map[string]string{"options": "-cwork_mem=4MB"},
			code: "0A000", want: `setting configuration parameter "work_mem" not supported`},
		{name: "replication", parameters: map[string]string{"replication": "database"},
			code: "0A000", want: `setting configuration parameter "replication" not supported`},
		{name: "another database", database: "temporal", code: "3D000", want: `database "temporal" does not exist`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			config := c.config(t)
			for name, value := range test.parameters {
				config.RuntimeParams[name] = value
			}
			if test.database != "" {
				config.Database = test.database
			}
			conn, err := pgconn.ConnectConfig(deadline(t), config)
			if test.want != "" {
				if e := pgError(t, err); e.Code != test.code || e.Message != test.want || e.Severity != "FATAL" {
					t.Errorf("got %s %s %q", e.Severity, e.Code, e.Message)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.Background())
			got, err := conn.Exec(deadline(t), "SHOW intervalstyle; SHOW enable_seqscan; SHOW timezone; SHOW disable_sync_create_index").ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []string{"iso_8601", "off", "Europe/Paris", "off"} {
				if value := string(got[i].Rows[0][0]); value != want {
					t.Errorf("got %q, want %q", value, want)
				}
			}
		})
	}
}

func TestReportsItselfAsDSQL(t *testing.T) {
	t.Parallel()
	conn := start(t, nil).connect(t)
	for name, want := range map[string]string{
		"server_version": "16.15", "TimeZone": "UTC", "client_encoding": "UTF8",
		"standard_conforming_strings": "on", "is_superuser": "off", "session_authorization": "admin",
	} {
		if got := conn.ParameterStatus(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for sql, want := range map[string][2]string{
		"SHOW server_version":        {"16.15", "SHOW"},
		"SHOW server_version_num":    {"160015", "SHOW"},
		"SELECT version()":           {"PostgreSQL 16", "SELECT 1"},
		"SHOW transaction_isolation": {"repeatable read", "SHOW"},
		"SHOW timezone":              {"UTC", "SHOW"},
	} {
		simple, err := conn.Exec(deadline(t), sql).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		extended := conn.ExecParams(deadline(t), sql, nil, nil, nil, nil).Read()
		if extended.Err != nil {
			t.Fatal(extended.Err)
		}
		for protocol, got := range map[string]*pgconn.Result{"simple": simple[0], "extended": extended} {
			if value, tag := string(got.Rows[0][0]), got.CommandTag.String(); value != want[0] || tag != want[1] {
				t.Errorf("%s, %s: %q, tag %q", sql, protocol, value, tag)
			}
		}
	}
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	t.Run("rate", func(t *testing.T) {
		t.Parallel()
		c := start(t, func(config *dsqlsim.Config) { config.Rate, config.Burst = 0.001, 3 })
		for range 3 {
			c.connect(t)
		}
		_, err := pgconn.ConnectConfig(deadline(t), c.config(t))
		if e := pgError(t, err); e.Code != "53400" || e.Message != "Unable to accept connection, rate exceeded." {
			t.Errorf("got %s %q", e.Code, e.Message)
		}
	})
	t.Run("refill", func(t *testing.T) {
		t.Parallel()
		c := start(t, func(config *dsqlsim.Config) { config.Rate, config.Burst = 0.25, 1 })
		c.connect(t)
		_, err := pgconn.ConnectConfig(deadline(t), c.config(t))
		if e := pgError(t, err); e.Code != "53400" {
			t.Errorf("got %s", e.Code)
		}
		eventually(t, "the next token", func() bool {
			conn, err := pgconn.ConnectConfig(deadline(t), c.config(t))
			if err != nil {
				return false
			}
			return conn.Close(deadline(t)) == nil
		})
	})
	t.Run("number", func(t *testing.T) {
		t.Parallel()
		c := start(t, func(config *dsqlsim.Config) { config.MaxConnections = 2 })
		c.connect(t)
		second := c.raw(t)
		_, err := pgconn.ConnectConfig(deadline(t), c.config(t))
		if e := pgError(t, err); e.Code != "53300" || e.Message != "Unable to accept connection, too many open connections." {
			t.Errorf("got %s %q", e.Code, e.Message)
		}
		second.Send(&pgproto3.Terminate{})
		if err := second.Flush(); err != nil {
			t.Fatal(err)
		}
		if m, err := second.Receive(); err == nil {
			t.Fatalf("got %T, want EOF", m)
		}
		if n := c.ConnectionCount(); n != 1 {
			t.Errorf("%d connections after the second has ended", n)
		}
		c.connect(t)
		if n := c.PeakConnections(); n != 2 {
			t.Errorf("%d connections at once, at most; there were 2", n)
		}
	})
}

func TestAge(t *testing.T) {
	t.Parallel()
	for name, fatal := range map[string]bool{"eof": false, "fatal": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, func(config *dsqlsim.Config) { config.MaxAge, config.AgeFatal = 3*time.Second, fatal })
			w := c.raw(t)
			w.ask(1, &pgproto3.Query{String: "BEGIN"})
			time.Sleep(3 * time.Second) // and what connecting took
			// A transaction goes on to its end.
			got := w.ask(1, &pgproto3.Query{String: "COMMIT"})
			if strings.Join(got, " ") != "COMMIT Z I" {
				t.Errorf("got %q", got)
			}
			m, err := w.Receive()
			if !fatal {
				if err == nil {
					t.Fatalf("got %T, want EOF", m)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := m.(*pgproto3.ErrorResponse); !ok || e.Severity != "FATAL" {
				t.Errorf("got %+v", m)
			}
		})
	}
}
