package parse

// TextClass is the class of a text that ScanWords finds by the text's words.
type TextClass uint8

// These are the classes of texts that ScanWords returns.
const (
	MustParse  TextClass = iota // the text must be parsed
	EmptyText                   // no statement
	SelectText                  // one SELECT; the others are one statement too
	SureText                    // a SELECT that reads no relation and calls nothing
	ValuesText
	InsertText
	UpsertText // with ON CONFLICT DO UPDATE
	UpdateText
	DeleteText
)

// isRead reports whether the text is a SELECT or VALUES.
func (s TextClass) isRead() bool { return s == SelectText || s == ValuesText }

// ScanWords classifies a text by its words, for clients that send a new text each time. A parse costs more than passing
// the text on. ScanWords returns MustParse for a text that must be parsed, and in doubt. ScanWords allocates nothing.
//
// Without a parse, ScanWords classifies texts without a statement, and one SELECT, VALUES, INSERT, UPDATE or DELETE
// without any word that matters for a pin, a classification or a rule. table is the name of the statement's first
// table, for the operation's name, or nil if that is not obvious.
func ScanWords(sql []byte) (shown TextClass, table []byte) {
	s := scanner{Lexer: Lexer{Text: sql}}
	kind := s.Next()
	for kind == PunctToken && sql[s.Start] == ';' {
		kind = s.Next()
	}
	switch kind {
	case EndToken:
		return EmptyText, nil
	case WordToken:
	default:
		return MustParse, nil
	}
	switch word := s.Lexeme(); {
	case IsWord(word, "select"):
		return s.scanRest(SelectText, fromAhead)
	case IsWord(word, "values"):
		return s.scanRest(ValuesText, noTable)
	case IsWord(word, "insert"):
		if s.Next() != WordToken || !IsWord(s.Lexeme(), "into") {
			return MustParse, nil
		}
		return s.scanRest(InsertText, nameAhead)
	case IsWord(word, "update"):
		return s.scanRest(UpdateText, nameAhead)
	case IsWord(word, "delete"):
		return s.scanRest(DeleteText, fromAhead)
	}
	return MustParse, nil
}

// tableSearch is the state of the search of ScanWords for the first table's name.
type tableSearch uint8

const (
	noTable   tableSearch = iota // it is over
	fromAhead                    // FROM comes first
	nameAhead                    // the name is next, or its next part
	nameRead                     // a dot would continue it
)

// prevToken is the kind of the previous token. The kind decides whether a parenthesis after the token makes it a call.
type prevToken uint8

const (
	anything  prevToken = iota
	operand             // ) or ] or $1: a dot here may call a function, (x).f
	aWord               // perhaps a function's name
	aQuoted             // a name in quotes
	qualified           // a dot behind a name
	builtin             // the dot of pg_catalog.
)

// scanner reads the tokens of a statement after its first word, for ScanWords.
type scanner struct {
	Lexer
	shown TextClass     // the result unless a word prevents it
	sure  sureReadCheck // whether it is a sure read

	prev prevToken
	name []byte    // the word of prev
	led  prevToken // the token before that word

	look  tableSearch
	table []byte // the part of its name read so far
	depth int    // of parentheses
}

// scanRest reads the tokens to the end of the text. shown is the class by the first word. look is the state of the
// search for the table.
func (s *scanner) scanRest(shown TextClass, look tableSearch) (TextClass, []byte) {
	s.shown, s.look, s.sure.unsure = shown, look, shown != SelectText
	for {
		switch kind := s.Next(); {
		case kind == EndToken:
			return s.sure.classOf(s.shown), s.table
		case kind == PunctToken && s.Text[s.Start] == ';':
			return classIfTextEnds(&s.Lexer, s.sure.classOf(s.shown)), s.table
		case kind == BadToken || !s.scanToken(kind):
			return MustParse, nil
		}
	}
}

// scanToken reads the next token and reports whether the text's class is still valid.
func (s *scanner) scanToken(kind TokenKind) bool {
	columns := s.look == nameRead && s.shown == InsertText // a parenthesis then holds columns of the table
	if !s.sure.unsure {
		s.sure.checkToken(kind, s.Lexeme())
	}
	if s.look != noTable && s.depth == 0 {
		s.seekTable(kind)
	}
	switch kind {
	case OddToken:
		return false
	case WordToken:
		return s.scanWord()
	case QuotedToken:
		return s.scanQuoted()
	case PunctToken:
		return s.scanPunct(columns)
	case ParamToken:
		s.prev = operand
	default:
		s.prev = anything
	}
	return true
}

