package proxy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The table of a COPY that is carried out by INSERTs: what it is, and which of its columns the data
// have. The errors are PostgreSQL's.

// byteaOID is the type of a mapped column, as clients know it.
const byteaOID = 17

// lookUp returns the columns that the data have, in their order. It asks the catalog, in the
// client's block where there is one.
func (c *copying) lookUp() ([]rewrite.CopyColumn, error) {
	query := fmt.Sprintf(`SELECT c.relkind, c.relhasrules, a.attname, CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE a.atttypid END, a.attgenerated <> '', a.attidentity = 'a'`+
		` FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped`+
		` LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid WHERE c.oid = %s::pg_catalog.regclass ORDER BY a.attnum`, literal(c.Table))
	end, err := c.s.turnInside(c.how, func() error { return c.s.ask(query) })
	if err != nil {
		return nil, err
	}
	if why := end.why(); why != nil {
		return nil, why
	}
	var all []rewrite.CopyColumn
	for frame := range framesOf(end.kept) {
		if frame[0] != wire.DataRow {
			continue
		}
		row := columnsOf(frame[wire.HeaderLen:])
		if len(row) != 6 {
			return nil, errInternal
		}
		if err := c.kind(row[0], row[1] == "t"); err != nil {
			return nil, err
		}
		oid, _ := strconv.ParseUint(row[3], 10, 32)
		if row[2] != "" {
			all = append(all, rewrite.CopyColumn{Name: row[2], Type: uint32(oid), Generated: row[4] == "t", Always: row[5] == "t"})
		}
	}
	if err := c.asKnown(all); err != nil {
		return nil, err
	}
	return c.chosen(all)
}

// kind is the error of a relation that takes no COPY, or not by INSERTs.
func (c *copying) kind(relkind string, rules bool) error {
	switch {
	case relkind == "v":
		return &wire.Error{Code: "42809", Message: fmt.Sprintf("cannot copy to view \"%s\"", c.Name)}
	case relkind == "m":
		return &wire.Error{Code: "42809", Message: fmt.Sprintf("cannot copy to materialized view \"%s\"", c.Name)}
	case relkind == "S":
		return &wire.Error{Code: "42809", Message: fmt.Sprintf("cannot copy to sequence \"%s\"", c.Name)}
	case relkind != "r" && relkind != "p":
		return &wire.Error{Code: "42809", Message: fmt.Sprintf("cannot copy to non-table relation \"%s\"", c.Name)}
	case rules:
		return &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("COPY to the table \"%s\", which has rules, is not carried out by INSERTs (%s)", c.Name, rewrite.CopyFromKey)}
	}
	return nil
}

// asKnown gives mapped columns the name and type that clients know them by.
func (c *copying) asKnown(all []rewrite.CopyColumn) error {
	names, err := c.s.names()
	if err != nil {
		return err
	}
	relation := names.Relation(c.Schema, c.Name)
	for i := range all {
		name, suffixed := strings.CutSuffix(all[i].Name, rewrite.MappedSuffix)
		if !suffixed || relation == nil {
			continue
		}
		if known, ok := relation.Column(name); ok && known.Mapped {
			all[i].Name, all[i].Type, c.mapped = name, byteaOID, true
		}
	}
	return nil
}

// chosen are the columns that the COPY names, or all that it can.
func (c *copying) chosen(all []rewrite.CopyColumn) (columns []rewrite.CopyColumn, err error) {
	if c.Columns == nil {
		columns = slices.DeleteFunc(all, func(column rewrite.CopyColumn) bool { return column.Generated })
		if len(columns) == 0 {
			return nil, &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("COPY to the table \"%s\", which has no columns, is not carried out by INSERTs (%s)", c.Name, rewrite.CopyFromKey)}
		}
		return columns, nil
	}
	for _, name := range c.Columns {
		is := func(column rewrite.CopyColumn) bool { return column.Name == name }
		i := slices.IndexFunc(all, is)
		switch {
		case i < 0:
			return nil, &wire.Error{Code: undefinedColumn, Message: fmt.Sprintf("column \"%s\" of relation \"%s\" does not exist", name, c.Name)}
		case all[i].Generated:
			return nil, &wire.Error{Code: "42P10", Message: fmt.Sprintf("column \"%s\" is a generated column", name), Detail: "Generated columns cannot be used in COPY."}
		case slices.ContainsFunc(columns, is):
			return nil, &wire.Error{Code: duplicateColumn, Message: fmt.Sprintf("column \"%s\" specified more than once", name)}
		}
		columns = append(columns, all[i])
	}
	return columns, nil
}
