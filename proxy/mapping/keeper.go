package mapping

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// This file has the schema snapshot, all relations of the database. A statement's meaning depends on the snapshot, so
// no statement is planned before the first. The process reads the schema once for all sessions that wait, on a backend
// that serves no session.
//
// A snapshot includes relations without mapped columns, since the search path may find them before a mapped table of
// the same name. The process reads the schema again after a schema change that it has seen (the catalog's epoch). Two
// more causes are a server's error about an unknown name, and a query with a name that the snapshot lacks.
//
// Other processes may change the schema unseen, and some statements would still succeed with wrong columns, since
// Sluice expands SELECT *. So no query goes to a backend that knows a newer schema than the snapshot. DSQL makes this
// possible. A backend that is older than the change gets OC001 at its next statement, which begins an epoch. On a newer
// backend, the session reads the schema before anything else (CauseOnBackend).
//
// If a reading fails, the older snapshot remains in use. If the server refuses a query of the reading, the next reading
// begins one second later.

// Server is the process to which a Keeper belongs. Several goroutines may call its methods at the same time.
type Server interface {
	// Epoch returns the epoch of the catalog, which counts the schema changes that the process has noticed. BeginEpoch
	// begins a new epoch, which makes everything invalid that the process has learned about queries.
	Epoch() uint64
	BeginEpoch()
	// Borrow calls load with a Query for a backend of no session. If load returns an error other than a *RefusedError,
	// Borrow discards the backend and may call load again with another. Borrow returns the error of the last call, or the
	// reason why no backend was available.
	Borrow(load func(ask Query) error) error
	// Context returns the context of the process's work, which ends with that work.
	Context() context.Context
	// Go runs f in a goroutine that the process awaits at its end.
	Go(f func())
	// Warn logs a warning with attributes.
	Warn(message string, attrs ...any)
	// CountLoad counts a reading of the schema by its cause, as in metrics.
	CountLoad(cause string)
}

// Use says what a process does with mapped columns (bytea keys stored as text). The zero value means nothing.
type Use struct {
	// Maps means that the process maps columns. Refuses means that it maps none, and refuses statements that name a
	// table with mapped columns.
	Maps, Refuses bool
	// Checked means that a CHECK constraint marks each mapped column.
	Checked bool
}

// Keeper reads and holds the schema snapshot of a process. Several goroutines may call its methods at the same time.
type Keeper struct {
	server Server
	use    Use

	current atomic.Pointer[Snapshot]
	base    atomic.Pointer[schemaBase]
	// sawNameError is set after a server's error about an unknown relation or column, until the schema is read again.
	sawNameError atomic.Bool
	// pendingLoads is the number of schema readings whose queries run, or whose success waiting sessions have not seen.
	pendingLoads atomic.Int32

	mu         sync.Mutex
	sharedLoad *Load // in progress, or nil. Guarded by mu
	// ownLoad is a reading on a session's own backend, or nil. It may run beside sharedLoad, a reading that may have to
	// wait for a backend. The field mu guards it.
	ownLoad         *Load
	loadEndedAt     time.Time // when the last reading ended; guarded by mu
	nameErrorLoadAt time.Time // when the last reading after an error of unknown names ended; guarded by mu
	loadError       error     // result of the last reading; guarded by mu
}

// NewKeeper returns a Keeper without a snapshot.
func NewKeeper(server Server, use Use) *Keeper { return &Keeper{server: server, use: use} }

// Snapshot is the schema as read in one epoch of the catalog (epochs count schema changes). It contains all changes
// made before readAt. In a later epoch the Snapshot is old. A Snapshot does not change.
type Snapshot struct {
	*schema.Schema
	base   *schemaBase
	epoch  uint64
	readAt time.Time
}

// Epoch returns the epoch in which the Snapshot is current: one of the process, or one of a transaction (ReadInBlock).
func (n *Snapshot) Epoch() uint64 { return n.epoch }

// MayBeOlderThan reports whether a backend whose catalog was current at the given time may know a newer schema.
func (n *Snapshot) MayBeOlderThan(currentAt time.Time) bool { return !currentAt.Before(n.readAt) }

// schemaBase is the part of the schema that does not change while the process lives: the server's own relations, the
// backends' role, and their initial search path.
type schemaBase struct {
	relations []schema.Relation
	role      string
	path      []string
}

