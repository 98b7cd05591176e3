package constraint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// This file has the sequence of a serial column that ALTER TABLE adds (alter.Alteration.Own). The sequence is created
// before the column. The column owns the sequence once the column's default uses it. Dropping the column then drops
// both.

// ColumnSequence is the sequence of a serial column that ALTER TABLE is adding.
type ColumnSequence struct {
	server Server
	own    *alter.OwnedSequence
	table  string // for a cast to regclass
	name   string // SQL name of the sequence; "" if unknown
	made   bool   // created by this statement, and not owned yet
}

// NewColumnSequence returns the ColumnSequence for a column of a table. table is the table's name as SQL.
func NewColumnSequence(server Server, own *alter.OwnedSequence, table string) *ColumnSequence {
	return &ColumnSequence{server: server, own: own, table: table}
}

// Create creates the sequence and returns its SQL name. adding is the column's temporary name. If an earlier ALTER
// TABLE of this kind has left a column of that name, Create uses that column's sequence.
func (d *ColumnSequence) Create(adding string) (name string, err error) {
	var schema, relation string
	err = d.server.Ask(`SELECT s.nspname, c.relname, COALESCE((SELECT pg_catalog.pg_get_serial_sequence(`+quoteLiteral(d.table)+`, a.attname) FROM pg_catalog.pg_attribute a`+
		` WHERE a.attrelid = c.oid AND a.attname = `+quoteLiteral(adding)+` AND NOT a.attisdropped), '')`+
		` FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace WHERE c.oid = `+quoteLiteral(d.table)+`::pg_catalog.regclass`, func(v []string) {
		if len(v) == 3 {
			schema, relation, d.name = v[0], v[1], v[2]
		}
	})
	if err != nil || d.name != "" {
		return d.name, err
	}
	d.name, err = createFreeSequence(d.server, d.own, schema, relation, func(name, _ string) error { return d.server.Ask(d.own.CreateSQL(name), nil) })
	d.made = err == nil
	return d.name, err
}

// SetOwner makes the column the owner of the sequence. table is the table's name as SQL.
func (d *ColumnSequence) SetOwner(table, column string) error {
	own := *d.own
	own.Column = column
	err := d.server.Ask(own.OwnedBySQL(d.name, table), nil)
	d.made = d.made && err != nil
	return err
}

// DropUnowned drops the sequence if no column owns it, and reports whether no sequence is left. The caller drops the
// column before the call.
func (d *ColumnSequence) DropUnowned() bool {
	if !d.made {
		return true
	}
	err := d.server.Ask("DROP SEQUENCE "+d.name, nil)
	told := d.server.RefusalFrom(err)
	d.made = err != nil && (told == nil || !slices.Contains(notThere, told.Code))
	return !d.made
}

// DescribeRemaining returns a sentence for an error, about a sequence that remains, or "" if none does.
func (d *ColumnSequence) DescribeRemaining() string {
	if !d.made {
		return ""
	}
	return fmt.Sprintf("The sequence %s stands.", strings.ReplaceAll(d.name, `"`, ""))
}
