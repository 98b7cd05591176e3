package rewrite

import "bytes"

// token is the kind of a lexeme, as far as the guard and the scan must tell
// them apart.
type token uint8

const (
	endToken    token = iota
	badToken          // unterminated, or not surely read as the server reads it
	wordToken         // keyword or name, unquoted
	quotedToken       // "name"
	stringToken       // any kind of constant in quotes
	numberToken       // 1, 1.5; .5 is two tokens
	oddToken          // number or parameter with letters behind it: servers differ
	paramToken        // $1
	operatorToken
	castToken  // ::
	punctToken // any other single byte
)

// maxRestarts bounds the tokens that PostgreSQL's scanner finds in one run of
// operator characters, as in "/**//**/" or "+-+-": it reads on to the run's end
// for each of them, so that 160 KB of those take it 6 s (pg_query 17-6.2.5,
// measured). Nobody writes ten.
const maxRestarts = 64

// lexer splits a text as PostgreSQL's scanner does with
// standard_conforming_strings on. It goes forward only, never backtracks over
// more than a few bytes, and allocates nothing.
type lexer struct {
	text []byte
	pos  int
	// start is where the token begins that ends at pos.
	start int
	// runEnd is where the last run of operator characters ended, comments
	// included; restarts counts the tokens in it.
	runEnd, restarts int
	// utf8 says that the text is valid UTF-8. In other encodings a byte of a
	// character may look like a backslash.
	utf8 bool
}

// Classes of bytes.
const (
	spaceByte = 1 << iota
	nameStart
	nameByte
	operatorByte
	digitByte
)

var classes = func() (c [256]uint8) {
	for _, b := range []byte(" \t\n\r\f\v") {
		c[b] = spaceByte
	}
	for _, b := range []byte("~!@#^&|`?+-*/%<>=") {
		c[b] = operatorByte
	}
	for b := '0'; b <= '9'; b++ {
		c[b] = digitByte | nameByte
	}
	for b := 'a'; b <= 'z'; b++ {
		c[b], c[b-'a'+'A'] = nameStart|nameByte, nameStart|nameByte
	}
	for b := 0x80; b <= 0xff; b++ {
		c[b] = nameStart | nameByte
	}
	c['_'], c['$'] = nameStart|nameByte, nameByte
	return c
}()

// next reads one token. After badToken the position means nothing.
func (l *lexer) next() token {
	if !l.skipBlank() {
		return badToken
	}
	l.start = l.pos
	if l.pos == len(l.text) {
		return endToken
	}
	c := l.text[l.pos]
	switch class := classes[c]; {
	case class&nameStart != 0:
		return l.word(c)
	case class&digitByte != 0:
		return l.number(numberToken)
	case class&operatorByte != 0:
		return l.operator()
	}
	l.pos++
	switch c {
	case '\'':
		return l.quoted('\'', stringToken)
	case '"':
		return l.quoted('"', quotedToken)
	case '$':
		return l.dollar()
	case ':':
		if l.peek() == ':' {
			l.pos++
			return castToken
		}
	case 0:
		return badToken
	}
	return punctToken
}

// lexeme is the text of the token last read.
func (l *lexer) lexeme() []byte { return l.text[l.start:l.pos] }

// peek is the next byte, 0 at the end.
func (l *lexer) peek() byte {
	if l.pos < len(l.text) {
		return l.text[l.pos]
	}
	return 0
}

// skipBlank passes over white space and comments. It reports false for a
// comment without end.
func (l *lexer) skipBlank() bool {
	for l.pos < len(l.text) {
		c := l.text[l.pos]
		switch {
		case classes[c]&spaceByte != 0:
			l.pos++
		case c == '-' && l.opens('-', '-'):
			n := bytes.IndexAny(l.text[l.pos:], "\n\r")
			if n < 0 {
				n = len(l.text) - l.pos
			}
			l.pos += n
		case c == '/' && l.opens('/', '*'):
			if !l.comment() {
				return false
			}
		default:
			return true
		}
	}
	return true
}

// opens reports whether the next two bytes are a and b.
func (l *lexer) opens(a, b byte) bool {
	return l.pos+1 < len(l.text) && l.text[l.pos] == a && l.text[l.pos+1] == b
}

// comment passes over a comment in slashes and stars, which nests.
func (l *lexer) comment() bool {
	for depth := 0; l.pos < len(l.text); {
		switch {
		case l.opens('/', '*'):
			if !l.restart(1) {
				return false
			}
			depth++
			l.pos += 2
			l.runEnd = l.pos
			continue
		case l.opens('*', '/'):
			depth--
			l.pos += 2
			if l.runEnd == l.pos-2 {
				l.runEnd = l.pos
			}
			if depth == 0 {
				return true
			}
			continue
		case l.runEnd == l.pos && classes[l.text[l.pos]]&operatorByte != 0:
			l.runEnd++
		}
		l.pos++
	}
	return false
}

