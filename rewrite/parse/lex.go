package parse

import "bytes"

// TokenKind is the kind of a token, as far as CheckLimits and ScanWords distinguish kinds.
type TokenKind uint8

// These are the kinds of tokens.
const (
	EndToken    TokenKind = iota
	BadToken              // a token without end, or one that servers read differently
	WordToken             // an unquoted keyword or name
	QuotedToken           // a "name" in double quotes
	StringToken           // a constant in quotes, of any kind
	NumberToken           // 1 or 1.5, but .5 is two tokens
	OddToken              // a number or parameter with letters after it, which servers read differently
	ParamToken            // a parameter, such as $1
	OperatorToken
	CastToken  // the cast operator ::
	PunctToken // any other single byte, such as a comma
)

// maxRestarts is the greatest number of tokens in one run of operator characters, such as "/**//**/" or "+-+-". For
// each of these tokens, PostgreSQL's scanner reads to the end of the run: 160 KB took 6 s (pg_query 17-6.2.5). Real
// texts have fewer than ten.
const maxRestarts = 64

// Lexer splits a text into tokens as PostgreSQL's scanner does with standard_conforming_strings on. Lexer reads
// forward, goes back by a few bytes at most, and allocates nothing.
type Lexer struct {
	Text []byte
	Pos  int
	// Start is the byte offset at which the last token starts. The token ends at Pos.
	Start int
	// runEnd is the end of the last run of operator characters and comments. restarts is the number of tokens in that
	// run.
	runEnd, restarts int
	// UTF8 reports that the text is valid UTF-8. In other encodings, a byte within a character may equal a backslash.
	UTF8 bool
}

// These are the classes of bytes that the Lexer distinguishes.
const (
	spaceByte = 1 << iota
	nameStart
	nameByte
	operatorByte
	digitByte
	blankByte // white space, or the first byte of a comment
)

