package rewrite

import "github.com/sluice-proxy/sluice/rewrite/parse"

// parseDialect parses a text in PostgreSQL's grammar with DSQL's additions: CREATE [UNIQUE] INDEX ASYNC and ALTER TABLE
// ASYNC. The tree does not contain ASYNC. Its offsets are those in sql.
func parseDialect(sql string) (parse.TreeNode, error) {
	if blanked := blankAsync(sql); blanked != "" {
		// The text without ASYNC is parsed first, because PostgreSQL would read ASYNC as the name of the index.
		if tree, err := parse.Tree(blanked); err == nil {
			return tree, nil
		}
	}
	return parse.Tree(sql)
}

// blankAsync replaces every ASYNC after INDEX or TABLE by blanks. It returns "" if the text has none.
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
				copy(word, "     ") // the length stays, so that offsets do not change
				found = true
			}
			object = parse.IsWord(word, "index") || parse.IsWord(word, "table")
		default:
			object = false
		}
	}
}

// containsFold reports whether sql contains lower, in any letter case. lower must be in lower case.
func containsFold(sql, lower string) bool {
	for i := 0; i+len(lower) <= len(sql); i++ {
		if sql[i]|0x20 == lower[0] && foldEqual(sql[i:i+len(lower)], lower) {
			return true
		}
	}
	return false
}

// foldEqual reports whether text equals lower, in any letter case. lower must be in lower case, and as long as text.
func foldEqual(text, lower string) bool {
	for i := range len(lower) {
		if text[i]|0x20 != lower[i] {
			return false
		}
	}
	return true
}

// unparsablePlan returns the plan of a text that violates PostgreSQL's grammar. A newer server may accept the text. If
// a word in it could leave state in the session, the plan therefore has a pin: the session must keep its backend.
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
