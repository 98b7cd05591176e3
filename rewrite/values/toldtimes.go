package values

import (
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// Which statements tell their client the time of the transaction: a client that was told it may compare with
// what it is told next. Of some that time can be taken from the answer (Instants, Insertion.Times); of others
// it has to be asked for.

// MayUseTime reports whether a text may tell the time of its transaction, or store that: a quick look, made for
// each statement behind a savepoint.
func MayUseTime(sql []byte) bool {
	named, inserts, _ := timeWords(sql)
	return named || inserts
}

// timeWords reports whether a text names the time of its transaction, and whether it may insert rows, and may
// return such.
func timeWords(sql []byte) (named, inserts, returned bool) {
	var small [parse.MaxWord + 1]byte
	for l := (parse.Lexer{Text: sql, UTF8: true}); ; {
		switch l.Next() {
		case parse.EndToken, parse.BadToken:
			return false, inserts, returned
		case parse.WordToken:
			switch word := string(parse.Fold(small[:0], l.Lexeme())); {
			case parse.Periods[word]:
				return true, inserts, returned
			case word == "insert", word == "merge":
				inserts = true
			case word == "returning":
				returned = returned || inserts
			}
		}
	}
}

// HidesTime reports whether the answer of a text may tell the time of its transaction, and that time cannot
// be taken from it: it is told by an expression, or in rows of which there may be none. A text of several
// statements is looked through as one.
func HidesTime(p *rewrite.Planner, sql string, names *schema.Names) bool {
	statements := p.Statements(sql)
	for _, node := range statements {
		tells, shows := tellsTime(p, sql, node, names)
		if tells && !(shows && len(statements) == 1) {
			return true
		}
	}
	return false
}

// tellsTime reports whether a statement may tell the time, and whether it surely shows the very time where that
// is looked for: in the columns that an INSERT ... VALUES returns, or in the only row of a query without tables.
func tellsTime(p *rewrite.Planner, sql string, node parse.Message, names *schema.Names) (tells, shows bool) {
	timed, _, _ := timeWords([]byte(sql))
	switch node.Name() {
	case "SelectStmt":
		several := node.Has("from_clause", "where_clause", "having_clause", "limit_count", "limit_offset", "distinct_clause", "group_clause", "locking_clause")
		return timed || returnsStored(node, names, 0), timed && !several && len(Instants(p, sql)) > 0
	case "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
		if !node.Has("returning_list") {
			return false, false
		}
		in := InsertionOf(p, sql, names)
		if in == nil {
			return timed || returnsStored(node, names, 0), false
		}
		tells = in.expresses && (timed || fillsTime(node.Child("relation"), names))
		in.Times(func(kind string, _ Cell) { tells, shows = true, shows || Instant(kind) })
		return tells, shows && !node.Has("on_conflict_clause")
	}
	return false, false
}

// returnsStored reports whether a statement returns rows that it inserts into what has a column that is filled with
// the time.
func returnsStored(m parse.Message, names *schema.Names, depth int) bool {
	if depth > deepest || (m.Is("InsertStmt") || m.Is("MergeStmt")) && m.Has("returning_list") && fillsTime(m.Child("relation"), names) {
		return true
	}
	for child := range m.Nodes() {
		if returnsStored(child, names, depth+1) {
			return true
		}
	}
	return false
}

// MayTell reports whether a text of several statements may tell its client the time of its transaction, or what it
// inserts: a quick look.
func MayTell(sql []byte) bool {
	named, _, returned := timeWords(sql)
	return named || returned
}
