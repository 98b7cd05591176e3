package rewrite

import "strings"

// Pieces cuts a text into its statements, in their order: each with what stands between it and the next. Together
// they are the text. One that holds one statement, or that cannot be read, is one piece.
func (p *Planner) Pieces(sql string) []string {
	if strings.IndexByte(sql, ';') < 0 {
		return []string{sql}
	}
	tree, ok := p.read(sql, false)
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
