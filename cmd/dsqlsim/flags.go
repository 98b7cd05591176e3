package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

// Defaults that make a start without any flag but --upstream possible.
const (
	defaultEndpoint  = "localdevelopment0000000000.dsql.us-east-1.on.aws"
	defaultAccessKey = "AKIADSQLSIM"
	defaultSecretKey = "dsqlsim"
	defaultListen    = "127.0.0.1:5433"
	defaultAdmin     = "127.0.0.1:9433"
	defaultTokenLife = 15 * time.Minute // that of the AWS SDKs
)

// flags are what the command line says.
type flags struct {
	config                 dsqlsim.Config
	listen, admin, certDir string
	cancel, ageEnd         string
	user                   string
	tokenLife              time.Duration
}

// cluster are the flags that server and token must agree on.
func (f *flags) cluster(set *pflag.FlagSet) {
	f.config = dsqlsim.DefaultConfig()
	c := &f.config
	set.StringVar(&c.Endpoint, "endpoint", defaultEndpoint, "host name of the cluster: 26 letters and digits, .dsql.<region>.on.aws")
	set.StringVar(&c.AccessKeyID, "access-key", defaultAccessKey, "access key that tokens are signed with")
	set.StringVar(&c.SecretAccessKey, "secret-key", defaultSecretKey, "its secret")
	set.StringVar(&c.SessionToken, "session-token", "", "session token that must be in the token")
}

func (f *flags) server(set *pflag.FlagSet) {
	c := &f.config
	set.StringVar(&f.listen, "listen", defaultListen, "address for Postgres clients")
	set.StringVar(&f.admin, "admin", defaultAdmin, `address of the admin HTTP interface, "" for none`)
	set.StringVar(&c.Upstream, "upstream", "", "connection string of the PostgreSQL behind it, without TLS")
	set.StringVar(&f.certDir, "cert-dir", "", "directory to write ca.pem to, the CA of the endpoint's certificate")
	set.Float64Var(&c.Rate, "rate", c.Rate, "new connections per second")
	set.IntVar(&c.Burst, "burst", c.Burst, "new connections at once, before the rate holds")
	set.IntVar(&c.MaxConnections, "connections", c.MaxConnections, "connections at a time")
	set.DurationVar(&c.MaxAge, "age", c.MaxAge, "life of a connection")
	set.StringVar(&f.ageEnd, "age-end", "eof", "how it ends: eof or fatal")
	set.StringVar(&f.cancel, "cancel", "ignore", "cancel requests: ignore (as a cluster does) or honour")
	set.BoolVar(&c.AllowCopy, "copy", false, "let COPY through")
	set.DurationVar(&c.LockTimeout, "lock-timeout", c.LockTimeout, "longest wait for another transaction inside PostgreSQL")
	set.BoolVar(&c.SchemaConflicts, "schema-conflicts", c.SchemaConflicts, "fail other sessions with OC001 after a change of the schema")
	set.IntVar(&c.LedgerSize, "ledger", c.LedgerSize, "events that the ledger remembers")
}

func (f *flags) token(set *pflag.FlagSet) {
	set.StringVar(&f.user, "user", "admin", "role that the token is for")
	set.DurationVar(&f.tokenLife, "expires", defaultTokenLife, "life of the token")
}

// choose turns the flags that name a choice into configuration.
func (f *flags) choose() error {
	var err error
	if f.config.HonourCancel, err = choice("cancel", f.cancel, "ignore", "honour"); err != nil {
		return err
	}
	f.config.AgeFatal, err = choice("age-end", f.ageEnd, "eof", "fatal")
	return err
}

// choice tells whether the second of two words was given.
func choice(flag, given, first, second string) (bool, error) {
	switch given {
	case first:
		return false, nil
	case second:
		return true, nil
	}
	return false, fmt.Errorf("--%s %q: want %s or %s", flag, given, first, second)
}
