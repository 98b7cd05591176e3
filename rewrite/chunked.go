package rewrite

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-proxy/sluice/rewrite/bytea"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// A DELETE that changes more rows than DSQL allows in a transaction can run in batches. Sluice runs batches only after
// the server has refused the whole DELETE.

// BatchedDelete is a DELETE that Sluice may run in batches, each in its own transaction. The DELETE's condition selects
// the same rows in every transaction, except for changes by other sessions.
type BatchedDelete struct {
	// Table is the SQL name of the DELETE's table, for a cast to regclass. It has the schema if the text has one.
	Table string

	// truncates is the TRUNCATE that the batches replace, or nil. For a TRUNCATE, each has one BatchedDelete per table.
	truncates *Truncation
	each      []*BatchedDelete

	head      string // the text of the DELETE up to and including WHERE
	condition string
	tree      parse.TreeNode
}

// lazyBatchedDelete holds a plan's BatchedDelete, which Planner.BatchedDelete builds at its first call.
type lazyBatchedDelete struct {
	once sync.Once
	form *BatchedDelete
}

// ChunkedKey is the configuration key that sets Rules.Chunked.
const ChunkedKey = "rewrite.chunked_delete"

// These are hints for a client whose DELETE exceeds the row limit of a transaction. In this order, they are for a table
// outside of Rules.Chunked, and for a DELETE that cannot run in batches. The last two are for a DELETE inside a block,
// and for one beside other statements.
const (
	ChunkedUnlistedHint = "List the table under " + ChunkedKey + ": a DELETE that is sent alone outside of a transaction is then carried out in batches. Or delete at most 3,000 rows at a time."
	ChunkedOtherHint    = ChunkedKey + " is for DELETE FROM table WHERE with comparisons of its columns with constants or parameters, joined by AND. Delete at most 3,000 rows at a time."
	ChunkedSeveralHint  = "Send the DELETE alone outside of a transaction: for a table under " + ChunkedKey + " it is then carried out in batches. Or delete at most 3,000 rows at a time."
	ChunkedAloneHint    = "Send the DELETE alone outside of a transaction, by the extended protocol with its Sync in the same write and no Flush: it is then carried out in batches (" + ChunkedKey + ")."
)

// IsRowLimitError reports whether a server error says that a transaction changes too many rows.
func IsRowLimitError(code string, message []byte) bool {
	return code == "54000" && string(message) == "transaction row limit exceeded"
}

// IsSizeLimitError reports whether a server error says that a transaction changes too many rows, or too many bytes.
func IsSizeLimitError(code string, message []byte) bool {
	return IsRowLimitError(code, message) || code == "54000" && strings.HasPrefix(string(message), "transaction size limit ")
}

// mayBeBatched reports whether a plan, which Sluice made without a parse, may be a DELETE from a table of
// Rules.Chunked. Sluice must then parse the text. table is the table's name in the text.
func (r *Rules) mayBeBatched(plan *Plan, table []byte) bool {
	if len(r.Chunked) == 0 || len(plan.Statements) != 1 || !plan.Statements[0].IsDelete() {
		return false
	}
	name := strings.ToLower(string(table))
	return name == "" || slices.ContainsFunc(r.Chunked, func(pattern string) bool {
		return glob(strings.ToLower(pattern[strings.LastIndexByte(pattern, '.')+1:]), name)
	})
}

// IsDelete reports whether the statement is a DELETE.
func (st *Statement) IsDelete() bool {
	return st.Kind == Write && (st.Operation == "delete" || strings.HasPrefix(st.Operation, "delete_"))
}

// MayRunInBatches reports whether the plan is a single DELETE from a table of Rules.Chunked, or a TRUNCATE that may run
// in batches.
func (p *Plan) MayRunInBatches() bool { return p.listed }

