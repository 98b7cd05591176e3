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

// The snapshot of the relations by which columns are mapped (rewrite.bytea): what a text
// means depends on it, so that none is planned before there is one. The keeper reads it by a
// backend that no session holds, one reader for all who wait. mapnames.go asks for it in
// front of each text.
//
// A snapshot is of all relations, mapped or not: a table without mapped columns may stand in
// front of another of its name. It is as old as the last of these: the first text, a change of
// the schema that this process relayed or that a server told of (the epoch of the catalog), an
// error by which a server did not know a name, a text with a name that the snapshot lacks.
//
// What another process changes meanwhile, nobody tells, and some texts would be answered all
// the same: SELECT * is spelt out. So no text goes to a backend that knows a newer schema than
// the snapshot (meetSchema). DSQL keeps that: a backend that is older than a change gets OC001
// at its next statement, behind which the snapshot is old; and by one that is new, or was told
// of the change in front of a question of Sluice's own, the schema is read before anything
// else. A transaction that is run again is planned by the schema as it is then (replan.go).
//
// A reading that fails leaves an older snapshot in force. While there is none, texts wait for
// a backend that can be asked. Where one has been asked and the server refuses, as it may for
// good, texts that name no relation pass (nameless), the others are refused with the server's
// words, and it is asked again once a second.

// keeper has the snapshot of the schema. The zero value is that of a Server that maps
// nothing, and is never asked.
type keeper struct {
	on      bool
	watch   bool // nothing is mapped here: what names a mapped table is refused
	checked bool // a mapped column has a CHECK by which it is known

	now atomic.Pointer[snapshot]
	// erred: a server did not know a relation or column, since the snapshot.
	erred atomic.Bool
	// asked counts the readings that a server is asked for, until those who wait have been told.
	asked atomic.Int32

	mu      sync.Mutex
	reading *schemaRead // under way; nil for none. Guarded by mu
	// fitting is one by a session's own backend, beside the other, which may have to wait for
	// a backend. Guarded by mu.
	fitting *schemaRead
	ended   time.Time // of the last; guarded by mu
	looked  time.Time // when the last ended that was made for an error; guarded by mu
	failed  error     // of the last; guarded by mu
	base    atomic.Pointer[schemaBase]
}

// snapshot is the schema as it was read in an epoch of the catalog: a later epoch says that
// it is to be read again. It has all that was changed before the moment at.
type snapshot struct {
	*schema.Schema
	base  *schemaBase
	epoch uint64
	at    time.Time
}

// schemaBase is what stays as it is while the process lives: the server's own relations, the
// role of the backends, and the search path that they begin with.
type schemaBase struct {
	relations []schema.Relation
	role      string
	path      []string
}

// schemaRead is one reading of the schema, for all that wait for it. err counts behind done.
type schemaRead struct {
	done chan struct{}
	err  error
}

// Bounds of the snapshot: how long a session waits for one, also in a block, where its
// backend is held meanwhile; how long nobody reads for a change behind a reading that the
// server has refused, nor for a name, known to nobody or to no server, behind another such reading.
const (
	schemaWait        = exchangeTimeout + 3*time.Second // an answer that does not come, and another one
	schemaWaitInBlock = time.Second
	schemaRest        = time.Second
	missingRest       = 250 * time.Millisecond
)

// due is why the schema is to be read; "" where the snapshot stands.
func (srv *Server) schemaDue() string {
	k := &srv.keeper
	switch now := k.now.Load(); {
	case now == nil:
		return metrics.LoadStart
	case now.epoch != srv.catalog.epoch.Load():
		return metrics.LoadChange
	case k.erred.Load():
		return metrics.LoadError
	}
	return ""
}

// beginRead claims the reading of the schema, which finishRead ends. Where it is under way
// already, that one is returned, and mine is false. nil: it has been tried just now, and who
// has a snapshot goes on with it. rest is for how long the reading shall wait.
func (srv *Server) beginRead(cause string) (r *schemaRead, mine bool, rest time.Duration) {
	k := &srv.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reading != nil {
		return k.reading, false, 0
	}
	since := time.Since(k.ended)
	switch {
	case cause == metrics.LoadError && !k.mayLookLocked(), cause == metrics.LoadChange && since < schemaRest && isUntold(schemaError(k.failed)), k.untoldLocked(cause):
		return nil, false, 0
	case cause == metrics.LoadMissing:
		rest = max(0, missingRest-since)
	}
	k.reading = &schemaRead{done: make(chan struct{})}
	return k.reading, true, rest
}

// fit is beginRead for a reading by a session's own backend, which fitted ends. It goes on
// beside one by another backend: that one may have to wait until this session gives its own
// back.
func (k *keeper) fit(cause string) (r *schemaRead, mine bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.fitting != nil:
		return k.fitting, false
	case cause == metrics.LoadError && !k.mayLookLocked(), k.untoldLocked(cause):
		return nil, false
	}
	k.fitting = &schemaRead{done: make(chan struct{})}
	return k.fitting, true
}

// fitted ends a reading of fit, and tells all who wait.
func (k *keeper) fitted(r *schemaRead, cause string) {
	k.mu.Lock()
	k.fitting = nil
	if r.err != errReaderLeft { // or nothing has been tried
		k.failed = r.err
		k.lookedLocked(cause)
	}
	k.mu.Unlock()
	k.told(r)
}

