package rewrite

import "strings"

// SplitStatements cuts a text into pieces, one for each statement. All pieces together are the text. A text of one
// statement, or one that Sluice cannot parse, is one piece.
func (p *Planner) SplitStatements(sql string) []string {
	if strings.IndexByte(sql, ';') < 0 {
		return []string{sql}
	}
	tree, ok := p.parseGuarded(sql, false)
	if !ok {
		return []string{sql}
	}
	var pieces []string
	start, first := 0, true
	for raw := range tree.List("stmts") {
		if !first {
			at := raw.Integer("stmt_location")
			pieces, start = append(pieces, sql[start:at]), at
		}
		first = false
	}
	return append(pieces, sql[start:])
}
