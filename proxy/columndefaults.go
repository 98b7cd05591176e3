package proxy

import (
	"errors"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// This file reads how the server fills columns (defaults, identities), which replays need to know (recordedvalues.go).
// If the server refuses the query, every column counts as unclear, and a replay repeats no values.
//
// A schema change during the reading may make the result wrong, which does no harm. Sluice refuses a replay whose
// answer differs, and columns only get values that the server once made for them.

// columnDefaultsQuery returns one row for each column that has a default, is an identity, is computed, or has a time
// type. It also returns a row for each sequence, view and other relation that is not a table. Each row is one text of
// eight fields, joined by fieldSeparator, to make the answer short.
const columnDefaultsQuery = `SELECT n.nspname || chr(1) || c.relname || chr(1) || a.attname || chr(1) || a.attidentity::text || chr(1) || a.attgenerated::text || chr(1) || c.oid::text || chr(1) || a.atttypid::text || '/' || a.atttypmod::text || chr(1) ||` +
	` coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid), pg_catalog.pg_get_expr(t.typdefaultbin, 0), '') AS f` +
	` FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace` +
	` JOIN pg_catalog.pg_type t ON t.oid = a.atttypid LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum` +
	` WHERE c.relkind IN ('r', 'p', 'f', 'v') AND a.attnum > 0 AND NOT a.attisdropped AND (a.atthasdef OR a.attidentity <> '' OR t.typdefaultbin IS NOT NULL OR a.atttypid IN (1082, 1083, 1114, 1184, 1266))` +
	` AND n.nspname NOT IN ` + systemSchemas +
	` UNION ALL SELECT n.nspname || chr(1) || c.relname || chr(1) || chr(1) || chr(1) || chr(1) || CASE c.relkind WHEN 'S' THEN c.oid::text ELSE '' END || chr(1) || chr(1)` +
	` FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind NOT IN ('r', 'p') AND n.nspname NOT IN ` + systemSchemas

// timeTypes has the OIDs of date, time, timestamp, timestamptz and timetz, which are the same in every database.
var timeTypes = map[string]bool{"1082": true, "1083": true, "1114": true, "1184": true, "1266": true}

// fieldSeparator, chr(1), separates the fields in a row of columnDefaultsQuery.
const fieldSeparator = "\x01"

// maxColumnQueryTime limits how long the schema query for the columns may have taken. If that query took longer, Sluice
// does not send columnDefaultsQuery, since sessions wait for the two queries.
const maxColumnQueryTime = time.Second

// readColumnDefaults records in relations how the server fills their columns. took is how long the query for the
// columns took. An error means that the backend is lost, or that the schema has changed meanwhile.
func (srv *Server) readColumnDefaults(ask queryFunc, relations []schema.Relation, took time.Duration) error {
	if took > maxColumnQueryTime {
		markDefaultsUnclear(relations)
		return nil
	}
	// The keys have the server's column names, which have a suffix for mapped columns (bytea keys stored as text).
	type column struct{ schema, relation, name string }
	fills := map[column]schema.Column{}
	views, sequences, ids := map[column]bool{}, map[column]bool{}, map[column]string{}
	err := srv.queryRows(ask, columnDefaultsQuery, func(row []string) error {
		if row = strings.SplitN(row[0], fieldSeparator, 8); len(row) < 8 {
			return errors.New("a row in other parts than were asked for")
		}
		at := column{row[0], row[1], row[2]}
		ids[column{row[0], row[1], ""}] = row[5]
		if at.name == "" {
			sequences[at], views[at] = row[5] != "", row[5] == ""
			return nil
		}
		c := schema.Column{Always: row[3] == "a", Computed: row[4] != ""}
		if oid, _, _ := strings.Cut(row[6], "/"); timeTypes[oid] {
			c.Kind = row[6]
		}
		switch {
		case row[3] != "":
			c.Fill = schema.Drawn
		case !c.Computed:
			if c.Fill = schema.ClassifyDefault(row[7]); c.Fill == schema.Clock {
				c.Time = schema.TimeOfDefault(row[6], row[7])
			}
		}
		fills[at] = c
		return nil
	})
	var refused *serverRefusal
	// If the server refuses columnDefaultsQuery, Sluice asks again only when it reads the schema again.
	if errors.As(err, &refused) && refused.code != retry.StateConflict {
		markDefaultsUnclear(relations)
		return nil
	}
	if err != nil {
		return err
	}
	for i := range relations {
		r := &relations[i]
		whole := column{r.Schema, r.Name, ""}
		r.View, r.Sequence, r.ID = views[whole], sequences[whole], ids[whole]
		for j := range r.Columns {
			c := &r.Columns[j]
			known := fills[column{r.Schema, r.Name, c.ServerName()}]
			c.Fill, c.Time, c.Kind, c.Always, c.Computed = known.Fill, known.Time, known.Kind, known.Always, known.Computed
		}
	}
	return nil
}

// markDefaultsUnclear records that Sluice does not know how the server fills the columns of the relations.
func markDefaultsUnclear(relations []schema.Relation) {
	for i := range relations {
		r := &relations[i]
		r.View = true
		for j := range r.Columns {
			r.Columns[j].Fill = schema.Unclear
		}
	}
}
