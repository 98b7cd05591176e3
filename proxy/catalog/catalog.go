// Package catalog has the queries for the relations of a database, and makes schema.Relations from their rows. Package
// mapping reads the database by these queries.
package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// mostColumns is how many columns of a database a RelationBuilder accepts. DSQL allows 1,000 tables of 255 columns.
const mostColumns = 300_000

// SystemSchemas are the server's own schemas, as an SQL list. Their relations never change.
const SystemSchemas = `('pg_catalog', 'information_schema', 'sys')`

// ColumnsQuery returns the query for the columns of all relations. The parameter of is the condition on their schema:
// "IN" or "NOT IN", and SystemSchemas. Each row has the numbers of the primary key's columns. It also says whether a
// CHECK on a text column alone has the name suffix of mapped columns (bytea stored as text).
func ColumnsQuery(of string) string {
	return `SELECT n.nspname, c.relname, a.attname, a.attnum, CASE WHEN a.atttypid <> 25 THEN ''` +
		` WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_constraint w WHERE w.conrelid = c.oid AND w.contype = 'c' AND w.conkey = ARRAY[a.attnum]` +
		` AND pg_catalog.right(w.conname, 10) = '` + schema.MappedSuffix + `') THEN 'checked' ELSE 'text' END, p.conkey` +
		` FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace` +
		` LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped` +
		` LEFT JOIN pg_catalog.pg_constraint p ON p.conrelid = c.oid AND p.contype = 'p'` +
		` WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f', 'S') AND n.nspname ` + of + ` ORDER BY n.nspname, c.relname, a.attnum`
}

// MappedColumnsQuery returns only mapped columns (bytea stored as text). A process that maps no columns itself uses it.
const MappedColumnsQuery = `SELECT n.nspname, c.relname, a.attname, a.attnum, 'checked', NULL FROM pg_catalog.pg_attribute a` +
	` JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace` +
	` WHERE a.atttypid = 25 AND a.attnum > 0 AND NOT a.attisdropped AND pg_catalog.right(a.attname, 10) = '` + schema.MappedSuffix + `'` +
	` AND EXISTS (SELECT 1 FROM pg_catalog.pg_constraint w WHERE w.conrelid = c.oid AND w.contype = 'c' AND w.conkey = ARRAY[a.attnum]` +
	` AND pg_catalog.right(w.conname, 10) = '` + schema.MappedSuffix + `') ORDER BY n.nspname, c.relname, a.attnum`

// RelationBuilder builds relations from the rows of ColumnsQuery, one row per column, ordered by relation.
type RelationBuilder struct {
	// Checked means that a column counts as mapped (bytea stored as text) only if it has a CHECK with their suffix.
	Checked   bool
	Relations []schema.Relation
	key       []string // the numbers of the primary key's columns
	columns   int
}

// AddRow adds one row of the query for columns (ColumnsQuery) to the relations.
func (g *RelationBuilder) AddRow(row []string) error {
	if len(row) != 6 {
		return fmt.Errorf("a row of %d columns, want 6", len(row))
	}
	in, name, column, number, kind, key := row[0], row[1], row[2], row[3], row[4], row[5]
	n := len(g.Relations) - 1
	if n < 0 || g.Relations[n].Schema != in || g.Relations[n].Name != name {
		g.Relations = append(g.Relations, schema.Relation{Schema: in, Name: name})
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
	r, c := &g.Relations[n], schema.Column{Name: column}
	if natural, ok := strings.CutSuffix(column, schema.MappedSuffix); ok && natural != "" && (kind == "checked" || kind == "text" && !g.Checked) {
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

// DefaultsQuery returns one row for each column that has a default, is an identity, is computed, or has a time
// type. It also returns a row for each sequence, view and other relation that is not a table. Each row is one text of
// eight fields, joined by fieldSeparator, to make the answer short.
const DefaultsQuery = `SELECT n.nspname || chr(1) || c.relname || chr(1) || a.attname || chr(1) || a.attidentity::text || chr(1) || a.attgenerated::text || chr(1) || c.oid::text || chr(1) || a.atttypid::text || '/' || a.atttypmod::text || chr(1) ||` +
	` coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid), pg_catalog.pg_get_expr(t.typdefaultbin, 0), '') AS f` +
	` FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace` +
	` JOIN pg_catalog.pg_type t ON t.oid = a.atttypid LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum` +
	` WHERE c.relkind IN ('r', 'p', 'f', 'v') AND a.attnum > 0 AND NOT a.attisdropped AND (a.atthasdef OR a.attidentity <> '' OR t.typdefaultbin IS NOT NULL OR a.atttypid IN (1082, 1083, 1114, 1184, 1266))` +
	` AND n.nspname NOT IN ` + SystemSchemas +
	` UNION ALL SELECT n.nspname || chr(1) || c.relname || chr(1) || chr(1) || chr(1) || chr(1) || CASE c.relkind WHEN 'S' THEN c.oid::text ELSE '' END || chr(1) || chr(1)` +
	` FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind NOT IN ('r', 'p') AND n.nspname NOT IN ` + SystemSchemas

// timeTypes has the OIDs of date, time, timestamp, timestamptz and timetz, which are the same in every database.
var timeTypes = map[string]bool{"1082": true, "1083": true, "1114": true, "1184": true, "1266": true}

// fieldSeparator, chr(1), separates the fields in a row of DefaultsQuery.
const fieldSeparator = "\x01"

// column names a column, or with the name "" a relation. A mapped column (bytea stored as text) has its server name.
type column struct{ schema, relation, name string }

// Defaults records how the server fills columns, by the rows of DefaultsQuery. The zero value is empty.
type Defaults struct {
	fills map[column]schema.Column
	// ids has the OIDs of relations as text, and kinds those relations that are views or sequences.
	ids   map[column]string
	kinds map[column]schema.Relation
}

// AddRow records one row of DefaultsQuery. value is the row's only column.
func (d *Defaults) AddRow(value string) error {
	row := strings.SplitN(value, fieldSeparator, 8)
	if len(row) < 8 {
		return errors.New("a row in other parts than were asked for")
	}
	if d.fills == nil {
		d.fills, d.ids, d.kinds = map[column]schema.Column{}, map[column]string{}, map[column]schema.Relation{}
	}
	at := column{row[0], row[1], row[2]}
	d.ids[column{row[0], row[1], ""}] = row[5]
	if at.name == "" {
		d.kinds[at] = schema.Relation{View: row[5] == "", Sequence: row[5] != ""}
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
	d.fills[at] = c
	return nil
}

// Apply records in relations how the server fills their columns, by the rows that AddRow has recorded.
func (d *Defaults) Apply(relations []schema.Relation) {
	for i := range relations {
		r := &relations[i]
		whole := column{r.Schema, r.Name, ""}
		r.View, r.Sequence, r.ID = d.kinds[whole].View, d.kinds[whole].Sequence, d.ids[whole]
		for j := range r.Columns {
			c := &r.Columns[j]
			known := d.fills[column{r.Schema, r.Name, c.ServerName()}]
			c.Fill, c.Time, c.Kind, c.Always, c.Computed = known.Fill, known.Time, known.Kind, known.Always, known.Computed
		}
	}
}

// MarkDefaultsUnclear records that it is unknown how the server fills the columns of the relations.
func MarkDefaultsUnclear(relations []schema.Relation) {
	for i := range relations {
		r := &relations[i]
		r.View = true
		for j := range r.Columns {
			r.Columns[j].Fill = schema.Unclear
		}
	}
}
