package constraint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// This file reads the catalog about a column that gets another type (retype.go), and decides whether a new column can
// replace it. Every dependency of the column must be known and created again.

// retypeFacts describe a column that gets another type, and its dependencies.
type retypeFacts struct {
	alter.ColumnFacts
	oid, schema, kind string // of the table
	number            string // of the column
	from, to          string // types, by their names in the catalog
	own               string // properties that another column could not have
	depend            []string
	indexes           []columnIndex
	holds             []columnConstraint
}

// columnConstraint is a CHECK or FOREIGN KEY of the old column in the catalog's notation. made is the text of its copy
// for the new column. loose says that the constraint and its copy are NOT VALID.
type columnConstraint struct {
	name, shown, made string
	loose             bool
}

// isSame reports whether f and g, two readings of the catalog, show the same column with the same dependencies.
func (f *retypeFacts) isSame(g *retypeFacts) bool {
	return f.Default == g.Default && f.NotNull == g.NotNull && f.own == g.own && f.number == g.number && slices.Equal(f.depend, g.depend) &&
		slices.EqualFunc(f.indexes, g.indexes, func(a, b columnIndex) bool { return a.asText() == b.asText() }) &&
		slices.EqualFunc(f.holds, g.holds, func(a, b columnConstraint) bool { return a.name == b.name && a.made == b.made && a.loose == b.loose })
}

// readColumn reads the column and its dependencies from the catalog. readColumn returns false if the column is missing.
//
// The server compares the types, because a type has several names (int, int4, integer) and a modifier, for example a
// length.
func (r *ColumnRetyper) readColumn(told *wire.Error) (there bool, err error) {
	f := &r.facts
	err = r.server.Ask(fmt.Sprintf(`SELECT pg_catalog.format_type(a.atttypid, a.atttypmod), a.atttypid = n.oid, a.attnotnull, COALESCE(a.attnum = ANY (p.conkey), false),`+
		` COALESCE(pg_catalog.pg_get_expr(d.adbin, d.adrelid), ''), c.oid, s.nspname, c.relkind, a.attnum,`+
		` CASE WHEN o.typnamespace = n.typnamespace AND n.typnamespace = 'pg_catalog'::pg_catalog.regnamespace THEN o.typname ELSE '' END, n.typname,`+
		` concat_ws(', ', CASE WHEN a.attidentity <> '' THEN 'an identity' END, CASE WHEN a.attgenerated <> '' THEN 'a generation expression' END,`+
		` CASE WHEN a.attacl IS NOT NULL THEN 'privileges' END, CASE WHEN a.attoptions IS NOT NULL THEN 'options' END,`+
		` CASE WHEN a.attcollation <> o.typcollation THEN 'a collation' END,`+
		` CASE WHEN pg_catalog.col_description(c.oid, a.attnum) IS NOT NULL THEN 'a comment' END)`+
		` FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace`+
		` JOIN pg_catalog.pg_type o ON o.oid = a.atttypid JOIN pg_catalog.pg_type n ON n.oid = %s::pg_catalog.regtype`+
		` LEFT JOIN pg_catalog.pg_constraint p ON p.conrelid = a.attrelid AND p.contype = 'p'`+
		` LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum`+
		` WHERE a.attrelid = %s::pg_catalog.regclass AND a.attname = %s AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind = 'r'`,
		quoteLiteral(r.Type), quoteLiteral(r.Table), quoteLiteral(r.from)), func(v []string) {
		if len(v) == 12 {
			there = true
			f.ColumnFacts = alter.ColumnFacts{Type: v[0], IsOfType: v[1] == "t", NotNull: v[2] == "t", InKey: v[3] == "t", Default: v[4]}
			f.oid, f.schema, f.kind, f.number, f.from, f.to, f.own = v[5], v[6], v[7], v[8], v[9], v[10], v[11]
		}
	})
	if err != nil || !there || r.HasNewType(f.ColumnFacts) {
		return there, err
	}
	for _, look := range []func() error{r.readConstraints, r.readIndexes, r.readOtherDependencies} {
		if err := look(); err != nil {
			return true, err
		}
	}
	return true, nil
}

// readConstraints reads the column's constraints from the catalog, except the CHECK that this statement has added
// (sealName). UNIQUE is read with its index.
func (r *ColumnRetyper) readConstraints() error {
	f := &r.facts
	return r.server.Ask(fmt.Sprintf(`SELECT conname, contype, pg_catalog.pg_get_constraintdef(oid), NOT (confrelid = %s AND %s = ANY (COALESCE(confkey, '{}'))), convalidated`+
		` FROM pg_catalog.pg_constraint WHERE conrelid = %s AND %s = ANY (conkey) OR confrelid = %s AND %s = ANY (confkey) ORDER BY 1`,
		f.oid, f.number, f.oid, f.number, f.oid, f.number), func(v []string) {
		if len(v) != 5 || v[1] == "u" || v[1] == "p" || v[1] == "n" || v[0] == r.sealName() {
			return
		}
		loose := v[4] != "t"
		if loose {
			v[2] = strings.TrimSuffix(v[2], " NOT VALID")
		}
		if made := r.CopiedConstraint(v[2], r.from, r.NewColumn); made != nil && v[3] == "t" {
			f.holds = append(f.holds, columnConstraint{v[0], v[2], made.Text, loose})
		} else {
			f.depend = append(f.depend, constraintLabel(v[0]))
		}
	})
}