var classes = func() (c [256]uint8) {
	for _, b := range []byte(" \t\n\r\f\v") {
		c[b] = spaceByte | blankByte
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
	c['-'], c['/'] = operatorByte|blankByte, operatorByte|blankByte
	return c
}()

// Next reads one token and returns its kind. After BadToken the position is meaningless.
func (l *Lexer) Next() TokenKind {
	text := l.Text
	if l.Pos < len(text) && text[l.Pos] == ' ' { // most tokens have one blank before them and no comment
		l.Pos++
	}
	if l.Pos < len(text) && classes[text[l.Pos]]&blankByte != 0 && !l.SkipBlank() {
		return BadToken
	}
	l.Start = l.Pos
	if l.Pos == len(text) {
		return EndToken
	}
	c := text[l.Pos]
	switch class := classes[c]; {
	case class&nameStart != 0:
		return l.lexWord(c)
	case class&digitByte != 0:
		return l.lexNumber(NumberToken)
	case class&operatorByte != 0:
		return l.lexOperator()
	}
	l.Pos++
	switch c {
	case '\'':
		return l.lexQuoted('\'', StringToken)
	case '"':
		return l.lexQuoted('"', QuotedToken)
	case '$':
		return l.lexDollar()
	case ':':
		if l.peek() == ':' {
			l.Pos++
			return CastToken
		}
	case 0:
		return BadToken
	}
	return PunctToken
}

// Lexeme returns the text of the token that Next read last.
func (l *Lexer) Lexeme() []byte { return l.Text[l.Start:l.Pos] }

// peek returns the byte at the lexer's position, or 0 at the end of the text.
func (l *Lexer) peek() byte {
	if l.Pos < len(l.Text) {
		return l.Text[l.Pos]
	}
	return 0
}

// SkipBlank skips white space and comments. SkipBlank returns false for a comment without end.
func (l *Lexer) SkipBlank() bool {
	for {
		text, pos := l.Text, l.Pos
		for pos < len(text) && classes[text[pos]]&spaceByte != 0 {
			pos++
		}
		l.Pos = pos
		if pos == len(text) || text[pos] != '-' && text[pos] != '/' {
			return true
		}
		if skipped, ends := l.skipComment(); !skipped || !ends {
			return ends
		}
	}
}

// skipComment skips the comment at the lexer's position, and reports whether there is one. ends is false only for a
// comment without end.
func (l *Lexer) skipComment() (skipped, ends bool) {
	switch {
	case l.nextBytesAre('-', '-'):
		n := bytes.IndexAny(l.Text[l.Pos:], "\n\r")
		if n < 0 {
			n = len(l.Text) - l.Pos
		}
		l.Pos += n
		return true, true
	case l.nextBytesAre('/', '*'):
		return true, l.skipBlockComment()
	}
	return false, true
}

// nextBytesAre reports whether a and b are the next two bytes of the text.
func (l *Lexer) nextBytesAre(a, b byte) bool {
	return l.Pos+1 < len(l.Text) && l.Text[l.Pos] == a && l.Text[l.Pos+1] == b
}

// skipBlockComment skips a comment between /* and */, including nested comments. It returns false for a comment without
// end or with too many tokens.
func (l *Lexer) skipBlockComment() bool {
	for depth := 0; l.Pos < len(l.Text); {
		switch {
		case l.nextBytesAre('/', '*'):
			if !l.countRestarts(1) {
				return false
			}
			depth++
			l.Pos += 2
			l.runEnd = l.Pos
			continue
		case l.nextBytesAre('*', '/'):
			depth--
			l.Pos += 2
			if l.runEnd == l.Pos-2 {
				l.runEnd = l.Pos
			}
			if depth == 0 {
				return true
			}
			continue
		case l.runEnd == l.Pos && classes[l.Text[l.Pos]]&operatorByte != 0:
			l.runEnd++
		}
		l.Pos++
	}
	return false
}

// countRestarts adds n tokens to the current run of operator characters. It reports whether the run has at most
// maxRestarts tokens.
func (l *Lexer) countRestarts(n int) bool {
	if l.runEnd != l.Pos {
		l.restarts = 0
	}
	l.restarts += n
	return l.restarts <= maxRestarts
}

// lexWord reads a name, or a constant that has the letter E, B, X, N or U& before its quotes.
func (l *Lexer) lexWord(first byte) TokenKind {
	text, pos := l.Text, l.Pos+1
	if pos < len(text) && (text[pos] == '\'' || text[pos] == '&') {
		if kind := l.lexPrefixed(first | 0x20); kind != WordToken {
			return kind
		}
	}
	for pos < len(text) && classes[text[pos]]&nameByte != 0 {
		pos++
	}
	l.Pos = pos
	return WordToken
}

// lexPrefixed reads a quoted constant or name after its one-letter prefix. If the letter is no prefix, lexPrefixed
// reads nothing and returns WordToken.
func (l *Lexer) lexPrefixed(letter byte) TokenKind {
	start := l.Pos
	l.Pos++
	switch next := l.peek(); {
	case next == '\'' && letter == 'e':
		l.Pos++
		return l.lexEscapeString()
	case next == '\'' && (letter == 'b' || letter == 'x' || letter == 'n'):
		l.Pos++
		return l.lexQuoted('\'', StringToken)
	case letter == 'u' && l.nextBytesAre('&', '\''):
		l.Pos += 2
		return l.lexQuoted('\'', StringToken)
	case letter == 'u' && l.nextBytesAre('&', '"'):
		l.Pos += 2
		return l.lexQuoted('"', QuotedToken)
	}
	l.Pos = start
	return WordToken
}

// lexQuoted reads a token of this kind up to the closing quote. A doubled quote is a part of the token.
func (l *Lexer) lexQuoted(quote byte, kind TokenKind) TokenKind {
	for {
		n := bytes.IndexByte(l.Text[l.Pos:], quote)
		if n < 0 {
			return BadToken
		}
		l.Pos += n + 1
		if l.peek() != quote {
			return kind
		}
		l.Pos++
	}
}

// lexEscapeString reads a string constant with the prefix E, in which a backslash escapes the next byte. Escapes also
// apply after a line break, if the constant continues on the next line.
func (l *Lexer) lexEscapeString() TokenKind {
	for l.Pos < len(l.Text) {
		c := l.Text[l.Pos]
		l.Pos++
		switch {
		case c >= 0x80 && !l.UTF8:
			return BadToken
		case c == '\\':
			l.Pos = min(l.Pos+1, len(l.Text)) // it may be the last byte of the text
		case c == '\'' && l.peek() == '\'':
			l.Pos++
		case c == '\'':
			end := l.Pos
			if !l.SkipBlank() {
				return BadToken
			}
			if l.Pos == end || l.peek() != '\'' {
				l.Pos = end
				return StringToken
			}
			if !bytes.ContainsAny(l.Text[end:l.Pos], "\n\r") {
				return BadToken
			}
			l.Pos++
		}
	}
	return BadToken
}

// lexNumber reads digits and the letters that follow the digits. For a NumberToken, it also reads one decimal point.
func (l *Lexer) lexNumber(kind TokenKind) TokenKind {
	text, pos := l.Text, l.Pos
	for point := kind == NumberToken; pos < len(text); pos++ {
		class := classes[text[pos]]
		if class&digitByte != 0 {
			continue
		}
		if point && text[pos] == '.' && (pos+1 == len(text) || text[pos+1] != '.') {
			point = false
			continue
		}
		if class&nameStart == 0 {
			break
		}
		kind = OddToken
	}
	l.Pos = pos
	return kind
}

// lexDollar reads a parameter such as $1, or a constant in dollar quotes.
func (l *Lexer) lexDollar() TokenKind {
	if classes[l.peek()]&digitByte != 0 {
		return l.lexNumber(ParamToken)
	}
	end := l.Pos
	for end < len(l.Text) && l.Text[end] != '$' {
		if c := classes[l.Text[end]]; c&nameByte == 0 || end == l.Pos && c&nameStart == 0 {
			return PunctToken
		}
		end++
	}
	if end == len(l.Text) {
		return PunctToken
	}
	tag := l.Text[l.Pos-1 : end+1]
	n := bytes.Index(l.Text[end+1:], tag)
	if n < 0 {
		return BadToken
	}
	l.Pos = end + 1 + n + len(tag)
	return StringToken
}

// lexOperator reads a run of operator characters, which ends before a comment.
func (l *Lexer) lexOperator() TokenKind {
	for l.Pos < len(l.Text) && classes[l.Text[l.Pos]]&operatorByte != 0 && !l.nextBytesAre('-', '-') && !l.nextBytesAre('/', '*') {
		l.Pos++
	}
	end := l.Pos
	l.Pos = l.Start
	few := l.countRestarts(countOperators(l.Text[l.Start:end]))
	l.Pos, l.runEnd = end, end
	if !few {
		return BadToken
	}
	return OperatorToken
}

// countOperators returns the greatest number of operators in a run of operator characters. Each + or - at the end of
// the run may be a separate operator.
func countOperators(run []byte) int {
	rest := len(run)
	for rest > 0 && (run[rest-1] == '+' || run[rest-1] == '-') {
		rest--
	}
	return len(run) - rest + min(rest, 1)
}
