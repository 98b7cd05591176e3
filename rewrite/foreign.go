package rewrite

import "github.com/sluice-proxy/sluice/rewrite/parse"

// parseDialect parses a text in PostgreSQL's grammar with what Aurora DSQL adds to
// it: CREATE [UNIQUE] INDEX ASYNC and ALTER TABLE ASYNC. The tree has nothing of
// the word; offsets are those of the text.
func parseDialect(sql string) (parse.Message, error) {
	if blanked := withoutAsync(sql); blanked != "" {
		// First, for an index of no name: to PostgreSQL its name would be async.
		if tree, err := parse.Tree(blanked); err == nil {
			return tree, nil
		}
	}
	return parse.Tree(sql)
}

// withoutAsync blanks every ASYNC behind INDEX or TABLE; "" when there is none.
func withoutAsync(sql string) string {
	if !mentions(sql, "async") {
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
				copy(word, "     ") // offsets stay
				found = true
			}
			object = parse.IsWord(word, "index") || parse.IsWord(word, "table")
		default:
			object = false
		}
	}
}

// mentions reports whether lower-case letters stand anywhere in a text, in any case.
func mentions(sql, lower string) bool {
	for i := 0; i+len(lower) <= len(sql); i++ {
		if sql[i]|0x20 == lower[0] && foldEqual(sql[i:i+len(lower)], lower) {
			return true
		}
	}
	return false
}

// foldEqual compares letters in any case; lower is in small ones.
func foldEqual(text, lower string) bool {
	for i := range len(lower) {
		if text[i]|0x20 != lower[i] {
			return false
		}
	}
	return true
}

// unparsable plans a text that the grammar does not take. The server mostly
// refuses it as well; a newer one may not, so it pins when a word in it could
// leave something in the session.
func unparsable(sql string) *Plan {
	l := parse.Lexer{Text: []byte(sql), UTF8: true}
	for begins := true; ; {
		switch l.Next() {
		case parse.EndToken:
			return foreignPlan
		case parse.BadToken:
			return guardedPlan
		case parse.WordToken:
			r := parse.RoleOf(l.Lexeme())
			if r&parse.Clinging != 0 || begins && r&parse.Stateful != 0 {
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
