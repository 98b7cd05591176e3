package occ

import (
	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
)

// treeVersion is the version of the parser's trees: PostgreSQL 17's grammar.
const treeVersion = 170007

// parseStatement parses a text that is one statement. ok is false for any other text.
func parseStatement(sql string) (*pg.Node, bool) {
	tree, err := pg.Parse(sql)
	if err != nil || len(tree.Stmts) != 1 {
		return nil, false
	}
	return tree.Stmts[0].Stmt, true
}

// deparse returns a statement's tree as SQL, "" if it fails.
func deparse(node *pg.Node) string {
	sql, err := pg.Deparse(&pg.ParseResult{Version: treeVersion, Stmts: []*pg.RawStmt{{Stmt: node}}})
	if err != nil {
		return ""
	}
	return sql
}

func cloneNode(node *pg.Node) *pg.Node { return proto.Clone(node).(*pg.Node) }

// parseTargets parses an output list, without the word SELECT.
func parseTargets(list string) []*pg.Node {
	node, ok := parseStatement("SELECT " + list)
	if !ok {
		return nil
	}
	return node.GetSelectStmt().TargetList
}
