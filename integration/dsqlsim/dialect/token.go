package dialect

// tokenKind is the kind of a token, as far as the outline of a text needs it.
type tokenKind uint8

const (
	endOfText tokenKind = iota
	word                // a keyword or an unquoted identifier
	quoted              // "identifier"
	literal             // a string, number or parameter
	operator            // one character of an operator, or a dot
	open                // ( or [
	shut                // ) or ]
	comma
	semicolon
)

// token is the part sql[start:end] of a text.
type token struct {
	kind       tokenKind
	start, end int
}

// lexer splits a text into tokens and skips space and comments. In doubt it returns more tokens than the parser would.
// A string that is not closed ends with the text, without an error.
type lexer struct {
	sql string
	at  int
}

func (l *lexer) nextToken() token {
	l.skipSpace()
	start := l.at
	if start >= len(l.sql) {
		return token{endOfText, start, start}
	}
	kind := l.readToken(l.sql[start])
	return token{kind, start, l.at}
}

// readToken moves past the token that begins with c, and returns its kind.
func (l *lexer) readToken(c byte) tokenKind {
	switch {
	case isLetter(c):
		return l.readWord()
	case c >= '0' && c <= '9':
		l.skipWhile(isNumberPart)
		return literal
	case c == '\'':
		l.readString(false)
		return literal
	case c == '"':
		l.readDelimited('"', false)
		return quoted
	case c == '$':
		l.readDollar()
		return literal
	}
	l.at++
	switch c {
	case '(', '[':
		return open
	case ')', ']':
		return shut
	case ',':
		return comma
	case ';':
		return semicolon
	}
	return operator
}

// readWord reads a word, or a string constant with a prefix such as E, B, X, N, U&.
func (l *lexer) readWord() tokenKind {
	start := l.at
	l.skipWhile(isWordPart)
	if l.at < len(l.sql) && l.sql[l.at] == '\'' && l.at-start == 1 {
		l.readString(l.sql[start]|0x20 == 'e')
		return literal
	}
	return word
}

func (l *lexer) readString(escapes bool) { l.readDelimited('\'', escapes) }

// readDelimited reads up to the closing delimiter; a doubled delimiter is a part of the text.
func (l *lexer) readDelimited(delimiter byte, escapes bool) {
	for l.at++; l.at < len(l.sql); l.at++ {
		switch c := l.sql[l.at]; {
		case escapes && c == '\\':
			l.at++
		case c == delimiter:
			if l.at+1 >= len(l.sql) || l.sql[l.at+1] != delimiter {
				l.at++
				return
			}
			l.at++
		}
	}
	l.at = len(l.sql)
}

// readDollar reads a parameter such as $1, or a string such as $$...$$ and $tag$...$tag$.
func (l *lexer) readDollar() {
	start := l.at
	l.at++
	l.skipWhile(isTagPart)
	if l.at >= len(l.sql) || l.sql[l.at] != '$' || isDigitAt(l.sql, start+1) {
		return
	}
	l.at++
	tag := l.sql[start:l.at]
	for ; l.at < len(l.sql); l.at++ {
		if l.sql[l.at] == '$' && len(l.sql)-l.at >= len(tag) && l.sql[l.at:l.at+len(tag)] == tag {
			l.at += len(tag)
			return
		}
	}
}

func (l *lexer) skipSpace() {
	for l.at < len(l.sql) {
		switch c := l.sql[l.at]; {
		case c == ' ' || c >= '\t' && c <= '\r':
			l.at++
		case c == '-' && l.peekByte(1) == '-':
			for l.at < len(l.sql) && l.sql[l.at] != '\n' {
				l.at++
			}
		case c == '/' && l.peekByte(1) == '*':
			l.skipComment()
		default:
			return
		}
	}
}

// skipComment skips a block comment, nested comments included.
func (l *lexer) skipComment() {
	depth := 0
	for l.at < len(l.sql) {
		switch {
		case l.sql[l.at] == '/' && l.peekByte(1) == '*':
			depth++
			l.at += 2
		case l.sql[l.at] == '*' && l.peekByte(1) == '/':
			depth--
			l.at += 2
			if depth == 0 {
				return
			}
		default:
			l.at++
		}
	}
}

func (l *lexer) peekByte(ahead int) byte {
	if l.at+ahead < len(l.sql) {
		return l.sql[l.at+ahead]
	}
	return 0
}

func (l *lexer) skipWhile(in func(byte) bool) {
	for l.at < len(l.sql) && in(l.sql[l.at]) {
		l.at++
	}
}

func isLetter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}

func isWordPart(c byte) bool   { return isTagPart(c) || c == '$' }
func isTagPart(c byte) bool    { return isLetter(c) || c >= '0' && c <= '9' }
func isNumberPart(c byte) bool { return isTagPart(c) || c == '.' }

func isDigitAt(s string, i int) bool { return i < len(s) && s[i] >= '0' && s[i] <= '9' }
