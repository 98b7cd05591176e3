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

// The questions by which a backend tells the relations of the database, and what becomes of
// the answers. mapping.go chooses the moment and the backend.

// mostColumns is how many columns a database may have. DSQL takes 1,000 tables of 255
// columns.
const mostColumns = 300_000

// systemSchemas are those of the server itself, whose relations stay as they are.
const systemSchemas = `('pg_catalog', 'information_schema', 'sys')`

// askColumns asks for the columns of all relations, of the server's own or of all others. A
// column of type text tells whether a CHECK of that column alone has a name that ends in the
// suffix: RENAME COLUMN leaves it its name. The key is given with each column.
func askColumns(of string) string {
	return `SELECT n.nspname, c.relname, a.attname, a.attnum, CASE WHEN a.atttypid <> 25 THEN ''` +
		` WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_constraint w WHERE w.conrelid = c.oid AND w.contype = 'c' AND w.conkey = ARRAY[a.attnum]` +
		` AND pg_catalog.right(w.conname, 10) = '` + schema.MappedSuffix + `') THEN 'checked' ELSE 'text' END, p.conkey` +
		` FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace` +
		` LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped` +
		` LEFT JOIN pg_catalog.pg_constraint p ON p.conrelid = c.oid AND p.contype = 'p'` +
		` WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f', 'S') AND n.nspname ` + of + ` ORDER BY n.nspname, c.relname, a.attnum`
}

// Questions that are asked once. reset_val is the search path whatever the last client of the
// backend has set.
const (
	askRole = "SELECT session_user"
	askPath = "SELECT reset_val FROM pg_catalog.pg_settings WHERE name = 'search_path'"
)

// usualPath is the search path of a server that does not tell its own.
const usualPath = `"$user", public`

// askMapped asks for mapped columns alone, where nothing is mapped here: they have a CHECK.
const askMapped = `SELECT n.nspname, c.relname, a.attname, a.attnum, 'checked', NULL FROM pg_catalog.pg_attribute a` +
	` JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace` +
	` WHERE a.atttypid = 25 AND a.attnum > 0 AND NOT a.attisdropped AND pg_catalog.right(a.attname, 10) = '` + schema.MappedSuffix + `'` +
	` AND EXISTS (SELECT 1 FROM pg_catalog.pg_constraint w WHERE w.conrelid = c.oid AND w.contype = 'c' AND w.conkey = ARRAY[a.attnum]` +
	` AND pg_catalog.right(w.conname, 10) = '` + schema.MappedSuffix + `') ORDER BY n.nspname, c.relname, a.attnum`

// reading is what one reading of the schema has found, and when it began.
type reading struct {
	relations []schema.Relation
	at        time.Time
}

// refusedError is an error of the server's to a question of Sluice's own: the backend lives
// on.
type refusedError struct{ code, message string }

// Error is for the log.
func (e *refusedError) Error() string { return serverSaid + e.code + ": " + e.message }

// serverSaid begins the text of a refusedError.
const serverSaid = "the server said "

// asker sends a question to one backend, and gives its rows to row.
type asker func(query string, row func(payload []byte)) (refusal []byte, err error)

// schemaBy reads the schema by one backend, again where that is told of a change of the
// schema. A *refusedError leaves the backend as it was; behind any other error it is of no use.
// Without an error the reading still counts as asked: whoever waits for it is told first (told).
func (srv *Server) schemaBy(ask asker) (read reading, err error) {
	srv.keeper.asked.Add(1)
	defer func() {
		if err != nil {
			srv.keeper.asked.Add(-1)
		}
	}()
	for range mostCatalogTries {
		read.at = time.Now()
		read.relations, err = srv.allRelations(ask)
		var refused *refusedError
		if !errors.As(err, &refused) || refused.code != retry.StateConflict {
			break
		}
	}
	return read, err
}

// allRelations asks for the relations. What stays as it is is asked once per process.
func (srv *Server) allRelations(ask asker) ([]schema.Relation, error) {
	k := &srv.keeper
	if k.watch {
		return srv.relationsBy(ask, askMapped)
	}
	base := k.base.Load()
	if base == nil {
		var err error
		if base, err = srv.baseBy(ask); err != nil {
			return nil, err
		}
		k.base.Store(base)
	}
	began := time.Now()
	made, err := srv.columnsBy(ask, "NOT IN "+systemSchemas)
	if err == nil {
		err = srv.fill(ask, made, time.Since(began))
	}
	if err != nil {
		return nil, err
	}
	return slices.Concat(base.relations, made), nil
}

// baseBy asks for what stays as it is.
func (srv *Server) baseBy(ask asker) (*schemaBase, error) {
	base := &schemaBase{}
	var err error
	if base.relations, err = srv.columnsBy(ask, "IN "+systemSchemas); err != nil {
		return nil, err
	}
	for i := range base.relations {
		base.relations[i].View = true // some are, and tell the time
	}
	if base.role, err = srv.valueBy(ask, askRole); err != nil {
		return nil, err
	}
	own, err := srv.valueBy(ask, askPath)
	var refused *refusedError
	if err != nil && !errors.As(err, &refused) {
		return nil, err
	}
	if own == "" {
		own = usualPath
	}
	base.path, _ = rawPath(own)
	return base, nil
}

// valueBy asks for one value; "" where there is no row.
func (srv *Server) valueBy(ask asker, query string) (value string, err error) {
	err = srv.rowsBy(ask, query, func(columns []string) error {
		value = columns[0]
		return nil
	})
	return value, err
}

// columnsBy asks for relations, of the schemas that a condition names.
func (srv *Server) columnsBy(ask asker, of string) ([]schema.Relation, error) {
	return srv.relationsBy(ask, askColumns(of))
}

// relationsBy asks for relations by a question of the form of askColumns.
func (srv *Server) relationsBy(ask asker, query string) ([]schema.Relation, error) {
	g := relationGatherer{checked: srv.keeper.checked}
	err := srv.rowsBy(ask, query, g.add)
	return g.relations, err
}

// rowsBy gives the rows of a query to row, each as text, NULL as "". Behind an error of row's
// the others are left out; it is returned as a *refusedError, since the backend is sound.
func (srv *Server) rowsBy(ask asker, query string, row func(columns []string) error) error {
	var bad error
	refusal, err := ask(query, func(payload []byte) {
		if columns := columnsOf(payload); bad == nil && len(columns) > 0 {
			bad = row(columns)
		}
	})
	switch {
	case err != nil:
		return err
	case refusal != nil:
		return &refusedError{string(retry.Field(refusal, 'C')), string(retry.Field(refusal, 'M'))}
	case bad != nil:
		return &refusedError{"54000", bad.Error()}
	}
	return nil
}

// relationGatherer makes relations of rows, one for each column, in the order of the
// relations.
type relationGatherer struct {
	checked   bool
	relations []schema.Relation
	key       []string // the numbers of the key's columns
	columns   int
}

// add takes a row of askColumns.
func (g *relationGatherer) add(row []string) error {
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
