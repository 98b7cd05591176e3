package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

// These are the default values of dsqlsim's flags. With these defaults a start needs only --upstream.
const (
	defaultEndpoint  = "localdevelopment0000000000.dsql.us-east-1.on.aws"
	defaultAccessKey = "AKIADSQLSIM"
	defaultSecretKey = "dsqlsim"
	defaultListen    = "127.0.0.1:5433"
	defaultAdmin     = "127.0.0.1:9433"
	defaultTokenLife = 15 * time.Minute // the default of the AWS SDKs
)

// flags holds the values of dsqlsim's command-line flags.
type flags struct {
	config                 dsqlsim.Config
	listen, admin          string
	cancel, ageEnd, faults string
	user                   string
	tokenLife              time.Duration

	problems []error // faults of single values
}

// defineClusterFlags defines the flags that the server and the token command share, such as the cluster's endpoint.
func (f *flags) defineClusterFlags(set *pflag.FlagSet) {
	f.config = dsqlsim.DefaultConfig()
	c := &f.config
	set.SortFlags = false
	set.StringVar(&c.Endpoint, "endpoint", defaultEndpoint, "host name of the cluster: 26 letters and digits, .dsql.<region>.on.aws")
	set.StringVar(&c.AccessKeyID, "access-key", defaultAccessKey, "access key that tokens are signed with")
	set.StringVar(&c.SecretAccessKey, "secret-key", defaultSecretKey, "its secret")
	set.StringVar(&c.SessionToken, "session-token", "", "session token that must be in the token")
	f.recordBadValues(set)
}

func (f *flags) defineServerFlags(set *pflag.FlagSet) {
	c := &f.config
	set.SortFlags = false
	set.StringVar(&c.Upstream, "upstream", "", `connection string of the PostgreSQL behind it, without TLS`)
	set.StringVar(&f.listen, "listen", defaultListen, "address for Postgres clients")
	set.StringVar(&f.admin, "admin", defaultAdmin, `address of the admin HTTP interface, "" for none`)
	set.StringVar(&c.CertDir, "cert-dir", "", "directory of ca.pem, the CA of the endpoint's certificate; created if missing, and used again at the next start")
	set.StringVar(&f.faults, "faults", "", "file with a list of faults to plan at the start, see below")
	set.Float64Var(&c.Rate, "rate", c.Rate, "new connections per second")
	set.IntVar(&c.Burst, "burst", c.Burst, "new connections at once, before the rate applies")
	set.IntVar(&c.MaxConnections, "connections", c.MaxConnections, "connections at a time")
	set.DurationVar(&c.MaxAge, "age", c.MaxAge, "life of a connection")
	set.StringVar(&f.ageEnd, "age-end", "eof", "how it ends: eof or fatal")
	set.StringVar(&f.cancel, "cancel", "ignore", "cancel requests: ignore (as a cluster does) or honour")
	set.BoolVar(&c.AllowCopy, "copy", false, "let COPY through")
	f.defineLimitFlags(set)
	set.DurationVar(&c.LockTimeout, "lock-timeout", c.LockTimeout, "longest wait for another transaction inside PostgreSQL")
	set.BoolVar(&c.KeyConflicts, "key-conflicts", c.KeyConflicts, "a key violated by a row that the transaction cannot see is a conflict at COMMIT")
	set.BoolVar(&c.SchemaConflicts, "schema-conflicts", c.SchemaConflicts, "fail other sessions with OC001 after a change of the schema")
	set.BoolVar(&c.ReportsConflictEarly, "tell-at-once", false, "report a conflict at the first statement that cannot see what its transaction wrote")
	set.IntVar(&c.LedgerSize, "ledger", c.LedgerSize, "number of events in the ledger")
	f.recordBadValues(set)
}

func (f *flags) defineTokenFlags(set *pflag.FlagSet) {
	set.SortFlags = false
	set.StringVar(&f.user, "user", "admin", "role that the token is for")
	set.DurationVar(&f.tokenLife, "expires", defaultTokenLife, "life of the token")
	f.recordBadValues(set)
}

// completeConfig turns the flags into a configuration. completeConfig returns all invalid flags in one error.
func (f *flags) completeConfig() error {
	problems := f.problems
	note := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	c := &f.config
	c.HonourCancel = f.parseChoice("cancel", f.cancel, "ignore", "honour", note)
	c.AgeFatal = f.parseChoice("age-end", f.ageEnd, "eof", "fatal", note)
	note(checkAddress("listen", f.listen))
	if f.admin != "" {
		note(checkAddress("admin", f.admin))
	}
	if f.faults != "" {
		var err error
		if c.Faults, err = os.ReadFile(f.faults); err != nil {
			note(fmt.Errorf("--faults: %w", err))
		}
	}
	for _, problem := range splitJoinedError(c.Validate()) {
		note(fmt.Errorf("--%w", problem))
	}
	return errors.Join(problems...)
}

// parseChoice reports whether the value given for a flag is the word second. The flag's only valid values are the
// words first and second. For any other value parseChoice calls note with an error.
func (*flags) parseChoice(flag, given, first, second string, note func(error)) bool {
	if given != first && given != second {
		note(fmt.Errorf("--%s %q: want %s or %s", flag, given, first, second))
	}
	return given == second
}

func checkAddress(flag, given string) error {
	if _, _, err := net.SplitHostPort(given); err != nil {
		return fmt.Errorf("--%s %q: want host:port, such as 127.0.0.1:5433", flag, given)
	}
	return nil
}
