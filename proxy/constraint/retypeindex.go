package constraint

import (
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// This file reads the indexes of a column that gets another type (retype.go), and tests their expressions with that
// type. It also creates their copies over the new column.

// columnIndex is an index of the old column, or of an expression or a condition over it. like has the statement that
// creates the index's copy, or is nil for the index of a constraint.
type columnIndex struct {
	alter.ColumnIndex
	like *alter.IndexCopy
}

// asText returns the index as text, for a comparison with a later reading.
func (i *columnIndex) asText() string {
	if i.like == nil {
		return fmt.Sprint(i.ColumnIndex)
	}
	return fmt.Sprint(i.Name, i.like.Text)
}

// readIndexes reads the indexes over the column from the catalog, one row for each key of an index.
func (r *ColumnRetyper) readIndexes() error {
	f := &r.facts
	err := r.server.Ask(fmt.Sprintf(`SELECT i.relname, x.indisunique, x.indisvalid AND NOT x.indisreplident AND pg_catalog.obj_description(x.indexrelid, 'pg_class') IS NULL`+
		` AND (p.oid IS NULL OR p.conname = i.relname AND NOT x.indnullsnotdistinct AND NOT EXISTS (SELECT 1 FROM pg_catalog.unnest(x.indoption) o WHERE o <> 0)),`+
		` p.oid IS NOT NULL, COALESCE(p.condeferrable, false), COALESCE(p.condeferred, false), a.attname, k.n <= x.indnkeyatts, pg_catalog.pg_get_indexdef(x.indexrelid)`+
		` FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid LEFT JOIN pg_catalog.pg_constraint p ON p.conindid = x.indexrelid AND p.contype = 'u'`+
		` CROSS JOIN pg_catalog.unnest(x.indkey) WITH ORDINALITY k (at, n) LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.at`+
		` WHERE x.indrelid = %s AND NOT x.indisprimary AND (%s = ANY (x.indkey) OR EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass`+
		` AND d.objid = x.indexrelid AND d.refclassid = d.classid AND d.refobjid = x.indrelid AND d.refobjsubid = %s)) ORDER BY i.relname, k.n`, f.oid, f.number, f.number), func(v []string) {
		if len(v) != 9 {
			return
		}
		if n := len(f.indexes); n == 0 || f.indexes[n-1].Name != v[0] {
			r.addIndex(v)
		}
		last := &f.indexes[len(f.indexes)-1]
		if v[6] == r.from {
			v[6] = r.Column
		}
		if v[7] == "t" {
			last.Keys = append(last.Keys, v[6])
		} else {
			last.Including = append(last.Including, v[6])
		}
	})
	return err
}

// addIndex adds an index of the column to r.facts. v is the index's first row in the result of readIndexes' query.
func (r *ColumnRetyper) addIndex(v []string) {
	f := &r.facts
	i := columnIndex{ColumnIndex: alter.ColumnIndex{Name: v[0], Unique: v[1] == "t", Constraint: v[3] == "t", Deferrable: v[4] == "t", Deferred: v[5] == "t"}}
	plain := v[2] == "t"
	if !i.Constraint {
		i.like = r.CopyIndex(v[8], r.from, r.indexName(len(f.indexes)))
		plain = plain && i.like != nil
	}
	if f.Indexes = append(f.Indexes, v[0]); !plain {
		f.depend = append(f.depend, indexLabel(v[0]))
	}
	f.indexes = append(f.indexes, i)
}

// tryIndexExpressions makes the server parse the index expressions with the new type. If an expression has no meaning
// for that type, tryIndexExpressions returns PostgreSQL's error.
func (r *ColumnRetyper) tryIndexExpressions() error {
	for i := range r.facts.indexes {
		like := r.facts.indexes[i].like
		if like == nil {
			continue
		}
		if trial := like.TrialQuery(r.from); trial != "" {
			if err := r.server.Ask(trial, nil); err != nil {
				return r.withOwnNames(err)
			}
		}
	}
	return nil
}

// createIndexes creates indexes of the new column. If late is set, it creates those that need the column's values,
// otherwise the other ones.
func (r *ColumnRetyper) createIndexes(late bool) error {
	for i := range r.facts.indexes {
		if like := r.facts.indexes[i].like; (like != nil && like.Late) != late {
			continue
		}
		if err := r.createIndex(i); err != nil {
			return err
		}
	}
	return nil
}

// createIndex creates the i-th index of the new column. Dropping the column also drops the index.
func (r *ColumnRetyper) createIndex(i int) error {
	if err := r.server.CheckMayContinue(); err != nil {
		return err
	}
	of, name := &r.facts.indexes[i], r.indexName(i)
	if of.Constraint {
		return r.addConstraint(r.UniqueConstraint(&of.ColumnIndex, name))
	}
	w := &ConstraintAdder{server: r.server}
	id, err := w.startJob(of.like.Text)
	if err != nil {
		return err
	}
	end, err := w.awaitJob(id)
	if err != nil {
		return err
	}
	valid, err := w.awaitJobResult(name, end, fmt.Sprintf(`SELECT i.indisvalid FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = %s AND c.relname = %s`,
		r.facts.oid, quoteLiteral(name)), func() error { return r.indexFailure(of, name, end) })
	if err == nil && !valid {
		err = r.indexFailure(of, name, end)
	}
	return err
}

// indexFailure returns the error for an index that could not be created. The error is PostgreSQL's if rows show the
// cause.
func (r *ColumnRetyper) indexFailure(of *columnIndex, name string, end jobResult) error {
	if err := r.server.Ask(of.like.ComputeKeysQuery(), nil); err != nil {
		return err
	}
	var found *wire.Error
	if n := of.like.KeyCount(); of.Unique {
		var shown []string
		if err := r.server.Ask(fmt.Sprintf(`SELECT pg_catalog.pg_get_indexdef(x.indexrelid, k, true) FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class c ON c.oid = x.indexrelid`+
			` CROSS JOIN pg_catalog.generate_series(1, x.indnkeyatts) k WHERE x.indrelid = %s AND c.relname = %s ORDER BY k`, r.facts.oid, quoteLiteral(name)),
			func(v []string) { shown = append(shown, firstValue(v)) }); err != nil {
			return err
		}
		if err := r.server.Ask(of.like.DuplicateQuery(), func(v []string) {
			if len(v) == 2*n && len(shown) == n {
				found = duplicateKeyError(name, shown, v[:n], v[n:])
			}
		}); err != nil {
			return err
		}
	}
	if found != nil {
		found.Schema, found.Table = r.facts.schema, r.TableName()
		return found
	}
	return &wire.Error{Code: "55000", Message: fmt.Sprintf("index \"%s\" cannot be made for the new type", of.Name), Detail: end.details, Hint: "Send the statement again while nothing writes to the table."}
}
