// Package batch carries out an UPDATE or DELETE of more rows than one DSQL transaction may change, in batches. Each
// batch is a transaction of Sluice's own.
//
// A batch selects its rows by the table's primary key and changes them in one snapshot. A batch that finds fewer rows
// than it may change is the last. If the server refuses a batch as too large the next one is smaller, since rows that
// a batch changes in other tables count too.
//
// Cancel, timeout and a client that has left take effect between two batches, so that the number of changed rows is
// known.
package batch

import (
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Rows is the size of the first batch. DSQL allows 3,000 changed rows in a transaction. The difference is for rows that
// a batch changes in other tables.
const Rows = 2900

// Server is the backend of a session that is outside a transaction and idle between calls. After an error for which
// RefusalFrom returns the server's error, the server is idle. Any other error ends the batches.
type Server interface {
	// Ask sends a statement, which commits at once, and calls row with each row of the result. A NULL is passed as "".
	// row may be nil.
	Ask(sql string, row func(values []string)) error
	// Count sends the frames of one statement, which commits at once. Count returns the number of rows in the command tag,
	// which must begin with verb and a space.
	Count(frames []byte, verb string) (rows int, err error)
	// RefusalFrom returns the server's error in err, or nil if err is another error.
	RefusalFrom(err error) *wire.Error
	// CheckMayContinue returns an error if no further batch may begin: after a cancel or timeout, at the end of a
	// drain, or after the client has left.
	CheckMayContinue() error
}

// Update runs UPDATEs of a table until one UPDATE changes fewer rows than it may. Update calls committed after each
// UPDATE, and returns the number of changed rows. next returns an UPDATE of at most rows rows, chosen in the order of
// the columns key. After a conflict that retries did not end, batches are small and grow again. A table without a
// primary key is one batch.
func Update(server Server, table string, next func(key []string, rows int) string, committed func()) (changed int, err error) {
	key, err := keyOf(server, table)
	if err != nil {
		return 0, err
	}
	for rows, most := Rows, Rows; ; {
		if err := server.CheckMayContinue(); err != nil {
			return changed, err
		}
		n, err := server.Count(wire.AppendStrings(nil, wire.Query, next(key, rows)), "UPDATE")
		refusal := server.RefusalFrom(err)
		switch smaller := refusal != nil && rows > 1 && len(key) > 0; {
		case smaller && rewrite.IsSizeLimitError(refusal.Code, []byte(refusal.Message)):
			rows /= 2
			most = rows
			continue
		case smaller && refusal.Code == retry.StateConflict:
			rows = max(rows/16, 1)
			continue
		case err != nil:
			return changed, err
		}
		changed += n
		committed()
		if len(key) == 0 || n < rows {
			return changed, nil
		}
		rows = min(2*rows, most)
	}
}

// keyOf returns the columns of a table's primary key in order, or none if the table has no key.
func keyOf(server Server, table string) (columns []string, err error) {
	const query = `SELECT a.attname FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_attribute a ` +
		`ON a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey) WHERE c.contype = 'p' AND c.conrelid = %s::pg_catalog.regclass ` +
		`ORDER BY pg_catalog.array_position(c.conkey, a.attnum)`
	err = server.Ask(fmt.Sprintf(query, parse.QuoteLiteral(table)), func(values []string) { columns = append(columns, values...) })
	return columns, err
}