// told tells all who wait for a reading that it has ended. Only then a server is no longer asked for
// it: a session that finds nobody asking finds the end of the reading.
func (k *keeper) told(r *schemaRead) {
	close(r.done)
	if r.err == nil {
		k.asked.Add(-1)
	}
}

// left reports whether a reading has ended with the session that made it, or with its backend: then
// somebody else is to make it.
func (r *schemaRead) left() bool {
	select {
	case <-r.done:
		return r.err == errReaderLeft
	default:
		return false
	}
}

// mayLook reports whether the schema may be read for an error by now.
func (k *keeper) mayLook() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mayLookLocked()
}

// mayLookLocked reports whether the last look at what is missing is long enough ago.
func (k *keeper) mayLookLocked() bool { return time.Since(k.looked) >= missingRest }

// untoldLocked reports whether the server has just refused to tell the relations, of which no
// snapshot is there.
func (k *keeper) untoldLocked(cause string) bool {
	return cause == metrics.LoadStart && isUntold(schemaError(k.failed)) && time.Since(k.ended) < schemaRest
}

// lookedLocked is told of the cause of a reading that has ended.
func (k *keeper) lookedLocked(cause string) {
	k.ended = time.Now()
	if cause == metrics.LoadError {
		k.looked = k.ended
	}
}

// failure is how the last reading ended: nil where it came to its end, or where none was made.
// The error is of the reader, and not yet one for a client.
func (k *keeper) failure() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failed
}

// finishRead reads the schema by ask, and tells all who wait.
func (srv *Server) finishRead(r *schemaRead, cause string, ask func() (reading, error)) {
	r.err = srv.renewSchema(cause, ask)
	k := &srv.keeper
	k.mu.Lock()
	k.reading, k.failed = nil, r.err
	k.lookedLocked(cause)
	k.mu.Unlock()
	k.told(r)
}

// noSchema is why there is no snapshot; nil where there is one.
func (srv *Server) noSchema() error {
	k := &srv.keeper
	if k.now.Load() != nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return schemaError(cmp.Or[error](k.failed, errSchemaLate))
}

// readSchema begins to read the schema by a backend that no session holds: see beginRead.
func (srv *Server) readSchema(cause string) (r *schemaRead, mine bool) {
	r, mine, rest := srv.beginRead(cause)
	if mine {
		srv.running.Go(func() {
			if rest > 0 {
				select {
				case <-time.After(rest):
				case <-srv.ctx.Done():
				}
			}
			srv.finishRead(r, cause, srv.askSchema)
		})
	}
	return r, mine
}

// renewSchema reads the schema and puts it in the place of the snapshot, which stays where
// nothing has changed: all that is planned by it holds. Where something has changed that
// nobody here was told of, what is remembered of texts holds no longer.
func (srv *Server) renewSchema(cause string, ask func() (reading, error)) error {
	k := &srv.keeper
	k.erred.Store(false)
	epoch := srv.catalog.epoch.Load()
	srv.metrics.SchemaLoaded(cause)
	read, err := ask()
	if err != nil {
		srv.log.Warn("the relations of the database could not be read", "cause", cause, "error", err)
		return err
	}
	made := &snapshot{Schema: schema.New(read.relations), base: k.base.Load(), epoch: epoch, at: read.at}
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.now.Load()
	switch {
	case was == nil:
	case was.at.After(made.at): // two have read at once
		return nil
	case was.Equal(made.Schema):
		made.Schema = was.Schema
	case was.epoch == epoch:
		srv.catalog.flush()
		made.epoch = srv.catalog.epoch.Load()
	}
	k.now.Store(made)
	if mapped := made.Mapped(); k.watch && len(mapped) > 0 && (was == nil || made.Schema != was.Schema) {
		srv.log.Warn("the database has tables with bytea columns that are stored as text, which this process does not map: statements over them are refused",
			"tables", len(mapped), "first", mapped[0].Schema+"."+mapped[0].Name, "remedy", "set rewrite.bytea: hex")
	}
	return nil
}

// Unmapped is how many tables with mapped columns the database has, as far as is known, where
// nothing is mapped here (Config.WatchMapped): statements over them are refused. first is one.
func (srv *Server) Unmapped() (tables int, first string) {
	now := srv.keeper.now.Load()
	if !srv.keeper.watch || now == nil {
		return 0, ""
	}
	mapped := now.Mapped()
	if len(mapped) == 0 {
		return 0, ""
	}
	return len(mapped), mapped[0].Schema + "." + mapped[0].Name
}

// askSchema asks a backend for all relations. The backend is borrowed ahead of those who wait
// in line, since they may wait for the schema, and given back, or discarded where its answer
// did not come.
func (srv *Server) askSchema() (read reading, err error) {
	ctx, stop := context.WithTimeout(srv.ctx, srv.cfg.Startup.Timeout)
	defer stop()
	err = errors.New("the catalog could not be read")
	for range mostCatalogTries {
		var conn *reservoir.Conn
		if conn, err = srv.backends.AcquireAhead(ctx); err != nil {
			return reading{}, err
		}
		b := srv.forQuestion(conn)
		if b == nil {
			err = errClosed
			continue
		}
		read, err = srv.schemaBy(func(query string, row func([]byte)) ([]byte, error) { return srv.askPlain(ctx, b, query, row) })
		var refused *refusedError
		if err != nil && !errors.As(err, &refused) {
			b.src.Drop()
			conn.Discard(reservoir.Broken)
			continue
		}
		b.release()
		return read, err
	}
	return reading{}, err
}
