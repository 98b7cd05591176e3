package proxy

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// This file reads the schema snapshot: all relations of the database, read for mapped columns (bytea keys stored as
// text). A statement's meaning depends on the snapshot, so no statement is planned before the first. Sluice reads it on
// a backend of no session, once for all sessions that wait. resolvenames.go asks for it before each query.
//
// A snapshot includes relations without mapped columns, since the search path may find them before a mapped table of
// the same name. It is read again after a schema change that this process has seen (the catalog's epoch). Two more
// causes are a server's error about an unknown name, and a query with a name that the snapshot lacks.
//
// Other processes may change the schema unseen, and some statements would still succeed with wrong columns, since
// Sluice expands SELECT *. So no query goes to a backend that knows a newer schema than the snapshot (refreshSchema).
// DSQL makes this possible. A backend that is older than the change gets OC001 at its next statement, which makes the
// snapshot old. On a newer backend, Sluice reads the schema before anything else. A replay plans its queries again
// (replan.go).
//
// If a reading fails, the older snapshot remains in use. Without a snapshot, queries wait for a backend that answers.
// If the server refuses the schema query, queries that name no relation pass (planWithoutNames). Others get the
// server's error, and Sluice asks again after one second.

// schemaCache reads and holds the schema snapshot. The zero value belongs to a Server that maps no columns.
type schemaCache struct {
	enabled       bool
	refusesMapped bool // this process maps nothing, and refuses statements that name a mapped table
	checked       bool // a CHECK constraint marks each mapped column

	current atomic.Pointer[schemaSnapshot]
	// sawNameError is set after a server's error about an unknown relation or column, until the schema is read again.
	sawNameError atomic.Bool
	// pendingLoads is the number of requested schema readings that have not succeeded, or whose end waiters have not seen.
	pendingLoads atomic.Int32

	mu         sync.Mutex
	sharedLoad *pendingSchemaLoad // in progress, or nil. Guarded by mu
	// ownLoad is a schema reading on a session's own backend, or nil. It may run beside sharedLoad, a reading that may have
	// to wait for a backend. The field mu guards it.
	ownLoad         *pendingSchemaLoad
	loadEndedAt     time.Time // when the last reading ended; guarded by mu
	nameErrorLoadAt time.Time // when the last reading after an error of unknown names ended; guarded by mu
	loadError       error     // result of the last reading; guarded by mu
	base            atomic.Pointer[schemaBase]
}

// schemaSnapshot is the schema as read in one epoch of the catalog (epochs count schema changes). It contains all
// changes made before readAt. In a later epoch the snapshot is old.
type schemaSnapshot struct {
	*schema.Schema
	base   *schemaBase
	epoch  uint64
	readAt time.Time
}

// schemaBase is the part of the schema that does not change while the process lives: the server's own relations, the
// backends' role, and their initial search path.
type schemaBase struct {
	relations []schema.Relation
	role      string
	path      []string
}

// pendingSchemaLoad is one reading of the schema, shared by all that wait for it. err is valid once done is closed.
type pendingSchemaLoad struct {
	done chan struct{}
	err  error
}

// These durations bound readings of the schema. A session waits schemaWait for a schema snapshot, or schemaWaitInBlock
// if it holds a backend in a block. After the server refused, no change of the schema is read for schemaRest. Between
// two readings because of unknown names, missingRest passes.
const (
	schemaWait        = exchangeTimeout + 3*time.Second // time for one lost answer and a second try
	schemaWaitInBlock = time.Second
	schemaRest        = time.Second
	missingRest       = 250 * time.Millisecond
)

// schemaLoadCause returns the reason for reading the schema, as in metrics, or "" if the snapshot is current.
func (srv *Server) schemaLoadCause() string {
	k := &srv.keeper
	switch now := k.current.Load(); {
	case now == nil:
		return metrics.LoadStart
	case now.epoch != srv.templates.Epoch():
		return metrics.LoadChange
	case k.sawNameError.Load():
		return metrics.LoadError
	}
	return ""
}

