package proxy

import (
	"errors"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/proxy/catalog"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// This file loads the relations of the database from a backend, by the queries of package catalog. mapping.go chooses
// the time and the backend.

// roleQuery and searchPathQuery run once per process. reset_val does not depend on the backend's earlier clients.
const (
	roleQuery       = "SELECT session_user"
	searchPathQuery = "SELECT reset_val FROM pg_catalog.pg_settings WHERE name = 'search_path'"
)

// defaultSearchPath is the search path of a server that does not report its own.
const defaultSearchPath = `"$user", public`

// schemaLoad is the result of reading the schema once. at is when the reading began.
type schemaLoad struct {
	relations []schema.Relation
	at        time.Time
}

// serverRefusal is the server's error for a query of Sluice's own. Sluice may continue to use the backend.
type serverRefusal struct{ code, message string }

// Error returns the server's SQLSTATE and message, for the log.
func (e *serverRefusal) Error() string { return serverSaid + e.code + ": " + e.message }

// serverSaid is the start of a serverRefusal's text.
const serverSaid = "the server said "

// queryFunc sends a query to one backend and calls row for each row.
type queryFunc func(query string, row func(payload []byte)) (refusal []byte, err error)

// loadSchemaWith reads the schema by one backend. It repeats the reading if the server reports a changed schema. After
// a *serverRefusal the backend can be used; after any other error it cannot. After success, keeper.pendingLoads counts
// the reading until the waiting sessions are woken.
func (srv *Server) loadSchemaWith(ask queryFunc) (read schemaLoad, err error) {
	srv.keeper.pendingLoads.Add(1)
	defer func() {
		if err != nil {
			srv.keeper.pendingLoads.Add(-1)
		}
	}()
	for range mostCatalogTries {
		read.at = time.Now()
		read.relations, err = srv.queryAllRelations(ask)
		var refused *serverRefusal
		if !errors.As(err, &refused) || refused.code != retry.StateConflict {
			break
		}
	}
	return read, err
}

// queryAllRelations queries the relations of the database. The server's own relations are queried once per process.
func (srv *Server) queryAllRelations(ask queryFunc) ([]schema.Relation, error) {
	k := &srv.keeper
	if k.refusesMapped {
		return srv.queryRelations(ask, catalog.MappedColumnsQuery)
	}
	base := k.base.Load()
	if base == nil {
		var err error
		if base, err = srv.querySchemaBase(ask); err != nil {
			return nil, err
		}
		k.base.Store(base)
	}
	began := time.Now()
	made, err := srv.querySchemaColumns(ask, "NOT IN "+catalog.SystemSchemas)
	if err == nil {
		err = srv.readColumnDefaults(ask, made, time.Since(began))
	}
	if err != nil {
		return nil, err
	}
	return slices.Concat(base.relations, made), nil
}

// querySchemaBase queries the part of the schema that never changes: the server's own relations, the role and the
// default search path.
func (srv *Server) querySchemaBase(ask queryFunc) (*schemaBase, error) {
	base := &schemaBase{}
	var err error
	if base.relations, err = srv.querySchemaColumns(ask, "IN "+catalog.SystemSchemas); err != nil {
		return nil, err
	}
	for i := range base.relations {
		base.relations[i].View = true // some are views, which can read the clock
	}
	if base.role, err = srv.queryValue(ask, roleQuery); err != nil {
		return nil, err
	}
	own, err := srv.queryValue(ask, searchPathQuery)
	var refused *serverRefusal
	if err != nil && !errors.As(err, &refused) {
		return nil, err
	}
	if own == "" {
		own = defaultSearchPath
	}
	base.path, _ = parseShownPath(own)
	return base, nil
}

// queryValue returns the single value that a query returns, or "" if there is no row.
func (srv *Server) queryValue(ask queryFunc, query string) (value string, err error) {
	err = srv.queryRows(ask, query, func(columns []string) error {
		value = columns[0]
		return nil
	})
	return value, err
}

// querySchemaColumns queries the relations of some schemas. of is "IN" or "NOT IN" with a list of schemas.
func (srv *Server) querySchemaColumns(ask queryFunc, of string) ([]schema.Relation, error) {
	return srv.queryRelations(ask, catalog.ColumnsQuery(of))
}

// queryRelations queries relations with a query whose rows have the form of catalog.ColumnsQuery.
func (srv *Server) queryRelations(ask queryFunc, query string) ([]schema.Relation, error) {
	g := catalog.RelationBuilder{Checked: srv.keeper.checked}
	err := srv.queryRows(ask, query, g.AddRow)
	return g.Relations, err
}

// queryRows calls row with the values of each row of a query, NULL as "". After an error of row the remaining rows are
// skipped, and the error becomes a *serverRefusal, because the backend remains usable.
func (srv *Server) queryRows(ask queryFunc, query string, row func(columns []string) error) error {
	var bad error
	refusal, err := ask(query, func(payload []byte) {
		if columns := textColumns(payload); bad == nil && len(columns) > 0 {
			bad = row(columns)
		}
	})
	switch {
	case err != nil:
		return err
	case refusal != nil:
		return &serverRefusal{string(retry.ErrorField(refusal, 'C')), string(retry.ErrorField(refusal, 'M'))}
	case bad != nil:
		return &serverRefusal{"54000", bad.Error()}
	}
	return nil
}
