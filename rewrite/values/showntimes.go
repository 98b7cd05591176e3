package values

import (
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// A client that knows the transaction's time may compare the time with a later answer. Sluice can take the time from
// some answers (TxTimeColumns, Insertion.EachTxTime). For other statements, Sluice must ask the server for the time.

// MayUseTxTime reports whether a text may return or store its transaction's time. It is fast enough to check every
// statement after a savepoint, and has false positives.
func MayUseTxTime(sql []byte) bool {
	named, inserts, _ := timeWords(sql)
	return named || inserts
}

// timeWords finds words in a text. named reports a word for the transaction's time, such as now. inserts reports INSERT
// or MERGE, and returned reports RETURNING after INSERT or MERGE. timeWords stops at the first word for the time.
func timeWords(sql []byte) (named, inserts, returned bool) {
	var small [parse.MaxWord + 1]byte
	for l := (parse.Lexer{Text: sql, UTF8: true}); ; {
		switch l.Next() {
		case parse.EndToken, parse.BadToken:
			return false, inserts, returned
		case parse.WordToken:
			switch word := string(parse.FoldName(small[:0], l.Lexeme())); {
			case parse.TxTimeWords[word]:
				return true, inserts, returned
			case word == "insert", word == "merge":
				inserts = true
			case word == "returning":
				returned = returned || inserts
			}
		case parse.QuotedToken:
			if isQuotedCall(&l, parse.TxTimeWords) {
				return true, inserts, returned
			}
		}
	}
}

// MayHideTxTime reports whether a text's answer may depend on its transaction's time without containing the exact time.
// Answers with a computed time, with rows that may be missing, or of several statements count as not containing it.
func MayHideTxTime(p *rewrite.Planner, sql string, names *schema.NameResolver) bool {
	statements := p.StatementTrees(sql)
	for _, node := range statements {
		tells, shows := returnsTxTime(p, sql, node, names)
		if tells && !(shows && len(statements) == 1) {
			return true
		}
	}
	return false
}

// returnsTxTime reports whether a statement's answer may depend on its transaction's time (tells), and whether a column
// of it certainly is the exact time (shows). shows is set for INSERT ... VALUES ... RETURNING and one-row queries
// without tables.
func returnsTxTime(p *rewrite.Planner, sql string, node parse.TreeNode, names *schema.NameResolver) (tells, shows bool) {
	timed, _, _ := timeWords([]byte(sql))
	switch node.TypeName() {
	case "SelectStmt":
		several := node.Has("from_clause", "where_clause", "having_clause", "limit_count", "limit_offset", "distinct_clause", "group_clause", "locking_clause")
		return timed || returnsTimeDefaults(node, names, 0), timed && !several && len(TxTimeColumns(p, sql)) > 0
	case "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
		if !node.Has("returning_list") {
			return false, false
		}
		in := ParseInsertion(p, sql, names)
		if in == nil {
			return timed || returnsTimeDefaults(node, names, 0), false
		}
		tells = in.returnsExpression && (timed || hasTimeDefault(node.Child("relation"), names))
		in.EachTxTime(func(kind string, _ AnswerCell) { tells, shows = true, shows || IsExactTxTime(kind) })
		return tells, shows && !node.Has("on_conflict_clause")
	}
	return false, false
}

// returnsTimeDefaults reports whether a statement returns rows that it inserts, and the relation has a column whose
// default is the transaction's time.
func returnsTimeDefaults(m parse.TreeNode, names *schema.NameResolver, depth int) bool {
	if depth > maxDepth || (m.Is("InsertStmt") || m.Is("MergeStmt")) && m.Has("returning_list") && hasTimeDefault(m.Child("relation"), names) {
		return true
	}
	for child := range m.Children() {
		if returnsTimeDefaults(child, names, depth+1) {
			return true
		}
	}
	return false
}

// MayReturnTimeOrRows reports whether a text may return its transaction's time or inserted rows. It is fast enough to
// check every multi-statement query, and has false positives.
func MayReturnTimeOrRows(sql []byte) bool {
	named, _, returned := timeWords(sql)
	return named || returned
}
