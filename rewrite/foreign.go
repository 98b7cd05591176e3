package rewrite

import "github.com/sluice-proxy/sluice/rewrite/parse"

// parseDialect parses a text in PostgreSQL's grammar and DSQL's additions: CREATE [UNIQUE] INDEX ASYNC and ALTER TABLE
// ASYNC. The tree does not contain ASYNC. Its offsets are those of the text.
func parseDialect(sql string) (parse.TreeNode, error) {
	if blanked := blankAsync(sql); blanked != "" {
		// The first parse is of the text without ASYNC, which PostgreSQL would read as an index name.
		if tree, err := parse.Tree(blanked); err == nil {
			return tree, nil
		}
	}
	return parse.Tree(sql)
}

// blankAsync replaces every ASYNC after INDEX or TABLE by blanks. blankAsync returns "" if the text has none.
func blankAsync(sql string) string {
	if !containsFold(sql, "async") {
		return ""
	}
	blanked := []byte(sql)
	l := parse.Lexer{Text: blanked, UTF8: true}
	found := false
	for object := false; ; {
		switch l.Next() {
		case parse.EndToken:
			if !found {
				return ""
			}
			return string(blanked)
		case parse.BadToken:
			return ""
		case parse.WordToken:
			word := l.Lexeme()
			if object && parse.IsWord(word, "async") {
				copy(word, "     ") // same length, so that offsets are unchanged
				found = true
			}
			object = parse.IsWord(word, "index") || parse.IsWord(word, "table")
		default:
			object = false
		}
	}
}

// containsFold reports whether sql contains the text lower, whose letters are lower-case, in any case.
func containsFold(sql, lower string) bool {
	for i := 0; i+len(lower) <= len(sql); i++ {
		if sql[i]|0x20 == lower[0] && foldEqual(sql[i:i+len(lower)], lower) {
			return true
		}
	}
	return false
}

// foldEqual reports whether text equals lower in any case. lower must be lower-case.
func foldEqual(text, lower string) bool {
	for i := range len(lower) {
		if text[i]|0x20 != lower[i] {
			return false
		}
	}
	return true
}

// unparsablePlan returns the plan of a text that is not PostgreSQL's grammar. A newer server may accept the text. The
// plan therefore pins the session to its backend if a word in the text could leave state in the session.
func unparsablePlan(sql string) *Plan {
	l := parse.Lexer{Text: []byte(sql), UTF8: true}
	for begins := true; ; {
		switch l.Next() {
		case parse.EndToken:
			return foreignPlan
		case parse.BadToken:
			return guardedPlan
		case parse.WordToken:
			r := parse.RoleOfWord(l.Lexeme())
			if r&parse.StatefulAnywhere != 0 || begins && r&parse.Stateful != 0 {
				return guardedPlan
			}
			begins = false
		case parse.PunctToken:
			begins = sql[l.Start] == ';'
		default:
			begins = false
		}
	}
}
