package mapping

import (
	"errors"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/proxy/catalog"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// This file reads the relations of the database from one backend, by the queries of package catalog. load.go chooses
// the time and the backend.
//
// A reading also asks how the server fills columns (defaults, identities), which replays need to know. If the server
// refuses that query, every column counts as unclear, and a replay repeats no values. A schema change during the
// reading may make the result wrong, which does no harm. Sluice refuses a replay whose answer differs, and columns only
// get values that the server once made for them.

// roleQuery and searchPathQuery run once per process. reset_val does not depend on the backend's earlier clients.
const (
	roleQuery       = "SELECT session_user"
	searchPathQuery = "SELECT reset_val FROM pg_catalog.pg_settings WHERE name = 'search_path'"
)

// defaultSearchPath is the search path of a server that does not report its own.
const defaultSearchPath = `"$user", public`

// maxTries limits how often a reading is repeated after a 40001, or a session waits for readings of others.
const maxTries = 10

// maxColumnQueryTime limits how long the query for the columns may have taken. If that query took longer, a reading
// does not send catalog.DefaultsQuery, since sessions wait for the two queries.
const maxColumnQueryTime = time.Second

// Query sends a query to one backend, and calls row with the values of each row, NULL as "". row may be nil. A
// *RefusedError is the server's error. After any other error the backend cannot be used.
type Query func(sql string, row func(columns []string)) error

// reading is the result of reading the schema once. at is when the reading began.
type reading struct {
	relations []schema.Relation
	at        time.Time
}

// read reads the schema by one backend. It repeats the reading if the server reports a changed schema. After a
// *RefusedError the backend can be used; after any other error it cannot. After success, pendingLoads counts the
// reading until the waiting sessions are woken.
func (k *Keeper) read(ask Query) (read reading, err error) {
	k.pendingLoads.Add(1)
	defer func() {
		if err != nil {
			k.pendingLoads.Add(-1)
		}
	}()
	for range maxTries {
		read.at = time.Now()
		read.relations, err = k.queryAllRelations(ask)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Code != retry.StateConflict {
			break
		}
	}
	return read, err
}

// queryAllRelations queries the relations of the database. The server's own relations are queried once per process.
func (k *Keeper) queryAllRelations(ask Query) ([]schema.Relation, error) {
	r := reader{ask: ask, checked: k.use.Checked}
	if k.use.Refuses {
		return r.queryRelations(catalog.MappedColumnsQuery)
	}
	base := k.base.Load()
	if base == nil {
		var err error
		if base, err = r.queryBase(); err != nil {
			return nil, err
		}
		k.base.Store(base)
	}
	began := time.Now()
	made, err := r.queryRelations(catalog.ColumnsQuery("NOT IN " + catalog.SystemSchemas))
	if err == nil {
		err = r.queryDefaults(made, time.Since(began))
	}
	if err != nil {
		return nil, err
	}
	return slices.Concat(base.relations, made), nil
}

// reader queries the catalog on one backend. checked means that a CHECK constraint marks each mapped column.
type reader struct {
	ask     Query
	checked bool
}

// queryBase queries the part of the schema that never changes: the server's own relations, the role and the default
// search path.
func (r reader) queryBase() (*schemaBase, error) {
	base := &schemaBase{}
	var err error
	if base.relations, err = r.queryRelations(catalog.ColumnsQuery("IN " + catalog.SystemSchemas)); err != nil {
		return nil, err
	}
	for i := range base.relations {
		base.relations[i].View = true // some are views, which can read the clock
	}
	if base.role, err = r.queryValue(roleQuery); err != nil {
		return nil, err
	}
	own, err := r.queryValue(searchPathQuery)
	var refused *RefusedError
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
func (r reader) queryValue(sql string) (value string, err error) {
	err = r.queryRows(sql, func(columns []string) error {
		value = columns[0]
		return nil
	})
	return value, err
}

// queryRelations queries relations with a query whose rows have the form of catalog.ColumnsQuery.
func (r reader) queryRelations(sql string) ([]schema.Relation, error) {
	g := catalog.RelationBuilder{Checked: r.checked}
	err := r.queryRows(sql, g.AddRow)
	return g.Relations, err
}

// queryDefaults records in relations how the server fills their columns. took is how long the query for the columns
// took. An error means that the backend is lost, or that the schema has changed meanwhile.
func (r reader) queryDefaults(relations []schema.Relation, took time.Duration) error {
	if took > maxColumnQueryTime {
		catalog.MarkDefaultsUnclear(relations)
		return nil
	}
	var fills catalog.Defaults
	err := r.queryRows(catalog.DefaultsQuery, func(row []string) error { return fills.AddRow(row[0]) })
	var refused *RefusedError
	// If the server refuses catalog.DefaultsQuery, the next reading of the schema asks again.
	if errors.As(err, &refused) && refused.Code != retry.StateConflict {
		catalog.MarkDefaultsUnclear(relations)
		return nil
	}
	if err != nil {
		return err
	}
	fills.Apply(relations)
	return nil
}

// queryRows calls row with the values of each row of a query. After an error of row the remaining rows are skipped, and
// the error becomes a *RefusedError, because the backend remains usable.
func (r reader) queryRows(sql string, row func(columns []string) error) error {
	var bad error
	err := r.ask(sql, func(columns []string) {
		if bad == nil && len(columns) > 0 {
			bad = row(columns)
		}
	})
	if err == nil && bad != nil {
		err = &RefusedError{"54000", bad.Error()}
	}
	return err
}
