package dsqlsim

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// These are quotas of a cluster (AWS documentation, "Cluster quotas and database limits", 2026).
const (
	DefaultRate           = 100              // new connections per second
	DefaultBurst          = 1000             // size of their token bucket
	DefaultMaxConnections = 10_000           // connections at a time
	DefaultMaxAge         = 60 * time.Minute // life of a connection
)

// These are defaults of settings that only dsqlsim has.
const (
	DefaultLockTimeout = 20 * time.Millisecond
	DefaultLedgerSize  = 50_000
)

// Config is the configuration of a Server. It must not change after New.
type Config struct {
	// Endpoint is the cluster's host name, <26 letters and digits>.dsql.<region>.on.aws. Clients name it in SNI and token,
	// and the certificate is for it.
	Endpoint string
	// Upstream is the connection string of the PostgreSQL server, without TLS ("host=/tmp port=5433 user=postgres"). The
	// database defaults to postgres.
	Upstream string
	// AccessKeyID and SecretAccessKey are the key pair with which tokens must be signed.
	AccessKeyID, SecretAccessKey string
	// SessionToken, when set, must be in the token (X-Amz-Security-Token).
	SessionToken string
	// CertDir is the directory that stores the certificate authority, so that clients trust a server after a restart.
	// Empty: each server makes a new authority.
	CertDir string

	Rate           float64
	Burst          int
	MaxConnections int
	// MaxAge is the age at which the server ends a connection, as soon as it is idle. Five minutes later, the longest life
	// of a transaction, the server ends it in any case.
	MaxAge time.Duration
	// AgeFatal makes the server send a FATAL error before it ends a connection for its age. Without it the client sees
	// EOF.
	AgeFatal bool

	// HonourCancel makes cancel requests work. Real clusters ignore them.
	HonourCancel bool
	// AllowCopy allows COPY, which a real cluster is not known to support.
	AllowCopy bool
	// AllowByteaKeys allows bytea columns in a key, which a real cluster refuses.
	AllowByteaKeys bool
	// OldLocking refuses FOR UPDATE over several tables, and without equality on the whole primary key, as clusters did
	// before August 2026.
	OldLocking bool
	// WithoutEncode refuses encode() and decode() in the statements of clients. Views and CHECKs that use them still work.
	// All known clusters have both functions.
	WithoutEncode bool
	// AllowDomainChanges allows ALTER DOMAIN with ADD CONSTRAINT or SET NOT NULL, and DROP DOMAIN CASCADE.
	AllowDomainChanges bool
	// WithoutSequenceDefaults refuses nextval in a DEFAULT, and WithoutSequenceOwners the OWNED BY of a sequence. The
	// documentation says that a cluster accepts both; neither is recorded.
	WithoutSequenceDefaults, WithoutSequenceOwners bool
	// WithoutSuspension refuses an Execute with a limit on rows, by which a client reads a portal in parts. How a cluster
	// answers is not recorded.
	WithoutSuspension bool
	// LocksOutsideBlocks makes a locking clause outside of a block lock its rows until the implicit transaction
	// ends. Otherwise the clause has no effect outside of a block. How a cluster behaves is not recorded.
	LocksOutsideBlocks bool
	// Limits are the limits on transactions, messages, values and the schema.
	Limits Limits
	// JobDelay is the time that the background work of CREATE INDEX ASYNC and VALIDATE CONSTRAINT takes.
	JobDelay time.Duration
	// LockTimeout is how long a statement may wait for another transaction inside PostgreSQL. After half of it the
	// server parks an idle transaction that blocks the statement. The effects of a parked transaction are undone
	// until its client continues.
	LockTimeout time.Duration
	// SchemaConflicts makes statements and commits of all other sessions fail with OC001 after a change of the schema.
	SchemaConflicts bool
	// KeyConflicts treats a unique or foreign key violated by a row that the transaction cannot see as a conflict (OC000
	// at COMMIT). Without it the statement fails as in PostgreSQL. How a cluster behaves is not recorded.
	KeyConflicts bool
	// ReportsConflictEarly concerns a doomed transaction, whose COMMIT will fail. The transaction fails already at
	// the first statement that might show less than it has written, or another snapshot. A cluster shows everything
	// and fails the COMMIT. ReportsConflictEarly serves clients that return to a savepoint before the COMMIT.
	ReportsConflictEarly bool
	// LedgerSize is the number of events that the ledger remembers.
	LedgerSize int
	// Faults is a JSON list of faults to inject (see FaultPlanHelp), which are planned from the start.
	Faults []byte
	// Logger gets a line for each refused connection and each lost PostgreSQL connection. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// DefaultConfig returns a Config with the quotas of a real cluster. The caller sets the endpoint, the upstream and the
// key pair.
func DefaultConfig() Config {
	return Config{
		Rate:           DefaultRate,
		Burst:          DefaultBurst,
		MaxConnections: DefaultMaxConnections,
		MaxAge:         DefaultMaxAge,
		Limits:         DefaultLimits(),
		JobDelay:       DefaultJobDelay,
		LockTimeout:    DefaultLockTimeout,
		LedgerSize:     DefaultLedgerSize,

		SchemaConflicts: true,
		KeyConflicts:    true,
	}
}

// endpointForm matches a public endpoint of a cluster (AWS connector sources, 2026).
var endpointForm = regexp.MustCompile(`^[a-z0-9]{26}\.dsql[^.]*\.([a-z0-9-]+)\.on\.aws$`)

// Validate returns all problems of the configuration. Each names the flag of cmd/dsqlsim that sets the field.
func (c *Config) Validate() error {
	var problems []error
	wrong := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	wrong(endpointForm.MatchString(c.Endpoint), "endpoint %q: want <26 letters or digits>.dsql.<region>.on.aws", c.Endpoint)
	wrong(c.Upstream != "", `upstream "": want how to reach a PostgreSQL, such as "host=/var/run/postgresql user=postgres"`)
	wrong(c.AccessKeyID != "", `access-key "": want the access key that tokens are signed with`)
	wrong(c.SecretAccessKey != "", `secret-key "": want the secret that tokens are signed with`)
	wrong(c.Rate > 0, "rate %v: must be positive", c.Rate)
	wrong(c.Burst > 0, "burst %d: must be positive", c.Burst)
	wrong(c.MaxConnections > 0, "connections %d: must be positive", c.MaxConnections)
	wrong(c.MaxAge > 0, "age %v: must be positive", c.MaxAge)
	wrong(c.LockTimeout >= time.Millisecond, "lock-timeout %v: must be 1ms or more", c.LockTimeout)
	wrong(c.LedgerSize > 0, "ledger %d: must be positive", c.LedgerSize)
	if _, err := pgconn.ParseConfig(c.Upstream); err != nil {
		problems = append(problems, fmt.Errorf("upstream: %w", err))
	}
	if len(c.Faults) > 0 {
		for _, problem := range splitJoinedError(new(faultPlan).addJSON(c.Faults)) {
			problems = append(problems, fmt.Errorf("faults: %w", problem))
		}
	}
	wrong(c.JobDelay > 0, "job-delay %v: must be positive", c.JobDelay)
	problems = append(problems, c.Limits.validate())
	return errors.Join(problems...)
}

// region returns the AWS region that the endpoint names.
func (c *Config) region() string { return endpointForm.FindStringSubmatch(c.Endpoint)[1] }