// Maps reports whether the process maps columns: stores bytea keys as text.
func (k *Keeper) Maps() bool { return k.use.Maps }

// Refuses reports whether the process maps no columns and refuses statements that name a table with mapped columns.
func (k *Keeper) Refuses() bool { return k.use.Refuses }

// Snapshot returns the latest snapshot, or nil before the first reading.
func (k *Keeper) Snapshot() *Snapshot { return k.current.Load() }

// RecordNameError records that a server did not know a relation or column, which is a cause to read the schema.
func (k *Keeper) RecordNameError() { k.sawNameError.Store(true) }

// Cause returns the reason for reading the schema, as in metrics, or "" if the snapshot is current. epoch is the
// process's epoch of the catalog.
func (k *Keeper) Cause(epoch uint64) string {
	switch now := k.current.Load(); {
	case now == nil:
		return metrics.LoadStart
	case now.epoch != epoch:
		return metrics.LoadChange
	case k.sawNameError.Load():
		return metrics.LoadError
	}
	return ""
}

// CauseOnBackend returns the reason for reading the schema before a query goes to a backend. The backend's catalog
// was current at the time currentAt. If the backend may know a newer schema, the reason is metrics.LoadBackend, and
// the reading may begin at once.
func (k *Keeper) CauseOnBackend(epoch uint64, currentAt time.Time) string {
	cause := k.Cause(epoch)
	if (cause == "" || cause == metrics.LoadError) && k.current.Load().MayBeOlderThan(currentAt) {
		cause = metrics.LoadBackend
	}
	return cause
}

// replaceSnapshot reads the schema by ask and replaces the schema snapshot. An unchanged schema is the same object as
// before, so that plans made by it remain valid. After a change that the process had not noticed, a new epoch of the
// catalog begins. It drops all that the process has learned about queries.
func (k *Keeper) replaceSnapshot(cause string, ask func() (reading, error)) error {
	k.sawNameError.Store(false)
	epoch := k.server.Epoch()
	k.server.CountLoad(cause)
	read, err := ask()
	if err != nil {
		k.server.Warn(notReadMessage, "cause", cause, "error", err)
		return err
	}
	made := &Snapshot{Schema: schema.New(read.relations), base: k.base.Load(), epoch: epoch, readAt: read.at}
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.current.Load()
	switch {
	case was == nil:
	case was.readAt.After(made.readAt): // a reading that began later has ended earlier
		return nil
	case was.Equal(made.Schema):
		made.Schema = was.Schema
	case was.epoch == epoch:
		k.server.BeginEpoch()
		made.epoch = k.server.Epoch()
	}
	k.current.Store(made)
	if tables, first := k.UnmappedTables(); tables > 0 && (was == nil || made.Schema != was.Schema) {
		k.server.Warn("the database has tables with bytea columns that are stored as text, which this process does not map: statements over them are refused",
			"tables", tables, "first", first, "remedy", "set rewrite.bytea: hex")
	}
	return nil
}

// UnmappedTables returns the number of mapped tables that this process refuses to use, and one name as "schema.table".
// It returns 0 and "" if Refuses is false or no snapshot exists.
func (k *Keeper) UnmappedTables() (tables int, first string) {
	now := k.current.Load()
	if !k.use.Refuses || now == nil {
		return 0, ""
	}
	mapped := now.MappedRelations()
	if len(mapped) == 0 {
		return 0, ""
	}
	return len(mapped), mapped[0].Schema + "." + mapped[0].Name
}

// ReadInBlock reads the schema by ask, on the backend of a transaction that has run DDL. epoch is an epoch of that
// transaction. The snapshot is the transaction's: its Outside is the schema of other sessions. If the two are equal,
// they are the same object. A *RefusedError leaves the backend usable.
func (k *Keeper) ReadInBlock(ask Query, epoch uint64) (*Snapshot, error) {
	now := k.current.Load()
	relations, err := k.queryAllRelations(ask)
	if err != nil {
		return nil, err
	}
	own := schema.New(relations)
	if own.Outside = now.Schema; own.Equal(now.Schema) {
		own = now.Schema
	}
	return &Snapshot{Schema: own, base: now.base, epoch: epoch, readAt: now.readAt}, nil
}