// seekTable advances the search for the table by one token outside parentheses.
func (s *scanner) seekTable(kind TokenKind) {
	switch s.look {
	case fromAhead:
		if kind == WordToken && IsWord(s.Lexeme(), "from") {
			s.look = nameAhead
		}
	case nameAhead:
		switch name := s.Lexeme(); {
		case kind == QuotedToken:
			s.look, s.table = nameRead, name[1:len(name)-1]
		case kind != WordToken:
			s.look = noTable
		case !IsWord(name, "only"):
			s.look, s.table = nameRead, name
		}
	case nameRead:
		s.look = noTable
		if kind == PunctToken && s.Text[s.Start] == '.' {
			s.look, s.table = nameAhead, nil
		}
	}
}

// scanWord does the work of scanToken for a word.
func (s *scanner) scanWord() bool {
	word := s.Lexeme()
	if s.shown == InsertText && s.prev == aWord && IsWord(s.name, "do") && IsWord(word, "update") {
		s.shown = UpsertText
	}
	s.led, s.name, s.prev = s.prev, word, aWord
	return !forcesParse(word)
}

// scanQuoted does the work of scanToken for a quoted name. A name in U&"" may be spelt in any way.
func (s *scanner) scanQuoted() bool {
	name := s.Lexeme()
	s.prev = aQuoted
	return name[0] == '"' && !forcesParse(name[1:len(name)-1])
}

// scanPunct does the work of scanToken for a byte of punctuation.
func (s *scanner) scanPunct(columns bool) bool {
	prev := s.prev
	s.prev = anything
	switch s.Text[s.Start] {
	case '(':
		s.depth++
		return columns || s.mayPrecedeParen(prev)
	case ')':
		s.depth--
		s.prev = operand
	case ']':
		s.prev = operand
	case '.':
		s.prev = qualified
		if prev == aWord && s.led != qualified && IsWord(s.name, "pg_catalog") {
			s.prev = builtin
		}
		return prev != operand
	}
	return true
}

// mayPrecedeParen reports whether a parenthesis after the token prev leaves the text one that need not be parsed.
func (s *scanner) mayPrecedeParen(prev prevToken) bool {
	switch prev {
	case aQuoted:
		return false
	case aWord:
		return mayCall(s.led, s.name) || !s.shown.isRead() && precedesColumnList(s.led, s.name)
	}
	return true
}

// mayCall reports whether a word may precede a parenthesis in a query that only reads. led is the token before the
// word.
func mayCall(led prevToken, word []byte) bool {
	switch led {
	case qualified:
		return false
	case builtin:
		return RoleOfWord(word)&Harmless != 0
	case operand:
		if IsWord(word, "over") || IsWord(word, "filter") {
			return true // of a window or an aggregate: f(x) OVER (…)
		}
	}
	return RoleOfWord(word)&Callable != 0
}

// precedesColumnList reports whether a word of a writing statement precedes a list of columns: ON CONFLICT (a),
// SET (a, b).
func precedesColumnList(led prevToken, word []byte) bool {
	return led != qualified && (IsWord(word, "conflict") || IsWord(word, "set"))
}

// forcesParse reports whether a text with this word must be parsed (telltale). For nearly all words first letter and
// length decide, and for most others the third letter.
func forcesParse(word []byte) bool {
	return len(word) > 2 && telltaleLengths[word[0]]>>min(len(word), MaxWord)&1 != 0 && telltaleThirds[word[0]]&thirdLetter(word) != 0 &&
		RoleOfWord(word)&telltale != 0
}

// classIfTextEnds returns the class shown if only semicolons follow, otherwise MustParse.
func classIfTextEnds(l *Lexer, shown TextClass) TextClass {
	for {
		switch kind := l.Next(); {
		case kind == EndToken:
			return shown
		case kind != PunctToken || l.Text[l.Start] != ';':
			return MustParse
		}
	}
}

// IsWord reports whether a word equals lower, in any case.
func IsWord(word []byte, lower string) bool {
	if len(word) != len(lower) {
		return false
	}
	for i, c := range word {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// sureReadCheck decides whether a query certainly only reads, because all its tokens are constants and parameters.
type sureReadCheck struct {
	unsure bool
	word   bool // the last token was a word
}

// checkToken checks one token after the query's first word. After a token that is not sure, checkToken ignores all
// further tokens.
func (p *sureReadCheck) checkToken(kind TokenKind, lexeme []byte) {
	switch kind {
	case WordToken:
		p.unsure = IsWord(lexeme, "from") || IsWord(lexeme, "union") || IsWord(lexeme, "intersect") || IsWord(lexeme, "except") || IsWord(lexeme, "collate")
	case StringToken:
		p.unsure = p.word // type 'constant'
	case NumberToken, ParamToken, EndToken:
	case PunctToken:
		p.unsure = lexeme[0] != ',' && lexeme[0] != ';' && lexeme[0] != '*'
	default:
		p.unsure = true
	}
	p.word = kind == WordToken
}

// classOf returns SureText if all tokens of the query were sure, otherwise shown, the class by the text's first word.
func (p *sureReadCheck) classOf(shown TextClass) TextClass {
	if p.unsure {
		return shown
	}
	return SureText
}
