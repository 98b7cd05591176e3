package batch

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// The server gets a TRUNCATE as a DELETE (rewrite.Truncation). The client gets the tag TRUNCATE TABLE. It never sees
// the number of rows, which may differ in a replay.
//
// The DELETE itself checks, in its own snapshot, whether the tables may be truncated. So Sluice caches nothing of a
// catalog that others may change, and sends no query first. The DELETE works in blocks, multi-statement queries and
// pipelines. An error of the check contains the reason, and becomes PostgreSQL's error here.
//
// If a transaction cannot delete all rows and batches are allowed, Delete deletes them table by table. Tables that
// refer to other tables of the statement come first.

// TruncateError returns the client's error in place of payload, the error of a TRUNCATE's DELETE, or nil.
func TruncateError(st *rewrite.Statement, payload []byte) *wire.Error {
	r := st.Truncation.TruncationRefusal(string(retry.ErrorField(payload, 'C')), string(retry.ErrorField(payload, 'M')))
	if r == nil {
		return nil
	}
	return &wire.Error{Code: r.Code, Message: r.Message, Detail: r.Detail, Hint: r.Hint}
}

// isTooLarge reports whether a TRUNCATE failed for changing too many rows in a transaction.
func isTooLarge(payload []byte) bool {
	return rewrite.IsSizeLimitError(string(retry.ErrorField(payload, 'C')), retry.ErrorField(payload, 'M'))
}

// IsTruncateTooLarge reports whether a TRUNCATE, alone in its text, failed for changing too many rows in a transaction.
func IsTruncateTooLarge(plan *rewrite.Plan, payload []byte) bool {
	if plan == nil || plan.SingleStatement() == nil || plan.SingleStatement().Truncation == nil {
		return false
	}
	return isTooLarge(payload)
}

// TruncateHint returns the hint for a TRUNCATE of more rows than one transaction may change, or "". st may be nil. In a
// block, and with other statements, no batch may commit.
func TruncateHint(st *rewrite.Statement, payload []byte) string {
	switch {
	case st == nil || st.Truncation == nil || !isTooLarge(payload):
		return ""
	case st.Truncation.Batches:
		return "Send TRUNCATE alone outside of a transaction, by the extended protocol with its Sync in the same write and no Flush: more rows than one may change are then deleted in batches (" + rewrite.TruncateKey + ")."
	}
	return "Set " + rewrite.TruncateKey + " to batches: a TRUNCATE that is sent alone outside of a transaction is then carried out in several. Or DELETE at most 3,000 rows at a time."
}

// InUse returns PostgreSQL's error for a TRUNCATE of a table that reader may read. The reader is the statement of an
// open cursor or portal with its text, or nil if unknown. The result is nil if reader reads none of the tables. In
// PostgreSQL only the portal of a query uses its tables until it is closed. isTable reports whether a name is
// certainly a table's.
func InUse(p *rewrite.Planner, truncate, reader *rewrite.Statement, text string, isTable func(name string) bool) *wire.Error {
	if reader != nil && reader.Operation != "select" && !strings.HasPrefix(reader.Operation, "select_") {
		return nil
	}
	e := &wire.Error{Code: "55006"}
	inUse := func(table string) *wire.Error {
		e.Message = "cannot TRUNCATE \"" + unqualified(table) + "\" because it is being used by active queries in this session"
		return e
	}
	if tables, known := tablesOf(p, reader, text); known {
		for _, table := range truncate.Tables {
			if slices.ContainsFunc(tables, func(read string) bool { return unqualified(read) == unqualified(table) }) {
				return inUse(table)
			}
		}
		if !reader.Calls && !slices.ContainsFunc(tables, func(read string) bool { return !isTable(read) }) {
			return nil
		}
	}
	e.Detail, e.Hint = "An open cursor or portal may read the table: its query calls a function, or names what is not known to be a table.", "Close the cursor or portal first, or end the transaction."
	return inUse(truncate.Tables[0])
}

// tablesOf returns the relations that a statement names, in the form of rewrite.Statement.Tables. A statement planned
// without a parse has no such list, so tablesOf parses its text. known is false for an unknown or unparsed statement.
func tablesOf(p *rewrite.Planner, st *rewrite.Statement, text string) (tables []string, known bool) {
	switch {
	case st == nil:
		return nil, false
	case st.End != 0:
		return st.Tables, true
	}
	trees := p.StatementTrees(text)
	for _, tree := range trees {
		tables = appendTables(tables, tree)
	}
	return tables, len(trees) == 1
}

// appendTables appends the relations in a parse tree. The parser bounds the tree's depth.
func appendTables(tables []string, m parse.TreeNode) []string {
	if m.Is("RangeVar") {
		name := m.Text("relname")
		if schema := m.Text("schemaname"); schema != "" {
			name = schema + "." + name
		}
		return append(tables, name)
	}
	for child := range m.Children() {
		tables = appendTables(tables, child)
	}
	return tables
}

// unqualified returns the name of a relation without its schema.
func unqualified(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
