package dsqlsim

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Quotas of a cluster (AWS documentation, "Cluster quotas and database limits", 2026).
const (
	DefaultRate           = 100              // new connections per second
	DefaultBurst          = 1000             // size of their token bucket
	DefaultMaxConnections = 10_000           // connections at a time
	DefaultMaxAge         = 60 * time.Minute // life of a connection
)

// Defaults of the stand-in's own.
const (
	DefaultLockTimeout = 20 * time.Millisecond
	DefaultLedgerSize  = 50_000
)

// Config is everything that New needs. Nothing in it changes afterwards.
type Config struct {
	// Endpoint is the cluster's host name, <26 letters and digits>.dsql.<region>.on.aws:
	// the name in SNI, certificate and token.
	Endpoint string
	// Upstream is the PostgreSQL behind it, as a connection string without TLS
	// ("host=/tmp port=5433 user=postgres"). The database defaults to postgres.
	Upstream string
	// The key pair that tokens must be signed with.
	AccessKeyID, SecretAccessKey string
	// SessionToken, when set, must be in the token (X-Amz-Security-Token).
	SessionToken string
	// CertDir keeps the certificate authority, so that a server started anew is trusted as
	// the one before it. Empty: each server makes an authority of its own.
	CertDir string

	Rate           float64
	Burst          int
	MaxConnections int
	// MaxAge ends a connection at its first idle moment after that time, and in
	// any case five minutes later, the longest that a transaction may live.
	MaxAge time.Duration
	// AgeFatal says FATAL before such an end; otherwise the client sees EOF.
	AgeFatal bool

	// HonourCancel lets cancel requests work. Real clusters ignore them.
	HonourCancel bool
	// AllowCopy lets COPY through, which a real cluster is not known to support.
	AllowCopy bool
	// AllowByteaKeys lets bytea be in a key, which a real cluster refuses.
	AllowByteaKeys bool
	// OldLocking refuses FOR UPDATE over several tables, and without equality on
	// the whole primary key, as clusters did before August 2026.
	OldLocking bool
	// WithoutEncode knows no encode() and decode(), in the texts of clients: views and
	// CHECKs that have them go on. No cluster is known to lack them.
	WithoutEncode bool
	// AllowDomainChanges takes ALTER DOMAIN with ADD CONSTRAINT or SET NOT NULL, and DROP DOMAIN CASCADE.
	AllowDomainChanges bool
	// WithoutSequenceDefaults refuses nextval in a DEFAULT, and WithoutSequenceOwners the OWNED BY of a
	// sequence. Documents let a cluster take both; neither is recorded.
	WithoutSequenceDefaults, WithoutSequenceOwners bool
	// WithoutSuspension refuses an Execute with a limit on rows, by which a portal is read in
	// parts. What a cluster does is not recorded.
	WithoutSuspension bool
	// LocksOutsideBlocks has a locking clause outside of a block lock its rows, until the statements that are one
	// transaction with it end. Without it the clause does nothing there. What a cluster does is not recorded.
	LocksOutsideBlocks bool
	// Limits are those of transactions, messages, values and the schema.
	Limits Limits
	// JobDelay is how long the background work of CREATE INDEX ASYNC and
	// VALIDATE CONSTRAINT takes.
	JobDelay time.Duration
	// LockTimeout is how long a statement may wait for another transaction inside
	// PostgreSQL. After half of it a transaction that idles is taken out of the way.
	LockTimeout time.Duration
	// SchemaConflicts fails statements and commits of the other sessions with OC001
	// after a change of the schema.
	SchemaConflicts bool
	// KeyConflicts takes a unique or foreign key violated by a row that the
	// transaction cannot see for a conflict (OC000 at COMMIT). What a cluster does is
	// not recorded; without it the statement fails as in PostgreSQL.
	KeyConflicts bool
	// TellsAtOnce has a doomed transaction told of its conflict by the first statement that
	// PostgreSQL could show less than the transaction has written, or another snapshot. A
	// cluster shows all, and tells at COMMIT: for clients that return to a savepoint before.
	TellsAtOnce bool
	// LedgerSize is how many events the ledger remembers.
	LedgerSize int
	// Faults, a JSON list of them (see PlanHelp), are planned from the start.
	Faults []byte
	// Logger gets a line per refused connection and lost upstream. Nil: none.
	Logger *slog.Logger
}

// DefaultConfig has the quotas of a real cluster; the caller adds endpoint,
// upstream and key pair.
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

// endpointForm is the form of a public endpoint (AWS connector sources, 2026).
var endpointForm = regexp.MustCompile(`^[a-z0-9]{26}\.dsql[^.]*\.([a-z0-9-]+)\.on\.aws$`)

// Validate reports everything that is wrong with the configuration, each
// problem under the name that the program's flag has.
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
		for _, problem := range problemsOf(new(plan).addJSON(c.Faults)) {
			problems = append(problems, fmt.Errorf("faults: %w", problem))
		}
	}
	wrong(c.JobDelay > 0, "job-delay %v: must be positive", c.JobDelay)
	problems = append(problems, c.Limits.validate())
	return errors.Join(problems...)
}

// region is the part of the endpoint that names it.
func (c *Config) region() string { return endpointForm.FindStringSubmatch(c.Endpoint)[1] }
