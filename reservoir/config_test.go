package reservoir

import (
	"strings"
	"testing"
	"time"
)

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	if err := Defaults().Validate(); err != nil {
		t.Error(err)
	}
}

func TestConfigReportsEveryBadValueWithItsKey(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*Config)
		want   []string // in this order, one a line
	}{
		{"nothing set", func(c *Config) { *c = Config{} },
			[]string{"reservoir.max_open: 0: ", "reservoir.checkout_wait: 0s: ", "connection.rate_limit: 0: ", "connection.burst_limit: 0: "}},
		{"negative", func(c *Config) { c.MaxOpen, c.TargetReady, c.LifetimeJitter, c.GuardWindow = -1, -1, -1, -1 },
			[]string{"reservoir.max_open: -1: ", "reservoir.target_ready: -1: ", "reservoir.lifetime_jitter: -1ns: ", "reservoir.guard_window: -1ns: "}},
		{"target over max_open", func(c *Config) { c.TargetReady = 101 }, []string{"reservoir.target_ready: 101: "}},
		{"older than DSQL allows", func(c *Config) { c.BaseLifetime = 54 * time.Minute },
			[]string{"reservoir.base_lifetime: 54m0s: with reservoir.lifetime_jitter of 2m0s want at most 55m0s"}},
		{"too little left by the guard", func(c *Config) { c.BaseLifetime = 57 * time.Second },
			[]string{"reservoir.base_lifetime: 57s: want more than 1m7s"}},
		{"too many for the rate", func(c *Config) { c.MaxOpen = 10000 },
			[]string{"reservoir.base_lifetime: 11m0s: want more than 17m37s"}},
	}
	for _, tt := range tests {
		cfg := Defaults()
		tt.change(&cfg)
		err := cfg.Validate()
		if err == nil {
			t.Errorf("%s: no error", tt.name)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != len(tt.want) {
			t.Errorf("%s: %d errors, want %d:\n%v", tt.name, len(lines), len(tt.want), err)
			continue
		}
		for i, want := range tt.want {
			if !strings.HasPrefix(lines[i], want) {
				t.Errorf("%s: %q, want %q...", tt.name, lines[i], want)
			}
		}
		if _, err := New(cfg, nil, nil, nil); err == nil {
			t.Errorf("%s: New takes it", tt.name)
		}
	}
}

func TestDialConfigReportsEveryBadValueWithItsKey(t *testing.T) {
	t.Parallel()
	dsql := DialConfig{Kind: KindDSQL, Endpoint: cluster, Port: 5432, User: "admin", Database: "postgres",
		Timeout: time.Second, Credentials: someCredentials()}
	postgres := DialConfig{Kind: KindPostgres, Address: "db", Port: 5432, User: "u", Database: "d", SSLMode: "prefer", Timeout: time.Second}
	tests := []struct {
		name   string
		base   DialConfig
		change func(*DialConfig)
		want   []string
	}{
		{"dsql", dsql, func(*DialConfig) {}, nil},
		{"postgres", postgres, func(*DialConfig) {}, nil},
		{"postgres by endpoint", postgres, func(c *DialConfig) { c.Address, c.Endpoint = "", "db" }, nil},
		{"nothing set", DialConfig{}, func(*DialConfig) {}, []string{
			`backend.kind: ""`, "backend.port: 0", "backend.user: empty", "backend.database: empty", "reservoir.dial_timeout: 0s"}},
		{"no endpoint", dsql, func(c *DialConfig) { c.Endpoint = "" }, []string{"backend.endpoint: empty"}},
		{"strange endpoint", dsql, func(c *DialConfig) { c.Endpoint = "db.example" }, []string{`backend.endpoint: "db.example"`}},
		{"strange endpoint with region", dsql, func(c *DialConfig) { c.Endpoint, c.Region = "db.example", "eu-west-1" }, nil},
		{"endpoint with scheme", dsql, func(c *DialConfig) { c.Endpoint = "https://" + cluster },
			[]string{"backend.endpoint: ", "backend.address: "}},
		{"password for dsql", dsql, func(c *DialConfig) { c.Password = "hunter2" }, []string{"backend.password: set"}},
		{"no address", postgres, func(c *DialConfig) { c.Address = "" }, []string{"backend.address: empty"}},
		{"socket", postgres, func(c *DialConfig) { c.Address = "/run/postgresql" }, []string{"backend.address: "}},
		{"sslmode", postgres, func(c *DialConfig) { c.SSLMode = "full" }, []string{`backend.sslmode: "full": want one of disable`}},
		{"port", postgres, func(c *DialConfig) { c.Port = 1 << 16 }, []string{"backend.port: 65536"}},
		{"authorities missing", dsql, func(c *DialConfig) { c.CAFile = "/nowhere/ca.pem" }, []string{"backend.ca_file: "}},
		{"authorities empty", dsql, func(c *DialConfig) { c.CAFile = "/dev/null" }, []string{"backend.ca_file: /dev/null: no PEM"}},
		{"credentials missing", dsql, func(c *DialConfig) { c.Credentials = nil }, []string{"backend.kind: dsql needs AWS credentials"}},
	}
	for _, tt := range tests {
		cfg := tt.base
		tt.change(&cfg)
		_, err := NewDialer(cfg)
		var lines []string
		if err != nil {
			lines = strings.Split(err.Error(), "\n")
		}
		if len(lines) != len(tt.want) {
			t.Errorf("%s: %d errors, want %d: %v", tt.name, len(lines), len(tt.want), err)
			continue
		}
		for i, want := range tt.want {
			if !strings.HasPrefix(lines[i], want) || strings.Contains(lines[i], "hunter2") {
				t.Errorf("%s: %q, want %q...", tt.name, lines[i], want)
			}
		}
	}
}

func TestRegionIsInTheEndpoint(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]string{
		cluster: "eu-west-1",
		"abcdefghijklmnopqrstuvwxyz.dsql-fnh4.us-gov-west-1.on.aws": "us-gov-west-1",
		"abc.rds.eu-west-1.on.aws":                                  "",
		cluster + ".evil.example":                                   "",
	} {
		if got := (DialConfig{Endpoint: endpoint}).region(); got != want {
			t.Errorf("region of %s is %q, want %q", endpoint, got, want)
		}
	}
	if got := (DialConfig{Endpoint: cluster, Region: "eu-west-2"}).region(); got != "eu-west-2" {
		t.Errorf("region %q, want the given one", got)
	}
}
