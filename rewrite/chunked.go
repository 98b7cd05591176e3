package rewrite

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/sluice-proxy/sluice/rewrite/bytea"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// DELETEs of more rows than a transaction of DSQL may change: which of them may be carried
// out in batches, and the text of a batch. A relay asks when the server has refused the
// statement.

// Chunked is a DELETE that may be carried out in batches, each a transaction of its own: its
// condition holds for the same rows of the table in all of them, but for what others change.
type Chunked struct {
	// Table names the table for a cast to regclass: quoted, and qualified where the text is.
	Table string

	// truncates is the TRUNCATE that it is of, whose tables each has; nil for a DELETE.
	truncates *Truncation
	each      []*Chunked

	head      string // up to WHERE, which it includes
	condition string
	tree      parse.Message
}

// lazyChunked holds the form in batches once it was asked for.
type lazyChunked struct {
	once sync.Once
	form *Chunked
}

// ChunkedKey is the configuration key that lists the tables.
const ChunkedKey = "rewrite.chunked_delete"

// Hints for the client of a DELETE that changes too many rows: of a table that is not
// listed, of one that cannot be carried out in batches, and of one that was not sent alone.
const (
	ChunkedUnlistedHint = "List the table under " + ChunkedKey + ": a DELETE that is sent alone outside of a transaction is then carried out in batches. Or delete at most 3,000 rows at a time."
	ChunkedOtherHint    = ChunkedKey + " is for DELETE FROM table WHERE with comparisons of its columns with constants or parameters, joined by AND. Delete at most 3,000 rows at a time."
	ChunkedAloneHint    = "Send the DELETE alone outside of a transaction: it is then carried out in batches (" + ChunkedKey + ")."
)

// LimitsRows reports whether an error of the server's says that a transaction changes too
// many rows.
func LimitsRows(code string, message []byte) bool {
	return code == "54000" && string(message) == "transaction row limit exceeded"
}

// LimitsSize reports whether an error of the server's says that a transaction changes too many
// rows, or too much of them.
func LimitsSize(code string, message []byte) bool {
	return LimitsRows(code, message) || code == "54000" && strings.HasPrefix(string(message), "transaction size limit ")
}

// mayList reports whether a plan that the words alone told may be that of a DELETE from a
// table that is listed: then the text must be parsed. table is its name as it is written.
func (r *Rules) mayList(plan *Plan, table []byte) bool {
	if len(r.Chunked) == 0 || len(plan.Statements) != 1 || !plan.Statements[0].Deletes() {
		return false
	}
	name := strings.ToLower(string(table))
	return name == "" || slices.ContainsFunc(r.Chunked, func(pattern string) bool {
		return glob(strings.ToLower(pattern[strings.LastIndexByte(pattern, '.')+1:]), name)
	})
}

// Deletes reports whether a statement is a DELETE, as its operation tells.
func (st *Statement) Deletes() bool {
	return st.Kind == Write && (st.Operation == "delete" || strings.HasPrefix(st.Operation, "delete_"))
}

// Listed reports whether the plan is that of a single DELETE from a table of Rules.Chunked.
func (p *Plan) Listed() bool { return p.listed }

