package proxy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// This file has the queries that load the relations of the database from a backend, and parses their rows. mapping.go
// chooses the time and the backend.

// mostColumns is how many columns of a database Sluice reads at most. DSQL allows 1,000 tables of 255 columns.
const mostColumns = 300_000

// systemSchemas are the server's own schemas, whose relations never change.
const systemSchemas = `('pg_catalog', 'information_schema', 'sys')`

// columnsQuery returns the query for the columns of all relations. of is "IN" or "NOT IN" with systemSchemas. Each row
// has the numbers of the primary key's columns. For a text column, the row also says whether a CHECK on that column
// alone has a name with the suffix of mapped columns. RENAME COLUMN does not rename that CHECK.
func columnsQuery(of string) string {
	return `SELECT n.nspname, c.relname, a.attname, a.attnum, CASE WHEN a.atttypid <> 25 THEN ''` +
		` WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_constraint w WHERE w.conrelid = c.oid AND w.contype = 'c' AND w.conkey = ARRAY[a.attnum]` +
		` AND pg_catalog.right(w.conname, 10) = '` + schema.MappedSuffix + `') THEN 'checked' ELSE 'text' END, p.conkey` +
		` FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace` +
		` LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped` +
		` LEFT JOIN pg_catalog.pg_constraint p ON p.conrelid = c.oid AND p.contype = 'p'` +
		` WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f', 'S') AND n.nspname ` + of + ` ORDER BY n.nspname, c.relname, a.attnum`
}

// roleQuery and searchPathQuery run once per process. reset_val does not depend on the backend's earlier clients.
const (
	roleQuery       = "SELECT session_user"
	searchPathQuery = "SELECT reset_val FROM pg_catalog.pg_settings WHERE name = 'search_path'"
)

// defaultSearchPath is the search path of a server that does not report its own.
const defaultSearchPath = `"$user", public`

// mappedColumnsQuery returns only mapped columns (bytea stored as text). A process that maps no columns itself uses it.
const mappedColumnsQuery = `SELECT n.nspname, c.relname, a.attname, a.attnum, 'checked', NULL FROM pg_catalog.pg_attribute a` +
	` JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace` +
	` WHERE a.atttypid = 25 AND a.attnum > 0 AND NOT a.attisdropped AND pg_catalog.right(a.attname, 10) = '` + schema.MappedSuffix + `'` +
	` AND EXISTS (SELECT 1 FROM pg_catalog.pg_constraint w WHERE w.conrelid = c.oid AND w.contype = 'c' AND w.conkey = ARRAY[a.attnum]` +
	` AND pg_catalog.right(w.conname, 10) = '` + schema.MappedSuffix + `') ORDER BY n.nspname, c.relname, a.attnum`

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
		return srv.queryRelations(ask, mappedColumnsQuery)
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
	made, err := srv.querySchemaColumns(ask, "NOT IN "+systemSchemas)
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
	if base.relations, err = srv.querySchemaColumns(ask, "IN "+systemSchemas); err != nil {
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
	return srv.queryRelations(ask, columnsQuery(of))
}

// queryRelations queries relations with a query whose rows have the form of columnsQuery.
func (srv *Server) queryRelations(ask queryFunc, query string) ([]schema.Relation, error) {
	g := relationBuilder{checked: srv.keeper.checked}
	err := srv.queryRows(ask, query, g.addRow)
	return g.relations, err
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

// relationBuilder builds relations from the rows of columnsQuery, one row per column, ordered by relation.
type relationBuilder struct {
	checked   bool
	relations []schema.Relation
	key       []string // the numbers of the primary key's columns
	columns   int
}

// addRow adds one row of the query for columns (columnsQuery) to the relations.
func (g *relationBuilder) addRow(row []string) error {
	if len(row) != 6 {
		return fmt.Errorf("a row of %d columns, want 6", len(row))
	}
	in, name, column, number, kind, key := row[0], row[1], row[2], row[3], row[4], row[5]
	n := len(g.relations) - 1
	if n < 0 || g.relations[n].Schema != in || g.relations[n].Name != name {
		g.relations = append(g.relations, schema.Relation{Schema: in, Name: name})
		g.key = nil
		if key != "" {
			g.key = strings.Split(strings.Trim(key, "{}"), ",")
		}
		n++
	}
	if number == "" { // a relation without columns
		return nil
	}
	if g.columns++; g.columns > mostColumns {
		return errors.New("the database has more than " + strconv.Itoa(mostColumns) + " columns")
	}
	r, c := &g.relations[n], schema.Column{Name: column}
	if natural, ok := strings.CutSuffix(column, schema.MappedSuffix); ok && natural != "" && (kind == "checked" || kind == "text" && !g.checked) {
		c = schema.Column{Name: natural, Mapped: true}
	}
	r.Columns = append(r.Columns, c)
	if at := slices.Index(g.key, number); at >= 0 {
		for len(r.Key) < len(g.key) {
			r.Key = append(r.Key, "")
		}
		r.Key[at] = c.Name
	}
	return nil
}