// beginSchemaLoad starts a schema reading that finishSchemaLoad ends. mine is false if another caller has started a
// reading, and r is then that reading. If a reading for the same cause has just ended, r is nil, and the caller uses
// the snapshot that it has. The reading should begin after rest.
func (srv *Server) beginSchemaLoad(cause string) (r *pendingSchemaLoad, mine bool, rest time.Duration) {
	k := &srv.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sharedLoad != nil {
		return k.sharedLoad, false, 0
	}
	since := time.Since(k.loadEndedAt)
	switch {
	case cause == metrics.LoadError && !k.mayLoadForNamesLocked(), cause == metrics.LoadChange && since < schemaRest && isRefusedSchemaLoad(wrapSchemaError(k.loadError)), k.wasRefusedLocked(cause):
		return nil, false, 0
	case cause == metrics.LoadMissing:
		rest = max(0, missingRest-since)
	}
	k.sharedLoad = &pendingSchemaLoad{done: make(chan struct{})}
	return k.sharedLoad, true, rest
}

// beginOwnLoad starts a schema reading on a session's own backend, which endOwnLoad ends. It does not wait for a
// reading by beginSchemaLoad, since that reading may itself wait for this session's backend.
func (k *schemaCache) beginOwnLoad(cause string) (r *pendingSchemaLoad, mine bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.ownLoad != nil:
		return k.ownLoad, false
	case cause == metrics.LoadError && !k.mayLoadForNamesLocked(), k.wasRefusedLocked(cause):
		return nil, false
	}
	k.ownLoad = &pendingSchemaLoad{done: make(chan struct{})}
	return k.ownLoad, true
}

// endOwnLoad ends a schema reading that beginOwnLoad started, and wakes the waiting sessions.
func (k *schemaCache) endOwnLoad(r *pendingSchemaLoad, cause string) {
	k.mu.Lock()
	k.ownLoad = nil
	if r.err != errReaderLeft { // errReaderLeft: nothing was read
		k.loadError = r.err
		k.recordLoadEndLocked(cause)
	}
	k.mu.Unlock()
	k.wakeWaiters(r)
}

// wakeWaiters wakes all sessions that wait for a schema reading. It reduces pendingLoads last, so that a session that
// sees 0 also sees the result.
func (k *schemaCache) wakeWaiters(r *pendingSchemaLoad) {
	close(r.done)
	if r.err == nil {
		k.pendingLoads.Add(-1)
	}
}

// wasAbandoned reports whether a schema reading ended with its session or backend. Another session must then read it.
func (r *pendingSchemaLoad) wasAbandoned() bool {
	select {
	case <-r.done:
		return r.err == errReaderLeft
	default:
		return false
	}
}

// mayLoadForNames reports whether the schema may be read again now because of an unknown name.
func (k *schemaCache) mayLoadForNames() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mayLoadForNamesLocked()
}

// mayLoadForNamesLocked reports whether the last reading because of an unknown name ended at least missingRest ago.
func (k *schemaCache) mayLoadForNamesLocked() bool {
	return time.Since(k.nameErrorLoadAt) >= missingRest
}

// wasRefusedLocked reports whether the server refused the first schema reading less than schemaRest ago.
func (k *schemaCache) wasRefusedLocked(cause string) bool {
	return cause == metrics.LoadStart && isRefusedSchemaLoad(wrapSchemaError(k.loadError)) && time.Since(k.loadEndedAt) < schemaRest
}

// recordLoadEndLocked records when a schema reading with the given cause ended.
func (k *schemaCache) recordLoadEndLocked(cause string) {
	k.loadEndedAt = time.Now()
	if cause == metrics.LoadError {
		k.nameErrorLoadAt = k.loadEndedAt
	}
}

// lastLoadError returns the error of the last schema reading, or nil. Callers must convert the error for clients.
func (k *schemaCache) lastLoadError() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.loadError
}

// finishSchemaLoad reads the schema by calling ask, and wakes all sessions that wait for r.
func (srv *Server) finishSchemaLoad(r *pendingSchemaLoad, cause string, ask func() (schemaLoad, error)) {
	r.err = srv.replaceSnapshot(cause, ask)
	k := &srv.keeper
	k.mu.Lock()
	k.sharedLoad, k.loadError = nil, r.err
	k.recordLoadEndLocked(cause)
	k.mu.Unlock()
	k.wakeWaiters(r)
}