// markBatchCandidate sets Plan.listed for a single DELETE from a table of Rules.Chunked. It also sets Plan.listed for a
// TRUNCATE that may run in batches.
func (r *Rules) markBatchCandidate(sql string, tree parse.TreeNode, plan *Plan) {
	st := plan.SingleStatement()
	if st != nil && st.Truncation != nil && r.Truncate == TruncateBatches && plan.Text != "" {
		plan.listed, plan.source = true, sql
		return
	}
	if len(r.Chunked) == 0 || st == nil || !tree.Child("stmts").Child("stmt").Is("DeleteStmt") {
		return
	}
	target := tree.Child("stmts").Child("stmt").Child("relation")
	name := target.Text("relname")
	if schema := target.Text("schemaname"); schema != "" {
		name = schema + "." + name
	}
	if matchesAny(r.Chunked, name) {
		plan.listed, plan.source = true, sql
	}
}

// BatchedDelete returns the batches of a plan of this planner, or nil if the plan has none. The first call builds them.
func (p *Planner) BatchedDelete(plan *Plan) *BatchedDelete {
	if !plan.listed {
		return nil
	}
	plan.chunked.once.Do(func() {
		if t := plan.Statements[0].Truncation; t != nil {
			plan.chunked.form = t.batchedDelete()
			return
		}
		text := plan.source
		if plan.Text != "" {
			text = plan.Text
		}
		if len(text) >= heavyBytes {
			p.heavy.Lock()
			defer p.heavy.Unlock()
		}
		plan.chunked.form = newBatchedDelete(text)
	})
	return plan.chunked.form
}

// newBatchedDelete returns the batches of a DELETE, or nil if the DELETE cannot run in batches.
func newBatchedDelete(text string) *BatchedDelete {
	tree, err := parse.Tree(text)
	if err != nil {
		return nil
	}
	plan, parts := buildPlan(text, tree)
	if len(parts) != 1 || !parts[0].node.Is("DeleteStmt") {
		return nil
	}
	node, st := parts[0].node, &plan.Statements[0]
	table := node.Child("relation")
	if !isPlainDelete(node, table) || !isStableCondition(node.Child("where_clause"), table.Text("relname")) {
		return nil
	}
	c := &BatchedDelete{tree: tree, Table: parse.QuoteIdent(table.Text("relname"))}
	if schema := table.Text("schemaname"); schema != "" {
		c.Table = parse.QuoteIdent(schema) + "." + c.Table
	}
	ph := parse.LexTokens([]byte(text), st.Start, st.End)
	for i := range ph.Tokens {
		if ph.IsKeyword(i, "where") { // WHERE is a reserved word, and no subquery can precede it here
			end := int(ph.Tokens[i].End)
			c.head, c.condition = text[st.Start:end], text[end:st.End]
			return c
		}
	}
	return nil
}

// isPlainDelete reports whether a DELETE has only a table without an alias, and a condition.
func isPlainDelete(node, table parse.TreeNode) bool {
	for _, clause := range []string{"using_clause", "returning_list", "with_clause"} {
		if len(node.Values(clause)) > 0 {
			return false
		}
	}
	return len(node.Values("where_clause")) > 0 && table.Child("alias").Shape == nil && table.Flag("inh") &&
		table.Text("catalogname") == ""
}

// isStableCondition reports whether a condition selects the same rows each time it runs. The condition must consist of
// comparisons of the table's columns with constants, joined by AND.
func isStableCondition(m parse.TreeNode, table string) bool {
	switch {
	case m.Is("BoolExpr") && m.Integer("boolop") == int(parse.AND_EXPR):
		for arg := range m.List("args") {
			if !isStableCondition(arg, table) {
				return false
			}
		}
		return true
	case m.Is("A_Expr"):
		return isStableComparison(m, table)
	}
	return false
}

// isStableComparison reports whether an expression compares a column of the table with constants that do not change.
func isStableComparison(m parse.TreeNode, table string) bool {
	left, right, names := m.Child("lexpr"), m.Child("rexpr"), m.Names("name")
	if len(names) != 1 {
		return false
	}
	switch parse.A_Expr_Kind(m.Integer("kind")) {
	case parse.AEXPR_OP:
		switch names[0] {
		case "=", "<", ">", "<=", ">=", "<>":
			return isOwnColumn(left, table) && isStableConstant(right) || isStableConstant(left) && isOwnColumn(right, table)
		}
	case parse.AEXPR_IN:
		return names[0] == "=" && isOwnColumn(left, table) && areStableConstants(right)
	case parse.AEXPR_BETWEEN:
		return isOwnColumn(left, table) && areStableConstants(right)
	}
	return false
}

