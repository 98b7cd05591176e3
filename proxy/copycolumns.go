package proxy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/copyrows"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// The table of a COPY that is carried out by INSERTs: what it is, and which of its columns the data
// have. The catalog is asked each time, as a server does that takes a COPY: between two of them the
// table may have become another. What changes between the look and an INSERT the server tells then.

// byteaOID is the type of a mapped column, as clients know it.
const byteaOID = 17

// lookUp returns the columns that the data have, in their order. It asks the catalog, in the
// client's block where there is one: the block may have made the table. A table that the COPY
// names and nobody has is the server's error of the cast to regclass, which is that of COPY.
func (c *copying) lookUp() ([]copyrows.Facts, error) {
	query := fmt.Sprintf(`SELECT c.relkind, c.relhasrules, a.attname, CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE a.atttypid END, a.attgenerated <> '', a.attidentity = 'a'`+
		` FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped`+
		` LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid WHERE c.oid = %s::pg_catalog.regclass ORDER BY a.attnum`, literal(c.Table))
	end, err := c.ask(query, silent.Select)
	if err != nil {
		return nil, err
	}
	if why := end.why(); why != nil {
		return nil, why
	}
	var all []copyrows.Facts
	for payload := range end.own.Rows() {
		row := columnsOf(payload)
		if len(row) != 6 {
			return nil, errInternal
		}
		if bad := copyrows.ErrKind(row[0], c.Name); bad != nil {
			return nil, toldOf(bad, c.Name)
		}
		if row[1] == "t" { // COPY goes by no rules, an INSERT does
			return nil, c.errNotCarried("which has rules")
		}
		oid, _ := strconv.ParseUint(row[3], 10, 32)
		if row[2] != "" { // a table may have no columns
			all = append(all, copyrows.Facts{Column: copyrows.Column{Name: row[2], Type: uint32(oid)}, Generated: row[4] == "t", Always: row[5] == "t"})
		}
	}
	if err := c.asKnown(all); err != nil {
		return nil, err
	}
	columns, bad := copyrows.Chosen(c.Name, all, c.Columns)
	switch {
	case bad != nil:
		return nil, toldOf(bad, c.Name)
	case len(columns) == 0: // there are no VALUES of nothing
		return nil, c.errNotCarried("which has no columns to write to")
	}
	return columns, nil
}

// errNotCarried refuses a table that COPY takes and INSERTs cannot stand for.
func (c *copying) errNotCarried(why string) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("COPY to the table \"%s\", %s, is not carried out by INSERTs (%s)", c.Name, why, rewrite.CopyFromKey),
		Hint: "Write INSERTs of at most 3,000 rows."}
}

// asKnown gives mapped columns the name and type that clients know them by: the data have these,
// and an INSERT that names them is planned as a client's is.
func (c *copying) asKnown(all []copyrows.Facts) error {
	names, err := c.s.names()
	if err != nil {
		return err
	}
	relation := names.Relation(c.Schema, c.Name)
	for i := range all {
		name, suffixed := strings.CutSuffix(all[i].Name, schema.MappedSuffix)
		if !suffixed || relation == nil {
			continue
		}
		if known, ok := relation.Column(name); ok && known.Mapped {
			all[i].Name, all[i].Type, c.mapped = name, byteaOID, true
		}
	}
	return nil
}

// isAlways reports whether one of the columns draws its own numbers, whatever an INSERT says.
func isAlways(columns []copyrows.Facts) bool {
	return slices.ContainsFunc(columns, func(c copyrows.Facts) bool { return c.Always })
}

// toldOf is an error of the data, or of what is said of them, as the client is told it.
func toldOf(e *copyrows.Error, table string) *wire.Error {
	return &wire.Error{Code: e.Code, Message: e.Message, Detail: e.Detail, Hint: e.Hint, Context: e.Context(table)}
}