// list notes in the plan of a text whether it is a DELETE from a table that is listed.
func (r *Rules) list(sql string, tree parse.Message, plan *Plan) {
	st := plan.Single()
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

// Chunked is the form in batches of a plan of this planner; nil for one that has none. It is
// made when it is first asked for.
func (p *Planner) Chunked(plan *Plan) *Chunked {
	if !plan.listed {
		return nil
	}
	plan.chunked.once.Do(func() {
		if t := plan.Statements[0].Truncation; t != nil {
			plan.chunked.form = t.chunked()
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
		plan.chunked.form = chunkedOf(text)
	})
	return plan.chunked.form
}

// chunkedOf makes the form in batches of a text that the parser takes.
func chunkedOf(text string) *Chunked {
	tree, err := parse.Tree(text)
	if err != nil {
		return nil
	}
	plan, parts := build(text, tree)
	if len(parts) != 1 || !parts[0].node.Is("DeleteStmt") {
		return nil
	}
	node, st := parts[0].node, &plan.Statements[0]
	table := node.Child("relation")
	if !plainDelete(node, table) || !lasting(node.Child("where_clause"), table.Text("relname")) {
		return nil
	}
	c := &Chunked{tree: tree, Table: parse.Identifier(table.Text("relname"))}
	if schema := table.Text("schemaname"); schema != "" {
		c.Table = parse.Identifier(schema) + "." + c.Table
	}
	ph := parse.LexPhrase([]byte(text), st.Start, st.End)
	for i := range ph.Tokens {
		if ph.Word(i, "where") { // a reserved word, and nothing in front of it holds a query
			end := int(ph.Tokens[i].End)
			c.head, c.condition = text[st.Start:end], text[end:st.End]
			return c
		}
	}
	return nil
}

// plainDelete reports whether a DELETE has nothing but a table by its own name, and a
// condition.
func plainDelete(node, table parse.Message) bool {
	for _, clause := range []string{"using_clause", "returning_list", "with_clause"} {
		if len(node.Values(clause)) > 0 {
			return false
		}
	}
	return len(node.Values("where_clause")) > 0 && table.Child("alias").Shape == nil && table.Flag("inh") &&
		table.Text("catalogname") == ""
}

// lasting reports whether a condition is a conjunction of comparisons of columns of the
// table with constants, whose value is the same whenever it is asked for.
func lasting(m parse.Message, table string) bool {
	switch {
	case m.Is("BoolExpr") && m.Integer("boolop") == int(parse.AND_EXPR):
		for arg := range m.List("args") {
			if !lasting(arg, table) {
				return false
			}
		}
		return true
	case m.Is("A_Expr"):
		return comparison(m, table)
	}
	return false
}

// comparison reports whether an expression compares a column of the table with constants.
func comparison(m parse.Message, table string) bool {
	left, right, names := m.Child("lexpr"), m.Child("rexpr"), m.Names("name")
	if len(names) != 1 {
		return false
	}
	switch parse.A_Expr_Kind(m.Integer("kind")) {
	case parse.AEXPR_OP:
		switch names[0] {
		case "=", "<", ">", "<=", ">=", "<>":
			return isOwn(left, table) && isLasting(right) || isLasting(left) && isOwn(right, table)
		}
	case parse.AEXPR_IN:
		return names[0] == "=" && isOwn(left, table) && areLasting(right)
	case parse.AEXPR_BETWEEN:
		return isOwn(left, table) && areLasting(right)
	}
	return false
}

// isOwn reports a column that can be none but the table's.
func isOwn(m parse.Message, table string) bool {
	if !m.Is("ColumnRef") {
		return false
	}
	names := m.Names("fields")
	if len(names) != len(m.Values("fields")) {
		return false
	}
	return len(names) == 1 || len(names) == 2 && names[0] == table
}

// areLasting reports a list of nothing but constants.
func areLasting(list parse.Message) bool {
	if !list.Is("List") {
		return false
	}
	for item := range list.List("items") {
		if !isLasting(item) {
			return false
		}
	}
	return true
}

// isLasting reports a parameter or a constant, with casts or not, and the hexadecimal digits
// of one: their value does not depend on when it is asked for.
func isLasting(m parse.Message) bool {
	for m.Is("TypeCast") {
		m = m.Child("arg")
	}
	switch {
	case m.Is("ParamRef"):
		return true
	case m.Is("A_Const"):
		return !Momentary([]byte(m.Child("sval").Text("sval")))
	case m.Is("FuncCall"):
		operand, ok := bytea.HexOperand(m)
		return ok && !operand.Kind().Is("FuncCall") && isLasting(operand.Kind())
	}
	return false
}

// Momentary reports whether a text has a word by which a date or time is told from the
// clock: what it means changes while batches run.
func Momentary(text []byte) bool {
	for word := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		switch strings.ToLower(word) {
		case "now", "today", "tomorrow", "yesterday":
			return true
		}
	}
	return false
}

// Batches is told the columns of the table's primary key, and returns the text of a batch of
// so many rows, with the parameters of the client's. ok is false where that text would not
// mean the client's condition, and nothing may be run.
func (c *Chunked) Batches(key []string) (batch func(rows int) string, ok bool) {
	columns := make([]string, len(key))
	for i, name := range key {
		columns[i] = parse.Identifier(name)
	}
	list := strings.Join(columns, ", ")
	batch = func(rows int) string {
		// The condition stands inside only: beside the keys it would have planners that expect
		// few rows go through the query once for each of them. One statement sees one snapshot,
		// so that it holds for all that is deleted. A comment may end it: so does the line.
		return fmt.Sprintf("%s (%s) IN (SELECT %s FROM %s WHERE (%s\n) ORDER BY %s LIMIT %d)",
			c.head, list, list, c.Table, c.condition, list, rows)
	}
	return batch, len(key) > 0 && (c.truncates != nil || c.verified(batch(1)))
}

// Truncation is the TRUNCATE that is carried out; nil for a DELETE. Its tables are those of Each,
// in the order of the statement.
func (c *Chunked) Truncation() *Truncation { return c.truncates }

// Each are the batches of its tables; of a DELETE there is one.
func (c *Chunked) Each() []*Chunked {
	if c.truncates == nil {
		return []*Chunked{c}
	}
	return c.each
}

// verified reports whether a batch is the client's statement with another condition, which
// picks rows of the same table by the client's.
func (c *Chunked) verified(text string) bool {
	tree, err := parse.Tree(text)
	if err != nil {
		return false
	}
	node, made := c.tree.Child("stmts").Child("stmt"), tree.Child("stmts").Child("stmt")
	if !made.Is("DeleteStmt") || !made.Child("where_clause").Is("SubLink") {
		return false
	}
	meant := parse.Intents{}
	meant.Set(node, "where_clause", made.Values("where_clause")...)
	query := made.Child("where_clause").Child("subselect")
	return meant.Equal(node, made) && query.Is("SelectStmt") &&
		parse.Intents{}.Equal(query.Child("from_clause"), node.Child("relation")) &&
		parse.Intents{}.Equal(query.Child("where_clause"), node.Child("where_clause"))
}
