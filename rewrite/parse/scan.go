package parse

// TextClass is what ScanWords finds out about a text from its words, without a parse.
type TextClass uint8

// These are the classes of texts that ScanWords returns.
const (
	MustParse  TextClass = iota // the words do not decide, and the text must be parsed
	EmptyText                   // the text has no statement
	SelectText                  // one SELECT; the classes below are one statement, too
	SureText                    // one SELECT that reads no relation and calls no function
	ValuesText
	InsertText
	UpsertText // INSERT with ON CONFLICT DO UPDATE
	UpdateText
	DeleteText
)

// isRead reports whether the text is a SELECT or VALUES.
func (s TextClass) isRead() bool { return s == SelectText || s == ValuesText }

// ScanWords classifies a text by its words, because a parse takes longer. Clients that send a new text each time gain
// by it. ScanWords returns MustParse for a text that must be parsed, and in doubt. ScanWords allocates nothing.
//
// Without a parse, ScanWords classifies a text without a statement, and one SELECT, VALUES, INSERT, UPDATE or DELETE.
// The statement must have no word that matters for a pin, a kind or a rule. table is the name of the statement's first
// table, from which the metrics derive a name, or nil if the words do not show the table.
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

// tableSearch says how far ScanWords has come in its search for the name of the statement's first table.
type tableSearch uint8

const (
	noTable   tableSearch = iota // the search has ended
	fromAhead                    // the search waits for the word FROM
	nameAhead                    // the next token is the name or a part of the name
	nameRead                     // the name is complete, if no dot follows
)

// prevToken is the kind of the previous token. It decides whether a parenthesis after the token makes a function call.
type prevToken uint8

const (
	anything  prevToken = iota
	operand             // ) or ] or $1, after which a dot may call a function: (x).f
	aWord               // a word, which may be a function's name
	aQuoted             // a name in quotes
	qualified           // a dot after a name
	builtin             // the dot in "pg_catalog."
)

// scanner reads the tokens of a statement after its first word, for ScanWords.
type scanner struct {
	Lexer
	shown TextClass     // the class that the text has if no later word forces a parse
	sure  sureReadCheck // checks whether the SELECT certainly only reads

	prev prevToken
	name []byte    // if prev is a word, the word
	led  prevToken // the kind of the token before name

	look  tableSearch
	table []byte // the table's name, as far as it was read
	depth int    // the number of open parentheses
}

// scanRest reads the tokens to the end of the text. shown is the class that the first word suggests. look is the state
// of the search for the table's name.
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

// scanToken reads the next token. It returns false if the text must be parsed.
func (s *scanner) scanToken(kind TokenKind) bool {
	columns := s.look == nameRead && s.shown == InsertText // a parenthesis after the name contains columns of the table
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

// seekTable continues the search for the table's name with one token outside of parentheses.
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

// scanQuoted does the work of scanToken for a quoted name. It returns false for U&"", whose escapes can hide a word.
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

// mayPrecedeParen reports whether a text with a parenthesis after the token prev still needs no parse.
func (s *scanner) mayPrecedeParen(prev prevToken) bool {
	switch prev {
	case aQuoted:
		return false
	case aWord:
		return mayCall(s.led, s.name) || !s.shown.isRead() && precedesColumnList(s.led, s.name)
	}
	return true
}

// mayCall reports whether a query that only reads may have a parenthesis after the word. led is the token before the
// word.
func mayCall(led prevToken, word []byte) bool {
	switch led {
	case qualified:
		return false
	case builtin:
		return RoleOfWord(word)&Harmless != 0
	case operand:
		if IsWord(word, "over") || IsWord(word, "filter") {
			return true // the clause after a window function or an aggregate: f(x) OVER (…)
		}
	}
	return RoleOfWord(word)&Callable != 0
}

// precedesColumnList reports whether a list of columns may follow the word in a writing statement: ON CONFLICT (a), SET
// (a, b).
func precedesColumnList(led prevToken, word []byte) bool {
	return led != qualified && (IsWord(word, "conflict") || IsWord(word, "set"))
}

// forcesParse reports whether a text with this word must be parsed (telltale). For speed, it first compares the word's
// first letter, length and third letter. RoleOfWord decides about the few words that remain.
func forcesParse(word []byte) bool {
	return len(word) > 2 && telltaleLengths[word[0]]>>min(len(word), MaxWord)&1 != 0 && telltaleThirds[word[0]]&thirdLetter(word) != 0 &&
		RoleOfWord(word)&telltale != 0
}

// classIfTextEnds returns shown if only semicolons follow, otherwise MustParse.
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

// IsWord reports whether word equals lower if upper and lower case count as equal.
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

// sureReadCheck finds out whether a SELECT certainly only reads: its tokens are constants, parameters and plain words.
type sureReadCheck struct {
	unsure bool
	word   bool // the previous token was a word
}

// checkToken checks one token after the query's first word. The caller does not call it after a token that is unsure.
func (p *sureReadCheck) checkToken(kind TokenKind, lexeme []byte) {
	switch kind {
	case WordToken:
		p.unsure = IsWord(lexeme, "from") || IsWord(lexeme, "union") || IsWord(lexeme, "intersect") || IsWord(lexeme, "except") || IsWord(lexeme, "collate")
	case StringToken:
		p.unsure = p.word // a word before a string may be a type, as in: date '2026-01-01'
	case NumberToken, ParamToken, EndToken:
	case PunctToken:
		p.unsure = lexeme[0] != ',' && lexeme[0] != ';' && lexeme[0] != '*'
	default:
		p.unsure = true
	}
	p.word = kind == WordToken
}

// classOf returns SureText if all tokens of the SELECT were sure. Otherwise it returns shown, the class that the scan
// found.
func (p *sureReadCheck) classOf(shown TextClass) TextClass {
	if p.unsure {
		return shown
	}
	return SureText
}
