package rewrite

// dialect plans the statements that Aurora DSQL adds to PostgreSQL's grammar:
// CREATE [UNIQUE] INDEX ASYNC and ALTER TABLE ASYNC. It returns nil for others.
func dialect(sql string) *Plan {
	blanked := []byte(sql)
	l := lexer{text: blanked, utf8: true}
	found := false
	for object := false; ; {
		switch l.next() {
		case endToken:
			if !found {
				return nil
			}
			tree, err := parseTree(string(blanked))
			if err != nil {
				return nil
			}
			return build(sql, tree)
		case badToken:
			return nil
		case wordToken:
			word := l.lexeme()
			if object && is(word, "async") {
				copy(word, "     ") // offsets stay
				found = true
			}
			object = is(word, "index") || is(word, "table")
		default:
			object = false
		}
	}
}

// unparsable plans a text that the grammar does not take. The server mostly
// refuses it as well; a newer one may not, so it pins when a word in it could
// leave something in the session.
func unparsable(sql string) *Plan {
	l := lexer{text: []byte(sql), utf8: true}
	for begins := true; ; {
		switch l.next() {
		case endToken:
			return foreignPlan
		case badToken:
			return guardedPlan
		case wordToken:
			r := roleOf(l.lexeme())
			if r&clinging != 0 || begins && r&stateful != 0 {
				return guardedPlan
			}
			begins = false
		case punctToken:
			begins = sql[l.start] == ';'
		default:
			begins = false
		}
	}
}
