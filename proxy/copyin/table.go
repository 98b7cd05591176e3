package copyin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/copyrows"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// byteaOID is the OID of the type that clients see for a mapped column (bytea stored as text).
const byteaOID = 17

// queryColumns returns the columns of the COPY's data, in their order. It queries the catalog for each COPY, within
// the client's block if there is one, which may have created the table. If the table is missing, the server's error
// for the cast to regclass equals COPY's error. After later changes of the table the INSERTs fail.
func (c *Copy) queryColumns() ([]copyrows.ColumnFacts, error) {
	query := fmt.Sprintf(`SELECT c.relkind, c.relhasrules, a.attname, CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE a.atttypid END, a.attgenerated <> '', a.attidentity = 'a'`+
		` FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped`+
		` LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid WHERE c.oid = %s::pg_catalog.regclass ORDER BY a.attnum`, quoteLiteral(c.Table))
	result, err := c.runSilently(query, silent.ExpectSelect)
	if err != nil {
		return nil, err
	}
	if why := result.Cause(); why != nil {
		return nil, why
	}
	var all []copyrows.ColumnFacts
	for payload := range result.Answer.Rows() {
		row := silent.RowValues(payload)
		if len(row) != 6 {
			return nil, feature.ErrInternal
		}
		if bad := copyrows.CheckRelationKind(row[0], c.Name); bad != nil {
			return nil, wireError(bad, c.Name)
		}
		if row[1] == "t" { // rules rewrite an INSERT, and not a COPY
			return nil, c.errTable("which has rules")
		}
		oid, _ := strconv.ParseUint(row[3], 10, 32)
		if row[2] != "" { // a table may have no columns
			all = append(all, copyrows.ColumnFacts{Column: copyrows.Column{Name: row[2], Type: uint32(oid)}, Generated: row[4] == "t", Always: row[5] == "t"})
		}
	}
	if err := c.unmapColumns(all); err != nil {
		return nil, err
	}
	columns, bad := copyrows.SelectColumns(c.Name, all, c.Columns)
	switch {
	case bad != nil:
		return nil, wireError(bad, c.Name)
	case len(columns) == 0: // VALUES of no columns is a syntax error
		return nil, c.errTable("which has no columns to write to")
	}
	return columns, nil
}

// quoteLiteral returns a text as an SQL constant, for a server with standard_conforming_strings on.
func quoteLiteral(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// errTable returns the refusal of a table that COPY supports and INSERTs do not.
func (c *Copy) errTable(why string) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("COPY to the table \"%s\", %s, is not carried out by INSERTs (%s)", c.Name, why, rewrite.CopyFromKey),
		Hint: "Write INSERTs of at most 3,000 rows."}
}

// unmapColumns gives mapped columns (bytea stored as text) the name and type that clients see, as the client's data
// have them. Sluice plans an INSERT of the data like an INSERT of the client.
func (c *Copy) unmapColumns(all []copyrows.ColumnFacts) error {
	names, err := c.s.Names()
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

// hasAlwaysIdentity reports whether a column is GENERATED ALWAYS AS IDENTITY, so that an INSERT needs OVERRIDING SYSTEM
// VALUE.
func hasAlwaysIdentity(columns []copyrows.ColumnFacts) bool {
	return slices.ContainsFunc(columns, func(c copyrows.ColumnFacts) bool { return c.Always })
}

// wireError returns, in the form for the client, an error about the COPY's data or options.
func wireError(e *copyrows.Error, table string) *wire.Error {
	return &wire.Error{Code: e.Code, Message: e.Message, Detail: e.Detail, Hint: e.Hint, Context: e.Context(table)}
}
