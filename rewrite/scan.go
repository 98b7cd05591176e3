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
	caller           // a parenthesis here calls a function that nobody knows
	operand          // ) or ] or $1: a dot here may call a function, (x).f
	catalog          // pg_catalog
	qualified        // a dot behind a name
	builtin          // a dot behind pg_catalog
)

// scanRest reads on behind a statement's first words; plan is the answer when
// nothing speaks against it.
func scanRest(l *lexer, plan *Plan) *Plan {
	reads := plan.Kind == Read // what a writing statement calls changes nothing
	prev := anything
	for {
		switch l.next() {
		case endToken:
			return plan
		case badToken, oddToken:
			return nil
		case wordToken:
			r := roleOf(l.lexeme())
			if r&telltale != 0 {
				return nil
			}
			prev = nameAfter(prev, r, l.lexeme())
		case quotedToken:
			word := l.lexeme()
			if word[0] != '"' || roleOf(word[1:len(word)-1])&telltale != 0 {
				return nil // U&"" or a telltale name
			}
			prev = caller
		case punctToken:
			switch l.text[l.start] {
			case ';':
				return scanEnd(l, plan)
			case '(':
				if reads && (prev == caller || prev == catalog) {
					return nil
				}
				prev = anything
			case ')', ']':
				prev = operand
			case '.':
				switch {
				case reads && prev == operand:
					return nil
				case prev == catalog:
					prev = builtin
				default:
					prev = qualified
				}
			default:
				prev = anything
			}
		case paramToken:
			prev = operand
		default:
			prev = anything
		}
	}
}

// nameAfter classifies a word by its role and by what stood before it.
func nameAfter(prev before, r role, word []byte) before {
	switch {
	case prev == qualified, prev == builtin && r&harmless == 0:
		return caller
	case is(word, "pg_catalog"):
		return catalog
	case r&callable != 0:
		return anything
	case prev == operand && (is(word, "over") || is(word, "filter")):
		return anything // of a window or an aggregate: f(x) OVER (…)
	}
	return caller
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