// missingSchemaError returns the reason why no schema snapshot exists, or nil if one exists.
func (srv *Server) missingSchemaError() error {
	k := &srv.keeper
	if k.current.Load() != nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return wrapSchemaError(cmp.Or[error](k.loadError, errSchemaLate))
}

// startSchemaLoad starts a schema reading on a backend of no session. Its results are the same as for beginSchemaLoad.
func (srv *Server) startSchemaLoad(cause string) (r *pendingSchemaLoad, mine bool) {
	r, mine, rest := srv.beginSchemaLoad(cause)
	if mine {
		srv.running.Go(func() {
			if rest > 0 {
				select {
				case <-time.After(rest):
				case <-srv.ctx.Done():
				}
			}
			srv.finishSchemaLoad(r, cause, srv.querySchema)
		})
	}
	return r, mine
}

// replaceSnapshot calls ask and replaces the schema snapshot. An unchanged schema is the same object as before, so that
// plans made by it remain valid. After a change that Sluice had not noticed, a new epoch of the catalog drops all that
// Sluice has learned about queries.
func (srv *Server) replaceSnapshot(cause string, ask func() (schemaLoad, error)) error {
	k := &srv.keeper
	k.sawNameError.Store(false)
	epoch := srv.templates.Epoch()
	srv.metrics.CountSchemaLoad(cause)
	read, err := ask()
	if err != nil {
		srv.log.Warn("the relations of the database could not be read", "cause", cause, "error", err)
		return err
	}
	made := &schemaSnapshot{Schema: schema.New(read.relations), base: k.base.Load(), epoch: epoch, readAt: read.at}
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
		srv.templates.BeginEpoch()
		made.epoch = srv.templates.Epoch()
	}
	k.current.Store(made)
	if mapped := made.MappedRelations(); k.refusesMapped && len(mapped) > 0 && (was == nil || made.Schema != was.Schema) {
		srv.log.Warn("the database has tables with bytea columns that are stored as text, which this process does not map: statements over them are refused",
			"tables", len(mapped), "first", mapped[0].Schema+"."+mapped[0].Name, "remedy", "set rewrite.bytea: hex")
	}
	return nil
}

// UnmappedTables returns the number of mapped tables that this process refuses to use, and one name as "schema.table".
// It returns 0 and "" if Config.WatchMapped is off or no snapshot exists.
func (srv *Server) UnmappedTables() (tables int, first string) {
	now := srv.keeper.current.Load()
	if !srv.keeper.refusesMapped || now == nil {
		return 0, ""
	}
	mapped := now.MappedRelations()
	if len(mapped) == 0 {
		return 0, ""
	}
	return len(mapped), mapped[0].Schema + "." + mapped[0].Name
}

// querySchema reads all relations on a backend, which it borrows before queued sessions, since these may wait for the
// schema. Afterwards it returns the backend, or discards a backend that did not answer.
func (srv *Server) querySchema() (read schemaLoad, err error) {
	ctx, stop := context.WithTimeout(srv.ctx, srv.cfg.Startup.Timeout)
	defer stop()
	err = errors.New("the catalog could not be read")
	for range mostCatalogTries {
		var conn *reservoir.Conn
		if conn, err = srv.backends.AcquireAhead(ctx); err != nil {
			return schemaLoad{}, err
		}
		b := srv.usableBackend(conn)
		if b == nil {
			err = errClosed
			continue
		}
		read, err = srv.loadSchemaWith(func(query string, row func([]byte)) ([]byte, error) {
			return srv.queryUnheldBackend(ctx, b, query, row)
		})
		var refused *serverRefusal
		if err != nil && !errors.As(err, &refused) {
			b.src.DropBuffer()
			conn.Discard(reservoir.Broken)
			continue
		}
		b.release()
		return read, err
	}
	return schemaLoad{}, err
}