// readOtherDependencies reads the column's dependencies that are neither constraints nor indexes: views, expressions,
// sequences.
func (r *ColumnRetyper) readOtherDependencies() error {
	f := &r.facts
	return r.server.Ask(fmt.Sprintf(`SELECT DISTINCT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid) FROM pg_catalog.pg_depend d`+
		` WHERE d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid = %s AND d.refobjsubid = %s AND d.classid <> 'pg_catalog.pg_constraint'::pg_catalog.regclass`+
		` AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_attrdef f WHERE d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND f.oid = d.objid AND f.adrelid = d.refobjid AND f.adnum = d.refobjsubid)`+
		` AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_index x WHERE d.classid = d.refclassid AND x.indexrelid = d.objid AND x.indrelid = d.refobjid) ORDER BY 1`,
		f.oid, f.number), func(v []string) { f.depend = append(f.depend, v...) })
}

// checkRetypable returns the server's refusal, with a DETAIL, if Sluice cannot change the column's type by a second
// column, or nil. The error's HINT has statements that the client can send instead.
func (r *ColumnRetyper) checkRetypable(told *wire.Error) error {
	f := &r.facts
	with := *told
	with.Detail = fmt.Sprintf("The column \"%s\" is of type %s: on DSQL it can get no other.", r.Column, f.Type)
	with.Hint = r.RebuildHint(f.ColumnFacts)
	switch {
	case !r.Retypes:
		if alter.CanRetype(f.from, f.to) && !f.InKey && f.own == "" && len(f.depend) == 0 {
			with.Hint = alter.RetypeHint(with.Hint)
		}
		return &with
	case f.InKey:
		return &with
	case !alter.CanRetype(f.from, f.to):
		with.Detail += fmt.Sprintf(" For another of type %s to take its place (%s) both must be strings, or both numbers.", r.Type, alter.RetypeKey)
		return &with
	case f.own != "":
		with.Detail += fmt.Sprintf(" No other can take its place (%s), since it has %s.", alter.RetypeKey, f.own)
		return &with
	case len(f.depend) > 0:
		with.Detail += fmt.Sprintf(" No other can take its place (%s), since this depends on it: %s.", alter.RetypeKey, strings.Join(f.depend, ", "))
		return &with
	case f.NotNull && !r.Checks:
		with.Detail += fmt.Sprintf(" No other can take its place (%s), since it is NOT NULL, which DSQL gives to no column that is there.", alter.RetypeKey)
		with.Hint = "Set " + alter.SetNotNullKey + " to check: it is a CHECK then. Or: " + with.Hint
		return &with
	}
	switch lacks, err := LacksBatches(r.server, r.Table); {
	case err != nil:
		return err
	case lacks:
		with.Detail = NoBatches
		return &with
	}
	if err := r.tryIndexExpressions(); err != nil {
		return err
	}
	return r.leftoverColumnsError(nil)
}

// leftoverColumnsError returns an error about the columns of another ALTER COLUMN ... TYPE, which was interrupted or is
// running. The error extends told, if told is not nil. leftoverColumnsError returns nil if the table has none.
func (r *ColumnRetyper) leftoverColumnsError(told *wire.Error) error {
	var made, was string
	err := r.server.Ask(fmt.Sprintf(`SELECT attname FROM pg_catalog.pg_attribute WHERE attrelid = pg_catalog.to_regclass(%s) AND attnum > 0 AND NOT attisdropped`, quoteLiteral(r.Table)),
		func(v []string) {
			name := firstValue(v)
			switch n := len(name) - 8; {
			case n != len(r.NewColumn)-8:
			case name[:n] == r.NewColumn[:n]:
				made = name
			case name[:n] == r.OldColumn[:n]:
				was = name
			}
		})
	if err != nil && r.server.RefusalFrom(err) == nil {
		return err
	}
	if made == "" && was == "" {
		if told != nil {
			return told
		}
		return nil
	}
	left := *r.ColumnTypeChange
	left.NewColumn, left.OldColumn = made, was
	with := &wire.Error{Code: "55000", Message: fmt.Sprintf("column \"%s\" is being given another type", r.Column), Detail: "Another statement is at it, or was cut: there is"}
	if told != nil {
		with.Code, with.Message = told.Code, told.Message
	}
	for _, name := range []string{made, was} {
		if name != "" {
			with.Detail += fmt.Sprintf(" \"%s\"", name)
		}
	}
	with.Detail += "."
	switch {
	case was == "" && told != nil: // the old column is gone
		with.Hint = "If no statement is at it any more: " + left.RenameNewSQL() + ". All values are in that column."
	case was == "":
		with.Hint = "If no statement is at it any more, drop it, and send this one again: " + left.DropNewSQL() + "."
	default:
		with.Hint = "If no statement is at it any more: " + left.RestoreOldNameSQL() + "; then drop the other, and send this one again."
	}
	return with
}