// isOwnColumn reports whether m is a column reference that can only mean a column of the table.
func isOwnColumn(m parse.TreeNode, table string) bool {
	if !m.Is("ColumnRef") {
		return false
	}
	names := m.Names("fields")
	if len(names) != len(m.Values("fields")) {
		return false
	}
	return len(names) == 1 || len(names) == 2 && names[0] == table
}

// areStableConstants reports whether list is a list of constants that do not depend on the time.
func areStableConstants(list parse.TreeNode) bool {
	if !list.Is("List") {
		return false
	}
	for item := range list.List("items") {
		if !isStableConstant(item) {
			return false
		}
	}
	return true
}

// isStableConstant reports whether m is a parameter, or a constant whose value does not depend on the time. m may be
// cast, or converted to hexadecimal digits.
func isStableConstant(m parse.TreeNode) bool {
	for m.Is("TypeCast") {
		m = m.Child("arg")
	}
	switch {
	case m.Is("ParamRef"):
		return true
	case m.Is("A_Const"):
		return !parse.ContainsTimeWord([]byte(m.Child("sval").Text("sval")))
	case m.Is("FuncCall"):
		operand, ok := bytea.HexOperand(m)
		return ok && !operand.NodeContent().Is("FuncCall") && isStableConstant(operand.NodeContent())
	}
	return false
}

// BatchBuilder returns the function batch, which builds the DELETE of at most rows rows. key lists the columns of the
// table's primary key. The DELETE has the parameters of the client's DELETE. ok is false if the DELETE would not have
// the meaning of the client's condition, so that no batch may run.
func (c *BatchedDelete) BatchBuilder(key []string) (batch func(rows int) string, ok bool) {
	columns := make([]string, len(key))
	for i, name := range key {
		columns[i] = parse.QuoteIdent(name)
	}
	list := strings.Join(columns, ", ")
	batch = func(rows int) string {
		// The condition is in the subquery only. If it also were beside the key list, a planner that expects few rows
		// might run the subquery once for each row. One statement sees one snapshot, so the condition holds for all
		// deleted rows. The newline ends a comment at the end of the condition.
		return fmt.Sprintf("%s (%s) IN (SELECT %s FROM %s WHERE (%s\n) ORDER BY %s LIMIT %d)",
			c.head, list, list, c.Table, c.condition, list, rows)
	}
	return batch, len(key) > 0 && (c.truncates != nil || c.verifiesBatch(batch(1)))
}

// Truncation returns the TRUNCATE that the batches replace, or nil for a DELETE. PerTable has its tables in order.
func (c *BatchedDelete) Truncation() *Truncation { return c.truncates }

// PerTable returns one BatchedDelete for each table of a TRUNCATE. For a DELETE, it returns c alone.
func (c *BatchedDelete) PerTable() []*BatchedDelete {
	if c.truncates == nil {
		return []*BatchedDelete{c}
	}
	return c.each
}

// verifiesBatch reports whether text deletes from the client's table, and only rows that meet the client's condition.
func (c *BatchedDelete) verifiesBatch(text string) bool {
	tree, err := parse.Tree(text)
	if err != nil {
		return false
	}
	node, made := c.tree.Child("stmts").Child("stmt"), tree.Child("stmts").Child("stmt")
	if !made.Is("DeleteStmt") || !made.Child("where_clause").Is("SubLink") {
		return false
	}
	meant := parse.TreeChanges{}
	meant.Set(node, "where_clause", made.Values("where_clause")...)
	query := made.Child("where_clause").Child("subselect")
	return meant.Equal(node, made) && query.Is("SelectStmt") &&
		parse.TreeChanges{}.Equal(query.Child("from_clause"), node.Child("relation")) &&
		parse.TreeChanges{}.Equal(query.Child("where_clause"), node.Child("where_clause"))
}
