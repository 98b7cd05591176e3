package rewrite

// Plans of texts that were never parsed. Shared and immutable.
var (
	emptyPlan   = &Plan{Kind: Empty}
	selectPlan  = doubted(told(Read, "select"))
	valuesPlan  = doubted(told(Read, "values"))
	sureSelect  = told(Read, "select")
	insertPlan  = told(Write, "insert")
	upsertPlan  = contending("insert") // ON CONFLICT DO UPDATE
	updatePlan  = contending("update")
	deletePlan  = contending("delete")
	guardedPlan = &Plan{Kind: Unknown, Pin: PinUnparsed}
	// foreignPlan is of a text that PostgreSQL's grammar does not take and that
	// holds no word for anything that would outlast it.
	foreignPlan = &Plan{Kind: Unknown}
)

// told is the plan of a text that its words alone told.
func told(kind Kind, operation string) *Plan {
	return &Plan{Kind: kind, Operation: operation, Statements: []Statement{{Kind: kind, Operation: operation}}}
}

// contending is that of one that changes rows that exist.
func contending(operation string) *Plan {
	plan := told(Write, operation)
	plan.Contends, plan.Statements[0].Contends = true, true
	return plan
}

// doubted says of a plan that its text may write all the same.
func doubted(p *Plan) *Plan {
	p.unsure, p.Statements[0].unsure = true, true
	return p
}

// scan plans a text by its words alone, for clients that send a new text each
// time: a parse costs more than the relay. It returns nil for a text that must
// be parsed, and errs only towards that; it allocates nothing.
//
// What it clears is one SELECT, VALUES, INSERT, UPDATE or DELETE without any
// word that a pin, a classification or a rule needs; and texts without any
// statement. table is what the statement's first table is called, to name the
// operation by; nil when it is not plain to see.
func scan(sql []byte) (plan *Plan, table []byte) {
	l := lexer{text: sql}
	kind := l.next()
	for kind == punctToken && sql[l.start] == ';' {
		kind = l.next()
	}
	switch kind {
	case endToken:
		return emptyPlan, nil
	case wordToken:
	default:
		return nil, nil
	}
	switch word := l.lexeme(); {
	case is(word, "select"):
		return scanRest(&l, selectPlan, fromAhead)
	case is(word, "values"):
		return scanRest(&l, valuesPlan, noTable)
	case is(word, "insert"):
		if l.next() != wordToken || !is(l.lexeme(), "into") {
			return nil, nil
		}
		return scanRest(&l, insertPlan, nameAhead)
	case is(word, "update"):
		return scanRest(&l, updatePlan, nameAhead)
	case is(word, "delete"):
		return scanRest(&l, deletePlan, fromAhead)
	}
	return nil, nil
}

// search is how far the search for the first table's name has come.
type search uint8

const (
	noTable   search = iota // it is over
	fromAhead               // FROM comes first
	nameAhead               // the name is next, or its next part
	nameRead                // a dot would go on with it
)

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
func scanRest(l *lexer, plan *Plan, look search) (*Plan, []byte) {
	reads, inserts := plan.Kind == Read, plan == insertPlan
	var (
		prev = anything
		word []byte // of aWord
		led  before // what stood before that word

		table []byte
		depth int
		sure  = tokens{unsure: plan != selectPlan}
	)
	for {
		kind := l.next()
		columns := inserts && look == nameRead // a parenthesis holds those of the table
		if !sure.unsure && kind != badToken {  // that one has no lexeme
			sure.token(kind, l.lexeme())
		}
		if look != noTable && depth == 0 {
			look, table = look.step(kind, l, table)
		}
		switch kind {
		case endToken:
			return sure.of(plan), table
		case badToken, oddToken:
			return nil, nil
		case wordToken:
			if plan == insertPlan && prev == aWord && is(word, "do") && is(l.lexeme(), "update") {
				plan = upsertPlan
			}
			led, word, prev = prev, l.lexeme(), aWord
			if isTelltale(word) {
				return nil, nil
			}
		case quotedToken:
			name := l.lexeme()
			if name[0] != '"' || isTelltale(name[1:len(name)-1]) {
				return nil, nil // U&"" may be spelt in any way
			}
			prev = aQuoted
		case paramToken:
			prev = operand
		case punctToken:
			switch l.text[l.start] {
			case ';':
				return scanEnd(l, sure.of(plan)), table
			case '(':
				if !columns && (prev == aQuoted || prev == aWord && !mayCall(led, word) && (reads || !lists(led, word))) {
					return nil, nil
				}
				prev = anything
				depth++
			case ')':
				prev = operand
				depth--
			case ']':
				prev = operand
			case '.':
				switch {
				case prev == operand:
					return nil, nil
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

// step takes the search on by one token outside parentheses.
func (s search) step(kind token, l *lexer, table []byte) (search, []byte) {
	switch s {
	case fromAhead:
		if kind == wordToken && is(l.lexeme(), "from") {
			return nameAhead, nil
		}
	case nameAhead:
		switch {
		case kind == quotedToken:
			name := l.lexeme()
			return nameRead, name[1 : len(name)-1]
		case kind != wordToken:
			return noTable, nil
		case !is(l.lexeme(), "only"):
			return nameRead, l.lexeme()
		}
	case nameRead:
		if kind == punctToken && l.text[l.start] == '.' {
			return nameAhead, nil
		}
		return noTable, table
	}
	return s, table
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

// lists reports whether a word of a statement that writes stands before a list of
// columns: ON CONFLICT (a), SET (a, b).
func lists(led before, word []byte) bool {
	return led != qualified && (is(word, "conflict") || is(word, "set"))
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
