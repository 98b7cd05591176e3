package rewrite

// Plans of texts that were never parsed. Shared and immutable.
var (
	emptyPlan   = &Plan{Kind: Empty}
	readPlan    = &Plan{Kind: Read, Statements: []Statement{{Kind: Read}}}
	writePlan   = &Plan{Kind: Write, Statements: []Statement{{Kind: Write}}}
	guardedPlan = &Plan{Kind: Unknown, Pin: PinUnparsed}
	// foreignPlan is of a text that PostgreSQL's grammar does not take and that
	// holds no word for anything that would outlast it.
	foreignPlan = &Plan{Kind: Unknown}
)

// scan plans a text by its words alone, for clients that send a new text each
// time: a parse costs more than the relay. It returns nil for a text that must
// be parsed, and errs only towards that; it allocates nothing.
//
// What it clears is one SELECT, VALUES, INSERT, UPDATE or DELETE without any
// word that a pin, a classification or a rule needs; and texts without any
// statement.
func scan(sql []byte) *Plan {
	l := lexer{text: sql}
	kind := l.next()
	for kind == punctToken && sql[l.start] == ';' {
		kind = l.next()
	}
	switch kind {
	case endToken:
		return emptyPlan
	case wordToken:
	default:
		return nil
	}
	switch word := l.lexeme(); {
	case is(word, "select"), is(word, "values"):
		return scanRest(&l, readPlan)
	case is(word, "insert"):
		if l.next() != wordToken || !is(l.lexeme(), "into") {
			return nil
		}
		return scanRest(&l, writePlan)
	case is(word, "update"), is(word, "delete"):
		return scanRest(&l, writePlan)
	}
	return nil
}

// before says what stood before a token, as far as a call is concerned.
type before uint8

const (
	anything  before = iota
	operand          // ) or ] or $1: a dot here may call a function, (x).f
	aWord            // perhaps a function's name
	aQuoted          // a name in quotes
	qualified        // a dot behind a name
	builtin          // the dot of pg_catalog.
)

// scanRest reads on behind a statement's first word; plan is the answer when
// nothing speaks against it.
func scanRest(l *lexer, plan *Plan) *Plan {
	// What a writing statement calls makes it no stronger; telltales apart.
	reads := plan.Kind == Read
	var (
		prev = anything
		word []byte // of aWord
		led  before // what stood before that word
	)
	for {
		switch l.next() {
		case endToken:
			return plan
		case badToken, oddToken:
			return nil
		case wordToken:
			led, word, prev = prev, l.lexeme(), aWord
			if isTelltale(word) {
				return nil
			}
		case quotedToken:
			name := l.lexeme()
			if name[0] != '"' || isTelltale(name[1:len(name)-1]) {
				return nil // U&"" may be spelt in any way
			}
			prev = aQuoted
		case paramToken:
			prev = operand
		case punctToken:
			switch l.text[l.start] {
			case ';':
				return scanEnd(l, plan)
			case '(':
				if reads && (prev == aQuoted || prev == aWord && !mayCall(led, word)) {
					return nil
				}
				prev = anything
			case ')', ']':
				prev = operand
			case '.':
				switch {
				case reads && prev == operand:
					return nil
				case prev == aWord && led != qualified && is(word, "pg_catalog"):
					prev = builtin
				default:
					prev = qualified
				}
			default:
				prev = anything
			}
		default:
			prev = anything
		}
	}
}

// mayCall reports whether a word, led by that, may stand before a parenthesis
// in a query that only reads.
func mayCall(led before, word []byte) bool {
	switch led {
	case qualified:
		return false
	case builtin:
		return roleOf(word)&harmless != 0
	case operand:
		if is(word, "over") || is(word, "filter") {
			return true // of a window or an aggregate: f(x) OVER (…)
		}
	}
	return roleOf(word)&callable != 0
}

// isTelltale reports whether a word is a telltale. For nearly all words their
// first letter and length tell.
func isTelltale(word []byte) bool {
	return len(word) > 0 && telltaleLengths[word[0]]>>min(len(word), maxWord)&1 != 0 && roleOf(word)&telltale != 0
}

// scanEnd returns plan when nothing but semicolons follows.
func scanEnd(l *lexer, plan *Plan) *Plan {
	for {
		switch kind := l.next(); {
		case kind == endToken:
			return plan
		case kind != punctToken || l.text[l.start] != ';':
			return nil
		}
	}
}

// is compares a word with a lower-case one, in any case.
func is(word []byte, lower string) bool {
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