// restart counts n tokens of a run of operator characters, and reports whether
// they still are few.
func (l *lexer) restart(n int) bool {
	if l.runEnd != l.pos {
		l.restarts = 0
	}
	l.restarts += n
	return l.restarts <= maxRestarts
}

// word reads a name, or a constant that begins with letters: E”, B”, X”,
// N”, U&”, U&"".
func (l *lexer) word(first byte) token {
	l.pos++
	switch next := l.peek(); {
	case next == '\'' && (first|0x20 == 'e'):
		l.pos++
		return l.escaped()
	case next == '\'' && (first|0x20 == 'b' || first|0x20 == 'x' || first|0x20 == 'n'):
		l.pos++
		return l.quoted('\'', stringToken)
	case next == '&' && first|0x20 == 'u' && l.opens('&', '\''):
		l.pos += 2
		return l.quoted('\'', stringToken)
	case next == '&' && first|0x20 == 'u' && l.opens('&', '"'):
		l.pos += 2
		return l.quoted('"', quotedToken)
	}
	for l.pos < len(l.text) && classes[l.text[l.pos]]&nameByte != 0 {
		l.pos++
	}
	return wordToken
}

// quoted reads up to the closing quote; two quotes stand for one.
func (l *lexer) quoted(quote byte, kind token) token {
	for {
		n := bytes.IndexByte(l.text[l.pos:], quote)
		if n < 0 {
			return badToken
		}
		l.pos += n + 1
		if l.peek() != quote {
			return kind
		}
		l.pos++
	}
}

// escaped reads an E” constant, in which a backslash takes the next byte along.
// One that goes on behind a line break goes on with escapes.
func (l *lexer) escaped() token {
	for l.pos < len(l.text) {
		c := l.text[l.pos]
		l.pos++
		switch {
		case c >= 0x80 && !l.utf8:
			return badToken
		case c == '\\':
			l.pos = min(l.pos+1, len(l.text)) // it may be the last byte of the text
		case c == '\'' && l.peek() == '\'':
			l.pos++
		case c == '\'':
			end := l.pos
			if !l.skipBlank() {
				return badToken
			}
			if l.pos == end || l.peek() != '\'' {
				l.pos = end
				return stringToken
			}
			if !bytes.ContainsAny(l.text[end:l.pos], "\n\r") {
				return badToken
			}
			l.pos++
		}
	}
	return badToken
}

// number reads digits and whatever clings to them: for a plain number, a point.
func (l *lexer) number(kind token) token {
	for point := kind == numberToken; l.pos < len(l.text); l.pos++ {
		switch c := l.text[l.pos]; {
		case classes[c]&nameStart != 0:
			kind = oddToken
		case c == '.' && point && !l.opens('.', '.'):
			point = false
		case classes[c]&digitByte == 0:
			return kind
		}
	}
	return kind
}

// dollar reads $1, or a constant in dollar quotes.
func (l *lexer) dollar() token {
	if classes[l.peek()]&digitByte != 0 {
		return l.number(paramToken)
	}
	end := l.pos
	for end < len(l.text) && l.text[end] != '$' {
		if c := classes[l.text[end]]; c&nameByte == 0 || end == l.pos && c&nameStart == 0 {
			return punctToken
		}
		end++
	}
	if end == len(l.text) {
		return punctToken
	}
	tag := l.text[l.pos-1 : end+1]
	n := bytes.Index(l.text[end+1:], tag)
	if n < 0 {
		return badToken
	}
	l.pos = end + 1 + n + len(tag)
	return stringToken
}

// operator reads a run of operator characters, up to a comment.
func (l *lexer) operator() token {
	for l.pos < len(l.text) && classes[l.text[l.pos]]&operatorByte != 0 && !l.opens('-', '-') && !l.opens('/', '*') {
		l.pos++
	}
	end := l.pos
	l.pos = l.start
	few := l.restart(operators(l.text[l.start:end]))
	l.pos, l.runEnd = end, end
	if !few {
		return badToken
	}
	return operatorToken
}

// operators is how many operators a run may be: signs at its end are ones of
// their own.
func operators(run []byte) int {
	rest := len(run)
	for rest > 0 && (run[rest-1] == '+' || run[rest-1] == '-') {
		rest--
	}
	return len(run) - rest + min(rest, 1)
}
