package proxy

import (
	"errors"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// What the server fills columns in with, which a replay has to know of values that a client
// was told (keptvalues.go). A server need not tell: then all is unclear, and nothing is kept.
//
// What was read wrongly, since the schema has changed meanwhile, does no harm: a replay whose
// answer differs is refused, and a column takes a value that the server has once made for it.

// askFills asks for the columns that have a default, of their own or of their domain, are an
// identity or computed, or times, for sequences, and for other relations that are no tables. Each is one text, of eight
// parts with fillEnd between them: the answer is as short as may be, since sessions wait for it.
const askFills = `SELECT n.nspname || chr(1) || c.relname || chr(1) || a.attname || chr(1) || a.attidentity::text || chr(1) || a.attgenerated::text || chr(1) || c.oid::text || chr(1) || a.atttypid::text || '/' || a.atttypmod::text || chr(1) ||` +
	` coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid), pg_catalog.pg_get_expr(t.typdefaultbin, 0), '') AS f` +
	` FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace` +
	` JOIN pg_catalog.pg_type t ON t.oid = a.atttypid LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum` +
	` WHERE c.relkind IN ('r', 'p', 'f', 'v') AND a.attnum > 0 AND NOT a.attisdropped AND (a.atthasdef OR a.attidentity <> '' OR t.typdefaultbin IS NOT NULL OR a.atttypid IN (1082, 1083, 1114, 1184, 1266))` +
	` AND n.nspname NOT IN ` + systemSchemas +
	` UNION ALL SELECT n.nspname || chr(1) || c.relname || chr(1) || chr(1) || chr(1) || chr(1) || CASE c.relkind WHEN 'S' THEN c.oid::text ELSE '' END || chr(1) || chr(1)` +
	` FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind NOT IN ('r', 'p') AND n.nspname NOT IN ` + systemSchemas

// timeTypes are date, time, timestamp, timestamptz and timetz, in every database.
var timeTypes = map[string]bool{"1082": true, "1083": true, "1114": true, "1184": true, "1266": true}

// fillEnd is what the server makes of chr(1).
const fillEnd = "\x01"

// fillPatience is how long the question for the columns may have taken for this one to be asked
// as well: sessions wait for the answers, and can do without fills.
const fillPatience = time.Second

// fill tells the fills of relations, which are those of users; took is how long the question for
// their columns has taken. An error is a lost backend, or a change of the schema meanwhile.
func (srv *Server) fill(ask asker, relations []schema.Relation, took time.Duration) error {
	if took > fillPatience {
		unfilled(relations)
		return nil
	}
	// By names, as the server has them: of a mapped column with its suffix.
	type column struct{ schema, relation, name string }
	fills := map[column]schema.Column{}
	views, sequences, ids := map[column]bool{}, map[column]bool{}, map[column]string{}
	err := srv.rowsBy(ask, askFills, func(row []string) error {
		if row = strings.SplitN(row[0], fillEnd, 8); len(row) < 8 {
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
			if c.Fill = schema.FillOf(row[7]); c.Fill == schema.Clock {
				c.Time = schema.TimeOf(row[6], row[7])
			}
		}
		fills[at] = c
		return nil
	})
	var refused *refusedError
	// A server that refuses is not asked again before the schema is read for another reason.
	if errors.As(err, &refused) && refused.code != retry.StateConflict {
		unfilled(relations)
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
			known := fills[column{r.Schema, r.Name, c.Physical()}]
			c.Fill, c.Time, c.Kind, c.Always, c.Computed = known.Fill, known.Time, known.Kind, known.Always, known.Computed
		}
	}
	return nil
}

// unfilled marks relations as those of which nobody knows what the server fills them with.
func unfilled(relations []schema.Relation) {
	for i := range relations {
		r := &relations[i]
		r.View = true
		for j := range r.Columns {
			r.Columns[j].Fill = schema.Unclear
		}
	}
}
